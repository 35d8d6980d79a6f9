"""least_loaded and best_fit (1.3, A2): whom they take, and how much they look at."""

import random

import pytest

from events.config import AllocationStrategy, PropertyKind, SimpleScheduler
from events.fitting import Demand, StaticNeed, compile_demand
from events.matching import Matcher
from events.matching.demand_class import Asks
from events.matching.leftover_line import LeftoverLine, Rank, leftover_milli
from events.matching.slot_line import Seat
from events.matching.work import Work
from events.state import Dispatch, Operation, Worker

POOLS = ("cpu_millis", "memory_kib")
NO_NEED = StaticNeed((), (), ())


def config(strategy: AllocationStrategy) -> SimpleScheduler:
    kinds = {"arch": PropertyKind.PRIORITY, "disk": PropertyKind.PRIORITY}
    return SimpleScheduler(kind="simple", allocation_strategy=strategy, supported_platform_properties=kinds)


def worker(
    number: int, free: tuple[int, int] = (16_000, 1_000), runs: int = 0, properties: tuple[tuple[str, str], ...] = ()
) -> Worker:
    made = Worker("main", f"w{number}", 1, number, properties, 0, "", 0, 0, number, [16_000, 1_000], list(free))
    for run in range(runs):
        op = operation(1_000_000 + number * 100 + run, Demand(0, NO_NEED, ()))
        made.running[run] = Dispatch(run, op.operation_id, op, made, number, 0, op.demand)
    return made


def operation(number: int, demand: Demand) -> Operation:
    return Operation(number, "main", "", demand.requirement_id, 0, number, number, number, demand)


def taken(strategy: AllocationStrategy, workers: list[Worker], requirements: tuple[tuple[str, str], ...]) -> str:
    """Where an action with these requirements goes."""
    rules = config(strategy)
    matcher = Matcher(rules, POOLS)
    for each in workers:
        each.index = None
        matcher.add_worker(each)
    matcher.enqueue(operation(500, compile_demand(7, requirements, rules, POOLS)))
    match = matcher.next_match()
    assert match is not None
    return match.worker.endpoint


ONE_CORE = (("cpu_millis", "1000"),)


def test_least_loaded_takes_the_fewest_running_then_the_least_recent() -> None:
    workers = [worker(1, runs=2), worker(2, runs=1), worker(3, runs=3), worker(4, runs=1)]
    assert taken(AllocationStrategy.LEAST_LOADED, workers, ONE_CORE) == "w2"
    assert taken(AllocationStrategy.LEAST_LOADED, workers[2:] + workers[:1], ONE_CORE) == "w4"


def test_least_loaded_passes_over_the_least_loaded_without_room() -> None:
    workers = [worker(1, free=(500, 1_000), runs=1), worker(2, runs=5), worker(3, free=(0, 0), runs=0)]
    assert taken(AllocationStrategy.LEAST_LOADED, workers, ONE_CORE) == "w2"


def test_least_loaded_follows_runs_that_start_and_end() -> None:
    matcher = Matcher(config(AllocationStrategy.LEAST_LOADED), POOLS)
    first, second = worker(1), worker(2)
    for each in (first, second):
        matcher.add_worker(each)
    went = []
    demand = Demand(7, NO_NEED, ((0, 1_000),))
    for number in range(4):
        op = operation(number + 10, demand)
        matcher.enqueue(op)
        match = matcher.next_match()
        assert match is not None
        matcher.dequeue(op)
        match.worker.running[number] = Dispatch(number, op.operation_id, op, match.worker, 1, 0, demand)
        matcher.refresh(match.worker)
        went.append(match.worker.endpoint)
    assert went == ["w1", "w2", "w1", "w2"]


def test_best_fit_takes_where_least_is_left_over() -> None:
    workers = [worker(1, free=(16_000, 1_000)), worker(2, free=(8_000, 500)), worker(3, free=(8_000, 900))]
    assert taken(AllocationStrategy.BEST_FIT, workers, (("cpu_millis", "4000"), ("memory_kib", "100"))) == "w2"


def test_best_fit_counts_only_the_minimums_the_action_names() -> None:
    workers = [worker(1, free=(8_000, 900)), worker(2, free=(9_000, 0))]
    assert taken(AllocationStrategy.BEST_FIT, workers, ONE_CORE) == "w1"


def test_best_fit_rounds_each_pool_down_before_it_adds() -> None:
    """500 of 16,000 is 31.25 thousandths, 20 is 1.25: two workers that differ only in what is rounded off are equal."""
    workers = [worker(1, free=(4_015, 1_000)), worker(2, free=(4_001, 1_000))]
    assert taken(AllocationStrategy.BEST_FIT, workers, (("cpu_millis", "4000"),)) == "w1"


def test_best_fit_prefers_the_worker_with_the_same_priority_values_even_when_more_is_left_over() -> None:
    names = (("arch", "arm"), ("disk", "fast"))
    workers = [
        worker(1, free=(1_000, 0), properties=(("arch", "x86"), ("disk", "slow"))),
        worker(2, free=(8_000, 0), properties=(("arch", "arm"), ("disk", "slow"))),
        worker(3, free=(16_000, 0), properties=(("arch", "arm"), ("disk", "fast"))),
    ]
    for count, expected in ((3, "w3"), (2, "w2"), (1, "w1")):
        assert taken(AllocationStrategy.BEST_FIT, workers[:count], names + ONE_CORE) == expected


