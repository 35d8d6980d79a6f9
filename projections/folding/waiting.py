"""What changes the rows of operations that wait for something else than a free worker: the cache, another scheduler, a capable worker."""

from collections.abc import Callable
from typing import Any

from events import events as e
from events.reasons import CacheAnswer
from projections.row_access import instance_at, operation_at
from projections.stages import enter_stage
from projections.table import Table
from proto.gen.headway.v1.rows_pb2 import STAGE_CACHE_CHECK, STAGE_FORWARDED, STAGE_QUEUED


def _cache_lookup_requested(table: Table, event: e.CacheLookupRequested) -> None:
    key, row = operation_at(table, event.operation_id)
    enter_stage(table, row, STAGE_CACHE_CHECK)
    table.put(key, row)


def _cache_answered(table: Table, event: e.CacheAnswered) -> None:
    """A miss puts it into the queue; a hit and a failure end it, which is an event of its own."""
    if event.answer is not CacheAnswer.MISS:
        return
    key, row = operation_at(table, event.operation_id)
    row.queued_since_us = event.at_us
    enter_stage(table, row, STAGE_QUEUED)
    table.put(key, row)


def _operation_forwarded(table: Table, event: e.OperationForwarded) -> None:
    key, row = operation_at(table, event.operation_id)
    enter_stage(table, row, STAGE_FORWARDED)
    row.upstream = event.upstream
    table.put(key, row)


def _upstream_reported(table: Table, event: e.UpstreamReported) -> None:
    key, row = operation_at(table, event.operation_id)
    row.upstream_state = event.state
    table.put(key, row)


def _demand_unsatisfiable(table: Table, event: e.DemandUnsatisfiable) -> None:
    key, instance = instance_at(table, event.instance)
    _forget_demand(instance, event.requirement_id)
    instance.unsatisfiable.add(
        requirement_id=event.requirement_id,
        since_us=event.at_us,
        properties=event.properties,
        no_workers=event.no_workers,
    )
    table.put(key, instance)


def _demand_satisfiable(table: Table, event: e.DemandSatisfiable) -> None:
    key, instance = instance_at(table, event.instance)
    _forget_demand(instance, event.requirement_id)
    table.put(key, instance)


def _forget_demand(instance: Any, requirement_id: int) -> None:
    for index, row in enumerate(instance.unsatisfiable):
        if row.requirement_id == requirement_id:
            del instance.unsatisfiable[index]
            return


WAITING_FOLDS: dict[type, Callable[[Table, Any], None]] = {
    e.CacheLookupRequested: _cache_lookup_requested,
    e.CacheAnswered: _cache_answered,
    e.OperationForwarded: _operation_forwarded,
    e.UpstreamReported: _upstream_reported,
    e.DemandUnsatisfiable: _demand_unsatisfiable,
    e.DemandSatisfiable: _demand_satisfiable,
}
