"""Event logs made by deciding random facts: what the folds are tried on."""

from __future__ import annotations

import random
from collections.abc import Iterator

from events import events as e
from events import facts as f
from events.codec import GENESIS_CHAIN, encode_event
from events.decide import decide, elect
from events.indexing import build_indexes
from events.state import Shard
from streams.log import Outgoing
from tests.properties.facts import CONFIGS, World


class History:
    """A shard that is decided on, and the records that its events are on the log."""

    def __init__(self, seed: int, *, configure: bool = True) -> None:
        self.shard = Shard()
        build_indexes(self.shard)
        self.world = World(random.Random(seed))
        self.events: list[e.Event] = []
        self._chain, self._epoch = GENESIS_CHAIN, 0
        self._offset = 0
        self._fresh: list[e.Event] = []
        self.elect()
        if configure:
            self.decide(f.Configured("main", CONFIGS[0]))
            self.decide(f.Configured("night", CONFIGS[1]))

    def elect(self) -> None:
        """Another leader."""
        self._take(
            elect(
                self.shard,
                leader_epoch=self.shard.leader_epoch + 1,
                cluster_id="c",
                events_topic_id="t",
                build="b",
                facts_end=self._offset + 2,  # so many facts waited for this leader
            )
        )

    def decide(self, fact: f.Fact, append_us: int | None = None, key: str = "") -> None:
        """One fact."""
        at_us = self.world.now_us if append_us is None else append_us
        events = decide(self.shard, fact, offset=self._offset, append_us=at_us, key=key)
        self._offset += 1
        self.world.see(events)
        self._take(events)

    def run(self, facts: int) -> History:
        """So many random facts."""
        for _ in range(facts):
            append_us, fact = self.world.next()
            self.decide(fact, append_us)
            if self.world.rng.random() < 0.005:
                self.elect()
            if self.world.rng.random() < 0.01:  # the world drains often, and hardly ever meets a drained worker again
                for instance in self.shard.instances.values():
                    for worker in [worker for worker in instance.workers.values() if worker.draining]:
                        self.decide(f.WorkerUndrained(worker.instance, worker.endpoint))
        return self

    def fresh(self) -> list[e.Event]:
        """Events since the last call."""
        events, self._fresh = self._fresh, []
        return events

    def outgoing(self) -> list[Outgoing]:
        """The records of the events since the last call, chained."""
        return [Outgoing(value) for value in self.values()]

    def values(self) -> Iterator[bytes]:
        """The bytes of the events since the last call, chained."""
        for event in self.fresh():
            if isinstance(event, e.LeaderElected):
                self._epoch = event.leader_epoch
            value, self._chain = encode_event(event, self._epoch, self._chain)
            yield value

    def _take(self, events: list[e.Event]) -> None:
        self.events += events
        self._fresh += events


def records(history: History, *, first_offset: int = 0) -> list[tuple[int, bytes]]:
    """(offset, value) of the events since the last call, with a hole behind each tenth, as transactions leave them."""
    offset, made = first_offset, []
    for number, value in enumerate(history.values()):
        made.append((offset, value))
        offset += 2 if number % 10 == 9 else 1
    return made
