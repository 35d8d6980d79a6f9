"""The scheduler state table as a Faust app: `headway state-table run`, or `faust -A streams.state_table worker`.

An agent folds the live tail of the event log into our own store; what the agent cannot be trusted with, the direct reader does
(`streams.catch_up`). The position in the store rules; Faust's committed offset is that position, as a hint.

    assigned ──▶ catching up ──▶ agent ◀──────────────▶ reader leads
                 (reader, Faust's    more than LEAD_FROM behind ─▶
                 partition paused)   ◀─ less than HAND_OVER_BELOW behind, and no faster than an agent

Any exception in the fold ends the process with its position and error code: a handler that raises in Faust loses its event, or stops
its stream, without a word. A restart catches up from the store.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, NoReturn, TypeVar

from faust.types import TP

from events.codec import envelope_of
from events.errors import HeadwayError
from projections.rows import Rows
from streams.catch_up import ShardReader, take_records
from streams.connection import bootstrap_of
from streams.errors import LogUnavailable, NoSuchTopic, StreamError
from streams.faust_transport import CommittedApp
from streams.kafka_log import KafkaLog
from streams.log import Log
from streams.log_lines import say
from streams.settings import Settings, load_settings
from streams.store import RowSnapshot, Store
from streams.topics import EVENTS
from streams.web import Views

LEAD_FROM: Final = 2_000
"""Offsets behind at which the reader takes the lead from the agent."""

HAND_OVER_BELOW: Final = 1_000
"""Offsets behind under which the agent may have it back (design, section 6)."""

AGENT_EVENTS_PER_S: Final = 500
"""A tail that is no faster goes back to the agent. An event costs an agent about twenty times the CPU it costs the reader."""

READER_EVENTS_PER_S: Final = 1_000
"""A faster tail is the reader's, also when the agent keeps up: what the agent would burn, the decider beside it needs."""

RATE_OVER_S: Final = 1.0
"""How long the tail is measured before it counts as fast."""

LOOK_S: Final = 0.25
NUDGE_S: Final = 1.0
"""Events that lie in the log for so long without the table moving are read directly."""

SILENT_NUDGES: Final = 30
"""So many nudges in a row without one event from the agent: Faust's consumer has stopped, and the process ends."""

_log = logging.getLogger("headway.state_table")

Result = TypeVar("Result")


class AgentSilent(StreamError):
    """Faust delivers no more events, though the log has them."""

    code: ClassVar[str] = "agent-silent"
    runbook: ClassVar[str] = (
        "A consumer that stopped without a word. The process restarts and catches up; often: look at the broker."
    )

    def __init__(self, shard: int, seq: int, waited_s: float) -> None:
        super().__init__(
            f"shard {shard}: no event from Faust for {waited_s:.0f} s, though the log goes on after event {seq}",
            remedy="Restart the process (a supervisor does); it goes on from its position",
        )


@dataclass(frozen=True, slots=True)
class Place:
    """Where a state table reads and keeps.

    Args:
        bootstrap_servers: the cluster.
        data_dir: its own directory; two processes never share one.
        web_port: of the views, on 127.0.0.1.
        topic_prefix: before every topic's name.
        group: the consumer group. State tables of one group share the shards among them.
    """

    bootstrap_servers: str
    data_dir: Path
    web_port: int
    topic_prefix: str = ""
    group: str = "headway-state-table"

    @property
    def member(self) -> str:
        """The static member id: the same after a restart, another one in another directory or on another machine."""
        identity = f"{socket.gethostname()}:{self.data_dir.resolve()}"
        return f"{self.group}-{hashlib.blake2b(identity.encode(), digest_size=8).hexdigest()}"


def place_of(settings: Settings, data_dir: Path | None = None) -> Place:
    """The place that the settings name; by default `<home>/state-table`, one directory per topic prefix.

    Raises NoBroker when no cluster is named and none runs in the home.
    """
    directory = data_dir or settings.home / "state-table" / (settings.topic_prefix or "default")
    return Place(bootstrap_of(settings), directory, settings.web_port, settings.topic_prefix)


@dataclass(slots=True)
class _Reading:
    """How one assigned shard is read."""

    reader: ShardReader
    task: asyncio.Task[None] | None = None
    by: str = "catching-up"  # then "agent" or "reader"
    caught_up: bool = False
    behind: int = 0
    nudges: int = 0
    led: int = 0  # times the reader took the lead
    agent_events: int = 0
    delivered_s: float = field(default_factory=time.monotonic)


