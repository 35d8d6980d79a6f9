"""The indexed pass and the naive one make the same decisions: placement by placement, over random walks of the rows.

Rerun one walk with `HEADWAY_WALK_SEED=<seed>`; more of them with `HEADWAY_WALKS=<count>`.
"""

import os
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from events.config import AllocationStrategy
from tests.reference.matching_world import Shape, World

LRU, MRU = AllocationStrategy.LEAST_RECENTLY_USED, AllocationStrategy.MOST_RECENTLY_USED
SEEDS = (
    [int(os.environ["HEADWAY_WALK_SEED"])]
    if "HEADWAY_WALK_SEED" in os.environ
    else list(range(int(os.environ.get("HEADWAY_WALKS", "16"))))
)


def random_shape(rng: random.Random) -> Shape:
    """A world that is small enough for the reference and odd enough to reach every branch."""
    return Shape(
        strategy=rng.choice([LRU, MRU]),
        pools=rng.choice([1, 2, 2, 3, 4]),
        machine_types=rng.choice([1, 3, 12]),
        zones=rng.choice([0, 1, 3, 6]),
        requirements=rng.choice([1, 4, 30, 200]),
        workers=rng.choice([3, 12, 40]),
        probes=rng.choice([1, 1, 4]),
        merge_above=rng.choice([0, 1, 3, 8]),
        mutations_per_pass=rng.choice([1, 1, 4, 40]),
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_a_long_walk_decides_as_the_reference_does(seed: int) -> None:
    rng = random.Random(seed)
    shape = random_shape(rng)
    print(f"HEADWAY_WALK_SEED={seed} {shape}")
    world = World(shape, rng.randrange)
    world.walk(400)
    assert world.decisions > 0


@pytest.mark.parametrize("strategy", [LRU, MRU])
def test_the_walks_search_trees_and_overtake(strategy: AllocationStrategy) -> None:
    """Walks that only ever probed would prove little: these must go down trees, merge lines and place behind a waiting head."""
    shape = Shape(strategy=strategy, requirements=60, workers=30, machine_types=8, probes=1, merge_above=3)
    world = World(shape, random.Random(7).randrange)
    for _ in range(30):
        world.add_worker(world.choose(8), world.choose(4))
    world.walk(600)
    assert world.decisions > 150
    assert world.overtakes > 100
    assert world.nodes_visited > 500, "the trees were hardly searched"


class _TapeEnded(Exception):
    """The tape of choices is used up: the walk ends here."""


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    tape=st.lists(st.integers(0, 10_000), min_size=10, max_size=300),
    newest=st.booleans(),
    pools=st.integers(1, 4),
    merge_above=st.sampled_from([0, 1, 8]),
    requirements=st.sampled_from([2, 12, 60]),
    burst=st.sampled_from([1, 6]),
)
def test_a_short_walk_decides_as_the_reference_does(
    tape: list[int], newest: bool, pools: int, merge_above: int, requirements: int, burst: int
) -> None:
    left = iter(tape)

    def choose(n: int) -> int:
        try:
            return next(left) % n
        except StopIteration:
            raise _TapeEnded from None

    shape = Shape(
        strategy=MRU if newest else LRU,
        pools=pools,
        requirements=requirements,
        workers=8,
        probes=1,
        merge_above=merge_above,
        mutations_per_pass=burst,
    )
    world = World(shape, choose)
    for machine in range(5):
        world.add_worker(machine, machine % 3)
    world.check_pass()
    try:
        world.walk(1000)
    except _TapeEnded:
        return


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [LRU, MRU])
def test_a_fleet_of_two_thousand_decides_as_the_reference_does(strategy: AllocationStrategy) -> None:
    rng = random.Random(2000)
    shape = Shape(
        strategy=strategy,
        requirements=150,
        workers=2_400,
        machine_types=12,
        zones=4,
        probes=4,
        merge_above=8,
        mutations_per_pass=60,
    )
    world = World(shape, rng.randrange)
    for _ in range(2_000):
        world.add_worker(rng.randrange(12), rng.randrange(5), rng.randrange(2) * rng.randrange(4))
    for _ in range(1_500):
        world.add_operation(rng.randrange(150))
    world.walk(6)
    assert world.decisions > 1_000
