"""The worker's own suites, against the worker that is here. Names and promises: tests/fixtures/spec/acceptance.toml."""

import asyncio
import logging
import os
import threading
from pathlib import Path

import pytest

from events import events as e
from events import facts as f
from events.payloads import Command, EnvironmentVariable
from events.reasons import DisconnectReason, KillCause, RunResult
from streams.cli.worker_run import properties_of
from streams.client import FactPublisher
from streams.errors import LogUnavailable
from streams.memory_log import MemoryLog
from streams.placements import ActionPlaced
from streams.worker.capacity import Amounts, Ledger
from streams.worker.commands import Admitted, Evicted, KillRequested
from streams.worker.executors import ProcessExecutor
from streams.worker.process import ProcessRun
from streams.worker.protocol import Connect, Identity, Publish, RunReport, StartRun, StopRun, WorkerProtocol
from streams.worker.secret_source import SecretSource
from tests.streams.scheduling import events_in, scheduler, serving, until, worker

C1, C2 = 11, 22
SOUND = Admitted(C1, (), 10_000_000)


def serving_worker() -> WorkerProtocol:
    one = WorkerProtocol(Identity("main", "w1", 7, (("cpu_millis", "4000"),)), Ledger(Amounts(4000, 1000), 0))
    one.connect(C1, 0)
    one.command(SOUND, 0)
    return one


def placed(dispatch_id: int) -> ActionPlaced:
    return ActionPlaced("main", dispatch_id, "c", dispatch_id, "w1", C1, requirements=(("cpu_millis", "1000"),))


def said(outputs: list[object], kind: type) -> list[object]:
    return [each for each in outputs if isinstance(each, kind)]


def run_of(root: Path, *argv: str, env: tuple[EnvironmentVariable, ...] = ()) -> ProcessRun:
    return ProcessRun(7, Command(argv, env), root=root, secrets=SecretSource(), path=os.environ["PATH"], grace_s=0.3)


def test_platform_properties_smoke():
    found = properties_of(("os=mac", "zone=a"), Amounts(4000, 1000))
    assert found == (("cpu_millis", "4000"), ("memory_kib", "1000"), ("os", "mac"), ("zone", "a"))


def test_reconnect_on_server_disconnect():
    one = serving_worker()
    outputs = one.command(Evicted(C1, DisconnectReason.TIMEOUT), 0)
    assert said(outputs, Connect)
    (again,) = said(one.connect(C2, 0), Publish)
    assert isinstance(again.fact, f.WorkerConnected)
    assert (again.fact.properties, again.fact.boot_epoch, again.fact.connection_id) == (
        (("cpu_millis", "4000"),),
        7,
        C2,
    )


def test_kill_all_called_on_disconnect():
    one = serving_worker()
    for dispatch_id in (5, 6):
        assert said(one.placement(placed(dispatch_id), 0), StartRun)
    outputs = one.command(Evicted(C1, DisconnectReason.TIMEOUT), 0)
    assert sorted(each.dispatch_id for each in said(outputs, StopRun)) == [5, 6]


def test_reconnects_when_action_stuck_in_transit_on_disconnect():
    one = serving_worker()
    one.placement(placed(5), 0)
    one.command(Evicted(C1, DisconnectReason.TIMEOUT), 0)
    (again,) = said(one.connect(C2, 0), Publish)  # at once, though the run has not ended
    assert again.fact.running == (5,)
    one.command(Admitted(C2, (), 10_000_000), 0)
    assert said(one.placement(placed(6)._replace(connection_id=C2), 0), StartRun)


def test_disconnect_with_action_in_transit_reconnects():
    one = WorkerProtocol(Identity("main", "w1", 7, (("cpu_millis", "4000"),)), Ledger(Amounts(4000, 1000), 0))
    one.connect(C1, 0)
    assert one.placement(placed(5), 0) == []  # read before its admission
    one.command(Evicted(C1, DisconnectReason.TIMEOUT), 0)
    assert said(one.connect(C2, 0), Publish)
    assert said(one.command(Admitted(C2, (), 10_000_000), 0), StartRun) == []
    assert not one.stopped


