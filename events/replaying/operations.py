"""The life of an operation, folded straight from the message: queued, dispatched, accepted, finished.

Each does what its namesake in `events.evolving.operations` does with the event, on rows without indexes. What could fail is looked at
first, so one that answers False has changed nothing.
"""

from __future__ import annotations

from typing import Any, Final

from events.durations import kind_of
from events.reasons import Outcome
from events.state import Client, Dispatch, Operation, Shard, Stage, sort_key
from events.values import NO_DIGEST, Digest, QueueOrder

EXECUTING, FINISHED = Stage.EXECUTING, Stage.FINISHED  # looking a member up takes longer than what is done with it
COMPLETED: Final = int(Outcome.COMPLETED)
OUTCOMES: Final = {
    int(outcome): outcome
    for outcome in Outcome
    if outcome not in (Outcome.UNSPECIFIED, Outcome.FREE_REQUEUES_EXHAUSTED, Outcome.WORKER_LOSSES_EXHAUSTED)
}
"""Those of a `finished` here, by number. Two change more of the worker than others; without one it is a message of another kind."""


def queued(shard: Shard, message: Any, seq: int, at_us: int) -> bool:
    """`OperationQueued` with requirements that were asked for before under this configuration."""
    part = message.operation_queued
    instance = shard.instances.get(part.instance)
    requirement_id = part.requirement_id
    if instance is None or (demand := instance.demands.get(requirement_id)) is None:
        return False
    operation_id = message.cause_offset
    name, client_id = part.client_operation_id, part.client_id
    priority, queued_at_us = part.priority, part.queued_at_us
    cacheable, skip, attached = part.cacheable, part.skip_cache_lookup, part.attached
    digest = NO_DIGEST
    if part.HasField("action_digest"):
        found = part.action_digest
        digest = Digest(found.hash, found.size_bytes)
    operation = Operation(
        operation_id,
        instance.name,  # the same text as the message's, and one object for all
        name,
        requirement_id,
        priority,
        queued_at_us,
        sort_key(priority, queued_at_us, operation_id),
        queued_at_us,
        demand,
        part.command.SerializeToString() if part.HasField("command") else b"",
        digest,
        part.timeout_us,
        part.expected_duration_us,
        client_id,
        part.invocation_id,
        part.target_id,
        part.mnemonic,
        cacheable,
        skip,
        attached,
    )
    asked = part.asked_requirement_id
    if asked:
        operation.asked_requirement_id = asked
    shard.operations[operation_id] = operation
    instance.by_client[name] = operation
    if cacheable and (key := operation.action_key()):
        instance.by_action[key] = operation
    if attached:
        operation.clients = {name: Client(name, client_id, True, at_us)}
    if part.HasField("order"):
        placed = part.order
        order = operation.order = QueueOrder(placed.priority, placed.time_us, placed.share_of, placed.cost_us)
        operation.sort_key = operation.order_key()
        if order.cost_us:
            instance.shares.tags[order.share_of] = order.time_us + order.cost_us
    return True


def dispatched(shard: Shard, message: Any, seq: int, at_us: int) -> bool:
    """`OperationDispatched` of an operation that no worker is held for."""
    part = message.operation_dispatched
    operation_id = part.operation_id
    operation = shard.operations.get(operation_id)
    if operation is None:
        return False
    instance = shard.instances[operation.instance]
    worker = instance.workers.get(part.endpoint)
    hold = instance.hold
    if worker is None or (hold is not None and hold.operation is operation):
        return False
    demand = operation.demand
    dispatch = Dispatch(seq, operation_id, operation, worker, part.connection_id, at_us, demand, False, False, at_us)
    operation.dispatch = dispatch
    operation.stage = EXECUTING
    worker.running[seq] = dispatch
    worker.unaccepted += 1
    remaining = worker.remaining
    for pool, amount in demand.amounts:
        remaining[pool] -= amount
    worker.recency = seq
    order = operation.order
    if order is not None and order.cost_us:
        shares = instance.shares
        shares.virtual_us = max(shares.virtual_us, order.time_us)
    return True


def accepted(shard: Shard, message: Any, seq: int, at_us: int) -> bool:
    """`OperationAccepted`."""
    part = message.operation_accepted
    operation = shard.operations.get(part.operation_id)
    if operation is None or (dispatch := operation.dispatch) is None or dispatch.dispatch_id != part.dispatch_id:
        return False
    dispatch.accepted = True
    dispatch.heard_at_us = at_us
    worker = dispatch.worker
    worker.unaccepted -= 1
    worker.recency = seq
    if at_us > worker.last_seen_us:
        worker.last_seen_us = at_us
    return True


def finished(shard: Shard, message: Any, seq: int, at_us: int) -> bool:
    """`OperationFinished` of a run that is charged and ends with it."""
    part = message.operation_finished
    operation = shard.operations.get(part.operation_id)
    number = part.outcome
    outcome = OUTCOMES.get(number)
    if operation is None or outcome is None or (dispatch := operation.dispatch) is None or dispatch.revoked:
        return False
    instance = shard.instances[operation.instance]
    operation.dispatch = None
    worker = dispatch.worker
    if number == COMPLETED:
        instance.durations.add(kind_of(dispatch), at_us - dispatch.dispatched_at_us)
    if worker.running.pop(dispatch.dispatch_id, None) is not None:
        if not dispatch.accepted:
            worker.unaccepted -= 1
        remaining = worker.remaining
        for pool, amount in dispatch.demand.amounts:
            remaining[pool] += amount
    worker.recency = seq
    if at_us > worker.last_seen_us:
        worker.last_seen_us = at_us
    operation.stage = FINISHED
    operation.outcome = outcome
    operation.job_failures = part.job_failures
    operation.worker_losses = part.worker_losses
    operation.command = b""
    if operation.cacheable:
        key = operation.action_key()
        if instance.by_action.get(key) is operation:
            del instance.by_action[key]
    instance.finished.append((seq, at_us, operation))
    return True
