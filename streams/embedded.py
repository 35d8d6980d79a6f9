"""Everything in one process on the in-memory log: deciders, edges, state table, views, a worker. Nothing is kept when it ends.

For trying Headway where no broker can run, and for users' own tests. The parts are those that run on Kafka; only the
log is another one, and the state table is folded by the direct reader alone, since Faust needs Kafka. No other process
can reach this log, so facts come in over HTTP, where the views are too:

    POST /v1/facts   JSON facts, one a line; answers one JSON object a line: {"offset", "shard", "instance"}
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aiohttp import web

from events.errors import InvalidFact
from events.jsonform import fact_from_json
from projections.rows import MemoryRows
from projections.table import Table
from streams.catch_up import ShardReader
from streams.decider import Decider, DeciderOptions, this_build
from streams.edges.running import ShardEdges, UpstreamLogs
from streams.effects import record_of
from streams.errors import StreamError
from streams.health import LOOPBACK, PortTaken
from streams.memory_log import MemoryLog
from streams.provisioning import provision
from streams.readiness import Gate, Progress
from streams.shard_map import ShardMap
from streams.topics import FACTS
from streams.web import Views
from streams.worker.capacity import Amounts, Ledger
from streams.worker.executors import ProcessExecutor
from streams.worker.memory import available_kib
from streams.worker.protocol import Identity, WorkerProtocol
from streams.worker.runtime import Surroundings, WorkerRuntime
from streams.worker.secret_source import SecretSource

MOST_BODY_BYTES: Final = 16 << 20
DRAIN_US: Final = 5_000_000  # at the end, how long a running action may go on
_LEAD_S: Final = 1.0


class EmbeddedReadSide:
    """The state table of an in-memory log, in a dictionary; what the views are views of."""

    def __init__(self, log: MemoryLog, shards: Sequence[int]) -> None:
        self._rows = MemoryRows()
        self._readers = {shard: ShardReader(log, Table(self._rows, shard)) for shard in shards}
        self.gate = Gate(time.monotonic)
        self.gate.expect(shards)
        self._began_us = time.time_ns() // 1000

    async def run(self, shard: int, stop: asyncio.Event) -> None:
        """Keep one shard's rows up to date until `stop`.

        Raises:
            DamagedLog: the log has a gap or a broken chain.
        """
        reader = self._readers[shard]
        try:
            await reader.catch_up()
            self.gate.caught_up(shard)
            while not stop.is_set():
                await reader.lead(_LEAD_S)
        finally:
            await reader.close()

    @property
    def rows(self) -> MemoryRows:
        """See `ReadSide.rows`."""
        return self._rows

    def shards(self) -> Sequence[int]:
        """See `ReadSide.shards`."""
        return self.gate.shards()

    def snapshot(self) -> MemoryRows:
        """See `ReadSide.snapshot`."""
        copy = MemoryRows()
        copy.write(self._rows.by_key)
        return copy

    def describe(self) -> dict[str, Any]:
        """See `ReadSide.describe`."""
        return {"pid": os.getpid(), "started_at_us": self._began_us, "engine": "embedded", "kept": "nothing"}

    def describe_shards(self) -> dict[int, dict[str, Any]]:
        """See `ReadSide.describe_shards`."""
        return {
            shard: {"caught_up": shard in self.gate.shards(), "read_by": "reader", "lag": 0, "heals": reader.heals}
            for shard, reader in self._readers.items()
        }

    def not_ready(self) -> str:
        """See `ReadSide.not_ready`."""
        return "; ".join(map(str, self.progress()))

    def progress(self) -> Sequence[Progress]:
        """See `ReadSide.progress`."""
        return [self._readers[shard].progress() for shard in self.gate.waiting()]

    def began_us(self) -> int:
        """See `ReadSide.began_us`."""
        return self._began_us


class Embedded:
    """The whole of Headway in this process. Use `Embedded.start`, then `run`."""

    def __init__(
        self, log: MemoryLog, shard_map: ShardMap, shards: int, web_port: int, workers: Sequence[WorkerRuntime] = ()
    ) -> None:
        self.log = log
        self.workers = workers
        self.shard_map = shard_map
        self.web_port = web_port
        self.deciders = [Decider(log, shard, options=DeciderOptions(claim=True)) for shard in range(shards)]
        self._upstream_logs = UpstreamLogs(log, None)
        self.edges = [ShardEdges(log, shard, self._upstream_logs) for shard in range(shards)]
        self.read_side = EmbeddedReadSide(log, range(shards))
        application = web.Application(client_max_size=MOST_BODY_BYTES)
        application.router.add_post("/v1/facts", self._take_facts)
        Views(self.read_side, clock_us=lambda: time.time_ns() // 1000).add_to(application)
        self._runner = web.AppRunner(application, access_log=None)

    @classmethod
    async def start(
        cls,
        instances: Mapping[str, int | None],
        *,
        shards: int | None,
        web_port: int,
        worker: Amounts | None = None,
    ) -> Embedded:
        """Make the log with its topics and instances, and listen; 0 takes a free port, which `web_port` then tells.

        Args:
            instances: name to shard, as `provision` takes them.
            worker: what a worker of this process lends to each instance; None runs none.
        Raises:
            InvalidInstance: a name or shard cannot be registered.
            PortTaken: the port cannot be bound.
        """
        log = MemoryLog()
        provisioned = await provision(log, instances, shards=shards)
        count = (await log.describe_topics())[FACTS].partitions
        placed = provisioned.shard_map.shards.items() if worker is not None else ()
        workers = [_worker(log, shard, instance, worker) for instance, shard in placed if worker is not None]
        embedded = cls(log, provisioned.shard_map, count, web_port, workers)
        await embedded._listen()
        return embedded

    async def _listen(self) -> None:
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, LOOPBACK, self.web_port).start()
        except OSError as error:
            await self._runner.cleanup()
            raise PortTaken("the views", self.web_port, error.strerror or str(error)) from error
        self.web_port = self._runner.addresses[0][1]

    async def run(self, stop: asyncio.Event) -> None:
        """Decide, look up, fold, work and answer until `stop`. The error of a part that fails ends all of them and is raised."""
        end = asyncio.Event()
        parts = [asyncio.create_task(decider.run(end)) for decider in self.deciders]
        parts += [asyncio.create_task(edges.run(end)) for edges in self.edges]
        parts += [asyncio.create_task(self.read_side.run(one.shard, end)) for one in self.deciders]
        working = [asyncio.create_task(worker.run()) for worker in self.workers]
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait([stopping, *_all_of(parts, working)], return_when=asyncio.FIRST_COMPLETED)
            for worker in self.workers:
                worker.drain(DRAIN_US)
            if working:
                await asyncio.wait(working)
        finally:
            stopping.cancel()
            end.set()
            await asyncio.wait(parts)
            await self._runner.cleanup()
            await self._upstream_logs.close()
            await self.log.close()
        for task in _all_of(parts, working):
            task.result()

    async def _take_facts(self, request: web.Request) -> web.Response:
        """Publish JSON facts, one a line. Nothing is published when one of them is refused: the answer names its line."""
        text = await request.text()
        taken = []
        for number, line in enumerate(text.splitlines(), start=1):
            if not line.strip():
                continue
            try:
                obj = json.loads(line)
                if not isinstance(obj, dict):
                    raise ValueError("a fact is a JSON object")
                fact = fact_from_json(obj)
                instance = str(getattr(fact, "instance", ""))
                taken.append((fact, instance, self.shard_map.shard_of(instance) if instance else 0))
            except (ValueError, InvalidFact, StreamError) as error:
                code = error.code if isinstance(error, InvalidFact | StreamError) else "not-json"
                message = str(error).removeprefix(f"{code}: ")
                refusal = {
                    "error": code,
                    "message": f"line {number}: {message}",
                    "remedy": "Correct the line; nothing was published",
                }
                return web.json_response(refusal, status=400)
        answers = []
        for fact, instance, shard in taken:
            (offset,) = await self.log.publish((FACTS, shard), [record_of(fact)])
            answers.append(json.dumps({"offset": offset, "shard": shard, "instance": instance}))
        return web.Response(text="".join(answer + "\n" for answer in answers), content_type="application/jsonl")


def _all_of(parts: Sequence[asyncio.Task[None]], working: Sequence[asyncio.Task[int]]) -> list[asyncio.Task[Any]]:
    return [*parts, *working]


def _worker(log: MemoryLog, shard: int, instance: str, amounts: Amounts) -> WorkerRuntime:
    """A real worker of this process for one instance: it runs commands on this machine."""

    def draw() -> int:
        return secrets.randbits(64) or 1

    properties = (("cpu_millis", str(amounts.cpu_millis)), ("memory_kib", str(amounts.memory_kib)))
    identity = Identity(instance, f"embedded-{instance}", draw(), properties, 0, this_build())
    return WorkerRuntime(
        log,
        shard,
        [WorkerProtocol(identity, Ledger(amounts, 0))],
        ProcessExecutor(SecretSource(None, os.environ)),
        Surroundings(draw, available_kib),
    )
