"""Invariants that hold at every fact boundary, on random fact sequences with lies, outages, restarts and reconfigurations in them.

Rerun one by its seed: `pytest tests/properties/test_invariants.py -k '[7]'`; the seed is in every failure message too.
"""

import random

import pytest

from events import events as e
from events.codec import GENESIS_CHAIN, decode_event, encode_event
from events.decide import decide, elect
from events.evolve import evolve
from events.facts import Configured
from events.fitting import UNDECLARED, may_take, worker_totals
from events.indexing import build_indexes
from events.state import Instance, Operation, Shard, Stage, Worker
from tests.properties.facts import CONFIGS, INSTANCES, World
from tests.reference.rows import rows_of


def fresh() -> Shard:
    shard = Shard()
    build_indexes(shard)
    return shard


def takes(instance: Instance, worker: Worker, operation: Operation) -> bool:
    """Whether the worker would be given the operation now; a backfill hold may let through more than this says."""
    hold = instance.hold
    if hold is not None and hold.worker is worker and operation.sort_key > hold.operation.sort_key:
        return False
    return may_take(worker, operation.demand, instance.config, instance.pools)


def check_keys(shard: Shard, where: str) -> None:
    """V-3: a live cacheable action is one operation, and its key is that operation's; a live id leads to its operation."""
    for instance in shard.instances.values():
        live = [
            op for op in shard.operations.values() if op.instance == instance.name and op.stage is not Stage.FINISHED
        ]
        keyed = {op.action_key(): op for op in live if op.action_key()}
        assert instance.by_action == keyed, where
        assert len(keyed) == sum(1 for op in live if op.action_key()), f"{where}: two live operations of one action"
        for operation in live:
            for client_operation_id in operation.client_ids():
                assert instance.by_client[client_operation_id] is operation, where


def check_hold(instance: Instance, where: str) -> None:
    """V-5."""
    hold = instance.hold
    if hold is not None:
        assert hold.operation.stage is Stage.QUEUED, where
        assert instance.workers.get(hold.worker.endpoint) is hold.worker, where
        assert not hold.worker.draining, where
        assert not hold.worker.paused, where
    assert (instance.matcher.held is None) == (hold is None), where


def check_verdicts(instance: Instance, where: str) -> None:
    """X2: what waits and could run nowhere is known, and nothing else is."""
    for demand, _ in instance.matcher.demands():
        able = any(
            demand.need.satisfied_by(dict(worker.properties)) and demand.fits(worker.totals)
            for worker in instance.workers.values()
        )
        shortage = instance.unsatisfiable.get(demand.requirement_id)
        if instance.workers or instance.config.no_worker_action_timeout_s:
            assert (shortage is None) == able, f"{where}: requirement {demand.requirement_id}"
        if shortage is not None:
            assert shortage.no_workers == (not instance.workers), where


def check(shard: Shard, seed: int, step: int) -> None:
    """V-1, V-2, V-3, V-5, V-7, the verdicts and the fixpoint."""
    where = f"seed {seed} step {step}"
    check_keys(shard, where)
    for instance in shard.instances.values():
        check_hold(instance, where)
        check_verdicts(instance, where)
        for worker in instance.workers.values():
            unaccepted = sum(not d.accepted and not d.revoked for d in worker.running.values())
            assert worker.unaccepted == unaccepted, f"{where}: unaccepted of {worker.endpoint}"
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
        queued = [op for op in dict.fromkeys(instance.by_client.values()) if op.stage is Stage.QUEUED]
        assert all(op.dispatch is None for op in queued), where
        assert sorted(op.sort_key for op in queued) == [op.sort_key for op in instance.matcher.walk()], where
        if not instance.paused:
            for operation in queued:
                for worker in instance.workers.values():
                    assert not takes(instance, worker, operation), (
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
        fact = Configured(name, world.rng.choice(('{"kind":"simple"}', *CONFIGS)))
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
    # Parked keys need a defect; a worker that refuses while idle, memory figures that no random fleet agrees on (test_head_of_line.py).
    elsewhere = {"KeyParked", "KeyReleased", "WorkerIdleCapped"}
    missing = {kind.__name__ for kind in e.Event.__args__} - seen - elsewhere
    assert not missing


def test_undeclared_pools_satisfy_nothing() -> None:
    assert worker_totals((("cpu_millis", "4"),), ("cpu_millis", "gpu")) == [4, UNDECLARED]
