"""One run of a command: a process group of its own, in a fresh directory, with a timeout, captured tails and measured use.

What the command gets: its `argv`, the environment that the action says and `PATH` (the worker's, unless the action says it), a fresh
working directory named by the dispatch id and removed afterwards, no standard input, no other open files. On a worker that keeps blobs it
finds its inputs in a folder and may leave files in another one (`folders.py`); on any other it finds only what the machine has.

With a memory limit, the resident memory of the run's group is looked at every 250 ms; above the limit it gets SIGKILL and is reported
OUT_OF_MEMORY, with the most that was seen. What a run takes and gives back in between is not seen.

To stop a run, its group gets SIGTERM and two seconds later SIGKILL. Whatever is left of the group when its first process has ended gets
SIGKILL as well: a run is over when its process is, and nothing of it may go on using what the ledger gives to the next one.
"""

from __future__ import annotations

import errno
import os
import resource
import selectors
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, NamedTuple

from events.payloads import Command
from events.reasons import RunResult
from events.values import Usage
from streams.worker.folders import RunFolders
from streams.worker.memory import SAMPLE_S, GroupMemory
from streams.worker.protocol import RunReport
from streams.worker.secret_source import SecretMissing, SecretSource
from streams.worker.tails import Masking, Tail

GRACE_S = 2.0
"""Between SIGTERM and SIGKILL."""

LINGER_S = 1.0
"""How long output is still read after the process ended, where something that left the group holds the pipe open."""

MESSAGE_CHARACTERS = 1_024
_FIRST_SAMPLE_S, _LAST_SAMPLE_S = 0.005, 0.5
INEXACT_KIB = 8 << 10
"""Resident sizes are counted in batches for each processor: one that is larger by less than this may be the same."""
_POLL_S = 0.05  # where the machine has no pidfd

UNSTARTABLE = (errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.E2BIG)
"""Errors of the start that are the command's: no interpreter for a script, not executable, no program, arguments too long."""


class MemoryLimit(NamedTuple):
    """How much memory a run may use, and who knows what it uses."""

    limit_kib: int
    memory: GroupMemory


class NotStartable(Exception):
    """Something the run needs is missing here; running it elsewhere may help, running it here again would not."""


def environment_of(command: Command, secrets: SecretSource, path: str) -> tuple[dict[str, str], Masking]:
    """The environment of a command and what must be masked in its output. Raises NotStartable."""
    environment = {"PATH": path}
    values: list[str] = []
    for variable in command.env:
        try:
            value = secrets.value(variable.secret) if variable.secret else variable.value
        except SecretMissing as error:
            raise NotStartable(str(error)) from error
        if variable.secret:
            values.append(value)
        if not variable.name or "=" in variable.name or "\0" in variable.name + value:
            raise NotStartable(
                f"environment variable {variable.name[:64]!r}: the name is empty or holds '=', or a NUL stands in it"
            )
        environment[variable.name] = value
    return environment, Masking(values)


def program_of(command: Command, environment: Mapping[str, str]) -> str:
    """The absolute path of the command's program. Raises NotStartable."""
    if not command.argv or not command.argv[0]:
        raise NotStartable("the action has no command; a worker with --simulate needs none")
    if any("\0" in argument for argument in command.argv):
        raise NotStartable("a NUL stands in an argument")
    name = command.argv[0]
    if "/" in name and not name.startswith("/"):
        raise NotStartable(
            f"program {name[:256]!r}: give an absolute path or a bare name; the working directory is empty"
        )
    found = shutil.which(name, path=environment["PATH"])
    if found is None:
        raise NotStartable(f"program {name[:256]!r} is not on this worker (PATH={environment['PATH']})")
    return found


