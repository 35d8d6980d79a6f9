"""Verifying a snapshot by another fold: read back from the log, and against the events folded one by one from an older trusted state.

Two things are looked at, and neither uses what the writer had in memory:

1. the parts in the topic, restored, give the digest that the manifest says, also when the restored state is digested anew;
2. the plain fold of the events, from the newest snapshot that was verified before (the first event where there is none) up to the
   snapshot's own, gives the same digest and the same chain.

What came out is reported as a fact, whatever it is: the log then says `Checkpointed` where both reports of a `seq` agree, else
`CheckpointDiverged`. A snapshot that cannot even be read back is taken back at once.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from dataclasses import dataclass

from events.codec import encode_fact
from events.facts import StateDigested
from events.reasons import DigestRole
from events.snapshot import FORMAT, Manifest, state_digest
from events.state import Shard
from streams.log import Log, Outgoing, bounds, records_between
from streams.log_lines import say
from streams.recovery import Fold, without_collection
from streams.snapshots.errors import HistoryTrimmed, NoSuchSnapshot, SnapshotUnusable, Unusable
from streams.snapshots.layout import Found
from streams.snapshots.reading import (
    check_of_this_log,
    identity,
    manifest_of,
    named,
    newest_first,
    parts_in,
    state_in,
)
from streams.snapshots.recovering import check_follows, fold_at
from streams.snapshots.writing import take_back
from streams.topics import EVENTS, FACTS

_log = logging.getLogger("headway.snapshots")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What another fold gave.

    Args:
        shard: of which shard.
        seq: of the last event that the snapshot covers.
        written: the digest in the snapshot's manifest.
        digest: the one of the other fold.
        next_fact_offset: the first fact that events up to `seq` do not answer.
        from_seq: where the other fold began: 0, or an older verified snapshot.
    """

    shard: int
    seq: int
    written: bytes
    digest: bytes
    next_fact_offset: int
    from_seq: int

    @property
    def agrees(self) -> bool:
        """Whether both digests are the same."""
        return self.written == self.digest


async def snapshot_at(log: Log, shard: int, seq: int | None = None) -> tuple[Found, Manifest]:
    """The snapshot of a shard at event `seq`, the newest readable one where None; of several at a seq the one written last.

    Raises:
        NoSuchSnapshot: there is none.
    """
    async with aclosing(newest_first(log, shard)) as snapshots:
        async for found in snapshots:
            try:
                manifest = manifest_of(found)
            except SnapshotUnusable:
                continue
            if seq is None or manifest.seq == seq:
                return found, manifest
    raise NoSuchSnapshot(shard, seq)


async def read_back(log: Log, found: Found, manifest: Manifest) -> Shard:
    """The state in a snapshot, with everything compared that can be: ids, place in the log, digest of the bytes and of the state in them.

    Raises:
        SnapshotUnusable: one does not hold.
    """
    check_of_this_log(found, manifest, await identity(log))
    await check_follows(log, found, manifest)
    state = state_in(found, manifest, await parts_in(log, found, manifest))
    digest = state_digest(state)
    if digest != manifest.state_digest:
        said = f"the restored state has {digest.hex()}, its manifest says {manifest.state_digest.hex()}"
        raise SnapshotUnusable(named(found), Unusable.WRONG_DIGEST, said)
    return state


async def verify(log: Log, found: Found, manifest: Manifest) -> Verdict:
    """Read a snapshot back and fold its events once more; other tasks get their turn between batches.

    Raises:
        SnapshotUnusable: it cannot be read back.
        HistoryTrimmed: the first events are gone, and there is no older verified snapshot to fold from.
        DamagedLog: the events do not follow from one another.
        NoSuchTopic, NoSuchPartition, LogUnavailable, OffsetTrimmed: as everywhere.
    """
    with without_collection():
        state = await read_back(log, found, manifest)
        fold = await _older_trusted(log, manifest, state)
        del state
        from_seq = fold.shard.seq
        events = records_between(log, fold.partition, fold.next_offset or None, manifest.next_event_offset)
        async with aclosing(events) as batches:
            async for records in batches:
                fold.apply(records)
                await asyncio.sleep(0)
    digest = state_digest(fold.shard)
    if fold.chain != manifest.chain:
        said = f"folded up to event {fold.shard.seq} with chain {fold.chain.hex()}, its manifest says {manifest.chain.hex()}"
        raise SnapshotUnusable(named(found), Unusable.OTHER_CHAIN, said)
    return Verdict(manifest.shard, manifest.seq, manifest.state_digest, digest, fold.shard.position + 1, from_seq)


async def _older_trusted(log: Log, manifest: Manifest, state: Shard) -> Fold:
    """The fold, event by event, at the last verified snapshot before this one, or at the first event.

    Which one that is `state` says; were that wrong, the fold from there would come to another state than this one.
    """
    trusted = state.checkpoint
    if trusted is not None:
        try:
            found, older = await snapshot_at(log, manifest.shard, trusted.seq)
            if older.state_digest == trusted.state_digest:
                return fold_at(older, await read_back(log, found, older), fused=False)
        except (NoSuchSnapshot, SnapshotUnusable) as error:
            say(_log, logging.INFO, "folding from the first event", shard=manifest.shard, because=error.message)
    first, _ = await bounds(log, (EVENTS, manifest.shard))
    if first > 0:
        raise HistoryTrimmed(manifest.shard, first, {})
    return Fold(manifest.shard, fused=False)


async def verify_and_report(log: Log, shard: int, seq: int | None, *, by: str) -> Verdict:
    """Verify a snapshot and publish what came out, under the name `by`; one that cannot be read back is taken back.

    Raises:
        NoSuchSnapshot: there is none at `seq`.
        SnapshotUnusable and what `verify` and `report` raise.
    """
    found, manifest = await snapshot_at(log, shard, seq)
    try:
        verdict = await verify(log, found, manifest)
    except SnapshotUnusable:
        await take_back(log, lambda one: one.snapshot_id == found.snapshot_id, shard)
        raise
    await report(log, verdict, by=by)
    return verdict


async def report(log: Log, verdict: Verdict, *, by: str) -> None:
    """Publish the digest of the other fold.

    Raises:
        OutcomeUnknown, NoSuchTopic, NoSuchPartition, Refused: as `Log.publish`. Once more does no harm.
    """
    await publish_digest(
        log, verdict.shard, verdict.seq, verdict.digest, verdict.next_fact_offset, by=by, role=DigestRole.VERIFIED
    )


async def publish_digest(
    log: Log, shard: int, seq: int, digest: bytes, next_fact_offset: int, *, by: str, role: DigestRole
) -> None:
    """Publish the fact that the state after event `seq` has this digest. Raises as `report`."""
    fact = StateDigested(seq, digest, FORMAT, next_fact_offset, by, role)
    await log.publish((FACTS, shard), [Outgoing(encode_fact(fact))])
