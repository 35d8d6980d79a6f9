"""Reads a shard's events in `seq` order for people and programs, and stops at the first record that does not follow."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Container
from typing import NamedTuple

from events.codec import GENESIS_CHAIN, Envelope, chain_of, check_chain, envelope_of, event_of_kinds
from events.errors import HeadwayError, SequenceBroken
from events.events import EVENT_KINDS, Event
from streams.errors import NoSuchTopic
from streams.log import Follower, Log, Partition, Record
from streams.recovery import DamagedLog
from streams.topics import EVENTS


class Tailed(NamedTuple):
    """An event and where it stands."""

    shard: int
    offset: int
    event: Event


async def tail(log: Log, shard: int, *, from_seq: int = 1, follow: bool = False) -> AsyncGenerator[Tailed, None]:
    """The events of a shard from `from_seq` on, up to the last stable offset of now, or for ever with `follow`.

    Records of a leader that had been replaced are left out, as every reader does.

    Raises:
        DamagedLog: a gap in `seq`, a broken chain, or a record that this build cannot read.
        LogUnavailable, NoSuchTopic, NoSuchPartition: as everywhere.
    """
    partition: Partition = (EVENTS, shard)
    follower = await log.follow({partition: None})
    try:
        end = await follower.end_offset(partition)
        start = await offset_of(follower, partition, from_seq, end)
        follower.seek(partition, start)
        order = EventOrder(partition)
        while follow or await follower.position(partition) < end:
            for record in (await follower.read(timeout_ms=200)).get(partition, ()):
                if not follow and record.offset >= end:
                    return
                event = order.next(record)
                if event is not None and event.seq >= from_seq:
                    yield Tailed(shard, record.offset, event)
    finally:
        await follower.close()


async def offset_of(follower: Follower, partition: Partition, seq: int, end: int) -> int:
    """An offset from which event `seq` is not missed; `end` is the last stable offset.

    Events before `seq` may follow from there as well, but not many.
    """
    if seq <= 1:
        return await follower.beginning_offset(partition)
    return await offset_before(follower, partition, end, lambda envelope: envelope.seq >= seq)


async def offset_before(follower: Follower, partition: Partition, end: int, reached: Callable[[Envelope], bool]) -> int:
    """An offset from which the first event that has `reached` what is looked for is not missed, found by halving.

    `reached` is false for the events before it and true from it on, as `seq`, time and position grow with offsets. `end` is the last
    stable offset. The follower is left anywhere.
    """
    low, high = await follower.beginning_offset(partition), end
    # `low` is an offset at or before the event, `high` one behind which nothing needs to be looked at.
    while high - low > 64:
        middle = (low + high) // 2
        found = await _envelope_at(follower, partition, middle, end)
        if found is None or reached(found):
            high = middle
        else:
            low = middle
    return low


async def _envelope_at(follower: Follower, partition: Partition, offset: int, end: int) -> Envelope | None:
    """The first event at or behind `offset`; None when there is none below `end`."""
    follower.seek(partition, offset)
    while await follower.position(partition) < end:
        records = (await follower.read(max_records=1, timeout_ms=200)).get(partition)
        if records:
            return envelope_of(records[0].value)
    return None


async def last_seq(log: Log, shard: int) -> int:
    """The seq of the newest event; 0 when there is none. Raises NoSuchTopic, NoSuchPartition, LogUnavailable."""
    partition: Partition = (EVENTS, shard)
    topics = await log.describe_topics()
    if EVENTS not in topics:
        raise NoSuchTopic(EVENTS, topics)
    follower = await log.follow({partition: None})
    try:
        first = await follower.beginning_offset(partition)
        end = await follower.end_offset(partition)
        step, seq = 64, 0
        while not seq and end > first:
            begin = max(first, end - step)
            follower.seek(partition, begin)
            while await follower.position(partition) < end:
                for record in (await follower.read(timeout_ms=200)).get(partition, ()):
                    seq = max(seq, envelope_of(record.value).seq)
            if begin == first:
                break
            step *= 8  # only aborted records in the last ones: look further back
        return seq
    finally:
        await follower.close()


ALL_KINDS = frozenset(EVENT_KINDS.values())


class EventOrder:
    """Checks that each record follows from the one before it.

    Args:
        partition: named in errors.
        kinds: the events that are wanted; the records of others are checked and not decoded.
        from_first: whether the first record has to be event 1; else the first one read stands for itself, unless it is event 1.
    """

    def __init__(self, partition: Partition, kinds: Container[type] = ALL_KINDS, *, from_first: bool = False) -> None:
        self._partition = partition
        self._kinds = kinds
        self._chain: bytes | None = GENESIS_CHAIN if from_first else None
        self._epoch = 0
        self.seq = 0

    def follow_on(self, seq: int, chain: bytes, leader_epoch: int) -> None:
        """Begin behind event `seq` with this chain, written under this leader epoch: the next one has to follow on it."""
        self.seq, self._chain, self._epoch = seq, chain, leader_epoch

    def next(self, record: Record) -> Event | None:
        """The event, or None for one that is not wanted or of a replaced leader. Raises DamagedLog."""
        value = record.value
        try:
            envelope, event = event_of_kinds(value, self._kinds)
            if envelope.leader_epoch < self._epoch:
                return None
            before = self._chain
            if before is None and envelope.seq == 1:
                before = GENESIS_CHAIN
            if self._chain is not None and envelope.seq != self.seq + 1:
                raise SequenceBroken(
                    f"event {envelope.seq} follows event {self.seq}; nothing is read past a gap. "
                    "Run `headway replay` to see how many there are"
                )
            chain = chain_of(value) if before is None else check_chain(value, before)
        except HeadwayError as error:
            raise DamagedLog(self._partition, record.offset, self.seq, error) from error
        self._chain, self.seq, self._epoch = chain, envelope.seq, envelope.leader_epoch
        return event
