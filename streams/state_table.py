"""The scheduler state table as a Faust app: `headway state-table run`, or `faust -A streams.state_table worker`.

An agent folds the live tail of the event log into our own store; what the agent cannot be trusted with, the direct reader does
(`streams.catch_up`), and what needs no group does not wait for it (`streams.local_tables`). The position in the store rules; Faust's
committed offset is that position, as a hint.

    assigned ──▶ catching up ──▶ agent ◀──────────────▶ reader leads
                 (reader, Faust's    more than LEAD_FROM behind ─▶
                 partition paused)   ◀─ less than HAND_OVER_BELOW behind, and no faster than an agent

Any exception in the fold ends the process with its position and error code: a handler that raises in Faust loses its event, or stops
its stream, without a word. A restart catches up from the store.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from typing import Any, ClassVar, Final

from faust.types import TP

from events.codec import envelope_of
from streams.catch_up import take_records
from streams.errors import StreamError
from streams.faust_transport import CommittedApp
from streams.local_tables import LocalTables, Reading
from streams.log_lines import say
from streams.place import place_of
from streams.settings import load_settings
from streams.topics import EVENTS

LEAD_FROM: Final = 2_000
"""Offsets behind at which the reader takes the lead from the agent."""

HAND_OVER_BELOW: Final = 1_000
"""Offsets behind under which the agent may have it back (design, section 6)."""

AGENT_EVENTS_PER_S: Final = 100
"""A tail that is no faster goes back to the agent. An event costs an agent about twenty times the CPU it costs the reader."""

READER_EVENTS_PER_S: Final = 200
"""A faster tail is the reader's, also when the agent keeps up: what the agent would burn, the decider beside it needs."""

RATE_OVER_S: Final = 1.0
"""How long the tail is measured before it counts as fast."""

LOOK_S: Final = 0.25
NUDGE_S: Final = 1.0
"""Events that lie in the log for so long without the table moving are read directly."""

SILENT_NUDGES: Final = 30
"""So many nudges in a row without one event from the agent: Faust's consumer has stopped, and the process ends."""

_log = logging.getLogger("headway.state_table")


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


