"""`headway topics plan | apply`: the topics, what they will cost, and the shard map."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from streams.cli.numbers import FiniteRange
from streams.cli.output import Column, emit, note, output_option, size
from streams.connection import connected
from streams.provisioning import Provisioned, parse_assignment, provision, shards_of
from streams.settings import load_settings
from streams.topics import DEFAULT_TRAFFIC, Load, Plan, Traffic, plan, topic_table

_DAY_MS = 86_400_000


@click.group("topics")
def command() -> None:
    """Plan and make the topics and the shard map."""


@command.command("plan")
@click.option("--shards", type=click.IntRange(1, 10_000), help="Partitions per topic [default: as they are, else 1].")
@click.option(
    "--actions-per-s",
    type=FiniteRange(0, 1_000_000),
    default=10.0,
    show_default=True,
    help="Actions a second, all shards together, averaged over a day.",
)
@click.option("--workers", type=click.IntRange(0, 1_000_000), default=100, show_default=True)
@click.option("--replicas", type=click.IntRange(1, 9), default=1, show_default=True, help="Copies of each record.")
@click.option(
    "--record-bytes",
    "sizes",
    multiple=True,
    metavar="TOPIC=BYTES",
    help="A measured mean record size, of facts, events or placements; may be repeated.",
)
@click.option("--new-cluster", is_flag=True, help="Plan for an empty cluster; no broker is asked.")
@output_option
def show_plan(
    shards: int | None,
    actions_per_s: float,
    workers: int,
    replicas: int,
    sizes: tuple[str, ...],
    new_cluster: bool,
    output: str,
) -> None:
    """Print what `apply` would do, the bytes a day, and the disk that the retention needs. Changes nothing."""
    load = Load(cycles_per_s=actions_per_s, workers=workers, replicas=replicas, traffic=measured_traffic(sizes))
    made = plan(topic_table(shards or 1), {}, load) if new_cluster else asyncio.run(_plan(shards, load))
    rows = _rows(made)
    if output == "json":
        emit(
            {
                "topics": rows,
                "bytes_per_day": made.bytes_per_day,
                "settled_bytes": made.settled_bytes,
                "growth_bytes_per_day": made.growth_bytes_per_day,
                "changes": made.lines(),
            },
            output,
        )
        return
    columns = [
        Column("topic"),
        Column("partitions", align="right"),
        Column("change"),
        Column("kept"),
        Column("bytes_per_day", "per day", "right", size),
        Column("disk_bytes", "disk", "right", lambda value: "grows" if value is None else size(value)),
    ]
    footer = (
        f"at {actions_per_s:g} actions/s and {workers} workers: {size(made.bytes_per_day)} a day; "
        f"{size(made.settled_bytes)} settled, and {size(made.growth_bytes_per_day)} a day of events, which are kept"
    )
    emit(rows, output, columns, footer=footer)
    for line in made.lines():
        note(line)


@command.command()
@click.option(
    "--instance",
    "instances",
    multiple=True,
    metavar="NAME[=SHARD]",
    help="Register an instance; may be repeated [default: main, when there is none yet].",
)
@click.option("--shards", type=click.IntRange(1, 10_000), help="Partitions per topic [default: as they are, else 1].")
@click.option("--move", is_flag=True, help="Let an instance change its shard; its queue and configuration stay behind.")
@output_option
def apply(instances: tuple[str, ...], shards: int | None, move: bool, output: str) -> None:
    """Create and alter topics, register instances, and give new ones the default configuration."""
    made = asyncio.run(_apply(dict(parse_assignment(text) for text in instances), shards, move))
    if output == "json":
        emit({"done": list(made.done), "instances": dict(made.shard_map.shards)}, output)
        return
    for line in made.done:
        note(line)
    if not made.done:
        note("nothing to do: topics and shard map are as they should be")
    rows = [{"instance": instance, "shard": shard} for instance, shard in made.shard_map.shards.items()]
    emit(rows, output, [Column("instance"), Column("shard", align="right")])


async def _plan(shards: int | None, load: Load) -> Plan:
    async with connected(load_settings()) as log:
        existing = await log.describe_topics()
    return plan(topic_table(shards or max(1, shards_of(existing))), existing, load)


async def _apply(instances: dict[str, int | None], shards: int | None, move: bool) -> Provisioned:
    async with connected(load_settings()) as log:
        return await provision(log, instances, shards=shards, allow_moves=move)


def measured_traffic(sizes: Sequence[str]) -> dict[str, Traffic]:
    """The default traffic with the given mean record sizes (`facts=500`, or a topic by its full name).

    Raises click.BadParameter.
    """
    traffic = dict(DEFAULT_TRAFFIC)
    names = {name.removeprefix("headway.").removesuffix(".v1"): name for name in traffic}
    for text in sizes:
        given, _, amount = text.partition("=")
        name = names.get(given, given)
        if name not in traffic or not (amount.isascii() and amount.isdigit()) or int(amount) == 0:
            raise click.BadParameter(
                f"{text!r} is not TOPIC=BYTES with a topic of {', '.join(names)}", param_hint="--record-bytes"
            )
        traffic[name] = replace(traffic[name], record_bytes=int(amount))
    return traffic


def _rows(made: Plan) -> list[dict[str, Any]]:
    return [
        {
            "topic": topic.change.spec.name,
            "partitions": topic.change.spec.partitions,
            "change": topic.change.action,
            "kept": _kept(topic.change.spec.retention_ms, topic.change.spec.cleanup_policy),
            "bytes_per_day": topic.bytes_per_day,
            "disk_bytes": topic.disk_bytes,
        }
        for topic in made.topics
    ]


def _kept(retention_ms: int | None, cleanup_policy: str) -> str:
    if cleanup_policy == "compact":
        return "last per key"
    return "for ever" if retention_ms is None else f"{retention_ms // _DAY_MS} days"
