"""A simulated run as records of the two topics: what a decider that keeps up would have left in the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from events import events as e
from events import facts as f
from events.codec import GENESIS_CHAIN, EventEncoder, encode_fact
from events.config import SimpleScheduler
from events.fact_rules import key_of
from streams.log import Record
from streams.simulate.workload import Workload
from streams.simulate.world import World

LEADER_EPOCH = 1


@dataclass(slots=True)
class Recording:
    """Facts and events of a run, in order. Offsets of facts count from 0 without holes; events have a hole behind each fact's."""

    facts: list[Record] = field(default_factory=list)
    events: list[Record] = field(default_factory=list)
    queued: int = 0
    """The most operations that waited at once."""


def record(workload: Workload, config: SimpleScheduler) -> Recording:
    """Simulate the workload and keep its records.

    Raises SimulationStuck, as the world does.
    """
    recording = Recording()
    encoder = EventEncoder()
    chain = GENESIS_CHAIN
    offset = 0
    world: World

    def keep(fact_offset: int, at_us: int, fact: f.Fact | None, caused: Sequence[e.Event]) -> None:
        nonlocal chain, offset
        if fact is not None:
            recording.facts.append(Record(fact_offset, at_us, key_of(fact).encode() or None, encode_fact(fact)))
        for event in caused:
            value, chain = encoder.encode(event, LEADER_EPOCH, chain)
            recording.events.append(Record(offset, at_us, None, value))
            offset += 1
        offset += 1  # the end of the transaction takes an offset
        for instance in world.shard.instances.values():
            recording.queued = max(recording.queued, len(instance.matcher))

    world = World(workload, config, keep)
    world.run()
    return recording
