"""Shadow mode: this build follows a shard's facts and events, decides each fact again, and publishes where it would have decided otherwise.

It reads committed records and writes to the audit topic alone, under a transactional id of its own that no decider has. It holds nothing
that cannot be dropped: divergences stand in one transaction with how far it is, so a shadow that was killed goes on behind the last
one and says nothing twice. What it follows from there on it folds from the log's beginning, as a decider does.

| step | if it dies right after |
|---|---|
| 1. open its id, read its own last progress back | nothing was written; an open transaction of the shadow before it is aborted |
| 2. fold events up to there, decide facts behind it | nothing was written |
| 3. append divergences and progress, in one transaction | all of it or nothing; the next one goes on behind what is there |
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any, ClassVar, Final

from events.errors import HeadwayError
from events.events import LeaderElected
from projections.redeciding import Divergence, Judged, Redeciding
from streams.audit import Progress, diverged_record, last_progress, progress_record
from streams.decider import FIRST_BACK_OFF_S, LONGEST_BACK_OFF_S, monotonic_us
from streams.errors import Fenced, LogUnavailable, OutcomeUnknown, StreamError
from streams.event_tail import EventOrder
from streams.log import Follower, Log, Outgoing, Partition, Record, Writer
from streams.log_lines import say
from streams.recovery import check_identity
from streams.ticker import pause
from streams.topics import AUDIT, EVENTS, FACTS

READ_AT_ONCE: Final = 2_000
CLOSE_AT_BYTES: Final = 1 << 20
PROGRESS_US: Final = 10_000_000
SAY_US: Final = 5_000_000
FACT_PATIENCE_US: Final = 5_000_000
"""How long a fact that an event names may be missing at the end of the facts topic before it counts as not there."""

CATCHING_UP: Final = "catching up"
FOLLOWING: Final = "following"
STOPPED: Final = "stopped"

_log = logging.getLogger("headway.shadow")


class JudgedFurther(StreamError):
    """The cluster's log has been judged by this auditor further than it reaches now."""

    code: ClassVar[str] = "shadow-ahead"
    runbook: ClassVar[str] = (
        "The event log is shorter than it was: was it restored from a copy? `headway replay` says how far it goes."
    )

    def __init__(self, shard: int, judged_seq: int, seq: int) -> None:
        super().__init__(
            f"shard {shard} was judged up to event {judged_seq}, and its log ends at event {seq}",
            remedy="Find out what became of the events in between before anything is decided on this log",
        )


class AnotherShadow(StreamError):
    """Two processes of one auditor judge the same shard; the later one goes on."""

    code: ClassVar[str] = "another-shadow"
    runbook: ClassVar[str] = (
        "One shadow of a build and shard is enough: stop the other process, or let it run and leave this one."
    )

    def __init__(self, shard: int, auditor: str) -> None:
        super().__init__(
            f"another process judges shard {shard} as {auditor!r} now",
            remedy="It goes on where this one was; `headway shadow status` shows how far it is",
        )


@dataclass(slots=True)
class ShadowStats:
    """Where the shadow of one shard is. `behind` counts offsets to the end of the events, `published` divergences since it started."""

    shard: int
    auditor: str = ""
    role: str = CATCHING_UP
    seq: int = 0
    position: int = -1
    behind: int = 0
    resumed_from: int = 0
    published: int = 0
    stale_events: int = 0
    unavailable: int = 0
    builds: dict[str, int] = field(default_factory=dict)
    judged: Judged = field(default_factory=Judged)

    @property
    def well(self) -> bool:
        """Whether it judges, or waits for more."""
        return self.role != STOPPED

    def as_dict(self) -> dict[str, Any]:
        """All counters by name."""
        return asdict(self)


def transactional_id(shard: int, auditor: str) -> str:
    """The id that one auditor's shadow of a shard opens: the same for every process of it, and never a decider's."""
    return f"headway-shadow-{shard}-{blake2b(auditor.encode(), digest_size=8).hexdigest()}"


