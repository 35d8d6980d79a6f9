"""Instances whose schedulers need edges, the edges at work over them, and what the log then holds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from events import events as e
from events import facts as f
from events.codec import GENESIS_CHAIN, canonical_requirements, encode_event
from events.values import Digest
from streams.edges.running import EdgeOptions, OpenLog, ShardEdges, UpstreamLogs
from streams.effects import record_of
from streams.log import Log, Outgoing
from streams.memory_log import MemoryLog
from streams.provisioning import provision
from streams.topics import EVENTS, FACTS
from tests.streams.scheduling import DEADLINE_S, deciding_all, events_in

DIGEST = Digest(b"\x01" * 32, 7)
ONE_CORE = canonical_requirements([("cpu_millis", "1000")])


def cache_lookup(**simple: object) -> dict[str, object]:
    return {"kind": "cache_lookup", "scheduler": {"kind": "simple", **simple}}


def upstream(instance: str, **more: object) -> dict[str, object]:
    return {"kind": "upstream", "instance": instance, **more}


def action(name: str, *, instance: str = "main", digest: Digest = DIGEST, **more: object) -> f.ActionQueued:
    """A cacheable action."""
    return f.ActionQueued(instance, name, ONE_CORE, action_digest=digest, cacheable=True, **more)  # type: ignore[arg-type]


@asynccontextmanager
async def configured(**configs: dict[str, object]) -> AsyncIterator[MemoryLog]:
    """A log of one shard with these instances, decided."""
    log = MemoryLog()
    await provision(log, dict.fromkeys(configs), shards=1)
    async with deciding_all(log, 1):
        for instance, config in configs.items():
            await put(log, f.Configured(instance, json.dumps(config)))
        yield log


@asynccontextmanager
async def edges(
    log: Log, open_log: OpenLog | None = None, *, most: int = 1_000, shard: int = 0
) -> AsyncIterator[ShardEdges]:
    """The edges of a shard at work; their errors are raised at the end."""
    own = UpstreamLogs(log, None)
    one = ShardEdges(log, shard, open_log or own, EdgeOptions(most))
    stop = asyncio.Event()
    task = asyncio.create_task(one.run(stop))
    try:
        yield one
    finally:
        stop.set()
        await asyncio.wait([task], timeout=DEADLINE_S)
        await own.close()
    task.result()


async def put(log: Log, *facts: f.Fact, shard: int = 0) -> list[int]:
    return await log.publish((FACTS, shard), [record_of(fact) for fact in facts])


async def put_events(log: Log, events: list[e.Event], shard: int = 0) -> None:
    """Write events as a decider would, numbered from 1."""
    chain, records = GENESIS_CHAIN, []
    for seq, event in enumerate(events, 1):
        event.seq = seq
        value, chain = encode_event(event, 1, chain)
        records.append(Outgoing(value))
    await log.publish((EVENTS, shard), records)


def of_instance(log: MemoryLog, instance: str, *kinds: type) -> list[e.Event]:
    """Committed events of one instance's operations, of the given kinds."""
    ids = {event.operation_id for event in events_in(log, e.OperationQueued) if event.instance == instance}  # type: ignore[attr-defined]
    return [event for event in events_in(log, *kinds) if event.operation_id in ids]  # type: ignore[attr-defined]
