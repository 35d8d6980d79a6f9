"""Finding snapshots, the newest first, and reading one into a state, checked as far as it can be without the events.

The topic is read from its end backwards, in windows that grow, so that finding the newest snapshot does not cost reading what compaction
has left of older ones. A snapshot is read from its own parts alone, which lie between two offsets that its manifest names.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Final

from events import snapshot
from events.errors import SnapshotUnreadable
from events.snapshot import Manifest
from events.state import Shard
from streams.errors import NoSuchTopic
from streams.log import Log, Partition, bounds, records_between
from streams.snapshots.errors import SnapshotUnusable, Unusable
from streams.snapshots.layout import Found, found_in, id_of, place, slot_and_part
from streams.topics import EVENTS, FACTS, SNAPSHOT_SLOTS

_FIRST_WINDOW: Final = 16
_GROWTH: Final = 4


async def newest_first(log: Log, shard: int) -> AsyncGenerator[Found, None]:
    """The snapshots of a shard that have a manifest, the one written last first; none where the topic was never made.

    Close it (`contextlib.aclosing`) where it is not read to its end.

    Raises:
        NoSuchPartition, LogUnavailable: as everywhere.
    """
    at = place(shard)
    try:
        first, end = await bounds(log, at)
    except NoSuchTopic:
        return
    seen: set[int] = set()
    window = _FIRST_WINDOW
    while end > first and len(seen) < SNAPSHOT_SLOTS:
        start = max(first, end - window)
        for found in reversed(await _manifests(log, at, start, end)):
            if found.slot not in seen:
                seen.add(found.slot)
                if found.value:
                    yield found
        end, window = start, window * _GROWTH


async def _manifests(log: Log, at: Partition, start: int, end: int) -> list[Found]:
    """The manifests between two offsets, those that take one back included (their value is empty)."""
    manifests = []
    async with aclosing(records_between(log, at, start, end)) as batches:
        async for records in batches:
            for record in records:
                named = slot_and_part(record.key)
                if named is not None and named[1] is None:
                    manifests.append(found_in(at, named[0], record))
    return manifests


def manifest_of(found: Found) -> Manifest:
    """The manifest of a snapshot.

    Raises:
        SnapshotUnusable: it cannot be read, or is of another format or shard.
    """
    try:
        manifest = snapshot.manifest_of(found.value)
    except SnapshotUnreadable as error:
        raise SnapshotUnusable(named(found), Unusable.UNREADABLE_MANIFEST, str(error)) from error
    if manifest.shard != found.partition[1]:
        raise SnapshotUnusable(named(found), Unusable.UNREADABLE_MANIFEST, f"it is of shard {manifest.shard}")
    return manifest


def named(found: Found) -> str:
    """A snapshot in a message."""
    return f"the snapshot in slot {found.slot} of {found.partition[0]}[{found.partition[1]}], manifest at offset {found.offset}"


async def parts_in(log: Log, found: Found, manifest: Manifest) -> list[bytes]:
    """The parts of a snapshot in order.

    Raises:
        SnapshotUnusable: one is missing, or all together they are not as large as the manifest says.
    """
    parts: dict[int, bytes] = {}
    async with aclosing(records_between(log, found.partition, found.starts_at, found.offset)) as batches:
        async for records in batches:
            for record in records:
                at = slot_and_part(record.key)
                if at is not None and at[1] is not None and at[0] == found.slot and id_of(record) == found.snapshot_id:
                    parts[at[1]] = record.value
    there = [parts[number] for number in range(manifest.parts) if number in parts]
    if len(there) < manifest.parts:
        counts = f"{len(there)} of {manifest.parts} parts"
        raise SnapshotUnusable(named(found), Unusable.MISSING_PART, counts)
    size = sum(map(len, there))
    if size != manifest.bytes:
        raise SnapshotUnusable(named(found), Unusable.DAMAGED, f"{size} bytes, {manifest.bytes} were written")
    return there


def state_in(found: Found, manifest: Manifest, parts: Sequence[bytes]) -> Shard:
    """The state in a snapshot's parts, not live.

    Raises:
        SnapshotUnusable: they have another digest than the manifest says, or cannot be read.
    """
    try:
        shard = snapshot.restore(parts, manifest.state_digest)
    except SnapshotUnreadable as error:
        raise SnapshotUnusable(named(found), Unusable.DAMAGED, str(error)) from error
    if shard.seq != manifest.seq:
        said = f"the state is that of event {shard.seq}, its manifest says {manifest.seq}"
        raise SnapshotUnusable(named(found), Unusable.DAMAGED, said)
    return shard


async def identity(log: Log) -> dict[str, str]:
    """The ids of the log as manifests and LeaderElected carry them."""
    return {
        "cluster_id": await log.cluster_id(),
        "facts_topic_id": await log.topic_id(FACTS),
        "events_topic_id": await log.topic_id(EVENTS),
    }


def check_of_this_log(found: Found, manifest: Manifest, ids: Mapping[str, str]) -> None:
    """Raises SnapshotUnusable for a snapshot of another cluster or of topics that were made anew."""
    for name, value in ids.items():
        if getattr(manifest, name) != value:
            raise SnapshotUnusable(
                named(found), Unusable.OTHER_LOG, f"{name} {getattr(manifest, name)!r}, here {value!r}"
            )