class Shadow:
    """Judges one shard until it is stopped, or until it has come to the end of now.

    Args:
        log: read, and written to in the audit topic. It is not closed here.
        shard: its number, the partition of all topics.
        auditor: who judges, `audit.this_auditor()` for this build.
        monotonic_us: the clock that pauses are measured with; nothing that is judged depends on it.

    `stats` are the counters.
    """

    def __init__(self, log: Log, shard: int, *, auditor: str, monotonic_us: Callable[[], int] = monotonic_us) -> None:
        self.shard = shard
        self.stats = ShadowStats(shard, auditor)
        self.caught_up = False
        self._log, self._auditor, self._monotonic_us = log, auditor, monotonic_us

    async def run(self, stop: asyncio.Event, *, until_caught_up: bool = False) -> None:
        """Judge until `stop` is set; with `until_caught_up` also no further than the last stable offset at the start.

        An unreachable log is waited for; a commit without an answer is looked up in the audit topic.

        Raises:
            AnotherShadow: another process runs the same shadow of this shard.
            DamagedLog, CannotFollow: the event log must not be followed any further; what was found before is published.
            OtherLog: the events belong to another cluster or to other topics.
            OffsetTrimmed: retention took facts away faster than they were judged.
            NoSuchTopic, NoSuchPartition: the topics were not made, or have fewer shards.
        """
        back_off_s = FIRST_BACK_OFF_S
        try:
            while not stop.is_set():
                try:
                    if await self._judge_until(stop, until_caught_up):
                        return
                except Fenced as error:
                    raise AnotherShadow(self.shard, self._auditor) from error
                except (LogUnavailable, OutcomeUnknown) as error:
                    self.stats.unavailable += 1
                    say(_log, logging.WARNING, "the log is away", shard=self.shard, error=str(error))
                    await pause(stop, back_off_s)
                    back_off_s = min(2 * back_off_s, LONGEST_BACK_OFF_S)
        finally:
            self.stats.role = STOPPED

    async def _judge_until(self, stop: asyncio.Event, until_caught_up: bool) -> bool:
        """One life on the log; returns whether it is over for good."""
        topic_id = await self._log.topic_id(EVENTS)
        writer = await self._log.open(transactional_id(self.shard, self._auditor))
        judging = None
        try:
            progress = await last_progress(self._log, self.shard, self._auditor)
            judging = await _Judging.begin(self._log, writer, progress, topic_id, self.stats, self._monotonic_us)
            self.caught_up = await judging.catch_up(stop)
            if self.caught_up and not until_caught_up:
                await judging.follow(stop)
            return True
        finally:
            if judging is not None:
                await judging.close()
            await writer.close()


