"""`ExportLog`: an exported directory as a log that is only read. Whatever folds, tails or explains a log does so on one, with no broker."""

from __future__ import annotations

import asyncio
import hashlib
import json
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Final, NoReturn

from streams.errors import Closed, NoSuchPartition, NoSuchTopic, OffsetPastEnd, OffsetTrimmed
from streams.export.errors import BeginsLater, DamagedExport, NotExported, ReadOnlyLog
from streams.export.manifest import Manifest, Segment, Span, read_manifest
from streams.export.segments import Unreadable, decompressed, records_in
from streams.log import Outgoing, Partition, Record
from streams.topics import EVENTS, FACTS, SHARDS, TopicSpec, TopicState, topic_settings, topic_table

KEPT_SEGMENTS: Final = 4
"""Segments that stay decoded: a reader that looks for a seq by halving comes back to the same ones."""

_offset = attrgetter("offset")


class ExportLog:
    """A `Log` over a directory that `ExportWriter` made. It is only read: `open`, `publish`, `trim` and `ensure_topics` raise ReadOnlyLog.

    Records keep the offsets and times of the log they were exported from, and `cluster_id` and `topic_id` answer with that log's. A
    segment's digest is checked when it is first read. Facts that were not exported with their events read as if retention had taken them.

    Args:
        directory: with a `manifest.json`.
        read_damaged: read on where a segment is damaged, as far as its bytes can be read, and note it in `damage`; else the read
            raises DamagedExport.
    Raises:
        NotAnExport: there is no manifest, or none that this build reads.
    """

    def __init__(self, directory: Path, *, read_damaged: bool = False) -> None:
        self.directory = directory
        self.manifest: Manifest = read_manifest(directory)
        self.damage: list[DamagedExport] = []
        self._read_damaged = read_damaged
        self._known: dict[Partition, tuple[Segment, ...]] = {}
        self._decoded: OrderedDict[str, Sequence[Record]] = OrderedDict()
        self._noted: dict[str, DamagedExport] = {}
        self._closed = False

    @property
    def shards(self) -> tuple[int, ...]:
        """The shards whose events are in it."""
        return tuple(sorted(span.partition for span in self.manifest.spans if span.topic == EVENTS))

    def check_foldable(self, shard: int) -> None:
        """Whether a fold can start here: at event 1 or not at all.

        Raises:
            NotExported: nothing of the shard is in the directory.
            BeginsLater: its events begin at a later one.
        """
        self._span((EVENTS, shard))
        segments = self.segments_of((EVENTS, shard))
        if segments and segments[0].first_seq != 1:
            raise BeginsLater(self.directory, shard, segments[0].first_seq)

    # -- the seam -------------------------------------------------------------------------------------------------------

    async def follow(self, partitions: Mapping[Partition, int | None], *, committed: bool = True) -> ExportFollower:
        """See `Log.follow`. Only committed records were exported, so both isolations read the same.

        Raises:
            NotExported: the partition is not in the directory.
        """
        self._alive()
        spans = {partition: self._span(partition) for partition in partitions}
        positions = {
            partition: spans[partition].start_offset if offset is None else offset
            for partition, offset in partitions.items()
        }
        return ExportFollower(self, spans, positions)

    async def open(self, transactional_id: str, *, timeout_ms: int = 10_000) -> NoReturn:
        """Raises ReadOnlyLog."""
        raise ReadOnlyLog(self.directory, f"open {transactional_id!r}")

    async def prepare(
        self, transactional_id: str, partitions: Iterable[Partition], *, timeout_ms: int = 10_000
    ) -> NoReturn:
        """Raises ReadOnlyLog."""
        raise ReadOnlyLog(self.directory, f"prepare to open {transactional_id!r}")

    async def publish(self, partition: Partition, records: Sequence[Outgoing]) -> NoReturn:
        """Raises ReadOnlyLog."""
        raise ReadOnlyLog(self.directory, f"publish to {partition[0]}[{partition[1]}]")

    async def ensure_topics(self, specs: Sequence[TopicSpec]) -> NoReturn:
        """Raises ReadOnlyLog."""
        raise ReadOnlyLog(self.directory, "make topics")

    async def trim(self, partition: Partition, before: int) -> NoReturn:
        """Raises ReadOnlyLog."""
        raise ReadOnlyLog(self.directory, f"trim {partition[0]}[{partition[1]}]")

    async def describe_topics(self) -> dict[str, TopicState]:
        """See `Log.describe_topics`: those that the manifest names, with as many partitions as they had, and the shipped settings."""
        self._alive()
        shipped = {spec.name: spec for spec in topic_table(1)}
        return {
            name: TopicState(
                name, topic.topic_id, topic.partitions, topic_settings(shipped[name]) if name in shipped else {}
            )
            for name, topic in self.manifest.topics.items()
        }

    async def cluster_id(self) -> str:
        """See `Log.cluster_id`: that of the log it was exported from."""
        self._alive()
        return self.manifest.cluster_id

    async def topic_id(self, topic: str) -> str:
        """See `Log.topic_id`: that of the log it was exported from."""
        self._alive()
        found = self.manifest.topics.get(topic)
        if found is None:
            raise NoSuchTopic(topic, self.manifest.topics)
        return found.topic_id

    async def close(self) -> None:
        """See `Log.close`."""
        self._closed = True
        self._decoded.clear()

    # -- reading segments -------------------------------------------------------------------------------------------------

    def segments_of(self, partition: Partition) -> tuple[Segment, ...]:
        """The segments of a partition, in offset order."""
        if partition not in self._known:
            self._known[partition] = self.manifest.segments_of(partition)
        return self._known[partition]

    def records_of(self, segment: Segment) -> Sequence[Record]:
        """The records of a segment, its digest checked. Raises DamagedExport, unless damage is read."""
        kept = self._decoded.get(segment.file)
        if kept is not None:
            self._decoded.move_to_end(segment.file)
            return kept
        records = self._load(segment)
        self._decoded[segment.file] = records
        while len(self._decoded) > KEPT_SEGMENTS:
            self._decoded.popitem(last=False)
        return records

    def shard_map_records(self) -> list[Record]:
        """The shard map as its topic has it, at offsets from 0."""
        return [
            Record(offset, 0, instance.encode(), json.dumps({"shard": shard}).encode())
            for offset, (instance, shard) in enumerate(self.manifest.shards.items())
        ]

    def _load(self, segment: Segment) -> Sequence[Record]:
        path = self.directory / segment.file
        try:
            data = path.read_bytes()
        except OSError as error:
            return self._damaged(segment, f"it cannot be read ({error.strerror or error})", [])
        digest = hashlib.sha256(data).hexdigest()
        changed = "" if digest == segment.sha256 else f"its SHA-256 is {digest}, {segment.sha256} is in the manifest"
        if changed and not self._read_damaged:
            return self._damaged(segment, changed, [])
        why, raw = "", b""
        try:
            raw = decompressed(data)
        except Unreadable as error:
            why, raw = str(error), error.partial
        records: list[Record] = []
        try:
            records.extend(records_in(raw))
        except Unreadable as error:
            why = why or str(error)
        if why:
            return self._damaged(segment, "; ".join(filter(None, [changed, why])), _rising(records))
        if len(records) != segment.count or not _in_order(records, segment):
            changed = changed or f"it has {len(records)} records, {segment.count} with rising offsets are due"
        return self._damaged(segment, changed, _rising(records)) if changed else records

    def _damaged(self, segment: Segment, why: str, readable: list[Record]) -> Sequence[Record]:
        error = self._noted.get(segment.file)
        if error is None:
            offsets = (segment.first_offset, segment.last_offset)
            error = DamagedExport(self.directory / segment.file, segment.at, offsets, segment.seqs, why)
        if not self._read_damaged:
            raise error
        if segment.file not in self._noted:
            self._noted[segment.file] = error
            self.damage.append(error)
        return readable

    def _span(self, partition: Partition) -> Span:
        topic, number = partition
        found = self.manifest.topics.get(topic)
        if found is None:
            raise NoSuchTopic(topic, self.manifest.topics)
        if not 0 <= number < found.partitions:
            raise NoSuchPartition(partition, found.partitions)
        if topic == SHARDS:
            return Span(topic=topic, partition=number, start_offset=0, end_offset=len(self.manifest.shards))
        span = self.manifest.span(partition)
        if span is None and topic == FACTS and number in self.shards:
            # As if retention had taken all that were decided: what they were stands in the events.
            segments = self.segments_of((EVENTS, number))
            next_fact = segments[-1].last_cause_offset + 1 if segments else 0
            return Span(topic=topic, partition=number, start_offset=next_fact, end_offset=next_fact)
        if span is None:
            raise NotExported(self.directory, partition, self.shards)
        return span

    def _alive(self) -> None:
        if self._closed:
            raise Closed("the log")


