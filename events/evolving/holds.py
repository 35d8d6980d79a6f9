"""Folds of the hold: which worker is kept draining, and for which operation (section 5)."""

from collections.abc import Callable
from typing import Any

from events import events as e
from events.evolving.rows import drop_hold
from events.indexing import index_hold
from events.reasons import HoldEnd
from events.state import Hold, Shard


def _hold_made(shard: Shard, event: e.HoldMade) -> None:
    instance = shard.instances[event.instance]
    instance.hold = Hold(
        shard.operations[event.operation_id],
        instance.workers[event.endpoint],
        event.requirement_id,
        event.at_us,
        event.waited_us,
        event.free_at_us,
    )
    instance.no_candidate_for = None
    if shard.live:
        index_hold(shard, instance)


def _hold_moved(shard: Shard, event: e.HoldMoved) -> None:
    instance = shard.instances[event.instance]
    hold = instance.hold
    if hold is not None:  # no decider writes the other case; a fold has no opinion on it
        instance.hold = Hold(
            hold.operation,
            instance.workers[event.to_endpoint],
            hold.requirement_id,
            hold.made_at_us,
            hold.waited_us,
            event.free_at_us,
        )
    instance.no_candidate_for = None
    if shard.live:
        index_hold(shard, instance)


def _hold_released(shard: Shard, event: e.HoldReleased) -> None:
    if event.reason == HoldEnd.EXPIRED:
        shard.operations[event.operation_id].hold_expired_at_us = event.at_us
    drop_hold(shard, shard.instances[event.instance])


def _hold_no_candidate(shard: Shard, event: e.HoldNoCandidate) -> None:
    shard.instances[event.instance].no_candidate_for = event.operation_id


def _worker_idle_capped(shard: Shard, event: e.WorkerIdleCapped) -> None:
    shard.instances[event.instance].workers[event.endpoint].idle_free_kib = event.idle_free_kib


HOLDS_FOLDS: dict[type, Callable[[Shard, Any], None]] = {
    e.HoldMade: _hold_made,
    e.HoldMoved: _hold_moved,
    e.HoldReleased: _hold_released,
    e.HoldNoCandidate: _hold_no_candidate,
    e.WorkerIdleCapped: _worker_idle_capped,
}
