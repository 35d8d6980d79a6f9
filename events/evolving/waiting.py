"""Folds of what else an operation waits for: the cache, resource hints, another scheduler, a worker that could run it at all."""

from collections.abc import Callable
from typing import Any

from events import events as e
from events.evolving.rows import dequeue, enqueue
from events.indexing import arm_unsatisfiable
from events.reasons import CacheAnswer
from events.state import Shard, Shortage, Stage


def _cache_lookup_requested(shard: Shard, event: e.CacheLookupRequested) -> None:
    operation = shard.operations[event.operation_id]
    dequeue(shard, shard.instances[operation.instance], operation)
    operation.stage = Stage.CACHE_CHECK


def _cache_answered(shard: Shard, event: e.CacheAnswered) -> None:
    if event.answer == CacheAnswer.MISS:  # anything else ends it, which is an event of its own
        operation = shard.operations[event.operation_id]
        operation.stage = Stage.QUEUED
        operation.queued_since_us = event.at_us
        enqueue(shard, shard.instances[event.instance], operation)


def _hints_loaded(shard: Shard, event: e.HintsLoaded) -> None:
    hints = {(hint.target_id, hint.mnemonic): (hint.cpu_millis, hint.memory_kib) for hint in event.hints}
    shard.instances[event.instance].hints = hints


def _operation_forwarded(shard: Shard, event: e.OperationForwarded) -> None:
    operation = shard.operations[event.operation_id]
    dequeue(shard, shard.instances[operation.instance], operation)
    operation.stage = Stage.FORWARDED


def _upstream_reported(shard: Shard, event: e.UpstreamReported) -> None:
    """Where it stands upstream is for views; its end is an event of its own."""


def _demand_unsatisfiable(shard: Shard, event: e.DemandUnsatisfiable) -> None:
    instance = shard.instances[event.instance]
    instance.unsatisfiable[event.requirement_id] = Shortage(event.at_us, event.no_workers)
    if shard.live:
        for operation in instance.matcher.waiting(event.requirement_id):
            arm_unsatisfiable(shard, instance, operation)


def _demand_satisfiable(shard: Shard, event: e.DemandSatisfiable) -> None:
    shard.instances[event.instance].unsatisfiable.pop(event.requirement_id, None)


WAITING_FOLDS: dict[type, Callable[[Shard, Any], None]] = {
    e.CacheLookupRequested: _cache_lookup_requested,
    e.CacheAnswered: _cache_answered,
    e.HintsLoaded: _hints_loaded,
    e.OperationForwarded: _operation_forwarded,
    e.UpstreamReported: _upstream_reported,
    e.DemandUnsatisfiable: _demand_unsatisfiable,
    e.DemandSatisfiable: _demand_satisfiable,
}
