"""The exactly-once loop without a scheduler in it: the floor of latency, and the ceiling of throughput, of everything that decides.

A fact is published, read, and answered in one transaction by a record each on the events and on the placements; a reader of committed
placements sees it. All in this process, over the same log seam that the decider uses: reading, batches, transactions and the broker are
what they are there, and only deciding is left out. A life cycle of Headway is three such facts.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from streams.bench._rows import BenchFailed, Row, percentile, reference
from streams.kafka_log import KafkaLog
from streams.log import Follower, Log, Outgoing, Writer
from streams.topics import EVENTS, FACTS, PLACEMENTS, topic_table
from streams.transaction import MOST_FACTS

RATES: Final = (500, 5_000)
IN_FLIGHT: Final = 6_000
RECORD_BYTES: Final = 100
"""About what a lean event takes."""

_SHARD, _TIMETABLE_S, _POLL_MS, _DEADLINE_S = 0, 0.002, 200, 60.0


async def rows(log: Log, *, seconds: float = 4.0, rates: tuple[int, ...] = RATES) -> list[Row]:
    """Latency of the echo at each of `rates` facts a second, and the facts a second with `IN_FLIGHT` under way.

    The log's facts must be nobody else's: see `own_topics`.

    Raises:
        BenchFailed: facts were not answered in time.
    """
    found: list[Row] = []
    async with _Echo.running(log) as echo:
        await echo.at_rate(rates[0], 1.0)
        for rate in rates:
            waits = sorted(await echo.at_rate(rate, seconds))
            for name, share in (("p50", 0.50), ("p99", 0.99)):
                case = f"echo loop {name} at {rate:,} facts/s"
                found.append(reference(case, percentile(waits, share) / 1e6, "ms"))
        found.append(reference("echo loop, exactly once", await echo.in_flight(IN_FLIGHT, seconds), "facts/s"))
    return found


@asynccontextmanager
async def own_topics(bootstrap_servers: str) -> AsyncIterator[KafkaLog]:
    """A log with topics of its own on a cluster that others use. The topics stay: take a cluster that is thrown away."""
    log = KafkaLog(bootstrap_servers, prefix=f"echo-{secrets.token_hex(3)}.", client_id="headway-echo")
    try:
        await log.ensure_topics([spec for spec in topic_table(1) if spec.name in (FACTS, EVENTS, PLACEMENTS)])
        yield log
    finally:
        await log.close()


class _Echo:
    """Publisher, echo and reader. A record's value begins with the number of its fact."""

    def __init__(self, log: Log, facts: Follower, placements: Follower, writer: Writer) -> None:
        self._log, self._facts, self._placements, self._writer = log, facts, placements, writer
        self._published_at_ns: dict[int, int] = {}
        self._sending: set[asyncio.Task[list[int]]] = set()
        self._next = 0
        self._refill = False
        self._waits_ns: list[int] = []

    @classmethod
    @asynccontextmanager
    async def running(cls, log: Log) -> AsyncIterator[_Echo]:
        """An echo at work."""
        facts = await log.follow({(FACTS, _SHARD): None})
        placements = await log.follow({(PLACEMENTS, _SHARD): None})
        writer = await log.open("headway-echo")
        echo = cls(log, facts, placements, writer)
        tasks = [asyncio.create_task(echo._echo()), asyncio.create_task(echo._read())]
        try:
            yield echo
        finally:
            for task in tasks:
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks)
            await writer.close()
            await facts.close()
            await placements.close()

    async def at_rate(self, per_s: int, seconds: float) -> list[int]:
        """Publish on a timetable; returns the nanoseconds from just before the publish to being read, of each."""
        self._waits_ns = []
        begun_s, total, published = time.monotonic(), round(per_s * seconds), 0
        while published < total:
            due = min(total, int((time.monotonic() - begun_s) * per_s) + 1)
            if due > published:
                self._publish(due - published)
                published = due
            await asyncio.sleep(_TIMETABLE_S)
        await self._until_answered(total)
        return self._waits_ns

    async def in_flight(self, number: int, seconds: float) -> float:
        """Keep so many facts under way; returns how many were answered a second, after a second to get going."""
        self._waits_ns, self._refill = [], True
        self._publish(number)
        await asyncio.sleep(1.0)
        begun_s, before = time.monotonic(), len(self._waits_ns)
        await asyncio.sleep(seconds)
        answered = (len(self._waits_ns) - before) / (time.monotonic() - begun_s)
        self._refill = False
        return answered

    async def _until_answered(self, total: int) -> None:
        until_s = time.monotonic() + _DEADLINE_S
        while len(self._waits_ns) < total:
            if time.monotonic() > until_s:
                raise BenchFailed(f"{len(self._waits_ns)} of {total} facts were echoed within {_DEADLINE_S:g} s")
            await asyncio.sleep(_TIMETABLE_S)

    def _publish(self, number: int) -> None:
        now_ns, first = time.monotonic_ns(), self._next
        self._next = first + number
        filling = bytes(RECORD_BYTES - 8)
        records = []
        for fact in range(first, self._next):
            self._published_at_ns[fact] = now_ns
            records.append(Outgoing(fact.to_bytes(8, "big") + filling, b"echo"))
        task = asyncio.ensure_future(self._log.publish((FACTS, _SHARD), records))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _echo(self) -> None:
        at = (FACTS, _SHARD)
        while True:
            found = await self._facts.read(max_records=MOST_FACTS, timeout_ms=_POLL_MS, drain=True)
            if records := found.get(at):
                events = [Outgoing(record.value) for record in records]
                placements = [Outgoing(record.value, record.key) for record in records]
                await self._writer.append({(EVENTS, _SHARD): events, (PLACEMENTS, _SHARD): placements})

    async def _read(self) -> None:
        at = (PLACEMENTS, _SHARD)
        while True:
            found = await self._placements.read(max_records=2 * MOST_FACTS, timeout_ms=_POLL_MS)
            if records := found.get(at):
                now_ns, published = time.monotonic_ns(), self._published_at_ns
                self._waits_ns += [
                    now_ns - published.pop(int.from_bytes(record.value[:8], "big")) for record in records
                ]
                if self._refill:
                    self._publish(len(records))
