"""Writes an export: records into segments, then the manifest that makes them one.

The steps, and what a process that dies right after each leaves behind:

1. segments are written beside their names and renamed, each on disk before the next: files that no manifest names;
2. the manifest is written beside its name, on disk: as after 1;
3. it is renamed over the one before: the new export, whole. Until here the directory reads as what it was before, or as no export.

The next export into the directory takes files of 1 and 2 away.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from events.codec import GENESIS_CHAIN, chain_of, envelope_of
from events.errors import HeadwayError
from streams.export.errors import ExportBusy, UnlikeExport
from streams.export.manifest import (
    MANIFEST,
    Manifest,
    Segment,
    Span,
    Topic,
    read_manifest,
    sync_directory,
    write_durably,
    write_manifest,
)
from streams.export.segments import compressed, delimited
from streams.log import Partition, Record
from streams.topics import EVENTS

LOCK: Final = ".lock"

SEGMENT_BYTES: Final = 8 << 20
"""A segment is closed once it holds so much before compression: some 50,000 events, read whole whenever one of them is."""


@dataclass(slots=True)
class _Open:
    """The segment of a partition that is being filled."""

    raw: bytearray = field(default_factory=bytearray)
    records: int = 0
    first: Record | None = None
    last: Record | None = None
    first_seq: int = 0
    last_seq: int = 0
    chain_before: bytes | None = None
    chain_after: bytes | None = None
    leader_epoch: int = 0
    last_cause_offset: int = 0


class ExportWriter:
    """Adds records to an export, new or made before; nothing of it counts until `finish`.

    It takes whatever records it is given: whether they follow on each other is for who reads them from a log to check.

    Args:
        directory: made when it does not exist.
        cluster_id: of the log the records are of.
        topics: id and number of partitions of each topic.
        shards: the shard map, instance to shard.
    Raises:
        UnlikeExport: the directory holds an export of another log, or other files.
        ExportBusy: another process writes it.
        NotAnExport: its manifest cannot be read.
    """

    def __init__(
        self,
        directory: Path,
        *,
        cluster_id: str,
        topics: Mapping[str, tuple[str, int]],
        shards: Mapping[str, int],
        made_by: str = "",
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self.directory = directory
        self._segment_bytes = segment_bytes
        self._made_by = made_by
        self._cluster_id = cluster_id
        self._topics = {name: Topic(topic_id=one[0], partitions=one[1]) for name, one in topics.items()}
        self._shards = dict(shards)
        directory.mkdir(parents=True, exist_ok=True)
        self._lock = (directory / LOCK).open("w")
        try:
            # Two at once would take each other's unfinished segments away.
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise ExportBusy(directory) from None
        self.before = self._existing()
        self._segments: list[Segment] = list(self.before.segments) if self.before else []
        self._spans: dict[Partition, Span] = {span.at: span for span in self.before.spans} if self.before else {}
        self._open: dict[Partition, _Open] = {}
        self._chains: dict[Partition, bytes] = {}
        self._epochs: dict[Partition, int] = {}
        for segment in self._segments:
            if segment.chain_after:
                self._chains[segment.at] = bytes.fromhex(segment.chain_after)
                self._epochs[segment.at] = segment.leader_epoch
        self._remove_unnamed()

    def _existing(self) -> Manifest | None:
        if not (self.directory / MANIFEST).exists():
            others = sorted(path.name for path in self.directory.iterdir() if not _ours(path))
            if others:
                raise UnlikeExport(self.directory, f"it holds other files ({others[0]!r} is one), and no {MANIFEST}")
            return None
        before = read_manifest(self.directory)
        if before.cluster_id != self._cluster_id:
            raise UnlikeExport(
                self.directory, f"it is of cluster {before.cluster_id!r}, the log of cluster {self._cluster_id!r}"
            )
        for name, topic in before.topics.items():
            now = self._topics.get(name)
            if now is None or now.topic_id != topic.topic_id:
                raise UnlikeExport(
                    self.directory,
                    f"its topic {name} is {topic.topic_id!r}, that of the log {None if now is None else now.topic_id!r}",
                )
        return before

    def _remove_unnamed(self) -> None:
        """Segments of an export that was not finished."""
        named = {segment.file for segment in self._segments}
        for path in self.directory.glob("*/*"):
            if _segment_name(path) and str(path.relative_to(self.directory)) not in named:
                path.unlink()
        (self.directory / f"{MANIFEST}.part").unlink(missing_ok=True)

    def end_of(self, at: Partition) -> int | None:
        """The offset behind what is exported of a partition; None when nothing is."""
        span = self._spans.get(at)
        return None if span is None else span.end_offset

    def last_event(self, shard: int) -> Segment | None:
        """The segment of the last event that was exported before; None when there is none."""
        held = [one for one in self._segments if one.at == (EVENTS, shard) and one.last_seq]
        return max(held, key=lambda one: one.last_seq, default=None)

    def add(self, at: Partition, records: Iterable[Record]) -> None:
        """Add records of a partition, in offset order, behind those it has.

        A record of the event topic that is no event is kept as it stands: whoever reads the export says what is wrong with it.

        Raises UnlikeExport where one lies before the end of what the directory has.
        """
        for record in records:
            segment = self._open.get(at)
            if segment is None:
                self._check_behind(at, record.offset)
                segment = self._open[at] = _Open()
                segment.first = record
            segment.raw += delimited(record)
            segment.last = record
            segment.records += 1
            if at[0] == EVENTS:
                self._note_event(at, segment, record.value)
            if len(segment.raw) >= self._segment_bytes:
                self._close(at)

    def _check_behind(self, at: Partition, offset: int) -> None:
        """A segment that begins before the end of another would take the other's place."""
        end = max((one.last_offset + 1 for one in self._segments if one.at == at), default=0)
        if offset < max(end, self.end_of(at) or 0):
            raise UnlikeExport(
                self.directory, f"its {at[0]}[{at[1]}] ends at offset {end}, what is to be added begins at {offset}"
            )

    def _note_event(self, at: Partition, segment: _Open, value: bytes) -> None:
        try:
            envelope = envelope_of(value)
            chain = chain_of(value)
        except HeadwayError:
            return  # nothing to note of it; see `add`
        if envelope.leader_epoch < self._epochs.get(at, 0):
            return  # of a replaced leader: it has no place in the order
        self._epochs[at] = segment.leader_epoch = envelope.leader_epoch
        if not segment.first_seq:
            segment.first_seq = envelope.seq
            segment.chain_before = self._chains.get(at, GENESIS_CHAIN if envelope.seq == 1 else None)
        segment.last_seq, segment.last_cause_offset = envelope.seq, envelope.cause_offset
        segment.chain_after = self._chains[at] = chain

    def cover(self, at: Partition, start: int, end: int) -> None:
        """Say that the records added cover a partition from `start` up to `end`; with a span before it, they continue that.

        A `start` behind the end of that span leaves a hole, which the manifest then names.

        Raises:
            UnlikeExport: `start` lies before that end, or there would be a hole in events.
        """
        before = self._spans.get(at)
        if before is None:
            self._spans[at] = Span(topic=at[0], partition=at[1], start_offset=start, end_offset=end)
            return
        if start < before.end_offset or (start > before.end_offset and at[0] == EVENTS):
            raise UnlikeExport(
                self.directory,
                f"its {at[0]}[{at[1]}] ends at offset {before.end_offset}, what is to be added begins at {start}",
            )
        hole = ((before.end_offset, start),) if start > before.end_offset else ()
        self._spans[at] = Span(
            topic=at[0],
            partition=at[1],
            start_offset=before.start_offset,
            end_offset=end,
            missing=before.missing + hole,
        )

    def _close(self, at: Partition) -> None:
        segment = self._open.pop(at)
        assert segment.first is not None
        assert segment.last is not None
        data = compressed(segment.raw)
        folder = self.directory / f"{at[0]}-{at[1]}"
        folder.mkdir(exist_ok=True)
        path = folder / f"{segment.first.offset:020d}.zst"
        beside = path.with_suffix(".part")
        write_durably(beside, data)
        os.replace(beside, path)
        sync_directory(folder)
        self._segments.append(
            Segment(
                file=f"{folder.name}/{path.name}",
                topic=at[0],
                partition=at[1],
                first_offset=segment.first.offset,
                last_offset=segment.last.offset,
                first_at_us=segment.first.at_us,
                last_at_us=segment.last.at_us,
                first_seq=segment.first_seq,
                last_seq=segment.last_seq,
                chain_before=(segment.chain_before or b"").hex(),
                chain_after=(segment.chain_after or b"").hex(),
                leader_epoch=segment.leader_epoch,
                last_cause_offset=segment.last_cause_offset,
                count=segment.records,
                raw_bytes=len(segment.raw),
                bytes=len(data),
                sha256=hashlib.sha256(data).hexdigest(),
            )
        )

    def finish(self) -> Manifest:
        """Close what is open and put the manifest in place: from here on the export is whole."""
        for at in list(self._open):
            self._close(at)
        sync_directory(self.directory)
        manifest = Manifest(
            cluster_id=self._cluster_id,
            made_by=self._made_by,
            topics=dict(sorted(self._topics.items())),
            shards=dict(sorted(self._shards.items())),
            spans=tuple(self._spans[at] for at in sorted(self._spans)),
            segments=tuple(sorted(self._segments, key=lambda one: (one.topic, one.partition, one.first_offset))),
        )
        write_manifest(self.directory, manifest)
        self.close()
        return manifest

    def close(self) -> None:
        """Let the directory go; what was added since the last `finish` is not part of it. May be called twice."""
        self._lock.close()


def _segment_name(path: Path) -> bool:
    return path.suffix in (".zst", ".part") and path.stem.isdigit()


def _ours(path: Path) -> bool:
    """Whether a file or folder is of the kind that an unfinished export leaves."""
    if path.is_dir():
        return all(_segment_name(below) for below in path.iterdir())
    return path.name in (f"{MANIFEST}.part", LOCK)
