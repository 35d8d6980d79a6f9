"""Hands operations to another scheduler and brings back what becomes of them: the upstream edge, for one target.

    here:  OperationForwarded ──▶ there: ActionQueued             placed, requeued, finished, dead letter
    here:  OperationFinished before that ──▶ there: CancelRequested          │
    here:  OperationReprioritised ──▶ there: PriorityRequested               ▼
                                                        here: UpstreamReported{placed | requeued | finished | refused}

What may die or be away at any moment, and what then happens:

* This process, before an action is known to be queued there: the next one reads the placements there, from before the action was
  forwarded to their end. Where it was placed, ended or refused, that is brought back and nothing is queued. Where it left no trace, it
  is queued again under the same name, which is a duplicate there if the first one arrived.
* The log there, while an action is on its way: placements there are first read to their end, then what left no trace is queued again.
* The log here: reports wait until it takes them.
* This process, between an operation's end here and the cancel there: the next one cancels again whatever ended here within the last
  day without a word from there.

So nothing is lost, and nothing runs twice as long as a name stays taken there for longer (`retain_completed_for_s`) than it takes from
reading that end to the action's arrival. With `retain_completed_for_s` 0 there is no such guarantee.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NamedTuple, NoReturn

from events.errors import InvalidFact
from events.fact_rules import MAX_MESSAGE_CHARS
from events.facts import CancelRequested, Fact, PriorityRequested, UpstreamReported
from events.reasons import PlacementEnd, UpstreamState
from streams.edges.forwards import ENDED, Forward, Forwards, Target
from streams.effects import record_of
from streams.endings import refusal_in
from streams.errors import (
    LogUnavailable,
    OffsetPastEnd,
    OffsetTrimmed,
    OutcomeUnknown,
    Refused,
    StreamError,
    UnknownInstance,
)
from streams.log import Follower, Log, Partition, Record
from streams.log_lines import say
from streams.placements import ActionPlaced, placement_message, placement_of
from streams.shard_map import read_shard_map
from streams.topics import DEAD_LETTERS, FACTS, PLACEMENTS

AT_ONCE: Final = 500
CLOCKS_APART_US: Final = 10 * 60 * 1_000_000
"""How far the clocks of the two clusters may differ: so much earlier than its forwarding are traces of an operation looked for."""

FIRST_BACK_OFF_S, LONGEST_BACK_OFF_S = 0.1, 5.0
_READ_MS = 200

_log = logging.getLogger("headway.edges")


@dataclass(slots=True, eq=False)
class _Leg:
    """A forward on its way there and back."""

    forward: Forward
    may_be_there: bool  # another process may have sent it, or this one has tried to
    said_priority: int
    reported: UpstreamState  # the last one that was put on its way here
    arrived: bool = False  # the log there has taken it from this process
    seen: UpstreamReported | None = None  # the last word from there


class _Owed(NamedTuple):
    """A fact for the log there, and the priority that it says."""

    leg: _Leg
    fact: Fact
    priority: int


class UpstreamRelay:
    """Relays between one shard here and one instance there. `run` it in one task; tell it of forwards by `changed`.

    Args:
        log: the log there; stays the caller's.
        target: the instance there.
        forwards: the fold of the shard here, caught up. Forwards of other targets are left alone.
        report: puts a fact on its way to the shard here; it is trusted to arrive.
    """

    def __init__(
        self, log: Log, target: Target, forwards: Forwards, report: Callable[[UpstreamReported], None]
    ) -> None:
        self._there = log
        self._target = target
        self._forwards = forwards
        self._report = report
        self._legs: dict[str, _Leg] = {}
        self._dirty: dict[str, None] = {}
        self._wake = asyncio.Event()
        self._positions: dict[Partition, int] = {}
        self._caught_up = asyncio.Event()
        self._ends: dict[Partition, int] | None = None
        for forward in forwards.all():
            if forward.target == target:
                self._add(forward, may_be_there=True)

    def changed(self, forward: Forward) -> None:
        """A forward of this target is new, or stands otherwise in the log here."""
        if forward.name in self._legs:
            self._mark(forward.name)
        elif forward.operation_id in self._forwards.open:
            self._add(forward, may_be_there=False)

    def _add(self, forward: Forward, *, may_be_there: bool) -> None:
        self._legs[forward.name] = _Leg(forward, may_be_there, forward.first_priority, forward.told)
        self._mark(forward.name)

    def _mark(self, name: str) -> None:
        self._dirty[name] = None
        self._wake.set()

    async def run(self) -> NoReturn:
        """Relay until cancelled. Whatever the log there answers is said and tried again: the shard here has other edges."""
        back_off_s = FIRST_BACK_OFF_S
        while True:
            try:
                await self._serve()
                back_off_s = FIRST_BACK_OFF_S
            except (OffsetTrimmed, OffsetPastEnd) as error:
                say(_log, logging.WARNING, "placements upstream are read from their beginning", **self._named(error))
                self._positions.clear()
            except StreamError as error:
                level = logging.WARNING if isinstance(error, LogUnavailable) else logging.ERROR
                say(_log, level, "the upstream scheduler cannot be followed", **self._named(error))
            self._look_again()
            await asyncio.sleep(back_off_s)
            back_off_s = min(2 * back_off_s, LONGEST_BACK_OFF_S)

    def _named(self, error: Exception) -> dict[str, str]:
        return {
            "upstream": self._target.instance,
            "cluster": self._target.bootstrap_servers or "this one",
            "error": str(error),
        }

    def _look_again(self) -> None:
        """Before anything is sent again, what came from there meanwhile has to be read."""
        self._caught_up.clear()
        self._ends = None

    async def _serve(self) -> None:
        try:
            shard = (await read_shard_map(self._there)).shard_of(self._target.instance)
        except UnknownInstance as error:
            await self._refuse_what_is_forwarded(str(error))
            return
        partitions: list[Partition] = [(PLACEMENTS, shard), (DEAD_LETTERS, shard)]
        follower = await self._there.follow({partition: self._positions.get(partition) for partition in partitions})
        try:
            for partition in partitions:
                if partition not in self._positions:
                    self._positions[partition] = await self._first_offset(follower, partition)
                    follower.seek(partition, self._positions[partition])
            await _until_one_fails([self._read(follower), self._send(shard)])
        finally:
            await follower.close()

    async def _refuse_what_is_forwarded(self, why: str) -> None:
        """Nobody there will ever answer. The instance may be registered later, so the next forward asks again."""
        await self._wake.wait()
        self._wake.clear()
        dirty, self._dirty = self._dirty, {}
        for name in dirty:
            leg = self._legs.get(name)
            if leg is not None:
                self._refuse(leg, why)

    # -- reading there --------------------------------------------------------------------------------------------------

    async def _first_offset(self, follower: Follower, partition: Partition) -> int:
        """From where on answers are read: before the oldest operation that another process may have sent was forwarded."""
        legs = [leg for leg in self._legs.values() if leg.may_be_there and not leg.forward.withdrawn_at_us]
        old = [leg.forward.forwarded_at_us for leg in legs]
        end = await follower.end_offset(partition)
        return await offset_at(follower, partition, min(old) - CLOCKS_APART_US, end) if old else end

    async def _read(self, follower: Follower) -> NoReturn:
        while True:
            if self._ends is None and not self._caught_up.is_set():
                self._ends = {partition: await follower.end_offset(partition) for partition in self._positions}
            for partition, records in (await follower.read(timeout_ms=_READ_MS)).items():
                take = self._take_placement if partition[0] == PLACEMENTS else self._take_dead_letter
                for record in records:
                    take(partition[1], record)
                    self._positions[partition] = record.offset + 1
            if self._ends is not None:
                ends = self._ends
                if (
                    all([await follower.position(partition) >= end for partition, end in ends.items()])
                    and ends is self._ends
                ):
                    self._ends = None
                    for leg in list(self._legs.values()):
                        self._tell(leg)
                    self._caught_up.set()

    def _take_placement(self, shard: int, record: Record) -> None:
        message = placement_message(record.value, shard, record.offset)
        part = message.action_placed if message.WhichOneof("kind") == "action_placed" else message.placement_ended
        leg = self._legs.get(part.client_operation_id)
        if leg is None or part.instance != self._target.instance:
            return
        placement = placement_of(message, shard, record.offset)
        if isinstance(placement, ActionPlaced):
            self._hear(leg, UpstreamState.PLACED)
        elif placement.end is PlacementEnd.REQUEUED:
            self._hear(leg, UpstreamState.REQUEUED)
        else:
            leg.seen = UpstreamReported(
                leg.forward.instance,
                leg.forward.operation_id,
                UpstreamState.FINISHED,
                placement.outcome,
                placement.exit_code,
                placement.message[:MAX_MESSAGE_CHARS],
            )
            self._heard(leg)

    def _take_dead_letter(self, shard: int, record: Record) -> None:
        found = refusal_in(record)
        if found is None or found[0] != self._target.instance:
            return
        leg = self._legs.get(found[1].client_operation_id)
        if leg is not None:
            self._refuse(leg, found[1].message)

    def _hear(self, leg: _Leg, state: UpstreamState, message: str = "") -> None:
        leg.seen = UpstreamReported(
            leg.forward.instance, leg.forward.operation_id, state, message=message[:MAX_MESSAGE_CHARS]
        )
        self._heard(leg)

    def _heard(self, leg: _Leg) -> None:
        if self._caught_up.is_set():
            self._tell(leg)

    def _refuse(self, leg: _Leg, why: str) -> None:
        self._hear(leg, UpstreamState.REFUSED, why)
        self._tell(leg)

    def _tell(self, leg: _Leg) -> None:
        """Report the last word from there, where it is news here."""
        seen = leg.seen
        if seen is None or leg.reported in ENDED or seen.state is leg.reported:
            return
        leg.reported = seen.state
        if leg.forward.withdrawn_at_us:
            if seen.state in ENDED:
                self._let_go(leg)
        else:
            self._report(seen)

    def _let_go(self, leg: _Leg) -> None:
        self._forwards.settle(leg.forward)
        self._legs.pop(leg.forward.name, None)

    # -- sending there --------------------------------------------------------------------------------------------------

    async def _send(self, shard: int) -> NoReturn:
        back_off_s = FIRST_BACK_OFF_S
        while True:
            await self._wake.wait()
            await self._caught_up.wait()
            self._wake.clear()
            try:
                await self._send_owed((FACTS, shard))
                back_off_s = FIRST_BACK_OFF_S
            except (OutcomeUnknown, LogUnavailable) as error:
                say(_log, logging.WARNING, "facts wait for the log upstream", **self._named(error))
                self._look_again()
                self._wake.set()
                await asyncio.sleep(back_off_s)
                back_off_s = min(2 * back_off_s, LONGEST_BACK_OFF_S)

    async def _send_owed(self, partition: Partition) -> None:
        while self._dirty:
            names = list(islice(self._dirty, AT_ONCE))
            # Taken off first: what changes while this batch is under way has to be looked at again.
            for name in names:
                del self._dirty[name]
            legs = [leg for name in names if (leg := self._legs.get(name)) is not None]
            owed = [
                _Owed(leg, fact, leg.forward.action.priority) for leg in legs if (fact := self._owed(leg)) is not None
            ]
            try:
                await self._publish(partition, owed)
            except BaseException:
                self._dirty.update(dict.fromkeys(names))
                raise

    def _owed(self, leg: _Leg) -> Fact | None:
        """What is to be said there of one forward; None, nothing."""
        forward = leg.forward
        there, name, priority = self._target.instance, forward.name, forward.action.priority
        if forward.withdrawn_at_us:
            if leg.may_be_there:
                return CancelRequested(there, client_operation_id=name)
            self._let_go(leg)
        elif forward.operation_id not in self._forwards.open:
            self._let_go(leg)  # it came back, and the log here knows
        elif self._forwards.goes_round(forward):
            self._refuse(leg, f"it would go round in a circle: instance {there!r} hands on to where it came from")
        elif leg.reported not in ENDED:
            if not leg.arrived and leg.seen is None:
                return forward.action
            if priority != leg.said_priority:
                return PriorityRequested(there, client_operation_id=name, priority=priority)
        return None

    async def _publish(self, partition: Partition, owed: Sequence[_Owed]) -> None:
        """Publish facts in order; one that the log there will never take is refused, alone."""
        if not owed:
            return
        for each in owed:
            each.leg.may_be_there = True
        try:
            await self._there.publish(partition, [record_of(each.fact) for each in owed])
        except (Refused, InvalidFact) as error:
            if len(owed) == 1:
                self._refuse(owed[0].leg, str(error))
                return
            for each in owed:
                await self._publish(partition, [each])
        else:
            for each in owed:
                self._published(each)

    def _published(self, owed: _Owed) -> None:
        if isinstance(owed.fact, CancelRequested):
            self._let_go(owed.leg)
            return
        owed.leg.arrived = True
        owed.leg.said_priority = owed.priority
        if owed.leg.forward.action.priority != owed.priority or owed.leg.forward.withdrawn_at_us:
            self._mark(owed.leg.forward.name)


async def offset_at(follower: Follower, partition: Partition, at_us: int, end: int) -> int:
    """An offset from which no record of `at_us` or later is missed: found by halving, since times grow along a partition.

    `end` is the last stable offset. Writers' clocks may differ by a little; give `at_us` so much earlier.
    """
    low, high = await follower.beginning_offset(partition), end
    while high - low > 64:
        middle = (low + high) // 2
        found = await _time_at(follower, partition, middle, end)
        if found is None or found >= at_us:
            high = middle
        else:
            low = middle
    return low


async def _time_at(follower: Follower, partition: Partition, offset: int, end: int) -> int | None:
    """The time of the first record at or behind `offset`; None when there is none below `end`."""
    follower.seek(partition, offset)
    while await follower.position(partition) < end:
        records = (await follower.read(max_records=1, timeout_ms=_READ_MS)).get(partition)
        if records:
            return records[0].at_us
    return None


async def _until_one_fails(work: Iterable[Coroutine[Any, Any, NoReturn]]) -> None:
    """Run all until the first one raises, end the others, and raise its error."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
