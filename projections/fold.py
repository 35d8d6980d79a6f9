"""`fold` applies one event to the rows of the scheduler state table. Total over the events; it decides nothing.

It is written apart from the core's `evolve` on purpose: the one keeps a live scheduler's objects, the other keeps rows on a
disk, and a test holds each against the other. What is charged to a worker is not stored: it follows from the requirement ids of
what it runs and the instance's configuration (`projections.fleet`). The folds live in projections/folding, by concern.
"""

from collections.abc import Callable
from typing import Any

from events import events as e
from projections.folding.clients import CLIENT_FOLDS
from projections.folding.holds import HOLD_FOLDS
from projections.folding.operations import OPERATION_FOLDS
from projections.folding.shard import SHARD_FOLDS
from projections.folding.waiting import WAITING_FOLDS
from projections.folding.workers import WORKER_FOLDS
from projections.table import Table

LeaderElected = e.LeaderElected


def fold(table: Table, event: e.Event) -> None:
    """Change the rows by `event`; the position moves with it. The caller has checked that it is the next one.

    Raises MissingRow when the event speaks of something the table does not hold.
    """
    FOLDS[type(event)](table, event)
    shard = table.shard
    shard.seq = event.seq
    shard.now_us = event.at_us
    shard.events += 1
    if type(event) is not LeaderElected:
        shard.facts_position = event.cause_offset


FOLDS: dict[type, Callable[[Table, Any], None]] = {
    **SHARD_FOLDS,
    **OPERATION_FOLDS,
    **CLIENT_FOLDS,
    **WAITING_FOLDS,
    **WORKER_FOLDS,
    **HOLD_FOLDS,
}
