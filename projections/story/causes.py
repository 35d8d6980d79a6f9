"""What was behind an event: which other event of the same fact, or which earlier one, made it happen."""

from collections.abc import Callable, Sequence
from typing import Any

from events import events as e
from events.config import parse_config, resolve
from events.reasons import HoldEnd, HoldMove, Outcome
from projections.row_access import named_values
from projections.story.history import History, Told
from projections.story.links import facts_events, link, reason_of, who

AFTER_A_CHOICE = (
    e.OperationDispatched | e.HoldMade | e.HoldMoved | e.HoldReleased | e.RequirementDefined | e.HoldNoCandidate
)


def described(history: History, told: Told | None) -> dict[str, Any] | None:
    """An event as a cause: its link, and of whom and why it speaks; None for none."""
    if told is None:
        return None
    event = told.event
    found: dict[str, Any] = link(told)
    operation_id = getattr(event, "operation_id", None)
    if operation_id is not None:
        found["operation"] = who(history, history.table_at(event.seq), operation_id)
    match event:
        case e.OperationDispatched():
            found["endpoint"] = event.endpoint
        case e.OperationRequeued():
            found |= {
                "endpoint": _endpoint(history, told),
                "reason": reason_of(event.cause),
                "needed_kib": event.needed_kib or None,
            }
        case e.OperationFinished():
            found |= {"endpoint": _endpoint(history, told), "reason": reason_of(event.outcome)}
        case e.DispatchSettled():
            found |= {"endpoint": event.endpoint, "reason": reason_of(event.result)}
        case e.WorkerDisconnected():
            found |= {
                "endpoint": event.endpoint,
                "reason": reason_of(event.reason),
                "silent_us": event.silent_us or None,
            }
        case e.WorkerAdmitted():
            found |= {
                "endpoint": event.endpoint,
                "boot_epoch": event.boot_epoch,
                "boot_epoch_before": _boot_epoch_before(history, event),
                "reconnected": event.reconnected,
                "properties": named_values(event.properties),
            }
        case e.WorkerReported():
            found |= {"endpoint": event.endpoint, "free_memory_kib": event.free_memory_kib}
        case e.WorkerIdleCapped():
            found |= {"endpoint": event.endpoint, "idle_free_kib": event.idle_free_kib}
        case e.WorkerDrained() | e.WorkerUndrained():
            found["endpoint"] = event.endpoint
        case e.ClientLeft():
            found |= {
                "client_operation_id": event.client_operation_id,
                "reason": reason_of(event.reason),
                "silent_us": event.silent_us or None,
            }
        case e.HoldMade():
            found |= {"endpoint": event.endpoint, "hold": f"hold-{event.seq}"}
        case e.HoldReleased():
            found |= {"endpoint": event.endpoint, "reason": reason_of(event.reason)}
        case e.DemandUnsatisfiable():
            found |= {"properties": list(event.properties), "no_workers": event.no_workers}
        case e.LogSilent():
            found["gap_us"] = event.gap_us
        case e.Configured():
            policy = resolve(parse_config(event.config_json)).base.hold
            found["hold_policy"] = None if policy is None else policy.model_dump(mode="json")
    return found


def _boot_epoch_before(history: History, admitted: e.WorkerAdmitted) -> int | None:
    """Of the process that connected under this endpoint before; None for the first."""
    earlier = [
        each.event.boot_epoch
        for each in history.events_of_worker(admitted.instance, admitted.endpoint)
        if isinstance(each.event, e.WorkerAdmitted) and each.event.seq < admitted.seq
    ]
    return earlier[-1] if earlier else None


def endpoint_of(history: History, operation_id: int, dispatch_id: int) -> str | None:
    """Where a dispatch of an operation went; None for no dispatch."""
    for each in history.events_of_operation(operation_id):
        if isinstance(each.event, e.OperationDispatched) and each.event.dispatch_id == dispatch_id:
            return each.event.endpoint
    return None


def what_made_room(history: History, told: Told) -> dict[str, Any] | None:
    """Of the fact that led to a dispatch, the event behind it: a run that ended, a worker that came, a pause or hold that was over."""
    before, _ = facts_events(history, told)
    causes = [each for each in before if not isinstance(each.event, AFTER_A_CHOICE) or _frees(each.event)]
    placed = getattr(told.event, "operation_id", None)
    of_others = [each for each in causes if getattr(each.event, "operation_id", -1) != placed]
    return described(history, next(iter(of_others or causes), None))


def _frees(event: e.Event) -> bool:
    return isinstance(event, e.HoldReleased) and event.reason is not HoldEnd.PLACED


