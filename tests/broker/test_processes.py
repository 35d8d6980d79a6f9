"""A process is known by pid, start time and arguments; a pid that was given out again is not trusted."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import psutil
import pytest

from streams.broker.endpoint import BrokerFailed
from streams.broker.processes import ProcessMark, find, search, start_detached, stop

DEADLINE_S = 30

STUBBORN = (
    "import signal,sys,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)"
)
PLAIN = "import time; print('ready', flush=True); time.sleep(600)"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "out.log"


@pytest.fixture
def started(tmp_path: Path, log: Path) -> Iterator[ProcessMark]:
    yield from _started(PLAIN, tmp_path, log)


def _started(program: str, tmp_path: Path, log: Path) -> Iterator[ProcessMark]:
    mark = start_detached([sys.executable, "-c", program, str(tmp_path)], log=log, environment=os.environ)
    deadline = time.monotonic() + DEADLINE_S
    while "ready" not in (log.read_text() if log.exists() else ""):
        assert time.monotonic() < deadline, "the process printed nothing"
    yield mark
    if psutil.pid_exists(mark.pid):
        os.kill(mark.pid, signal.SIGKILL)
        psutil.Process(mark.pid).wait(timeout=DEADLINE_S)


def test_a_detached_process_is_in_a_session_of_its_own_with_its_output_in_the_log(
    started: ProcessMark, log: Path
) -> None:
    assert os.getsid(started.pid) == started.pid != os.getsid(0)
    assert log.read_text() == "ready\n"


def test_a_running_process_is_found_by_its_mark_and_by_its_argument(started: ProcessMark, tmp_path: Path) -> None:
    found = find(started, [str(tmp_path)])
    assert found is not None
    assert found.pid == started.pid
    assert search([str(tmp_path)]) == started


def test_a_pid_with_another_start_time_is_another_process(started: ProcessMark, tmp_path: Path) -> None:
    assert find(replace(started, started_at_ms=started.started_at_ms - 60_000), [str(tmp_path)]) is None


def test_a_pid_with_other_arguments_is_another_process(started: ProcessMark) -> None:
    assert find(started, ["/no/such/server.properties"]) is None


def test_a_dead_pid_is_not_found(started: ProcessMark, tmp_path: Path) -> None:
    os.kill(started.pid, signal.SIGKILL)
    deadline = time.monotonic() + DEADLINE_S
    # It stays a zombie until this process, its parent, asks for its end: a zombie does not run.
    while find(started, [str(tmp_path)]) is not None:
        assert time.monotonic() < deadline
    assert psutil.pid_exists(started.pid)
    psutil.Process(started.pid).wait(timeout=DEADLINE_S)
    assert find(started, [str(tmp_path)]) is None


def test_a_process_is_stopped_by_sigterm(started: ProcessMark, tmp_path: Path) -> None:
    process = find(started, [str(tmp_path)])
    assert process is not None
    assert stop(process, grace_s=DEADLINE_S)
    assert find(started, [str(tmp_path)]) is None


def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path, log: Path) -> None:
    for mark in _started(STUBBORN, tmp_path, log):
        process = find(mark, [str(tmp_path)])
        assert process is not None
        assert not stop(process, grace_s=0.2)
        assert find(mark, [str(tmp_path)]) is None


def test_a_process_that_not_even_sigkill_ends_in_time_is_said_with_its_pid_and_a_remedy() -> None:
    class Stuck:
        pid = 4711

        def terminate(self) -> None: ...

        kill = terminate

        def wait(self, timeout: float) -> None:
            raise psutil.TimeoutExpired(timeout, pid=self.pid)

    with pytest.raises(BrokerFailed, match=r"process 4711 is still there 60 s after SIGKILL") as refused:
        stop(cast(psutil.Process, Stuck()), grace_s=0.1)
    assert "run the command again" in refused.value.remedy


def test_a_program_that_is_not_there_is_an_error(tmp_path: Path, log: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        start_detached([str(tmp_path / "java")], log=log, environment={})


def test_a_process_in_the_middle_of_exec_is_still_itself(
    started: ProcessMark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java's launcher may exec itself once more; for a moment the kernel shows no arguments then."""
    monkeypatch.setattr(psutil.Process, "cmdline", lambda self: [])
    assert find(started, [str(tmp_path)]) is not None
