"""What events of operations change in the rows: queued, dispatched, accepted, requeued, finished, forgotten."""

from collections.abc import Callable
from typing import Any

from events import events as e
from events.reasons import Outcome, RequeueCause
from events.values import NO_USAGE, QueueOrder
from projections import keys
from projections.folding.clients import first_client
from projections.row_access import (
    client_key,
    client_operation_ids,
    instance_at,
    operation_at,
    promote,
    queue_key,
    run_of,
    settle,
    worker_at,
)
from projections.stages import enter_stage
from projections.table import MissingRow, Table
from proto.gen.headway.v1 import events_pb2
from proto.gen.headway.v1.rows_pb2 import (
    STAGE_EXECUTING,
    STAGE_FINISHED,
    STAGE_QUEUED,
    InstanceRow,
    OperationRow,
    OutcomeCount,
    RequeueCount,
    ShareRow,
    WorkerRow,
)

PAUSING = (RequeueCause.DECLINED, RequeueCause.BACKPRESSURE, RequeueCause.UNACKNOWLEDGED)
"""Causes that pause the worker until a keepalive lifts it."""

FROM_ITS_WORKER = (RequeueCause.JOB_ERROR, RequeueCause.ESCALATED)
"""Causes that the worker reported, so that it was heard."""


_MOSTLY_DEFAULT = (
    "priority",
    "command",
    "timeout_us",
    "expected_duration_us",
    "client_id",
    "invocation_id",
    "target_id",
    "mnemonic",
    "cacheable",
    "skip_cache_lookup",
    "attached",
    "clamped_us",
    "asked_requirement_id",
)
_MOSTLY_NONE = ("exit_code", "message", "stdout_tail", "stderr_tail", "job_failures", "worker_losses")


def _operation_queued(table: Table, event: e.OperationQueued) -> None:
    row = OperationRow()
    row.operation_id = event.cause_offset
    row.instance = event.instance
    row.client_operation_id = event.client_operation_id
    row.requirement_id = event.requirement_id
    row.queued_at_us = row.queued_since_us = event.queued_at_us
    # Setting a field costs three times what looking whether it is the default does, and most are.
    for name in _MOSTLY_DEFAULT:
        value = getattr(event, name)
        if value:
            setattr(row, name, value)
    if event.action_digest.hash:
        row.action_digest.hash = event.action_digest.hash
        row.action_digest.size_bytes = event.action_digest.size_bytes
    if event.attached:
        row.clients.append(first_client(row, event.at_us))
    if event.order is not None:
        _order(row, event.order)
    if event.order is not None and event.order.cost_us:
        tag_us = event.order.time_us + event.order.cost_us
        table.put(share_key(table, row.instance, event.order.share_of), ShareRow(tag_us=tag_us))
    enter_stage(table, row, STAGE_QUEUED)
    identity = keys.number(event.cause_offset)
    table.put(table.key(keys.OPERATION, identity), row)
    table.put(client_key(table, event.instance, event.client_operation_id), identity)


def _order(row: OperationRow, order: QueueOrder | None) -> None:
    """Put the operation where fairness or aging wants it."""
    if order is None:
        row.ClearField("order")
    else:
        row.order.CopyFrom(events_pb2.QueueOrder(**order._asdict()))


def share_key(table: Table, instance: str, share_of: str) -> bytes:
    """Where what one client or invocation was served stands."""
    return table.key(keys.SHARE, keys.named(instance) + share_of.encode())