class _Judging:
    """The two followers, the judgement over them, and what is not published yet."""

    def __init__(
        self,
        log: Log,
        writer: Writer,
        facts: Follower,
        events: Follower,
        redeciding: Redeciding,
        topic_id: str,
        stats: ShadowStats,
        monotonic_us: Callable[[], int],
    ) -> None:
        shard = stats.shard
        self._log, self._writer, self._facts, self._events = log, writer, facts, events
        self._redeciding, self._topic_id, self._stats = redeciding, topic_id, stats
        self._monotonic_us = monotonic_us
        self._facts_at: Partition = (FACTS, shard)
        self._events_at: Partition = (EVENTS, shard)
        self._order = EventOrder(self._events_at, from_first=True)
        self._pending: list[Outgoing] = []
        self._pending_bytes = 0
        self._published_seq = max(0, redeciding.judge_from - 1)
        self._facts_through = redeciding.facts_from  # every fact below is given
        self._published_us = self._said_us = monotonic_us()

    @classmethod
    async def begin(
        cls,
        log: Log,
        writer: Writer,
        progress: Progress | None,
        topic_id: str,
        stats: ShadowStats,
        monotonic_us: Callable[[], int],
    ) -> _Judging:
        """Stand at the beginning of the events, and of the facts behind those that were judged before."""
        facts_at, events_at = (FACTS, stats.shard), (EVENTS, stats.shard)
        events = await log.follow({events_at: None})
        facts = await log.follow({facts_at: None})
        first = await facts.beginning_offset(facts_at)
        begin = first if progress is None else max(first, progress.next_fact_offset)
        facts.seek(facts_at, begin)
        redeciding = Redeciding(
            facts_from=begin,
            judge_from=0 if progress is None else progress.seq + 1,
            judged=None if progress is None else progress.judged,
        )
        stats.resumed_from = 0 if progress is None else progress.seq
        stats.role = CATCHING_UP
        say(
            _log,
            logging.INFO,
            "judging",
            shard=stats.shard,
            auditor=stats.auditor,
            from_seq=redeciding.judge_from,
            from_fact=begin,
        )
        return cls(log, writer, facts, events, redeciding, topic_id, stats, monotonic_us)

    async def catch_up(self, stop: asyncio.Event) -> bool:
        """Judge up to the last stable offset of now; returns whether it got there."""
        end = await self._events.end_offset(self._events_at)
        while not stop.is_set() and await self._events.position(self._events_at) < end:
            await self._some(end)
            await self._publish_if_due()
        caught_up = not stop.is_set()
        if caught_up:
            await self._finish()
            self._check_reached()
            await self._check_identity()
        await self._publish()
        self._say(CATCHING_UP if not caught_up else "caught up")
        return caught_up

    async def follow(self, stop: asyncio.Event) -> None:
        """Judge what comes."""
        self._stats.role = FOLLOWING
        while not stop.is_set():
            came = await self._some(None)
            at_end = not came and await self._at_end()
            if at_end:
                # The end of the committed records is the end of a transaction, and no fact's events stand in two of them.
                await self._finish()
            if at_end and self._pending:
                await self._publish()
            await self._publish_if_due()
        await self._publish()

    async def _at_end(self) -> bool:
        end = await self._events.end_offset(self._events_at)
        self._stats.behind = max(0, end - await self._events.position(self._events_at))
        return self._stats.behind == 0

    async def _some(self, end: int | None) -> bool:
        """Read and judge some events, below offset `end` where one is given; returns whether any came."""
        records = (await self._events.read(max_records=READ_AT_ONCE, timeout_ms=200)).get(self._events_at, [])
        try:
            for record in records:
                if end is not None and record.offset >= end:
                    # Seen once more by who follows; a transaction never lies across the last stable offset.
                    self._events.seek(self._events_at, record.offset)
                    break
                await self._take(record)
                if self._pending_bytes >= CLOSE_AT_BYTES:
                    await self._publish()
        except HeadwayError:
            await self._publish()  # what was found before the damage
            raise
        if end is not None:
            self._stats.behind = max(0, end - await self._events.position(self._events_at))
        if self._monotonic_us() - self._said_us >= SAY_US and self._stats.role == CATCHING_UP:
            self._say(CATCHING_UP)
        return bool(records)

    async def _take(self, record: Record) -> None:
        event = self._order.next(record)
        if event is None:
            self._stats.stale_events += 1
            return
        redeciding = self._redeciding
        if event.seq >= redeciding.judge_from and event.cause_offset >= self._facts_through:
            await self._give_facts(event.cause_offset)
        self._note(redeciding.add_event(record.offset, event))
        if type(event) is LeaderElected and self._stats.role == FOLLOWING:
            await self._check_identity()

    async def _finish(self) -> None:
        """The events so far are whole; publish and raise where one of them cannot be followed."""
        self._note(self._redeciding.finish())
        if self._redeciding.broken is not None:
            await self._publish()
            raise self._redeciding.broken

    async def _check_identity(self) -> None:
        found = {"cluster_id": await self._log.cluster_id(), "facts_topic_id": await self._log.topic_id(FACTS)}
        check_identity(self._redeciding.state, events_topic_id=self._topic_id, **found)

    async def _give_facts(self, cause: int) -> None:
        """Read facts until the one at offset `cause` is there, or cannot come."""
        facts, at = self._facts, self._facts_at
        heard_us = self._monotonic_us()
        while await facts.position(at) <= cause:
            records = (await facts.read(max_records=READ_AT_ONCE, timeout_ms=200)).get(at, [])
            if records:
                self._redeciding.add_facts(records, through=records[-1].offset + 1)
                heard_us = self._monotonic_us()
            elif (waited_us := self._monotonic_us() - heard_us) >= FACT_PATIENCE_US:
                if await facts.end_offset(at) <= cause:
                    break  # the topic ends before it
                what = f"reading fact {cause} from {at[0]}[{at[1]}]"
                raise LogUnavailable(what, address=f"shard {at[1]}", waited_ms=waited_us // 1_000)
        self._facts_through = max(cause + 1, await facts.position(at))
        self._redeciding.add_facts((), through=self._facts_through)

    def _check_reached(self) -> None:
        if self._redeciding.seq < self._published_seq:
            raise JudgedFurther(self._stats.shard, self._published_seq, self._redeciding.seq)

    # -- what is found --------------------------------------------------------------------------------------------------------

    def _note(self, found: Sequence[Divergence]) -> None:
        stats, redeciding = self._stats, self._redeciding
        stats.seq, stats.position, stats.judged = redeciding.seq, redeciding.position, redeciding.judged
        stats.builds = redeciding.builds
        for one in found:
            record = diverged_record(stats.auditor, self._topic_id, one)
            self._pending.append(record)
            self._pending_bytes += len(record.value)
            say(
                _log,
                logging.WARNING,
                "decided otherwise",
                shard=stats.shard,
                seq=one.seq,
                offset=one.offset,
                cause_offset=one.cause_offset,
                fact=one.fact_kind or None,
                difference=one.difference.name.lower(),
                fields=",".join(one.fields) or None,
                error=one.error or None,
            )

    async def _publish_if_due(self) -> None:
        """Say now and then how far this is, so that a restart has little to judge again."""
        if self._monotonic_us() - self._published_us >= PROGRESS_US:
            await self._publish()

    async def _publish(self) -> None:
        """Append what was found and how far this is, in one transaction. Nothing new: nothing is written."""
        redeciding = self._redeciding
        self._published_us = self._monotonic_us()
        if redeciding.seq <= self._published_seq:
            return
        progress = Progress(redeciding.seq, redeciding.position + 1, redeciding.judged)
        records = [*self._pending, progress_record(self._stats.auditor, self._topic_id, progress)]
        await self._writer.append({(AUDIT, self._stats.shard): records})
        self._stats.published += len(self._pending)
        self._pending, self._pending_bytes = [], 0
        self._published_seq = redeciding.seq

    def _say(self, what: str) -> None:
        stats = self._stats
        self._said_us = self._monotonic_us()
        say(
            _log,
            logging.INFO,
            what,
            shard=stats.shard,
            seq=stats.seq,
            behind=stats.behind,
            judged=stats.judged.facts,
            not_judged=stats.judged.not_judged,
            divergences=stats.judged.divergences,
        )

    async def close(self) -> None:
        """Stop reading."""
        await self._facts.close()
        await self._events.close()
