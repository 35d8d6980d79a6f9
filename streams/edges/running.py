"""The edges of a shard at work: one reader of its events, the cache and the relays behind it, one outbox for what they answer.

Nothing is answered before everything that was committed at the start has been read: until then a look-up may have been answered
already, or an operation that stands elsewhere may have come back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol

from events.facts import Fact, UpstreamReported
from events.reasons import UpstreamState
from streams.edges.cache import CACHE_KINDS, MOST_RESULTS, CacheEdge
from streams.edges.following import EventFollower
from streams.edges.forwards import ENDED, FORWARD_KINDS, Forward, Forwards, Target
from streams.edges.upstream import UpstreamRelay
from streams.errors import LogUnavailable, StreamError
from streams.kafka_log import KafkaLog
from streams.log import Log
from streams.log_lines import say
from streams.topics import FACTS
from streams.worker.outbox import Outbox

FOLLOW_AGAIN_S: Final = 0.5

_log = logging.getLogger("headway.edges")


class NoCluster(StreamError):
    """An upstream scheduler is named by a topic prefix on "this cluster", and there is none: the log is in memory."""

    code: ClassVar[str] = "no-cluster"
    runbook: ClassVar[str] = (
        "An embedded Headway has no other logs beside it: name bootstrap_servers, or an instance of this log."
    )

    def __init__(self, target: Target) -> None:
        super().__init__(
            f"upstream instance {target.instance!r} with topic_prefix {target.topic_prefix!r} is on no cluster: this log is in memory",
            remedy="Name its bootstrap_servers in the configuration, or leave topic_prefix out for an instance of this log",
        )


class OpenLog(Protocol):
    """From a target to its log."""

    def __call__(self, target: Target) -> Log:
        """The log of `target`; stays the callee's. Raises NoCluster."""
        ...


class UpstreamLogs:
    """The logs of other schedulers, one for each cluster and prefix. Close it at the end.

    Args:
        own: the log of this scheduler.
        bootstrap_servers: its cluster; None, it is in memory.
    """

    def __init__(self, own: Log, bootstrap_servers: str | None) -> None:
        self._own = own
        self._bootstrap_servers = bootstrap_servers
        self._others: dict[tuple[str, str], KafkaLog] = {}

    def __call__(self, target: Target) -> Log:
        """See `OpenLog`."""
        if target.is_here:
            return self._own
        address = target.bootstrap_servers or self._bootstrap_servers
        if address is None:
            raise NoCluster(target)
        place = (address, target.topic_prefix)
        if place not in self._others:
            self._others[place] = KafkaLog(address, prefix=target.topic_prefix, client_id="headway-edges")
        return self._others[place]

    async def close(self) -> None:
        """Close the logs that were opened here."""
        for log in self._others.values():
            await log.close()


@dataclass(frozen=True, slots=True)
class EdgeOptions:
    """How the edges of a shard work; see `CacheEdge` for `most_results`."""

    most_results: int = MOST_RESULTS


class ShardEdges:
    """Every edge of one shard.

    Args:
        log: the log of the shard; stays the caller's.
        open_log: where the logs of other schedulers come from.
    """

    def __init__(self, log: Log, shard: int, open_log: OpenLog, options: EdgeOptions | None = None) -> None:
        self.shard = shard
        self.cache = CacheEdge((options or EdgeOptions()).most_results)
        self.forwards = Forwards()
        self._follower = EventFollower(log, shard, CACHE_KINDS | FORWARD_KINDS)
        self._outbox = Outbox(log, (FACTS, shard))
        self._open_log = open_log
        self._relays: dict[Target, UpstreamRelay] = {}
        self._tasks: list[asyncio.Task[Any]] = []
        self._grown = asyncio.Event()
        self._answering = False

    @property
    def caught_up(self) -> bool:
        """Whether everything that was committed at the start has been read, so that questions are answered."""
        return self._follower.caught_up

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop`. What is not answered then, the next process answers.

        Raises:
            DamagedLog: the event log has a gap, a broken chain, or a record this build cannot read.
            NoSuchTopic, NoSuchPartition: the topics were not made.
            Refused: the log does not take an answer.
        """
        stopping = asyncio.create_task(stop.wait())
        self._tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._outbox.run())]
        try:
            while not stopping.done():
                growing = asyncio.create_task(self._grown.wait())
                done, _ = await asyncio.wait([stopping, growing, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
                growing.cancel()
                self._grown.clear()
                for task in done:
                    if task in self._tasks:
                        task.result()
        finally:
            stopping.cancel()
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)
            await self._follower.close()

    async def _follow(self) -> None:
        while True:
            try:
                events = await self._follower.read()
            except LogUnavailable as error:
                say(_log, logging.WARNING, "the log is away", shard=self.shard, error=str(error))
                await asyncio.sleep(FOLLOW_AGAIN_S)
                continue
            for event in events:
                if type(event) in CACHE_KINDS:
                    self.cache.take(event)
                if type(event) in FORWARD_KINDS:
                    forward = self.forwards.take(event)
                    if forward is not None and self._answering:
                        self._relay(forward)
            if not self._answering and self.caught_up:
                self._begin_to_answer()
            if self._answering:
                for answer in self.cache.answers():
                    self._put(answer)

    def _begin_to_answer(self) -> None:
        self._answering = True
        say(
            _log,
            logging.INFO,
            "caught up",
            shard=self.shard,
            seq=self._follower.seq,
            results=len(self.cache),
            open_lookups=self.cache.open_lookups,
            forwarded=len(self.forwards.open),
        )
        for forward in list(self.forwards.all()):
            self._relay(forward)

    def _relay(self, forward: Forward) -> None:
        target = forward.target
        relay = self._relays.get(target)
        if relay is not None:
            relay.changed(forward)
            return
        try:
            log = self._open_log(target)
        except NoCluster as error:
            if forward.operation_id in self.forwards.open and forward.told not in ENDED:
                state, why = UpstreamState.REFUSED, str(error)
                self._put(UpstreamReported(forward.instance, forward.operation_id, state, message=why))
            self.forwards.settle(forward)
            return
        relay = self._relays[target] = UpstreamRelay(log, target, self.forwards, self._put)
        self._tasks.append(asyncio.create_task(relay.run()))
        self._grown.set()
        say(_log, logging.INFO, "relaying", shard=self.shard, upstream=target.instance)

    def _put(self, fact: Fact) -> None:
        self._outbox.put(fact)


async def run_edges(shards: Sequence[ShardEdges], stop: asyncio.Event) -> None:
    """Run the edges of several shards until `stop`; the first error ends all of them and is raised."""
    end = asyncio.Event()
    tasks = [asyncio.create_task(each.run(end)) for each in shards]
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        end.set()
        await asyncio.wait(tasks)
    for task in tasks:
        task.result()
