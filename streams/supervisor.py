"""Runs the parts of Headway as child processes: restarts what crashes, stops all together, leaves none behind.

On Linux the kernel kills the children when this process dies in any way (PR_SET_PDEATHSIG), so not even a SIGKILL leaves
one; every part is built to be killed at any moment. Elsewhere a SIGKILL of this process leaves its children to be stopped by hand.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from streams.ticker import pause

HEADWAY: Final = (sys.executable, "-m", "streams.cli.main")

_PR_SET_PDEATHSIG: Final = 1
_LAST_LINES: Final = 5


@dataclass(frozen=True, slots=True)
class Part:
    """One child process.

    Args:
        name: what it is called when something is said of it; also the name of its log file.
        arguments: of the supervisor's command.
        environment: in full.
    """

    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Patience:
    """How restarts and the end are paced.

    Args:
        first_back_off_s: before the first restart; doubled with each that follows.
        longest_back_off_s: the most.
        settled_s: a part that ran this long counts as well again.
        grace_s: how long a part may take to end after SIGTERM before SIGKILL.
    """

    first_back_off_s: float = 0.2
    longest_back_off_s: float = 10.0
    settled_s: float = 20.0
    grace_s: float = 15.0


class Supervisor:
    """Keeps parts running until told to stop.

    Args:
        parts: in the order in which they are started; they are stopped in the reverse order.
        log_directory: each part's output is appended to `<name>.log` in there; None leaves it on this process's own.
        say: told every crash, in one line and the part's last few.
        patience: how restarts and the end are paced.
        command: what the parts' arguments are given to; by default this installation's `headway`.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        *,
        log_directory: Path | None,
        say: Callable[[str], None],
        patience: Patience | None = None,
        command: Sequence[str] = HEADWAY,
    ) -> None:
        self._command = command
        self._parts = parts
        self._log_directory = log_directory
        self._say = say
        self._patience = patience or Patience()
        self.processes: dict[str, asyncio.subprocess.Process] = {}
        self.restarts: dict[str, int] = {}
        self._ending = False

    async def run(self, stop: asyncio.Event) -> None:
        """Start all parts and keep them running until `stop`; returns when the last of them has ended.

        Raises:
            OSError: a part cannot be started at all; the others are stopped.
        """
        stops = {part.name: asyncio.Event() for part in self._parts}
        keepers = {part.name: asyncio.create_task(self._keep(part, stops[part.name])) for part in self._parts}
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait([stopping, *keepers.values()], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            # Ctrl-C reaches every process of the group at once: a part may end before its turn, and is not to come back.
            self._ending = True
            # One after the other, so that who reads from a part is gone before it.
            for part in reversed(self._parts):
                stops[part.name].set()
                await asyncio.wait([keepers[part.name]])
        for keeper in keepers.values():
            keeper.result()

    async def _keep(self, part: Part, stop: asyncio.Event) -> None:
        patience = self._patience
        back_off_s = patience.first_back_off_s
        while not stop.is_set():
            began = time.monotonic()
            code = await self._run_once(part, stop)
            if code is None or self._ending:
                return
            lived_s = time.monotonic() - began
            if lived_s >= patience.settled_s:
                back_off_s = patience.first_back_off_s
            self.restarts[part.name] = self.restarts.get(part.name, 0) + 1
            self._say(f"{part.name} {_ended(code)} after {lived_s:.1f} s; starting it again in {back_off_s:.1f} s")
            for line in self._last_lines(part):
                self._say(f"  {part.name} | {line}")
            await pause(stop, back_off_s)
            back_off_s = min(2 * back_off_s, patience.longest_back_off_s)

    async def _run_once(self, part: Part, stop: asyncio.Event) -> int | None:
        """Run a part until it ends by itself (its exit code) or `stop` is set (None)."""
        output = self._open_log(part)
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                *part.arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(part.environment),
                preexec_fn=die_with(os.getpid()) if sys.platform == "linux" else None,
            )
        finally:
            if output is not None:
                output.close()
        self.processes[part.name] = process
        ended = asyncio.create_task(process.wait())
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait([ended, stopping], return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                return ended.result()
            process.terminate()
            _, late = await asyncio.wait([ended], timeout=self._patience.grace_s)
            if late:
                self._say(f"{part.name} did not end within {self._patience.grace_s:.0f} s of SIGTERM and is killed")
            return None
        finally:
            stopping.cancel()
            if process.returncode is None:
                process.kill()
            await asyncio.wait([ended])
            del self.processes[part.name]

    def _open_log(self, part: Part) -> IO[bytes] | None:
        if self._log_directory is None:
            return None
        self._log_directory.mkdir(parents=True, exist_ok=True)
        return self.log_path(part.name, self._log_directory).open("ab")

    @staticmethod
    def log_path(name: str, directory: Path) -> Path:
        """Where a part's output goes."""
        return directory / f"{name.replace(' ', '-')}.log"

    def _last_lines(self, part: Part) -> list[str]:
        if self._log_directory is None:
            return []
        with self.log_path(part.name, self._log_directory).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 8192))
            return file.read().decode(errors="replace").splitlines()[-_LAST_LINES:]


def _ended(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def die_with(parent_pid: int) -> Callable[[], None]:
    """A `preexec_fn`: what a child does between fork and exec: ask the kernel to be killed when its parent ends."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent_pid:  # it died before it could be asked for
            os._exit(1)

    return ask
