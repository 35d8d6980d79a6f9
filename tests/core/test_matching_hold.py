"""The held worker (H15-H17) and backfill on it (EASY): what it takes, when it is asked, what it costs."""

import random

import pytest

from events.config import AllocationStrategy, SimpleScheduler
from events.fitting import Demand, StaticNeed
from events.matching import Match, Matcher
from events.matching.backfill import Lasting
from events.matching.demand_class import DemandClass
from events.matching.held import FEW_JOINED
from events.matching.work import Work
from events.state import Dispatch, Operation, Worker, sort_key
from streams.bench._fleet import Cell, Fleet

NO_NEED = StaticNeed((), (), ())
S = 1_000_000
POOLS = ("cpu_millis", "memory_kib")


class Yard:
    """A matcher with rows to play with; every worker has 1,000 KiB."""

    def __init__(
        self, strategy: AllocationStrategy = AllocationStrategy.LEAST_RECENTLY_USED, veto: str | None = None
    ) -> None:
        config = SimpleScheduler(kind="simple", allocation_strategy=strategy, live_memory_veto=veto)
        self.matcher = Matcher(config, POOLS)
        self.now_us = 0
        self.ids = 100

    def worker(self, name: str, cores: int, max_inflight: int = 0) -> Worker:
        self.ids += 1
        totals = [cores, 1_000]
        worker = Worker("main", name, 1, 1, (), max_inflight, "", 0, 0, self.ids, totals, list(totals))
        self.matcher.add_worker(worker)
        return worker

    def action(
        self, cores: int, priority: int = 0, lasts_s: int = 0, kind: int = 0, memory_kib: int | None = None
    ) -> Operation:
        """An action that arrives now; `kind` tells classes with the same amounts apart."""
        self.ids += 1
        key = sort_key(priority, self.ids, self.ids)
        amounts = ((0, cores),) if memory_kib is None else ((0, cores), (1, memory_kib))
        demand = Demand(cores * 10_000 + kind, NO_NEED, amounts)
        op = Operation(self.ids, "main", "", demand.requirement_id, priority, self.ids, key, 0, demand)
        op.expected_duration_us = lasts_s * S
        self.matcher.enqueue(op)
        return op

    def run(self, op: Operation, worker: Worker) -> Dispatch:
        """`op` starts on `worker`."""
        self.ids += 1
        if op.index is not None:
            self.matcher.dequeue(op)
        dispatch = Dispatch(self.ids, op.operation_id, op, worker, 1, self.now_us, op.demand)
        worker.running[self.ids] = dispatch
        worker.recency = self.ids
        for pool, amount in op.demand.amounts:
            worker.remaining[pool] -= amount
        self.matcher.refresh(worker)
        return dispatch

    def end(self, dispatch: Dispatch) -> None:
        """A run ends."""
        worker = dispatch.worker
        del worker.running[dispatch.dispatch_id]
        for pool, amount in dispatch.demand.amounts:
            worker.remaining[pool] += amount
        self.matcher.refresh(worker)

    def match(self) -> Match | None:
        return self.matcher.next_match(self.now_us)

    def settle(self) -> list[tuple[Operation, str, bool]]:
        """Run the pass; what went where, and whether it was backfilled."""
        placed = []
        while (match := self.match()) is not None:
            placed.append((match.operation, match.worker.endpoint, match.backfilled))
            self.run(match.operation, match.worker)
        return placed


def test_a_held_worker_refuses_what_sorts_after_the_held_operation() -> None:
    yard = Yard()
    worker, big, small = yard.worker("a", 8), yard.action(12), yard.action(1)
    yard.matcher.hold(worker, big)
    assert yard.matcher.held is worker
    assert yard.settle() == []
    other = yard.worker("b", 4)
    assert yard.settle() == [(small, other.endpoint, False)]


def test_a_held_worker_takes_the_held_operation_and_what_sorts_before_it() -> None:
    yard = Yard()
    worker, first, big = yard.worker("a", 8), yard.action(3), yard.action(5)
    urgent, later = yard.action(1, priority=1), yard.action(1)
    yard.matcher.hold(worker, big)
    assert yard.settle() == [(urgent, "a", False), (first, "a", False)]
    yard.end(next(iter(worker.running.values())))
    assert yard.settle() == [(big, "a", False)]
    assert later.index is not None


