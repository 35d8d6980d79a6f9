"""A load on a live shard: a producer and a fleet of workers that answer at once, in one process, and what they saw.

Every action runs through its whole life cycle (queued, dispatched, accepted, finished) as records on the log; only the work itself is
left out. Three shapes: `at_rate` publishes on a fixed timetable whatever becomes of it (latencies are honest then), `in_flight` keeps
a fixed number of actions going (throughput; more than the fleet takes at once are a queue that never ends), and `freed` fills the fleet
and the queue and then frees one slot after the other (how long a worker waits for its next action).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from events.codec import canonical_requirements, encode_fact
from events.facts import (
    ActionFinished,
    ActionQueued,
    DispatchAccepted,
    Fact,
    WorkerConnected,
    WorkerGone,
    WorkerReported,
)
from events.reasons import RunResult
from proto.gen.headway.v1.placements_pb2 import Placement
from streams.log import Follower, Log, Outgoing
from streams.topics import FACTS, PLACEMENTS

KEEPALIVE_S: Final = 2.0
SLOTS_PER_WORKER: Final = 64
_TIMETABLE_S: Final = 0.002
_QUIET_S: Final = 20.0
_LOOK_S: Final = 0.02
_BETWEEN_S: Final = 0.1  # between two slots that are freed: each is to find the scheduler at rest


@dataclass(slots=True)
class Seen:
    """What the load saw. Times are monotonic nanoseconds."""

    published: int = 0
    placed: int = 0
    finished: int = 0
    waits_ns: list[int] = field(default_factory=list)  # from just before the publish to the placement being read


class Stalled(RuntimeError):
    """Nothing was placed or ended for a long time although actions wait."""


Measure = Callable[[float], Awaitable[tuple[int, float]]]


class _Run(NamedTuple):
    """What a worker says of a run."""

    endpoint: str
    connection_id: int
    dispatch_id: int


class Load:
    """A producer and its fleet on one shard of an instance: `workers` of `slots`, of which an action takes one.

    `async with Load(...) as load:` connects the fleet, which reports every `KEEPALIVE_S` from then on, and at the end lets it go. `run`
    makes the names of this load its own. One shape at a time.
    """

    def __init__(
        self,
        log: Log,
        *,
        instance: str = "main",
        shard: int = 0,
        workers: int = 64,
        slots: int = SLOTS_PER_WORKER,
        run: str = "b",
    ) -> None:
        self._log, self._instance, self._shard = log, instance, shard
        self._run, self._slots = run, slots
        self._connections = {f"load-{run}-{number}": number + 1 for number in range(workers)}
        self._requirements = canonical_requirements([("cpu_millis", "1000")])
        self._published_at_ns: dict[str, int] = {}
        self._sending: set[asyncio.Task[object]] = set()
        self._follower: Follower | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._next = 0
        self._refill = False
        self.seen = Seen()

    @property
    def capacity(self) -> int:
        """How many actions the fleet takes at once."""
        return self._slots * len(self._connections)

    async def __aenter__(self) -> Load:
        """Read placements from now on, then connect the fleet."""
        at = (PLACEMENTS, self._shard)
        self._follower = follower = await self._log.follow({at: None})
        follower.seek(at, await follower.end_offset(at))
        properties = (("cpu_millis", str(1000 * self._slots)),)
        await self._say_of_fleet(
            lambda endpoint, number: WorkerConnected(self._instance, endpoint, number, number, properties)
        )
        self._keeping = asyncio.create_task(self._keep_alive())
        return self

    async def __aexit__(self, *_: object) -> None:
        """The fleet goes, with what it still ran; then stop reading."""
        assert self._keeping is not None
        assert self._follower is not None
        self._keeping.cancel()
        await asyncio.wait([self._keeping, *self._sending])
        await self._say_of_fleet(lambda endpoint, number: WorkerGone(self._instance, endpoint, number))
        await self._follower.close()

    # -- the shapes -------------------------------------------------------------------------------------------------------

    async def at_rate(self, per_s: int, seconds: float) -> Seen:
        """Publish `per_s` actions a second for `seconds`, answer every placement, return when all have ended.

        Raises:
            Stalled: nothing happens any more although actions wait.
        """
        self.seen = seen = Seen()
        async with self._answering(seen) as reading:
            begun = time.monotonic()
            total = round(per_s * seconds)
            while seen.published < total:
                due = min(total, int((time.monotonic() - begun) * per_s) + 1)
                if due > seen.published:
                    self._spawn(self._queue(due - seen.published))
                await asyncio.sleep(_TIMETABLE_S)
                if reading.done():
                    reading.result()
            await self._until_ended(seen, reading)
        return seen

    @asynccontextmanager
    async def in_flight(self, number: int) -> AsyncIterator[Measure]:
        """Keeps `number` actions going as long as this is open; all have ended when it is left.

        What it gives is to be awaited with seconds; it lets them pass and returns how many life cycles ended meanwhile, and how long that
        really was. Raises as `at_rate`.
        """
        self.seen = seen = Seen()

        async def measure(seconds: float) -> tuple[int, float]:
            begun_s, before = time.monotonic(), seen.finished
            done, _ = await asyncio.wait([reading], timeout=seconds)
            if done:
                reading.result()
            return seen.finished - before, time.monotonic() - begun_s

        self._refill = True
        async with self._answering(seen) as reading:
            try:
                await self._queue(number)
                yield measure
            finally:
                self._refill = False
            await self._until_ended(seen, reading)

    async def freed(self, queued: int, times: int) -> list[int]:
        """Fill every slot, leave `queued` actions waiting, and end one run `times` times, another one taking its place.

        Returns, for each, the nanoseconds from just before the fact that it finished is published to the next placement being read. Runs
        and what waits are left behind. Raises as `at_rate`.
        """
        running: deque[_Run] = deque()
        await self._queue(self.capacity + queued)
        await self._until_running(running, self.capacity)
        waits_ns = []
        for _ in range(times):
            run = running.popleft()
            began_ns = time.monotonic_ns()
            self._spawn(self._publish([(ActionFinished(self._instance, *run, RunResult.EXITED), run.endpoint)]))
            await self._until_running(running, self.capacity)
            waits_ns.append(time.monotonic_ns() - began_ns)
            await asyncio.sleep(_BETWEEN_S)
        return waits_ns

    # -- inside -----------------------------------------------------------------------------------------------------------

    async def _until_ended(self, seen: Seen, reading: asyncio.Task[None]) -> None:
        last, changed_at = seen.finished, time.monotonic()
        while seen.finished < seen.published:
            if reading.done():
                reading.result()
            if seen.finished != last:
                last, changed_at = seen.finished, time.monotonic()
            elif time.monotonic() - changed_at > _QUIET_S:
                raise Stalled(
                    f"{seen.placed} of {seen.published} actions were placed and {seen.finished} have ended, none for {_QUIET_S:g} s"
                )
            await asyncio.sleep(_LOOK_S)

    async def _until_running(self, running: deque[_Run], number: int) -> None:
        """Read placements and accept them until so many runs go on."""
        changed_at = time.monotonic()
        while len(running) < number:
            placed, _ = await self._read()
            if placed:
                changed_at = time.monotonic()
                running.extend(run for _, run in placed)
                self._spawn(
                    self._publish([(DispatchAccepted(self._instance, *run), run.endpoint) for _, run in placed])
                )
            elif time.monotonic() - changed_at > _QUIET_S:
                raise Stalled(f"{len(running)} of {number} runs go on, and nothing was placed for {_QUIET_S:g} s")

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

    @asynccontextmanager
    async def _answering(self, seen: Seen) -> AsyncIterator[asyncio.Task[None]]:
        """A task that answers placements as long as this is open."""
        reading = asyncio.create_task(self._answer(seen))
        try:
            yield reading
        finally:
            reading.cancel()
            await asyncio.wait([reading])

    async def _answer(self, seen: Seen) -> None:
        """Accept and finish every placement the moment it is read; while it refills, queue another action for each that ended."""
        while True:
            placed, ended = await self._read()
            now_ns = time.monotonic_ns()
            facts: list[tuple[Fact, str]] = []
            for name, run in placed:
                seen.waits_ns.append(now_ns - self._published_at_ns.pop(name))
                facts.append((DispatchAccepted(self._instance, *run), run.endpoint))
                facts.append((ActionFinished(self._instance, *run, RunResult.EXITED), run.endpoint))
            seen.placed += len(placed)
            seen.finished += ended
            if facts:
                self._spawn(self._publish(facts))
            if ended and self._refill:
                self._spawn(self._queue(ended))

    async def _read(self) -> tuple[list[tuple[str, _Run]], int]:
        """The next placements of this load, by the names of their actions, and how many actions ended."""
        assert self._follower is not None
        found = await self._follower.read(max_records=4000, timeout_ms=200)
        placed, ended = [], 0
        parse, own = Placement.FromString, self._published_at_ns
        for record in found.get((PLACEMENTS, self._shard), ()):
            message = parse(record.value)
            if message.HasField("placement_ended"):
                ended += 1
                continue
            action = message.action_placed
            name = action.client_operation_id
            if name in own and not action.redelivered:
                placed.append((name, _Run(action.endpoint, action.connection_id, action.dispatch_id)))
        return placed, ended

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(KEEPALIVE_S)
            await self._say_of_fleet(lambda endpoint, number: WorkerReported(self._instance, endpoint, number))

    async def _say_of_fleet(self, fact: Callable[[str, int], Fact]) -> None:
        """Publish a fact of every worker, made of its endpoint and connection."""
        await self._publish([(fact(endpoint, number), endpoint) for endpoint, number in self._connections.items()])

    async def _publish(self, facts: Iterable[tuple[Fact, str]]) -> None:
        records = [Outgoing(encode_fact(fact), key.encode()) for fact, key in facts]
        await self._log.publish((FACTS, self._shard), records)

    def _spawn(self, work: Awaitable[object]) -> None:
        task = asyncio.ensure_future(work)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)