def test_best_fit_breaks_ties_by_the_fewest_running_then_the_least_recent() -> None:
    workers = [worker(1, runs=3), worker(2, runs=1), worker(3, runs=1)]
    assert taken(AllocationStrategy.BEST_FIT, workers, ONE_CORE) == "w2"


def test_best_fit_of_an_action_without_numbers_goes_by_running_and_recency() -> None:
    workers = [worker(1, runs=3), worker(2, free=(0, 0), runs=1), worker(3, free=(16_000, 0), runs=2)]
    assert taken(AllocationStrategy.BEST_FIT, workers, ()) == "w2"


def test_pools_without_a_total_are_not_left_over() -> None:
    assert leftover_milli([50, 10], [100, 0], ((0, 25), (1, 5))) == 250
    assert leftover_milli([50, -1], [100, -1], ((0, 25), (1, 0))) == 250


# -- the line against the plain definition ---------------------------------------------------------------------------------------------


def test_a_line_of_leftovers_answers_as_a_walk_would() -> None:
    rng = random.Random(8)
    line = LeftoverLine(3, (20, 20, 0), Work())
    seats: list[Seat] = []
    for step in range(4_000):
        if (rng.random() < 0.15 and len(seats) < 60) or not seats:
            made = worker(step)
            made.totals, made.remaining = [20, 20, 0], [20, 20, 0]
            seats.append(Seat(made, made.remaining.copy()))
            line.add(seats[-1])
        elif rng.random() < 0.03:
            line.discard(seats.pop(rng.randrange(len(seats))))
        else:
            seat = rng.choice(seats)
            seat.worker.remaining = [rng.randrange(20), rng.randrange(20), 0]
            capped = [min(seat.worker.remaining[0], rng.randrange(25)), seat.worker.remaining[1], 0]
            seat.free = rng.choice([None, capped, seat.worker.remaining.copy()])
            seat.worker.running = dict.fromkeys(range(rng.randrange(3)))  # type: ignore[arg-type]
            if rng.random() < 0.5:
                seat.recency = 10_000 + step
            line.touch(seat, True)
        if rng.random() < 0.5:
            continue
        asked = rng.choice([(), ((0, 5),), ((1, 12),), ((0, 3), (1, 8)), ((0, 18), (1, 18)), ((0, 2), (2, 0))])
        fits = [
            (Rank(leftover_milli(s.worker.remaining, s.worker.totals, asked), len(s.worker.running), s.recency), s)
            for s in seats
            if s.free is not None and all(s.free[pool] >= amount for pool, amount in asked)
        ]
        expected = min(fits, key=lambda fit: fit[0], default=None)
        assert line.best_fit(Asks(asked), asked, None) == expected
        if expected is not None:
            assert line.best_fit(Asks(asked), asked, expected[0]) is None, "nothing is better than the best"


# -- counted work ----------------------------------------------------------------------------------------------------------------------


def search_cost(strategy: AllocationStrategy, workers: list[Worker], asked: tuple[tuple[int, int], ...]) -> int:
    """What one search looks at, once the lines are up to date."""
    matcher = Matcher(config(strategy), POOLS)
    for each in workers:
        matcher.add_worker(each)
    for number in (0, 1):
        before = matcher.work.total()
        op = operation(10 + number, Demand(number, NO_NEED, asked))
        matcher.enqueue(op)
        matcher.next_match()
        cost = matcher.work.total() - before
        matcher.dequeue(op)
    return cost


@pytest.mark.parametrize("strategy", [AllocationStrategy.LEAST_LOADED, AllocationStrategy.BEST_FIT])
def test_a_search_through_idle_or_full_workers_is_flat_in_the_fleet(strategy: AllocationStrategy) -> None:
    for free, runs in (((16_000, 1_000), 0), ((0, 500), 9)):
        few, many = (
            search_cost(strategy, [worker(n, free, runs) for n in range(count)], ((0, 1_000), (1, 10)))
            for count in (20, 2_000)
        )
        assert many <= few + 12


def test_least_loaded_is_nearly_flat_in_a_mixed_fleet() -> None:
    rng = random.Random(4)
    few, many = (
        search_cost(
            AllocationStrategy.LEAST_LOADED,
            [worker(n, (rng.randrange(2_000), rng.randrange(1_000)), rng.randrange(8)) for n in range(count)],
            ((0, 1_900), (1, 950)),
        )
        for count in (100, 3_200)
    )
    assert many <= 4 * few  # 32 times the workers


def test_best_fit_looks_at_few_of_a_fleet_in_which_no_two_offer_the_same() -> None:
    rng = random.Random(4)
    few, many = (
        search_cost(
            AllocationStrategy.BEST_FIT,
            [worker(n, (rng.randrange(16_001), rng.randrange(1_001)), 1) for n in range(count)],
            ((0, 4_000), (1, 300)),
        )
        for count in (100, 3_200)
    )
    assert few < 60
    assert many < 400  # of 3,200; the square root of twice as many is 80
