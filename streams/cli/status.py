"""`headway status`: the broker, each shard's position, leader and lag, how much is queued and running, and which workers are held."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import click

from streams.cli.numbers import FiniteRange
from streams.cli.output import Column, duration, output_option, show, watch_option
from streams.connection import NoBroker, connected, running_broker
from streams.log import Log
from streams.settings import Settings, load_settings
from streams.topics import EVENTS, FACTS
from streams.views import Answer, ViewRefused, Views, ViewsUnreachable

LOOKED_AT = 1_000
"""Of a longer queue, kinds of action that no worker could run are counted among so many of the first."""


@click.command("status")
@click.option(
    "--wait",
    "wait_s",
    is_flag=False,
    flag_value=60.0,
    default=None,
    type=FiniteRange(0, 86_400),
    metavar="[SECONDS]",
    help="First wait until the read side is complete, at most SECONDS [60]; exit code 1 when it is not by then.",
)
@output_option
@watch_option
def command(wait_s: float | None, output: str, watch: float | None) -> None:
    """Show the broker, the shards and how much is queued and running. Exit code 1 when the broker does not answer.

    After a start the read side reads the log to its end before it answers; until then other commands say "not ready yet", with how
    far it is, and exit with 1. `headway status --wait` is for scripts that want to wait.
    """
    settings = load_settings()
    if wait_s is not None:
        Views(settings.views_address).wait_until_ready(timeout_s=wait_s)
    columns = [
        Column("shard", align="right"),
        Column("seq", align="right"),
        Column("undecided", "undecided facts", "right"),
        Column("lag", "table behind", "right"),
        Column("age_ms", "age", "right", lambda value: duration(None if value is None else value * 1_000)),
        Column("leader_epoch", "leader epoch", "right"),
        Column("workers", align="right"),
        Column("queued", align="right"),
        Column("executing", align="right"),
        Column("head_waiting_us", "head waits", "right", duration),
        Column("ignored", "ignored", "right", _summed),
        Column("rejected", "rejected", "right", _summed),
        Column("parked_keys", "parked keys"),
        Column("checkpoint", "checkpoint", "right", lambda one: "" if one is None else str(one["seq"])),
    ]
    show(
        lambda: ask_everything(settings),
        output,
        lambda answer: answer["shards"],
        columns,
        footer_of=_footer,
        watch=watch,
    )


def ask_everything(settings: Settings) -> Answer:
    """What the broker, the log's ends and the state table say; the table's part is absent when it does not answer.

    Raises NoBroker, BrokerFailed, LogUnavailable: without the log there is no status.
    """
    broker = running_broker(settings)
    if broker is None:
        raise NoBroker(settings)
    ends = asyncio.run(_ends(settings))
    views = Views(settings.views_address)
    table: dict[int, dict[str, Any]] = {}
    read_side: dict[str, Any] = {"address": views.address, "answers": True}
    holds: list[dict[str, Any]] = []
    never: set[str] = set()
    cut = False
    try:
        said = views.status()
        table = {part["shard"]: part for part in said["shards"]}
        read_side |= {"ready": said["ready"], "not_ready": said["not_ready"]}
        for row in views.instances()["instances"] if any(part["queued"] for part in table.values()) else ():
            holds += [row["hold"]] if row["hold"] is not None else []
            # What nobody could run is remembered of a kind also when none of it waits any more: only the queue says what does.
            first = views.queue(instance=row["name"], limit=LOOKED_AT if row["unsatisfiable"] else 1)["operations"]
            cut |= len(first) >= LOOKED_AT
            never |= {_kind(each) for each in first if each["unsatisfiable_since_us"] is not None}
            for head in first[:1]:
                part = table[row["shard"]]
                part["head_waiting_us"] = max(part.get("head_waiting_us", 0), head["waiting_us"])
    except (ViewsUnreachable, ViewRefused) as error:
        read_side = {"address": views.address, "answers": False, "error": error.message}
    shards = []
    for shard, (facts_end, events_end) in ends.items():
        part = table.get(shard, {})
        shards.append(
            {
                "shard": shard,
                "facts_end": facts_end,
                "events_end": events_end,
                "undecided": _undecided(part, facts_end),
                "lag": max(0, events_end - part["next_offset"]) if part else None,
                **part,
            }
        )
    return {
        "broker": {
            "kind": broker.kind,
            "version": broker.version,
            "bootstrap_servers": broker.bootstrap_servers,
            "topic_prefix": settings.topic_prefix,
        },
        "read_side": read_side,
        "shards": shards,
        "holds": holds,
        "unsatisfiable": len(never),
        "unsatisfiable_complete": not cut,
    }


def _kind(operation: dict[str, Any]) -> str:
    """What makes two operations of one kind here: that they ask for the same in the same instance."""
    return json.dumps([operation["instance"], operation["requirements"]], sort_keys=True)


def _undecided(part: dict[str, Any], facts_end: int) -> int | None:
    """Facts behind the decided position as far as the table has seen it: the sum of the decider's and the table's lag."""
    return max(0, facts_end - 1 - part["facts_position"]) if part else None


async def _ends(settings: Settings) -> dict[int, tuple[int, int]]:
    async with connected(settings, client_id="headway-cli") as log:
        topics = await log.describe_topics()
        shards = topics[FACTS].partitions if FACTS in topics and EVENTS in topics else 0
        return {shard: (await _end(log, FACTS, shard), await _end(log, EVENTS, shard)) for shard in range(shards)}


async def _end(log: Log, topic: str, shard: int) -> int:
    follower = await log.follow({(topic, shard): 0})
    try:
        return await follower.end_offset((topic, shard))
    finally:
        await follower.close()


def _summed(counts: dict[str, int] | None) -> str:
    return "" if counts is None else str(sum(counts.values()))


def _footer(answer: Answer) -> str:
    broker, read_side = answer["broker"], answer["read_side"]
    prefix = f", topics {broker['topic_prefix']}*" if broker["topic_prefix"] else ""
    lines = [f"broker: Kafka {broker['version']} at {broker['bootstrap_servers']} ({broker['kind']}{prefix})"]
    if read_side["answers"]:
        lines.append(f"read side: {read_side['address']}")
        if not read_side["ready"]:
            lines.append(f"not ready yet: {read_side['not_ready']}")
    else:
        lines.append(f"{read_side['error']}; start it with `headway state-table run`")
    for hold in answer["holds"]:
        held = f"{hold['endpoint']} is held for {hold['id']} ({hold['client_operation_id']})"
        lines.append(f"hold: {held} for {duration(hold['held_us'])}; `headway explain hold` says more")
    if answer["unsatisfiable"]:
        kinds = "1 kind" if answer["unsatisfiable"] == 1 else f"{answer['unsatisfiable']} kinds"
        least = "" if answer["unsatisfiable_complete"] else "at least "
        lines.append(
            f"{least}{kinds} of action waiting that no connected worker could ever run; `headway queue list` notes them"
        )
    for part in answer["shards"]:
        divergence, checkpoint = part.get("divergence"), part.get("checkpoint")
        if divergence is not None and (checkpoint is None or checkpoint["seq"] < divergence["seq"]):
            who = f"{divergence['by']} against {divergence['other_by']}"
            where = f"shard {part['shard']}: two folds differ in the state after event {divergence['seq']} ({who})"
            lines.append(f"ALARM: {where}, and no later state is verified: infra/runbooks/snapshots.md")
    if not answer["shards"]:
        lines.append("no topics yet: `headway topics apply` makes them")
    return "\n".join(lines)
