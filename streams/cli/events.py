"""`headway events tail`: the event log, in `seq` order, for people or as JSON lines."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

import click

from events.events import EVENT_KINDS
from events.jsonform import event_to_json
from streams.cli.output import emit_line, output_option, printable
from streams.cli.source import file_option, opened
from streams.event_tail import Tailed, last_seq, tail
from streams.moments import time_of
from streams.settings import load_settings

ON_TOP = ("seq", "offset", "shard", "at_us", "cause_offset", "kind")


@click.group("events")
def command() -> None:
    """Read the event log."""


@command.command("tail")
@click.option("--shard", type=click.IntRange(min=0), default=0, show_default=True, help="Of which shard.")
@click.option("--from-seq", type=click.IntRange(min=1), help="The first event to show [default: 1].")
@click.option("--last", type=click.IntRange(min=0), help="Begin so many events before the end instead.")
@click.option("--follow/--no-follow", default=False, help="Go on with what comes, until Ctrl-C.")
@click.option("--limit", type=click.IntRange(min=1), help="End after so many.")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(sorted(EVENT_KINDS), case_sensitive=False),
    metavar="KIND",
    help="Only events of this kind; several may be given.",
)
@file_option
@output_option
def tail_events(
    shard: int,
    from_seq: int | None,
    last: int | None,
    follow: bool,
    limit: int | None,
    kinds: tuple[str, ...],
    file: Path | None,
    output: str,
) -> None:
    """Print events in `seq` order, one a line: the whole log of a shard, unless told otherwise.

    Ends with an error at a gap in `seq` or a broken chain, and shows nothing past it.
    """
    if from_seq is not None and last is not None:
        raise click.UsageError("--from-seq and --last both say where to begin; give one of them")
    if follow and file is not None:
        raise click.UsageError(
            "--follow waits for what comes, and nothing comes to an exported log; leave one of the two out"
        )
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_tail(shard, from_seq, last, follow, limit, frozenset(kinds), file, output))


async def _tail(
    shard: int,
    from_seq: int | None,
    last: int | None,
    follow: bool,
    limit: int | None,
    kinds: frozenset[str],
    file: Path | None,
    output: str,
) -> None:
    shown = 0
    async with opened(load_settings(), file, client_id="headway-events") as log:
        begin = from_seq or 1
        if last is not None:
            begin = await last_seq(log, shard) - last + 1
        async with aclosing(_matching(tail(log, shard, from_seq=max(1, begin), follow=follow), kinds)) as found:
            async for tailed in found:
                _print(tailed, output)
                shown += 1
                if shown == limit:
                    return


async def _matching(tailing: AsyncGenerator[Tailed, None], kinds: frozenset[str]) -> AsyncGenerator[Tailed, None]:
    async with aclosing(tailing) as found:
        async for tailed in found:
            if not kinds or type(tailed.event).__name__ in kinds:
                yield tailed


def _print(tailed: Tailed, output: str) -> None:
    said = event_to_json(tailed.event, offset=tailed.offset, shard=tailed.shard)
    if output == "json":
        emit_line(said)
        return
    at = time_of(said["at_us"])
    click.echo(printable(f"{said['seq']:>8}  {at}  {said['kind']:<22}  {fields_shown(said)}".rstrip()))


def fields_shown(said: Mapping[str, Any]) -> str:
    """The fields of an event's JSON on one line, those left out that say nothing."""
    return " ".join(f"{name}={_plain(value)}" for name, value in said.items() if name not in ON_TOP and _says(value))


def _says(value: Any) -> bool:
    return value is not None and value != "" and value != [] and value is not False


def _plain(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict) and value[0].keys() == {"name", "value"}:
        return ",".join(f"{pair['name']}={pair['value']}" for pair in value)
    if isinstance(value, dict | list):
        return json.dumps(value, separators=(",", ":"))
    text = str(value)
    return json.dumps(text) if any(character in text for character in ' "\n\t=') else text