class StateTable:
    """One process of the read side: the Faust app, its store, and who reads each shard at the moment.

    `log` is what the direct reader reads; by default that of the place.
    """

    def __init__(self, place: Place, log: Log | None = None) -> None:
        self.place = place
        self.log = log or KafkaLog(place.bootstrap_servers, prefix=place.topic_prefix, client_id=place.member)
        self.app = self._make_app()
        self._topic = place.topic_prefix + EVENTS
        self._store: Store | None = None
        self._readings: dict[int, _Reading] = {}
        self._assigned: set[int] = set()
        self._warming: asyncio.Task[None] | None = None
        self._began_us = time.time_ns() // 1000
        self._make_agent()
        Views(self, clock_us=lambda: time.time_ns() // 1000).add_to(self.app.web.web_app)

    # -- the app --------------------------------------------------------------------------------------------------------------

    def _make_app(self) -> CommittedApp:
        place = self.place
        return CommittedApp(
            place.topic_prefix + place.group,
            position=self._position,
            opening=self._open,
            broker=[f"kafka://{server}" for server in place.bootstrap_servers.split(",")],
            datadir=place.data_dir / "faust",
            autodiscover=False,
            # No leader topic and nothing declared: topics are made with `headway topics apply`, and the plain assignor suffices.
            topic_disable_leader=True,
            topic_allow_declare=False,
            table_standby_replicas=0,
            # A static member is back in 3 s where a dynamic one with default timeouts takes a minute.
            consumer_group_instance_id=place.member,
            broker_session_timeout=10.0,
            broker_heartbeat_interval=2.0,
            broker_rebalance_timeout=10.0,
            broker_request_timeout=30.0,
            producer_request_timeout=30.0,
            broker_commit_interval=1.0,
            consumer_metadata_max_age_ms=10_000,
            stream_wait_empty=False,
            worker_redirect_stdouts=False,
            web_host="127.0.0.1",
            web_bind="127.0.0.1",
            web_port=place.web_port,
        )

    def _make_agent(self) -> None:
        topic = self.app.topic(self._topic, value_type=bytes, value_serializer="raw", key_serializer="raw")

        @self.app.agent(topic, name="fold", concurrency=1)
        async def fold(stream: Any) -> None:
            async for event in stream.events():
                try:
                    await self._take(event.message)
                except Exception as error:
                    self.die("the fold failed", error)

        @self.app.on_partitions_assigned.connect
        async def assigned(sender: Any, assigned: Any, **_: Any) -> None:
            self._assign({tp.partition for tp in assigned if tp.topic == self._topic})

        @self.app.on_partitions_revoked.connect
        async def revoked(sender: Any, revoked: Any, **_: Any) -> None:
            self._revoke({tp.partition for tp in revoked if tp.topic == self._topic})

    async def _open(self) -> None:
        """Before Faust starts: the topic exists, the store is the one of this log."""
        topics = await self.log.describe_topics()
        if EVENTS not in topics:
            raise NoSuchTopic(EVENTS, topics)
        if self._store is not None:
            return
        self._store = Store.open(
            self.place.data_dir, cluster_id=await self.log.cluster_id(), topic_id=topics[EVENTS].topic_id
        )
        for reason, count in self._store.dropped.items():
            say(_log, logging.WARNING, "local state dropped, made again from the log", reason=reason, count=count)
        held = [shard for shard in range(topics[EVENTS].partitions) if self._store.table(shard).shard.seq]
        # A restarted static member gets its shards back in seconds; its table need not wait for the group.
        self._warming = asyncio.ensure_future(self._warm(held))

    async def _warm(self, shards: Sequence[int]) -> None:
        for shard in shards:
            reader = self._reading(shard).reader
            try:
                await self._patiently(reader, reader.catch_up)
            except Exception as error:
                self.die("catching up failed", error)

    async def close(self) -> None:
        """Stop reading and free the data directory. To be called after the app has stopped."""
        self._revoke(set(self._assigned))
        if self._warming is not None:
            self._warming.cancel()
        for reading in self._readings.values():
            await reading.reader.close()
        await self.log.close()
        if self._store is not None:
            self._store.close()

    def die(self, what: str, error: BaseException) -> NoReturn:
        """End the process at once, saying where: going on could fold past an event."""
        code = error.code if isinstance(error, StreamError | HeadwayError) else type(error).__name__
        positions = {shard: reading.reader.table.shard.seq for shard, reading in self._readings.items()}
        say(_log, logging.CRITICAL, what, code=code, error=str(error), seq_by_shard=positions)
        if not isinstance(error, StreamError | HeadwayError):
            _log.critical("the fold failed", exc_info=error)
        sys.stderr.flush()
        os._exit(1)

    # -- assignment and reading -----------------------------------------------------------------------------------------------

    @property
    def store(self) -> Store:
        """The open store."""
        if self._store is None:
            raise RuntimeError("the state table is used before it was opened")
        return self._store

    def _reading(self, shard: int) -> _Reading:
        reading = self._readings.get(shard)
        if reading is None:
            reading = self._readings[shard] = _Reading(ShardReader(self.log, self.store.table(shard)))
        return reading

    def _position(self, topic: str, partition: int) -> int | None:
        if topic != self._topic or partition not in self._assigned or self._store is None:
            return None
        return self._store.table(partition).shard.next_offset or None

    def _assign(self, shards: set[int]) -> None:
        self._revoke(self._assigned - shards)
        for shard in sorted(shards):
            self._assigned.add(shard)
            reading = self._reading(shard)
            if reading.task is not None:
                reading.task.cancel()
            reading.by, reading.nudges = "catching-up", 0
            reading.task = asyncio.ensure_future(self._keep(shard, reading))
            reading.task.add_done_callback(partial(self._ended, shard))
            say(_log, logging.INFO, "assigned", shard=shard, seq=reading.reader.table.shard.seq)

    def _revoke(self, shards: set[int]) -> None:
        for shard in sorted(shards & self._assigned):
            self._assigned.discard(shard)
            reading = self._readings[shard]
            reading.caught_up = False
            if reading.task is not None:
                reading.task.cancel()
                reading.task = None

    async def _keep(self, shard: int, reading: _Reading) -> None:
        """Keep one assigned shard up to date until it is revoked."""
        try:
            begun_s = time.monotonic()
            self._pause(shard)
            folded = await self._patiently(reading.reader, reading.reader.catch_up)
            reading.caught_up = True
            took_ms = round((time.monotonic() - begun_s) * 1000)
            seq = reading.reader.table.shard.seq
            say(_log, logging.INFO, "caught up", shard=shard, events=folded, took_ms=took_ms, seq=seq)
            await self._hand_over(shard, reading)
            await self._watch(shard, reading)
        except Exception as error:
            self.die("reading a shard failed", error)

    def _ended(self, shard: int, task: asyncio.Task[None]) -> None:
        """A library that lets its own cancellation out would end the reading of a shard without a word."""
        if self._readings[shard].task is task and shard in self._assigned:
            self.die(
                "reading a shard ended", RuntimeError(f"shard {shard} is assigned, and nothing keeps it up to date")
            )

    async def _watch(self, shard: int, reading: _Reading) -> None:
        reader, row = reading.reader, reading.reader.table
        moved_s, next_offset = time.monotonic(), row.shard.next_offset
        begun_s, begun_seq = moved_s, row.shard.seq
        while True:
            await asyncio.sleep(LOOK_S)
            reading.behind = await self._patiently(reader, reader.behind)
            now_s = time.monotonic()
            fast = False
            if now_s - begun_s >= RATE_OVER_S:
                fast = row.shard.seq - begun_seq > READER_EVENTS_PER_S * (now_s - begun_s)
                begun_s, begun_seq = now_s, row.shard.seq
            if reading.behind == 0 or row.shard.next_offset != next_offset:
                moved_s, next_offset = now_s, row.shard.next_offset
            if fast or reading.behind > LEAD_FROM:
                await self._lead(shard, reading)
                moved_s = begun_s = time.monotonic()
                begun_seq = row.shard.seq
            elif now_s - moved_s > NUDGE_S:
                await self._patiently(reader, reader.catch_up)
                moved_s = time.monotonic()
                self._count_nudge(shard, reading, now_s)

    def _count_nudge(self, shard: int, reading: _Reading, now_s: float) -> None:
        """A nudge that found no event (only ends of transactions) or follows one from the agent starts the count again."""
        silent_s = now_s - reading.delivered_s
        if silent_s < NUDGE_S * 2 or self.app.rebalancing:
            reading.nudges = 0
            return
        reading.nudges += 1
        if reading.nudges >= SILENT_NUDGES:
            raise AgentSilent(shard, reading.reader.table.shard.seq, silent_s)

    async def _lead(self, shard: int, reading: _Reading) -> None:
        """The reader follows the tail until it is slow enough for the agent."""
        reading.by = "reader"
        reading.led += 1
        say(_log, logging.INFO, "the reader leads", shard=shard, behind=reading.behind)
        while True:
            self._pause(shard)  # again and again: Faust resumes all partitions after a rebalance
            folded = await self._patiently(reading.reader, lambda: reading.reader.lead(1.0))
            reading.behind = await self._patiently(reading.reader, reading.reader.behind)
            if reading.behind < HAND_OVER_BELOW and folded < AGENT_EVENTS_PER_S:
                break
        await self._hand_over(shard, reading)

    async def _hand_over(self, shard: int, reading: _Reading) -> None:
        """Give the tail to the agent, at the store's position. The reader goes on until the agent has begun."""
        partition = TP(self._topic, shard)
        if shard not in self._assigned:
            return
        await self.app.consumer.seek_wait({partition: reading.reader.table.shard.next_offset})
        self.app.consumer.resume_partitions({partition})
        # Faust looks for resumed partitions once a second.
        await self._patiently(reading.reader, lambda: reading.reader.lead(1.2))
        reading.by = "agent"
        reading.delivered_s = time.monotonic()
        say(_log, logging.INFO, "the agent follows", shard=shard, seq=reading.reader.table.shard.seq)

    def _pause(self, shard: int) -> None:
        if shard in self._assigned:
            self.app.consumer.pause_partitions({TP(self._topic, shard)})

    async def _take(self, message: Any) -> None:
        """One event from Faust."""
        reading = self._reading(message.partition)
        reading.delivered_s = time.monotonic()
        taking = take_records(reading.reader.table, (message,))
        reading.agent_events += taking.folded
        if taking.gap_before_seq:
            to_seq = envelope_of(message.value).seq
            await self._patiently(reading.reader, lambda: reading.reader.heal(to_seq))

    async def _patiently(self, reader: ShardReader, ask: Callable[[], Awaitable[Result]]) -> Result:
        """Ask again while the log does not answer: an outage of the broker is waited out, not died of."""
        waiting_since_s: float | None = None
        while True:
            try:
                answer = await ask()
            except LogUnavailable as error:
                now_s = time.monotonic()
                if waiting_since_s is None:
                    waiting_since_s = now_s
                waited_s = round(now_s - waiting_since_s)
                say(_log, logging.WARNING, "waiting for the log", waited_s=waited_s, because=error.message)
                await reader.forget_connection()
                await asyncio.sleep(1.0)
            else:
                if waiting_since_s is not None:
                    say(_log, logging.INFO, "the log answers again", waited_s=round(time.monotonic() - waiting_since_s))
                return answer

    # -- what the views see (streams.web.ReadSide) ----------------------------------------------------------------------------

    @property
    def rows(self) -> Rows:
        """See `ReadSide.rows`."""
        return self.store

    def shards(self) -> Sequence[int]:
        """See `ReadSide.shards`."""
        return sorted(shard for shard in self._assigned if self._readings[shard].caught_up)

    def snapshot(self) -> RowSnapshot:
        """See `ReadSide.snapshot`."""
        return self.store.snapshot()

    def describe(self) -> dict[str, Any]:
        """See `ReadSide.describe`."""
        return {
            "pid": os.getpid(),
            "started_at_us": self._began_us,
            "data_dir": str(self.place.data_dir),
            "bootstrap_servers": self.place.bootstrap_servers,
            "topic_prefix": self.place.topic_prefix,
            "group": self.app.conf.id,
            "member": self.place.member,
            "engine": "faust",
            "dropped": dict(self._store.dropped) if self._store is not None else {},
        }

    def describe_shards(self) -> dict[int, dict[str, Any]]:
        """See `ReadSide.describe_shards`."""
        return {
            shard: {
                "caught_up": reading.caught_up,
                "read_by": reading.by,
                "lag": reading.behind,
                "heals": reading.reader.heals,
                "led": reading.led,
                "events_by_agent": reading.agent_events,
                "events_by_catch_up": reading.reader.caught_up_events,
                "events_by_lead": reading.reader.led_events,
            }
            for shard, reading in self._readings.items()
            if shard in self._assigned
        }

    def not_ready(self) -> str:
        """See `ReadSide.not_ready`."""
        if not self._assigned:
            return "no shard is assigned yet"
        waiting = [shard for shard in sorted(self._assigned) if not self._readings[shard].caught_up]
        return f"shards {', '.join(map(str, waiting))} are catching up" if waiting else ""


def __getattr__(name: str) -> Any:
    """`app`, for `faust -A streams.state_table worker`: made from the environment when it is asked for."""
    if name == "app":
        return StateTable(place_of(load_settings())).app
    raise AttributeError(name)
