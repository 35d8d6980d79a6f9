"""Makes a `Record` of a shard's events and facts, and measures what was recorded on the way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from events import events as e
from events import facts as f
from events.evolve import evolve
from events.fact_rules import key_of
from events.reasons import KillCause, RejectReason, RequeueCause
from events.state import Shard
from projections.state_copy import copy_of
from projections.whatif.decisions import decisions_in
from projections.whatif.meter import Meter
from projections.whatif.rebuilding import rebuilt
from projections.whatif.record import ANSWERS, SILENCE_US, Answer, Attempt, Given, Record, kind_of

LOSSES: Final = (
    RequeueCause.WORKER_GONE,
    RequeueCause.WORKER_TIMEOUT,
    RequeueCause.WORKER_REPLACED,
    RequeueCause.KILL_OVERDUE,
)
"""Causes that take a run away with its worker."""


@dataclass(frozen=True, slots=True)
class Window:
    """Which part of a record is decided again, whole facts only; None: from its beginning, to its end."""

    from_seq: int | None = None
    from_us: int | None = None
    to_seq: int | None = None
    to_us: int | None = None

    def begins_with(self, events: list[e.Event]) -> bool:
        """Whether a fact with these events lies at or behind the beginning."""
        if self.from_seq is not None:
            return events[-1].seq >= self.from_seq
        return self.from_us is None or events[0].at_us >= self.from_us

    def ends_before(self, events: list[e.Event]) -> bool:
        """Whether it lies behind the end."""
        if self.to_seq is not None:
            return events[0].seq > self.to_seq
        return self.to_us is not None and events[0].at_us > self.to_us


class Reading:
    """Takes a shard's events from the first one on, then the facts of the window.

    Args:
        instance: whose waits are measured.
        facts_from: offset of the first fact that the log still has; older ones are made again from their events.

    Attributes:
        record: complete after `finish`.
        meter: what was recorded, measured as every other history is.
    """

    def __init__(self, instance: str, window: Window, *, facts_from: int = 0) -> None:
        self.record = Record()
        self.meter = Meter(instance)
        self._window, self._facts_from = window, facts_from
        self._shard = Shard()
        self._group: list[e.Event] = []
        self._elections: list[Given] = []
        self._facts: list[Given] = []
        self._begun = self._over = False
        self._now_us = 0  # of the facts
        self._ticked_us = -SILENCE_US  # when the last tick came
        self._ticked_before = 0  # gaps right before which a ticker was at work
        self._gaps: list[tuple[int, int]] = []
        self._written_off: dict[int, str] = {}

    @property
    def over(self) -> bool:
        """Whether the window's end has been passed: no further event is wanted."""
        return self._over

    @property
    def first_fact(self) -> int:
        """Offset of the first fact that `add_fact` is to be given."""
        return max(self.record.base.position + 1, self._facts_from)

    @property
    def last_fact(self) -> int:
        """Offset of the last one; before the first one: there is none."""
        return self._shard.position

    def add_event(self, event: e.Event) -> None:
        """Take the next event. Raises SequenceBroken when it does not follow."""
        group = self._group
        if group and (type(event) is e.LeaderElected or group[0].cause_offset != event.cause_offset or _elects(group)):
            self._take_group()
        self._group.append(event)

    def end_events(self) -> None:
        """There are no more events: what follows are facts, from `first_fact` to `last_fact`."""
        if self._group:
            self._take_group()
        if not self._begun:
            self._begin()
        record = self.record
        record.last_seq, record.last_at_us = self._shard.seq, self._shard.now_us
        self.meter.finish(self._shard, self._shard.now_us)
        self._now_us = record.base.now_us
        rebuilt_first, self._facts = self._facts, []
        for given in rebuilt_first:
            assert given.fact is not None, "elections are kept apart"
            self.add_fact(given.offset, given.append_us, given.key, given.fact)

    def add_fact(self, offset: int, append_us: int, key: str, fact: f.Fact) -> None:
        """Take the next fact of the window, as the log has it."""
        record = self.record
        if self._now_us and append_us - self._now_us > SILENCE_US:
            self._gaps.append((self._now_us, append_us))
            self._ticked_before += self._now_us - self._ticked_us <= SILENCE_US
        at_us = self._now_us = max(self._now_us, append_us)
        record.facts += 1
        if type(fact) is f.Tick:
            self._ticked_us = at_us
        written_off = self._written_off.get(offset, "")
        if isinstance(fact, ANSWERS) and not written_off:
            attempt = record.attempt_before(fact.dispatch_id, offset)
            if attempt is not None and (attempt.instance, attempt.endpoint) == (fact.instance, fact.endpoint):
                attempt.answers.append(Answer(at_us, offset, append_us, key, fact))
                return
            fact = replace(fact, dispatch_id=record.foreign(fact.dispatch_id))
        self._facts.append(Given(at_us, offset, append_us, key, fact, None, written_off))

    def finish(self) -> Record:
        """The record, once every fact is in."""
        record = self.record
        record.givens = sorted((*self._facts, *self._elections), key=lambda given: given.order)
        times = (given.at_us for given in record.givens if given.at_us)  # a first election is before all time
        record.first_at_us = next(times, record.base.now_us)
        # Where no ticker was at work gaps say nothing: a simulation lets time pass without a fact.
        if self._ticked_before * 2 > len(self._gaps):
            record.silences = self._gaps
        return record

    def _take_group(self) -> None:
        group, shard, record = self._group, self._shard, self.record
        self._group = []
        if self._over or self._window.ends_before(group):
            self._over = True
            return
        if not self._begun and self._window.begins_with(group):
            self._begin()
        position = shard.position
        for event in group:
            evolve(shard, event)
            self._note_run(event)
        if not self._begun:
            return
        record.first_seq = record.first_seq or group[0].seq
        record.events += len(group)
        record.decisions += decisions_in(group)
        self.meter.see(group, shard)
        first = group[0]
        if type(first) is e.LeaderElected:
            self._elections.append(Given(first.at_us, position, first.at_us, "", None, first))
            return
        for event in group:
            if type(event) is e.FactRejected and event.reason == RejectReason.UNDECIDABLE:
                self._written_off[event.cause_offset] = event.value
        if first.cause_offset < self._facts_from:
            fact, known = rebuilt(shard, group)
            record.rebuilt += 1
            record.lost += not known
            self._facts.append(Given(first.at_us, first.cause_offset, first.at_us, key_of(fact), fact))

    def _begin(self) -> None:
        self._begun = True
        record = self.record
        record.base = copy_of(self._shard)
        instances = record.base.instances.values()
        workers = (worker for instance in instances for worker in instance.workers.values())
        running = {dispatch_id for worker in workers for dispatch_id in worker.running}
        record.by_dispatch = {
            dispatch_id: attempt for dispatch_id, attempt in record.by_dispatch.items() if dispatch_id in running
        }
        self.meter.begin(self._shard)

    def _note_run(self, event: e.Event) -> None:
        """Keep the attempts of what lives or lives on into the window."""
        record, shard = self.record, self._shard
        match event:
            case e.OperationDispatched():
                operation = shard.operations[event.operation_id]
                attempts = record.attempts.setdefault(event.operation_id, [])
                attempt = Attempt(
                    event.operation_id,
                    len(attempts),
                    event.dispatch_id,
                    operation.instance,
                    event.endpoint,
                    event.at_us,
                    event.cause_offset,
                    kind_of(shard, operation),
                )
                attempts.append(attempt)
                record.by_dispatch[event.dispatch_id] = attempt
                if self._begun:
                    record.dispatches.append(event)
            case e.KillRequested() if event.cause != KillCause.NOT_CURRENT and event.dispatch_id in record.by_dispatch:
                attempt = record.by_dispatch[event.dispatch_id]
                attempt.killed_at_us = event.at_us
                attempt.unanswered = event.cause == KillCause.UNACKNOWLEDGED
            case e.OperationRequeued() if event.cause in LOSSES and event.dispatch_id in record.by_dispatch:
                record.by_dispatch[event.dispatch_id].lost_at_us = event.at_us
            case e.OperationFinished() if not self._begun:
                attempts = record.attempts.get(event.operation_id, [])
                if not any(attempt.killed_at_us for attempt in attempts):  # else a worker may still report on it
                    for attempt in record.attempts.pop(event.operation_id, []):
                        del record.by_dispatch[attempt.dispatch_id]
            case e.CacheLookupRequested():
                record.lookups_us[event.operation_id] = event.at_us
            case e.CacheAnswered() if event.operation_id in record.lookups_us:
                took_us = event.at_us - record.lookups_us.pop(event.operation_id)
                if self._begun:
                    record.cache_answers_us[event.operation_id] = took_us
            case e.BlobsStable():
                record.stable_seqs[event.seq] = event.cause_offset


def _elects(group: list[e.Event]) -> bool:
    return type(group[0]) is e.LeaderElected
