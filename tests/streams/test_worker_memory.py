"""Memory of runs: what a process group uses, and that a run which uses more than it reserved is stopped and says so."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from events import events as e
from events import facts
from events.payloads import Command
from events.reasons import RequeueCause, RunResult
from streams.client import FactPublisher
from streams.placements import ActionPlaced
from streams.worker.capacity import Amounts, Ledger
from streams.worker.executors import ProcessExecutor
from streams.worker.memory import GroupMemory
from streams.worker.process import MemoryLimit, ProcessRun
from streams.worker.protocol import Identity, Publish, RunReport, WorkerProtocol
from streams.worker.secret_source import SecretSource
from tests.streams.scheduling import events_in, scheduler, serving, worker

pytestmark = pytest.mark.skipif(not GroupMemory.is_possible(), reason="this machine does not show what processes use")

DEADLINE_S = 30.0
TAKE_MIB = "import sys, time; held = b'x' * ({mib} << 20); print('took', flush=True); time.sleep({s})"


def run_of(root: Path, script: str, limit_kib: int, **options: object) -> RunReport:
    run = ProcessRun(
        7,
        Command((sys.executable, "-I", "-S", "-c", script)),
        root=root,
        secrets=SecretSource(),
        path=os.environ["PATH"],
        memory=MemoryLimit(limit_kib, GroupMemory()),
        **options,  # type: ignore[arg-type]
    )
    return run.run()


def test_a_run_over_its_reservation_is_killed_and_reported_with_its_peak(tmp_path: Path) -> None:
    report = run_of(tmp_path, TAKE_MIB.format(mib=200, s=600), limit_kib=100 << 10)
    assert report.result is RunResult.OUT_OF_MEMORY
    assert report.exit_code == -9
    # It may have been caught while it still took more.
    assert 100 << 10 < report.usage.peak_memory_kib < 400 << 10
    said = re.fullmatch(r"it used (\d+) KiB and had reserved 102400 KiB", report.message)
    assert said is not None
    assert 100 << 10 < int(said[1]) <= report.usage.peak_memory_kib


def test_a_run_below_its_reservation_ends_by_itself(tmp_path: Path) -> None:
    report = run_of(tmp_path, TAKE_MIB.format(mib=50, s=0.6), limit_kib=200 << 10)
    assert (report.result, report.exit_code, report.message) == (RunResult.EXITED, 0, "")
    assert report.usage.peak_memory_kib >= 50 << 10


def test_what_children_take_counts(tmp_path: Path) -> None:
    child = TAKE_MIB.format(mib=80, s=600)
    script = f"import subprocess, sys\nfor _ in range(2): last = subprocess.Popen([sys.executable, '-c', {child!r}])\nlast.wait()"
    report = run_of(tmp_path, script, limit_kib=140 << 10)
    assert report.result is RunResult.OUT_OF_MEMORY


def test_pages_that_forked_children_share_count_once(tmp_path: Path) -> None:
    script = (
        "import os, time\nheld = b'x' * (80 << 20)\n"
        "children = [os.fork() for _ in range(1)]\n"
        "time.sleep(0.8)\n"
        "if children[0]: os.waitpid(children[0], 0)"
    )
    report = run_of(tmp_path, script, limit_kib=130 << 10)
    assert (report.result, report.exit_code) == (RunResult.EXITED, 0)


def test_a_stop_is_still_reported_as_one(tmp_path: Path) -> None:
    report = run_of(tmp_path, TAKE_MIB.format(mib=1, s=600), limit_kib=1 << 30, timeout_us=300_000)
    assert report.result is RunResult.TIMED_OUT


def stat_file(proc: Path, pid: int, name: str, group: int, pages: int) -> None:
    (proc / str(pid)).mkdir(parents=True)
    fields = ["S", "1", str(group), *["0"] * 18, str(pages), "0"]
    (proc / str(pid) / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}")


def test_groups_are_summed_whatever_processes_are_called(tmp_path: Path) -> None:
    page_kib = os.sysconf("SC_PAGE_SIZE") // 1024
    stat_file(tmp_path, 10, "a", 10, 5)
    stat_file(tmp_path, 11, ") R 1 99 (", 10, 7)
    stat_file(tmp_path, 12, "b", 12, 100)
    (tmp_path / "self").mkdir()
    (tmp_path / "11" / "smaps_rollup").write_text("x\nRss: 9 kB\nPss: 3 kB\n")
    memory = GroupMemory(tmp_path)
    assert memory.resident_kib(10) == 12 * page_kib
    assert memory.proportional_kib(10) == 5 * page_kib + 3
    assert memory.resident_kib(99) == 0


def test_one_look_serves_all_runs_until_it_is_old(tmp_path: Path) -> None:
    now_s = 0.0
    page_kib = os.sysconf("SC_PAGE_SIZE") // 1024
    memory = GroupMemory(tmp_path, fresh_s=0.2, monotonic_s=lambda: now_s)
    assert memory.resident_kib(5) == 0
    stat_file(tmp_path, 5, "late", 5, 4)
    now_s = 0.1
    assert memory.resident_kib(5) == 0
    now_s = 0.2
    assert memory.resident_kib(5) == 4 * page_kib


@pytest.mark.parametrize(("asked_kib", "ends"), [(40 << 10, RunResult.OUT_OF_MEMORY), (0, RunResult.EXITED)])
async def test_the_executor_limits_a_run_to_what_its_action_asked_for(asked_kib: int, ends: RunResult) -> None:
    executor = ProcessExecutor(SecretSource(), memory=GroupMemory())
    asked = (("memory_kib", str(asked_kib)),) if asked_kib else ()
    command = Command((sys.executable, "-I", "-S", "-c", TAKE_MIB.format(mib=90, s=1)))
    reports: asyncio.Queue[RunReport] = asyncio.Queue()
    try:
        placed = ActionPlaced("main", 1, "c", 5, "w1", 7, requirements=asked, command=command)
        executor.start(placed, lambda _, report: reports.put_nowait(report))
        report = await asyncio.wait_for(reports.get(), DEADLINE_S)
    finally:
        await executor.close()
    assert report.result is ends


async def test_a_run_that_was_killed_for_memory_goes_on_with_a_larger_reservation() -> None:
    argv = [sys.executable, "-I", "-S", "-c", TAKE_MIB.format(mib=90, s=0.6)]
    executor = ProcessExecutor(SecretSource(), memory=GroupMemory())
    async with (
        scheduler(memory_escalation={"percent": 400}) as log,
        serving(log, worker(memory_kib=1 << 20), executor=executor),
        FactPublisher(log) as publisher,
    ):
        name = await publisher.queue(argv=argv, requirements={"cpu_millis": 1000, "memory_kib": 50 << 10})
        finished = await publisher.wait(name, timeout_s=DEADLINE_S)
        requeued = [event for event in events_in(log, e.OperationRequeued) if isinstance(event, e.OperationRequeued)]
    assert finished.succeeded
    assert [(event.cause, event.escalations, event.job_failures) for event in requeued] == [
        (RequeueCause.ESCALATED, 1, 0)
    ]


@pytest.mark.parametrize("admits", [True, False])
def test_a_worker_says_whether_it_admits_when_idle(admits: bool) -> None:
    identity = Identity("main", "w1", 1, (), admits_when_idle=admits)
    worker = WorkerProtocol(identity, Ledger(Amounts(1000, 1000)))
    (connect,) = worker.connect(7, 0)
    assert isinstance(connect, Publish)
    assert isinstance(connect.fact, facts.WorkerConnected)
    assert connect.fact.admits_when_idle is admits
