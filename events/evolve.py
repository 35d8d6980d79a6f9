"""`evolve` applies one event to the rows. It is total over the events and holds no rules: what may happen was decided before.

Where indexes are live (`Shard.live`) it keeps the matcher and the timer heap in step; a plain fold of history runs without them and
`indexing.build_indexes` makes them at the end, which is several times faster.
"""

from collections.abc import Callable
from typing import Any

from events import events as e
from events.codec import requirements_of
from events.config import parse_config, resolve
from events.errors import SequenceBroken
from events.fitting import Demand, compile_demand, worker_totals
from events.indexing import arm_kill, arm_worker, index_instance
from events.reasons import Outcome, RequeueCause
from events.state import Dispatch, Instance, Operation, Shard, Stage, Worker, sort_key

PAUSING = (RequeueCause.DECLINED, RequeueCause.BACKPRESSURE)


def evolve(shard: Shard, event: e.Event) -> None:
    """Apply `event`. Raises SequenceBroken when it does not follow the last one."""
    if event.seq != shard.seq + 1:
        raise SequenceBroken(
            f"event {event.seq} follows event {shard.seq}; expected {shard.seq + 1}. "
            "Do not fold past it: run 'headway replay' to locate the gap"
        )
    HANDLERS[type(event)](shard, event)
    shard.seq = event.seq
    shard.now_us = event.at_us
    if type(event) is not e.LeaderElected:
        shard.position = event.cause_offset


def demand_of(shard: Shard, instance: Instance, requirement_id: int) -> Demand:
    """The compiled demand of a known requirement. Raises NotANumber when this configuration cannot read it."""
    demand = instance.demands.get(requirement_id)
    if demand is None:
        requirements = requirements_of(shard.requirements[requirement_id])
        demand = compile_demand(requirement_id, requirements, instance.config, instance.pools)
        instance.demands[requirement_id] = demand
    return demand


def charge(worker: Worker, demand: Demand) -> None:
    """Take the demand's amounts from the worker's remaining ones (L1)."""
    for pool, amount in demand.amounts:
        worker.remaining[pool] -= amount


def _current(operation: Operation, dispatch_id: int, seq: int) -> Dispatch:
    dispatch = operation.dispatch
    if dispatch is None or dispatch.dispatch_id != dispatch_id:
        held = "none" if dispatch is None else dispatch.dispatch_id
        raise SequenceBroken(
            f"event {seq} ends dispatch {dispatch_id} of operation {operation.operation_id}, whose current dispatch is {held}. "
            "The log holds something no decider writes: run 'headway replay' to locate it"
        )
    return dispatch


def _settle(dispatch: Dispatch) -> None:
    """Return what the dispatch was charged, once (L3, L4)."""
    worker = dispatch.worker
    if worker.running.pop(dispatch.dispatch_id, None) is None:
        return
    for pool, amount in dispatch.demand.amounts:
        worker.remaining[pool] += amount


def _refresh(shard: Shard, worker: Worker) -> None:
    if shard.live:
        shard.instances[worker.instance].matcher.refresh(worker)


def _promote(shard: Shard, worker: Worker, event: e.Event) -> None:
    """The worker is the most recent one now (1.3), and heard (W7)."""
    worker.recency = event.seq
    worker.last_seen_us = max(worker.last_seen_us, event.at_us)
    _refresh(shard, worker)


def _leader_elected(shard: Shard, event: e.LeaderElected) -> None:
    shard.leader_epoch = event.leader_epoch
    shard.cluster_id = event.cluster_id
    shard.facts_topic_id = event.facts_topic_id
    shard.events_topic_id = event.events_topic_id


def _ticked(shard: Shard, event: e.Ticked) -> None:
    """Only time passes, and that is the envelope's."""


def _log_silent(shard: Shard, event: e.LogSilent) -> None:
    for instance in shard.instances.values():
        for worker in instance.workers.values():
            worker.last_seen_us += event.gap_us
            for dispatch in worker.running.values():
                if dispatch.revoked:
                    dispatch.kill_requested_at_us += event.gap_us


def _fact_ignored(shard: Shard, event: e.FactIgnored) -> None:
    shard.ignored[event.reason] += 1


def _fact_rejected(shard: Shard, event: e.FactRejected) -> None:
    shard.rejected[event.reason] += 1


def _key_parked(shard: Shard, event: e.KeyParked) -> None:
    shard.parked_keys[event.key] = None


def _key_released(shard: Shard, event: e.KeyReleased) -> None:
    shard.parked_keys.pop(event.key, None)


def _configured(shard: Shard, event: e.Configured) -> None:
    instance = shard.instances.get(event.instance)
    if instance is None:
        instance = shard.instances[event.instance] = Instance(event.instance)
    instance.scheduler = parse_config(event.config_json)
    instance.steps, instance.config, instance.upstream = resolve(instance.scheduler)
    instance.pools = instance.config.pools()
    instance.demands = {}
    for operation in instance.by_client.values():
        if operation.stage is not Stage.FINISHED:
            operation.demand = demand_of(shard, instance, operation.requirement_id)
    for worker in instance.workers.values():
        worker.totals = worker_totals(worker.properties, instance.pools)
        worker.remaining = list(worker.totals)
        for dispatch in worker.running.values():
            dispatch.demand = demand_of(shard, instance, dispatch.demand.requirement_id)
            charge(worker, dispatch.demand)
    if shard.live:
        index_instance(shard, instance)


def _instance_paused(shard: Shard, event: e.InstancePaused) -> None:
    shard.instances[event.instance].paused = True


def _instance_resumed(shard: Shard, event: e.InstanceResumed) -> None:
    shard.instances[event.instance].paused = False


