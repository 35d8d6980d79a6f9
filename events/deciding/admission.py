"""Operations enter, change and leave by request: queued or joined, cancelled, reprioritised, forgotten."""

from events import events as e
from events import facts as f
from events.codec import requirements_of
from events.config import SECOND_US, CacheLookupScheduler
from events.deciding.answers import hand_upstream
from events.deciding.clients import leave
from events.deciding.endings import stop
from events.deciding.modifying import modified_requirements
from events.deciding.ordering import order_when_queued, order_when_reprioritised
from events.deciding.step import Step
from events.evolving.rows import demand_of
from events.fitting import NotANumber, compile_demand
from events.reasons import ClientLeaving, IgnoreReason, KillCause, Outcome, RejectReason
from events.state import Instance, Stage, join_key

NUMBER_RULE = "a whole number from 0 to 2^63-1"


def queue_action(step: Step, fact: f.ActionQueued) -> None:
    """Admit an action: an operation of its own, or one more client of an identical live one (J1-J7).

    A known id is a duplicate. A minimum that is no number refuses it (P2: at submission, not in the pass).
    """
    instance = step.instance_of(fact.instance, fact.client_operation_id)
    if instance is None:
        return
    if fact.client_operation_id in instance.by_client:
        step.ignore(IgnoreReason.DUPLICATE_OPERATION, fact.instance, fact.client_operation_id)
        return
    key = join_key(fact.action_digest, fact.cacheable, fact.skip_cache_lookup) if fact.cacheable else b""
    if key:
        live = instance.by_action.get(key)
        if live is not None:
            step.emit(e.OperationJoined, live.operation_id, fact.client_operation_id, fact.client_id, fact.attached)
            return
    requirements = modified_requirements(instance, fact) if instance.steps else fact.requirements
    requirement_id = step.shard.requirement_ids.get(requirements)
    try:
        if requirement_id is None:
            demand = compile_demand(0, requirements_of(requirements), instance.config, instance.pools)
        else:
            demand = instance.demands.get(requirement_id) or demand_of(step.shard, instance, requirement_id)
    except NotANumber as error:
        field = f"requirements.{error.name}"
        step.reject(
            RejectReason.INVALID_REQUIREMENT, field, error.value, NUMBER_RULE, fact.instance, fact.client_operation_id
        )
        return
    asked_requirement_id = 0 if requirements == fact.requirements else step.intern(fact.requirements)
    queued_at_us = clamp(step, fact.queued_at_us, instance) if fact.queued_at_us else step.now_us
    step.emit(
        e.OperationQueued,
        fact.instance,
        fact.client_operation_id,
        step.intern(requirements) if requirement_id is None else requirement_id,
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
        order_when_queued(instance, demand, fact, queued_at_us),
        asked_requirement_id,
    )
    if key and any(isinstance(decorator, CacheLookupScheduler) for decorator in instance.steps):
        step.emit(e.CacheLookupRequested, step.offset, fact.action_digest)
    elif instance.upstream is not None:
        hand_upstream(step, step.shard.operations[step.offset])


def clamp(step: Step, queued_at_us: int, instance: Instance) -> int:
    """A producer's queued time, at most `max_backdate_s` before now and never after it."""
    earliest_us = max(0, step.now_us - instance.config.max_backdate_s * SECOND_US)
    return min(max(queued_at_us, earliest_us), step.now_us)


def cancel(step: Step, fact: f.CancelRequested) -> None:
    """End an operation. Where it runs, the run is revoked first: its worker pays for it until it reports (K4).

    One of several clients that cancels under its own id only leaves: the others go on waiting for the operation they share.
    """
    operation = step.operation_of(fact.instance, fact.operation_id, fact.client_operation_id)
    if operation is None:
        return
    if operation.stage is Stage.FINISHED:
        step.ignore(IgnoreReason.OPERATION_FINISHED, fact.instance, operation.client_operation_id)
        return
    if fact.client_operation_id and operation.clients is not None:
        client = operation.clients[fact.client_operation_id]
        if client.left is ClientLeaving.GONE:
            step.ignore(IgnoreReason.NO_CHANGE, fact.instance, fact.client_operation_id)
            return
        if any(not other.left for other in operation.clients.values() if other is not client):
            leave(step, operation, client, ClientLeaving.GONE)
            return
    stop(step, operation, Outcome.CANCELLED, KillCause.CANCELLED)


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
        order = order_when_reprioritised(step.shard.instances[fact.instance], operation, fact.priority)
        step.emit(e.OperationReprioritised, operation.operation_id, fact.priority, order)


def forget_finished(step: Step) -> None:
    """End the retention of what finished `retain_completed_for_s` ago: one event however many they are.

    What a timer of this very tick has ended stays until the next one, also where nothing is retained: its placements are still to be
    written, from its row.
    """
    first_seq = step.events[0].seq
    for instance in step.shard.instances.values():
        until_us = step.now_us - instance.config.retain_completed_for_s * SECOND_US
        through_seq = 0
        for seq, finished_at_us, _ in instance.finished:
            if finished_at_us > until_us or seq >= first_seq:
                break
            through_seq = seq
        if through_seq:
            step.emit(e.OperationsForgotten, instance.name, through_seq)
