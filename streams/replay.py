"""Folds a shard's event log from its beginning, from the log alone, and compares the rows with those of a state table.

The oracle of the read side: whatever crashed, was killed or lost its disk, the table must hold exactly the rows that a clean replay
up to the table's own position gives.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from events.codec import envelope_of
from events.errors import HeadwayError, SequenceBroken
from events.events import Event
from projections.position import Taken, take
from projections.rows import MemoryRows
from projections.shard_state import ShardState
from projections.table import Table
from streams.errors import LogUnavailable
from streams.log import Follower, Log, Partition, Record
from streams.recovery import DamagedLog, without_collection
from streams.topics import EVENTS, FACTS

BATCH_RECORDS: Final = 5_000
PATIENCE_S: Final = 30.0
DIFFERENCES_SHOWN: Final = 10

Progress = Callable[[int], None]
"""Called with the number of events folded since the last call."""


@dataclass(slots=True)
class Replayed:
    """What a replay found.

    `damage` is the first record that does not follow, `gaps` how often `seq` jumps in the whole log; nothing after the first
    damage is folded. `leaders` are the leader epochs and the seq of their first event.
    """

    shard: int
    table: Table
    events: int = 0
    seconds: float = 0.0
    gaps: int = 0
    damage: DamagedLog | None = None
    first_offset: int = 0
    end_offset: int = 0
    leaders: list[tuple[int, int]] = field(default_factory=list)

    @property
    def seq(self) -> int:
        """The last event folded."""
        return self.table.shard.seq

    @property
    def events_per_s(self) -> int:
        """How fast it went."""
        return round(self.events / self.seconds) if self.seconds else 0


async def replay(
    log: Log,
    shard: int,
    *,
    until_offset: int | None = None,
    until_seq: int | None = None,
    begin: Table | None = None,
    seen: Callable[[Table, Event], None] | None = None,
    progress: Progress = lambda count: None,
) -> Replayed:
    """Fold the log of a shard up to its last stable offset of now, only records below `until_offset`, or up to event `until_seq`.

    Damage in the log does not raise: it is what a replay is there to find.

    Args:
        begin: rows as of an event, to go on from there instead of from the first one.
        seen: shown each event right before it is folded.
    Raises:
        LogUnavailable: the log does not answer, or stopped bringing records before its end.
        NoSuchTopic, NoSuchPartition: there is no such shard.
    """
    partition: Partition = (EVENTS, shard)
    table = Table(MemoryRows(), shard, kept_rows=1 << 62) if begin is None else begin
    follower = await log.follow({partition: None if begin is None else table.shard.next_offset})
    found = Replayed(shard, table)
    begun_s = time.monotonic()
    try:
        found.first_offset = await follower.beginning_offset(partition)
        found.end_offset = end = await follower.end_offset(partition)
        if until_offset is not None:
            end = min(end, until_offset)
        with without_collection():
            await _read(follower, partition, end, until_seq, found, seen, progress)
            found.table.flush()
    finally:
        await follower.close()
    found.seconds = time.monotonic() - begun_s
    return found


async def _read(
    follower: Follower,
    partition: Partition,
    end: int,
    until_seq: int | None,
    found: Replayed,
    seen: Callable[[Table, Event], None] | None,
    progress: Progress,
) -> None:
    heard_s = time.monotonic()
    counting = _Counting(found.seq, found.table.shard.leader_epoch)
    while await follower.position(partition) < end:
        records = (await follower.read(max_records=BATCH_RECORDS, timeout_ms=200)).get(partition)
        if records:
            heard_s = time.monotonic()
            before = found.events
            for record in records:
                if record.offset >= end or (until_seq is not None and found.seq >= until_seq):
                    return
                if found.damage is None:
                    _fold(found, partition, record, seen)
                counting.look(record)
            found.gaps = counting.gaps
            progress(found.events - before)
        elif time.monotonic() - heard_s > PATIENCE_S:
            raise LogUnavailable(
                f"replaying {partition[0]}[{partition[1]}] up to offset {end}",
                address=f"event {found.seq}",
                waited_ms=round(PATIENCE_S * 1000),
            )


def _fold(found: Replayed, partition: Partition, record: Record, seen: Callable[[Table, Event], None] | None) -> None:
    shard = found.table.shard
    epoch, seq = shard.leader_epoch, shard.seq
    try:
        taken = take(found.table, record.offset, record.value, seen)
        if taken is Taken.GAP:
            raise SequenceBroken(
                f"event {envelope_of(record.value).seq} follows event {seq}; those between are missing"
            )
    except (HeadwayError, LookupError, ValueError) as error:
        found.damage = DamagedLog(partition, record.offset, seq, error)
        return
    found.events += taken is Taken.FOLDED
    if found.table.full:
        found.table.flush()
    if shard.leader_epoch != epoch:
        found.leaders.append((shard.leader_epoch, shard.seq))


class _Counting:
    """Counts jumps of `seq` over the whole log, damaged or not; records of replaced leaders are left out."""

    def __init__(self, seq: int, leader_epoch: int) -> None:
        self.gaps = 0
        self._seq = seq
        self._epoch = leader_epoch

    def look(self, record: Record) -> None:
        try:
            envelope = envelope_of(record.value)
        except HeadwayError:
            return
        if envelope.leader_epoch < self._epoch:
            return
        self._epoch = envelope.leader_epoch
        self.gaps += envelope.seq != self._seq + 1
        self._seq = envelope.seq


@dataclass(frozen=True, slots=True)
class AnotherLog:
    """A table was folded from another log than the one replayed: the id that tells, as each of them has it."""

    what: str
    in_table: str
    in_log: str

    def __str__(self) -> str:
        return f"the table is of another log: its {self.what} is {self.in_table}, that of this log is {self.in_log}"


async def another_log(log: Log, table: ShardState, replayed: ShardState) -> AnotherLog | None:
    """Compare the ids that the elections in a table's events recorded with those of the log; None where they are the same.

    The log's are those that its own elections recorded, as far as it was folded: a copy of a log keeps them. Where it has none yet
    they are asked for. A table that no leader was folded into has no ids to tell by.

    Raises:
        LogUnavailable: the log does not answer.
        NoSuchTopic: a topic is missing.
    """
    if not table.leader_epoch:
        return None
    if replayed.leader_epoch:
        ids = (replayed.cluster_id, replayed.events_topic_id, replayed.facts_topic_id)
    else:
        ids = (await log.cluster_id(), await log.topic_id(EVENTS), await log.topic_id(FACTS))
    names = ("cluster id", "events topic id", "facts topic id")
    held = (table.cluster_id, table.events_topic_id, table.facts_topic_id)
    differing = (AnotherLog(*found) for found in zip(names, held, ids, strict=True) if found[1] != found[2])
    return next(differing, None)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rows of a replay against rows of a table: how many there are, and the first keys that differ, in key order."""

    rows: int
    differing: int
    first: tuple[tuple[bytes, bytes | None, bytes | None], ...]
    """(key, in the replay, in the table); None: it is missing there."""

    @property
    def equal(self) -> bool:
        """Whether every row is the same on both sides."""
        return self.differing == 0


def compare(replayed: Mapping[bytes, bytes], table: Mapping[bytes, bytes]) -> Comparison:
    """Row by row, byte by byte."""
    differing = sorted(key for key in replayed.keys() | table.keys() if replayed.get(key) != table.get(key))
    first = tuple((key, replayed.get(key), table.get(key)) for key in differing[:DIFFERENCES_SHOWN])
    return Comparison(len(replayed.keys() | table.keys()), len(differing), first)
