"""What a decider's `FoldedHolders` needs around it: a directory, being brought to the leader's position, being dropped when it fails.

    off ──wanted──▶ behind ──at the leader's position──▶ ready ──no longer wanted──▶ off
                      ▲  └──unreadable, or of another log: dropped, made again──▶ behind
                      └──the leadership ended, or a fact was written off────────── ready

While it is behind (a follower, a leader whose configuration has just begun to ask, a store that had to be dropped) a task reads the event
log by itself, in slices that leave the decider its turn. A leader waits for it before it decides, but never for so long that a standby
would take it for dead; placements meanwhile are made as without holders, and counted. Once it is at the leader's position it sees the
leader's events directly, each before the next placement is made, and keeps them when their transaction is committed.

Nothing that goes wrong here reaches a decision: rows are dropped and made again from the log, with growing pauses.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from events.events import Event
from events.holders import NO_HOLDERS, Holders
from events.state import Operation
from events.values import Holding
from projections.rows import MemoryRows, Rows
from streams.errors import LogUnavailable, OffsetPastEnd
from streams.health import DeciderStats
from streams.holders import Diverged, FoldedHolders
from streams.log import Follower, Log, Partition
from streams.log_lines import say
from streams.store import Store, StoreDamaged, StoreLocked
from streams.topics import EVENTS

MOST_DIRECTORIES: Final = 16
"""Deciders of one shard that share a home: each takes the first directory that is free."""

WAIT_S: Final = 0.5
"""A leader waits so long for what it has just begun to keep: a standby takes over after a second without an event."""

SHORT_WAIT_S: Final = 0.02
NEARLY_THERE_EVENTS: Final = 5_000
"""After the first wait a leader waits only where so few events are missing, and only shortly."""

SLICE_S: Final = 0.02
"""How long the reading task folds before others get their turn; one report's chunk takes about as long."""

READ_RECORDS: Final = 500
READ_MS: Final = 100
LONGEST_PAUSE_S: Final = 60.0

_log = logging.getLogger("headway.holders")


class NoFreeDirectory(Exception):
    """As many deciders as there are directories have this shard's open."""


