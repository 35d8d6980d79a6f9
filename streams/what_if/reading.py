"""Reads a window of a shard's record from a log: events from the first one on, then the facts of the window."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import ClassVar, Final

from events.codec import FactCodec, check_chain, decode_event, key_text
from events.codec.chain import GENESIS_CHAIN
from events.errors import ChainBroken, SequenceBroken, UnknownEvent
from events.events import LeaderElected
from projections.whatif.meter import Meter
from projections.whatif.reading import Reading, Window
from projections.whatif.record import Record
from streams.errors import StreamError
from streams.export.errors import NotExported
from streams.log import Log, Partition, bounds, records_between
from streams.log import Record as LogRecord
from streams.recovery import DamagedLog, is_stale, without_collection
from streams.topics import EVENTS, FACTS

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

    await _each(log, partition, None, take, progress)
    reading.end_events()


async def _read_facts(log: Log, partition: Partition, reading: Reading, progress: Progress) -> None:
    first, last = reading.first_fact, reading.last_fact
    codec = FactCodec()

    def take(record: LogRecord) -> bool:
        if record.offset > last:
            return False
        fact = codec.decode(record.value, record.headers)
        reading.add_fact(record.offset, record.at_us, key_text(record.key), fact)
        return True

    await _each(log, partition, first, take, progress)


async def _each(
    log: Log, partition: Partition, start: int | None, take: Callable[[LogRecord], bool], progress: Progress
) -> None:
    """Hand every record from `start` up to the last stable one of now to `take`, until it says that it wants no more."""
    _, end = await bounds(log, partition)
    async with aclosing(records_between(log, partition, start, end)) as batches:
        async for records in batches:
            for record in records:
                if not take(record):
                    return
            progress(len(records))
