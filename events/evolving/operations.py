"""Folds of the life of an operation: queued, dispatched, accepted, requeued, finished, reprioritised, forgotten."""

from collections.abc import Callable
from typing import Any

from events import events as e
from events.durations import kind_of
from events.evolving.rows import (
    charge,
    current_dispatch,
    demand_of,
    dequeue,
    drop_hold,
    enqueue,
    promote,
    refresh,
    settle,
)
from events.indexing import arm_client, arm_run
from events.reasons import Outcome, RequeueCause
from events.state import Client, Dispatch, Instance, Operation, Shard, Stage, Worker, sort_key

COMPLETED = Outcome.COMPLETED
EXECUTING, FINISHED = Stage.EXECUTING, Stage.FINISHED  # looking a member up takes longer than what is done with it
FREE_REQUEUES_EXHAUSTED, WORKER_LOSSES_EXHAUSTED = Outcome.FREE_REQUEUES_EXHAUSTED, Outcome.WORKER_LOSSES_EXHAUSTED

PAUSING = (RequeueCause.DECLINED, RequeueCause.BACKPRESSURE, RequeueCause.UNACKNOWLEDGED)
"""Causes that pause the worker until a keepalive lifts it (B3)."""

FROM_ITS_WORKER = (RequeueCause.JOB_ERROR, RequeueCause.ESCALATED)
"""Causes that the worker reported, so that it was heard."""


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
        asked_requirement_id=event.asked_requirement_id,
        order=event.order,
    )
    shard.operations[operation_id] = operation
    instance.by_client[event.client_operation_id] = operation
    if event.cacheable and (key := operation.action_key()):
        instance.by_action[key] = operation
    if event.attached:
        client = Client(event.client_operation_id, event.client_id, True, event.at_us)
        operation.clients = {event.client_operation_id: client}
        if shard.live:
            arm_client(shard, instance, operation, client)
    if event.order is not None:
        operation.sort_key = operation.order_key()
        if event.order.cost_us:
            instance.shares.tags[event.order.share_of] = event.order.time_us + event.order.cost_us
    enqueue(shard, instance, operation)


def _operation_dispatched(shard: Shard, event: e.OperationDispatched) -> None:
    operation = shard.operations[event.operation_id]
    instance = shard.instances[operation.instance]
    worker = instance.workers[event.endpoint]
    dequeue(shard, instance, operation)
    dispatch = Dispatch(
        event.seq, operation.operation_id, operation, worker, event.connection_id, event.at_us, operation.demand
    )
    dispatch.heard_at_us = event.at_us
    operation.dispatch = dispatch
    operation.stage = EXECUTING
    worker.running[event.seq] = dispatch
    worker.unaccepted += 1
    charge(worker, operation.demand)
    worker.recency = event.seq  # promoted, but not heard
    if instance.hold is not None and instance.hold.operation is operation:
        drop_hold(shard, instance)  # no state shows both; HoldReleased follows and says so
    if operation.order is not None and operation.order.cost_us:
        shares = instance.shares
        shares.virtual_us = max(shares.virtual_us, operation.order.time_us)
    if shard.live:
        instance.matcher.refresh(worker)
        if operation.timeout_us or instance.config.max_action_executing_timeout_s:
            arm_run(shard, instance, dispatch)


def _operation_accepted(shard: Shard, event: e.OperationAccepted) -> None:
    dispatch = current_dispatch(shard.operations[event.operation_id], event.dispatch_id, event.seq)
    dispatch.accepted = True
    dispatch.heard_at_us = event.at_us
    dispatch.worker.unaccepted -= 1
    promote(shard, dispatch.worker, event)


def _operation_requeued(shard: Shard, event: e.OperationRequeued) -> None:
    operation = shard.operations[event.operation_id]
    instance = shard.instances[operation.instance]
    dispatch = current_dispatch(operation, event.dispatch_id, event.seq)
    operation.dispatch = None
    operation.stage = Stage.QUEUED
    operation.queued_since_us = event.at_us
    operation.job_failures = event.job_failures
    operation.worker_losses = event.worker_losses
    operation.free_requeues = event.free_requeues
    operation.escalations = event.escalations
    if event.requirement_id:
        operation.asked_requirement_id = operation.asked_requirement_id or operation.requirement_id
        operation.requirement_id = event.requirement_id
        operation.demand = demand_of(shard, instance, event.requirement_id)
    worker = dispatch.worker
    if not dispatch.revoked:
        settle(dispatch)
    if event.cause in PAUSING:
        _pause(worker, event)
        promote(shard, worker, event)
    elif event.cause in FROM_ITS_WORKER:
        promote(shard, worker, event)
    else:  # the worker is on its way out, or was not heard: it is no more recent than before
        refresh(shard, worker)
    enqueue(shard, instance, operation)


