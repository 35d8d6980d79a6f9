"""`headway export events | facts | all | tables`: closed ranges of the log as files, and its history as tables."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from streams.cli.main import version
from streams.cli.moments import MOMENT
from streams.cli.output import Column, emit, note, output_option, progress, size
from streams.cli.source import check_foldable, file_option, opened, shards_in
from streams.connection import connected
from streams.export.exporting import Exported, export
from streams.export.manifest import Manifest
from streams.export.parquet import export_tables
from streams.log import Log
from streams.moments import Moment
from streams.settings import load_settings
from streams.topics import EVENTS, FACTS

Command = TypeVar("Command", bound=Callable[..., Any])

TOPICS_OF = {"events": (EVENTS,), "facts": (FACTS,), "all": (EVENTS, FACTS)}


@click.group("export")
def command() -> None:
    """Export the log: a directory that every reader reads and `headway import` makes a log of, or tables for analysts."""


_OPTIONS = (
    click.option(
        "--to",
        "directory",
        type=click.Path(file_okay=False, path_type=Path),
        required=True,
        metavar="DIR",
        help="Where to; an export that is there is continued.",
    ),
    click.option("--shard", "shards", multiple=True, type=click.IntRange(min=0), help="Only this one [default: all]."),
    click.option("--since", type=MOMENT, help="From here on, for a new directory [default: the log's first]."),
    click.option("--until", type=MOMENT, help="Up to here [default: the last stable one]."),
    output_option,
)


def range_options(function: Command) -> Command:
    """The options of every export of a range."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@command.command("events")
@range_options
def export_events(**options: Any) -> None:
    """Export events. Re-deciding and what-if need facts as well: see `headway export all`."""
    _run("events", **options)


@command.command("facts")
@range_options
def export_facts(**options: Any) -> None:
    """Export the facts that the topic still has; the events of a directory say up to where, when they were cut."""
    _run("facts", **options)


@command.command("all")
@range_options
def export_all(**options: Any) -> None:
    """Export events and the facts that caused them, as far as the topic still has those.

    A range holds whole facts: where it begins or ends inside of what one fact caused, it takes all of it. The chain is checked as it is
    read, and a directory counts as an export once it is whole: one that was interrupted is run again.
    """
    _run("all", **options)


@command.command("tables")
@click.option(
    "--to",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="DIR",
    help="Where to.",
)
@click.option("--shard", "shards", multiple=True, type=click.IntRange(min=0), help="Only this one [default: all].")
@file_option
@output_option
def tables(directory: Path, shards: tuple[int, ...], file: Path | None, output: str) -> None:
    """Write the history as Parquet, for analysts: operations, dispatches, workers, holds, configurations, refusals, events.

    A file a table, made anew each time by folding the events from the first one. Needs the extra `headway[parquet]`.
    """
    rows = asyncio.run(_tables(directory, shards, file))
    emit(
        [{"table": name, "rows": count, "file": str(directory / f"{name}.parquet")} for name, count in rows.items()],
        output,
    )


async def _tables(directory: Path, shards: Sequence[int], file: Path | None) -> dict[str, int]:
    async with opened(load_settings(), file, client_id="headway-export") as log:
        wanted = shards or await shards_in(log)
        for shard in wanted:
            check_foldable(log, shard)
        with progress("folding", await _at_most(log, wanted, (EVENTS,))) as advance:
            return await export_tables(log, directory, wanted, progress=advance)


def _run(
    what: str, directory: Path, shards: tuple[int, ...], since: Moment | None, until: Moment | None, output: str
) -> None:
    manifest, added = asyncio.run(_export(TOPICS_OF[what], directory, shards, since, until))
    answer: dict[str, Any] = {
        "directory": str(directory),
        "added": [_shown(one) for one in added],
        "segments": len(manifest.segments),
        "bytes": sum(segment.bytes for segment in manifest.segments),
    }
    if output == "json":
        emit(answer, output)
        return
    footer = f"{directory}: {answer['segments']} segments, {size(answer['bytes'])} in all"
    emit(answer["added"], output, _COLUMNS, footer=footer)
    for span in manifest.spans:
        for start, end in span.missing:
            note(f"{span.topic}[{span.partition}]: offsets {start} to {end - 1} were gone from the log and are missing")
    if not any(one.records for one in added):
        note("nothing new: the directory has all of it")


async def _export(
    topics: Sequence[str], directory: Path, shards: Sequence[int], since: Moment | None, until: Moment | None
) -> tuple[Manifest, list[Exported]]:
    async with connected(load_settings(), client_id="headway-export") as log:
        wanted = shards or await shards_in(log)
        with progress("exporting", await _at_most(log, wanted, topics)) as advance:
            return await export(
                log,
                directory,
                shards=wanted,
                topics=topics,
                since=since,
                until=until,
                made_by=f"headway {version()}",
                progress=advance,
            )


async def _at_most(log: Log, shards: Sequence[int], topics: Sequence[str]) -> int:
    """How many records there are at most: offsets also count what no record has."""
    partitions = [(topic, shard) for shard in shards for topic in topics]
    follower = await log.follow(dict.fromkeys(partitions))
    try:
        return sum([await follower.end_offset(at) - await follower.beginning_offset(at) for at in partitions])
    finally:
        await follower.close()


def _shown(one: Exported) -> dict[str, Any]:
    return {
        "topic": one.topic,
        "shard": one.shard,
        "records": one.records,
        "from_offset": one.start,
        "to_offset": one.end,
        "first_seq": one.first_seq or None,
        "last_seq": one.last_seq or None,
    }


_COLUMNS = [
    Column("topic"),
    Column("shard", align="right"),
    Column("records", align="right"),
    Column("from_offset", align="right"),
    Column("to_offset", "to", "right"),
    Column("first_seq", align="right"),
    Column("last_seq", align="right"),
]