def test_an_operation_of_the_same_class_as_the_held_one_waits_behind_it() -> None:
    yard = Yard()
    worker, big, like_it = yard.worker("a", 8), yard.action(5), yard.action(5)
    yard.matcher.hold(worker, big)
    assert [op for op, _, _ in yard.settle()] == [big]
    assert like_it.index is not None


def test_a_class_whose_head_moves_ahead_of_the_hold_is_offered_the_held_worker() -> None:
    yard = Yard()
    worker, big, small = yard.worker("a", 8), yard.action(12), yard.action(1)
    yard.matcher.hold(worker, big)
    assert yard.settle() == []
    yard.matcher.dequeue(small)
    small.sort_key = sort_key(1, 0, small.operation_id)
    yard.matcher.enqueue(small)
    assert yard.settle() == [(small, "a", False)]


def test_a_held_operation_that_sinks_lets_those_before_it_in() -> None:
    yard = Yard()
    worker, big, small = yard.worker("a", 8), yard.action(12), yard.action(1)
    yard.matcher.hold(worker, big)
    assert yard.settle() == []
    yard.matcher.dequeue(big)
    big.sort_key = sort_key(-1, 0, big.operation_id)
    yard.matcher.enqueue(big)
    assert yard.settle() == [(small, "a", False)]


def test_a_released_hold_gives_its_room_back() -> None:
    yard = Yard()
    worker, big, small = yard.worker("a", 8), yard.action(12), yard.action(1)
    yard.matcher.hold(worker, big)
    assert yard.settle() == []
    yard.matcher.release_hold()
    assert yard.matcher.held is None
    assert yard.settle() == [(small, "a", False)]
    yard.matcher.release_hold()  # nothing to release: nothing happens


def test_a_moved_hold_gives_the_old_worker_back_and_takes_the_new_one() -> None:
    yard = Yard()
    old, new = yard.worker("a", 8), yard.worker("b", 8)
    big = yard.action(12)
    yard.matcher.hold(old, big)
    smalls = [yard.action(8), yard.action(8)]
    assert yard.settle() == [(smalls[0], "b", False)]
    yard.matcher.hold(new, big)
    assert yard.settle() == [(smalls[1], "a", False)]


def test_a_held_worker_that_leaves_takes_its_hold_along() -> None:
    yard = Yard()
    worker, big = yard.worker("a", 8), yard.action(12)
    yard.matcher.hold(worker, big)
    yard.matcher.remove_worker(worker)
    assert yard.matcher.held is None
    assert yard.matcher.next_match() is None


def test_only_a_worker_of_the_fleet_is_held() -> None:
    yard = Yard()
    worker, big = yard.worker("a", 8), yard.action(12)
    yard.matcher.remove_worker(worker)
    with pytest.raises(ValueError, match="worker 'a' is not in the fleet; it cannot be held"):
        yard.matcher.hold(worker, big)


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (AllocationStrategy.LEAST_RECENTLY_USED, "a"),
        (AllocationStrategy.MOST_RECENTLY_USED, "c"),
        (AllocationStrategy.LEAST_LOADED, "b"),
        (AllocationStrategy.BEST_FIT, "c"),
    ],
)
@pytest.mark.parametrize("held", ["a", "b", "c"])
def test_a_held_worker_keeps_its_place_in_strategy_order(
    strategy: AllocationStrategy, expected: str, held: str
) -> None:
    """The held operation may land on any worker (H16): on the one it would have gone to without a hold."""
    yard = Yard(strategy)
    workers = {name: yard.worker(name, cores) for name, cores in (("a", 16), ("b", 20), ("c", 8))}
    for name in ("a", "c"):
        dispatch = yard.run(yard.action(1), workers[name])
        dispatch.worker.recency = {"a": 1, "c": 10_000}[name]
        yard.matcher.refresh(dispatch.worker)
    big = yard.action(5)
    yard.matcher.hold(workers[held], big)
    assert yard.settle() == [(big, expected, False)]


# -- backfill --------------------------------------------------------------------------------------------------------------------------