def loss_of_worker(history: History, told: Told) -> dict[str, Any] | None:
    """What took the worker away behind a requeue or an end; None where that says all there is."""
    before, after = facts_events(history, told)
    endpoint = _endpoint(history, told)
    for each in (*after, *before):
        if isinstance(each.event, e.WorkerDisconnected | e.WorkerAdmitted) and each.event.endpoint == endpoint:
            return described(history, each)
    return None


def cause_of_end(history: History, told: Told) -> dict[str, Any] | None:
    """What ended an operation where it was not its own run: a client that left, a worker that was lost, a demand nobody can meet."""
    event = told.event
    assert isinstance(event, e.OperationFinished), "only an end has a cause of the end"
    match event.outcome:
        case Outcome.ABANDONED:
            before, _ = facts_events(history, told)
            return described(history, _last(before, lambda one: isinstance(one, e.ClientLeft)))
        case Outcome.WORKER_LOSSES_EXHAUSTED:
            return loss_of_worker(history, told)
        case Outcome.UNSATISFIABLE | Outcome.NO_WORKER:
            queued = next(each.event for each in history.events_of_operation(event.operation_id))
            requirement_id = requirement_of(history, event.operation_id, event.seq)
            verdicts = history.events_of_instance(getattr(queued, "instance", ""), 1, event.seq)
            return described(
                history,
                _last(
                    verdicts,
                    lambda one: isinstance(one, e.DemandUnsatisfiable) and one.requirement_id == requirement_id,
                ),
            )
    return None


def cause_of_hold(history: History, told: Told) -> dict[str, Any] | None:
    """The event behind the move or the end of a hold."""
    event = told.event
    before, after = facts_events(history, told)
    match event:
        case e.HoldMoved():
            endpoint = event.from_endpoint
            if event.cause is HoldMove.SOONER:
                return described(history, _first_cause(before))
        case e.HoldReleased():
            endpoint = event.endpoint
            match event.reason:
                case HoldEnd.PLACED:
                    placed = _of(before, event.operation_id)
                    return described(history, _last(placed, lambda one: isinstance(one, e.OperationDispatched)))
                case HoldEnd.GONE:
                    gone = _of(before, event.operation_id)
                    ended = _last(gone, lambda one: isinstance(one, e.OperationFinished))
                    found = described(history, ended or (gone[-1] if gone else None))
                    if ended is not None and found is not None:
                        found["because"] = cause_of_end(history, ended)
                    return found
                case HoldEnd.SUPERSEDED:
                    made = next((each for each in after if isinstance(each.event, e.HoldMade)), None)
                    return described(history, made)
                case HoldEnd.CONFIGURED:
                    return described(history, _last(before, lambda one: isinstance(one, e.Configured)))
                case HoldEnd.EXPIRED:
                    return None  # max_hold_s says all there is
        case _:
            raise TypeError(f"{type(event).__name__} {event.seq} is neither the move nor the end of a hold")
    there = [
        each for each in before if _endpoint(history, each) == endpoint and not isinstance(each.event, AFTER_A_CHOICE)
    ]
    return described(history, _telling(there) or _first_cause(before))


def requirement_of(history: History, operation_id: int, seq: int) -> int:
    """What an operation asked for as of event `seq`, as a requirement id: an escalation changes it."""
    found = 0
    for each in history.events_of_operation(operation_id):
        if each.event.seq > seq:
            break
        if isinstance(each.event, e.OperationQueued | e.OperationRequeued):
            found = each.event.requirement_id or found
    return found


_TELLING = (
    e.WorkerDisconnected,
    e.WorkerAdmitted,
    e.WorkerDrained,
    e.WorkerIdleCapped,
    e.OperationRequeued,
    e.WorkerReported,
    e.OperationFinished,
)
"""What best says why a worker cannot be held any more, in this order."""


def _telling(there: Sequence[Told]) -> Told | None:
    for kind in _TELLING:
        for each in there:
            if isinstance(each.event, kind):
                return each
    return None


def _endpoint(history: History, told: Told) -> str | None:
    event = told.event
    found = getattr(event, "endpoint", "")
    if not found and isinstance(event, e.OperationRequeued | e.OperationFinished):
        return endpoint_of(history, event.operation_id, event.dispatch_id)
    return found or None


def _first_cause(before: Sequence[Told]) -> Told | None:
    return next((each for each in before if not isinstance(each.event, AFTER_A_CHOICE)), None)


def _of(told: Sequence[Told], operation_id: int) -> list[Told]:
    return [each for each in told if getattr(each.event, "operation_id", None) == operation_id]


def _last(told: Sequence[Told], holds: Callable[[e.Event], bool]) -> Told | None:
    return next((each for each in reversed(told) if holds(each.event)), None)