def _rising(records: list[Record]) -> list[Record]:
    """The first records whose offsets rise: readers look records up by halving, and behind a broken offset nothing can be placed."""
    for number, (one, next_one) in enumerate(pairwise(records), start=1):
        if next_one.offset <= one.offset:
            return records[:number]
    return records


def _in_order(records: Sequence[Record], segment: Segment) -> bool:
    """Whether offsets rise from the first to the last that the manifest names: readers look records up by halving."""
    offsets = [record.offset for record in records]
    return (
        bool(offsets)
        and (offsets[0], offsets[-1]) == (segment.first_offset, segment.last_offset)
        and all(map(int.__lt__, offsets, offsets[1:]))
    )


class ExportFollower:
    """A `Follower` of an `ExportLog`; made by `ExportLog.follow`."""

    def __init__(self, log: ExportLog, spans: dict[Partition, Span], positions: dict[Partition, int]) -> None:
        self._log = log
        self._spans = spans
        self._positions = positions
        self._order = list(positions)  # rotates, so that a long partition does not starve the others
        self._paused: dict[Partition, None] = {}
        self._closed = False

    async def read(
        self, *, max_records: int = 2000, timeout_ms: int = 200, drain: bool = False
    ) -> dict[Partition, list[Record]]:
        """See `Follower.read`. Nothing ever comes behind the end; it waits there like any other.

        Raises:
            DamagedExport: a segment is not what the manifest says, and the log does not read damaged ones.
        """
        self._alive()
        before = dict(self._positions)
        found = self._take(max_records)
        # Others run between two reads, and whoever asks again and again at the end does so at the pace of a real log.
        await asyncio.sleep(0 if found or before != self._positions else timeout_ms / 1000)
        return found

    def _take(self, most: int) -> dict[Partition, list[Record]]:
        found: dict[Partition, list[Record]] = {}
        wrong: OffsetTrimmed | OffsetPastEnd | None = None
        for partition in self._order:
            if partition in self._paused:
                continue
            span, position = self._spans[partition], self._positions[partition]
            if position < span.start_offset:
                wrong = wrong or OffsetTrimmed(partition, position, span.start_offset)
                continue
            if position > span.end_offset:
                wrong = wrong or OffsetPastEnd(partition, position, span.end_offset)
                continue
            taken = self._next(partition, position, most)
            if taken:
                found[partition] = taken
                most -= len(taken)
                if most <= 0:
                    break
        if wrong is not None and not found:
            raise wrong
        if len(self._order) > 1:
            self._order.append(self._order.pop(0))
        return found

    def _next(self, partition: Partition, position: int, most: int) -> list[Record]:
        """Up to `most` records from `position` on, of one segment at most; moves the position behind them."""
        end = self._spans[partition].end_offset
        if partition[0] == SHARDS:
            taken = self._log.shard_map_records()[position : position + most]
            self._positions[partition] = position + len(taken)
            return taken
        segments = self._log.segments_of(partition)
        number = bisect_left(segments, position, key=attrgetter("last_offset"))
        while number < len(segments):
            records = self._log.records_of(segments[number])
            start = bisect_left(records, position, key=_offset)
            taken = list(records[start : start + most])
            number += 1
            if taken:
                # Behind the last record of the last segment there is nothing but ends of transactions.
                last = number == len(segments) and start + most >= len(records)
                self._positions[partition] = end if last else taken[-1].offset + 1
                return taken
        self._positions[partition] = end
        return []

    def seek(self, partition: Partition, offset: int) -> None:
        """See `Follower.seek`."""
        if offset < 0:
            raise ValueError(f"offset {offset} is negative")
        self._positions[self._mine(partition)] = offset

    async def position(self, partition: Partition) -> int:
        """See `Follower.position`."""
        return self._positions[self._mine(partition)]

    def pause(self, partition: Partition) -> None:
        """See `Follower.pause`."""
        self._paused[self._mine(partition)] = None

    def resume(self, partition: Partition) -> None:
        """See `Follower.resume`."""
        self._paused.pop(self._mine(partition), None)

    async def end_offset(self, partition: Partition) -> int:
        """See `Follower.end_offset`."""
        return self._spans[self._mine(partition)].end_offset

    async def beginning_offset(self, partition: Partition) -> int:
        """See `Follower.beginning_offset`: where the export begins."""
        return self._spans[self._mine(partition)].start_offset

    async def close(self) -> None:
        """See `Follower.close`."""
        self._closed = True

    def _alive(self) -> None:
        if self._closed:
            raise Closed("the follower")
        self._log._alive()

    def _mine(self, partition: Partition) -> Partition:
        self._alive()
        if partition not in self._positions:
            raise ValueError(f"{partition[0]}[{partition[1]}] is not followed here")
        return partition