def easy(cores: int = 10, running: int = 6, ends_s: int = 100, needs: int = 8) -> tuple[Yard, Worker, Operation]:
    """A worker on which `running` cores end at `ends_s`; it is held for an action of `needs` cores that starts then."""
    yard = Yard()
    worker = yard.worker("a", cores)
    yard.run(yard.action(running, lasts_s=ends_s), worker)
    big = yard.action(needs)
    yard.matcher.hold(worker, big, free_at_us=ends_s * S, backfill=True)
    assert yard.settle() == []
    return yard, worker, big


def test_what_ends_before_the_held_operation_starts_is_backfilled() -> None:
    yard, _, _ = easy()
    too_long, exact = yard.action(4, lasts_s=101), yard.action(4, lasts_s=100)
    match = yard.match()
    assert match is not None
    assert (match.operation, match.backfilled, match.overtook) == (exact, True, too_long.operation_id - 1)


def test_time_takes_backfill_away() -> None:
    yard, _, _ = easy()
    yard.action(4, lasts_s=100)
    yard.now_us = 1
    assert yard.match() is None


def test_a_later_start_of_the_held_operation_makes_backfill_possible() -> None:
    yard, worker, big = easy()
    op = yard.action(4, lasts_s=150)
    assert yard.match() is None
    yard.matcher.hold(worker, big, free_at_us=150 * S, backfill=True)
    assert yard.settle() == [(op, "a", True)]


def test_what_fits_beside_the_held_operation_is_backfilled_however_long_it_lasts() -> None:
    yard, _, _ = easy(cores=10, needs=8)
    three, two, one = yard.action(3, lasts_s=500), yard.action(2), yard.action(1)
    assert yard.settle() == [(two, "a", True)]  # then nothing is left beside
    assert three.index is not None
    assert one.index is not None


def test_the_whole_memory_of_the_held_worker_is_backfilled_where_the_held_operation_asks_for_none() -> None:
    """Who asks for the whole is exempt from the veto (V1), beside a held operation as elsewhere."""
    yard = Yard(veto="memory_kib")
    worker = yard.worker("a", 10)
    yard.run(yard.action(6, lasts_s=100), worker)
    worker.free_memory_kib = 10
    yard.matcher.refresh(worker)
    big = yard.action(8)
    yard.matcher.hold(worker, big, free_at_us=100 * S, backfill=True)
    most, whole = (yard.action(1, kind=kib, memory_kib=kib) for kib in (999, 1_000))
    assert yard.settle() == [(whole, "a", True)]
    assert most.index is not None


def test_a_run_of_unknown_length_runs_for_ever() -> None:
    yard = Yard()
    worker = yard.worker("a", 10)
    yard.run(yard.action(2), worker)  # nobody expected how long
    yard.run(yard.action(6, lasts_s=100), worker)
    big = yard.action(8)
    yard.matcher.hold(worker, big, free_at_us=100 * S, backfill=True)
    yard.action(1)
    assert yard.settle() == []  # 2 run on, 8 are the held operation's


def test_the_slot_of_the_held_operation_is_kept_too() -> None:
    yard = Yard()
    worker = yard.worker("a", 10, max_inflight=2)
    yard.run(yard.action(1), worker)
    big = yard.action(20)
    yard.matcher.hold(worker, big, free_at_us=100 * S, backfill=True)
    yard.action(1, kind=1)
    assert yard.settle() == []
    short = yard.action(1, lasts_s=100, kind=2)
    assert yard.settle() == [(short, "a", True)]


def test_a_short_operation_in_the_middle_of_its_class_is_found() -> None:
    yard, worker, big = easy()
    for _ in range(50):
        yard.action(4, lasts_s=1_000)
    short = yard.action(4, lasts_s=60)
    for _ in range(50):
        yard.action(4, lasts_s=30)
    expected = [(short, "a", True)]
    assert yard.settle() == expected
    yard.end(next(dispatch for dispatch in worker.running.values() if dispatch.operation is short))
    yard.matcher.enqueue(short)
    yard.matcher.hold(worker, big, free_at_us=100 * S, backfill=True)
    assert yard.settle() == expected


