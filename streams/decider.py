"""The decider of one shard: follows the log while another leads, takes over when it falls silent, decides, and gives up when fenced.

One object per shard; one process may run several over one log. The class runs unchanged on Kafka and on the in-memory log. It holds
nothing that cannot be dropped: after any doubt (a commit without an answer, a writer that was fenced) the state is folded anew
from the events. `streams.ownership` has the diagram of its roles, `streams.leadership` what a leader does.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Final

from events.indexing import build_indexes
from streams.errors import Fenced, LogUnavailable, OffsetTrimmed, OutcomeUnknown
from streams.health import DeciderStats
from streams.holders import prefers
from streams.leadership import Leadership, Limits, transactional_id
from streams.log import Follower, Log, Partition, Writer
from streams.log_lines import say
from streams.own_holders import OwnHolders
from streams.ownership import Ownership, Role, Watch
from streams.pacing import Pacing
from streams.recovery import BATCH_RECORDS, Fold, fold_to_end, without_collection
from streams.snapshots.recovering import start_of
from streams.ticker import TICK, Schedule, Ticker, pause
from streams.topics import EVENTS, FACTS, PLACEMENTS, WORKER_COMMANDS

FIRST_BACK_OFF_S: Final = 0.1
LONGEST_BACK_OFF_S: Final = 5.0
_FOLLOW_POLL_MS: Final = 50

_log = logging.getLogger("headway.decider")


def this_build() -> str:
    """The build that LeaderElected records."""
    return f"headway {metadata.version('headway')}"


def monotonic_us() -> int:
    """This process's own monotonic clock in microseconds."""
    return time.monotonic_ns() // 1000


@dataclass(frozen=True, slots=True)
class DeciderOptions:
    """How a decider behaves.

    Args:
        rank: place in the line of standbys; each waits 300 ms longer than the one before.
        claim: take the shard at start without waiting for a silence, fencing a leader that may be at work. For where no other
            decider is meant to run.
        ticks: publish ticks; off in tests that set the time themselves.
        skip_lost_facts: where retention removed facts that were never decided, go on behind them (said in the log lines) instead
            of refusing to start.
        limits: how much is done at once.
        build: recorded in LeaderElected.
        data_dir: where what endpoints hold is kept for placements that ask for it, below it one directory per shard and decider; None
            keeps it in memory.
    """

    rank: int = 0
    claim: bool = False
    ticks: bool = True
    skip_lost_facts: bool = False
    limits: Limits = field(default_factory=Limits)
    build: str = ""
    data_dir: Path | None = None


