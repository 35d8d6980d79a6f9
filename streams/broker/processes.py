"""A process that outlives the one that started it: start it detached, know it again, stop it.

A pid alone names nothing, since the kernel gives it out again: a process is known by its pid, its start time and the
arguments that only our broker has (Kafka's main class and the path of its properties file).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from streams.broker.endpoint import BrokerFailed

# psutil derives a start time from the boot time, which moves a little when the system clock is set.
_START_TOLERANCE_MS = 2_000

# SIGKILL takes effect at once, but the kernel gives back a JVM's memory first, which a busy machine can take its time for.
_KILL_GRACE_S = 60.0


@dataclass(frozen=True)
class ProcessMark:
    """A process as it can be found again: its pid and when it started (Unix time)."""

    pid: int
    started_at_ms: int


def start_detached(command: Sequence[str], *, log: Path, environment: Mapping[str, str]) -> ProcessMark:
    """Start `command` in a session of its own with both outputs in `log`; it stays when this process ends.

    Raises OSError when the program cannot be started.
    """
    # posix_spawn rather than subprocess: a Popen that is dropped while its process runs on warns, rightly for others.
    pid = os.posix_spawn(
        command[0],
        list(command),
        dict(environment),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    return ProcessMark(pid, round(psutil.Process(pid).create_time() * 1000))


def find(mark: ProcessMark, arguments: Sequence[str]) -> psutil.Process | None:
    """Return the running process that `mark` means, or None when it ended or its pid is another process by now."""
    try:
        process = psutil.Process(mark.pid)
        if abs(process.create_time() * 1000 - mark.started_at_ms) > _START_TOLERANCE_MS:
            return None
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        command = process.cmdline()
    except psutil.NoSuchProcess:
        return None
    except psutil.AccessDenied:
        return None  # another user's process: not one that this user's home started
    # A process in the middle of exec shows no arguments, and Java's launcher may exec itself once more at its start.
    if command and not _carries(command, arguments):
        return None
    return process


def is_own(mark: ProcessMark) -> bool:
    """Whether this very process started the one that `mark` means; False when that has ended."""
    # The parent says more than a remembered pid: it holds also when the start was interrupted before anything was remembered, and
    # the pid of a child is not given to another process before its parent has asked for the child's end, which nobody does.
    try:
        process = psutil.Process(mark.pid)
        started_ms = process.create_time() * 1000
        return process.ppid() == os.getpid() and abs(started_ms - mark.started_at_ms) <= _START_TOLERANCE_MS
    except psutil.NoSuchProcess:
        return False


def _carries(command: Sequence[str], arguments: Sequence[str]) -> bool:
    return all(argument in command for argument in arguments)


def search(arguments: Sequence[str]) -> ProcessMark | None:
    """Return the process of this machine that carries all `arguments`, for a broker whose record was lost."""
    for process in psutil.process_iter():
        try:
            if _carries(process.cmdline(), arguments) and process.status() != psutil.STATUS_ZOMBIE:
                return ProcessMark(process.pid, round(process.create_time() * 1000))
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return None


def stop(process: psutil.Process, *, grace_s: float) -> bool:
    """End a process by SIGTERM, and by SIGKILL when it is still there after `grace_s`; True when it ended by itself.

    Raises BrokerFailed when it is still there a minute after SIGKILL.
    """
    try:
        process.terminate()
        process.wait(timeout=grace_s)
    except psutil.TimeoutExpired:
        return _killed(process, grace_s)
    except psutil.NoSuchProcess:
        return True
    return True


def _killed(process: psutil.Process, grace_s: float) -> bool:
    """End a process by SIGKILL; False, or True when it ended by itself before that."""
    try:
        process.kill()
        process.wait(timeout=_KILL_GRACE_S)
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired as error:
        raise BrokerFailed(
            f"process {process.pid} is still there {_KILL_GRACE_S:.0f} s after SIGKILL, which followed SIGTERM by {grace_s:g} s",
            remedy="The kernel has not ended it yet, mostly for a disk that does not answer; run the command again later",
        ) from error
    return False
