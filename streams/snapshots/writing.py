"""Writing a snapshot: what it takes back first, the parts, the manifest last, and what stands in the topic if the process dies in between.

| step | if it dies right after |
|---|---|
| 1. open the shard's transactional id for snapshots | who wrote one before is fenced: its snapshot stays unfinished |
| 2. choose a slot: never that of the newest usable snapshot, nor of the newest verified one | nothing was written |
| 3. take the slot's old manifest back | one older snapshot fewer |
| 4. write the parts, some megabytes in one transaction | parts without a manifest, which nobody looks at; the next one writes over them |
| 5. take back the parts of the slot's former snapshot that lie behind the last new one | as after 4 |
| 6. write the manifest | it is there, whole |
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import aclosing
from hashlib import blake2b
from typing import Final

from events.snapshot import Manifest
from events.snapshot.writing import DIGEST_BYTES
from streams.errors import Fenced, LogUnavailable
from streams.log import Log, Outgoing, bounds
from streams.snapshots.errors import SlotTaken, SnapshotUnusable
from streams.snapshots.layout import (
    Found,
    manifest_key,
    manifest_record,
    part_key,
    part_record,
    place,
    taken_back,
)
from streams.snapshots.reading import manifest_of, newest_first
from streams.topics import SNAPSHOT_SLOTS

APPEND_BYTES: Final = 2 << 20
"""Parts of one transaction: two batches of the topic's limit would not be sent faster, and a kill loses little."""

APPEND_TIMEOUT_MS: Final = 30_000
_LOOK_S: Final = 0.02


def transactional_id(shard: int) -> str:
    """The id that whoever writes a snapshot of a shard opens for as long as that takes; never a decider's."""
    return f"headway-snapshots-{shard}"


async def write(
    log: Log, manifest: Manifest, parts: Iterable[bytes], *, keep: Collection[int] = ()
) -> tuple[Found, Manifest]:
    """Write a snapshot; returns it as it is found again, with its manifest, in which number, size and digest of the parts are filled in.

    `parts` are taken as they are written, with a turn for other tasks behind each transaction: the state that they come from
    must not change meanwhile. `keep` are the seqs of snapshots that must stay.

    Raises:
        SlotTaken: another process began one of the same shard.
        OutcomeUnknown, LogUnavailable: the log did not answer; the snapshot is unfinished.
        NoSuchTopic, NoSuchPartition, Refused: the topic was not made, or takes less than the shipped table says.
    """
    shard = manifest.shard
    at = place(shard)
    writer = await log.open(transactional_id(shard), timeout_ms=APPEND_TIMEOUT_MS)
    try:
        taken = [found async for found in newest_first(log, shard)]
        slot = _free_slot(taken, keep)
        snapshot_id = uuid.uuid4().bytes
        _, starts_at = await bounds(log, at)
        pending = [taken_back(manifest_key(shard, slot))]
        taking = _Parts(shard, slot, snapshot_id)
        for records in taking.transactions(parts):
            await writer.append({at: [*pending, *records]})
            pending = []
            await asyncio.sleep(0)
        manifest = taking.complete(manifest)
        pending += [
            taken_back(part_key(shard, slot, number)) for number in range(taking.count, _parts_before(taken, slot))
        ]
        await writer.append({at: [*pending, manifest_record(slot, snapshot_id, starts_at, manifest)]})
        return await _read_back(log, shard, snapshot_id), manifest
    except Fenced as error:
        raise SlotTaken(shard) from error
    finally:
        await writer.close()


async def take_back(log: Log, gone: Callable[[Found], bool], shard: int) -> int:
    """Take back the snapshots of a shard that `gone` names: nobody will find them again. Returns how many there were.

    Raises:
        SlotTaken, OutcomeUnknown, LogUnavailable: as `write`.
    """
    writer = await log.open(transactional_id(shard), timeout_ms=APPEND_TIMEOUT_MS)
    try:
        found = [one async for one in newest_first(log, shard) if gone(one)]
        if found:
            await writer.append({place(shard): [taken_back(manifest_key(shard, one.slot)) for one in found]})
        return len(found)
    except Fenced as error:
        raise SlotTaken(shard) from error
    finally:
        await writer.close()


async def take_back_at(log: Log, shard: int, seq: int) -> int:
    """Take back every snapshot that stands at event `seq`; returns how many there were. Raises as `take_back`."""

    def stands_at(found: Found) -> bool:
        try:
            return manifest_of(found).seq == seq
        except SnapshotUnusable:
            return False

    return await take_back(log, stands_at, shard)


class _Parts:
    """Parts as records, as many as go into one transaction at a time; number, size and digest of all that were taken so far."""

    def __init__(self, shard: int, slot: int, snapshot_id: bytes) -> None:
        self._shard, self._slot, self._snapshot_id = shard, slot, snapshot_id
        self._digest = blake2b(digest_size=DIGEST_BYTES)
        self.count = self.bytes = 0

    def transactions(self, parts: Iterable[bytes]) -> Iterator[list[Outgoing]]:
        """The records of `parts`."""
        records: list[Outgoing] = []
        size = 0
        for part in parts:
            records.append(part_record(self._shard, self._slot, self.count, self._snapshot_id, part))
            self._digest.update(part)
            self.count += 1
            size += len(part)
            if size >= APPEND_BYTES:
                self.bytes += size
                yield records
                records, size = [], 0
        self.bytes += size
        if records:
            yield records

    def complete(self, manifest: Manifest) -> Manifest:
        """The manifest, with what was taken."""
        return manifest._replace(parts=self.count, bytes=self.bytes, state_digest=self._digest.digest())


def _free_slot(taken: Sequence[Found], keep: Collection[int]) -> int:
    """The slot whose snapshot is missed least: none, else an unreadable one, else the oldest that need not stay.

    With one to stay that is never the newest.
    """
    worth: dict[int, int] = {}
    stays: set[int] = set()
    for found in taken:
        try:
            seq = manifest_of(found).seq
        except SnapshotUnusable:
            continue
        worth[found.slot] = found.offset
        if seq in keep:
            stays.add(found.slot)
    # With all of them asked for the oldest goes: room for the next is worth more than a third one behind.
    free = [slot for slot in range(SNAPSHOT_SLOTS) if slot not in stays] or [*range(SNAPSHOT_SLOTS)]
    return min(free, key=lambda slot: (worth.get(slot, -1), slot))


def _parts_before(taken: Sequence[Found], slot: int) -> int:
    """How many parts the slot's former snapshot had, by its manifest."""
    for found in taken:
        if found.slot == slot:
            try:
                return int(manifest_of(found).parts)
            except SnapshotUnusable:
                return 0
    return 0


async def _read_back(log: Log, shard: int, snapshot_id: bytes) -> Found:
    """The snapshot that was just written, as every reader finds it: a transaction's end shows a moment after its commit was answered.

    Raises:
        LogUnavailable: it does not show.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    while True:
        async with aclosing(newest_first(log, shard)) as there:
            async for found in there:
                if found.snapshot_id == snapshot_id:
                    return found
        waited_ms = round(1000 * (loop.time() - began))
        if waited_ms > APPEND_TIMEOUT_MS:
            topic, partition = place(shard)
            what = f"reading a manifest back from {topic}[{partition}]"
            raise LogUnavailable(what, address=f"shard {shard}", waited_ms=waited_ms)
        await asyncio.sleep(_LOOK_S)
