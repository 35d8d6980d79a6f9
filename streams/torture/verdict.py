"""The judge: reads facts, events and placements of shard 0 from the log, and counts what must not be there. No table is asked.

What it counts, each 0 in a sound run:

* `lost`: actions that the log has acknowledged and that have not ended. `failed`: neither ran to their end nor were cancelled.
* `doubled`: operations created, current, or ended more often than once (streams/demo/tally.py).
* `over_capacity`: events after which the runs of a worker held more than it has. `unexplained`: events that do not fit the ledger.
* `seq_gaps`, and whether the chain of digests is whole.
* `facts_undecided`: facts at or below the last decided one that caused no event. `facts_redecided`: caused events in two places.
* `placements_doubled`, `placements_missing`: dispatches and ends that do not stand exactly once among the placements, as one transaction
  would have it.
* `states_differing`: states that two followers, or a fold of the whole log, do not agree on; `checkpoints` is how many they agreed on.
* `wrong_output`: real commands that did not print what they should.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from events.codec import GENESIS_CHAIN, chain_of, check_chain, decode_event, envelope_of
from events.errors import ChainBroken
from events.events import (
    CheckpointDiverged,
    Checkpointed,
    Event,
    LeaderElected,
    OperationAccepted,
    OperationDispatched,
    OperationFinished,
)
from events.reasons import Outcome, PlacementEnd
from streams.demo.tally import Tally
from streams.demo.watching import Takeover, committed
from streams.log import Log, Record, bounds
from streams.placements import ActionPlaced, placement_message, placement_of
from streams.recovery import DamagedLog
from streams.snapshots.checking import checkpoints_held
from streams.topics import EVENTS, FACTS, PLACEMENTS
from streams.torture.ledger import Ledger
from streams.torture.plan import REAL_PREFIX, expected_output

SHARD = 0
READ_WITHIN_S = 120.0


@dataclass(slots=True)
class Verdict:
    """What the log says. `complaints` are the first sentences on what is wrong, in no more than a screen."""

    tally: Tally = field(default_factory=Tally)
    ledger: Ledger = field(default_factory=Ledger)
    takeovers: list[Takeover] = field(default_factory=list)
    accepted: int = 0  # dispatches that a worker took
    chain_breaks: int = 0
    stale: int = 0  # events of a deposed leader, which no reader takes
    cancelled: int = 0
    failed: int = 0
    lost: int = 0
    wrong_output: int = 0
    facts_undecided: int = 0
    facts_redecided: int = 0
    placements_doubled: int = 0
    placements_missing: int = 0
    checkpoints: int = 0
    states_differing: int = 0
    complaints: list[str] = field(default_factory=list)

    @property
    def chain_ok(self) -> bool:
        """Whether every event follows from the one before it."""
        return self.chain_breaks == 0

    @property
    def leader_epochs(self) -> int:
        """How many leaders there were, one after the other."""
        return self.tally.elections

    @property
    def longest_takeover_us(self) -> int:
        """The longest time without an event before a later leader's first one."""
        return max((takeover.silent_us for takeover in self.takeovers), default=0)

    def complain(self, what: str) -> None:
        """Note what is wrong, unless there is a screen of it already."""
        if len(self.complaints) < 20:
            self.complaints.append(what)


async def judge(log: Log, published: Sequence[str]) -> Verdict:
    """Read everything and judge it.

    Args:
        published: client operation ids that the log acknowledged.
    Raises:
        UnknownEvent, UnreadablePlacement: a record that no build of this version writes.
        TimeoutError, LogUnavailable: the log could not be read to its end.
    """
    verdict = Verdict()
    async with asyncio.timeout(READ_WITHIN_S):
        reading = _Reading(verdict)
        async for record in committed(log, (EVENTS, SHARD)):
            reading.take(record)
        facts = [record.offset async for record in committed(log, (FACTS, SHARD))]
        placements = [record async for record in committed(log, (PLACEMENTS, SHARD))]
        if verdict.checkpoints:
            await _judge_states(verdict, log)
    _judge_facts(verdict, facts, reading)
    _judge_placements(verdict, placements, reading)
    _judge_endings(verdict, published)
    for excess in verdict.ledger.excesses:
        verdict.complain(str(excess))
    for sentence in verdict.ledger.unexplained:
        verdict.complain(sentence)
    return verdict


