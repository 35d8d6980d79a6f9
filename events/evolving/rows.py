"""What several folds do to rows: compile demands, charge and settle workers, keep the indexes in step."""

from events import events as e
from events.codec import requirements_of
from events.errors import SequenceBroken
from events.fitting import Demand, compile_demand
from events.indexing import arm_unsatisfiable
from events.state import Dispatch, Instance, Operation, Shard, Worker


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


def current_dispatch(operation: Operation, dispatch_id: int, seq: int) -> Dispatch:
    """The current dispatch of the operation. Raises SequenceBroken when it is another one."""
    dispatch = operation.dispatch
    if dispatch is None or dispatch.dispatch_id != dispatch_id:
        held = "none" if dispatch is None else dispatch.dispatch_id
        raise SequenceBroken(
            f"event {seq} ends dispatch {dispatch_id} of operation {operation.operation_id}, whose current dispatch is {held}. "
            "The log holds something no decider writes: run 'headway replay' to locate it"
        )
    return dispatch


def settle(dispatch: Dispatch) -> None:
    """Return what the dispatch was charged, once (L3, L4)."""
    worker = dispatch.worker
    if worker.running.pop(dispatch.dispatch_id, None) is None:
        return
    if not dispatch.accepted and not dispatch.revoked:
        worker.unaccepted -= 1
    for pool, amount in dispatch.demand.amounts:
        worker.remaining[pool] += amount


def refresh(shard: Shard, worker: Worker) -> None:
    """Tell the matcher that the worker changed."""
    if shard.live:
        shard.instances[worker.instance].matcher.refresh(worker)


def promote(shard: Shard, worker: Worker, event: e.Event) -> None:
    """The worker is the most recent one now (1.3), and heard (W7)."""
    worker.recency = event.seq
    worker.last_seen_us = max(worker.last_seen_us, event.at_us)
    if shard.live:
        shard.instances[worker.instance].matcher.refresh(worker)


def enqueue(shard: Shard, instance: Instance, operation: Operation) -> None:
    """The operation waits from now on. Where indexes are live, they know, and whether any worker could run it is asked."""
    if not shard.live:
        return
    instance.matcher.enqueue(operation)
    requirement_id = operation.requirement_id
    if requirement_id in instance.unsatisfiable:
        arm_unsatisfiable(shard, instance, operation)
    elif requirement_id not in instance.shapes.capable:
        instance.shapes.unjudged[requirement_id] = None


def dequeue(shard: Shard, instance: Instance, operation: Operation) -> None:
    """The operation no longer waits."""
    if shard.live:
        instance.matcher.dequeue(operation)


def drop_hold(shard: Shard, instance: Instance) -> None:
    """No worker is held any more."""
    instance.hold = None
    if shard.live:
        instance.matcher.release_hold()
