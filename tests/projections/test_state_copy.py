"""A copy of the state: equal in every row, and independent of the original."""

from copy import deepcopy

import pytest

from events.evolve import evolve
from events.indexing import build_indexes
from events.state import Shard
from projections.state_copy import copy_of
from tests.projections.recorded import Recorded
from tests.reference.rows import rows_of


def folded(recorded: Recorded, events: int | None = None) -> Shard:
    shard = Shard()
    for _, event in recorded.events[:events]:
        evolve(shard, event)
    return shard


@pytest.mark.parametrize("seed", range(6))
def test_a_copy_has_every_row(seed: int) -> None:
    shard = folded(Recorded().walk(seed, 400))
    made = copy_of(shard)
    assert rows_of(made) == rows_of(shard)
    assert (made.cluster_id, made.elected_seq, made.requirement_ids) == ("c", shard.elected_seq, shard.requirement_ids)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_folded_into_a_copy_is_not_seen_in_the_original(seed: int) -> None:
    recorded = Recorded().walk(seed, 400)
    half = len(recorded.events) // 2
    shard = folded(recorded, half)
    before = deepcopy(rows_of(shard))  # it refers to lists of the rows
    made = copy_of(shard)
    build_indexes(made)
    for _, event in recorded.events[half:]:
        evolve(made, event)
    assert rows_of(shard) == before
    assert rows_of(made) == rows_of(folded(recorded))


def test_rows_of_a_copy_refer_to_rows_of_the_copy() -> None:
    shard = folded(Recorded().walk(3, 400))
    made = copy_of(shard)
    runs = [
        run
        for instance in made.instances.values()
        for worker in instance.workers.values()
        for run in worker.running.values()
    ]
    assert runs
    for run in runs:
        assert run.operation is made.operations.get(run.operation_id, run.operation)  # a forgotten one may still run
        assert run.worker is made.instances[run.worker.instance].workers[run.worker.endpoint]


def test_a_live_state_is_not_copied() -> None:
    shard = folded(Recorded().walk(1, 20))
    build_indexes(shard)
    with pytest.raises(ValueError, match="live"):
        copy_of(shard)
