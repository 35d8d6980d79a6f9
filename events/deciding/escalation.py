"""A kill for memory becomes a requeue with a larger reservation, on a budget of its own (U8)."""

from typing import NamedTuple

from events import events as e
from events import facts as f
from events.codec import canonical_requirements, requirements_of
from events.config import MemoryEscalation
from events.deciding.endings import INTERNAL_ERROR_EXIT_CODE, fail, requeue
from events.deciding.step import Step
from events.fitting import UNDECLARED
from events.reasons import Outcome, RequeueCause
from events.state import Dispatch, Instance, Worker


class Ceiling(NamedTuple):
    """The most that can be reserved, and all the CPU of the worker that has it (None: it does not declare any)."""

    amount: int
    cpu: int | None


def escalate(step: Step, dispatch: Dispatch, fact: f.ActionFinished) -> None:
    """The run was killed for memory. Without a policy, or when nothing is known of what it had, the result stands as any other."""
    operation = dispatch.operation
    instance = step.shard.instances[operation.instance]
    policy = instance.config.memory_escalation
    base = 0 if policy is None else _reserved(instance, dispatch, policy) or fact.usage.peak_memory_kib
    if policy is None or not base:
        step.emit(
            e.OperationFinished,
            operation.operation_id,
            dispatch.dispatch_id,
            Outcome.COMPLETED,
            fact.exit_code or INTERNAL_ERROR_EXIT_CODE,  # killed, so never a success
            fact.message,
            fact.stdout_tail,
            fact.stderr_tail,
            fact.usage,
            operation.job_failures,
            operation.worker_losses,
            dispatch.worker.endpoint,
        )
        return
    ceiling = _ceiling(instance, dispatch, policy)
    tails = (fact.stdout_tail, fact.stderr_tail)
    steps = operation.escalations + 1
    spent = None
    if ceiling is not None and base >= ceiling.amount:
        spent = (
            f"killed for memory holding {base} of {policy.property}; {ceiling.amount} is the most that can be reserved"
        )
    elif steps > policy.max_steps:
        spent = f"killed for memory {steps} times, the last holding {base} of {policy.property}; max_steps is {policy.max_steps}"
    if spent is not None:
        fail(step, dispatch, Outcome.ESCALATION_EXHAUSTED, spent, tails, fact.usage)
        return
    amount = _next(base, policy, ceiling)
    properties = dict(requirements_of(step.shard.requirements[operation.requirement_id]))
    properties[policy.property] = str(amount)
    if ceiling is not None and amount == ceiling.amount and ceiling.cpu is not None:
        properties[policy.cpu_property] = str(ceiling.cpu)
    requirement_id = step.intern(canonical_requirements(properties.items()))
    requeue(
        step,
        dispatch,
        RequeueCause.ESCALATED,
        fact.message,
        escalations=steps,
        requirement_id=requirement_id,
        needed_kib=amount,
    )


def _reserved(instance: Instance, dispatch: Dispatch, policy: MemoryEscalation) -> int:
    """What the killed run had reserved; 0 for nothing."""
    pool = instance.pools.index(policy.property)
    return next((amount for asked, amount in dispatch.demand.amounts if asked == pool), 0)


def _next(base: int, policy: MemoryEscalation, ceiling: Ceiling | None) -> int:
    """The next reservation above `base`: a step of the ladder or a percentage, at most the ceiling."""
    if policy.ladder_kib:
        above = [step_kib for step_kib in policy.ladder_kib if step_kib > base]
        if not above and ceiling is not None:
            return ceiling.amount
        amount = min(above) if above else base + 1
    else:
        amount = max(base * policy.percent // 100, base + 1)
    return amount if ceiling is None else min(amount, ceiling.amount)


def _ceiling(instance: Instance, dispatch: Dispatch, policy: MemoryEscalation) -> Ceiling | None:
    """The largest amount that a worker which could run the action otherwise registered, drained ones aside, at most `max_kib`.

    None while no such worker is connected: then nothing is known of a limit but `max_kib`.
    """
    memory, cpu = instance.pools.index(policy.property), instance.pools.index(policy.cpu_property)
    need = dispatch.demand.need
    largest: Worker | None = None
    for worker in instance.workers.values():
        if worker.draining or worker.totals[memory] == UNDECLARED:
            continue
        if (largest is None or worker.totals[memory] > largest.totals[memory]) and need.satisfied_by(
            dict(worker.properties)
        ):
            largest = worker
    if largest is None:
        return Ceiling(policy.max_kib, None) if policy.max_kib else None
    amount = min(largest.totals[memory], policy.max_kib or largest.totals[memory])
    return Ceiling(amount, None if largest.totals[cpu] == UNDECLARED else largest.totals[cpu])
