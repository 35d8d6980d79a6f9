"""Where an operation stands in the queue, who is ahead of it, and who went past it while it waited."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from events.events import OperationQueued
from projections import keys
from projections.explaining.standings import Assessed
from projections.row_access import named_values, queue_key, queued_rows, requirements_of_row
from projections.table import Table
from proto.gen.headway.v1.rows_pb2 import OperationRow, RunRow

NAMED = 3
"""Operations ahead, and overtakers, that are named; the rest is a count."""

PLACES_COUNTED = 20_000
"""In a longer queue an operation's place behind these is not counted out: it would take seconds, in which nothing is folded."""

RUNS_LOOKED_AT = 1_000
"""Runs whose operations are looked at to find those that overtook, the latest first."""


def brief(table: Table, row: OperationRow | OperationQueued) -> dict[str, Any]:
    """An operation in a few words, from its row or the event that queued it: who it is and what it asks for."""
    return {
        "id": f"{row.instance}/op-{row.operation_id}",
        "operation_id": row.operation_id,
        "client_operation_id": row.client_operation_id,
        "target_id": row.target_id or None,
        "priority": row.priority,
        "requirements": named_values(requirements_of_row(table, row.requirement_id)),
    }


def head_of(table: Table, instance: str) -> OperationRow | None:
    """The first operation that waits; None when nothing does."""
    return next(queued_rows(table, instance), None)


def place(table: Table, row: OperationRow) -> dict[str, Any]:
    """Its place in the queue, from 1, and the first ones ahead. `place` is null beyond `PLACES_COUNTED`."""
    own = queue_key(table, row)
    ahead = 0
    first: list[dict[str, Any]] = []
    for key, identity in islice(table.scan(table.key(keys.QUEUED, keys.named(row.instance))), PLACES_COUNTED):
        if key >= own:
            return {"place": ahead + 1, "ahead": ahead, "first_ahead": first}
        ahead += 1
        if len(first) < NAMED:
            first.append(brief(table, table.row(table.key(keys.OPERATION, identity), OperationRow)))
    return {"place": None if ahead == PLACES_COUNTED else ahead + 1, "ahead": ahead, "first_ahead": first}


@dataclass(frozen=True, slots=True)
class Overtaker:
    """A run that began while the operation waited, of an operation that sorts after it."""

    row: OperationRow
    run: RunRow
    endpoint: str


def overtaken(table: Table, row: OperationRow, closest: Iterable[Assessed]) -> dict[str, Any]:
    """Who went past it and still runs, on workers that it could run on: how many, and the first of them.

    `complete` is false when there were more than `RUNS_LOOKED_AT` runs to look at; then there may be more.
    """
    began = [
        (run, each.worker.endpoint)
        for each in closest
        for run in each.worker.running
        if run.operation_id != row.operation_id and not run.revoked and run.since_us >= row.queued_since_us
    ]
    began.sort(key=lambda item: -item[0].dispatch_id)  # what was placed late is what went past it
    own = queue_key(table, row)
    found = []
    for run, endpoint in began[:RUNS_LOOKED_AT]:
        other = table.find(table.key(keys.OPERATION, keys.number(run.operation_id)), OperationRow)
        # A dispatch that overtook nobody was placed before this operation came, whatever time that is queued since.
        if other is not None and other.dispatch.HasField("overtook") and queue_key(table, other) > own:
            found.append(Overtaker(other, run, endpoint))
    found.sort(key=lambda overtaker: overtaker.run.dispatch_id)
    return {
        "running": len(found),
        "complete": len(began) <= RUNS_LOOKED_AT,
        "first": [
            {
                **brief(table, overtaker.row),
                "dispatch_id": overtaker.run.dispatch_id,
                "endpoint": overtaker.endpoint,
                "since_us": overtaker.run.since_us,
                "backfilled": overtaker.row.dispatch.backfilled,
            }
            for overtaker in found[:NAMED]
        ],
    }
