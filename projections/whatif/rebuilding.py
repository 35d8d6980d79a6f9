"""Facts that retention has removed from the log, made again from the events they caused.

Facts are kept for a week, events for ever. An event carries what its fact said, with these exceptions: a fact that was ignored or refused
left only that; a connecting worker's list of runs is known by those that went on; an action that joined an identical one is that one's
twin. Where the fact cannot be told from its events, time still passed: a tick stands in for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from events import events as e
from events import facts as f
from events.deciding.endings import INTERNAL_ERROR_EXIT_CODE
from events.reasons import ClientLeaving, DisconnectReason, Outcome, RequeueCause, RunResult
from events.state import Shard

_SAME = (
    e.WorkerReported,
    e.WorkerDrained,
    e.WorkerUndrained,
    e.Configured,
    e.InstancePaused,
    e.InstanceResumed,
    e.HintsLoaded,
    e.KeyReleased,
    e.ClientHeard,
    e.CacheAnswered,
    e.UpstreamReported,
    e.BlobsAvailable,
    e.BlobsEvicted,
    e.PeerFetchFailed,
    e.BlobsStable,
    e.BlobsStableAcknowledged,
)
"""Events with the fields of their fact, under its name."""

_FINISHED_BY = {
    Outcome.COMPLETED: RunResult.EXITED,
    Outcome.ACTION_TIMED_OUT: RunResult.TIMED_OUT,
    Outcome.FAILED_PRECONDITION: RunResult.FAILED_PRECONDITION,
    Outcome.ESCALATION_EXHAUSTED: RunResult.OUT_OF_MEMORY,
    Outcome.JOB_RETRIES_EXHAUSTED: RunResult.INTERNAL_ERROR,
}
_REQUEUED_BY = {
    RequeueCause.JOB_ERROR: RunResult.INTERNAL_ERROR,
    RequeueCause.BACKPRESSURE: RunResult.BACKPRESSURE,
    RequeueCause.ESCALATED: RunResult.OUT_OF_MEMORY,
}


class Rebuilt(NamedTuple):
    """A fact made from events; `known` is False where a tick stands in for it."""

    fact: f.Fact
    known: bool


def rebuilt(shard: Shard, events: Sequence[e.Event]) -> Rebuilt:
    """The fact that caused these events; `shard` is the state after them."""
    revoked = {event.dispatch_id for event in events if type(event) is e.KillRequested}
    for event in events:
        fact = _fact(shard, event, revoked)
        if fact is not None:
            return Rebuilt(fact, True)
    return Rebuilt(f.Tick(), any(type(event) is e.Ticked for event in events))


def _fact(shard: Shard, event: e.Event, revoked: set[int]) -> f.Fact | None:
    if isinstance(event, _SAME):
        kind = f.FACT_KINDS[type(event).__name__]
        return kind(**{field.name: getattr(event, field.name) for field in fields(kind)})
    make = _MADE.get(type(event))
    return None if make is None else make(shard, event, revoked)


def _queued(shard: Shard, event: e.OperationQueued, revoked: set[int]) -> f.Fact:
    requirements = shard.requirements[event.asked_requirement_id or event.requirement_id]
    named = {field.name for field in fields(f.ActionQueued)} - {"requirements", "queued_at_us"}
    given = {name: getattr(event, name) for name in named}
    return f.ActionQueued(requirements=requirements, queued_at_us=event.queued_at_us + event.clamped_us, **given)


def _joined(shard: Shard, event: e.OperationJoined, revoked: set[int]) -> f.Fact:
    twin = shard.operations[event.operation_id]
    return f.ActionQueued(
        twin.instance,
        event.client_operation_id,
        shard.requirements[twin.asked_requirement_id or twin.requirement_id],
        twin.priority,
        client_id=event.client_id,
        attached=event.attached,
        action_digest=twin.action_digest,
        cacheable=True,
        timeout_us=twin.timeout_us,
        expected_duration_us=twin.expected_duration_us,
        command=twin.command,
        target_id=twin.target_id,
        mnemonic=twin.mnemonic,
    )


def _connected(shard: Shard, event: e.WorkerAdmitted, revoked: set[int]) -> f.Fact:
    named = {field.name for field in fields(f.WorkerConnected)} - {"running"}
    return f.WorkerConnected(running=event.kept, **{name: getattr(event, name) for name in named})


def _disconnected(shard: Shard, event: e.WorkerDisconnected, revoked: set[int]) -> f.Fact | None:
    if event.reason == DisconnectReason.GONE:
        return f.WorkerGone(event.instance, event.endpoint, event.connection_id)
    return f.WorkerGone(event.instance, event.endpoint) if event.reason == DisconnectReason.REMOVED else None


def _client_left(shard: Shard, event: e.ClientLeft, revoked: set[int]) -> f.Fact | None:
    return f.ClientGone(event.instance, event.client_operation_id) if event.reason == ClientLeaving.GONE else None


def _reprioritised(shard: Shard, event: e.OperationReprioritised, revoked: set[int]) -> f.Fact:
    instance = shard.operations[event.operation_id].instance
    return f.PriorityRequested(instance, event.operation_id, priority=event.priority)


def _accepted(shard: Shard, event: e.OperationAccepted, revoked: set[int]) -> f.Fact | None:
    dispatch = shard.operations[event.operation_id].dispatch
    if dispatch is None:
        return None
    return f.DispatchAccepted(
        dispatch.worker.instance, dispatch.worker.endpoint, dispatch.connection_id, event.dispatch_id
    )


def _settled(shard: Shard, event: e.DispatchSettled, revoked: set[int]) -> f.Fact | None:
    if event.result == RunResult.UNSPECIFIED:  # by a reconnect
        return None
    worker = shard.instances[event.instance].workers[event.endpoint]
    return f.ActionFinished(event.instance, event.endpoint, worker.connection_id, event.dispatch_id, event.result)


def _requeued(shard: Shard, event: e.OperationRequeued, revoked: set[int]) -> f.Fact | None:
    instance = shard.operations[event.operation_id].instance
    worker = shard.instances[instance].workers.get(event.endpoint)
    if worker is None or event.dispatch_id in revoked:
        return None
    about = (instance, event.endpoint, worker.connection_id, event.dispatch_id)
    if event.cause == RequeueCause.DECLINED:
        return f.DispatchDeclined(*about, event.decline_reason, event.needed_kib, event.free_kib)
    result = _REQUEUED_BY.get(event.cause)
    return None if result is None else f.ActionFinished(*about, result, message=event.message)


def _finished(shard: Shard, event: e.OperationFinished, revoked: set[int]) -> f.Fact | None:
    instance = shard.operations[event.operation_id].instance
    if event.outcome == Outcome.CANCELLED:
        return f.CancelRequested(instance, event.operation_id)
    result = _FINISHED_BY.get(event.outcome)
    worker = shard.instances[instance].workers.get(event.endpoint)
    if result is None or worker is None or event.dispatch_id in revoked:
        return None
    exit_code = 0 if event.exit_code == INTERNAL_ERROR_EXIT_CODE else event.exit_code
    about = (instance, event.endpoint, worker.connection_id, event.dispatch_id)
    return f.ActionFinished(*about, result, exit_code, event.message, event.stdout_tail, event.stderr_tail, event.usage)


_MADE: dict[type, Callable[[Shard, Any, set[int]], f.Fact | None]] = {
    e.OperationQueued: _queued,
    e.OperationJoined: _joined,
    e.WorkerAdmitted: _connected,
    e.WorkerDisconnected: _disconnected,
    e.ClientLeft: _client_left,
    e.OperationReprioritised: _reprioritised,
    e.OperationAccepted: _accepted,
    e.DispatchSettled: _settled,
    e.OperationRequeued: _requeued,
    e.OperationFinished: _finished,
}
