"""Operations enter, change and leave by request: queued, cancelled, reprioritised, forgotten."""

from events import events as e
from events import facts as f
from events.codec import requirements_of
from events.config import SECOND_US
from events.deciding.step import Step
from events.evolving.rows import demand_of
from events.fitting import NotANumber, compile_demand
from events.reasons import IgnoreReason, KillCause, Outcome, RejectReason
from events.state import Instance, Stage
from events.values import NO_USAGE

NUMBER_RULE = "a whole number from 0 to 2^63-1"


def queue_action(step: Step, fact: f.ActionQueued) -> None:
    """Admit an action, unless its id is known (duplicate) or a minimum is no number (P2: at submission, not in the pass)."""
    instance = step.instance_of(fact.instance, fact.client_operation_id)
    if instance is None:
        return
    if fact.client_operation_id in instance.by_client:
        step.ignore(IgnoreReason.DUPLICATE_OPERATION, fact.instance, fact.client_operation_id)
        return
    requirement_id = step.shard.requirement_ids.get(fact.requirements)
    try:
        if requirement_id is None:
            compile_demand(0, requirements_of(fact.requirements), instance.config, instance.pools)
        elif requirement_id not in instance.demands:
            demand_of(step.shard, instance, requirement_id)
    except NotANumber as error:
        field = f"requirements.{error.name}"
        step.reject(
            RejectReason.INVALID_REQUIREMENT, field, error.value, NUMBER_RULE, fact.instance, fact.client_operation_id
        )
        return
    if requirement_id is None:
        requirement_id = len(step.shard.requirements) + 1
        step.emit(e.RequirementDefined, requirement_id, fact.requirements)
    queued_at_us = clamp(step, fact.queued_at_us, instance) if fact.queued_at_us else step.now_us
    step.emit(
        e.OperationQueued,
        fact.instance,
        fact.client_operation_id,
        requirement_id,
        fact.priority,
        queued_at_us,
        fact.client_id,
        fact.invocation_id,
        fact.attached,
        fact.action_digest,
        fact.cacheable,
        fact.skip_cache_lookup,
        fact.timeout_us,
        fact.expected_duration_us,
        fact.command,
        fact.target_id,
        fact.mnemonic,
        fact.queued_at_us - queued_at_us if fact.queued_at_us else 0,
    )


def clamp(step: Step, queued_at_us: int, instance: Instance) -> int:
    """A producer's queued time, at most `max_backdate_s` before now and never after it."""
    earliest_us = max(0, step.now_us - instance.config.max_backdate_s * SECOND_US)
    return min(max(queued_at_us, earliest_us), step.now_us)


def cancel(step: Step, fact: f.CancelRequested) -> None:
    """End an operation. Where it runs, the run is revoked first: its worker pays for it until it reports (K4)."""
    operation = step.operation_of(fact.instance, fact.operation_id, fact.client_operation_id)
    if operation is None:
        return
    if operation.stage is Stage.FINISHED:
        step.ignore(IgnoreReason.OPERATION_FINISHED, fact.instance, operation.client_operation_id)
        return
    dispatch_id, endpoint = 0, ""
    if operation.dispatch is not None:
        dispatch_id, endpoint = operation.dispatch.dispatch_id, operation.dispatch.worker.endpoint
        step.emit(e.KillRequested, fact.instance, endpoint, operation.operation_id, dispatch_id, KillCause.CANCELLED)
    step.emit(
        e.OperationFinished,
        operation.operation_id,
        dispatch_id,
        Outcome.CANCELLED,
        0,
        "",
        b"",
        b"",
        NO_USAGE,
        operation.job_failures,
        operation.worker_losses,
        endpoint,
    )


def reprioritise(step: Step, fact: f.PriorityRequested) -> None:
    """Another priority, the same queued time. Of a running operation it counts if it is requeued."""
    operation = step.operation_of(fact.instance, fact.operation_id, fact.client_operation_id)
    if operation is None:
        return
    if operation.stage is Stage.FINISHED:
        step.ignore(IgnoreReason.OPERATION_FINISHED, fact.instance, operation.client_operation_id)
    elif operation.priority == fact.priority:
        step.ignore(IgnoreReason.NO_CHANGE, fact.instance, operation.client_operation_id)
    else:
        step.emit(e.OperationReprioritised, operation.operation_id, fact.priority)


def forget_finished(step: Step) -> None:
    """End the retention of what finished `retain_completed_for_s` ago: one event however many they are."""
    for instance in step.shard.instances.values():
        until_us = step.now_us - instance.config.retain_completed_for_s * SECOND_US
        through_seq = 0
        for seq, finished_at_us, _ in instance.finished:
            if finished_at_us > until_us:
                break
            through_seq = seq
        if through_seq:
            step.emit(e.OperationsForgotten, instance.name, through_seq)
