"""Invariants that hold at every fact boundary, on random fact sequences with lies, outages, restarts and reconfigurations in them.

Rerun one by its seed: `pytest tests/properties/test_invariants.py -k '[7]'`; the seed is in every failure message too.
"""

import random

import pytest

from events import events as e
from events.codec import GENESIS_CHAIN, decode_event, encode_event
from events.config import DEFAULT_CONFIG, canonical_config
from events.decide import decide, elect
from events.evolve import evolve
from events.facts import Configured
from events.fitting import UNDECLARED, worker_totals
from events.indexing import build_indexes
from events.state import Shard, Stage
from tests.properties.facts import INSTANCES, World
from tests.reference.rows import rows_of


def fresh() -> Shard:
    shard = Shard()
    build_indexes(shard)
    return shard


def check(shard: Shard, seed: int, step: int) -> None:
    """V-1, V-2, V-3 (ids), V-7 and the fixpoint."""
    where = f"seed {seed} step {step}"
    for instance in shard.instances.values():
        for worker in instance.workers.values():
            charged = [0] * len(instance.pools)
            for dispatch in worker.running.values():
                for pool, amount in dispatch.demand.amounts:
                    charged[pool] += amount
                current = dispatch.operation.dispatch is dispatch
                assert current != dispatch.revoked, (
                    f"{where}: dispatch {dispatch.dispatch_id} is neither current nor revoked"
                )
                assert dispatch.worker is worker, where
            assert worker.totals == worker_totals(worker.properties, instance.pools), where
            for pool, total in enumerate(worker.totals):
                remaining = worker.remaining[pool]
                assert remaining == total - charged[pool], f"{where}: ledger of {worker.endpoint} pool {pool}"
        queued = [op for op in instance.by_client.values() if op.stage is Stage.QUEUED]
        assert all(op.dispatch is None for op in queued), where
        assert sorted(op.sort_key for op in queued) == [op.sort_key for op in instance.matcher.walk()], where
        if not instance.paused:
            for operation in queued:
                for worker in instance.workers.values():
                    fits = (
                        worker.accepts()
                        and operation.demand.fits(worker.remaining)
                        and operation.demand.need.satisfied_by(dict(worker.properties))
                    )
                    assert not fits, (
                        f"{where}: {operation.client_operation_id} waits although {worker.endpoint} has room"
                    )
    for operation in shard.operations.values():
        assert (operation.stage is Stage.EXECUTING) == (operation.dispatch is not None), where


def check_room(shard: Shard, event: e.OperationDispatched, where: str) -> None:
    """V-1: what was just dispatched had room. (A worker may come back smaller than what it still runs.)"""
    dispatch = shard.operations[event.operation_id].dispatch
    assert dispatch is not None, where
    worker = dispatch.worker
    assert not worker.draining, where
    assert not worker.paused, where
    assert worker.max_inflight == 0 or len(worker.running) <= worker.max_inflight, where
    assert all(worker.remaining[pool] >= 0 for pool, _ in dispatch.demand.amounts), (
        f"{where}: {worker.endpoint} is over its capacity"
    )
    assert dispatch.demand.need.satisfied_by(dict(worker.properties)), where


def run(seed: int, facts: int, restart_at: frozenset[int] = frozenset()) -> tuple[list[e.Event], Shard]:
    """Fold `facts` random facts; at each index in `restart_at` the state is rebuilt from the encoded events."""
    world = World(random.Random(seed))
    shard, history, chain = fresh(), [], GENESIS_CHAIN
    log: list[bytes] = []
    offset = 0

    def take(events: list[e.Event]) -> None:
        nonlocal chain
        for event in events:
            value, chain = encode_event(event, 1, chain)
            log.append(value)
        history.extend(events)
        world.see(events)

    take(elect(shard, leader_epoch=1))
    for name in INSTANCES:
        fact = Configured(name, canonical_config(DEFAULT_CONFIG))
        take(decide(shard, fact, offset=offset, append_us=world.now_us))
        offset += 1
    for step in range(facts):
        if step in restart_at:
            before = rows_of(shard)
            shard = Shard()
            for value in log:
                evolve(shard, decode_event(value))
            build_indexes(shard)
            assert rows_of(shard) == before, f"seed {seed} step {step}: the fold differs from the live state"
        append_us, fact = world.next()
        events = decide(shard, fact, offset=offset, append_us=append_us)
        assert events, f"seed {seed} step {step}: {fact} yielded no event"
        assert [event.seq for event in events] == list(range(len(history) + 1, len(history) + 1 + len(events)))
        assert all(event.cause_offset == offset for event in events)
        take(events)
        for event in events:
            if isinstance(event, e.OperationDispatched):
                check_room(shard, event, f"seed {seed} step {step}")
        check(shard, seed, step)
        offset += 1
    return history, shard


@pytest.mark.parametrize("seed", range(60))
def test_ledger_stages_and_fixpoint_hold_after_every_fact(seed: int) -> None:
    run(seed, 400)


@pytest.mark.parametrize("seed", range(100, 120))
def test_a_restart_at_any_moment_changes_no_later_event(seed: int) -> None:
    plain, shard = run(seed, 300)
    restarts = frozenset(random.Random(seed).sample(range(300), 12))
    restarted, again = run(seed, 300, restarts)
    assert restarted == plain, f"seed {seed}: restarts at {sorted(restarts)} changed the events"
    assert rows_of(again) == rows_of(shard)


def test_the_walk_reaches_every_kind_of_event() -> None:
    """Otherwise the invariants above would hold over nothing."""
    seen = {type(event).__name__ for seed in range(40) for event in run(seed, 400)[0]}
    missing = {kind.__name__ for kind in e.Event.__args__} - seen - {"KeyParked", "KeyReleased"}
    assert not missing


def test_undeclared_pools_satisfy_nothing() -> None:
    assert worker_totals((("cpu_millis", "4"),), ("cpu_millis", "gpu")) == [4, UNDECLARED]
