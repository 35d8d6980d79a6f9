"""An operation goes from stage to stage: its place in the queue and the instance's counts go with it."""

from projections import keys
from projections.row_access import instance_at, queue_key
from projections.table import Table
from proto.gen.headway.v1.rows_pb2 import (
    STAGE_CACHE_CHECK,
    STAGE_EXECUTING,
    STAGE_FINISHED,
    STAGE_FORWARDED,
    STAGE_QUEUED,
    InstanceRow,
    OperationRow,
)

COUNTED: dict[int, str] = {
    STAGE_QUEUED: "queued",
    STAGE_EXECUTING: "executing",
    STAGE_FINISHED: "finished",
    STAGE_CACHE_CHECK: "checking",
    STAGE_FORWARDED: "forwarded",
}
"""The field of the instance's row that counts operations of a stage."""


def enter_stage(table: Table, row: OperationRow, stage: int) -> InstanceRow:
    """Move the operation to `stage`, into or out of the queue, and the instance's counts; the caller puts `row`.

    Returns the instance's row, for what else changes in it. A stage of 0 is that of a new row, which is counted nowhere yet.
    """
    instance_key, instance = instance_at(table, row.instance)
    before = row.stage
    if before:
        _count(instance, before, -1)
        if before == STAGE_QUEUED:
            table.delete(queue_key(table, row))
    _count(instance, stage, 1)
    if stage == STAGE_QUEUED:
        table.put(queue_key(table, row), keys.number(row.operation_id))
    row.stage = stage
    table.put(instance_key, instance)
    return instance


def _count(instance: InstanceRow, stage: int, by: int) -> None:
    name = COUNTED[stage]
    setattr(instance, name, getattr(instance, name) + by)