class StateTable:
    """The Faust app over the tables of this process: whose shards they are, and who reads each at the moment."""

    def __init__(self, tables: LocalTables) -> None:
        self.tables = tables
        self.place = tables.place
        self.app = self._make_app()
        self._topic = self.place.topic_prefix + EVENTS
        self._assigned: set[int] = set()
        tables.engine = "faust"
        self._make_agent()

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
            # The views answer before Faust is there, over a server of our own.
            web_enabled=False,
        )

    def _make_agent(self) -> None:
        topic = self.app.topic(self._topic, value_type=bytes, value_serializer="raw", key_serializer="raw")

        @self.app.agent(topic, name="fold", concurrency=1)
        async def fold(stream: Any) -> None:
            async for event in stream.events():
                try:
                    await self._take(event.message)
                except Exception as error:
                    self.tables.die("the fold failed", error)

        @self.app.on_partitions_assigned.connect
        async def assigned(sender: Any, assigned: Any, **_: Any) -> None:
            self._assign({tp.partition for tp in assigned if tp.topic == self._topic})

        @self.app.on_partitions_revoked.connect
        async def revoked(sender: Any, revoked: Any, **_: Any) -> None:
            self._revoke({tp.partition for tp in revoked if tp.topic == self._topic})

        @self.app.on_before_shutdown.connect
        async def ending(sender: Any, **_: Any) -> None:
            # Else the end of the event loop would be taken for a reading that ended without a word.
            self._assigned.clear()
            self.tables.let_go(self.tables.readings)

    async def _open(self) -> None:
        """Before Faust starts: the views listen, the store is the one of this log."""
        await self.tables.listen()
        await self.tables.recover()

    # -- assignment and reading -----------------------------------------------------------------------------------------------

    def _position(self, topic: str, partition: int) -> int | None:
        if topic != self._topic or partition not in self._assigned:
            return None
        return self.tables.store.table(partition).shard.next_offset or None

    def _assign(self, shards: set[int]) -> None:
        self.tables.let_go(set(self.tables.readings) - shards)
        self._assigned = set(shards)
        self.tables.gate.expect(shards)
        for shard in sorted(shards):
            reading = self.tables.reading(shard)
            reading.by, reading.nudges = "catching-up", 0
            self.tables.take_up(shard, self._keep(shard, reading))
            say(_log, logging.INFO, "assigned", shard=shard, seq=reading.reader.table.shard.seq)

    def _revoke(self, shards: Iterable[int]) -> None:
        """The group decides anew whose the shards are; until it has, this process reads and answers for them by itself."""
        ours = self._assigned.intersection(shards)
        self._assigned -= ours
        if self.app.should_stop:
            self.tables.let_go(ours)
        else:
            self.tables.read_alone(ours)

    async def _keep(self, shard: int, reading: Reading) -> None:
        """Keep one assigned shard up to date until somebody else does."""
        try:
            self._pause(shard)
            await self.tables.catch_up(shard)
            await self._hand_over(shard, reading)
            await self._watch(shard, reading)
        except Exception as error:
            self.tables.die("reading a shard failed", error)

    async def _watch(self, shard: int, reading: Reading) -> None:
        reader, row = reading.reader, reading.reader.table
        moved_s, next_offset = time.monotonic(), row.shard.next_offset
        begun_s, begun_seq = moved_s, row.shard.seq
        while True:
            await asyncio.sleep(LOOK_S)
            reading.behind = await self.tables.patiently(reader, reader.behind)
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
                await self.tables.patiently(reader, reader.catch_up)
                moved_s = time.monotonic()
                self._count_nudge(shard, reading, now_s)

    def _count_nudge(self, shard: int, reading: Reading, now_s: float) -> None:
        """A nudge that found no event (only ends of transactions) or follows one from the agent starts the count again."""
        silent_s = now_s - reading.delivered_s
        if silent_s < NUDGE_S * 2 or self.app.rebalancing:
            reading.nudges = 0
            return
        reading.nudges += 1
        if reading.nudges >= SILENT_NUDGES:
            raise AgentSilent(shard, reading.reader.table.shard.seq, silent_s)

    async def _lead(self, shard: int, reading: Reading) -> None:
        """The reader follows the tail until it is slow enough for the agent."""
        reading.by = "reader"
        reading.led += 1
        say(_log, logging.INFO, "the reader leads", shard=shard, behind=reading.behind)
        while True:
            self._pause(shard)  # again and again: Faust resumes all partitions after a rebalance
            folded = await self.tables.patiently(reading.reader, lambda: reading.reader.lead(1.0))
            reading.behind = await self.tables.patiently(reading.reader, reading.reader.behind)
            if reading.behind < HAND_OVER_BELOW and folded < AGENT_EVENTS_PER_S:
                break
        await self._hand_over(shard, reading)

    async def _hand_over(self, shard: int, reading: Reading) -> None:
        """Give the tail to the agent, at the store's position. The reader goes on until the agent has begun."""
        partition = TP(self._topic, shard)
        if shard not in self._assigned:
            return
        await self.app.consumer.seek_wait({partition: reading.reader.table.shard.next_offset})
        self.app.consumer.resume_partitions({partition})
        # Faust looks for resumed partitions once a second.
        await self.tables.patiently(reading.reader, lambda: reading.reader.lead(1.2))
        reading.by = "agent"
        reading.delivered_s = time.monotonic()
        say(_log, logging.INFO, "the agent follows", shard=shard, seq=reading.reader.table.shard.seq)

    def _pause(self, shard: int) -> None:
        if shard in self._assigned:
            self.app.consumer.pause_partitions({TP(self._topic, shard)})

    async def _take(self, message: Any) -> None:
        """One event from Faust."""
        reading = self.tables.reading(message.partition)
        reading.delivered_s = time.monotonic()
        taking = take_records(reading.reader.table, (message,))
        reading.agent_events += taking.folded
        if taking.gap_before_seq:
            to_seq = envelope_of(message.value).seq
            await self.tables.patiently(reading.reader, lambda: reading.reader.heal(to_seq))


def __getattr__(name: str) -> Any:
    """`app`, for `faust -A streams.state_table worker`: made from the environment when it is asked for."""
    if name == "app":
        return StateTable(LocalTables(place_of(load_settings()))).app
    raise AttributeError(name)
