"""The story of an operation: from queued to its end, attempt by attempt, with the event behind each turn of it."""

from collections.abc import Sequence
from typing import Any, Final

from events import events as e
from projections import answers
from projections.ending import exit_code_of
from projections.holding import exclusions
from projections.row_access import named_values, requirements_of_row
from projections.story.causes import cause_of_end, cause_of_hold, loss_of_worker, what_made_room
from projections.story.history import History, Overtaking, Told
from projections.story.links import facts_events, link, reason_of, who
from projections.story.stays import stays_of, times_of
from projections.story.waits import first_in_line, stood_before, why_then

LOOKS_AT_MOST: Final = 12
"""Moments at which it is asked why it waited; an operation that is requeued without end is asked of its first waits."""

OVERTAKERS_NAMED: Final = 3


def story_of_operation(history: History, operation_id: int, seq: int | None = None) -> dict[str, Any] | None:
    """The story of an operation up to event `seq` (None: to the end of the history), or None when nothing is known of it then.

    `chapters` are its turns in order, each with the link to its event (`seq`, `offset`, `at_us`, `event`), `after_us` since it was
    queued, and figures of its own; where it waited, `why` is the answer of `explain_operation` as of then. `stays` are the times in each
    state, without gap or overlap: they sum to `life_us`.
    """
    last_seq = history.last_seq if seq is None else min(seq, history.last_seq)
    told = [each for each in history.events_of_operation(operation_id) if each.event.seq <= last_seq]
    begun = next((each.event for each in told if isinstance(each.event, e.OperationQueued)), None)
    if begun is None:
        return None
    ended = next((each.event for each in told if isinstance(each.event, e.OperationFinished)), None)
    table = history.table_at(last_seq)
    now_us = table.shard.now_us
    until_us = ended.at_us if ended is not None else now_us
    row = answers.find(table, operation_id)
    stays = stays_of(told, until_us)
    from_us = min(begun.at_us, begun.queued_at_us)
    named = history.operations_named(begun.client_operation_id, begun.instance)
    head = {
        **who(history, table, operation_id),
        "instance": begun.instance,
        "mnemonic": begun.mnemonic or None,
        "client_id": begun.client_id or None,
        "asked_requirements": _pairs(history, last_seq, begun.asked_requirement_id),
        "same_name": [other for other in named if other != operation_id],
        "kept": row is not None,
        "stage": answers.STAGES[row.stage] if row is not None else ("finished" if ended is not None else None),
        "outcome": ended.outcome.name.lower() if ended is not None else None,
        "from_us": from_us,
        "until_us": until_us,
        "life_us": until_us - from_us,
        "stays": [stay.as_dict() for stay in stays],
        "times_us": times_of(stays),
        "attempts": sum(isinstance(each.event, e.OperationDispatched) for each in told),
        "as_of": {"seq": last_seq, "at_us": now_us, "shard": history.shard},
    }
    telling = _Telling(history, operation_id, last_seq, from_us)
    return {"subject": "operation", **head, "chapters": telling.chapters(told)}


def _pairs(history: History, seq: int, requirement_id: int) -> list[dict[str, str]] | None:
    if not requirement_id:
        return None
    return named_values(requirements_of_row(history.table_at(seq), requirement_id))


