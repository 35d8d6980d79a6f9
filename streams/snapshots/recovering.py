"""Where a fold of a shard begins: at its newest snapshot that can be used, else at the first event.

A snapshot is used only after three looks: its own digest, the ids of the log that it was made of, and the event that it covers last, which
must stand in this log with the chain digest that the snapshot goes on from. The events behind it are checked one by one as always.
Whether it was verified by another fold does not matter here: that is what trimming asks for.

What is of no use is dropped with a reason, said and counted, and the next older one is tried. It never stops anybody, unless the
first events are gone as well.
"""

from __future__ import annotations

import logging
import time
from collections.abc import MutableMapping
from contextlib import aclosing
from typing import Final

from events.snapshot import Manifest
from events.state import Shard
from streams.log import Log, bounds, records_between
from streams.log_lines import say
from streams.recovery import Fold, fold_to_end
from streams.snapshots.errors import HistoryTrimmed, SnapshotUnusable, Unusable
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
from streams.topics import EVENTS

_BEHIND: Final = (64, 20_000)
"""So many offsets before its end a snapshot's last event is looked for: a few; where transactions were aborted, more."""

_log = logging.getLogger("headway.snapshots")


async def start_of(
    log: Log, shard: int, *, dropped: MutableMapping[str, int] | None = None, contradicted: int = 0
) -> Fold:
    """A fold of the shard, not live, that stands at its newest usable snapshot, or before the first event where there is none.

    Read events from its `next_offset` on. `dropped` counts, by reason, the snapshots that were of no use; `contradicted` is the seq of one
    that the log says two folds differ in. Restoring makes many objects: keep the cycle collector off (`without_collection`).

    Raises:
        HistoryTrimmed: the first events are gone, and no snapshot can be used.
        NoSuchTopic, NoSuchPartition, LogUnavailable: as everywhere.
    """
    counts: MutableMapping[str, int] = {} if dropped is None else dropped
    tried: dict[str, int] = {}
    ids: dict[str, str] | None = None
    async with aclosing(newest_first(log, shard)) as snapshots:
        async for found in snapshots:
            ids = ids or await identity(log)
            try:
                manifest = manifest_of(found)
                if manifest.seq == contradicted:
                    raise SnapshotUnusable(named(found), Unusable.DIVERGED)
                check_of_this_log(found, manifest, ids)
                await check_follows(log, found, manifest)
                state = state_in(found, manifest, await parts_in(log, found, manifest))
            except SnapshotUnusable as error:
                counts[error.reason] = counts.get(error.reason, 0) + 1
                tried[error.reason] = tried.get(error.reason, 0) + 1
                say(
                    _log,
                    logging.WARNING,
                    "a snapshot is dropped",
                    shard=shard,
                    reason=error.reason,
                    error=error.message,
                )
                continue
            say(_log, logging.INFO, "beginning at a snapshot", shard=shard, seq=manifest.seq, bytes=manifest.bytes)
            return fold_at(manifest, state)
    first, _ = await bounds(log, (EVENTS, shard))
    if first > 0:
        raise HistoryTrimmed(shard, first, tried)
    return Fold(shard)


async def state_now(log: Log, shard: int) -> Shard:
    """The state after the last committed event, not live. Raises as `start_of` and `fold_to_end`."""
    fold = await start_of(log, shard)
    events = await log.follow({fold.partition: fold.next_offset or None})
    try:
        await fold_to_end(fold, events, monotonic_us=lambda: time.monotonic_ns() // 1000)
    finally:
        await events.close()
    return fold.shard


def fold_at(manifest: Manifest, state: Shard, *, fused: bool = True) -> Fold:
    """The fold that goes on behind a snapshot; `fused` as `Fold` has it."""
    fold = Fold(manifest.shard, fused=fused)
    fold.shard, fold.chain, fold.next_offset = state, manifest.chain, manifest.next_event_offset
    return fold


async def check_follows(log: Log, found: Found, manifest: Manifest) -> None:
    """Compare the last event that a snapshot covers with the one that the log holds there.

    Raises:
        SnapshotUnusable: the log ends before it, or holds another event. Where events up to there are gone nothing is compared: the
            first one behind is, by whoever folds it.
    """
    at = EVENTS, manifest.shard
    first, end = await bounds(log, at)
    until = manifest.next_event_offset
    if until > end:
        said = f"events below offset {until}, the log ends at {end}"
        raise SnapshotUnusable(named(found), Unusable.AHEAD_OF_LOG, said)
    if first >= until:
        return
    for behind in _BEHIND:
        # Records of a leader that had been replaced may stand behind the last event, so any one of them may be it.
        async with aclosing(records_between(log, at, max(first, until - behind), until)) as batches:
            async for records in batches:
                if any(record.value.endswith(manifest.chain) for record in records):
                    return
    raise SnapshotUnusable(
        named(found), Unusable.OTHER_CHAIN, f"no event with chain {manifest.chain.hex()} right before offset {until}"
    )
