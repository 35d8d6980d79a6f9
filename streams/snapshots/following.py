"""The follower of one shard: folds its events, writes a snapshot every so often, and has another fold verify each one.

    catching up ──at the log's end──▶ following ──due──▶ writing ──manifest written──▶ following
                                          └──asked to stop, or cannot go on──▶ stopped

It decides nothing and can be killed at any moment: deciders need no snapshot to start, only more time without one. It folds no
further while it writes (the rows must stay as they are); it does while another fold verifies. What the two report is recorded by the
decider, as `Checkpointed` or `CheckpointDiverged`, and read here like everything else.

| step | if it dies right after |
|---|---|
| 1. begin at the newest usable snapshot, fold to the log's end | nothing was written |
| 2. write parts and manifest | see `writing`; once the manifest stands, deciders may begin there: they check it by themselves |
| 3. publish `StateDigested`, role written | never verified, so nothing is trimmed up to it; the next snapshot is |
| 4. another fold reads it back, folds anew, publishes `StateDigested`, role verified | as after 3; killed with this process |
| 5. the decider records `Checkpointed` | facts may be trimmed up to it |
| 5. or it records `CheckpointDiverged`: take the snapshot back, begin again | whoever follows next finds the event and takes it back |
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from events.reasons import DigestRole
from streams.decider import FIRST_BACK_OFF_S, LONGEST_BACK_OFF_S, monotonic_us, this_build
from streams.errors import LogUnavailable, OutcomeUnknown
from streams.log import Follower, Log, Record
from streams.log_lines import say
from streams.recovery import BATCH_RECORDS, Fold, check_identity, without_collection
from streams.snapshots.errors import NotRecorded, SlotTaken, SnapshotUnusable
from streams.snapshots.reading import identity
from streams.snapshots.recovering import start_of
from streams.snapshots.taking import take
from streams.snapshots.verifying import publish_digest, verify_and_report
from streams.snapshots.writing import take_back_at
from streams.ticker import pause
from streams.topics import EVENTS

CATCHING_UP: Final = "catching up"
FOLLOWING: Final = "following"
WRITING: Final = "writing"
STOPPED: Final = "stopped"

_POLL_MS: Final = 500
_SHORT_MS: Final = 50

_log = logging.getLogger("headway.snapshots")

Verifier = Callable[[Log, int, int, str], Awaitable[object]]
"""Verifies the snapshot of a shard at a seq and reports it under a name; see `verifying.verify_and_report`."""


@dataclass(frozen=True, slots=True)
class Cadence:
    """When a snapshot is due.

    Args:
        every_events: so many events after the last one; what a decider that starts has to fold at most, more or less.
        every_us: so long after the last one, where it would save at least `worth_events`.
        worth_events: fewer are folded faster than a snapshot is looked for.
        gap_us: never sooner than this after the last one, however many events there were,
        rest: nor than so many times what writing and verifying the last one took: a large state under load must not keep a core busy.
    """

    every_events: int = 200_000
    every_us: int = 600_000_000
    worth_events: int = 5_000
    gap_us: int = 10_000_000
    rest: int = 10

    def due(self, events: int, since_us: int, took_us: int = 0) -> bool:
        """Whether one is due `since_us` after the last one, which took `took_us` and which `events` events have followed."""
        if since_us < max(self.gap_us, self.rest * took_us):
            return False
        return events >= self.every_events or (since_us >= self.every_us and events >= self.worth_events)


@dataclass(slots=True)
class SnapshotStats:
    """Counters of the follower of one shard since its process started; times in microseconds of its monotonic clock.

    `snapshot_seq` is the event at which the newest snapshot stands, `checkpoint_seq` that of the newest one which the log says is verified.
    `diverged` counts those that another fold contradicted: the follower is not well any more once there was one.
    """

    shard: int
    name: str = ""
    role: str = CATCHING_UP
    seq: int = 0
    snapshot_seq: int = 0
    snapshot_bytes: int = 0
    checkpoint_seq: int = 0
    written: int = 0
    write_us: int = 0
    verify_us: int = 0
    unfinished: int = 0
    unverified: int = 0
    diverged: int = 0
    unavailable: int = 0
    stale_events: int = 0
    dropped: dict[str, int] = field(default_factory=dict)

    @property
    def well(self) -> bool:
        """Whether it follows, and no snapshot was contradicted."""
        return self.role != STOPPED and not self.diverged

    def as_dict(self) -> dict[str, Any]:
        """All counters by name."""
        return asdict(self)


class SnapshotFollower:
    """Follows one shard and keeps its snapshots.

    Args:
        log: read; written to in the snapshots and the facts topic. It is not closed here.
        shard: its number, the partition of all topics.
        name: under which it reports: `<name>/writer`, and `<name>/verifier` for the other fold.
        cadence: when a snapshot is due.
        verifier: what verifies one; by default in this process, beside the following.
        monotonic_us: the clock that pauses and durations are measured with.

    `stats` are the counters.
    """

    def __init__(
        self,
        log: Log,
        shard: int,
        *,
        name: str,
        cadence: Cadence | None = None,
        verifier: Verifier | None = None,
        monotonic_us: Callable[[], int] = monotonic_us,
    ) -> None:
        self.shard = shard
        self.name = name
        self.stats = SnapshotStats(shard, name)
        self._log = log
        self._cadence = cadence or Cadence()
        self._verifier = verifier or _verify_here
        self._monotonic_us = monotonic_us
        self.took_us = 0  # writing the last one, and verifying it

    async def run(self, stop: asyncio.Event) -> None:
        """Follow until `stop` is set; a snapshot that is being written then stays unfinished. An unreachable log is waited for.

        Raises:
            DamagedLog, HistoryTrimmed: the event log must not, or cannot, be folded.
            OtherLog: the events belong to another cluster or to other topics.
            NoSuchTopic, NoSuchPartition: the topics were not made, or have fewer shards.
            Refused: a topic takes less than the shipped topic table says.
        """
        back_off_s = FIRST_BACK_OFF_S
        try:
            while not stop.is_set():
                self.stats.role = CATCHING_UP
                try:
                    following = await _Following.begin(self)
                    try:
                        await following.follow(stop)
                    finally:
                        await following.close()
                    back_off_s = FIRST_BACK_OFF_S
                except (LogUnavailable, OutcomeUnknown) as error:
                    self.stats.unavailable += 1
                    say(_log, logging.WARNING, "the log is away", shard=self.shard, error=str(error))
                    await pause(stop, back_off_s)
                    back_off_s = min(2 * back_off_s, LONGEST_BACK_OFF_S)
        finally:
            self.stats.role = STOPPED

    async def take(self, *, wait_s: float) -> bool:
        """Write one snapshot of the log's end, verify it, and wait until the log says what came of it: True where it is checkpointed.

        False: another fold gave another state, and the snapshot was taken back.

        Raises:
            NotRecorded: no decider recorded the reports within `wait_s` seconds.
            SlotTaken, SnapshotUnusable, LogUnavailable, OutcomeUnknown and what `run` raises.
        """
        following = await _Following.begin(self)
        try:
            await following.catch_up(None)
            seq = await following.write()
            self.stats.role = FOLLOWING
            await self.verify(seq)
            return await following.recorded(seq, wait_s)
        finally:
            await following.close()
            self.stats.role = STOPPED

    async def verify(self, seq: int) -> None:
        """Have the snapshot at `seq` verified. Raises what the verifier raises."""
        began_us = self._monotonic_us()
        await self._verifier(self._log, self.shard, seq, f"{self.name}/verifier")
        took_us = self._monotonic_us() - began_us
        self.took_us += took_us
        self.stats.verify_us += took_us


async def _verify_here(log: Log, shard: int, seq: int, by: str) -> None:
    await verify_and_report(log, shard, seq, by=by)


class _Following:
    """One life on the log: a fold, the follower that feeds it, and the verification that runs beside."""

    def __init__(self, owner: SnapshotFollower, fold: Fold, events: Follower, ids: dict[str, str]) -> None:
        self._owner, self._fold, self._events, self._ids = owner, fold, events, ids
        self._stats, self._log = owner.stats, owner._log
        self._monotonic_us = owner._monotonic_us
        self._at = fold.partition
        self._snapshot_seq = fold.shard.seq
        self._since_us = self._monotonic_us()
        self._verifying: asyncio.Task[None] | None = None
        self._looked_for = 0  # the contradicted snapshot that was looked for last

    @classmethod
    async def begin(cls, owner: SnapshotFollower) -> _Following:
        """Stand at the newest usable snapshot."""
        log, stats = owner._log, owner.stats
        ids = await identity(log)
        with without_collection():
            fold = await start_of(log, owner.shard, dropped=stats.dropped)
        events = await log.follow({(EVENTS, owner.shard): fold.next_offset or None})
        stats.snapshot_seq = fold.shard.seq
        say(_log, logging.INFO, "following", shard=owner.shard, name=owner.name, from_seq=fold.shard.seq)
        return cls(owner, fold, events, ids)

    async def follow(self, stop: asyncio.Event) -> None:
        """Fold what comes and write a snapshot whenever one is due; returns at `stop`, and where this fold is not to be trusted."""
        await self.catch_up(stop)
        self._stats.role = FOLLOWING
        while not stop.is_set():
            self._apply(await self._read(_POLL_MS))
            if not await self._trusted():
                return
            self._reap()
            if self._due():
                await self._write_and_verify()

    async def catch_up(self, stop: asyncio.Event | None) -> None:
        """Fold up to what is the log's end now; where that takes long, with the snapshots that are due on the way."""
        end = await self._events.end_offset(self._at)
        with without_collection():
            while await self._events.position(self._at) < end and not (stop is not None and stop.is_set()):
                self._apply(await self._read(_POLL_MS))
                if stop is not None and self._due():
                    await self._write_and_verify()
        check_identity(self._fold.shard, **self._ids)

    async def _read(self, timeout_ms: int) -> list[Record]:
        return (await self._events.read(max_records=BATCH_RECORDS, timeout_ms=timeout_ms)).get(self._at, [])

    def _apply(self, records: list[Record]) -> None:
        fold, stats = self._fold, self._stats
        if records:
            fold.apply(records)
            stats.seq, stats.stale_events = fold.shard.seq, fold.stale
            checkpoint = fold.shard.checkpoint
            stats.checkpoint_seq = 0 if checkpoint is None else checkpoint.seq

    # -- writing ----------------------------------------------------------------------------------------------------------

    def _due(self) -> bool:
        if self._verifying is not None:
            return False
        events = self._fold.shard.seq - self._snapshot_seq
        return self._owner._cadence.due(events, self._monotonic_us() - self._since_us, self._owner.took_us)

    async def _write_and_verify(self) -> None:
        try:
            seq = await self.write()
        except SlotTaken as error:
            self._stats.unfinished += 1
            self._since_us = self._monotonic_us()
            say(_log, logging.WARNING, "a snapshot stays unfinished", shard=self._owner.shard, error=str(error))
            return
        self._verifying = asyncio.create_task(self._verify(seq))

    async def write(self) -> int:
        """Write one now and report it; returns the seq that it stands at."""
        fold, stats = self._fold, self._stats
        check_identity(fold.shard, **self._ids)
        before, stats.role = stats.role, WRITING
        began_us = self._monotonic_us()
        checkpoint = fold.shard.checkpoint
        keep = () if checkpoint is None else (checkpoint.seq,)
        try:
            _, manifest = await take(
                self._log, fold, self._ids, build=this_build(), written_by=self._owner.name, keep=keep
            )
        finally:
            stats.role = before
            self._since_us = self._monotonic_us()
        self._owner.took_us = took_us = self._since_us - began_us
        self._snapshot_seq = stats.snapshot_seq = manifest.seq
        stats.snapshot_bytes = manifest.bytes
        stats.written += 1
        stats.write_us += took_us
        say(
            _log,
            logging.INFO,
            "a snapshot is written",
            shard=manifest.shard,
            seq=manifest.seq,
            parts=manifest.parts,
            bytes=manifest.bytes,
            digest=manifest.state_digest.hex(),
            took_ms=took_us // 1000,
        )
        await publish_digest(
            self._log,
            manifest.shard,
            manifest.seq,
            manifest.state_digest,
            manifest.next_fact_offset,
            by=f"{self._owner.name}/writer",
            role=DigestRole.WRITTEN,
        )
        return manifest.seq

    # -- what the other fold says -------------------------------------------------------------------------------------------

    async def _verify(self, seq: int) -> None:
        try:
            await self._owner.verify(seq)
        except SnapshotUnusable as error:
            self._stats.unverified += 1
            self._stats.dropped[error.reason] = self._stats.dropped.get(error.reason, 0) + 1
            say(
                _log,
                logging.ERROR,
                "a snapshot cannot be read back",
                shard=self._owner.shard,
                seq=seq,
                error=str(error),
            )
        except Exception as error:
            # It stays unverified, which harms nobody; the next one is tried again.
            self._stats.unverified += 1
            say(_log, logging.ERROR, "a snapshot is not verified", shard=self._owner.shard, seq=seq, error=str(error))

    def _reap(self) -> None:
        if self._verifying is not None and self._verifying.done():
            self._verifying.result()
            self._verifying = None

    async def _trusted(self) -> bool:
        """Whether no snapshot that still stood was contradicted; one that was is taken back, and this state is not folded on."""
        diverged = self._fold.shard.divergence
        if diverged is None or diverged.seq == self._looked_for:
            return True
        self._looked_for = diverged.seq
        if not await take_back_at(self._log, self._owner.shard, diverged.seq):
            return True
        self._stats.diverged += 1
        say(
            _log,
            logging.ERROR,
            "two folds of the same events differ, the snapshot is taken back",
            shard=self._owner.shard,
            seq=diverged.seq,
            by=diverged.by,
            other_by=diverged.other_by,
        )
        return False

    async def recorded(self, seq: int, wait_s: float) -> bool:
        """Fold on until the log says what came of the snapshot at `seq`; see `SnapshotFollower.take`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        while True:
            self._apply(await self._read(_SHORT_MS))
            checkpoint = self._fold.shard.checkpoint
            if checkpoint is not None and checkpoint.seq >= seq:
                return True
            if not await self._trusted() and self._looked_for == seq:
                return False
            if loop.time() > deadline:
                raise NotRecorded(self._owner.shard, seq, wait_s)

    async def close(self) -> None:
        """Give up the verification, and stop reading."""
        if self._verifying is not None:
            self._verifying.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._verifying
        await self._events.close()
