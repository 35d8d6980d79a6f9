"""The supervisor: restarts with growing pauses, stops in order, kills what does not end, leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from streams.supervisor import Part, Patience, Supervisor
from tests.streams.deciding import until

PYTHON = (sys.executable, "-c")
QUICK = Patience(first_back_off_s=0.01, longest_back_off_s=0.04, settled_s=60, grace_s=5)

BLOCKED = (
    "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]); print('up', flush=True); "
    "signal.sigwait([signal.SIGTERM]); print('down', flush=True)"
)

DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); signal.pause()"


def part(name: str, program: str) -> Part:
    return Part(name, [program], dict(os.environ))


class Run:
    """A supervisor at work, what it said, and its parts' logs."""

    def __init__(self, directory: Path, *parts: Part, patience: Patience = QUICK) -> None:
        self.said: list[str] = []
        self.directory = directory
        self.supervisor = Supervisor(
            parts, log_directory=directory, say=self.said.append, patience=patience, command=PYTHON
        )
        self.stop = asyncio.Event()
        self.task = asyncio.create_task(self.supervisor.run(self.stop))

    def log(self, name: str) -> str:
        path = self.directory / f"{name}.log"
        return path.read_text() if path.exists() else ""

    async def end(self) -> None:
        self.stop.set()
        await asyncio.wait_for(self.task, 30)


async def test_a_part_that_crashes_is_said_with_its_last_lines_and_started_again(tmp_path: Path) -> None:
    run = Run(
        tmp_path, part("lives", BLOCKED), part("crashes", "print('my last words', flush=True); raise SystemExit(7)")
    )
    await until(lambda: run.supervisor.restarts.get("crashes", 0) >= 4)
    await until(lambda: "up" in run.log("lives"))
    assert run.supervisor.restarts.get("lives", 0) == 0
    crashes = [line for line in run.said if line.startswith("crashes ended with exit code 7")]
    assert [line.split("again in ")[1] for line in crashes[:4]] == ["0.0 s", "0.0 s", "0.0 s", "0.0 s"]
    assert "  crashes | my last words" in run.said
    await run.end()
    assert run.log("lives") == "up\ndown\n"


async def test_pauses_double_up_to_the_longest(tmp_path: Path) -> None:
    patience = Patience(first_back_off_s=0.1, longest_back_off_s=0.3, settled_s=60, grace_s=5)
    run = Run(tmp_path, part("crashes", "raise SystemExit(1)"), patience=patience)
    await until(lambda: run.supervisor.restarts.get("crashes", 0) >= 4)
    pauses = [line.split("again in ")[1] for line in run.said if "again in" in line]
    assert pauses[:4] == ["0.1 s", "0.2 s", "0.3 s", "0.3 s"]
    await run.end()


async def test_a_killed_part_is_said_with_its_signal(tmp_path: Path) -> None:
    run = Run(tmp_path, part("lives", BLOCKED))
    await until(lambda: "up" in run.log("lives"))
    run.supervisor.processes["lives"].kill()
    await until(lambda: run.log("lives").count("up") == 2)
    assert any(line.startswith("lives was ended by SIGKILL") for line in run.said)
    await run.end()


async def test_parts_are_stopped_in_the_reverse_order(tmp_path: Path) -> None:
    note = "import time, pathlib; pathlib.Path({!r}).write_text(str(time.monotonic()))"
    parts = [part(name, f"{BLOCKED}; {note.format(str(tmp_path / name))}") for name in ("first", "second")]
    run = Run(tmp_path, *parts)
    await until(lambda: "up" in run.log("first") and "up" in run.log("second"))
    await run.end()
    assert float((tmp_path / "second").read_text()) < float((tmp_path / "first").read_text())


async def test_a_part_that_ends_before_its_turn_is_not_started_again(tmp_path: Path) -> None:
    """Ctrl-C in a terminal reaches all processes of the group, the parts as well."""
    run = Run(
        tmp_path, part("first", BLOCKED), part("deaf", DEAF), patience=Patience(first_back_off_s=0.01, grace_s=0.5)
    )
    await until(lambda: "up" in run.log("first") and "up" in run.log("deaf"))
    run.stop.set()
    run.supervisor.processes["first"].terminate()
    await run.end()
    assert run.supervisor.restarts == {}
    assert run.log("first") == "up\ndown\n"


async def test_a_part_that_does_not_end_is_killed_and_that_is_said(tmp_path: Path) -> None:
    run = Run(tmp_path, part("deaf", DEAF), patience=Patience(grace_s=0.2))
    await until(lambda: "up" in run.log("deaf"))
    pid = run.supervisor.processes["deaf"].pid
    await run.end()
    assert any("deaf did not end within" in line for line in run.said)
    assert not psutil.pid_exists(pid)


async def test_a_part_that_cannot_be_started_at_all_ends_the_others(tmp_path: Path) -> None:
    supervisor = Supervisor([Part("none", [])], log_directory=tmp_path, say=print, command=["/nonexistent/program"])
    with pytest.raises(FileNotFoundError):
        await asyncio.wait_for(supervisor.run(asyncio.Event()), 30)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills the children of a killed process")
def test_a_supervisor_that_is_killed_leaves_no_child_behind(tmp_path: Path) -> None:
    program = f"""
import asyncio, os, sys
from pathlib import Path
from streams.supervisor import Part, Supervisor
parts = [Part(f"child{{number}}", [{DEAF!r}], dict(os.environ)) for number in range(2)]
supervisor = Supervisor(parts, log_directory=Path({str(tmp_path)!r}), say=print, command={PYTHON!r})
asyncio.run(supervisor.run(asyncio.Event()))
"""
    process = subprocess.Popen([sys.executable, "-c", program])
    try:
        deadline = time.monotonic() + 30
        while not all(
            (tmp_path / f"child{number}.log").exists() and (tmp_path / f"child{number}.log").read_text()
            for number in range(2)
        ):
            assert time.monotonic() < deadline
            assert process.poll() is None
        children = psutil.Process(process.pid).children()
        assert len(children) == 2
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    _, alive = psutil.wait_procs(children, timeout=10)
    assert not alive
