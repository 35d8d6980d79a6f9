"""Operations that no connected worker could run even if idle (X2-X5): noticed when they begin to wait and when the fleet changes.

"No room now" is not "never": only what workers registered counts, not what is free. A verdict is an event for each requirement, so that
it outlives a restart; what is known to be runnable is remembered until the last worker of some kind leaves.
"""

from events import events as e
from events.config import SECOND_US
from events.deciding.endings import INTERNAL_ERROR_EXIT_CODE, stop
from events.deciding.step import Step
from events.evolving.rows import demand_of
from events.fitting import Demand
from events.reasons import Outcome
from events.state import Instance, Operation

FEWEST_AT_ONCE = 16
"""A fact fails at least so many overdue operations, or a quarter of the queue, if that is more (X4)."""


def most_at_once(instance: Instance) -> int:
    """How many operations of the instance one fact may fail; the rest are due at the next."""
    return max(FEWEST_AT_ONCE, len(instance.matcher) // 4)


def judge(step: Step) -> None:
    """At the end of each fact: say what has become unsatisfiable or satisfiable."""
    for instance in step.shard.instances.values():
        shapes = instance.shapes
        if not shapes.unjudged and not shapes.changed:
            continue
        if shapes.changed:
            shapes.changed = False
            waiting = [demand.requirement_id for demand, _ in instance.matcher.demands()]
            asked = sorted(dict.fromkeys([*waiting, *instance.unsatisfiable]))
        else:
            asked = list(shapes.unjudged)
        shapes.unjudged = {}
        for requirement_id in asked:
            if requirement_id not in shapes.capable:
                _judge(step, instance, requirement_id)


def _judge(step: Step, instance: Instance, requirement_id: int) -> None:
    demand = demand_of(step.shard, instance, requirement_id)
    shortage = instance.unsatisfiable.get(requirement_id)
    if instance.workers and instance.matcher.could_run_idle(demand):
        instance.shapes.capable[requirement_id] = None
        if shortage is not None:
            step.emit(e.DemandSatisfiable, instance.name, requirement_id)
        return
    no_workers = not instance.workers
    if no_workers and not instance.config.no_worker_action_timeout_s:
        return  # an empty fleet says nothing of a demand (X5)
    known = shortage is not None and shortage.no_workers == no_workers
    if not known and (shortage is not None or instance.matcher.waiting(requirement_id)):
        lacking = [] if no_workers else [name for name, _ in _lacking(instance, demand)]
        step.emit(e.DemandUnsatisfiable, instance.name, requirement_id, tuple(lacking), no_workers)


def fail_overdue(step: Step, instance: Instance, operation: Operation) -> None:
    """Its timeout is over: the operation fails, and says what it asked for and what there is (X4)."""
    shortage = instance.unsatisfiable[operation.requirement_id]
    if shortage.no_workers:
        waited_s = (step.now_us - max(shortage.since_us, operation.queued_since_us)) // SECOND_US
        outcome, message = Outcome.NO_WORKER, f"no worker was connected for {waited_s} s"
    else:
        lacking = ", ".join(text for _, text in _lacking(instance, operation.demand))
        outcome, message = Outcome.UNSATISFIABLE, f"no connected worker could run it even if idle: {lacking}"
    stop(step, operation, outcome, exit_code=INTERNAL_ERROR_EXIT_CODE, message=message[:1024])


def _lacking(instance: Instance, demand: Demand) -> list[tuple[str, str]]:
    """The properties that no worker satisfies, by name, each with what was asked and the largest there is.

    Other workers' values of other properties are their own and are not told. Where each property has some worker and only no worker has
    all of them, all of them are named.
    """
    workers = list(instance.workers.values())
    amounts = {instance.pools[pool]: amount for pool, amount in demand.amounts}
    largest = {
        instance.pools[pool]: max((worker.totals[pool] for worker in workers), default=-1) for pool, _ in demand.amounts
    }
    asked: list[tuple[str, str, bool]] = [
        (name, f"{name} {amount} (the largest registered is {_shown(largest[name])})", largest[name] >= amount)
        for name, amount in amounts.items()
    ]
    declared = [dict(worker.properties) for worker in workers]
    need = demand.need
    asked += [(n, f"{n}={v}", any(properties.get(n) == v for properties in declared)) for n, v in need.exact]
    asked += [(n, f"{n} (any value)", any(n in properties for properties in declared)) for n in need.present]
    asked += [(n, f"{n}={v}", any(properties.get(n, v) == v for properties in declared)) for n, v in need.unknown]
    asked.sort()
    impossible = [(name, text) for name, text, some in asked if not some]
    return impossible or [(name, text) for name, text, _ in asked]


def _shown(total: int) -> str:
    return "none" if total < 0 else str(total)