class Decider:
    """Decides the facts of one shard for as long as `run` runs and no other decider takes over.

    Args:
        log: where everything is read and written. It is not closed here.
        shard: its number, the partition of all topics.
        monotonic_us: the clock silences and durations are measured with.

    `stats` are the counters, `role` where it stands.
    """

    def __init__(
        self,
        log: Log,
        shard: int,
        *,
        options: DeciderOptions | None = None,
        monotonic_us: Callable[[], int] = monotonic_us,
    ) -> None:
        self.shard = shard
        self.options = options or DeciderOptions()
        self.stats = DeciderStats(shard, rank=self.options.rank)
        self._log = log
        self._monotonic_us = monotonic_us
        self._ownership = Ownership()
        self._build = self.options.build or this_build()
        self._events_at: Partition = (EVENTS, shard)
        self._facts_at: Partition = (FACTS, shard)
        self._claim = self.options.claim
        self._schedule = Schedule()
        self._ticker = Ticker(
            log, shard, wanted=self._tick_wanted, published=self._tick_published, monotonic_us=monotonic_us
        )
        data_dir = self.options.data_dir
        directory = None if data_dir is None else data_dir / f"shard-{shard}"
        self._holders = OwnHolders(log, shard, directory, self.stats)
        self._fold: Fold | None = None
        self._events: Follower | None = None
        self._facts: Follower | None = None
        self._writer: Writer | None = None
        self._leadership: Leadership | None = None
        self._watch: Watch | None = None

    @property
    def role(self) -> Role:
        """Where this decider stands now."""
        return self._ownership.role

    async def run(self, stop: asyncio.Event) -> None:
        """Follow, lead and follow again until `stop` is set; then finish the batch at hand and close.

        An unreachable log is waited for, being fenced and unknown outcomes are recovered from.

        Raises:
            DamagedLog: the event log must not be folded any further.
            OtherLog: the events belong to another cluster or to other topics.
            OffsetTrimmed, OffsetPastEnd: facts that were not decided yet are gone, or the facts topic lost its end.
            NoSuchTopic, NoSuchPartition: the topics were not made, or have fewer shards.
            Refused: a topic takes less than the shipped topic table says.
        """
        ticking = asyncio.create_task(self._ticker.run(stop)) if self.options.ticks else None
        working = asyncio.create_task(self._work(stop))
        tasks = [task for task in (working, ticking) if task is not None]
        try:
            # Both end when `stop` is set; when one fails before, the other must not go on as if nothing had happened.
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await self._drop()
            await self._holders.close()
            if self.role is not Role.STOPPED:
                self._move(Role.STOPPED, "it ended")
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    # -- the loop over the roles ------------------------------------------------------------------------------------------

    async def _work(self, stop: asyncio.Event) -> None:
        back_off_s = FIRST_BACK_OFF_S
        while not stop.is_set():
            role = self.role
            try:
                if role is Role.FOLLOWING:
                    to, because = await self._follow(stop)
                elif role is Role.OPENING:
                    to, because = await self._open(), "LeaderElected is in the log"
                elif role is Role.LEADING:
                    to, because = await self._lead(stop), "asked to stop"
                else:
                    await self._drop()
                    to, because = Role.FOLLOWING, "fenced"
                back_off_s = FIRST_BACK_OFF_S
            except Fenced as error:
                self.stats.fencings += 1
                to, because = Role.FENCED, str(error)
            except OutcomeUnknown as error:
                # Never guess whether it happened: the log says so once the id is ours again.
                self.stats.unknown_outcomes += 1
                await self._drop()
                to, because = Role.OPENING, str(error)
            except LogUnavailable as error:
                self.stats.unavailable += 1
                say(_log, logging.WARNING, "the log is away", shard=self.shard, role=role.value, error=str(error))
                await self._drop()
                await pause(stop, back_off_s)
                back_off_s = min(2 * back_off_s, LONGEST_BACK_OFF_S)
                to, because = (Role.OPENING if role is Role.LEADING else Role.FOLLOWING), "the log was away"
            if stop.is_set():
                to, because = Role.STOPPED, "asked to stop"
            if to is not self.role:
                self._move(to, because)

    async def _follow(self, stop: asyncio.Event) -> tuple[Role, str]:
        """Fold what the leader writes until its silence is this rank's to end; returns the role to move to, and why."""
        fold, events = await self._warm()
        position = fold.shard.position
        self._facts = facts = await self._log.follow({self._facts_at: position + 1})
        watch = self._watch = Watch(self.options.rank, self._monotonic_us())
        if self._claim:
            self._claim = False
            return Role.OPENING, "claimed"
        if self.options.rank == 0 and fold.shard.seq == 0:
            return Role.OPENING, "the log never had a leader"
        await self._prepare(facts)
        if not fold.shard.live:
            # Now rather than at a takeover, which would take as long as the queue is; folding on with indexes costs a sixth more.
            with without_collection():
                build_indexes(fold.shard)
        try:
            while not stop.is_set():
                found = await events.read(max_records=BATCH_RECORDS, timeout_ms=_FOLLOW_POLL_MS)
                if records := found.get(self._events_at):
                    fold.apply(records)
                    self._note_fold(fold)
                    await self._holders.want(prefers(fold.shard))
                    watch.events_seen(fold.shard.position, self._monotonic_us())
                await self._watch_facts(facts, watch)
                now_us = self._monotonic_us()
                if watch.takeover_due(now_us) and await self._caught_up(events):
                    return Role.OPENING, f"no event for {watch.silent_us(now_us) // 1000} ms while a fact waits"
        finally:
            self._watch = None
        return Role.STOPPED, "asked to stop"

    async def _prepare(self, facts: Follower) -> None:
        """Connect for all that a takeover asks, so that it is spared finding out where to: half of what it takes."""
        await self._log.prepare(
            transactional_id(self.shard),
            [(topic, self.shard) for topic in (EVENTS, PLACEMENTS, WORKER_COMMANDS)],
            timeout_ms=self.options.limits.commit_timeout_ms,
        )
        await facts.end_offset(self._facts_at)

    async def _watch_facts(self, facts: Follower, watch: Watch) -> None:
        """See which facts have come; what they say is of no interest before this decider leads."""
        try:
            records = (await facts.read(timeout_ms=1)).get(self._facts_at)
        except OffsetTrimmed as error:
            # Facts the leader has decided long ago may be gone; those it has not are noticed on opening.
            facts.seek(self._facts_at, error.first)
            return
        if records:
            now_us = self._monotonic_us()
            watch.facts_seen(records[-1].offset, now_us)
            if any(record.value == TICK for record in records):
                watch.tick_seen(now_us)

    async def _open(self) -> Role:
        """Become the owner; see `Leadership.open`."""
        self._writer = await self._log.open(
            transactional_id(self.shard), timeout_ms=self.options.limits.commit_timeout_ms
        )
        fold, events = await self._warm(to_end=False)
        self._fold = None  # it becomes the leader's state, which no follower may fold on
        if self._facts is None:
            self._facts = await self._log.follow({self._facts_at: None})
        self._leadership = await Leadership.open(
            self._log,
            fold,
            events,
            self._facts,
            self._writer,
            self._holders,
            build=self._build,
            limits=self.options.limits,
            stats=self.stats,
            monotonic_us=self._monotonic_us,
        )
        self._note_fold(fold)
        await self._seek_facts(fold.shard.position + 1)
        self.stats.takeovers += 1
        return Role.LEADING

    async def _seek_facts(self, offset: int) -> None:
        assert self._facts is not None, "a leader follows the facts from its opening on"
        first = await self._facts.beginning_offset(self._facts_at)
        if offset < first and self.options.skip_lost_facts:
            say(
                _log,
                logging.WARNING,
                "facts are lost that were never decided",
                shard=self.shard,
                from_offset=offset,
                to_offset=first - 1,
            )
            offset = first
        self._facts.seek(self._facts_at, offset)

    async def _lead(self, stop: asyncio.Event) -> Role:
        """Decide facts as they come."""
        leadership, facts, limits = self._leadership, self._facts, self.options.limits
        assert leadership is not None
        assert facts is not None
        most_facts = min(limits.first_facts, limits.most_facts)
        pacing = Pacing(limits.gather_us, self._monotonic_us())
        while not stop.is_set():
            if wait_us := pacing.wait_us(self._monotonic_us()):
                await asyncio.sleep(wait_us / 1e6)
            found = await facts.read(max_records=most_facts, timeout_ms=limits.poll_ms, drain=not pacing.rested)
            records = found.get(self._facts_at)
            if records:
                await leadership.decide(records)
                pacing.spent(len(records))
                most_facts = limits.most_facts
        return Role.STOPPED

    # -- what it holds ------------------------------------------------------------------------------------------------------

    async def _warm(self, *, to_end: bool = True) -> tuple[Fold, Follower]:
        """The fold and its follower, made when there are none; folded to the end when asked to, or made anew."""
        if self._fold is not None and self._events is not None and not to_end:
            return self._fold, self._events
        with without_collection():
            fold, events = await self._folded()
            divergence = fold.shard.divergence
            if divergence is not None and divergence.seq == self.stats.snapshot_seq:
                # It began at a snapshot of which the events behind it say that two folds differ there.
                self._fold = None
                await events.close()
                fold, events = await self._folded(contradicted=divergence.seq)
        self._note_fold(fold)
        await self._holders.want(prefers(fold.shard))
        return fold, events

    async def _folded(self, *, contradicted: int = 0) -> tuple[Fold, Follower]:
        """The fold at the end of the log, begun at the newest snapshot that can be used where there is none yet."""
        if self._fold is None or self._events is None:
            self._fold = fold = await start_of(
                self._log, self.shard, dropped=self.stats.snapshots_dropped, contradicted=contradicted
            )
            self.stats.snapshot_seq = fold.shard.seq
            self._events = await self._log.follow({self._events_at: fold.next_offset or None})
        await fold_to_end(self._fold, self._events, monotonic_us=self._monotonic_us)
        return self._fold, self._events

    async def _caught_up(self, events: Follower) -> bool:
        """Whether every committed event is folded: one that was not read yet may be the one that is missed."""
        return await events.position(self._events_at) >= await events.end_offset(self._events_at)

    def _note_fold(self, fold: Fold) -> None:
        self.stats.seq, self.stats.position = fold.shard.seq, fold.shard.position
        self.stats.leader_epoch, self.stats.stale_events = fold.shard.leader_epoch, fold.stale

    async def _drop(self) -> None:
        """Let go of writer, followers and state."""
        writer, events, facts = self._writer, self._events, self._facts
        self._holders.released()
        self._writer = self._events = self._facts = self._leadership = self._fold = self._watch = None
        for held in (writer, events, facts):
            if held is not None:
                await held.close()

    def _move(self, to: Role, because: str) -> None:
        before = self._ownership.move(to)
        self.stats.role = to.value
        if to is Role.LEADING:
            self._schedule = Schedule()
        if to in (Role.LEADING, Role.STOPPED):
            # A new leader's first tick is due at once. Where nothing else comes it is also what answers the long poll that the facts were
            # waiting in, before which those that wait already could not be read.
            self._ticker.look()
        say(
            _log,
            logging.WARNING if to is Role.FENCED else logging.INFO,
            f"{before.value} to {to.value}",
            shard=self.shard,
            rank=self.options.rank,
            leader_epoch=self.stats.leader_epoch,
            seq=self.stats.seq,
            because=because,
        )

    # -- ticks --------------------------------------------------------------------------------------------------------------

    def _tick_wanted(self, now_us: int) -> bool:
        self.stats.ticks, self.stats.tick_failures = self._ticker.ticks, self._ticker.failures
        if self.role is Role.LEADING:
            return self._schedule.due(now_us)
        return self._watch is not None and self._watch.tick_due(now_us)

    def _tick_published(self, now_us: int) -> None:
        if self._watch is not None:
            self._watch.tick_seen(now_us)


async def run_deciders(deciders: Sequence[Decider], stop: asyncio.Event) -> list[Exception]:
    """Run the deciders of several shards until `stop`; returns the errors of those that ended before.

    A shard whose log is damaged must not stop the others, so each error is said when it happens and the rest goes on.
    """
    errors: list[Exception] = []

    async def run(decider: Decider) -> None:
        try:
            await decider.run(stop)
        except Exception as error:
            errors.append(error)
            say(_log, logging.ERROR, "the decider of a shard has stopped", shard=decider.shard, error=str(error))

    await asyncio.gather(*(run(decider) for decider in deciders))
    return errors
