"""Where runs happen: in processes of this machine, or simulated. Both answer every start with exactly one ending."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

from events.reasons import RunResult
from events.values import Usage
from streams.log_lines import say
from streams.placements import ActionPlaced
from streams.worker import warden
from streams.worker.capacity import asked_by
from streams.worker.folders import RunFolders
from streams.worker.memory import GroupMemory
from streams.worker.process import MESSAGE_CHARACTERS, MemoryLimit, ProcessRun
from streams.worker.protocol import RunReport
from streams.worker.secret_source import SecretSource

Ended = Callable[[int, RunReport], None]

_log = logging.getLogger("headway.worker")


class Executor(Protocol):
    """Runs placements. Belongs to one event loop."""

    def start(self, placed: ActionPlaced, ended: Ended) -> None:
        """Begin a run; `ended` is called once in the event loop, later, never from within `start`."""
        ...

    def stop(self, dispatch_id: int) -> None:
        """End a run soon; `ended` still says when. Nothing happens when it has ended meanwhile."""
        ...

    async def close(self) -> None:
        """Give up what the executor itself holds, once no run is left."""
        ...


class ProcessExecutor:
    """Runs commands as processes, each watched by a thread, all of them by the warden.

    Args:
        secrets: values of secret references.
        path: PATH of commands that say none; None, this process's.
        root: where working directories are made; None, a fresh directory in the machine's place for temporary files.
        memory: what its runs use; given, a run that uses more memory than its action asked for is stopped. An action that asks
            for none is not limited.
    """

    def __init__(
        self,
        secrets: SecretSource,
        *,
        path: str | None = None,
        root: Path | None = None,
        memory: GroupMemory | None = None,
    ) -> None:
        self._secrets = secrets
        self._memory = memory
        self._path = os.environ.get("PATH", os.defpath) if path is None else path
        self._root = (Path(tempfile.mkdtemp(prefix="headway-worker-")) if root is None else root).resolve()
        self._runs: dict[int, ProcessRun] = {}
        self._guard = _Warden(self._root)

    @property
    def root(self) -> Path:
        """The directory that holds the runs' working directories."""
        return self._root

    def start(self, placed: ActionPlaced, ended: Ended, folders: RunFolders | None = None) -> None:
        """See `Executor.start`; `folders` hold the run's inputs and take its outputs."""
        loop = asyncio.get_running_loop()
        run = ProcessRun(
            placed.dispatch_id,
            placed.command,
            root=self._root,
            timeout_us=placed.timeout_us,
            secrets=self._secrets,
            path=self._path,
            note_group=self._guard.note,
            memory=self._limit_of(placed),
            folders=folders,
        )
        self._runs[placed.dispatch_id] = run
        thread = threading.Thread(
            target=self._run, args=(placed.dispatch_id, run, loop, ended), name=f"run-{placed.dispatch_id}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:  # the machine gives no more threads
            run.discard()
            report = RunReport(RunResult.INTERNAL_ERROR, message=f"the worker could not run it: {error}")
            loop.call_soon(self._ended, placed.dispatch_id, report, ended)

    def _limit_of(self, placed: ActionPlaced) -> MemoryLimit | None:
        asked_kib = asked_by(placed.requirements).memory_kib
        return None if self._memory is None or not asked_kib else MemoryLimit(asked_kib, self._memory)

    def _run(self, dispatch_id: int, run: ProcessRun, loop: asyncio.AbstractEventLoop, ended: Ended) -> None:
        try:
            report = run.run()
        except Exception as error:  # a fault of this program must not cost the action its report
            _log.exception("a run failed in the worker itself, dispatch %d", dispatch_id)
            message = f"the worker failed: {type(error).__name__}: {error}"[:MESSAGE_CHARACTERS]
            report = RunReport(RunResult.INTERNAL_ERROR, message=message)
        loop.call_soon_threadsafe(self._ended, dispatch_id, report, ended)

    def _ended(self, dispatch_id: int, report: RunReport, ended: Ended) -> None:
        self._runs.pop(dispatch_id, None)
        ended(dispatch_id, report)

    def stop(self, dispatch_id: int) -> None:
        """See `Executor.stop`."""
        run = self._runs.get(dispatch_id)
        if run is not None:
            run.stop()

    async def close(self) -> None:
        """See `Executor.close`; removes the root."""
        await asyncio.to_thread(self._guard.close)
        shutil.rmtree(self._root, ignore_errors=True)


class _Warden:
    """The warden process and what it was told; started again when it is gone, so that runs are never without one."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._groups: dict[str, None] = {}
        self._lock = threading.Lock()
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-I", "-S", warden.__file__, str(self._root)]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True, bufsize=0, cwd="/"
        )
        for group in self._groups:
            self._write(process, f"+{group}")
        return process

    @staticmethod
    def _write(process: subprocess.Popen[bytes], line: str) -> None:
        assert process.stdin is not None
        process.stdin.write(line.encode() + b"\n")

    def note(self, line: str) -> None:
        """Tell the warden; called from the threads of runs."""
        with self._lock:
            if line[0] == "+":
                self._groups[line[1:]] = None
            else:
                self._groups.pop(line[1:], None)
            try:
                self._write(self._process, line)
            except OSError as error:
                say(_log, logging.WARNING, "the warden was gone and is started again", error=str(error))
                self._process.wait()
                self._process = self._start()

    def close(self) -> None:
        """End the warden: it removes what is left and goes."""
        with self._lock:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


class SimulatedExecutor:
    """Takes the time that an action is expected to take, times `scale`, and reports exit code 0. Costs a timer a run.

    An action with a timeout below its duration times out, as it would in earnest.
    """

    def __init__(self, scale: float = 1.0) -> None:
        if not 0 <= scale <= 1_000:
            raise ValueError(f"scale is {scale}; it must be from 0 to 1000")
        self._scale = scale
        self._runs: dict[int, tuple[asyncio.TimerHandle, float, Ended]] = {}

    def start(self, placed: ActionPlaced, ended: Ended) -> None:
        """See `Executor.start`."""
        timed_out = 0 < placed.timeout_us < placed.expected_duration_us
        duration_us = placed.timeout_us if timed_out else placed.expected_duration_us
        result = RunResult.TIMED_OUT if timed_out else RunResult.EXITED
        loop = asyncio.get_running_loop()
        timer = loop.call_later(duration_us * self._scale / 1e6, partial(self._end, placed.dispatch_id, result))
        self._runs[placed.dispatch_id] = (timer, loop.time(), ended)

    def stop(self, dispatch_id: int) -> None:
        """See `Executor.stop`."""
        found = self._runs.get(dispatch_id)
        if found is not None:
            timer, begun, ended = found
            timer.cancel()
            soon = asyncio.get_running_loop().call_later(0, partial(self._end, dispatch_id, RunResult.KILLED))
            self._runs[dispatch_id] = (soon, begun, ended)

    def _end(self, dispatch_id: int, result: RunResult) -> None:
        _, begun, ended = self._runs.pop(dispatch_id)
        wall_us = int((asyncio.get_running_loop().time() - begun) * 1e6)
        ended(dispatch_id, RunReport(result, usage=Usage(wall_us=wall_us)))

    async def close(self) -> None:
        """See `Executor.close`."""
        for timer, _, _ in self._runs.values():
            timer.cancel()
        self._runs.clear()
