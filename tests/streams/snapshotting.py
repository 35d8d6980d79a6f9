"""Snapshots in a cluster in memory: written as the follower writes them, and forged as it never would."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from hashlib import blake2b
from typing import Any

from events.snapshot import Manifest, parts_of, state_digest
from streams.log import Log
from streams.recovery import Fold
from streams.snapshots.layout import Found, manifest_record, part_record, place
from streams.snapshots.reading import identity, manifest_of, newest_first
from streams.snapshots.writing import write
from tests.streams.deciding import Cluster

PART_BYTES = 150
"""So that the state of a few operations has many parts."""


async def manifest_for(log: Log, fold: Fold, **changes: Any) -> Manifest:
    shard = fold.shard
    manifest = Manifest(
        shard=fold.number,
        seq=shard.seq,
        next_event_offset=fold.next_offset,
        next_fact_offset=shard.position + 1,
        at_us=shard.now_us,
        chain=fold.chain,
        state_digest=b"",
        parts=0,
        bytes=0,
        **await identity(log),
    )
    return manifest._replace(**changes)


async def snapshot(
    cluster: Cluster, fold: Fold | None = None, *, log: Log | None = None, keep: Collection[int] = ()
) -> tuple[Found, Manifest]:
    """Write one of the end of the log, or of `fold`."""
    log = log or cluster.log
    fold = fold or cluster.fold()
    return await write(log, await manifest_for(log, fold), parts_of(fold.shard, PART_BYTES), keep=keep)


async def forge(
    cluster: Cluster,
    fold: Fold | None = None,
    *,
    slot: int = 1,
    parts: Sequence[bytes] | None = None,
    without: Collection[int] = (),
    value: bytes | None = None,
    snapshot_id: bytes = b"forged",
    **changes: Any,
) -> None:
    """Write one with a manifest that is changed, parts that are others or left out, or bytes for a manifest."""
    fold = fold or cluster.fold()
    whole = [*parts_of(fold.shard, PART_BYTES)]
    sizes = {"parts": len(whole), "bytes": sum(map(len, whole)), "state_digest": digest_of(whole)}
    manifest = await manifest_for(cluster.log, fold, **{**sizes, **changes})
    at = place(fold.number)
    starts_at = cluster.records(at[0])[-1].offset + 1 if cluster.records(at[0]) else 0
    records = [
        part_record(fold.number, slot, number, snapshot_id, part)
        for number, part in enumerate(whole if parts is None else parts)
        if number not in without
    ]
    record = manifest_record(slot, snapshot_id, starts_at, manifest)
    record = record if value is None else record._replace(value=value)
    await cluster.log.publish(at, [*records, record])


def digest_of(parts: Sequence[bytes]) -> bytes:
    return blake2b(b"".join(parts), digest_size=16).digest()


async def seqs(log: Log, shard: int = 0) -> list[int]:
    """Where the snapshots stand that a reader finds, the newest first."""
    return [manifest_of(found).seq async for found in newest_first(log, shard)]


def same_state(one: Fold, other: Fold) -> bool:
    """Whether two folds stand at the same event with the same state and go on at the same record."""

    def said(fold: Fold) -> tuple[object, ...]:
        return fold.shard.seq, fold.chain, fold.next_offset, state_digest(fold.shard)

    return said(one) == said(other)