class _Reading:
    """One pass over the events."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.causes: set[int] = set()
        self.last_cause = -1
        self.dispatched: list[int] = []  # dispatch ids
        self.ended: list[int] = []  # operation ids
        self._chain = GENESIS_CHAIN
        self._leader_epoch = 0
        self._before: Record | None = None

    def take(self, record: Record) -> None:
        """The next record."""
        verdict, envelope = self.verdict, envelope_of(record.value)
        if envelope.leader_epoch < self._leader_epoch:
            verdict.stale += 1
            return
        self._leader_epoch = envelope.leader_epoch
        try:
            self._chain = check_chain(record.value, self._chain)
        except ChainBroken as error:
            verdict.chain_breaks += 1
            verdict.complain(f"event {envelope.seq} at offset {record.offset}: {error}")
            self._chain = chain_of(record.value)  # so that one break is counted once
        event = decode_event(record.value)
        if event.seq != verdict.tally.last_seq + 1:
            verdict.complain(f"event {event.seq} follows event {verdict.tally.last_seq}")
        verdict.tally.add(event)
        verdict.ledger.add(event)
        self._note(event, record)
        self._before = record

    def _note(self, event: Event, record: Record) -> None:
        verdict = self.verdict
        match event:
            case LeaderElected():
                if self._before is not None:
                    verdict.takeovers.append(Takeover(event.leader_epoch, record.at_us - self._before.at_us))
                return  # no fact has caused it
            case OperationAccepted():
                verdict.accepted += 1
            case OperationDispatched():
                self.dispatched.append(event.dispatch_id)
            case OperationFinished():
                self.ended.append(event.operation_id)
            case Checkpointed():
                verdict.checkpoints += 1
            case CheckpointDiverged():
                verdict.states_differing += 1
                verdict.complain(f"after event {event.through_seq} {event.by} has another state than {event.other_by}")
        if event.cause_offset < self.last_cause:
            verdict.facts_redecided += 1
            verdict.complain(f"event {event.seq} decides fact {event.cause_offset} again, after fact {self.last_cause}")
        self.last_cause = max(self.last_cause, event.cause_offset)
        self.causes.add(event.cause_offset)


async def _judge_states(verdict: Verdict, log: Log) -> None:
    """What followers that began at snapshots agreed on, against a fold of the whole log."""
    _, end = await bounds(log, (EVENTS, SHARD))
    try:
        differing = [held for held in await checkpoints_held(log, SHARD, end) if held.differs]
    except DamagedLog as error:
        verdict.states_differing += 1
        verdict.complain(str(error))
        return
    verdict.states_differing += len(differing)
    for held in differing:
        verdict.complain(f"the state after event {held.seq} is not the one that two followers agreed on")


def _judge_facts(verdict: Verdict, offsets: Sequence[int], reading: _Reading) -> None:
    undecided = [offset for offset in offsets if offset <= reading.last_cause and offset not in reading.causes]
    verdict.facts_undecided = len(undecided)
    for offset in undecided:
        verdict.complain(f"fact {offset} caused no event")


def _judge_placements(verdict: Verdict, records: Sequence[Record], reading: _Reading) -> None:
    placed: Counter[int] = Counter()
    ended: Counter[int] = Counter()
    for record in records:
        placement = placement_of(placement_message(record.value, SHARD, record.offset), SHARD, record.offset)
        if isinstance(placement, ActionPlaced):
            placed[placement.dispatch_id] += not placement.redelivered
        elif placement.end is not PlacementEnd.REQUEUED:
            ended[placement.operation_id] += 1
    for what, events, found in (
        ("dispatch", Counter(reading.dispatched), placed),
        ("the end of operation", Counter(reading.ended), ended),
    ):
        for number in events.keys() | found.keys():
            times = found[number]
            if times != 1:
                verdict.complain(f"{what} {number} stands {times} times among the placements")
            elif number not in events:
                verdict.complain(f"{what} {number} stands among the placements and not among the events")
            verdict.placements_missing += times == 0
            verdict.placements_doubled += max(0, times - 1) + (times == 1 and number not in events)


def _judge_endings(verdict: Verdict, published: Sequence[str]) -> None:
    tally = verdict.tally
    unfinished = tally.unfinished(published)
    verdict.lost = len(unfinished)
    for name in unfinished:
        verdict.complain(f"{name} has not ended")
    for run in tally.runs.values():
        name, finished = run.client_operation_id, run.finished
        if run.finishes > 1 or run.overlapping or len(tally.by_client[name]) > 1:
            verdict.complain(f"{name}: {run.finishes} ends, {run.overlapping} dispatches while another one was current")
        if finished is None:
            continue
        if finished.outcome is Outcome.CANCELLED:
            verdict.cancelled += 1
        elif finished.outcome is not Outcome.COMPLETED or finished.exit_code != 0:
            verdict.failed += 1
            verdict.complain(f"{name} ended as {finished.outcome.name} ({finished.exit_code}): {finished.message}")
        elif name.startswith(REAL_PREFIX) and finished.stdout_tail != expected_output(name):
            verdict.wrong_output += 1
            verdict.complain(f"{name} printed {finished.stdout_tail!r}")
