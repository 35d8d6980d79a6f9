"""`headway placements`: where actions run and how that ends, as it is committed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import click

from events.jsonform import placement_to_json
from events.reasons import Outcome, PlacementEnd, RequeueCause, sentence
from streams.cli.output import emit_line, printable
from streams.cli.process import bootstrap_option
from streams.cli.tables import exit_shown
from streams.connection import connected
from streams.log import Log
from streams.placements import ActionPlaced, Placement, PlacementReader, Start
from streams.settings import Settings, load_settings
from streams.shard_map import read_shard_map
from streams.topics import PLACEMENTS

POLL_MS = 500


class StartType(click.ParamType):
    """`latest`, `earliest`, or an offset."""

    name = "latest|earliest|OFFSET"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Start:
        """The parsed value; a usage error for anything else."""
        if value == "latest" or value == "earliest" or isinstance(value, int):
            return value
        if not (isinstance(value, str) and value.isascii() and value.isdigit()):
            self.fail(f"{value!r} is none of latest, earliest and an offset (0 or more)", param, ctx)
        return int(value)


def line_of(placement: Placement) -> str:
    """A placement for people, on one line."""
    operation = f"{placement.instance}/op-{placement.operation_id} {placement.client_operation_id}"
    if isinstance(placement, ActionPlaced):
        again = " (redelivered)" if placement.redelivered else ""
        attempt = f", attempt {placement.attempt}" if placement.attempt > 1 else ""
        return f"placed     {operation} on {placement.endpoint}, dispatch {placement.dispatch_id}{attempt}{again}"
    where = f" on {placement.endpoint}" if placement.endpoint else ""
    if placement.end is PlacementEnd.REQUEUED:
        why = f": {sentence(placement.cause)}" if placement.cause is not RequeueCause.UNSPECIFIED else ""
        return f"requeued   {operation}{where}{why}"
    said = f" {placement.message}" if placement.message else ""
    if placement.outcome is Outcome.COMPLETED:
        return f"finished   {operation}{where}: {exit_shown(placement.exit_code)}{said}"
    return f"{placement.end.name.lower():10} {operation}{where}: {sentence(placement.outcome)}{said}"


@click.command(name="placements")
@click.option("--follow/--no-follow", default=False, help="Go on with what comes, until Ctrl-C.")
@click.option(
    "--from",
    "start",
    type=StartType(),
    default=None,
    help="Where to begin [default: latest with --follow, else earliest]. An offset needs one shard (--shard).",
)
@click.option("--shard", type=click.IntRange(min=0), help="Only this shard [default: all].")
@click.option("--instance", help="Only this instance.")
@click.option("--limit", type=click.IntRange(min=1), help="End after so many.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@bootstrap_option
def placements(
    follow: bool,
    start: Start | None,
    shard: int | None,
    instance: str | None,
    limit: int | None,
    output: str,
    bootstrap_servers: str | None,
) -> None:
    """Print placements: where actions run and how each run ended, one a line, redeliveries left out.

    With -o json each line is an object with `shard` and `offset`; to go on where a run of this command ended, pass the last offset
    plus one to --from.
    """
    settings = load_settings(bootstrap_servers=bootstrap_servers)
    try:
        asyncio.run(_print(settings, follow, start, shard, instance, limit, output))
    except KeyboardInterrupt:
        return


async def _print(
    settings: Settings,
    follow: bool,
    start: Start | None,
    shard: int | None,
    instance: str | None,
    limit: int | None,
    output: str,
) -> None:
    if start is None:
        start = "latest" if follow else "earliest"
    async with connected(settings, client_id="headway-placements") as log:
        if instance is not None and shard is None:
            shard = (await read_shard_map(log)).shard_of(instance)
        shards = None if shard is None else [shard]
        async with PlacementReader(log, start=start, shards=shards, instance=instance) as reader:
            ends = None if follow else await _ends(log, reader.position)
            left = limit
            if ends == reader.position:
                return
            # At least one read: a start past the end of the log is an error, not an empty answer.
            while True:
                found = await reader.read_with_messages(timeout_ms=POLL_MS)
                if ends is not None and not found and await reader.at_end():
                    return  # what is left below the ends are marks of transactions
                for placement, message in found:
                    if ends is not None and placement.offset >= ends[placement.shard]:
                        continue
                    if output == "json":
                        place = {"shard": placement.shard, "offset": placement.offset}
                        emit_line({**place, **placement_to_json(message)})
                    else:
                        click.echo(printable(line_of(placement)))
                    if left is not None:
                        left -= 1
                        if left == 0:
                            return
                if ends is not None and all(reader.position[shard] >= end for shard, end in ends.items()):
                    return


async def _ends(log: Log, shards: Iterable[int]) -> dict[int, int]:
    """Where each shard's placements end now."""
    follower = await log.follow({(PLACEMENTS, shard): None for shard in shards})
    try:
        return {shard: await follower.end_offset((PLACEMENTS, shard)) for shard in shards}
    finally:
        await follower.close()


command = placements