def _requirement_defined(shard: Shard, event: e.RequirementDefined) -> None:
    shard.requirement_ids[event.requirements] = event.requirement_id
    shard.requirements[event.requirement_id] = event.requirements


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
    _refresh(shard, worker)


def _operation_accepted(shard: Shard, event: e.OperationAccepted) -> None:
    dispatch = _current(shard.operations[event.operation_id], event.dispatch_id, event.seq)
    dispatch.accepted = True
    _promote(shard, dispatch.worker, event)


def _operation_requeued(shard: Shard, event: e.OperationRequeued) -> None:
    operation = shard.operations[event.operation_id]
    dispatch = _current(operation, event.dispatch_id, event.seq)
    operation.dispatch = None
    operation.stage = Stage.QUEUED
    operation.queued_since_us = event.at_us
    operation.job_failures = event.job_failures
    operation.worker_losses = event.worker_losses
    operation.free_requeues = event.free_requeues
    worker = dispatch.worker
    if not dispatch.revoked:
        _settle(dispatch)
    if event.cause in PAUSING:
        worker.paused = True
        _promote(shard, worker, event)
    elif event.cause == RequeueCause.JOB_ERROR:
        worker.paused = False
        _promote(shard, worker, event)
    else:  # the worker is on its way out, or was not heard: it is no more recent than before
        _refresh(shard, worker)
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
            _settle(dispatch)
            _refresh(shard, worker)
        else:
            _settle(dispatch)
            worker.paused = event.outcome == Outcome.FREE_REQUEUES_EXHAUSTED
            _promote(shard, worker, event)
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


def _kill_requested(shard: Shard, event: e.KillRequested) -> None:
    worker = shard.instances[event.instance].workers[event.endpoint]
    dispatch = worker.running.get(event.dispatch_id)
    if dispatch is not None:  # else a run of before: nothing is charged for it
        dispatch.revoked = True
        dispatch.kill_requested_at_us = event.at_us
        if shard.live:
            arm_kill(shard, dispatch)
    worker.recency = event.seq
    _refresh(shard, worker)


def _dispatch_settled(shard: Shard, event: e.DispatchSettled) -> None:
    worker = shard.instances[event.instance].workers[event.endpoint]
    _settle(worker.running[event.dispatch_id])
    _promote(shard, worker, event)


def _worker_admitted(shard: Shard, event: e.WorkerAdmitted) -> None:
    instance = shard.instances[event.instance]
    before = instance.workers.get(event.endpoint)
    totals = worker_totals(event.properties, instance.pools)
    worker = Worker(
        event.instance,
        event.endpoint,
        event.boot_epoch,
        event.connection_id,
        event.properties,
        event.max_inflight,
        event.build,
        connected_at_us=event.at_us,
        last_seen_us=event.at_us,
        recency=event.seq,
        totals=totals,
        remaining=list(totals),
    )
    if before is not None:
        if shard.live:
            instance.matcher.remove_worker(before)
        worker.draining = before.draining and event.reconnected  # a drain lasts as long as the worker's process
        for dispatch_id in event.kept:
            dispatch = before.running[dispatch_id]
            dispatch.worker = worker
            dispatch.connection_id = event.connection_id
            worker.running[dispatch_id] = dispatch
            charge(worker, dispatch.demand)
    instance.workers[event.endpoint] = worker
    if shard.live:
        instance.matcher.add_worker(worker)
        arm_worker(shard, worker)


def _worker_reported(shard: Shard, event: e.WorkerReported) -> None:
    worker = shard.instances[event.instance].workers[event.endpoint]
    worker.last_seen_us = max(worker.last_seen_us, event.at_us)
    if event.free_memory_kib is not None:
        worker.free_memory_kib = event.free_memory_kib
    if worker.paused:
        worker.paused = False
        _refresh(shard, worker)


def _worker_drained(shard: Shard, event: e.WorkerDrained) -> None:
    worker = shard.instances[event.instance].workers[event.endpoint]
    worker.draining = True
    worker.recency = event.seq
    _refresh(shard, worker)


def _worker_undrained(shard: Shard, event: e.WorkerUndrained) -> None:
    worker = shard.instances[event.instance].workers[event.endpoint]
    worker.draining = False
    worker.recency = event.seq
    _refresh(shard, worker)


def _worker_disconnected(shard: Shard, event: e.WorkerDisconnected) -> None:
    instance = shard.instances[event.instance]
    worker = instance.workers.pop(event.endpoint)
    if shard.live:
        instance.matcher.remove_worker(worker)


HANDLERS: dict[type, Callable[[Shard, Any], None]] = {
    e.LeaderElected: _leader_elected,
    e.Ticked: _ticked,
    e.LogSilent: _log_silent,
    e.FactIgnored: _fact_ignored,
    e.FactRejected: _fact_rejected,
    e.KeyParked: _key_parked,
    e.KeyReleased: _key_released,
    e.Configured: _configured,
    e.InstancePaused: _instance_paused,
    e.InstanceResumed: _instance_resumed,
    e.RequirementDefined: _requirement_defined,
    e.OperationQueued: _operation_queued,
    e.OperationDispatched: _operation_dispatched,
    e.OperationAccepted: _operation_accepted,
    e.OperationRequeued: _operation_requeued,
    e.OperationFinished: _operation_finished,
    e.OperationReprioritised: _operation_reprioritised,
    e.OperationsForgotten: _operations_forgotten,
    e.KillRequested: _kill_requested,
    e.DispatchSettled: _dispatch_settled,
    e.WorkerAdmitted: _worker_admitted,
    e.WorkerReported: _worker_reported,
    e.WorkerDrained: _worker_drained,
    e.WorkerUndrained: _worker_undrained,
    e.WorkerDisconnected: _worker_disconnected,
}
