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

STRATEGIES = list(AllocationStrategy)
SEEDS = (
    [int(os.environ["HEADWAY_WALK_SEED"])]
    if "HEADWAY_WALK_SEED" in os.environ
    else list(range(int(os.environ.get("HEADWAY_WALKS", "16"))))
)


def random_shape(rng: random.Random) -> Shape:
    """A world that is small enough for the reference and odd enough to reach every branch."""
    pools = rng.choice([0, 1, 2, 2, 2, 3, 4])
    vetoes = [None, "memory_kib", "cpu_millis"][: (2 if pools >= 2 else 1)] + (["cpu_millis"] if pools >= 1 else [])
    return Shape(
        strategy=rng.choice(STRATEGIES),
        pools=pools,
        veto=rng.choice(vetoes),
        declines=rng.choice([False, True]),
        holds=rng.choice([False, True]),
        backfill=rng.choice([False, True]),
        prefers=rng.choice([False, True]),
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


@pytest.mark.parametrize("strategy", [each for each in STRATEGIES if each is not AllocationStrategy.BEST_FIT])
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


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_walks_reach_held_workers_backfill_and_the_exemption_from_the_veto(strategy: AllocationStrategy) -> None:
    shape = Shape(
        strategy=strategy, requirements=60, workers=4, veto="memory_kib", declines=True, holds=True, backfill=True
    )
    world = World(shape, random.Random(11).randrange)
    for _ in range(4):
        world.add_worker(world.choose(4), world.choose(4))
    world.walk(1_200)
    assert world.held_decisions > 15
    assert world.backfilled > 7
    assert world.exempt > 0


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_walks_place_on_preferred_workers_beside_holds(strategy: AllocationStrategy) -> None:
    """Who holds an action's inputs may get it instead of the strategy's choice, and the pass goes on as the plain one does."""
    shape = Shape(
        strategy=strategy, requirements=60, workers=12, veto="memory_kib", declines=True, holds=True, prefers=True
    )
    world = World(shape, random.Random(13).randrange)
    for _ in range(8):
        world.add_worker(world.choose(4), world.choose(4))
    world.walk(800)
    assert world.redirected > 8
    assert world.held_decisions > 0


class _TapeEnded(Exception):
    """The tape of choices is used up: the walk ends here."""


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    tape=st.lists(st.integers(0, 10_000), min_size=10, max_size=300),
    strategy=st.sampled_from(STRATEGIES),
    pools=st.integers(1, 4),
    veto=st.booleans(),
    holds=st.booleans(),
    backfill=st.booleans(),
    merge_above=st.sampled_from([0, 1, 8]),
    requirements=st.sampled_from([2, 12, 60]),
    burst=st.sampled_from([1, 6]),
)
def test_a_short_walk_decides_as_the_reference_does(
    tape: list[int],
    strategy: AllocationStrategy,
    pools: int,
    veto: bool,
    holds: bool,
    backfill: bool,
    merge_above: int,
    requirements: int,
    burst: int,
) -> None:
    left = iter(tape)

    def choose(n: int) -> int:
        try:
            return next(left) % n
        except StopIteration:
            raise _TapeEnded from None

    shape = Shape(
        strategy=strategy,
        pools=pools,
        veto=("memory_kib" if pools > 1 else "cpu_millis") if veto else None,
        declines=veto,
        holds=holds,
        backfill=backfill,
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
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_fleet_of_two_thousand_decides_as_the_reference_does(strategy: AllocationStrategy) -> None:
    rng = random.Random(2000)
    shape = Shape(
        strategy=strategy,
        holds=True,
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