class _Telling:
    """Turns the events of one operation into chapters."""

    def __init__(self, history: History, operation_id: int, last_seq: int, from_us: int) -> None:
        self.history, self.operation_id, self.last_seq, self.from_us = history, operation_id, last_seq, from_us
        self.overtakings = [each for each in history.overtakings_of(operation_id) if each.seq <= last_seq]
        self.looks_left = LOOKS_AT_MOST
        self.found: list[dict[str, Any]] = []
        self.attempt = 0
        self.since: Told | None = None  # the event since which it waits
        self.placed: Told | None = None

    def chapters(self, told: Sequence[Told]) -> list[dict[str, Any]]:
        for each in told:
            self._tell(each)
        if self.since is not None:
            self._waited(self.last_seq)
        begun_seq = told[0].event.seq
        instance = getattr(told[0].event, "instance", "")
        end_seq = (
            self.found[-1]["seq"] if self.found and self.found[-1]["event"] == "OperationFinished" else self.last_seq
        )
        for each in self.history.events_of_instance(instance, begun_seq + 1, end_seq):
            self._around(each)
        # A moment can stand on the event of another chapter, and is told after it.
        return sorted(self.found, key=lambda chapter: (chapter["seq"], chapter["event"] == "moment"))

    # -- what happens to it ------------------------------------------------------------------------------------------------

    def _tell(self, each: Told) -> None:
        event = each.event
        match event:
            case e.OperationQueued():
                self.since = each
                self._add(each, priority=event.priority, clamped_us=event.clamped_us, attached=event.attached)
            case e.CacheLookupRequested():
                self.since = None
                self._add(each)
            case e.CacheAnswered():
                self._add(each, answer=reason_of(event.answer), message=event.message or None)
                self.since = each
            case e.OperationForwarded():
                self.since = None
                self._add(each, upstream=event.upstream)
            case e.UpstreamReported():
                self._add(each, state=reason_of(event.state), message=event.message or None)
            case e.OperationJoined():
                self._add(each, client_operation_id=event.client_operation_id, client_id=event.client_id or None)
            case e.ClientLeft():
                self._add(
                    each,
                    client_operation_id=event.client_operation_id,
                    left=reason_of(event.reason),
                    silent_us=event.silent_us or None,
                )
            case e.OperationDispatched():
                self._dispatched(each, event)
            case e.OperationAccepted() if self.placed is not None:
                self._add(each, took_us=event.at_us - self.placed.event.at_us, dispatch_id=event.dispatch_id)
            case e.OperationRequeued():
                self._requeued(each, event)
            case e.OperationFinished():
                self._finished(each, event)
            case e.OperationReprioritised():
                self._add(each, priority=event.priority)
            case e.KillRequested() if self.placed is not None:
                self._add(each, endpoint=event.endpoint, dispatch_id=event.dispatch_id, cause=reason_of(event.cause))
            case e.DispatchSettled():
                self._add(each, endpoint=event.endpoint, dispatch_id=event.dispatch_id, result=reason_of(event.result))
            case e.HoldMade() | e.HoldMoved() | e.HoldReleased() | e.HoldNoCandidate():
                self._hold(each)

    def _dispatched(self, each: Told, event: e.OperationDispatched) -> None:
        first_seq = self._waited(event.seq)
        since = self.since
        self.since, self.placed = None, each
        self.attempt += 1
        self._add(
            each,
            attempt=self.attempt,
            endpoint=event.endpoint,
            waited_us=event.at_us - since.event.at_us if since is not None else 0,
            at_once=first_seq is None,
            room=what_made_room(self.history, each),
            overtook=None if event.overtook is None else self._who(event.overtook),
            backfilled=event.backfilled,
            saved_bytes=event.saved_bytes or None,
        )

    def _requeued(self, each: Told, event: e.OperationRequeued) -> None:
        self.since = each
        self._add(
            each,
            attempt=self.attempt,
            endpoint=event.endpoint or (getattr(self.placed.event, "endpoint", None) if self.placed else None),
            ran_us=event.at_us - self.placed.event.at_us if self.placed is not None else None,
            cause=reason_of(event.cause),
            because=loss_of_worker(self.history, each),
            message=event.message or None,
            declined=reason_of(event.decline_reason) if event.decline_reason else None,
            needed_kib=event.needed_kib or None,
            free_kib=event.free_kib or None,
            job_failures=event.job_failures,
            worker_losses=event.worker_losses,
            free_requeues=event.free_requeues,
            escalations=event.escalations,
            requirements=_pairs(self.history, event.seq, event.requirement_id),
        )

    def _finished(self, each: Told, event: e.OperationFinished) -> None:
        ran = self.since is None and self.placed is not None and event.dispatch_id != 0
        if self.since is not None:
            self._waited(event.seq)
        self.since = None
        self._add(
            each,
            outcome=reason_of(event.outcome),
            endpoint=event.endpoint or (getattr(self.placed.event, "endpoint", None) if ran and self.placed else None),
            ran_us=event.at_us - self.placed.event.at_us if ran and self.placed is not None else None,
            exit_code=exit_code_of(event.outcome, event.exit_code) if ran else None,
            message=event.message or None,
            because=cause_of_end(self.history, each),
        )

    def _hold(self, each: Told) -> None:
        event = each.event
        match event:
            case e.HoldMade():
                self._add(
                    each,
                    endpoint=event.endpoint,
                    waited_us=event.waited_us,
                    overtaken_by=None if event.overtaken_by is None else self._who(event.overtaken_by),
                    why=self._look(event.seq),
                )
            case e.HoldMoved():
                self._add(
                    each,
                    endpoint=event.to_endpoint,
                    from_endpoint=event.from_endpoint,
                    cause=reason_of(event.cause),
                    because=cause_of_hold(self.history, each),
                )
            case e.HoldReleased():
                self._add(
                    each,
                    endpoint=event.endpoint,
                    held_us=event.held_us,
                    reason=reason_of(event.reason),
                    because=cause_of_hold(self.history, each),
                )
            case e.HoldNoCandidate():
                self._add(each, waited_us=event.waited_us, excluded=exclusions(event.excluded))

    def _around(self, each: Told) -> None:
        """What happened to its instance or shard meanwhile."""
        event = each.event
        match event:
            case e.InstancePaused() | e.InstanceResumed() | e.Configured():
                self._add(each)
            case e.LogSilent():
                self._add(each, gap_us=event.gap_us)
            case e.LeaderElected():
                self._add(each, leader_epoch=event.leader_epoch)

    # -- how it waited -----------------------------------------------------------------------------------------------------

    def _waited(self, end_seq: int) -> int | None:
        """The moments of the wait that ends with event `end_seq`; returns the first of them, None where it never waited."""
        if self.since is None:
            return None
        _, after = facts_events(self.history, self.since)
        from_seq = after[-1].event.seq if after else self.since.event.seq
        if end_seq <= from_seq and any(each.event.seq == end_seq for each in after):
            return None  # placed or ended by the very fact that queued it
        from_seq = min(from_seq, end_seq)
        end = self.history.events_between(end_seq, end_seq)
        ends_it = bool(end) and self._is_end(end[0])
        before, _ = facts_events(self.history, end[0]) if ends_it else ((), ())
        last_seq = (before[0].event.seq if before else end_seq) - 1 if ends_it else end_seq
        last_seq = max(last_seq, from_seq)
        self._moment("queued", from_seq)
        overtakings = [each for each in self.overtakings if from_seq <= each.seq <= end_seq]
        self._in_line(from_seq, overtakings[0].seq if overtakings else last_seq)
        if overtakings:
            self._overtaken(overtakings)
        if last_seq > from_seq:
            self._moment("last" if ends_it else "now", last_seq)
        return from_seq

    def _is_end(self, told: Told) -> bool:
        event = told.event
        return (
            isinstance(event, e.OperationDispatched | e.OperationFinished) and event.operation_id == self.operation_id
        )

    def _in_line(self, from_seq: int, to_seq: int) -> None:
        if to_seq <= from_seq or self.looks_left <= 0:
            return
        since_seq = first_in_line(self.history, self.operation_id, from_seq, to_seq)
        if since_seq is not None and since_seq > from_seq:
            self._moment("first_in_line", since_seq, before=stood_before(self.history, self.operation_id, since_seq))

    def _overtaken(self, overtakings: Sequence[Overtaking]) -> None:
        first, last = overtakings[0], overtakings[-1]
        why = self._look(first.seq)
        endpoints: dict[str, int] = {}
        for each in overtakings:
            endpoints[each.endpoint] = endpoints.get(each.endpoint, 0) + 1
        most = sorted(endpoints.items(), key=lambda item: (-item[1], item[0]))
        self._note(
            {"seq": first.seq, "offset": first.offset, "at_us": first.at_us, "event": "moment"},
            moment="overtaken",
            overtaken=len(overtakings),
            backfilled=sum(each.backfilled for each in overtakings),
            endpoints=[{"endpoint": name, "overtaken": count} for name, count in most[:OVERTAKERS_NAMED]],
            more_endpoints=max(0, len(most) - OVERTAKERS_NAMED),
            overtakers=[self._overtaker(each) for each in overtakings[:OVERTAKERS_NAMED]],
            last=self._overtaker(last) if len(overtakings) > OVERTAKERS_NAMED else None,
            why=why,
        )

    def _overtaker(self, each: Overtaking) -> dict[str, Any]:
        return {
            **self._who(each.operation_id),
            "seq": each.seq,
            "offset": each.offset,
            "at_us": each.at_us,
            "after_us": each.at_us - self.from_us,
            "endpoint": each.endpoint,
            "backfilled": each.backfilled,
        }

    def _moment(self, moment: str, seq: int, **figures: Any) -> None:
        told = self.history.events_between(seq, seq)
        if not told:
            return
        why = self._look(seq)
        if why is not None:
            at = link(told[0])
            self._note({**at, "event": "moment", "of": at["event"]}, moment=moment, why=why, **figures)

    def _look(self, seq: int) -> dict[str, Any] | None:
        if self.looks_left <= 0:
            return None
        self.looks_left -= 1
        return why_then(self.history, self.operation_id, seq)

    def _who(self, operation_id: int) -> dict[str, Any]:
        return who(self.history, self.history.table_at(self.last_seq), operation_id)

    def _add(self, each: Told, **figures: Any) -> None:
        self._note(link(each), **figures)

    def _note(self, linked: dict[str, Any], **figures: Any) -> None:
        self.found.append({**linked, "after_us": linked["at_us"] - self.from_us, **figures})
