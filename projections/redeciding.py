"""Deciding again: the recorded facts through this build's `decide`, fact by fact, held against the events that stand in the log.

Each fact is decided on the state that the *record* gives, so one difference is one divergence and not the cause of all that follow. Two
states do that. One is folded from the recorded events and lags one fact behind; the other is decided on. As long as both sides say the
same they are equal, and only after a divergence the second is made anew, as a copy of the first: that costs nothing where nothing differs.

| in the log | what is done |
|---|---|
| what a fact caused | decided again, all fields of all events compared; who holds an action's inputs is answered from the dispatch |
| `LeaderElected` | followed, its fields compared with what an election here would say: no fact causes it |
| a fact written off (`FactRejected{UNDECIDABLE}`) | decided again: this build has to fail, too. Where the log refused it: followed |
| a fact below `facts_from` (retention) | followed, and counted as not judged |
| a fact without events, events without fact | a divergence |

Chain, gaps and records of replaced leaders are for whoever reads the log to check: what comes here follows from what came before.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Protocol

from events import events as e
from events.codec import decode_fact, key_text
from events.decide import REFUSED_BY_THE_LOG, decide, elect, reject_undecidable
from events.errors import HeadwayError
from events.evolve import evolve
from events.facts import Unreadable
from events.holders import NO_HOLDERS, Holders, RecordedHolders
from events.indexing import build_indexes
from events.reasons import DecisionDifference, RejectReason
from events.state import Shard
from projections.state_copy import copy_of


class CannotFollow(HeadwayError):
    """An event of the record has no place in the state that the events before it give: nothing behind it can be judged."""

    code = "HW-221"


class FactRecord(Protocol):
    """A record of the facts topic, as `streams.log.Record` is one; `at_us` is its append time."""

    @property
    def offset(self) -> int: ...
    @property
    def at_us(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes: ...
    @property
    def headers(self) -> tuple[tuple[str, bytes], ...]: ...


@dataclass(frozen=True, slots=True)
class Divergence:
    """One fact (or election) of which the log and this build say different things.

    Args:
        seq: of the first event that differs; where the log has none there, of the one it would have been.
        offset: of that event in the event log, else of the last event before it; -1: there is none.
        cause_offset: of the fact.
        difference: how they differ.
        recorded, decided: all events of the fact, as they stand in the log and as this build decides them.
        at: index of the first event that differs, in both.
        fact_kind: what the fact is; empty where there is none.
        fields: names of the fields that differ in that event, where it is one of the same kind on both sides.
        error: where this build fails, with what.
        leader_epoch, build: who decided what is recorded, as its election says.
    """

    seq: int
    offset: int
    cause_offset: int
    difference: DecisionDifference
    recorded: tuple[e.Event, ...]
    decided: tuple[e.Event, ...]
    at: int
    fact_kind: str
    fields: tuple[str, ...]
    error: str
    leader_epoch: int
    build: str


@dataclass(slots=True)
class Judged:
    """What was looked at so far: facts and events decided again, elections, and what was followed without being decided again.

    `not_judged` are facts that are gone (retention), `refused` those that the log refused, `written_off` those
    on which the recorded build failed and this one fails too.
    """

    facts: int = 0
    events: int = 0
    elections: int = 0
    not_judged: int = 0
    refused: int = 0
    written_off: int = 0
    divergences: int = 0


class Redeciding:
    """Takes the facts and events of one shard, both in order, and says where they diverge.

    Facts are given before the events they caused. `add_event` judges a fact when the first event of the next one comes; `finish` says
    that what came last is complete (a transaction's end, or the end of the log).

    Args:
        facts_from: offset of the first fact that is there; events of older ones are followed.
        judge_from: events below this `seq` are followed and not counted: they were judged before.
        judged: the counts of then.

    Attributes:
        judged: counts.
        builds: every build that led, and the seq of its first election.
        broken: the error that every further call raises, once an event had no place in the state.
    """

    def __init__(self, *, facts_from: int = 0, judge_from: int = 0, judged: Judged | None = None) -> None:
        self.facts_from, self.judge_from = facts_from, judge_from
        self.judged = judged or Judged()
        self.builds: dict[str, int] = {}
        self.broken: CannotFollow | None = None
        self._record = Shard()
        self._deciding: Shard | None = None  # None: to be made from the record
        self._build = ""
        self._facts: deque[FactRecord] = deque()
        self._facts_through = facts_from  # every fact below is given
        self._events: list[e.Event] = []  # of one fact, so far
        self._offsets: list[int] = []

    @property
    def seq(self) -> int:
        """The last event that was judged or followed; those of a fact that is not complete yet come later."""
        return self._record.seq

    @property
    def position(self) -> int:
        """The fact of that event."""
        return self._record.position

    @property
    def state(self) -> Shard:
        """The state that the record gives after event `seq`; not live, and not to be changed."""
        return self._record

    def add_facts(self, facts: Iterable[FactRecord], *, through: int) -> None:
        """Facts in order of offset; every fact below offset `through` is given with this."""
        self._facts.extend(facts)
        self._facts_through = max(self._facts_through, through)

    def add_event(self, offset: int, event: e.Event) -> list[Divergence]:
        """The next event and its offset in the event log; returns what its coming shows of the fact before it.

        Raises:
            CannotFollow: an event before it has no place in the state (`broken`, known since the call that judged its fact).
        """
        found: list[Divergence] = []
        if type(event) is e.LeaderElected:
            found += self.finish()
            return found if self.broken else found + self._elected(offset, event)
        if self._events and event.cause_offset != self._events[0].cause_offset:
            found += self.finish()
        self._events.append(event)
        self._offsets.append(offset)
        return found

    def finish(self) -> list[Divergence]:
        """The events so far are all that their fact caused. Raises as `add_event`."""
        if self.broken is not None:
            raise self.broken
        events, offsets = self._events, self._offsets
        if not events:
            return []
        self._events, self._offsets = [], []
        cause = events[0].cause_offset
        if cause >= self._facts_through:
            raise ValueError(
                f"event {events[0].seq} is caused by fact {cause}, and only facts below {self._facts_through} are given"
            )
        found: list[Divergence] = []
        facts = self._facts
        while facts and facts[0].offset < cause:
            found += self._passed_over(facts.popleft(), offsets[0])
        fact = facts.popleft() if facts and facts[0].offset == cause else None
        if events[0].seq < self.judge_from:
            self._deciding = None
        elif fact is None and cause < self.facts_from:
            self.judged.not_judged += 1
            self._deciding = None
        else:
            found += self._judge(events, offsets, fact)
        self._follow(events, offsets)
        self.judged.divergences += len(found)
        return found

    # -- judging ------------------------------------------------------------------------------------------------------------

    def _judge(self, events: list[e.Event], offsets: list[int], fact: FactRecord | None) -> list[Divergence]:
        self.judged.facts += 1
        self.judged.events += len(events)
        if fact is None:
            return [self._divergence(DecisionDifference.NO_FACT, events, offsets, [], None)]
        first = events[0]
        if type(first) is e.FactRejected and first.reason is RejectReason.UNDECIDABLE:
            return self._judge_written_off(events, offsets, fact, first)
        decided, error = self._decide(fact, events)
        if error:
            return [self._divergence(DecisionDifference.FAILED, events, offsets, decided, fact, error)]
        return self._compare(events, offsets, decided, fact)

    def _judge_written_off(
        self, events: list[e.Event], offsets: list[int], fact: FactRecord, first: e.FactRejected
    ) -> list[Divergence]:
        """What stands in the log of a fact on which its decider failed: this build fails on it too, and then says the same."""
        refused = first.value.startswith(REFUSED_BY_THE_LOG)
        if refused:
            self.judged.refused += 1
        else:
            self.judged.written_off += 1
            decided, error = self._decide(fact, events)
            if not error:
                return [self._divergence(DecisionDifference.DECIDABLE, events, offsets, decided, fact)]
        self._deciding = None  # of no use after a failure, and none may have been there before
        return self._compare(events, offsets, self._write_off(fact, first), fact)

    def _compare(
        self, events: list[e.Event], offsets: list[int], decided: list[e.Event], fact: FactRecord
    ) -> list[Divergence]:
        if decided == events:
            return []
        return [self._divergence(_difference(events, decided), events, offsets, decided, fact)]

    def _write_off(self, fact: FactRecord, first: e.FactRejected) -> list[e.Event]:
        """The events of `reject_undecidable`, with the recorded words: those of a failure are not the same in every build."""
        key = key_text(fact.key)
        try:
            read = decode_fact(fact.value, fact.headers)
        except Exception:
            read = Unreadable(RejectReason.UNDECIDABLE, value=first.value, key=key)  # as a decider takes it then
        return reject_undecidable(
            self._live(), read, offset=fact.offset, append_us=fact.at_us, key=key, error=first.value
        )

    def _decide(self, fact: FactRecord, recorded: Sequence[e.Event]) -> tuple[list[e.Event], str]:
        """What this build decides, and where it fails, with what; the state decided on is then of no use."""
        holders: Holders = NO_HOLDERS
        if any(type(event) is e.OperationDispatched and (event.holders or event.saved_bytes) for event in recorded):
            holders = RecordedHolders(recorded)
        state = self._live()
        try:
            read = decode_fact(fact.value, fact.headers)
            decided = decide(
                state, read, offset=fact.offset, append_us=fact.at_us, key=key_text(fact.key), holders=holders
            )
        except Exception as failure:
            # Not passed over: it becomes a divergence, unless the recorded build failed on this fact as well.
            return [], f"{type(failure).__name__}: {failure}"
        return decided, ""

    def _passed_over(self, fact: FactRecord, offset: int) -> list[Divergence]:
        """A fact that no event speaks of, though a later one has events."""
        if (
            fact.offset < self.facts_from
            or fact.offset <= self._record.position
            or self._record.seq + 1 < self.judge_from
        ):
            return []
        self.judged.facts += 1
        decided, error = self._decide(fact, ())
        self._deciding = None
        return [self._divergence(DecisionDifference.PASSED_OVER, [], [offset], decided, fact, error)]

    def _elected(self, offset: int, event: e.LeaderElected) -> list[Divergence]:
        """Follow an election. Whether it was due is not in the log; when, after which fact and of which log it is, follows."""
        found: list[Divergence] = []
        self.judged.elections += event.seq >= self.judge_from
        self.builds.setdefault(event.build, event.seq)
        due = self._due_election(event)
        if event.seq >= self.judge_from and due != event:
            found.append(self._divergence(DecisionDifference.ELECTION, [event], [offset], [due], None))
        self._follow([event], [offset])
        self._build = event.build
        if self._deciding is not None and self.broken is None:
            evolve(self._deciding, event)
        self.judged.divergences += len(found)
        return found

    def _due_election(self, event: e.LeaderElected) -> e.LeaderElected:
        """What this build would write to become the owner now, with the ids and the build that are not the state's to know.

        A log that was imported begins a generation: both of its topics are others, and with them the ids.
        """
        record = self._record
        imported = event.events_topic_id != record.events_topic_id and event.facts_topic_id != record.facts_topic_id
        known = record.leader_epoch > 0 and not imported
        [due] = elect(
            Shard(seq=record.seq, now_us=record.now_us, position=record.position),
            leader_epoch=max(event.leader_epoch, record.leader_epoch + 1),
            cluster_id=record.cluster_id if known else event.cluster_id,
            facts_topic_id=record.facts_topic_id if known else event.facts_topic_id,
            events_topic_id=record.events_topic_id if known else event.events_topic_id,
            build=event.build,
            facts_end=event.facts_end,
        )
        assert isinstance(due, e.LeaderElected), "an election is one event"
        return due

    # -- the two states -------------------------------------------------------------------------------------------------------

    def _live(self) -> Shard:
        """The state to decide on, equal to the record's."""
        if self._deciding is None:
            self._deciding = copy_of(self._record)
            build_indexes(self._deciding)
        return self._deciding

    def _follow(self, events: Sequence[e.Event], offsets: Sequence[int]) -> None:
        """Fold what stands in the log. An event that has no place in the state is remembered: what was found before it is to be told."""
        for event, offset in zip(events, offsets, strict=True):
            try:
                evolve(self._record, event)
            except Exception as failure:
                self.broken = CannotFollow(
                    f"event {event.seq} at offset {offset}, a {type(event).__name__}, has no place in the state that the events "
                    f"before it give ({type(failure).__name__}: {failure}): no decider writes that. Run 'headway replay' to locate "
                    "the damage; nothing from here on is judged"
                )
                return

    def _divergence(
        self,
        difference: DecisionDifference,
        recorded: Sequence[e.Event],
        offsets: Sequence[int],
        decided: Sequence[e.Event],
        fact: FactRecord | None,
        error: str = "",
    ) -> Divergence:
        self._deciding = None
        at = _first_difference(recorded, decided)
        names: tuple[str, ...] = ()
        if at < len(recorded) and at < len(decided) and type(recorded[at]) is type(decided[at]):
            one, other = recorded[at], decided[at]
            names = tuple(field.name for field in fields(one) if getattr(one, field.name) != getattr(other, field.name))
        return Divergence(
            self._record.seq + 1 + at,
            offsets[min(at, len(offsets) - 1)],
            recorded[0].cause_offset if fact is None else fact.offset,
            difference,
            tuple(recorded),
            tuple(decided),
            at,
            "" if fact is None else _kind(fact),
            names,
            error,
            self._record.leader_epoch,
            self._build,
        )


def redecide(
    facts: Iterable[FactRecord], events: Iterable[tuple[int, e.Event]], redeciding: Redeciding
) -> Iterator[Divergence]:
    """Decide recorded facts again: (offset, event) of a shard in order, and its facts, of which more may follow than were decided.

    Counts stand in `redeciding` afterwards. Raises CannotFollow, as `Redeciding.add_event`.
    """
    coming = iter(facts)
    ahead = next(coming, None)
    for offset, event in events:
        while ahead is not None and ahead.offset <= event.cause_offset:
            redeciding.add_facts([ahead], through=ahead.offset + 1)
            ahead = next(coming, None)
        redeciding.add_facts((), through=event.cause_offset + 1)
        yield from redeciding.add_event(offset, event)
    yield from redeciding.finish()
    if redeciding.broken is not None:
        raise redeciding.broken


def _kind(fact: FactRecord) -> str:
    try:
        return type(decode_fact(fact.value, fact.headers)).__name__
    except Exception as failure:
        return f"unreadable ({type(failure).__name__})"


def _first_difference(recorded: Sequence[e.Event], decided: Sequence[e.Event]) -> int:
    """Index of the first event that differs; the length of both where none does."""
    for index, (one, other) in enumerate(zip(recorded, decided, strict=False)):
        if one != other:
            return index
    return min(len(recorded), len(decided))


def _difference(recorded: Sequence[e.Event], decided: Sequence[e.Event]) -> DecisionDifference:
    at = _first_difference(recorded, decided)
    if at == len(recorded):
        return DecisionDifference.NOT_RECORDED
    if at == len(decided):
        return DecisionDifference.NOT_DECIDED
    return DecisionDifference.FIELDS if type(recorded[at]) is type(decided[at]) else DecisionDifference.KIND
