"""`fold` applies one event to the rows of the scheduler state table. Total over the events; it decides nothing.

It is written apart from the core's `evolve` on purpose: the one keeps a live scheduler's objects, the other keeps rows on a
disk, and a test holds each against the other. What is charged to a worker is not stored: it follows from the requirement ids of
what it runs and the instance's configuration (`projections.fleet`). The folds live in projections/folding, by concern; what endpoints
hold is folded apart as well (`locality_fold`).
"""

from collections.abc import Callable, Iterable
from typing import Any

from events import events as e
from projections.folding.clients import CLIENT_FOLDS
from projections.folding.holds import HOLD_FOLDS
from projections.folding.operations import OPERATION_FOLDS
from projections.folding.shard import SHARD_FOLDS
from projections.folding.waiting import WAITING_FOLDS
from projections.folding.workers import WORKER_FOLDS
from projections.locality_fold import LOCALITY_FOLDS
from projections.table import Table

Fold = Callable[[Table, Any], None]

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


def _both(first: Fold, then: Fold) -> Fold:
    def fold_both(table: Table, event: Any) -> None:
        first(table, event)
        then(table, event)

    return fold_both


def _composed(parts: Iterable[dict[type, Fold]]) -> dict[type, Fold]:
    """One fold for each kind of event; where two parts have one, both, in the order of the parts."""
    folds: dict[type, Fold] = {}
    for part in parts:
        for kind, one in part.items():
            folds[kind] = _both(folds[kind], one) if kind in folds else one
    return folds


FOLDS: dict[type, Fold] = _composed(
    (SHARD_FOLDS, OPERATION_FOLDS, CLIENT_FOLDS, WAITING_FOLDS, WORKER_FOLDS, HOLD_FOLDS, LOCALITY_FOLDS)
)
