"""A walk: random facts, what they caused, and the states in between. The seed or the example of hypothesis says which."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from events import events as e
from events import facts as f
from events.codec import GENESIS_CHAIN, encode_event
from events.decide import decide, elect
from events.indexing import build_indexes
from events.outbox import Outbound, outbox
from events.state import Shard
from streams.log import Record
from streams.recovery import Fold
from tests.properties.facts import CONFIGS, INSTANCES, World


@dataclass
class Step:
    """One fact: when it came, what it was, what it caused, and what went out with that."""

    append_us: int
    fact: f.Fact
    events: list[e.Event]
    outbounds: list[Outbound]


@dataclass
class Walk:
    """Facts one after the other on the core; `restart` in between throws its state away. Records are those of a log."""

    rng: random.Random
    configs: tuple[str, ...] = CONFIGS
    shard: Shard = field(default_factory=Shard)
    steps: list[Step] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    _chain: bytes = GENESIS_CHAIN

    def __post_init__(self) -> None:
        self.world = World(self.rng)
        build_indexes(self.shard)
        self._keep(elect(self.shard, leader_epoch=1))
        for name in INSTANCES:
            self.take(self.world.now_us, f.Configured(name, self.rng.choice(self.configs)))

    @property
    def events(self) -> list[e.Event]:
        """What the facts have caused so far."""
        return [event for step in self.steps for event in step.events]

    def take(self, append_us: int, fact: f.Fact) -> Step:
        """Decide one fact."""
        caused = decide(self.shard, fact, offset=len(self.steps), append_us=append_us)
        self.world.see(caused)
        step = Step(append_us, fact, caused, outbox(self.shard, caused, fact))
        self.steps.append(step)
        self._keep(caused)
        return step

    def go(self, facts: int) -> Iterator[Step]:
        """So many random facts, one at a time."""
        for _ in range(facts):
            yield self.take(*self.world.next())

    def restart(self) -> list[e.Event]:
        """Another decider folds the records and is elected; its election belongs to no fact."""
        fold = Fold(0)
        fold.apply(self.records)
        self.shard = fold.shard
        build_indexes(self.shard)
        elected = elect(self.shard, leader_epoch=self.shard.leader_epoch + 1)
        self._keep(elected)
        return elected

    def _keep(self, events: list[e.Event]) -> None:
        for event in events:
            value, self._chain = encode_event(event, self.shard.leader_epoch, self._chain)
            self.records.append(Record(len(self.records), event.at_us, None, value))