class ProcessRun:
    """One run. `run` blocks in a thread of its own until nothing is left of it; `stop` may be called from any other.

    Args:
        dispatch_id: names the working directory below `root`.
        command: what to run.
        timeout_us: when to stop it by itself; 0, never.
        secrets: values of secret references.
        path: the PATH of the command where it says none.
        note_group: told `+<group>` after the start and `-<group>` before the group's number is free again.
        memory: where the run is stopped for using more memory than its limit; None, never.
        folders: where it finds its inputs and leaves its outputs; None: nowhere.
    """

    def __init__(
        self,
        dispatch_id: int,
        command: Command,
        *,
        root: Path,
        timeout_us: int = 0,
        secrets: SecretSource,
        path: str,
        note_group: Callable[[str], None] = lambda line: None,
        memory: MemoryLimit | None = None,
        folders: RunFolders | None = None,
        grace_s: float = GRACE_S,
    ) -> None:
        self._command = command
        self._folders = folders
        self._directory = root / str(dispatch_id)
        self._timeout_s = timeout_us / 1e6 if timeout_us else None
        self._secrets = secrets
        self._path = path
        self._note_group = note_group
        self._memory = memory
        self._grace_s = grace_s
        self._stop_asked = threading.Event()
        self._wake_in, self._wake_out = os.pipe()
        os.set_blocking(self._wake_out, False)
        self._closing = threading.Lock()

    def stop(self) -> None:
        """Ask the run to end; it reports KILLED, unless it has ended or timed out before."""
        self._stop_asked.set()
        with self._closing:
            if self._wake_out >= 0:
                os.write(self._wake_out, b"x")

    def run(self) -> RunReport:
        """Run to the end. Never raises for what the command does; the report says how it went."""
        masking = Masking()
        try:
            environment, masking = environment_of(self._command, self._secrets, self._path)
            program = program_of(self._command, environment)
            return self._in_directory(program, environment, masking)
        except NotStartable as error:
            return _report_of(RunResult.FAILED_PRECONDITION, masking.mask_text(str(error)))
        except OSError as error:
            # The machine's own limits (processes, files, disk): another worker, or this one later, can run it.
            return _report_of(RunResult.INTERNAL_ERROR, masking.mask_text(f"the worker could not run it: {error}"))
        finally:
            self.discard()

    def discard(self) -> None:
        """Close what the run holds; `run` does it at its end, and whoever makes a run and cannot run it."""
        with self._closing:
            if self._wake_out >= 0:
                os.close(self._wake_in)
                os.close(self._wake_out)
                self._wake_out = -1

    def _in_directory(self, program: str, environment: dict[str, str], masking: Masking) -> RunReport:
        if self._directory.exists():
            shutil.rmtree(self._directory)
        self._directory.mkdir(mode=0o700, parents=True)
        try:
            if self._folders is None:
                return self._spawn(program, environment, masking)
            report = self._spawn(program, {**environment, **self._folders.make()}, masking)
            return self._folders.collected(report)
        finally:
            # Files of another user may stay behind; the run is over all the same.
            shutil.rmtree(self._directory, ignore_errors=True)
            if self._folders is not None:
                self._folders.remove()

    def _spawn(self, program: str, environment: dict[str, str], masking: Masking) -> RunReport:
        begun = time.monotonic()
        own_peak_kib = _max_rss_kib(resource.getrusage(resource.RUSAGE_SELF))
        try:
            process = subprocess.Popen(
                self._command.argv,
                executable=program,
                cwd=self._directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            if error.errno not in UNSTARTABLE:
                raise
            raise NotStartable(
                f"program {self._command.argv[0][:256]!r} cannot be started: {error.strerror}"
            ) from error
        self._note_group(f"+{process.pid}")
        watch = _Watch(
            process,
            masking,
            self._stop_asked,
            self._wake_in,
            self._grace_s,
            self._note_group,
            own_peak_kib,
            self._memory,
        )
        return watch.until_ended(begun, self._timeout_s)


def _report_of(result: RunResult, message: str) -> RunReport:
    return RunReport(result, message=message[:MESSAGE_CHARACTERS])


class _Watch:
    """Follows a started process: output, exit, timeout, the wish to stop it, peak memory. One loop, in the run's thread."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        masking: Masking,
        stop_asked: threading.Event,
        wake_in: int,
        grace_s: float,
        note_group: Callable[[str], None],
        own_peak_kib: int,
        memory: MemoryLimit | None,
    ) -> None:
        self._process = process
        self._memory = memory
        self._longest_sample_s = _LAST_SAMPLE_S if memory is None else SAMPLE_S
        self._own_peak_kib = own_peak_kib
        self._stop_asked = stop_asked
        self._wake_in = wake_in
        self._grace_s = grace_s
        self._note_group = note_group
        self._tails = {"stdout": Tail(masking), "stderr": Tail(masking)}
        self._peak_kib = 0
        self._sample_s = _FIRST_SAMPLE_S
        self._result: RunResult | None = None
        self._kill_at: float | None = None
        self._over_kib = 0

    def until_ended(self, begun: float, timeout_s: float | None) -> RunReport:
        """Wait for the end and report it."""
        pidfd: int | None = None
        selector = selectors.DefaultSelector()
        pipes: dict[str, IO[bytes]] = {}
        try:
            pidfd = _pidfd(self._process.pid)
            selector.register(self._wake_in, selectors.EVENT_READ, "wake")
            if pidfd is not None:
                selector.register(pidfd, selectors.EVENT_READ, "exit")
            for name in self._tails:
                pipe = getattr(self._process, name)
                os.set_blocking(pipe.fileno(), False)
                pipes[name] = pipe
                selector.register(pipe, selectors.EVENT_READ, name)
            self._follow(selector, pipes, begun, timeout_s, None if pidfd is not None else _POLL_S)
            usage, code = self._reap(begun)
            self._drain(pipes)
        except BaseException:
            if self._process.returncode is None:
                self._reap(begun)  # whatever went wrong here, the process must not stay
            raise
        finally:
            selector.close()
            if pidfd is not None:
                os.close(pidfd)
            for name in self._tails:
                getattr(self._process, name).close()
        return self._ended(code, usage)

    def _follow(
        self,
        selector: selectors.BaseSelector,
        pipes: dict[str, IO[bytes]],
        begun: float,
        timeout_s: float | None,
        poll_s: float | None,
    ) -> None:
        deadline = None if timeout_s is None else begun + timeout_s
        sample_at = begun + self._sample_s
        while not self._has_exited():
            now = time.monotonic()
            if self._result is None and self._stop_asked.is_set():
                self._end(RunResult.KILLED, now)
            if self._result is None and deadline is not None and now >= deadline:
                self._end(RunResult.TIMED_OUT, now)
            if self._kill_at is not None and now >= self._kill_at:
                self._signal(signal.SIGKILL)
                self._kill_at = now + self._grace_s  # once more, for a process that was being born meanwhile
            if now >= sample_at:
                self._sample()
                self._check_memory(now)
                self._sample_s = min(self._sample_s * 2, self._longest_sample_s)
                sample_at = now + self._sample_s
            until = [sample_at] if poll_s is None else [sample_at, now + poll_s]
            if self._result is None and deadline is not None:
                until.append(deadline)
            if self._kill_at is not None:
                until.append(self._kill_at)
            self._take(selector, pipes, max(0.0, min(until) - now))

    def _has_exited(self) -> bool:
        # WNOWAIT leaves it unreaped: as long as it is, the number of its group cannot become another group's.
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _take(self, selector: selectors.BaseSelector, pipes: dict[str, IO[bytes]], timeout_s: float) -> bool:
        """Take what is there; says whether anything was."""
        ready = selector.select(timeout_s)
        for key, _ in ready:
            if key.data == "wake":
                os.read(self._wake_in, 4096)
            elif key.data in pipes:
                data = os.read(key.fd, 65_536)
                if data:
                    self._tails[key.data].add(data)
                else:
                    selector.unregister(pipes.pop(key.data))
        return bool(ready)

    def _drain(self, pipes: dict[str, IO[bytes]]) -> None:
        """Read what the ended group has left in its pipes, not waiting long for one that somebody else holds open."""
        until = time.monotonic() + LINGER_S
        with selectors.DefaultSelector() as selector:
            for name, pipe in pipes.items():
                selector.register(pipe, selectors.EVENT_READ, name)
            while pipes and (left := until - time.monotonic()) > 0:
                if not self._take(selector, pipes, left):
                    return

    def _check_memory(self, now: float) -> None:
        """End the run at once when its group uses more than it may: a SIGTERM would leave it time to take more."""
        if self._memory is None or self._result is RunResult.OUT_OF_MEMORY:
            return
        limit_kib, memory = self._memory
        used_kib = memory.resident_kib(self._process.pid)
        if used_kib > limit_kib:
            # Processes that share pages (a forked child and its parent) would be charged for them twice: look closer.
            used_kib = memory.proportional_kib(self._process.pid)
        self._peak_kib = max(self._peak_kib, used_kib)
        if used_kib > limit_kib and self._result is None:
            self._result = RunResult.OUT_OF_MEMORY
            self._over_kib = used_kib
            self._signal(signal.SIGKILL)
            self._kill_at = now + self._grace_s

    def _end(self, result: RunResult, now: float) -> None:
        self._result = result
        self._signal(signal.SIGTERM)
        self._kill_at = now + self._grace_s

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            # Nothing in the group takes it: it has ended, or runs as a user whom the worker may not signal.
            return

    def _reap(self, begun: float) -> tuple[Usage, int]:
        """End the rest of the group, then take the exit status and what the run used."""
        self._signal(signal.SIGKILL)
        self._note_group(f"-{self._process.pid}")
        _, status, used = os.wait4(self._process.pid, 0)
        wall_us = int((time.monotonic() - begun) * 1e6)
        code = os.waitstatus_to_exitcode(status)
        self._process.returncode = code  # so that Popen does not wait for a number that is no longer this process
        peak_kib = _max_rss_kib(used)
        own_peak_kib = max(self._own_peak_kib, _max_rss_kib(resource.getrusage(resource.RUSAGE_SELF)))
        if peak_kib <= own_peak_kib + INEXACT_KIB:
            # On Linux it starts with the peak of the process that forked, the worker itself, so it says nothing below that.
            peak_kib = self._peak_kib
        return Usage(wall_us, int((used.ru_utime + used.ru_stime) * 1e6), max(peak_kib, self._peak_kib)), code

    def _sample(self) -> None:
        """The peak resident memory of the run's first process so far; the one figure for runs that use less than the worker."""
        try:
            with open(f"/proc/{self._process.pid}/status", encoding="ascii", errors="replace") as lines:
                for line in lines:
                    if line.startswith("VmHWM:"):
                        self._peak_kib = max(self._peak_kib, int(line.split()[1]))
        except OSError:
            return  # it has just ended, or the machine has no /proc: not measured

    def _ended(self, code: int, usage: Usage) -> RunReport:
        result, message = self._result or RunResult.EXITED, ""
        if result is RunResult.EXITED and code < 0:
            message = f"ended by {signal.Signals(-code).name}" if -code in _SIGNALS else f"ended by signal {-code}"
        elif result is RunResult.OUT_OF_MEMORY and self._memory is not None:
            message = f"it used {self._over_kib} KiB and had reserved {self._memory.limit_kib} KiB"
        return RunReport(result, code, message, self._tails["stdout"].value(), self._tails["stderr"].value(), usage)


_SIGNALS = frozenset(int(number) for number in signal.Signals)


def _pidfd(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends; None where the machine has none."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        if error.errno == errno.ENOSYS:
            return None
        raise


def _max_rss_kib(used: resource.struct_rusage) -> int:
    """ru_maxrss in KiB; macOS counts it in bytes."""
    return used.ru_maxrss // 1024 if sys.platform == "darwin" else used.ru_maxrss