def test_the_first_in_queue_order_is_backfilled_whichever_way_it_qualifies() -> None:
    for first_beside in (True, False):
        yard, _, _ = easy(cores=12, needs=8)  # 6 free, 4 beside
        lengths = (0, 50) if first_beside else (50, 0)
        sizes = (4, 5) if first_beside else (5, 4)
        first, _second = (yard.action(n, lasts_s=s) for n, s in zip(sizes, lengths, strict=True))
        match = yard.match()
        assert match is not None
        assert (match.operation, match.backfilled) == (first, True)


def test_without_backfill_what_ends_in_time_waits_as_well() -> None:
    yard, worker, big = easy()
    yard.matcher.hold(worker, big, free_at_us=100 * S)
    yard.action(1, lasts_s=1)
    assert yard.settle() == []


# -- counted work ----------------------------------------------------------------------------------------------------------------------


def test_without_a_hold_nobody_looks_for_a_held_worker() -> None:
    fleet = Fleet(Cell(50, 500, 10))
    fleet.cycles(500)
    assert (fleet.matcher.work.held_searches, fleet.matcher.work.backfills_scanned) == (0, 0)


def test_a_hold_that_nothing_touches_is_not_searched_again() -> None:
    yard, _, _ = easy()
    before = yard.matcher.work.total()
    for _ in range(100):
        assert yard.match() is None
    assert yard.matcher.work.total() == before


def test_the_held_worker_is_searched_again_when_no_fixpoint_is_assumed() -> None:
    yard, _, _ = easy()
    before = yard.matcher.work.held_searches
    yard.matcher.everything_dirty()
    assert yard.match() is None
    assert yard.matcher.work.held_searches > before


def test_what_joins_the_queue_is_looked_at_alone() -> None:
    """Ten thousand wait; one more costs one look, also under backfill, which may take any of them."""
    yard, _, _ = easy()
    for number in range(10_000):
        yard.action(4, lasts_s=1_000, kind=number % 100)
    assert yard.match() is None
    before = yard.matcher.work.total()
    for number in range(20):
        yard.action(4, lasts_s=1_000, kind=number)
        assert yard.match() is None
    assert yard.matcher.work.total() - before <= 40


def test_many_that_join_at_once_are_looked_at_as_a_queue() -> None:
    yard, _, _ = easy()
    for number in range(FEW_JOINED * 3):
        yard.action(4, lasts_s=1_000, kind=number % 7)
    short = yard.action(4, lasts_s=10, kind=3)
    assert yard.settle() == [(short, "a", True)]


def test_the_search_for_a_short_one_does_not_read_the_queue() -> None:
    """One heap per power of two: of a hundred thousand long ones none is looked at."""
    yard, worker, big = easy()
    for number in range(20_000):
        yard.action(4, lasts_s=1_000 + number % 900)
    assert yard.match() is None
    yard.matcher.hold(worker, big, free_at_us=100 * S, backfill=True)
    before = yard.matcher.work.total()
    assert yard.match() is None
    assert yard.matcher.work.total() - before < 20


def test_the_shortest_are_found_as_a_walk_would_find_them() -> None:
    rng = random.Random(9)
    c = DemandClass(Demand(1, NO_NEED, ()), 1)
    c.lasting = Lasting(c)
    queued: list[Operation] = []
    away: list[Operation] = []
    for step in range(6_000):
        draw = rng.random()
        if draw < 0.45 or not queued:
            op = Operation(step, "main", "", 1, 0, 0, rng.randrange(10**6) * 10_000 + step, 0, c.demand)
            op.expected_duration_us = rng.choice([0, rng.randrange(1, 40), 2 ** rng.randrange(12)])
            c.push(op)
            queued.append(op)
        elif draw < 0.55 and away:
            queued.append(away.pop(rng.randrange(len(away))))
            c.push(queued[-1])
        else:
            away.append(queued.pop(rng.randrange(len(queued))))
            c.remove(away[-1])
        limit, below = rng.choice([1, 7, 16, 33, 2_000]), rng.randrange(10**10)
        expected = min(
            (op for op in queued if 0 < op.expected_duration_us <= limit and op.sort_key < below),
            key=lambda op: op.sort_key,
            default=None,
        )
        assert c.lasting.first_within(limit, below, Work()) is expected
    assert sum(map(len, c.lasting._heaps.values())) <= 2 * c.size + 64
