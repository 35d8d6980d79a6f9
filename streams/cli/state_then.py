"""`headway replay --at`: the state of a shard at a moment of its past: queue, what ran, fleet and holds as they were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import click

from projections import answers, moment
from projections.table import Table
from streams.cli.main import NOT_FOUND, Failure
from streams.cli.operation import in_full_words
from streams.cli.output import Column, duration, emit, printable
from streams.cli.past import timeline_of
from streams.cli.tables import left_shown, pairs_shown
from streams.log import Log
from streams.moments import Moment, time_of
from streams.settings import Settings


class Narrowed(NamedTuple):
    """What of the state is asked for; nothing set: all of it."""

    instance: str | None = None
    operation: str | None = None
    worker: str | None = None
    queue: bool = False


async def state_then(settings: Settings, log: Log, shard: int, at: Moment, narrowed: Narrowed) -> dict[str, Any]:
    """The state of a shard as of the last event at or before a moment.

    Raises:
        NoSuchMoment: the log does not reach that far.
        Failure: the operation, worker or instance was not there then.
    """
    async with timeline_of(settings, log, shard) as timeline:
        table = timeline.table_at(timeline.seq_of(at))
        return _narrowed(table, narrowed)


def _narrowed(table: Table, narrowed: Narrowed) -> dict[str, Any]:
    known = [row["name"] for row in answers.instances(table)]
    if narrowed.instance is not None and narrowed.instance not in known:
        raise _not_there(table, f"instance {narrowed.instance!r}", f"instances then: {', '.join(known) or 'none'}")
    if narrowed.operation is not None:
        row = answers.lookup(table, narrowed.operation, narrowed.instance)
        if row is None:
            remedy = f"`headway explain operation {narrowed.operation}` knows it before it was queued and after it was forgotten"
            raise _not_there(table, f"operation {narrowed.operation!r}", remedy)
        return {**moment.standing(table), "operation": answers.operation_in_full(table, row)}
    whole = moment.whole(table, narrowed.instance)
    if narrowed.worker is not None:
        found = [worker for worker in whole["workers"] if worker["endpoint"] == narrowed.worker]
        if not found:
            names = ", ".join(worker["endpoint"] for worker in whole["workers"][:20])
            raise _not_there(table, f"worker {narrowed.worker!r}", f"connected then: {names or 'none'}")
        return {**moment.standing(table), "workers": found}
    return {**moment.standing(table), "queue": whole["queue"]} if narrowed.queue else whole


def _not_there(table: Table, what: str, remedy: str) -> Failure:
    when = f"seq {table.shard.seq} of shard {table.number} ({time_of(table.shard.now_us)})"
    return Failure(f"{what} was not there at {when}", code="not-found", exit_code=NOT_FOUND, remedy=remedy)


OPERATIONS = (
    Column("id", "operation"),
    Column("client_operation_id", "client operation"),
    Column("priority", align="right"),
    Column("waiting_us", "waiting", "right", duration),
    Column("endpoint", "worker"),
    Column("requirements", show=pairs_shown),
)
WORKERS = (
    Column("endpoint", "worker"),
    Column("accepts"),
    Column("draining"),
    Column("paused"),
    Column("running", align="right", show=lambda running: str(len(running or ()))),
    Column("left"),
    Column("reserved_for", "held for"),
)


def print_state(answer: Mapping[str, Any], limit: int) -> None:
    """A state for people: lists are cut after `limit` rows, and say so."""
    click.echo(f"shard {answer['shard']} as of seq {answer['seq']}, {time_of(answer['at_us'])}")
    if "operation" in answer:
        emit(in_full_words(answer["operation"]), "table")
        return
    if "state" in answer:
        state = answer["state"]
        leader = f"leader epoch {state['leader_epoch']} ({state['leader_build'] or 'no build named'})"
        counts = ", ".join(f"{state[name]} {name}" for name in ("queued", "executing", "finished", "workers"))
        click.echo(f"{counts}; {leader}")
        for instance in answer["instances"]:
            if instance["paused"]:
                click.echo(printable(f"instance {instance['name']} is paused"))
        for hold in answer["holds"]:
            held = f"{hold['endpoint']} is held for {hold['id']} ({hold['client_operation_id']})"
            click.echo(printable(f"{held} since {time_of(hold['made_at_us'])}"))
    for name, columns in (("queue", OPERATIONS), ("executing", OPERATIONS), ("workers", WORKERS)):
        rows = answer.get(name)
        if rows is None:
            continue
        click.echo(f"\n{name}: {len(rows)}" + (f", the first {limit}" if len(rows) > limit else ""))
        if rows:
            emit([{**row, "left": left_shown(row)} for row in rows[:limit]], "table", list(columns))
