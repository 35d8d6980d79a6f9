"""How snapshots stand in their topic: keys, headers, slots, and what is known of one before its parts are read.

A shard has `SNAPSHOT_SLOTS` slots, and a snapshot takes one whole: parts under `shard/slot/number`, its manifest under
`shard/slot/manifest`. A new one never goes into the slot of the newest whole one or of the newest verified one, so one that stays
unfinished destroys nothing.
Each record names the snapshot that it is of in a header: parts that a later snapshot wrote over are never taken for those of an older one.

An empty value takes a record back. Compaction keeps such a record and its key, some 80 bytes of each number that a slot ever had.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from events.snapshot import Manifest, manifest_bytes
from streams.log import Header, Outgoing, Partition, Record
from streams.topics import SNAPSHOTS

ID_HEADER: Final = "snapshot-id"
STARTS_HEADER: Final = "starts-at"
_MANIFEST: Final = b"manifest"


@dataclass(frozen=True, slots=True)
class Found:
    """A snapshot whose manifest stands in the log; nothing is said of its parts.

    Args:
        partition: of the snapshots topic.
        slot: it stands in.
        snapshot_id: told apart by it from what stood in the slot before.
        starts_at: no part of it lies below this offset.
        offset: of the manifest; every part lies below it.
        value: the manifest's bytes; whether they can be read is for `manifest_of` to say.
    """

    partition: Partition
    slot: int
    snapshot_id: bytes
    starts_at: int
    offset: int
    value: bytes


def place(shard: int) -> Partition:
    """Where the snapshots of a shard stand."""
    return SNAPSHOTS, shard


def part_key(shard: int, slot: int, number: int) -> bytes:
    """The key of a part, numbered from 0."""
    return b"%d/%d/%06d" % (shard, slot, number)


def manifest_key(shard: int, slot: int) -> bytes:
    """The key of a slot's manifest."""
    return b"%d/%d/%s" % (shard, slot, _MANIFEST)


def slot_and_part(key: bytes | None) -> tuple[int, int | None] | None:
    """The slot and the part's number that a key names, None in the number's place for a manifest; None for a key of another kind."""
    pieces = (key or b"").split(b"/")
    if len(pieces) != 3 or not pieces[1].isdigit():
        return None
    if pieces[2] == _MANIFEST:
        return int(pieces[1]), None
    return (int(pieces[1]), int(pieces[2])) if pieces[2].isdigit() else None


def part_record(shard: int, slot: int, number: int, snapshot_id: bytes, value: bytes) -> Outgoing:
    """A part as it is written."""
    return Outgoing(value, part_key(shard, slot, number), ((ID_HEADER, snapshot_id),))


def manifest_record(slot: int, snapshot_id: bytes, starts_at: int, manifest: Manifest) -> Outgoing:
    """A manifest as it is written, behind its parts; `starts_at` is an offset below which none of them lies."""
    headers: tuple[Header, ...] = ((ID_HEADER, snapshot_id), (STARTS_HEADER, b"%d" % starts_at))
    return Outgoing(manifest_bytes(manifest), manifest_key(manifest.shard, slot), headers)


def taken_back(key: bytes) -> Outgoing:
    """What takes a part or a manifest back."""
    return Outgoing(b"", key)


def id_of(record: Record) -> bytes:
    """The snapshot that a record is of; empty when it names none."""
    return dict(record.headers).get(ID_HEADER, b"")


def found_in(partition: Partition, slot: int, record: Record) -> Found:
    """The snapshot of a manifest's record; without its headers it has no parts, which reading then says."""
    starts_at = dict(record.headers).get(STARTS_HEADER, b"")
    return Found(
        partition,
        slot,
        id_of(record),
        int(starts_at) if starts_at.isdigit() else record.offset,
        record.offset,
        record.value,
    )
