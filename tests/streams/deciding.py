"""A cluster in memory with facts in it, deciders over it, and what the log holds afterwards."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import fields, replace

from events import events as e
from events import facts as f
from events.codec import canonical_requirements, decode_event, encode_fact
from events.reasons import IgnoreReason
from proto.gen.headway.v1 import placements_pb2
from streams.decider import Decider, DeciderOptions
from streams.leadership import Limits
from streams.log import Log, Outgoing, Record
from streams.memory_log import MemoryLog
from streams.ownership import Role
from streams.recovery import Fold
from streams.topics import DEAD_LETTERS, EVENTS, FACTS, PLACEMENTS, topic_table

DEADLINE_S = 60.0
START_US = 1_700_000_000_000_000


class Clock:
    """A monotonic clock that the test moves."""

    def __init__(self) -> None:
        self.now_us = 0

    def __call__(self) -> int:
        return self.now_us


class Cluster:
    """A `MemoryLog` with a clock that the test sets, and what stands in it."""

    def __init__(self, *, cluster_id: str = "memory") -> None:
        self.now_us = START_US
        self.log = MemoryLog(clock_us=lambda: self.now_us, cluster_id=cluster_id)

    @classmethod
    async def start(cls, *, shards: int = 1, cluster_id: str = "memory") -> Cluster:
        cluster = cls(cluster_id=cluster_id)
        await cluster.log.ensure_topics(topic_table(shards))
        return cluster

    async def put(self, *facts: f.Fact, shard: int = 0) -> list[int]:
        """Publish facts a millisecond apart, keyed as producers key them."""
        offsets = []
        for fact in facts:
            self.now_us += 1_000
            key = getattr(fact, "client_operation_id", "") or getattr(fact, "endpoint", "")
            offsets += await self.log.publish((FACTS, shard), [Outgoing(encode_fact(fact), key.encode() or None)])
        return offsets

    async def put_raw(self, value: bytes, key: bytes | None = None, *, shard: int = 0) -> int:
        """Publish bytes as they are."""
        return (await self.log.publish((FACTS, shard), [Outgoing(value, key)]))[0]

    def records(self, topic: str, shard: int = 0) -> list[Record]:
        return self.log.records((topic, shard))

    def fold(self, shard: int = 0) -> Fold:
        """The state of everything committed; raises where chain or seq do not hold."""
        fold = Fold(shard)
        fold.apply(self.records(EVENTS, shard))
        assert fold.stale == 0
        return fold

    def events(self, shard: int = 0) -> list[e.Event]:
        """The committed events, checked for gaps and a whole chain."""
        self.fold(shard)
        return [decode_event(record.value) for record in self.records(EVENTS, shard)]

    def kinds(self, shard: int = 0) -> list[str]:
        return [type(event).__name__ for event in self.events(shard)]

    def placements(self, shard: int = 0) -> list[placements_pb2.Placement]:
        return [placements_pb2.Placement.FromString(record.value) for record in self.records(PLACEMENTS, shard)]

    def placed_ids(self, shard: int = 0) -> list[int]:
        return placed_ids(self.records(PLACEMENTS, shard))


def events_of(events: list[e.Event], *kinds: type) -> list[e.Event]:
    return [event for event in events if type(event) in kinds]


OF_ELECTIONS = (e.LeaderElected, e.RecoveryCompleted, e.EndpointConfirmed)
"""What a change of leaders adds to the log, and all it may add."""


def without_elections(events: list[e.Event]) -> list[e.Event]:
    """Events with those of elections taken out and everything renumbered as if they had never been there."""
    renumbered: dict[int, int] = {0: 0}
    kept = []
    for event in events:
        if type(event) in OF_ELECTIONS:
            continue
        renumbered[event.seq] = len(kept) + 1
        changed = {"seq": renumbered[event.seq]}
        for name in ("dispatch_id", "through_seq", "chunk_seq"):
            if any(field.name == name for field in fields(event)):
                changed[name] = renumbered[getattr(event, name)]
        if type(event) is e.WorkerAdmitted:
            changed["kept"] = tuple(renumbered[dispatch_id] for dispatch_id in event.kept)
        kept.append(replace(event, **changed))
    return kept


def assert_exactly_once(cluster: Cluster, shard: int = 0) -> None:
    """`check_exactly_once` of what stands in the cluster."""
    check_exactly_once(**{topic: cluster.records(name, shard) for topic, name in CHECKED.items()})


CHECKED = {"facts": FACTS, "events": EVENTS, "placements": PLACEMENTS, "dead_letters": DEAD_LETTERS}


def check_exactly_once(
    *, facts: list[Record], events: list[Record], placements: list[Record], dead_letters: list[Record]
) -> list[e.Event]:
    """What must hold of every log: seq and chain whole, each fact decided once and in order, each dispatch placed once.

    Returns the events.
    """
    fold = Fold(0)
    fold.apply(events)
    assert fold.stale == 0
    decoded = [decode_event(record.value) for record in events]
    assert [event.seq for event in decoded] == list(range(1, len(decoded) + 1))
    causes = [event.cause_offset for event in decoded if type(event) is not e.LeaderElected]
    assert causes == sorted(causes)
    assert sorted(set(causes)) == [record.offset for record in facts]
    own = Counter(
        event.cause_offset
        for event in decoded
        if type(event) in (e.OperationQueued, e.FactRejected, e.Ticked, e.WorkerAdmitted, e.Configured)
    )
    assert not [offset for offset, count in own.items() if count > 1]
    assert placed_ids(placements) == [event.seq for event in events_of(decoded, e.OperationDispatched)]
    turned_away = [
        event
        for event in decoded
        if type(event) is e.FactRejected or (type(event) is e.FactIgnored and event.reason is IgnoreReason.KEY_PARKED)
    ]
    assert len(dead_letters) == len(turned_away)
    return decoded


def placed_ids(placements: list[Record]) -> list[int]:
    """Dispatch ids in the placements, redeliveries left out."""
    decoded = [placements_pb2.Placement.FromString(record.value) for record in placements]
    placed = [placement.action_placed for placement in decoded if placement.WhichOneof("kind") == "action_placed"]
    return [placement.dispatch_id for placement in placed if not placement.redelivered]


def configured(instance: str = "main", **options: object) -> f.Configured:
    return f.Configured(instance, json.dumps({"kind": "simple", **options}))


def connected(
    endpoint: str, cpu_millis: int = 4000, *, instance: str = "main", connection_id: int = 7
) -> f.WorkerConnected:
    return f.WorkerConnected(instance, endpoint, 1, connection_id, (("cpu_millis", str(cpu_millis)),))


def queued(name: str, cpu_millis: int = 1000, *, instance: str = "main", priority: int = 0) -> f.ActionQueued:
    return f.ActionQueued(instance, name, canonical_requirements([("cpu_millis", str(cpu_millis))]), priority)


def decider(log: Log, shard: int = 0, *, claim: bool = True, ticks: bool = False, **more: object) -> Decider:
    """A decider that takes the shard at once and does not tick, unless told otherwise."""
    monotonic_us = more.pop("monotonic_us", None)
    limits = Limits(
        **{
            "poll_ms": 20,
            **{
                name: more.pop(name)
                for name in ("most_facts", "first_facts", "close_at_bytes", "gather_us")
                if name in more
            },
        }
    )
    options = DeciderOptions(claim=claim, ticks=ticks, limits=limits, build="test", **more)
    if monotonic_us is None:
        return Decider(log, shard, options=options)
    return Decider(log, shard, options=options, monotonic_us=monotonic_us)


async def until(reached: Callable[[], bool], what: str = "") -> None:
    """Let others run until `reached()`, at most DEADLINE_S."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + DEADLINE_S
    while not reached():
        assert loop.time() < deadline, f"not reached: {what or reached}"
        await asyncio.sleep(0.002)


@asynccontextmanager
async def running(*deciders: Decider) -> AsyncIterator[None]:
    """Run deciders until the block ends, then stop them in good order; their errors are raised."""
    stop = asyncio.Event()
    tasks = [asyncio.create_task(one.run(stop)) for one in deciders]
    try:
        yield
    finally:
        stop.set()
        done, late = await asyncio.wait(tasks, timeout=DEADLINE_S)
        for task in late:
            task.cancel()
    assert not late
    for task in done:
        task.result()


async def leading(one: Decider) -> None:
    await until(lambda: one.role is Role.LEADING, f"shard {one.shard} leads; it is {one.role}")


async def decided(one: Decider, cluster: Cluster) -> None:
    """Wait until every fact in the log is decided by `one`."""

    def all_decided() -> bool:
        records = cluster.records(FACTS, one.shard)
        return one.role is Role.LEADING and one.stats.position >= (records[-1].offset if records else -1)

    await until(all_decided, "every fact is decided")


async def decide_all(cluster: Cluster, log: Log | None = None, shard: int = 0, **options: object) -> Decider:
    """Run one decider over `log` until every fact is decided, and stop it."""
    one = decider(log or cluster.log, shard, **options)
    async with running(one):
        await decided(one, cluster)
    return one