def _pause(worker: Worker, event: e.OperationRequeued) -> None:
    """No more work until a keepalive lifts it. A decline that names a size says what that keepalive must report (B5)."""
    worker.paused = True
    worker.resume_at_kib = 0
    if event.cause != RequeueCause.DECLINED or not event.needed_kib:
        return
    if worker.running:
        worker.resume_at_kib = event.needed_kib
    elif not worker.admits_when_idle:
        declined = worker.idle_declined_kib
        worker.idle_declined_kib = event.needed_kib if declined is None else min(declined, event.needed_kib)


def _operation_finished(shard: Shard, event: e.OperationFinished) -> None:
    operation = shard.operations[event.operation_id]
    instance = shard.instances[operation.instance]
    dispatch = operation.dispatch
    if dispatch is None:
        if operation.stage is Stage.QUEUED:
            dequeue(shard, instance, operation)
        if operation.order is not None:
            _refund(instance, operation)
    else:
        operation.dispatch = None
        worker = dispatch.worker
        if event.outcome == FREE_REQUEUES_EXHAUSTED:
            worker.paused = True
            worker.resume_at_kib = 0
        if event.outcome == COMPLETED:
            instance.durations.add(kind_of(dispatch), event.at_us - dispatch.dispatched_at_us)
        if not dispatch.revoked:
            settle(dispatch)
        if event.outcome == Outcome.WORKER_LOSSES_EXHAUSTED:  # it is on its way out
            refresh(shard, worker)
        elif not dispatch.revoked:  # else the run goes on and pays until its worker reports (K4)
            promote(shard, worker, event)
        else:
            refresh(shard, worker)
    operation.stage = FINISHED
    operation.outcome = event.outcome
    operation.job_failures = event.job_failures
    operation.worker_losses = event.worker_losses
    operation.command = b""  # nobody is sent it again
    # Only its own: the key may be a newer operation's (J3, J4).
    if operation.cacheable and instance.by_action.get(operation.action_key()) is operation:
        del instance.by_action[operation.action_key()]
    instance.finished.append((event.seq, event.at_us, operation))


def _refund(instance: Instance, operation: Operation) -> None:
    """What never ran costs its client no share: one that takes a large build back does not wait for it."""
    order = operation.order
    untried = not (
        operation.job_failures or operation.worker_losses or operation.free_requeues or operation.escalations
    )
    if order is not None and order.cost_us and untried and order.share_of in instance.shares.tags:
        instance.shares.tags[order.share_of] -= order.cost_us


def _operation_reprioritised(shard: Shard, event: e.OperationReprioritised) -> None:
    operation = shard.operations[event.operation_id]
    instance = shard.instances[operation.instance]
    queued = operation.stage is Stage.QUEUED
    if queued:
        dequeue(shard, instance, operation)
    operation.priority = event.priority
    operation.order = event.order
    operation.sort_key = operation.order_key()
    if queued:
        enqueue(shard, instance, operation)


def _operations_forgotten(shard: Shard, event: e.OperationsForgotten) -> None:
    instance = shard.instances[event.instance]
    finished = instance.finished
    while finished and finished[0][0] <= event.through_seq:
        operation = finished.popleft()[2]
        del shard.operations[operation.operation_id]
        for client_operation_id in operation.client_ids():
            # Only its own: the id may by now be a newer operation's (J4).
            if instance.by_client.get(client_operation_id) is operation:
                del instance.by_client[client_operation_id]
    shares = instance.shares
    if shares.tags:  # a tag that virtual time has passed says no more than none
        shares.tags = {name: tag for name, tag in shares.tags.items() if tag > shares.virtual_us}


OPERATIONS_FOLDS: dict[type, Callable[[Shard, Any], None]] = {
    e.OperationQueued: _operation_queued,
    e.OperationDispatched: _operation_dispatched,
    e.OperationAccepted: _operation_accepted,
    e.OperationRequeued: _operation_requeued,
    e.OperationFinished: _operation_finished,
    e.OperationReprioritised: _operation_reprioritised,
    e.OperationsForgotten: _operations_forgotten,
}
