"""A scheduler in memory: a log, a decider that leads and ticks, and workers that serve."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count

from events import events as e
from events.codec import decode_event
from events.facts import Configured
from streams.decider import Decider, DeciderOptions
from streams.effects import record_of
from streams.leadership import Limits
from streams.log import Log, Outgoing
from streams.memory_log import MemoryLog
from streams.provisioning import provision
from streams.topics import EVENTS, FACTS
from streams.worker.capacity import Amounts, Ledger
from streams.worker.executors import Executor, SimulatedExecutor
from streams.worker.protocol import Identity, WorkerProtocol
from streams.worker.runtime import Surroundings, WorkerRuntime

DEADLINE_S = 30.0
_connection_ids = count(1_000)


async def until(reached: Callable[[], bool], what: str = "", deadline_s: float = DEADLINE_S) -> None:
    """Let others run until `reached()`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + deadline_s
    while not reached():
        assert loop.time() < deadline, f"not reached: {what or reached}"
        await asyncio.sleep(0.005)


@asynccontextmanager
async def deciding(log: Log, shard: int = 0) -> AsyncIterator[Decider]:
    """A decider at work on a shard, stopped in good order at the end; its errors are raised."""
    one = Decider(log, shard, options=DeciderOptions(claim=True, limits=Limits(poll_ms=20), build="test"))
    stop = asyncio.Event()
    task = asyncio.create_task(one.run(stop))
    try:
        yield one
    finally:
        stop.set()
        await asyncio.wait_for(task, DEADLINE_S)


@asynccontextmanager
async def scheduler(*instances: str, shards: int = 1, **config: object) -> AsyncIterator[MemoryLog]:
    """A log with its instances registered, configured by `config`, and every shard decided."""
    log = MemoryLog()
    await provision(log, dict.fromkeys(instances or ("main",)), shards=shards)
    async with deciding_all(log, shards):
        if config:
            for instance in instances or ("main",):
                fact = Configured(instance, json.dumps({"kind": "simple", **config}))
                await log.publish((FACTS, 0), [record_of(fact)])
        yield log


@asynccontextmanager
async def deciding_all(log: Log, shards: int) -> AsyncIterator[None]:
    """A decider for each shard."""
    if shards == 0:
        yield
        return
    async with deciding(log, shards - 1), deciding_all(log, shards - 1):
        yield


def worker(
    name: str = "w1",
    *,
    cores: int = 4,
    memory_kib: int = 1 << 20,
    instance: str = "main",
    boot_epoch: int = 1,
    max_inflight: int = 0,
    **properties: str,
) -> WorkerProtocol:
    """The state machine of one worker."""
    amounts = Amounts(cores * 1000, memory_kib)
    registered = {"cpu_millis": str(amounts.cpu_millis), "memory_kib": str(memory_kib), **properties}
    identity = Identity(instance, name, boot_epoch, tuple(sorted(registered.items())), max_inflight)
    return WorkerProtocol(identity, Ledger(amounts, max_inflight))


@asynccontextmanager
async def serving(
    log: Log, *workers: WorkerProtocol, executor: Executor | None = None, shard: int = 0, **surroundings: object
) -> AsyncIterator[WorkerRuntime]:
    """Workers that are admitted; abandoned at the end where they have not stopped by themselves. Their errors are raised."""
    around = Surroundings(lambda: next(_connection_ids), **surroundings)  # type: ignore[arg-type]
    runtime = WorkerRuntime(log, shard, workers, executor or SimulatedExecutor(), around)
    task = asyncio.create_task(runtime.run())
    try:
        await until(lambda: task.done() or all(each.admitted or each.stopped for each in workers), "admitted")
        yield runtime
    finally:
        if not task.done():
            runtime.abandon("the test is over")
        await asyncio.wait_for(task, DEADLINE_S)


def events_in(log: MemoryLog, *kinds: type, shard: int = 0) -> list[e.Event]:
    """The committed events, of the given kinds only where some are given."""
    found = [decode_event(record.value) for record in log.records((EVENTS, shard))]
    return [event for event in found if not kinds or type(event) in kinds]


async def put_raw(log: Log, value: bytes, key: bytes | None = None, shard: int = 0) -> int:
    """Publish bytes as they are."""
    return (await log.publish((FACTS, shard), [Outgoing(value, key)]))[0]
