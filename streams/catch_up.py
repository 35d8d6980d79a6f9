"""Reads the event log into the state table by itself, at the speed of a raw consumer, without any consumer group.

`ShardReader` closes gaps, catches up at every assignment, and leads where the tail is faster than Faust's agent. It works over the
log seam, so the command line, an embedded scheduler and the tests use it without Faust as well. Agent and reader may interleave,
but only between calls of `take_records`, which is synchronous: both see the same position.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import DecodeError

from events.errors import SequenceBroken
from projections.position import FOLDED, BatchTaker, Record, Taken, take
from projections.table import Table
from streams.errors import LogUnavailable
from streams.log import Follower, Log, Partition
from streams.log_lines import say
from streams.readiness import Progress
from streams.recovery import DamagedLog
from streams.store import Store, StoreDamaged
from streams.topics import EVENTS

BATCH_EVENTS: Final = 2_000
"""Records folded between two looks at the event loop: about 30 ms."""

SLICE_S: Final = 0.05
"""Where events are larger than that, so long at most: a report of what a worker holds names thousands of blobs, a tick cleans as many."""

LOOKED_AFTER: Final = 64
"""So many small events are folded between two looks at the clock."""

SMALL_BATCH_EVENTS: Final = 500
GATHER_S: Final = 0.04
"""After a batch smaller than that, so long is waited for more before the next read."""

PATIENCE_S: Final = 60.0
"""How long a read that must bring something may bring nothing."""

_log = logging.getLogger("headway.catch_up")


@dataclass(slots=True)
class Taking:
    """What became of a batch: how many events were folded, known already, or stale; and whether it ended before a gap."""

    folded: int = 0
    known: int = 0
    stale: int = 0
    gap_before_seq: int = 0


def take_records(table: Table, records: Sequence[Record], *, within_s: float = math.inf) -> Taking:
    """Fold records in order and write the rows with the position, once for all of them unless they change very many rows.

    Stops before a gap and says so; and after `within_s`, once at least one is taken: the counts say how many were.

    Raises:
        DamagedLog: one does not follow from those before it, cannot be read, or has no place in the table. What was folded
            before it is written; nothing of it is.
        StoreDamaged: a row cannot be read or written.
    """
    taking = Taking()
    try:
        _take(table, records, taking, time.monotonic() + within_s)
    except Exception as error:
        raise _stopped(table, records, error) from error
    if taking.folded or taking.stale:
        table.flush()
    return taking


def _take(table: Table, records: Sequence[Record], taking: Taking, until_s: float) -> None:
    taker, begin = BatchTaker(table), 0
    while begin < len(records) and not taking.gap_before_seq:
        folded, taken = taker.take(records, begin, min(begin + LOOKED_AFTER, len(records)))
        begin += folded + (taken is not None)
        taking.folded += folded + (taken is FOLDED)
        taking.known += taken is Taken.KNOWN
        taking.stale += taken is Taken.STALE
        if taken is FOLDED and table.full:
            table.flush()
        elif taken is Taken.GAP:
            taking.gap_before_seq = table.shard.seq + 1
        if time.monotonic() > until_s:
            break
    taker.settle()


def _stopped(table: Table, records: Sequence[Record], error: Exception) -> Exception:
    """The error to stop with, the table standing right before the record that cannot be taken: half an event is no state."""
    if isinstance(error, DecodeError) and isinstance(table.rows, Store):
        return table.rows.damage("decode a row", error)
    if isinstance(error, StoreDamaged):
        return error
    refused = _first_refused(table, records)
    if refused is None:
        return error
    at, why = refused
    table.discard()
    for record in records[:at]:
        take(table, record.offset, record.value)
    table.flush()
    return DamagedLog((EVENTS, table.number), records[at].offset, table.shard.seq, why)


def _first_refused(table: Table, records: Sequence[Record]) -> tuple[int, Exception] | None:
    """The index of the first record that cannot be taken, from the last `flush` on, and why; half of it may stand in the table then."""
    table.discard()
    for index, record in enumerate(records):
        try:
            take(table, record.offset, record.value)
        except Exception as error:
            return index, error
    return None


class ShardReader:
    """Reads one shard's events straight from the log into its table.

    One operation at a time: others wait. `heals`, `caught_up_events` and `led_events` count what it did.
    """

    def __init__(self, log: Log, table: Table) -> None:
        self.table = table
        self.partition: Partition = (EVENTS, table.number)
        self.heals = 0
        self.caught_up_events = 0
        self.led_events = 0
        self._log = log
        self._follower: Follower | None = None
        self._lock = asyncio.Lock()
        self._end: int | None = None  # to which it catches up
        self._seen = 0  # everything below this offset was read here

    async def catch_up(self, to_seq: int | None = None) -> int:
        """Fold up to event `to_seq`, or to what is the last stable offset now; returns how many events that were.

        Raises:
            DamagedLog: a gap or a broken chain in the log itself; nothing is folded past it.
            OffsetTrimmed: the log no longer has the events after the table's position.
            LogUnavailable: the log does not answer, or stopped bringing records before its end.
        """
        async with self._lock:
            follower = await self._at_position()
            begun_seq = self.table.shard.seq
            end = self._end = await follower.end_offset(self.partition)
            heard_s = time.monotonic()
            while (
                self.table.shard.seq < to_seq if to_seq is not None else await follower.position(self.partition) < end
            ):
                if await self._read_batch(follower, timeout_ms=200):
                    heard_s = time.monotonic()
                elif time.monotonic() - heard_s > PATIENCE_S:
                    raise LogUnavailable(
                        f"reading {self.partition[0]}[{self.partition[1]}] after event {self.table.shard.seq}",
                        address=f"offset {self.table.shard.next_offset}",
                        waited_ms=round(PATIENCE_S * 1000),
                    )
            folded = self.table.shard.seq - begun_seq
            self.caught_up_events += folded
            return folded

    def progress(self) -> Progress:
        """How far it is from the end that the log had when it last began to catch up."""
        shard = self.table.shard
        return Progress(self.table.number, shard.seq, max(self._seen, shard.next_offset), self._end)

    async def heal(self, to_seq: int) -> int:
        """Close a gap: fold everything up to event `to_seq`. Raises as `catch_up`."""
        self.heals += 1
        missing = to_seq - self.table.shard.seq
        folded = await self.catch_up(to_seq)
        say(_log, logging.INFO, "gap healed", shard=self.table.number, missing=missing, folded=folded)
        return folded

    async def lead(self, seconds: float) -> int:
        """Follow the tail for about so long; returns how many events were folded. Raises as `catch_up`."""
        async with self._lock:
            follower = await self._at_position()
            begun_seq, until_s = self.table.shard.seq, time.monotonic() + seconds
            while (left_s := until_s - time.monotonic()) > 0:
                before = self.table.shard.seq
                await self._read_batch(follower, timeout_ms=max(1, min(100, round(left_s * 1000))))
                if 0 < self.table.shard.seq - before < SMALL_BATCH_EVENTS:
                    # Each read, fetch and write batch has its price whatever it holds; the table may be this much behind.
                    await asyncio.sleep(GATHER_S)
            folded = self.table.shard.seq - begun_seq
            self.led_events += folded
            return folded

    async def behind(self) -> int:
        """How many offsets of the log lie behind the table's position: at least as many as events, 0 when there is none.

        Raises LogUnavailable.
        """
        follower = self._follower
        if follower is None:
            async with self._lock:
                follower = await self._at_position()
        end = await follower.end_offset(self.partition)
        # Behind the last event lies the end of its transaction; a reader that has been there knows that it is no event.
        self._seen = max(self._seen, await follower.position(self.partition))
        return max(0, end - max(self._seen, self.table.shard.next_offset))

    async def forget_connection(self) -> None:
        """Read on over a new connection next time; for after the log did not answer."""
        async with self._lock:
            await self.close()

    async def close(self) -> None:
        """Stop reading. May be called twice."""
        follower, self._follower = self._follower, None
        if follower is not None:
            await follower.close()

    async def _at_position(self) -> Follower:
        if self._follower is None:
            self._follower = await self._log.follow({self.partition: self.table.shard.next_offset})
        else:
            self._follower.seek(self.partition, self.table.shard.next_offset)
        return self._follower

    async def _read_batch(self, follower: Follower, *, timeout_ms: int) -> bool:
        """Whether the log brought records; they are folded."""
        found = await follower.read(max_records=BATCH_EVENTS, timeout_ms=timeout_ms)
        records = found.get(self.partition)
        if not records:
            return False
        taken = 0
        while taken < len(records):
            # Whoever asks the views is answered in between, and whatever an agent folds meanwhile is known here.
            taking = take_records(self.table, records[taken:], within_s=SLICE_S)
            taken += taking.folded + taking.known + taking.stale
            if taking.gap_before_seq:
                raise DamagedLog(
                    self.partition,
                    records[taken].offset,
                    self.table.shard.seq,
                    SequenceBroken(
                        f"event {taking.gap_before_seq} is missing from the log; nothing is folded past it. "
                        "Run `headway replay` to locate the gap, and restore the events topic from an export"
                    ),
                )
            await asyncio.sleep(0)  # a read of what is buffered does not yield
        return True
