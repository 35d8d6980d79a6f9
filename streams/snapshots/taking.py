"""One snapshot of a fold as it stands."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from events.snapshot import Manifest, parts_of
from streams.log import Log
from streams.recovery import Fold
from streams.snapshots.layout import Found
from streams.snapshots.writing import write


async def take(
    log: Log, fold: Fold, ids: Mapping[str, str], *, build: str, written_by: str, keep: Collection[int] = ()
) -> tuple[Found, Manifest]:
    """Write what a fold holds as a snapshot; it must not be folded on before this returns.

    Args:
        ids: of the log, see `reading.identity`.
        keep: seqs of snapshots that must stay.

    Raises:
        SlotTaken, OutcomeUnknown, LogUnavailable, NoSuchTopic, NoSuchPartition, Refused: as `writing.write`.
    """
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
        build=build,
        leader_epoch=shard.leader_epoch,
        written_by=written_by,
        cluster_id=ids["cluster_id"],
        facts_topic_id=ids["facts_topic_id"],
        events_topic_id=ids["events_topic_id"],
    )
    return await write(log, manifest, parts_of(shard), keep=keep)
