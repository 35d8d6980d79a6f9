"""The shards that this process answers for: its store, who reads each shard at the moment, and the public API in front of it.

Nothing here needs a consumer group, so a process answers before Faust is even imported: it listens, opens the store, reads the tail
of every shard that the store holds by the direct reader, and goes on reading it until the group says whose it is. The group
(`streams.state_table`) then hands shards to Faust's agents, or takes them away.

    expected ──▶ catching up ──▶ read alone ──▶ kept by the group ──▶ read alone (the group rebalances)
                                     └──────────── let go ◀─────────────────┘
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NoReturn, TypeVar

from events.errors import HeadwayError
from projections.rows import Rows
from streams.catch_up import ShardReader
from streams.errors import LogUnavailable, NoSuchTopic, StreamError
from streams.kafka_log import KafkaLog
from streams.log import Log
from streams.log_lines import say
from streams.place import Place
from streams.readiness import Gate, Progress
from streams.serving import PublicApi
from streams.store import RowSnapshot, Store
from streams.time_travel import TimeTravel
from streams.topics import EVENTS
from streams.web import Views

LEAD_S: Final = 1.0
"""How long the direct reader follows the tail between two looks at how far it is behind."""

END_S: Final = 2.0
"""How long a read that is cancelled may take to end."""

_log = logging.getLogger("headway.state_table")

Result = TypeVar("Result")


def end_process() -> NoReturn:
    """End this process at once, with exit code 1 and no clean-up: a SIGKILL would do no harm either."""
    sys.stderr.flush()
    os._exit(1)


@dataclass(slots=True)
class Reading:
    """How one shard is read."""

    reader: ShardReader
    task: asyncio.Task[None] | None = None
    by: str = "catching-up"  # then "agent" or "reader"
    behind: int = 0
    nudges: int = 0
    led: int = 0  # times the reader took the lead
    agent_events: int = 0
    delivered_s: float = field(default_factory=time.monotonic)


class LocalTables:
    """Implements `streams.read_side.ReadSide`. Use `listen`, `recover`, then `close`; each may be called again.

    Args:
        place: where the log is, and the rows.
        log: what the direct reader reads; by default that of the place.
        clock_s: a monotonic clock, for the readiness gate.
        end: what ends the process when going on could fold past an event.
    """

    def __init__(
        self,
        place: Place,
        log: Log | None = None,
        *,
        clock_s: Callable[[], float] = time.monotonic,
        end: Callable[[], NoReturn] = end_process,
    ) -> None:
        self.place = place
        self.log = log or KafkaLog(place.bootstrap_servers, prefix=place.topic_prefix, client_id=place.member)
        self.gate = Gate(clock_s)
        self._past = TimeTravel(self.log, place.data_dir / "timeline")
        self.readings: dict[int, Reading] = {}
        self.engine = "reader"
        self._end = end
        self._store: Store | None = None
        self._began_us = time.time_ns() // 1000
        self._listening = asyncio.Lock()
        self._api: PublicApi | None = None
        self._recovering = asyncio.Lock()
        self._closed = False

    # -- from start to end ----------------------------------------------------------------------------------------------------

    async def listen(self) -> int:
        """Bind the public API, which says "not ready" until the gate opens; returns its port.

        Raises PortTaken.
        """
        async with self._listening:
            if self._api is None:
                views = Views(self, clock_us=lambda: time.time_ns() // 1000, past=self._past)
                api = PublicApi(views.add_to, self.place.web_port)
                await api.start()
                self._api = api
        return self._api.port

    async def recover(self) -> None:
        """Open the store and begin to read the shards that it holds. Returns before they have caught up.

        A log that does not answer is waited for: the API listens meanwhile, and locality opens in its time.

        Raises:
            NoSuchTopic, StoreLocked, StoreDamaged: the store cannot be opened for this log.
        """
        async with self._recovering:
            if self._store is not None:
                return
            topics = await self._waited_for(self.log.describe_topics)
            if EVENTS not in topics:
                raise NoSuchTopic(EVENTS, topics)
            cluster_id = await self._waited_for(self.log.cluster_id)
            store = Store.open(self.place.data_dir, cluster_id=cluster_id, topic_id=topics[EVENTS].topic_id)
            try:
                held = [shard for shard in range(topics[EVENTS].partitions) if store.table(shard).shard.seq]
            except BaseException:
                store.close()
                raise
            self._store = store
            for reason, count in store.dropped.items():
                say(_log, logging.WARNING, "local state dropped, made again from the log", reason=reason, count=count)
            # A restarted static member gets its shards back in seconds; its answers need not wait for the group.
            self.read_alone(held)

    async def wait_until_open(self, timeout_s: float) -> bool:
        """Wait until the gate is open, at most so long; False at once where the store holds nothing that could open it."""
        deadline_s = time.monotonic() + timeout_s
        while not self.gate.is_open:
            if not self.gate.waiting() or time.monotonic() > deadline_s:
                return False
            await asyncio.sleep(0.01)
        return True

    async def close(self) -> None:
        """Stop answering and reading, and free the data directory; whatever has been folded stays. At any time, also while recovering."""
        self._closed = True
        async with self._listening:
            api, self._api = self._api, None
        if api is not None:
            await api.close()
        await self._past.close()
        tasks = [reading.task for reading in self.readings.values() if reading.task is not None]
        for reading in self.readings.values():
            self._stop(reading)
        if tasks:
            await asyncio.wait(tasks, timeout=END_S)
        for reading in self.readings.values():
            await reading.reader.close()
        await self.log.close()
        if self._store is not None:
            self._store.close()

    def die(self, what: str, error: BaseException) -> NoReturn:
        """End the process at once, saying where: going on could fold past an event."""
        code = error.code if isinstance(error, StreamError | HeadwayError) else type(error).__name__
        positions = {shard: reading.reader.table.shard.seq for shard, reading in self.readings.items()}
        say(_log, logging.CRITICAL, what, code=code, error=str(error), seq_by_shard=positions)
        if not isinstance(error, StreamError | HeadwayError):
            _log.critical(what, exc_info=error)
        self._end()

    # -- reading --------------------------------------------------------------------------------------------------------------

    @property
    def store(self) -> Store:
        """The open store."""
        if self._store is None:
            raise RuntimeError("the state table is used before it was opened")
        return self._store

    def reading(self, shard: int) -> Reading:
        """How a shard is read, which from now on it is."""
        reading = self.readings.get(shard)
        if reading is None:
            reading = self.readings[shard] = Reading(ShardReader(self.log, self.store.table(shard)))
        return reading

    def read_alone(self, shards: Iterable[int]) -> None:
        """Read these shards by the direct reader until somebody else takes them up; nothing once closed."""
        if self._closed:  # a group that is left takes away what it gave
            return
        shards = sorted(shards)
        self.gate.expect(shards)
        for shard in shards:
            self.take_up(shard, self._read_alone(shard, self.reading(shard)))

    def take_up(self, shard: int, reading: Coroutine[Any, Any, None]) -> None:
        """Have `reading` keep the shard up to date from now on, in place of what did before."""
        kept = self.reading(shard)
        self._stop(kept)
        kept.task = asyncio.ensure_future(reading)
        kept.task.add_done_callback(partial(self._ended, shard))

    def let_go(self, shards: Iterable[int]) -> None:
        """Other processes answer for these shards; their rows stay for the day they come back."""
        for shard in sorted(shards):
            self.gate.let_go(shard)
            if shard in self.readings:
                self._stop(self.readings[shard])

    async def catch_up(self, shard: int) -> None:
        """Read a shard to the end that its log has now, then let it be answered for."""
        reading = self.reading(shard)
        begun_s = time.monotonic()
        folded = await self.patiently(reading.reader, reading.reader.catch_up)
        self.gate.caught_up(shard)
        took_ms = round((time.monotonic() - begun_s) * 1000)
        seq = reading.reader.table.shard.seq
        say(_log, logging.INFO, "caught up", shard=shard, events=folded, took_ms=took_ms, seq=seq)

    async def patiently(self, reader: ShardReader, ask: Callable[[], Awaitable[Result]]) -> Result:
        """Ask what reads a shard; again and again over a new connection while the log does not answer."""
        return await self._waited_for(ask, reader.forget_connection)

    async def _waited_for(
        self, ask: Callable[[], Awaitable[Result]], forget: Callable[[], Awaitable[None]] | None = None
    ) -> Result:
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
                if forget is not None:
                    await forget()
                await asyncio.sleep(1.0)
            else:
                if waiting_since_s is not None:
                    say(_log, logging.INFO, "the log answers again", waited_s=round(time.monotonic() - waiting_since_s))
                return answer

    async def _read_alone(self, shard: int, reading: Reading) -> None:
        try:
            reading.by = "catching-up"
            await self.catch_up(shard)
            reading.by = "reader"
            while True:
                await self.patiently(reading.reader, lambda: reading.reader.lead(LEAD_S))
                reading.behind = await self.patiently(reading.reader, reading.reader.behind)
        except Exception as error:
            self.die("reading a shard failed", error)

    @staticmethod
    def _stop(reading: Reading) -> None:
        task, reading.task = reading.task, None
        if task is not None:
            task.cancel()

    def _ended(self, shard: int, task: asyncio.Task[None]) -> None:
        """A library that lets its own cancellation out would end the reading of a shard without a word."""
        if self.readings[shard].task is task:
            self.die(
                "reading a shard ended", RuntimeError(f"shard {shard} is answered for, and nothing keeps it up to date")
            )

    # -- what the views see (streams.read_side.ReadSide) ----------------------------------------------------------------------------

    @property
    def rows(self) -> Rows:
        """See `ReadSide.rows`."""
        return self.store

    def shards(self) -> Sequence[int]:
        """See `ReadSide.shards`."""
        return self.gate.shards()

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
            "group": self.place.topic_prefix + self.place.group,
            "member": self.place.member,
            "engine": self.engine,
            "dropped": dict(self._store.dropped) if self._store is not None else {},
        }

    def describe_shards(self) -> dict[int, dict[str, Any]]:
        """See `ReadSide.describe_shards`."""
        complete = self.gate.shards()
        return {
            shard: {
                "caught_up": shard in complete,
                "read_by": reading.by,
                "lag": reading.behind,
                "heals": reading.reader.heals,
                "led": reading.led,
                "events_by_agent": reading.agent_events,
                "events_by_catch_up": reading.reader.caught_up_events,
                "events_by_lead": reading.reader.led_events,
            }
            for shard, reading in sorted(self.readings.items())
            if shard in complete or shard in self.gate.waiting()
        }

    def progress(self) -> Sequence[Progress]:
        """See `ReadSide.progress`."""
        return [self.readings[shard].reader.progress() for shard in self.gate.waiting()]

    def began_us(self) -> int:
        """See `ReadSide.began_us`."""
        return self._began_us

    def not_ready(self) -> str:
        """See `ReadSide.not_ready`."""
        if self._store is None:
            return f"the log at {self.place.bootstrap_servers} has not answered yet, or the store is being opened"
        if not self.gate.shards() and not self.gate.waiting():
            return "no shard is assigned yet"
        return "" if self.gate.is_open else "; ".join(map(str, self.progress()))