async def test_simple_worker_start_action(tmp_path: Path):
    executor = ProcessExecutor(SecretSource(), root=tmp_path / "root")
    async with scheduler() as log, serving(log, worker(), executor=executor), FactPublisher(log) as publisher:
        name = await publisher.queue(argv=["/bin/sh", "-c", "pwd; touch x; exit 4"], requirements={"cpu_millis": 1000})
        finished = await publisher.wait(name, timeout_s=20)
        assert finished.exit_code == 4
        (event,) = events_in(log, e.OperationFinished)
        assert event.stdout_tail.decode().strip().startswith(str(tmp_path / "root"))
        assert len(events_in(log, e.OperationAccepted)) == 1
        assert list((tmp_path / "root").iterdir()) == [], "the directory of the run is gone"


def test_new_local_worker_creates_work_directory(tmp_path: Path):
    report = run_of(tmp_path / "not" / "there", "/bin/pwd").run()
    assert (report.result, report.stdout_tail.decode().strip()) == (RunResult.EXITED, str(tmp_path / "not/there/7"))


def test_new_local_worker_removes_work_directory_before_start(tmp_path: Path):
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "left-over").touch()
    assert run_of(tmp_path, "ls", "-A").run().stdout_tail == b""


def test_kill_action_request_kills_action(tmp_path: Path):
    one = serving_worker()
    for dispatch_id in (5, 6):
        one.placement(placed(dispatch_id), 0)
    outputs = one.command(KillRequested(C1, 5, KillCause.CANCELLED), 0)
    assert [each.dispatch_id for each in said(outputs, StopRun)] == [5]
    (report,) = said(one.run_ended(5, RunReport(RunResult.KILLED)), Publish)
    assert (report.fact.dispatch_id, report.fact.result) == (5, RunResult.KILLED)

    started, run = tmp_path / "started", run_of(tmp_path, "/bin/sh", "-c", f"touch {tmp_path}/started; sleep 600")
    reports: list[RunReport] = []
    thread = threading.Thread(target=lambda: reports.append(run.run()))
    thread.start()
    while not started.exists():
        assert thread.is_alive()
        threading.Event().wait(0.01)
    run.stop()
    thread.join(20)
    assert reports[0].result is RunResult.KILLED


@pytest.mark.parametrize(
    ("argv", "env"),
    [(("no-such-program-here",), ()), (("true",), (EnvironmentVariable("A", secret="absent"),))],
)
def test_cas_not_found_returns_failed_precondition(tmp_path: Path, argv, env):
    report = run_of(tmp_path, *argv, env=env).run()
    assert report.result is RunResult.FAILED_PRECONDITION
    assert argv[0] in report.message or "absent" in report.message


def test_non_cas_not_found_returns_internal_error(tmp_path: Path):
    (tmp_path / "file").touch()
    report = run_of(tmp_path / "file" / "below", "true").run()
    assert report.result is RunResult.INTERNAL_ERROR


async def test_keep_alive_fail_logs(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    publish, failures = MemoryLog.publish, 1

    async def failing(log: MemoryLog, partition: object, records: object) -> list[int]:
        nonlocal failures
        task = asyncio.current_task()
        if failures and task is not None and task.get_name() == "keepalives":
            failures -= 1
            raise LogUnavailable("publish", address="memory", waited_ms=1)
        return await publish(log, partition, records)

    monkeypatch.setattr(MemoryLog, "publish", failing)
    caplog.set_level(logging.WARNING, logger="headway.worker")
    async with scheduler(worker_timeout_s=1) as log, serving(log, worker()) as runtime:
        await until(lambda: runtime.stats.keepalives >= 2)
        assert failures == 0
    assert any("a keepalive did not reach the log" in record.getMessage() for record in caplog.records)
