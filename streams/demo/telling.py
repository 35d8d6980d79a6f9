"""How a performance tells its story on the terminal, and how it is interrupted."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import IO, Any, TypeVar

from rich.console import Console

Result = TypeVar("Result")


def say(line: str, file: IO[str] | None = None) -> None:
    """Print a line of the story, to standard output or to `file`."""
    print(line, file=file, flush=True)


@contextmanager
def progress_line(file: IO[str] | None = None) -> Iterator[Callable[[str], None]]:
    """One line that changes in place on a terminal; elsewhere a line every five seconds. To standard output or to `file`."""
    if (file or sys.stdout).isatty():
        with Console(file=file).status("") as status:
            yield lambda text: status.update(text)
        return
    last = 0.0

    def show(text: str) -> None:
        nonlocal last
        if time.monotonic() - last >= 5:
            last = time.monotonic()
            say(text, file)

    yield show


async def until_interrupted(work: Coroutine[Any, Any, Result]) -> Result:
    """Runs `work`; SIGTERM cancels it as Ctrl-C does, so that what it started is stopped."""
    task = asyncio.ensure_future(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task
