"""Exports a log: closed ranges of events and facts of each shard, checked as they are read, into a directory.

A range ends at the last stable offset of when the export began, or where it is told to; it holds facts whole, with every event each
of them caused. An export into a directory that has one continues it, from where each topic of each shard ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from events.codec import Envelope, envelope_of
from streams.event_tail import EventOrder, offset_before
from streams.export.directory import ExportWriter
from streams.export.errors import OutsideLog, UnlikeExport
from streams.export.manifest import Manifest
from streams.log import Log, Partition, Record, bounds, records_between
from streams.moments import Moment
from streams.shard_map import read_shard_map
from streams.topics import EVENTS, FACTS, SHARDS, TOPICS

Progress = Callable[[int], None]
"""Called with the number of records written since the last call."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What one export added of one partition: `records` with offsets in [`start`, `end`), events `first_seq` to `last_seq` (0: none)."""

    topic: str
    shard: int
    records: int
    start: int
    end: int
    first_seq: int = 0
    last_seq: int = 0


async def export(
    log: Log,
    directory: Path,
    *,
    shards: Sequence[int],
    topics: Sequence[str] = (EVENTS, FACTS),
    since: Moment | None = None,
    until: Moment | None = None,
    made_by: str = "",
    progress: Progress = lambda count: None,
) -> tuple[Manifest, list[Exported]]:
    """Export these shards; returns the manifest and what was added, an entry for each topic and shard.

    Args:
        topics: EVENTS, FACTS or both.
        since: the first event that is wanted; the fact that caused it comes whole. None: the first that the log has. Not for a
            directory that has the shard.
        until: the last one; as above. None: the last stable one.
    Raises:
        UnlikeExport: the directory holds an export of another log, other files, or one that this would not continue.
        ExportBusy: another process writes it.
        OutsideLog: the log has no event at `since` or `until`.
        DamagedLog: the events do not follow on each other. Nothing was added.
        LogUnavailable, NoSuchTopic, NoSuchPartition: as everywhere.
    """
    states = await log.describe_topics()
    writer = ExportWriter(
        directory,
        cluster_id=await log.cluster_id(),
        topics={
            spec.name: (states[spec.name].topic_id, states[spec.name].partitions)
            for spec in TOPICS
            if spec.name in states
        },
        shards=(await read_shard_map(log)).shards if SHARDS in states else {},
        made_by=made_by,
    )
    added: list[Exported] = []
    try:
        for shard in shards:
            exporting = _Shard(log, writer, shard, since, until, progress)
            if EVENTS in topics:
                added.append(await exporting.events())
            elif since is not None or until is not None:
                await exporting.find_range()
            if FACTS in topics:
                added.append(await exporting.facts())
        return writer.finish(), added
    finally:
        writer.close()


