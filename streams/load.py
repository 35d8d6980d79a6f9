"""A load on a live shard: a producer and a fleet of workers that answer at once, in one process, and what they saw.

Every action runs through its whole life cycle (queued, dispatched, accepted, finished) as records on the log; only the work itself is
left out. Two shapes: `at_rate` publishes on a fixed timetable whatever becomes of it (latencies are honest then), `in_flight` keeps
a fixed number of actions going (throughput).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Final

from events.codec import canonical_requirements, encode_fact
from events.facts import ActionFinished, ActionQueued, DispatchAccepted, Fact, WorkerConnected, WorkerReported
from events.reasons import RunResult
from proto.gen.headway.v1.placements_pb2 import Placement
from streams.log import Follower, Log, Outgoing
from streams.topics import FACTS, PLACEMENTS

KEEPALIVE_S: Final = 2.0
SLOTS_PER_WORKER: Final = 64
_TIMETABLE_S: Final = 0.002
_QUIET_S: Final = 20.0


@dataclass(slots=True)
class Seen:
    """What the load saw. Times are monotonic nanoseconds."""

    published: int = 0
    placed: int = 0
    finished: int = 0
    waits_ns: list[int] = field(default_factory=list)  # from just before the publish to the placement being read


class Stalled(RuntimeError):
    """Nothing was placed for a long time although actions wait."""


class Load:
    """A producer and its fleet on one shard of an instance."""

    def __init__(self, log: Log, *, instance: str = "main", shard: int = 0, workers: int = 64, run: str = "b") -> None:
        self._log, self._instance, self._shard = log, instance, shard
        self._run = run  # makes the ids of this load its own
        self._endpoints = [f"load-{run}-{number}" for number in range(workers)]
        self._connections = {endpoint: number + 1 for number, endpoint in enumerate(self._endpoints)}
        self._requirements = canonical_requirements([("cpu_millis", "1000")])
        self._published_at_ns: dict[str, int] = {}
        self._sending: set[asyncio.Task[object]] = set()
        self._placements: Follower | None = None
        self._next = 0
        self.seen = Seen()

    async def connect(self) -> None:
        """Read placements from now on, then connect the fleet."""
        probe = await self._log.follow({(PLACEMENTS, self._shard): None})
        end = await probe.end_offset((PLACEMENTS, self._shard))
        await probe.close()
        self._placements = await self._log.follow({(PLACEMENTS, self._shard): end})
        properties = (("cpu_millis", str(1000 * SLOTS_PER_WORKER)),)
        await self._publish(
            [
                (WorkerConnected(self._instance, endpoint, connection_id, connection_id, properties), endpoint)
                for endpoint, connection_id in self._connections.items()
            ]
        )

    async def close(self) -> None:
        """Wait for what is under way and stop reading."""
        await asyncio.gather(*self._sending)
        if self._placements is not None:
            await self._placements.close()

    async def at_rate(self, per_s: int, seconds: float) -> Seen:
        """Publish `per_s` actions a second for `seconds`, answer every placement, return when all have been placed."""
        self.seen = seen = Seen()
        reading = asyncio.create_task(self._answer(seen))
        keeping = asyncio.create_task(self._keep_alive())
        try:
            begun = time.monotonic()
            total = round(per_s * seconds)
            while seen.published < total:
                due = min(total, int((time.monotonic() - begun) * per_s) + 1)
                if due > seen.published:
                    self._spawn(self._queue(due - seen.published))
                await asyncio.sleep(_TIMETABLE_S)
                if reading.done():
                    reading.result()
            await self._until_placed(seen, total, reading)
        finally:
            for task in (reading, keeping):
                task.cancel()
            await asyncio.wait([reading, keeping])
        return seen

    async def in_flight(self, number: int, seconds: float, *, warm_s: float = 3.0) -> tuple[Seen, float]:
        """Keep `number` actions going for `warm_s` and then `seconds`; returns what was seen in the latter and how long it was."""
        self.seen = Seen()
        reading = asyncio.create_task(self._answer(self.seen, refill=True))
        keeping = asyncio.create_task(self._keep_alive())
        try:
            await self._queue(number)
            await _pass(warm_s, reading)
            begun, placed, finished = time.monotonic(), self.seen.placed, self.seen.finished
            await _pass(seconds, reading)
            took_s = time.monotonic() - begun
            return Seen(placed=self.seen.placed - placed, finished=self.seen.finished - finished), took_s
        finally:
            for task in (reading, keeping):
                task.cancel()
            await asyncio.wait([reading, keeping])

    async def _until_placed(self, seen: Seen, total: int, reading: asyncio.Task[None]) -> None:
        last, changed_at = seen.placed, time.monotonic()
        while seen.placed < total:
            if reading.done():
                reading.result()
            if seen.placed != last:
                last, changed_at = seen.placed, time.monotonic()
            elif time.monotonic() - changed_at > _QUIET_S:
                raise Stalled(f"{seen.placed} of {total} actions were placed, and none for {_QUIET_S:g} s")
            await asyncio.sleep(0.02)

    async def _queue(self, number: int) -> None:
        facts: list[tuple[Fact, str]] = []
        for _ in range(number):
            self._next += 1
            name = f"{self._run}-{self._next}"
            facts.append((ActionQueued(self._instance, name, self._requirements), name))
        self.seen.published += number
        now_ns = time.monotonic_ns()
        for _, name in facts:
            self._published_at_ns[name] = now_ns
        await self._publish(facts)

    async def _answer(self, seen: Seen, *, refill: bool = False) -> None:
        """Accept and finish every placement the moment it is read; with `refill` queue another action for each that finished."""
        assert self._placements is not None
        placement = Placement()
        while True:
            found = await self._placements.read(max_records=4000, timeout_ms=200)
            now_ns = time.monotonic_ns()
            facts: list[tuple[Fact, str]] = []
            ended = 0
            for record in found.get((PLACEMENTS, self._shard), ()):
                placement.ParseFromString(record.value)
                if placement.WhichOneof("kind") == "placement_ended":
                    ended += 1
                    continue
                placed = placement.action_placed
                began_ns = self._published_at_ns.pop(placed.client_operation_id, None)
                if began_ns is None:
                    continue  # another load's, or one that is redelivered
                seen.waits_ns.append(now_ns - began_ns)
                seen.placed += 1
                answer = (self._instance, placed.endpoint, placed.connection_id, placed.dispatch_id)
                facts.append((DispatchAccepted(*answer), placed.endpoint))
                facts.append((ActionFinished(*answer, RunResult.EXITED), placed.endpoint))
            seen.finished += ended
            if facts:
                self._spawn(self._publish(facts))
            if ended and refill:
                self._spawn(self._queue(ended))

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(KEEPALIVE_S)
            reports: list[tuple[Fact, str]] = [
                (WorkerReported(self._instance, endpoint, connection_id), endpoint)
                for endpoint, connection_id in self._connections.items()
            ]
            await self._publish(reports)

    async def _publish(self, facts: list[tuple[Fact, str]]) -> None:
        records = [Outgoing(encode_fact(fact), key.encode()) for fact, key in facts]
        await self._log.publish((FACTS, self._shard), records)

    def _spawn(self, work: Awaitable[object]) -> None:
        task = asyncio.ensure_future(work)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)


async def _pass(seconds: float, reading: asyncio.Task[None]) -> None:
    """Let time pass; raises what ended the reader."""
    done, _ = await asyncio.wait([reading], timeout=seconds)
    if done:
        reading.result()
