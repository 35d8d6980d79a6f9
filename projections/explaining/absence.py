"""Whether a worker is held for an operation, and if not, why not."""

from typing import Any

from events.config import SECOND_US, SimpleScheduler
from events.config.hold import BackfillHold, HoldConfig
from events.reasons import HoldAbsence, sentence
from projections.explaining.never import never_runs
from projections.explaining.queueing import brief, head_of
from projections.explaining.standings import Standings
from projections.holding import hold_of, no_candidate_of
from projections.row_access import operation_at, queue_key
from projections.table import Table
from proto.gen.headway.v1.rows_pb2 import STAGE_QUEUED, InstanceRow, OperationRow


def hold_for(table: Table, instance: InstanceRow, row: OperationRow, config: SimpleScheduler) -> dict[str, Any]:
    """`hold` when one stands for the operation; else why none does as `hold_absence`, and the instance's hold as `other_hold`."""
    hold = hold_of(table, instance)
    if hold is not None and hold["operation_id"] == row.operation_id:
        return {"hold": hold, "hold_absence": None, "other_hold": None}
    return {"hold": None, "hold_absence": why_not_held(table, instance, row, config), "other_hold": hold}


def why_not_held(
    table: Table, instance: InstanceRow, row: OperationRow | None, config: SimpleScheduler
) -> dict[str, Any]:
    """Why no worker is held for the operation (None: there is none): the first reason that holds, with its figures (H1-H7, H14).

    Of `not_head` they are the `head`, and `head_never` as `never_runs` has it where that one could never run on a worker that is
    connected: it stays the head, nobody can be held for it, and nobody is held for who waits behind it.
    """
    policy = config.hold
    if policy is None:
        return _said(HoldAbsence.OFF)
    if row is None:
        return _said(HoldAbsence.NOTHING_WAITS)
    if row.stage != STAGE_QUEUED:
        return _said(HoldAbsence.NOT_QUEUED)
    if instance.paused:
        return _said(HoldAbsence.INSTANCE_PAUSED)
    head = head_of(table, instance.name)
    if head is not None and head.operation_id != row.operation_id:
        head_never = never_runs(instance, head, Standings(table, instance, head))
        return _said(HoldAbsence.NOT_HEAD, head=brief(table, head), head_never=head_never)
    waited_us = max(0, table.shard.now_us - row.queued_since_us)
    if waited_us < policy.after_s * SECOND_US:
        return _said(HoldAbsence.TOO_EARLY, waited_us=waited_us, after_us=policy.after_s * SECOND_US)
    again_us = _again_us(row, policy)
    if again_us > table.shard.now_us:
        return _said(HoldAbsence.EXPIRED, expired_at_us=row.hold_expired_at_us, again_at_us=again_us)
    if instance.HasField("hold"):
        _, held_for = operation_at(table, instance.hold.operation_id)
        if queue_key(table, held_for) > queue_key(table, row):
            return _said(HoldAbsence.OTHER_HELD, endpoint=instance.hold.endpoint, held_for=brief(table, held_for))
    missed = no_candidate_of(table, instance)
    if missed is not None and missed["operation_id"] == row.operation_id:
        return _said(HoldAbsence.NO_CANDIDATE, since_us=missed["since_us"], excluded=missed["excluded"])
    return _said(HoldAbsence.NO_CANDIDATE if isinstance(policy, BackfillHold) else HoldAbsence.NOT_OVERTAKEN)


def _again_us(row: OperationRow, policy: HoldConfig) -> int:
    """When the operation may be held for again after a hold that expired; 0: none has."""
    if not row.hold_expired_at_us:
        return 0
    return row.hold_expired_at_us + max(policy.after_s, policy.max_hold_s or 0) * SECOND_US


def _said(reason: HoldAbsence, **figures: Any) -> dict[str, Any]:
    return {"reason": reason.name.lower(), "sentence": sentence(reason), **figures}
