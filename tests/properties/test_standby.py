"""A standby that keeps its indexes up while it follows decides what one decides that builds them when it takes over.

Rerun one by its seed: `pytest tests/properties/test_standby.py -k '[7]'`.
"""

from __future__ import annotations

import random

import pytest

from events import events as e
from events.codec import GENESIS_CHAIN, encode_event
from events.decide import decide, elect
from events.facts import Configured, Fact
from events.indexing import build_indexes
from events.state import Shard
from streams.log import Record
from streams.recovery import Fold
from tests.properties.facts import CONFIGS, INSTANCES, World


class Succession:
    """One leader after the other on one log; each takeover is made twice, by a standby with indexes and by one without."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.takeovers = self.placed = 0
        self._chain = GENESIS_CHAIN
        self._offset = 0
        self._warm = self._cold = Shard()
        self._standby = Fold(0)
        self.take_over(0)

    def take_over(self, waiting: int) -> None:
        """The standby becomes the leader, beside another that has folded the log without indexes; a new standby begins to follow."""
        cold = Fold(0)
        cold.apply(self.records)
        build_indexes(cold.shard)
        warm = self._standby.shard
        if not warm.live:
            build_indexes(warm)
        self._warm, self._cold = warm, cold.shard
        self._standby = Fold(0)
        self._standby.apply(self.records)
        end = self._offset + waiting
        elected = [elect(s, leader_epoch=s.leader_epoch + 1, facts_end=end) for s in (warm, cold.shard)]
        self._keep(*elected)
        self.takeovers += 1

    def go_live(self) -> None:
        """The standby has caught up: from here on it folds with indexes."""
        if not self._standby.shard.live:
            build_indexes(self._standby.shard)

    def take(self, append_us: int, fact: Fact) -> list[e.Event]:
        """Both decide the fact, the standby folds what they decided; returns it."""
        decided = [decide(shard, fact, offset=self._offset, append_us=append_us) for shard in (self._warm, self._cold)]
        self._offset += 1
        caused = self._keep(*decided)
        self.placed += sum(type(event) is e.OperationDispatched for event in caused)
        return caused

    def _keep(self, ours: list[e.Event], theirs: list[e.Event]) -> list[e.Event]:
        assert ours == theirs
        before = len(self.records)
        for event in ours:
            value, self._chain = encode_event(event, self._warm.leader_epoch, self._chain)
            self.records.append(Record(len(self.records), event.at_us, None, value))
        self._standby.apply(self.records[before:])
        return ours


def succeeded(seed: int, facts: int = 400) -> Succession:
    rng = random.Random(f"standby {seed}")
    world, shard = World(random.Random(seed)), Succession()
    for name in INSTANCES:
        world.see(shard.take(world.now_us, Configured(name, world.rng.choice(CONFIGS))))
    for _ in range(facts):
        drawn = rng.random()
        if drawn < 0.03:
            shard.take_over(rng.randrange(4))
        elif drawn < 0.2:
            shard.go_live()
        world.see(shard.take(*world.next()))
    return shard


@pytest.mark.parametrize("seed", range(40))
def test_kept_indexes_decide_what_built_ones_do(seed: int) -> None:
    succeeded(seed)


def test_the_walks_take_over_and_place() -> None:
    """Otherwise the comparison would say nothing."""
    walks = [succeeded(seed) for seed in range(10)]
    assert sum(walk.takeovers for walk in walks) > 60
    assert sum(walk.placed for walk in walks) > 300
