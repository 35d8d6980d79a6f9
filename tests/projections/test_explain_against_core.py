"""Explanations against the core's own decisions, on random histories: what is said of a worker is what the core would do with it."""

from __future__ import annotations

import pytest

from events import events as e
from events.fitting import may_take
from events.reasons import Explanation, WorkerStanding
from events.state import Shard, Stage
from projections import answers
from projections.explain import explain_operation
from projections.explaining.standings import Standings
from projections.explaining.waiting import reasons
from projections.fleet import instance_rows
from projections.position import Taken, take
from projections.rows import MemoryRows
from projections.table import Table
from proto.gen.headway.v1.rows_pb2 import OperationRow
from tests.projections.histories import History

ROOM = (WorkerStanding.ROOM, WorkerStanding.HELD)


def standings_of(table: Table, operation_id: int) -> tuple[OperationRow, Standings]:
    row = answers.find(table, operation_id)
    assert row is not None
    return row, Standings(table, next(instance_rows(table, row.instance)), row)


def check_the_queue(table: Table, shard: Shard, seed: int) -> int:
    """Every queued operation against every worker; returns how many pairs there were."""
    pairs = 0
    for operation in shard.operations.values():
        if operation.stage is not Stage.QUEUED:
            continue
        instance = shard.instances[operation.instance]
        _, standings = standings_of(table, operation.operation_id)
        for found in standings.assessed:
            worker = instance.workers[found.worker.endpoint]
            takes = may_take(worker, operation.demand, instance.config, instance.pools)
            assert (found.standing in ROOM) == takes, (seed, operation.operation_id, found.standing, worker.endpoint)
            pairs += 1
        said = reasons(next(instance_rows(table, instance.name)), standings)
        assert said, seed
        # A pass follows every fact: what waits has no room, or the instance is paused.
        assert (Explanation.ROOM not in said) or instance.paused, (seed, operation.operation_id)
    return pairs


@pytest.mark.parametrize("seed", range(8))
def test_a_worker_has_room_exactly_where_the_core_would_place(seed: int) -> None:
    history = History(seed)
    table = Table(MemoryRows(), 0)
    offset = pairs = 0
    for _ in range(60):
        history.run(10)
        for value in history.values():
            assert take(table, offset, value) is Taken.FOLDED
            offset += 1
        table.flush()
        pairs += check_the_queue(table, history.shard, seed)
    assert pairs > 100


@pytest.mark.parametrize("seed", range(4))
def test_before_each_placement_the_worker_that_was_taken_stands_first_among_those_with_room(seed: int) -> None:
    history = History(seed + 100).run(600)
    table = Table(MemoryRows(), 0)
    placements = 0
    for offset, (event, value) in enumerate(zip(history.events, history.values(), strict=True)):
        if isinstance(event, e.OperationDispatched):
            table.flush()
            _, standings = standings_of(table, event.operation_id)
            if not event.backfilled:
                placements += 1
                with_room = [found.worker.endpoint for found in standings.with_room()]
                assert with_room[:1] == [event.endpoint], (seed, event.seq, with_room)
        assert take(table, offset, value) is Taken.FOLDED
    assert placements > 10


def test_whatever_the_stage_an_operation_has_a_reason() -> None:
    stages = set()
    for seed in range(50, 53):
        history = History(seed).run(300)
        table = Table(MemoryRows(), 0)
        for offset, value in enumerate(history.values()):
            take(table, offset, value)
        table.flush()
        for answer in answers.operations(table):
            row = answers.find(table, answer["operation_id"])
            assert row is not None
            found = explain_operation(table, row)
            assert found["reasons"], seed
            assert all(reason["sentence"] for reason in found["reasons"])
            stages.add(answer["stage"])
    assert {"queued", "executing", "finished"} <= stages
