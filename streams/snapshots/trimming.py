"""Removing facts that a verified snapshot covers.

Facts are needed by deciders up to where events answer them, and by whoever decides again: `headway verify`, `headway shadow`, `headway
what-if`, exports. The retention of the topic ends their life after some days anyway; a trim does it earlier, and only where the log itself
says that two folds agree on the state that replaces them. Events are never removed by this.

A trim never goes past any of these, and says which of them held it:

* the first fact that the newest `Checkpointed` snapshot does not cover; it must still be readable, whole and in its place in the log;
* the margins that were asked for: so many of the newest facts, and all that are younger than so many seconds before the newest;
* where shadows that were heard within a day stand.
"""

from __future__ import annotations

import time
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from streams.audit import audits, progress_of
from streams.errors import NoSuchTopic
from streams.log import Log, Record, bounds, records_between
from streams.snapshots.errors import NoSuchSnapshot, SnapshotUnusable, TrimRefused
from streams.snapshots.recovering import state_now
from streams.snapshots.verifying import read_back, snapshot_at
from streams.topics import FACTS

HEARD_US: Final = 86_400_000_000
"""An auditor that said nothing for a day is not waited for."""


@dataclass(frozen=True, slots=True)
class Margin:
    """What stays of the facts that a snapshot covers.

    Args:
        facts: so many offsets before the end of the topic.
        us: everything younger than this before the newest fact, in microseconds.
    """

    facts: int = 0
    us: int = 0


@dataclass(frozen=True, slots=True)
class Trim:
    """What a trim removes, or removed.

    Args:
        first: the first fact there was.
        before: the first fact that stays; `first` where nothing is removed.
        seq: of the snapshot that covers what goes.
        held_by: what the trim ends at.
    """

    shard: int
    first: int
    before: int
    seq: int
    held_by: str

    @property
    def offsets(self) -> int:
        """How many offsets of the facts topic go."""
        return self.before - self.first


async def plan_trim(log: Log, shard: int, margin: Margin, *, now_us: int | None = None) -> Trim:
    """What a trim would remove now (`now_us`, by default this machine's clock, says which shadows are waited for). Changes nothing.

    Raises:
        TrimRefused: no verified snapshot can be relied on.
        HistoryTrimmed, DamagedLog, UnreadableAudit, NoSuchTopic, NoSuchPartition, LogUnavailable: as everywhere.
    """
    seq, covered = await _covered(log, shard)
    first, end = await bounds(log, (FACTS, shard))
    limits = [(covered, f"the snapshot at event {seq} covers no more")]
    limits.append((end - margin.facts, f"the newest {margin.facts} offsets stay"))
    if margin.us:
        limits.append((await _younger(log, shard, first, min(end, covered), margin.us), "younger facts stay"))
    limits += [
        (at, f"{auditor} has not judged further") for auditor, at in (await _shadows(log, shard, now_us)).items()
    ]
    before, held_by = min(limits, key=lambda limit: limit[0])
    return Trim(shard, first, max(first, before), seq, held_by)


async def trim_facts(log: Log, shard: int, margin: Margin, *, now_us: int | None = None) -> Trim:
    """Remove what `plan_trim` says. Raises as that does."""
    trim = await plan_trim(log, shard, margin, now_us=now_us)
    if trim.offsets:
        await log.trim((FACTS, shard), trim.before)
    return trim


async def _covered(log: Log, shard: int) -> tuple[int, int]:
    """The newest verified snapshot that is readable: its seq, and the first fact that it does not cover."""
    state = await state_now(log, shard)
    checkpoint, diverged = state.checkpoint, state.divergence
    if checkpoint is None:
        raise TrimRefused(shard, f"up to event {state.seq} the log says of no snapshot that another fold verified it")
    if diverged is not None and diverged.seq > checkpoint.seq:
        raise TrimRefused(
            shard,
            f"two folds differ at event {diverged.seq} ({diverged.by} against {diverged.other_by}), and only the snapshot at event "
            f"{checkpoint.seq} before that is verified",
            remedy="Find out which of them is wrong first: infra/runbooks/snapshots.md",
        )
    try:
        found, manifest = await snapshot_at(log, shard, checkpoint.seq)
        if manifest.state_digest != checkpoint.state_digest:
            digests = f"digest {manifest.state_digest.hex()}, verified was {checkpoint.state_digest.hex()}"
            raise TrimRefused(shard, f"the snapshot at event {checkpoint.seq} has {digests}")
        await read_back(log, found, manifest)
    except (NoSuchSnapshot, SnapshotUnusable) as error:
        raise TrimRefused(
            shard,
            f"verified is the snapshot at event {checkpoint.seq}, but it cannot be used any more: {error.message}",
        ) from error
    return checkpoint.seq, min(checkpoint.next_fact_offset, manifest.next_fact_offset)


async def _younger(log: Log, shard: int, first: int, end: int, us: int) -> int:
    """The first fact below `end` that is at most `us` older than the newest one; `end` where there is none. Facts are in order of time."""
    _, last = await bounds(log, (FACTS, shard))
    newest = await _record_at(log, shard, last - 1, last) if last > first else None
    if newest is None:
        return first  # nothing is known of their age
    low, high = first, end
    while low < high:
        middle = (low + high) // 2
        record = await _record_at(log, shard, middle, end)
        if record is None or newest.at_us - record.at_us <= us:
            high = middle
        else:
            low = record.offset + 1
    return low


async def _record_at(log: Log, shard: int, offset: int, end: int) -> Record | None:
    """The first fact at or behind an offset, None where there is none below `end`."""
    async with aclosing(records_between(log, (FACTS, shard), offset, end)) as batches:
        async for records in batches:
            return records[0]
    return None


async def _shadows(log: Log, shard: int, now_us: int | None) -> dict[str, int]:
    """The first fact that each shadow heard within a day has not judged."""
    now_us = time.time_ns() // 1_000 if now_us is None else now_us
    at: dict[str, int] = {}
    try:
        async for record, message in audits(log, shard):
            if message.WhichOneof("kind") == "shadow_progress" and now_us - record.at_us <= HEARD_US:
                at[message.auditor] = progress_of(message).next_fact_offset
    except NoSuchTopic:
        return {}  # a cluster that an older release set up
    return at