def _operation_dispatched(table: Table, event: e.OperationDispatched) -> None:
    key, row = operation_at(table, event.operation_id)
    worker_key, worker = worker_at(table, row.instance, event.endpoint)
    instance = enter_stage(table, row, STAGE_EXECUTING)
    row.dispatches += 1
    if row.dispatches > 1:
        row.ClearField("dispatch")
    dispatch = row.dispatch
    dispatch.dispatch_id = event.seq
    dispatch.endpoint = event.endpoint
    dispatch.connection_id = event.connection_id
    dispatch.dispatched_at_us = event.at_us
    if event.overtook is not None:
        dispatch.overtook = event.overtook
    if event.backfilled:
        dispatch.backfilled = True
    if event.holders:
        for endpoint, count in event.holders:
            dispatch.holders.add(endpoint=endpoint, bytes=count)
        dispatch.saved_bytes = event.saved_bytes
    run = worker.running.add()
    run.dispatch_id = event.seq
    run.operation_id = event.operation_id
    run.requirement_id = row.requirement_id
    run.since_us = run.heard_at_us = event.at_us
    worker.dispatches += 1
    worker.recency = event.seq  # promoted, but not heard
    instance.dispatches += 1
    if row.HasField("order") and row.order.cost_us:
        instance.virtual_us = max(instance.virtual_us, row.order.time_us)
    if instance.HasField("hold") and instance.hold.operation_id == row.operation_id:
        instance.ClearField("hold")  # how it ended follows; no table ever shows both
    table.put(key, row)
    table.put(worker_key, worker)


def _operation_accepted(table: Table, event: e.OperationAccepted) -> None:
    key, row = operation_at(table, event.operation_id)
    _check_current(row, event.dispatch_id)
    row.dispatch.accepted = True
    row.dispatch.accepted_at_us = event.at_us
    worker_key, worker = worker_at(table, row.instance, row.dispatch.endpoint)
    run = run_of(worker, event.dispatch_id)
    if run is not None:
        run.accepted = True
        run.heard_at_us = event.at_us
    promote(worker, event)
    table.put(key, row)
    table.put(worker_key, worker)


def _operation_requeued(table: Table, event: e.OperationRequeued) -> None:
    key, row = operation_at(table, event.operation_id)
    _check_current(row, event.dispatch_id)
    worker_key, worker = worker_at(table, row.instance, row.dispatch.endpoint)
    instance = enter_stage(table, row, STAGE_QUEUED)
    row.queued_since_us = event.at_us
    row.job_failures = event.job_failures
    row.worker_losses = event.worker_losses
    row.free_requeues = event.free_requeues
    row.escalations = event.escalations
    if event.requirement_id:
        row.asked_requirement_id = row.asked_requirement_id or row.requirement_id
        row.requirement_id = event.requirement_id
    row.requeue_cause = event.cause
    row.requeue_message = event.message
    row.requeue_endpoint = row.dispatch.endpoint
    row.ClearField("dispatch")
    run = run_of(worker, event.dispatch_id)
    if run is not None and not run.revoked:
        settle(worker, event.dispatch_id)
    if event.cause in PAUSING:
        _pause(worker, event)
        promote(worker, event)
    elif event.cause in FROM_ITS_WORKER:
        promote(worker, event)
    _count_requeue(instance, event.cause)
    table.put(key, row)
    table.put(worker_key, worker)


def _pause(worker: WorkerRow, event: e.OperationRequeued) -> None:
    """A decline that names a size says what the keepalive must report that lifts it."""
    worker.paused = True
    worker.resume_at_kib = 0
    if event.cause is not RequeueCause.DECLINED or not event.needed_kib:
        return
    if worker.running:
        worker.resume_at_kib = event.needed_kib
    elif not worker.admits_when_idle:
        declined = worker.idle_declined_kib if worker.HasField("idle_declined_kib") else event.needed_kib
        worker.idle_declined_kib = min(declined, event.needed_kib)


def _operation_finished(table: Table, event: e.OperationFinished) -> None:
    key, row = operation_at(table, event.operation_id)
    if row.stage == STAGE_EXECUTING:
        _end_run(table, row, event)
    else:
        _refund(table, row)
    instance = enter_stage(table, row, STAGE_FINISHED)
    row.outcome = event.outcome
    row.finished_at_us = event.at_us
    row.finished_seq = event.seq
    for name in _MOSTLY_NONE:
        value = getattr(event, name)
        if value or getattr(row, name):
            setattr(row, name, value)
    if event.usage is not NO_USAGE and any(event.usage):
        row.usage.wall_us, row.usage.cpu_us, row.usage.peak_memory_kib = event.usage
    _count_outcome(instance, event.outcome)
    identity = keys.number(row.operation_id)
    finished_key = table.key(keys.FINISHED, keys.named(row.instance) + keys.number(event.seq))
    table.put_last(key, row)
    table.put(finished_key, identity)


