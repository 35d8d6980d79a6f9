"""Reads a window of a shard's record from a log: events from the first one on, then the facts of the window."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

from events.codec import FactCodec, check_chain, decode_event, key_text
from events.codec.chain import GENESIS_CHAIN
from events.errors import ChainBroken, SequenceBroken, UnknownEvent
from events.events import LeaderElected
from projections.whatif.meter import Meter
from projections.whatif.reading import Reading, Window
from projections.whatif.record import Record
from streams.errors import LogUnavailable, StreamError
from streams.export.errors import NotExported
from streams.log import Follower, Log, Partition, bounds
from streams.log import Record as LogRecord
from streams.recovery import DamagedLog, is_stale, without_collection
from streams.topics import EVENTS, FACTS

BATCH_RECORDS: Final = 5_000
PATIENCE_S: Final = 30.0
_NONE: Final = 1 << 62

Progress = Callable[[int], None]


class EmptyWindow(StreamError):
    """No event lies in the window that was asked for."""

    code: ClassVar[str] = "empty-window"
    runbook: ClassVar[str] = "Compare --from and --to with the first and last event of the shard (`headway replay`)."

    def __init__(self, shard: int, last_seq: int, last_at: str) -> None:
        super().__init__(
            f"shard {shard} has no event in the window; the last one before its end is {last_seq}, of {last_at}",
            remedy="Choose another --from or --to; `headway events tail` prints seq and time of events",
        )


@dataclass(frozen=True, slots=True)
class Recording:
    """A window of a record, and what was recorded in it, measured."""

    record: Record
    meter: Meter


async def read_record(
    log: Log, shard: int, instance: str, window: Window, *, progress: Progress = lambda count: None
) -> Recording:
    """The window of a shard's record. Facts that the log no longer has are made again from their events.

    `progress` is called with the number of records read since the last call.

    Raises:
        DamagedLog: an event of the window, or one before it, does not follow from the one before.
        LogUnavailable: the log does not answer, or stopped bringing records before its end.
        NoSuchTopic, NoSuchPartition: there is no such shard.
    """
    events, facts = (EVENTS, shard), (FACTS, shard)
    reading = Reading(instance, window, facts_from=await _first_fact(log, facts))
    with without_collection():
        await _read_events(log, events, reading, progress)
        if reading.first_fact <= reading.last_fact:
            await _read_facts(log, facts, reading, progress)
        return Recording(reading.finish(), reading.meter)


async def _first_fact(log: Log, partition: Partition) -> int:
    """Offset of the first fact that the log has; behind all of them where it has none (retention, an export of events alone)."""
    try:
        first, end = await bounds(log, partition)
    except NotExported:
        return _NONE
    return first if end > first else _NONE


async def _read_events(log: Log, partition: Partition, reading: Reading, progress: Progress) -> None:
    follower = await log.follow({partition: None})
    chain, seq, epoch = GENESIS_CHAIN, 0, 0

    def take(record: LogRecord) -> bool:
        nonlocal chain, seq, epoch
        try:
            follows = check_chain(record.value, chain)
            event = decode_event(record.value)
            if event.seq != seq + 1:
                raise SequenceBroken(f"event {event.seq} follows event {seq}")
        except (ChainBroken, SequenceBroken, UnknownEvent) as error:
            if is_stale(record.value, epoch):
                return True  # by a leader that had been replaced: every reader ignores it
            raise DamagedLog(partition, record.offset, seq, error) from error
        chain, seq = follows, event.seq
        epoch = event.leader_epoch if type(event) is LeaderElected else epoch
        reading.add_event(event)
        return not reading.over

    try:
        await _each(follower, partition, await follower.end_offset(partition), take, progress)
    finally:
        await follower.close()
    reading.end_events()


async def _read_facts(log: Log, partition: Partition, reading: Reading, progress: Progress) -> None:
    first, last = reading.first_fact, reading.last_fact
    follower = await log.follow({partition: first})
    codec = FactCodec()

    def take(record: LogRecord) -> bool:
        if record.offset > last:
            return False
        fact = codec.decode(record.value, record.headers)
        reading.add_fact(record.offset, record.at_us, key_text(record.key), fact)
        return True

    try:
        await _each(follower, partition, await follower.end_offset(partition), take, progress)
    finally:
        await follower.close()


async def _each(
    follower: Follower, partition: Partition, end: int, take: Callable[[LogRecord], bool], progress: Progress
) -> None:
    """Hand every record below `end` to `take`, until it says that it wants no more."""
    heard_s = time.monotonic()
    while await follower.position(partition) < end:
        records = (await follower.read(max_records=BATCH_RECORDS, timeout_ms=200)).get(partition)
        if records:
            heard_s = time.monotonic()
            for record in records:
                if record.offset >= end or not take(record):
                    return
            progress(len(records))
        elif time.monotonic() - heard_s > PATIENCE_S:
            raise LogUnavailable(
                f"reading {partition[0]}[{partition[1]}] up to offset {end}",
                address=f"offset {await follower.position(partition)}",
                waited_ms=round(PATIENCE_S * 1000),
            )
