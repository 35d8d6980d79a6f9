"""What answers a command that reads: an exported directory that `--file` names, else the running read side."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from streams.cli.output import progress
from streams.settings import Settings, load_settings
from streams.topics import EVENTS
from streams.views import Views

Command = TypeVar("Command", bound=Callable[..., Any])


def file_option(command: Command) -> Command:
    """`--file DIR` as the parameter `file` (None: what runs)."""
    option = click.option(
        "--file",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        metavar="DIR",
        help="Read the log that was exported into DIR; no broker is asked.",
    )
    return option(command)


def views_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--file DIR`, and the parameter `views`: those of the directory, folded in memory, else of the running read side."""

    @functools.wraps(command)
    def run(*args: Any, file: Path | None, **options: Any) -> Any:
        with views_of(load_settings(), file) as views:
            return command(*args, views=views, **options)

    return file_option(run)


@contextmanager
def views_of(settings: Settings, file: Path | None) -> Iterator[Views]:
    """What answers a command: the read side of the settings, or the whole of an exported directory.

    Raises:
        NotAnExport, BeginsLater, DamagedExport, DamagedLog: the directory cannot be folded.
    """
    if file is None:
        yield Views(settings.views_address)
        return
    # Folding and serving bring half of Headway along; a command that asks the read side starts without.
    from streams.export import ExportLog
    from streams.export.folded import fold_export, served

    log = ExportLog(file)
    events = sum(segment.count for segment in log.manifest.segments if segment.topic == EVENTS)
    with progress("folding", events) as advance:
        folded = asyncio.run(fold_export(log, advance))
    with served(folded) as address:
        yield Views(address)