class OwnHolders:
    """The holders of one decider. Asks for nothing and costs nothing until `want(True)`.

    Args:
        log: where the events are read.
        shard: its number.
        directory: where this shard's directories stand, numbered from 0; None keeps the rows in memory.
        stats: told what becomes of it.
    """

    def __init__(self, log: Log, shard: int, directory: Path | None, stats: DeciderStats) -> None:
        self._log = log
        self._shard = shard
        self._directory = directory
        self._stats = stats
        self._partition: Partition = (EVENTS, shard)
        self._store: Store | None = None
        self._kept: FoldedHolders | None = None
        self._task: asyncio.Task[None] | None = None
        self._moved = asyncio.Event()
        self._wanted = False
        self._ready = False
        self._waited = False  # for long, since it was last ready
        self._failures = 0  # one after the other

    @property
    def wanted(self) -> bool:
        """Whether placements ask it."""
        return self._wanted

    @property
    def asked(self) -> Holders:
        """What `decide` is to be given."""
        return self if self._wanted else NO_HOLDERS

    # -- as holders -----------------------------------------------------------------------------------------------------------

    def see(self, events: Sequence[Event]) -> None:
        """See `Holders.see`."""
        if self._ready and self._kept is not None:
            try:
                self._kept.see(events)
            except Exception as error:
                self._fail(error)

    def most_bytes(self, operation: Operation) -> tuple[Holding, ...]:
        """See `Holders.most_bytes`; nobody while it is not ready."""
        if self._ready and self._kept is not None:
            try:
                return self._kept.most_bytes(operation)
            except Exception as error:
                self._fail(error)
        self._stats.holders_unanswered += 1
        return ()

    def bytes_at(self, operation: Operation, endpoint: str) -> int:
        """See `Holders.bytes_at`; nothing while it is not ready, which `most_bytes` has counted."""
        if self._ready and self._kept is not None:
            try:
                return self._kept.bytes_at(operation, endpoint)
            except Exception as error:
                self._fail(error)
                self._stats.holders_unanswered += 1
        return 0

    # -- what the leader says ---------------------------------------------------------------------------------------------------

    async def want(self, wanted: bool) -> None:
        """Begin or cease to keep it up."""
        if wanted is self._wanted:
            return
        self._wanted = wanted
        if wanted:
            self._read_on()
        else:
            await self.close()

    async def reach(self, seq: int, chain: bytes) -> None:
        """Before a leader decides behind event `seq`, whose chain digest is `chain`: get there where that takes not long."""
        if self._ready or not self._wanted:
            return
        loop = asyncio.get_running_loop()
        missing = seq - (self._kept.seq if self._kept is not None else 0)
        wait_s = WAIT_S if not self._waited else SHORT_WAIT_S if missing <= NEARLY_THERE_EVENTS else 0.0
        until_s = loop.time() + wait_s
        self._waited = True
        while (kept := self._kept) is None or kept.seq < seq or not kept.met:
            self._moved.clear()
            try:
                async with asyncio.timeout_at(until_s):
                    await self._moved.wait()
            except TimeoutError:
                return
        await self._stop_reading()
        if kept is not self._kept:
            self._read_on()  # it failed on the last stretch
            return
        try:
            kept.write()
        except StoreDamaged as error:
            self._fail(error)
            return
        if kept.seq > seq:
            self._read_on()  # another decider wrote these: this one does not know yet that it leads no more
            return
        if kept.chain != chain:
            self._fail(Diverged("other_chain", f"event {seq} of the log is not the one the leader wrote"))
            return
        self._ready, self._waited, self._failures = True, False, 0
        self._stats.holders, self._stats.holders_seq = "ready", seq

    def committed(self, seq: int, chain: bytes, events: int) -> None:
        """The leader's transaction of so many events, the last of them `seq`, is in the log."""
        kept = self._kept
        if not self._ready or kept is None:
            return
        if kept.seq != seq:
            # A fact that was then written off: what it would have caused was seen, but is not in the log.
            self.released()
            return
        try:
            kept.commit(chain, events)
        except Exception as error:
            self._fail(error)
        else:
            self._stats.holders_seq = seq

    def discard(self) -> None:
        """Forget what was seen and is not in the log."""
        if self._ready and self._kept is not None:
            try:
                self._kept.discard()
            except Exception as error:
                self._fail(error)

    def released(self) -> None:
        """Nobody leads any more, or what was seen and what is in the log have parted: read on from the last commit."""
        if not self._ready:
            return
        self.discard()
        self._ready = False
        self._read_on()

    async def close(self) -> None:
        """Stop reading and free the directory. May be called twice."""
        self._wanted = self._ready = False
        await self._stop_reading()
        self._let_go()
        self._stats.holders = "off"

    # -- reading the log --------------------------------------------------------------------------------------------------------

    def _read_on(self) -> None:
        if self._wanted and self._task is None:
            self._stats.holders = "behind"
            self._task = asyncio.get_running_loop().create_task(self._keep_up())

    async def _stop_reading(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _keep_up(self) -> None:
        """Read the log until it is cancelled: what cannot be read is dropped, and made again after a pause."""
        while True:
            try:
                await asyncio.sleep(self._pause_s())
                kept = await self._open()
                follower = await self._follow(kept)
                try:
                    await self._read(kept, follower)
                finally:
                    await follower.close()
            except LogUnavailable as error:
                self._failures += 1
                say(_log, logging.WARNING, "waiting for the log", shard=self._shard, because=str(error))
            except Exception as error:
                self._drop(error)

    def _pause_s(self) -> float:
        """None before the first attempt and after the first failure, then growing."""
        return min(LONGEST_PAUSE_S, 2.0 ** (self._failures - 2)) if self._failures > 1 else 0.0

    async def _follow(self, kept: FoldedHolders) -> Follower:
        beginning = None if kept.seq == 0 else kept.read_from
        return await self._log.follow({self._partition: beginning})

    async def _read(self, kept: FoldedHolders, follower: Follower) -> None:
        while True:
            try:
                found = await follower.read(max_records=READ_RECORDS, timeout_ms=READ_MS)
            except OffsetPastEnd as error:
                raise Diverged("ahead_of_log", str(error)) from error
            records = found.get(self._partition, ())
            began_s = time.monotonic()
            for record in records:
                kept.take(record)
                if kept.table.full:
                    kept.write()
                if time.monotonic() - began_s > SLICE_S:
                    self._moved.set()
                    await asyncio.sleep(0)
                    began_s = time.monotonic()
            if records:
                kept.write()
                self._stats.holders_seq = kept.seq
            elif kept.met:
                self._failures = 0  # it has come to the end of the log
            elif await follower.position(self._partition) >= await follower.end_offset(self._partition):
                raise Diverged(
                    "ahead_of_log", f"the log ends before event {kept.seq}, up to which these rows were folded"
                )
            self._moved.set()
            await asyncio.sleep(0)  # a read of what is buffered does not yield

    # -- opening and dropping ---------------------------------------------------------------------------------------------------

    async def _open(self) -> FoldedHolders:
        if self._kept is None:
            rows: Rows
            if self._directory is None:
                rows = MemoryRows()
            else:
                cluster_id, topic_id = await self._log.cluster_id(), await self._log.topic_id(EVENTS)
                rows = self._store = self._first_free(self._directory, cluster_id, topic_id)
                for reason, count in self._store.dropped.items():
                    if reason != "damaged" or not self._failures:  # else it was counted when it was marked
                        self._count_drop(reason, count)
            self._kept = FoldedHolders(rows, self._shard)
        return self._kept

    def _first_free(self, directory: Path, cluster_id: str, topic_id: str) -> Store:
        """The store in the first directory that nobody has open, so that leader and standby can share a home."""
        for number in range(MOST_DIRECTORIES):
            try:
                return Store.open(directory / str(number), cluster_id=cluster_id, topic_id=topic_id)
            except StoreLocked:
                continue
        raise NoFreeDirectory(
            f"{directory}/0 to {directory}/{MOST_DIRECTORIES - 1} are all open in other deciders of shard {self._shard}: "
            "give this one a --data-dir of its own"
        )

    def _fail(self, error: Exception) -> None:
        """In the middle of a decision: it goes on without, and the rows are made again."""
        self._ready = False
        self._drop(error)
        self._read_on()

    def _drop(self, error: Exception) -> None:
        """Throw the rows away and say why; whatever it was, a decision must not be stopped by it."""
        self._failures += 1
        reason = error.reason if isinstance(error, Diverged) else type(error).__name__
        self._count_drop(reason, 1)
        unforeseen = not isinstance(error, Diverged | StoreDamaged | NoFreeDirectory | OSError)
        say(
            _log,
            logging.ERROR if unforeseen else logging.WARNING,
            "what endpoints hold is made again from the log; placements go on without",
            shard=self._shard,
            reason=reason,
            error=str(error),
            seq=self._kept.seq if self._kept is not None else 0,
            pause_s=self._pause_s(),
            **({"traceback": "".join(traceback.format_exception(error))} if unforeseen else {}),
        )
        store = self._store
        if store is not None and not isinstance(error, StoreDamaged):  # which has marked it already
            try:
                store.damage("go on from the log", error)
            except OSError as unwritable:
                say(_log, logging.WARNING, "it cannot be marked", shard=self._shard, error=str(unwritable))
        self._let_go()

    def _count_drop(self, reason: str, count: int) -> None:
        drops = self._stats.holders_dropped
        drops[reason] = drops.get(reason, 0) + count

    def _let_go(self) -> None:
        store, self._store, self._kept = self._store, None, None
        if store is not None:
            store.close()
