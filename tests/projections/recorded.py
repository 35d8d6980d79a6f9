"""Facts and the events they caused, as they stand in two topics: what deciding again is tried on."""

from __future__ import annotations

import random
from collections.abc import Callable

from events import events as e
from events import facts as f
from events.codec import decode_event, decode_fact, encode_event, encode_fact
from events.codec.chain import GENESIS_CHAIN
from events.decide import decide, elect, reject_undecidable
from events.errors import InvalidFact
from events.fact_rules import key_of
from events.indexing import build_indexes
from events.state import Shard
from projections.redeciding import Divergence, Redeciding, redecide
from projections.rows import MemoryRows
from streams.holders import FoldedHolders
from streams.log import Record
from tests.properties.facts import CONFIGS, INSTANCES, World


class Recorded:
    """A shard that is decided on by the rules in force now, and the records of its facts and events."""

    def __init__(self) -> None:
        self.shard = Shard()
        build_indexes(self.shard)
        self.facts: list[Record] = []
        self.events: list[tuple[int, e.Event]] = []
        self._holders = FoldedHolders(MemoryRows(), 0)
        self._chain = GENESIS_CHAIN
        self.elect()

    def elect(self, **named: object) -> None:
        """Another leader, for which two more facts waited."""
        waiting = {"facts_end": len(self.facts) + 2, "cluster_id": "c", "build": "b"}
        self._keep_unseen(elect(self.shard, leader_epoch=self.shard.leader_epoch + 1, **{**waiting, **named}))

    def take(self, fact: f.Fact, append_us: int) -> list[e.Event]:
        """Publish a fact and decide it."""
        record = self.publish(encode_fact(fact), append_us, key_of(fact))
        return self.decide(record)

    def publish(self, value: bytes, append_us: int, key: str = "") -> Record:
        """Put a fact into its topic and leave it there."""
        record = Record(len(self.facts), append_us, key.encode() or None, value)
        self.facts.append(record)
        return record

    def decide(self, record: Record) -> list[e.Event]:
        """What a published fact causes."""
        key = (record.key or b"").decode()
        fact = decode_fact(record.value)
        events = decide(self.shard, fact, offset=record.offset, append_us=record.at_us, key=key, holders=self._holders)
        self._keep(events)
        return events

    def write_off(self, fact: f.Fact, append_us: int, error: str) -> None:
        """Publish a fact and write it off, as a decider does that failed on it with `error`."""
        record = self.publish(encode_fact(fact), append_us, key_of(fact))
        self._keep_unseen(
            reject_undecidable(
                self.shard, fact, offset=record.offset, append_us=append_us, key=key_of(fact), error=error
            )
        )

    def _keep_unseen(self, events: list[e.Event]) -> None:
        self._holders.see(events)
        self._keep(events)

    def _keep(self, events: list[e.Event]) -> None:
        """Write events down as a reader of the log gets them, with a hole in the offsets behind each fact."""
        offset = self.events[-1][0] + 2 if self.events else 0
        for number, event in enumerate(events):
            value, self._chain = encode_event(event, self.shard.leader_epoch, self._chain)
            self.events.append((offset + number, decode_event(value)))
        self._holders.commit(self._chain, len(events))

    def walk(self, seed: int, facts: int, *, elections: float = 0.01) -> Recorded:
        """So many random facts, lies and outages included, and now and then another leader."""
        world = World(random.Random(seed))
        for name in INSTANCES:
            world.see(self.take(f.Configured(name, world.rng.choice(CONFIGS)), world.now_us))
        while len(self.facts) < facts:
            append_us, fact = world.next()
            try:
                caused = self.take(fact, append_us)
            except InvalidFact:
                continue  # no producer can publish it
            world.see(caused)
            if world.rng.random() < elections:
                self.elect()
        return self

    def again(self, **options: int) -> tuple[list[Divergence], Redeciding]:
        """Decide it again by the rules in force now."""
        redeciding = Redeciding(**options)
        return list(redecide(self.facts, self.events, redeciding)), redeciding

    def changed(self, change: Callable[[e.Event], e.Event | None]) -> None:
        """Rewrite the record: each event becomes what `change` makes of it, None where it stays."""
        self.events = [(offset, change(event) or event) for offset, event in self.events]