def _end_run(table: Table, row: OperationRow, event: e.OperationFinished) -> None:
    worker_key, worker = worker_at(table, row.instance, row.dispatch.endpoint)
    if event.outcome is Outcome.FREE_REQUEUES_EXHAUSTED:
        worker.paused = True
        worker.resume_at_kib = 0
    run = run_of(worker, row.dispatch.dispatch_id)
    if run is None or not run.revoked:  # else it goes on and pays until its worker reports
        settle(worker, row.dispatch.dispatch_id)
        if event.outcome is not Outcome.WORKER_LOSSES_EXHAUSTED:
            promote(worker, event)
    table.put(worker_key, worker)


def _refund(table: Table, row: OperationRow) -> None:
    """What never ran costs its client no share."""
    tried = row.job_failures or row.worker_losses or row.free_requeues or row.escalations
    if tried or not row.HasField("order") or not row.order.cost_us:
        return
    key = share_key(table, row.instance, row.order.share_of)
    share = table.find(key, ShareRow)
    if share is not None:
        share.tag_us -= row.order.cost_us
        table.put(key, share)


def _operation_reprioritised(table: Table, event: e.OperationReprioritised) -> None:
    key, row = operation_at(table, event.operation_id)
    if row.stage == STAGE_QUEUED:
        table.delete(queue_key(table, row))
    row.priority = event.priority
    _order(row, event.order)
    if row.stage == STAGE_QUEUED:
        table.put(queue_key(table, row), keys.number(row.operation_id))
    table.put(key, row)


def _operations_forgotten(table: Table, event: e.OperationsForgotten) -> None:
    table.flush()
    instance_key, instance = instance_at(table, event.instance)
    prefix = table.key(keys.FINISHED, keys.named(event.instance))
    # Starting behind what was forgotten before: the store would otherwise walk over its own deletions every time.
    first = prefix + keys.number(instance.forgotten_through_seq + 1)
    last = prefix + keys.number(event.through_seq + 1)
    for finished_key, identity in list(table.rows.scan(first, last)):
        operation_key = table.key(keys.OPERATION, identity)
        row = table.row(operation_key, OperationRow)
        for client_operation_id in client_operation_ids(row):
            held = client_key(table, row.instance, client_operation_id)
            if table.find_bytes(held) == identity:  # else a newer operation holds the id by now
                table.delete(held)
        table.delete(operation_key)
        table.delete(finished_key)
        instance.finished -= 1
    for key, value in list(table.scan(table.key(keys.SHARE, keys.named(event.instance)))):
        if ShareRow.FromString(value).tag_us <= instance.virtual_us:  # it says no more than none
            table.delete(key)
    instance.forgotten_through_seq = max(instance.forgotten_through_seq, event.through_seq)
    table.put(instance_key, instance)


def _check_current(row: OperationRow, dispatch_id: int) -> None:
    if row.stage != STAGE_EXECUTING or row.dispatch.dispatch_id != dispatch_id:
        raise MissingRow(
            f"operation {row.operation_id} has no current dispatch {dispatch_id} in the state table "
            f"(it has {row.dispatch.dispatch_id or 'none'})"
        )


def _count_outcome(instance: InstanceRow, outcome: Outcome) -> None:
    for counted in instance.outcomes:
        if counted.outcome == outcome:
            counted.count += 1
            return
    instance.outcomes.append(OutcomeCount(outcome=outcome, count=1))


def _count_requeue(instance: InstanceRow, cause: RequeueCause) -> None:
    for counted in instance.requeues:
        if counted.cause == cause:
            counted.count += 1
            return
    instance.requeues.append(RequeueCount(cause=cause, count=1))


OPERATION_FOLDS: dict[type, Callable[[Table, Any], None]] = {
    e.OperationQueued: _operation_queued,
    e.OperationDispatched: _operation_dispatched,
    e.OperationAccepted: _operation_accepted,
    e.OperationRequeued: _operation_requeued,
    e.OperationFinished: _operation_finished,
    e.OperationReprioritised: _operation_reprioritised,
    e.OperationsForgotten: _operations_forgotten,
}
