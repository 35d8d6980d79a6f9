"""`headway explain operation | hold`: why an operation waits now, or as of an earlier event; what a hold is for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import click

from projections import answers
from projections.explain import explain_operation
from streams.cli.explaining import hold_in_words, operation_in_words
from streams.cli.main import NOT_FOUND, Failure
from streams.cli.output import emit, output_option, printable, progress
from streams.cli.tables import answer_age, parse_operation
from streams.connection import connected
from streams.replay import Replayed, replay
from streams.settings import DEFAULT_INSTANCE, Settings, load_settings
from streams.shard_map import read_shard_map
from streams.topics import EVENTS
from streams.views import Answer, Views


@click.group("explain")
def command() -> None:
    """Say why an operation waits, what each worker lacks for it, and what a hold is for."""


@command.command()
@click.argument("name", metavar="OPERATION")
@click.option("--instance", metavar="NAME", help="Where to look for it [default: everywhere; with --as-of: main].")
@click.option(
    "--at-placement",
    is_flag=True,
    help="As of the event before its last dispatch: why it waited until then, and why this worker and not another.",
)
@click.option("--as-of", "seq", type=click.IntRange(min=1), metavar="SEQ", help="As of this event of its shard.")
@output_option
def operation(name: str, instance: str | None, at_placement: bool, seq: int | None, output: str) -> None:
    """Explain an operation, by INSTANCE/op-N, op-N, N or its client operation id.

    For one that waits: its place, who is ahead, what it asks for and the most that is free of it, what keeps each worker from taking it,
    who overtook it, and the hold. It is as of now, from the state table; as of an earlier event the log is folded up to it first.
    """
    if at_placement and seq is not None:
        raise click.UsageError("--at-placement and --as-of name two moments; give one of them")
    settings = load_settings()
    if not at_placement and seq is None:
        answer = Views(settings.views_address).explain_operation(name, instance=instance)
    elif at_placement:
        found = _dispatched(settings, name, instance)
        answer = asyncio.run(_earlier(settings, name, str(found["instance"]), int(found["dispatch_id"]) - 1))
        # The rows before a dispatch cannot say what it was told of holders; the dispatch itself does.
        answer["placed"] = {each: found[each] for each in ("endpoint", "dispatch_id", "holders", "saved_bytes")}
    else:
        answer = asyncio.run(_earlier(settings, name, instance, seq or 0))
    _print(answer, output, operation_in_words)


@command.command()
@click.argument("name", metavar="[OPERATION|WORKER]", required=False)
@click.option("--instance", metavar="NAME", help="Whose hold [default: that of NAME, else main].")
@output_option
def hold(name: str | None, instance: str | None, output: str) -> None:
    """Explain the hold for an operation or on a worker; without either, that of the instance.

    Says why it was made and for whom, what the worker still runs and keeps idle, and when it ends; where there is no hold, why not.
    """
    views = Views(load_settings().views_address)
    answer = views.explain_hold(name, instance=instance if name or instance else DEFAULT_INSTANCE)
    _print(answer, output, hold_in_words)


def _print(answer: Answer, output: str, in_words: Callable[[Answer], list[str]]) -> None:
    if output == "json":
        emit(answer, output)
        return
    for line in in_words(answer):
        click.echo(printable(line))
    for part in answer["shards"]:
        earlier = f"as of seq {part['seq']} of shard {part['shard']}, folded from the log"
        click.echo(earlier if part["age_ms"] is None else answer_age(answer))


def _dispatched(settings: Settings, name: str, instance: str | None) -> Answer:
    """The operation as it stands, with its last dispatch. Raises Failure when it was never dispatched."""
    found: Answer = Views(settings.views_address).operation(name, instance=instance)["operation"]
    if found["dispatch_id"] is None:
        raise Failure(
            f"operation {found['id']} ({found['client_operation_id']}) is {found['stage']} and is not placed",
            code="not-placed",
            remedy="Without --at-placement it is explained as it stands now; --as-of SEQ takes any moment",
        )
    return found


async def _earlier(settings: Settings, name: str, instance: str | None, seq: int) -> Answer:
    """The explanation as of an event, from the log alone. Raises Failure when the operation was not there then."""
    where = instance or parse_operation(name).instance or DEFAULT_INSTANCE
    async with connected(settings, client_id="headway-explain") as log:
        shard = (await read_shard_map(log)).shard_of(where)
        with progress(f"folding {EVENTS} of shard {shard}", seq) as advance:
            replayed = await replay(log, shard, until_seq=seq, progress=advance)
    row = answers.lookup(replayed.table, name, where)
    if row is None or replayed.seq != seq:
        raise Failure(_missing(name, seq, replayed), code="not-found", exit_code=NOT_FOUND, remedy=_NEAR)
    stamp: dict[str, Any] = {"shard": shard, "seq": replayed.seq, "age_ms": None}
    return {**explain_operation(replayed.table, row), "seq": replayed.seq, "age_ms": None, "shards": [stamp]}


_NEAR = "`headway events tail --from-seq SEQ --limit 20` shows what happened around it"


def _missing(name: str, seq: int, replayed: Replayed) -> str:
    if replayed.damage is not None:
        return f"the log is damaged behind seq {replayed.seq}, before seq {seq}: {replayed.damage}"
    if replayed.seq != seq:
        return f"shard {replayed.shard} has no seq {seq}; its last event is {replayed.seq}"
    return f"operation {name!r} was not there at seq {seq} of shard {replayed.shard}: not queued yet, or forgotten"
