"""One performance as a command, from its home to its exit code, however it ends. Demo, torture and the restart of locality share it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import click

from events.errors import HeadwayError
from streams.cli.main import FAILED, failure_of
from streams.demo.stage import strike
from streams.errors import StreamError

INTERRUPTED = 130
"""The exit code of a process that Ctrl-C ended."""


def perform(home: Path, tell: Callable[[str], None], act: Callable[[], tuple[int, bool]], *, keep: bool) -> NoReturn:
    """Act in `home`, strike it, and end the process.

    `act` returns the exit code and whether the home stays. After an interruption it stays if `keep` says so, after a failure always.
    """
    exit_code, keep_home = FAILED, True
    try:
        exit_code, keep_home = act()
    except (KeyboardInterrupt, asyncio.CancelledError):
        tell("interrupted; stopping everything")
        exit_code, keep_home = INTERRUPTED, keep
    except (StreamError, HeadwayError) as error:
        failure_of(error).show()
    except (TimeoutError, OSError, RuntimeError) as error:
        click.echo(f"error: {error}", err=True)
    finally:
        strike(home, tell, keep=keep_home)
    sys.exit(exit_code)
