"""Folds of the life of an operation: queued, dispatched, accepted, requeued, finished, reprioritised, forgotten."""

from collections.abc import Callable
from typing import Any

from events import events as e
from events.evolving.rows import charge, current_dispatch, demand_of, promote, refresh, settle
from events.reasons import Outcome, RequeueCause
from events.state import Dispatch, Operation, Shard, Stage, sort_key

PAUSING = (RequeueCause.DECLINED, RequeueCause.BACKPRESSURE)


def _operation_queued(shard: Shard, event: e.OperationQueued) -> None:
    instance = shard.instances[event.instance]
    operation_id = event.cause_offset
    operation = Operation(
        operation_id,
        event.instance,
        event.client_operation_id,
        event.requirement_id,
        event.priority,
        event.queued_at_us,
        sort_key(event.priority, event.queued_at_us, operation_id),
        event.queued_at_us,
        demand_of(shard, instance, event.requirement_id),
        event.command,
        event.action_digest,
        event.timeout_us,
        event.expected_duration_us,
        event.client_id,
        event.invocation_id,
        event.target_id,
        event.mnemonic,
        event.cacheable,
        event.skip_cache_lookup,
        event.attached,
    )
    shard.operations[operation_id] = operation
    instance.by_client[event.client_operation_id] = operation
    if shard.live:
        instance.matcher.enqueue(operation)


def _operation_dispatched(shard: Shard, event: e.OperationDispatched) -> None:
    operation = shard.operations[event.operation_id]
    instance = shard.instances[operation.instance]
    worker = instance.workers[event.endpoint]
    if shard.live:
        instance.matcher.dequeue(operation)
    dispatch = Dispatch(
        event.seq, operation.operation_id, operation, worker, event.connection_id, event.at_us, operation.demand
    )
    operation.dispatch = dispatch
    operation.stage = Stage.EXECUTING
    worker.running[event.seq] = dispatch
    charge(worker, operation.demand)
    worker.recency = event.seq  # promoted, but not heard
    refresh(shard, worker)


def _operation_accepted(shard: Shard, event: e.OperationAccepted) -> None:
    dispatch = current_dispatch(shard.operations[event.operation_id], event.dispatch_id, event.seq)
    dispatch.accepted = True
    promote(shard, dispatch.worker, event)


def _operation_requeued(shard: Shard, event: e.OperationRequeued) -> None:
    operation = shard.operations[event.operation_id]
    dispatch = current_dispatch(operation, event.dispatch_id, event.seq)
    operation.dispatch = None
    operation.stage = Stage.QUEUED
    operation.queued_since_us = event.at_us
    operation.job_failures = event.job_failures
    operation.worker_losses = event.worker_losses
    operation.free_requeues = event.free_requeues
    worker = dispatch.worker
    if not dispatch.revoked:
        settle(dispatch)
    if event.cause in PAUSING:
        worker.paused = True
        promote(shard, worker, event)
    elif event.cause == RequeueCause.JOB_ERROR:
        worker.paused = False
        promote(shard, worker, event)
    else:  # the worker is on its way out, or was not heard: it is no more recent than before
        refresh(shard, worker)
    if shard.live:
        shard.instances[operation.instance].matcher.enqueue(operation)


def _operation_finished(shard: Shard, event: e.OperationFinished) -> None:
    operation = shard.operations[event.operation_id]
    instance = shard.instances[operation.instance]
    dispatch = operation.dispatch
    if dispatch is None:
        if shard.live:
            instance.matcher.dequeue(operation)
    else:
        operation.dispatch = None
        worker = dispatch.worker
        if dispatch.revoked:
            pass  # the run goes on and pays until its worker reports (K4)
        elif event.outcome == Outcome.WORKER_LOSSES_EXHAUSTED:
            settle(dispatch)
            refresh(shard, worker)
        else:
            settle(dispatch)
            worker.paused = event.outcome == Outcome.FREE_REQUEUES_EXHAUSTED
            promote(shard, worker, event)
    operation.stage = Stage.FINISHED
    operation.outcome = event.outcome
    operation.job_failures = event.job_failures
    operation.worker_losses = event.worker_losses
    operation.command = b""  # nobody is sent it again
    instance.finished.append((event.seq, event.at_us, operation))


def _operation_reprioritised(shard: Shard, event: e.OperationReprioritised) -> None:
    operation = shard.operations[event.operation_id]
    indexed = shard.live and operation.stage is Stage.QUEUED
    matcher = shard.instances[operation.instance].matcher
    if indexed:
        matcher.dequeue(operation)
    operation.priority = event.priority
    operation.sort_key = sort_key(event.priority, operation.queued_at_us, operation.operation_id)
    if indexed:
        matcher.enqueue(operation)


def _operations_forgotten(shard: Shard, event: e.OperationsForgotten) -> None:
    instance = shard.instances[event.instance]
    finished = instance.finished
    while finished and finished[0][0] <= event.through_seq:
        operation = finished.popleft()[2]
        del shard.operations[operation.operation_id]
        # Only its own: the id may by now be a newer operation's (J4).
        if instance.by_client.get(operation.client_operation_id) is operation:
            del instance.by_client[operation.client_operation_id]


OPERATIONS_FOLDS: dict[type, Callable[[Shard, Any], None]] = {
    e.OperationQueued: _operation_queued,
    e.OperationDispatched: _operation_dispatched,
    e.OperationAccepted: _operation_accepted,
    e.OperationRequeued: _operation_requeued,
    e.OperationFinished: _operation_finished,
    e.OperationReprioritised: _operation_reprioritised,
    e.OperationsForgotten: _operations_forgotten,
}
