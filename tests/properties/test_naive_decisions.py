"""The indexed core and a plain one decide alike on random facts, holds included: the same events, field by field.

The plain one asks every worker for every queued action (tests/reference/naive_matcher.py) and looks at all candidates for a hold each time;
in the second half of the configurations both prefer workers for the inputs they hold, by answers drawn at random.
Rerun one by its seed: `pytest tests/properties/test_naive_decisions.py -k '[7]'`.
"""

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from events import events as e
from events import indexing
from events.decide import decide, elect
from events.deciding import holding, placing
from events.deciding.candidates import Census
from events.facts import Configured, Fact
from events.indexing import build_indexes
from events.state import Operation, Shard
from events.values import Holding
from tests.properties import facts as random_facts
from tests.properties.facts import World
from tests.reference.naive_draining import choose_plainly
from tests.reference.naive_matcher import NaiveMatcher
from tests.reference.naive_pass import preferred_plainly

HOLDS = (
    '{"kind":"shortfall","after_s":0}',
    '{"kind":"shortfall","after_s":1,"max_hold_s":4}',
    '{"kind":"shortfall","after_s":0,"spare_last":true}',
    '{"kind":"backfill","after_s":0}',
    '{"kind":"backfill","after_s":0,"max_hold_s":3,"spare_last":true}',
    '{"kind":"backfill","after_s":1}',
    '{"kind":"drain_time","after_s":0,"min_runs":1,"last_runs":8}',
    '{"kind":"drain_time","after_s":0,"min_runs":2,"max_hold_s":4,"spare_last":true}',
)
REST = (
    '"supported_platform_properties":{"zone":"exact"}',
    '"live_memory_veto":"memory_kib"',
    '"allocation_strategy":"least_loaded","max_unaccepted_dispatches":2',
    '"allocation_strategy":"best_fit","live_memory_veto":"memory_kib"',
)
PREFERENCES = ("null", "400")
CONFIGS = tuple(
    f'{{"kind":"simple","hold":{hold},"locality":{{"prefer_from_bytes":{from_bytes}}},{rest}}}'
    for from_bytes in PREFERENCES
    for hold in HOLDS
    for rest in REST
)


class DrawnHolders:
    """Who holds what is drawn from the operation and how often it was dispatched: the same for whoever asks."""

    def __init__(self) -> None:
        self.dispatched: Counter[int] = Counter()

    def see(self, events: Sequence[e.Event]) -> None:
        self.dispatched.update(event.operation_id for event in events if isinstance(event, e.OperationDispatched))

    def most_bytes(self, operation: Operation) -> tuple[Holding, ...]:
        rng = random.Random(f"{operation.operation_id} {self.dispatched[operation.operation_id]}")
        return tuple(Holding(f"w{rng.randrange(8)}", 100 * rng.randrange(10)) for _ in range(rng.randrange(7)))

    def bytes_at(self, operation: Operation, endpoint: str) -> int:
        rng = random.Random(f"{operation.operation_id} {self.dispatched[operation.operation_id]} {endpoint}")
        return 100 * rng.randrange(10)


History = list[tuple[int, Fact]]


def fresh() -> tuple[Shard, list[e.Event]]:
    shard = Shard()
    build_indexes(shard)
    return shard, elect(shard, leader_epoch=1)


def walk(seed: int, count: int) -> tuple[History, list[e.Event]]:
    """Random facts on the core as it is, under configurations with a hold: the facts and what they caused."""
    world = World(random.Random(seed))
    shard, events = fresh()
    holders = DrawnHolders()
    history: History = [(world.now_us, Configured("main", world.rng.choice(CONFIGS)))]
    events += decide(shard, history[0][1], offset=0, append_us=world.now_us, holders=holders)
    for offset in range(1, count):
        history.append(world.next())
        append_us, fact = history[-1]
        caused = decide(shard, fact, offset=offset, append_us=append_us, holders=holders)
        world.see(caused)
        events += caused
    return history, events


def plainly(history: History, patched: pytest.MonkeyPatch) -> list[e.Event]:
    """What the plain core decides on the same facts."""
    patched.setattr(indexing, "Matcher", NaiveMatcher)
    patched.setattr(placing, "preferred", preferred_plainly)
    patched.setattr(holding, "choose_by_drain", choose_plainly)
    patched.setattr(
        holding,
        "_census",
        lambda step, instance, demand: Census(instance, demand, instance.config.hold.kind == "backfill"),
    )
    shard, events = fresh()
    holders = DrawnHolders()
    for offset, (append_us, fact) in enumerate(history):
        events += decide(shard, fact, offset=offset, append_us=append_us, holders=holders)
    return events


@pytest.fixture(autouse=True)
def only_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_facts, "CONFIGS", CONFIGS)
    monkeypatch.setattr(random_facts, "INSTANCES", ("main",))
    monkeypatch.setattr(
        random_facts, "BLOB_WEIGHT", 0
    )  # who holds what is drawn, and what is said of blobs moves no hold


@pytest.mark.parametrize("seed", range(30))
def test_both_decide_alike(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    history, events = walk(seed, 300)
    plain = plainly(history, monkeypatch)
    for number, (indexed, other) in enumerate(zip(events, plain, strict=False)):
        assert indexed == other, f"seed {seed}, event {number}: {indexed} but plainly {other}"
    assert len(events) == len(plain), f"seed {seed}"


def test_the_walks_make_move_and_release_holds_for_every_reason_they_can() -> None:
    """Otherwise the comparison would say nothing of holds."""
    seen = [event for seed in range(30) for event in walk(seed, 300)[1]]
    ends = {event.reason.name for event in seen if isinstance(event, e.HoldReleased)}
    moves = {event.cause.name for event in seen if isinstance(event, e.HoldMoved)}
    excluded = {
        each.exclusion.name for event in seen if isinstance(event, e.HoldNoCandidate) for each in event.excluded
    }
    assert {"PLACED", "GONE", "SUPERSEDED", "WORKER_LOST", "UNFIT", "EXPIRED", "CONFIGURED"} <= ends
    assert {"WORKER_LEFT", "DRAINED", "PAUSED", "SOONER"} <= moves
    assert {"UNFIT", "IDLE", "LAST", "UNKNOWN_DURATION"} <= excluded
    bases = [
        basis.source.name for event in seen if isinstance(event, (e.HoldMade, e.HoldMoved)) for basis in event.basis
    ]
    assert {"MNEMONIC", "TARGET", "PRODUCER"} <= set(bases)  # every source: tests/properties/test_drain_choices.py
    dispatched = [event for event in seen if isinstance(event, e.OperationDispatched)]
    assert any(event.backfilled for event in dispatched)
    assert any(event.saved_bytes >= 400 and event.overtook is not None for event in dispatched)
    assert any(event.holders and not event.saved_bytes for event in dispatched)