class _Shard:
    """The export of one shard: events first, whose ends say which facts belong to them."""

    def __init__(
        self, log: Log, writer: ExportWriter, shard: int, since: Moment | None, until: Moment | None, progress: Progress
    ) -> None:
        self._log, self._writer, self._shard, self._progress = log, writer, shard, progress
        self._since, self._until = since, until
        self._order = EventOrder((EVENTS, shard), frozenset())
        self._first_cause: int | None = None  # set where the events begin later than the log
        self._end_cause: int | None = None  # and where they end before it does

    async def events(self) -> Exported:
        at: Partition = (EVENTS, self._shard)
        first, end = await bounds(self._log, at)
        start = self._writer.end_of(at)
        if start is None:
            start = first if self._since is None else await self._begin(at, self._since, end)
        else:
            self._continue(at, start, first)
        records, first_seq = 0, self._order.seq + 1 if self._order.seq else 0
        until = None if self._until is None else _Until(self._until)
        async with aclosing(records_between(self._log, at, start, end)) as batches:
            async for batch in batches:
                kept = batch if until is None else until.within(batch)
                for record in kept:
                    self._order.next(record)
                    first_seq = first_seq or self._order.seq
                self._writer.add(at, kept)
                records += len(kept)
                self._progress(len(kept))
                if len(kept) < len(batch):
                    end = batch[len(kept)].offset
                    break
        self._check_reached()
        if until is not None:
            had = self._writer.last_event(self._shard)
            before = -1 if had is None else had.last_cause_offset
            self._end_cause = before if until.last is None else until.last.cause_offset
        self._writer.cover(at, start, end)
        return Exported(EVENTS, self._shard, records, start, end, *((first_seq, self._order.seq) if records else ()))

    async def find_range(self) -> None:
        """Which facts a range of events has, where the events themselves are not exported."""
        at: Partition = (EVENTS, self._shard)
        _, end = await bounds(self._log, at)
        since, until = self._since, self._until
        if since is not None:
            if self._writer.end_of((FACTS, self._shard)) is not None:
                raise self._continued()
            await self._begin(at, since, end)
        if until is not None and until.seq is not None:
            found = await self._first(at, end, lambda envelope: _has_reached(envelope, until))
            if found is None:
                raise OutsideLog(self._shard, f"event {until.seq}", "the log ends before it")
            self._end_cause = envelope_of(found.value).cause_offset
        elif until is not None:
            behind = await self._first(at, end, lambda envelope: envelope.at_us > (until.at_us or 0))
            self._end_cause = None if behind is None else envelope_of(behind.value).cause_offset - 1

    def _continued(self) -> UnlikeExport:
        why = f"it has some of shard {self._shard} already, which is continued, and --since was given"
        return UnlikeExport(self._writer.directory, why)

    def _continue(self, at: Partition, start: int, first: int) -> None:
        """Go on behind what the directory has."""
        if self._since is not None:
            raise self._continued()
        if first > start:
            raise UnlikeExport(
                self._writer.directory,
                f"its {at[0]}[{at[1]}] ends at offset {start}, and the log begins at {first}: those between are gone",
            )
        last = self._writer.last_event(self._shard)
        if last is not None:
            self._order.follow_on(last.last_seq, bytes.fromhex(last.chain_after), last.leader_epoch)

    async def _begin(self, at: Partition, since: Moment, end: int) -> int:
        """The offset of the first event of the fact that caused the first one wanted."""
        found = await self._first(at, end, lambda envelope: _has_reached(envelope, since))
        if found is None:
            raise OutsideLog(self._shard, f"an event from {since} on", "the log ends before it")
        cause = envelope_of(found.value).cause_offset
        begin = await self._first(at, end, lambda envelope: envelope.cause_offset >= cause)
        assert begin is not None, "the event found has reached its own cause"
        self._first_cause = cause
        return begin.offset

    async def _first(self, at: Partition, end: int, reached: Callable[[Envelope], bool]) -> Record | None:
        follower = await self._log.follow({at: None})
        try:
            start = await offset_before(follower, at, end, reached)
        finally:
            await follower.close()
        async with aclosing(records_between(self._log, at, start, end)) as batches:
            async for batch in batches:
                for record in batch:
                    if reached(envelope_of(record.value)):
                        return record
        return None

    def _check_reached(self) -> None:
        """A seq that is asked for has to be there; a time is reached whenever the log goes no further."""
        if self._until is not None and self._until.seq is not None and self._order.seq < self._until.seq:
            raise OutsideLog(
                self._shard,
                f"event {self._until.seq}",
                f"its last stable event is {self._order.seq}",
            )

    async def facts(self) -> Exported:
        at: Partition = (FACTS, self._shard)
        first, end = await bounds(self._log, at)
        start = self._writer.end_of(at)
        if start is None:
            start = first if self._first_cause is None else max(first, self._first_cause)
        elif start < first:
            start = first  # the topic keeps facts for a while only; the manifest names the hole
        if self._end_cause is not None:
            end = max(start, min(end, self._end_cause + 1))
        records = 0
        async for batch in records_between(self._log, at, start, end):
            self._writer.add(at, batch)
            records += len(batch)
            self._progress(len(batch))
        self._writer.cover(at, start, end)
        return Exported(FACTS, self._shard, records, start, end)


def _has_reached(envelope: Envelope, moment: Moment) -> bool:
    """Whether an event is at `moment` or behind it."""
    if moment.at_us is not None:
        return envelope.at_us >= moment.at_us
    return moment.seq is not None and envelope.seq >= moment.seq


class _Until:
    """Where a range ends: behind the last event of the fact that caused the last one wanted."""

    def __init__(self, moment: Moment) -> None:
        self._moment = moment
        self.last: Envelope | None = None

    def within(self, batch: Sequence[Record]) -> Sequence[Record]:
        """The records of a batch up to the end."""
        for number, record in enumerate(batch):
            envelope = envelope_of(record.value)
            if self._is_behind(envelope):
                return batch[:number]
            self.last = envelope
        return batch

    def _is_behind(self, envelope: Envelope) -> bool:
        if self._moment.at_us is not None:
            return envelope.at_us > self._moment.at_us
        same_fact = self.last is not None and envelope.cause_offset == self.last.cause_offset
        return self._moment.seq is not None and envelope.seq > self._moment.seq and not same_fact
