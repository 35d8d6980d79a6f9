"""`headway import DIR`: a new generation of an exported log, in a cluster that has none."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from streams.cli.main import version
from streams.cli.output import Column, emit, note, output_option, progress
from streams.connection import connected
from streams.export import ExportLog
from streams.export.generation import Imported, import_log
from streams.settings import load_settings
from streams.topics import EVENTS


@click.command("import")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR")
@output_option
def command(directory: Path, output: str) -> None:
    """Begin a log from the export in DIR, in the cluster of the settings. Its topics are made; they have to be empty.

    `seq`, chain, operation ids and the state go on where the export ends. Everything is read and checked before the first record is
    written. When it was interrupted, run it again: it goes on, and deciders refuse the log until it is whole.
    """
    export = ExportLog(directory)
    imported = asyncio.run(_import(export))
    rows = [_shown(one) for one in imported]
    if output == "json":
        emit({"directory": str(directory), "shards": rows}, output)
        return
    emit(rows, output, _COLUMNS)
    left_out = [name for name, shard in export.manifest.shards.items() if shard not in export.shards]
    if left_out:
        note(f"not in this export, and so not registered: {', '.join(left_out)}")
    if all(one.before for one in imported):
        note("nothing to do: this cluster has the log already")


async def _import(export: ExportLog) -> list[Imported]:
    events = sum(segment.count for segment in export.manifest.segments if segment.topic == EVENTS)
    async with connected(load_settings(), client_id="headway-import") as log:
        with progress("importing", events) as advance:
            return await import_log(export, log, build=f"headway-import/{version()}", progress=advance)


def _shown(one: Imported) -> dict[str, Any]:
    return {
        "shard": one.shard,
        "events": one.events,
        "written": one.written,
        "facts_published": one.facts,
        "leader_elected_seq": one.seq,
        "next_fact_offset": one.next_fact_offset,
        "was_imported_before": one.before,
    }


_COLUMNS = [
    Column("shard", align="right"),
    Column("events", align="right"),
    Column("written", align="right"),
    Column("facts_published", "facts published", "right"),
    Column("leader_elected_seq", "leader elected", "right"),
    Column("next_fact_offset", "next fact", "right"),
]
