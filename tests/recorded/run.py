"""The recorded run: every scene once, decided by the production core, its facts and events on a log as a decider leaves them.

recorded = recorded_run()
recorded.log        # a MemoryLog with both topics
recorded.truths     # what the scenes did
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from events import events as e
from events.codec import encode_fact
from streams.log import Outgoing
from streams.memory_log import MemoryLog
from streams.rehearsal import Identity, Rehearsal
from streams.shard_map import write_shard_map
from streams.topics import EVENTS, FACTS, topic_table
from tests.recorded import endings, losses
from tests.recorded.farm import FLEET, Farm
from tests.recorded.truths import Truth
from tests.stories.notation import MAIN

SHARD = 0
BUILD = "recorded"
Scene = Callable[[Farm], None]
Kind = TypeVar("Kind", bound=e.Event)


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """What the scenes made.

    Attributes:
        log: the facts, and the events of each fact in a transaction of their own, in shard 0.
        truths: what the scenes did, in order.
        events: all events, in order of `seq`.
        names: client_operation_id by operation_id.
    """

    log: MemoryLog
    truths: Sequence[Truth]
    events: Sequence[e.Event]
    names: dict[int, str]

    @property
    def held(self) -> list[Truth]:
        """The truths of those that a worker was held for."""
        return [truth for truth in self.truths if truth.worker]

    def first(self, kind: type[Kind], operation_id: int | None = None) -> Kind:
        """The first event of a kind, of an operation where one is given."""
        return next(
            each
            for each in self.events
            if isinstance(each, kind) and operation_id in (None, getattr(each, "operation_id", 0))
        )


@cache
def recorded_run() -> RecordedRun:
    """The run; made once, since every reader reads only."""
    return asyncio.run(_record())


async def _record() -> RecordedRun:
    clock = _Clock()
    log = MemoryLog(clock_us=clock, cluster_id="recorded")
    await log.ensure_topics(topic_table(1))
    await write_shard_map(log, {MAIN: SHARD})
    identity = Identity(await log.cluster_id(), await log.topic_id(FACTS), await log.topic_id(EVENTS))
    farm = Farm(Rehearsal(build=BUILD, identity=identity))
    _play(farm)
    await _write(log, clock, farm.story.rehearsal)
    return RecordedRun(log, farm.truths, farm.story.rehearsal.events, farm.story.names)


def _play(farm: Farm) -> None:
    """The fleet comes, the scenes follow one another, everything ends."""
    farm.configure()
    for endpoint in FLEET:
        farm.come(endpoint)
    farm.settle()
    for scene in _in_turn(endings.SCENES, losses.SCENES):
        scene(farm)
        farm.settle()
    farm.empty()
    farm.wait(2)


def _in_turn(*lists: Sequence[Scene]) -> Iterator[Scene]:
    """The first of each, then the second of each, and so on."""
    for number in range(max(map(len, lists))):
        yield from (scenes[number] for scenes in lists if number < len(scenes))


class _Clock:
    def __init__(self) -> None:
        self.now_us = 0

    def __call__(self) -> int:
        return self.now_us


async def _write(log: MemoryLog, clock: _Clock, rehearsal: Rehearsal) -> None:
    """Put facts and events down at the times they were decided for; one transaction a fact, as a decider that keeps up writes them."""
    writer = await log.open("recorder")
    transactions = _transactions(rehearsal)
    for at_us, key, fact in rehearsal.facts:
        clock.now_us = at_us
        elected, caused = next(transactions)
        if elected:
            await writer.append({(EVENTS, SHARD): elected})
        await log.publish((FACTS, SHARD), [Outgoing(encode_fact(fact), key.encode() or None)])
        await writer.append({(EVENTS, SHARD): caused})
    await writer.close()


def _transactions(rehearsal: Rehearsal) -> Iterator[tuple[list[Outgoing], list[Outgoing]]]:
    """Of each fact: the elections before it, and its own events."""
    elected: list[Outgoing] = []
    caused: list[Outgoing] = []
    position = 0
    for event, record in zip(rehearsal.events, rehearsal.records, strict=True):
        outgoing = Outgoing(record.value)
        if type(event) is e.LeaderElected:
            if caused:
                yield elected, caused
                elected, caused, position = [], [], position + 1
            elected.append(outgoing)
            continue
        if event.cause_offset != position:
            yield elected, caused
            elected, caused, position = [], [], event.cause_offset
        caused.append(outgoing)
    yield elected, caused
