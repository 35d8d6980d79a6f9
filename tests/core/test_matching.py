"""The matcher's own promises: what it refuses, what it forgets, and how much it looks at (counted, so exact on any machine)."""

import random

import pytest

from events.config import AllocationStrategy
from events.fitting import Caps, Demand, StaticNeed
from events.matching import Matcher
from events.matching.class_index import Family, Shelf
from events.matching.demand_class import NEVER, DemandClass
from events.matching.fleet_index import FleetIndex
from events.matching.slot_line import Seat, SlotLine
from events.matching.work import Work
from events.state import Operation
from streams.bench._fleet import Cell, Fleet
from tests.reference.matching_world import Shape, World

NO_NEED = StaticNeed((), (), ())


def world(**shape: object) -> World:
    return World(Shape(probes=4, merge_above=8, **shape), random.Random(1).randrange)  # type: ignore[arg-type]


def operation(number: int, demand: Demand) -> Operation:
    return Operation(number, "main", "", demand.requirement_id, 0, number, number, number, demand)


def work_of(fleet: Fleet, cycles: int) -> float:
    before = fleet.matcher.work.total()
    fleet.cycles(cycles)
    return (fleet.matcher.work.total() - before) / cycles


# -- misuse says what and what to do ---------------------------------------------------------------------------------------------------


def test_an_operation_is_queued_once() -> None:
    w = world()
    op = w.add_operation(6)
    with pytest.raises(ValueError, match=f"operation {op.operation_id} is queued already; dequeue it"):
        w.matcher.enqueue(op)
    w.matcher.dequeue(op)
    with pytest.raises(ValueError, match="is not queued"):
        w.matcher.dequeue(op)
    assert len(w.matcher) == 0


def test_a_worker_is_in_the_fleet_once() -> None:
    w = world()
    worker = w.add_worker(0, 0)
    with pytest.raises(ValueError, match=f"worker '{worker.endpoint}' is in the fleet already"):
        w.matcher.add_worker(worker)
    w.matcher.remove_worker(worker)
    for call in (w.matcher.remove_worker, w.matcher.refresh):
        with pytest.raises(ValueError, match="is not in the fleet"):
            call(worker)


# -- decisions a walk meets rarely -----------------------------------------------------------------------------------------------------


def test_asking_twice_gives_the_same_answer() -> None:
    w = world()
    op, worker = w.add_operation(6), w.add_worker(0, 0)
    for _ in range(2):
        match = w.matcher.next_match()
        assert match is not None
        assert (match.operation, match.worker, match.overtook) == (op, worker, None)


@pytest.mark.parametrize("strategy", list(AllocationStrategy))
@pytest.mark.parametrize("turn", [1, -1])
def test_asking_twice_gives_the_same_worker_of_several_with_new_room(strategy: AllocationStrategy, turn: int) -> None:
    w = world(strategy=strategy)
    workers = [w.add_worker(0, 0) for _ in range(3)]
    for worker in workers:
        worker.paused = True
        w.matcher.refresh(worker)
    w.add_operation(6)
    assert w.matcher.next_match() is None
    for worker in workers[::turn]:
        worker.paused = False
        w.matcher.refresh(worker)
    expected = workers[-1] if strategy is AllocationStrategy.MOST_RECENTLY_USED else workers[0]
    for _ in range(3):
        match = w.matcher.next_match()
        assert match is not None
        assert match.worker is expected


def test_a_worker_over_its_capacity_takes_what_asks_for_nothing() -> None:
    w = world()
    worker = w.add_worker(0, 0)
    worker.remaining[:] = [-500, -700]
    w.matcher.refresh(worker)
    w.add_operation(6)
    assert w.matcher.next_match() is None
    empty = w.add_operation(0)
    match = w.matcher.next_match()
    assert match is not None
    assert match.operation is empty
    assert match.overtook == min(w.queued)


def test_a_pool_that_is_not_declared_refuses_even_zero_of_it() -> None:
    w = world()
    demand = Demand(900, NO_NEED, ((1, 0),))
    worker = w.add_worker(4, 0)  # declares no memory
    w.matcher.enqueue(operation(1, demand))
    assert worker.remaining[1] == -1
    assert w.matcher.next_match() is None
    able = w.add_worker(0, 0)
    match = w.matcher.next_match()
    assert match is not None
    assert match.worker is able


@pytest.mark.parametrize("strategy", list(AllocationStrategy))
@pytest.mark.parametrize("workers", [3, 30])
def test_workers_with_new_room_are_taken_in_strategy_order(strategy: AllocationStrategy, workers: int) -> None:
    """Both ways to answer many workers with new room at once: worker by worker (few), class by class (many)."""
    w = world(strategy=strategy)
    for _ in range(workers):
        w.add_worker(0, 0)
    order = random.Random(3).sample(list(w.workers.values()), workers)
    for worker in order:
        worker.paused = True
        w.matcher.refresh(worker)
    for _ in range(workers):
        w.add_operation(6)
    w.check_pass()
    assert w.decisions == 0
    for worker in order:
        worker.paused = False
        w.matcher.refresh(worker)
    w.check_pass()
    assert w.decisions == workers


def test_a_class_that_began_to_wait_is_asked_by_its_newest_head() -> None:
    """Two classes begin to wait; before the pass, an urgent action joins the later one. There is room for one."""
    w = world()
    worker = w.add_worker(0, 0)
    worker.remaining[0] = 1_000
    w.matcher.refresh(worker)
    w.check_pass()
    w.add_operation(6)  # 1,000 milli-cores
    w.add_operation(36)  # the same, as another class
    urgent = w.add_operation(36, priority=1)
    w.check_pass()
    assert w.decisions == 1
    assert urgent.dispatch is not None


def test_urgent_actions_in_the_middle_of_a_pass_come_first() -> None:
    """Two workers of two zones got room; the pass is under way when urgent actions join what waits for them."""
    w = world()
    workers = [w.add_worker(0, zone) for zone in (1, 2)]
    for worker in workers:
        worker.paused = True
        w.matcher.refresh(worker)
    waiting = [operation(10_001, zoned(910, "z1")), operation(10_000, zoned(911, "z2"))]
    for op in waiting:
        w.matcher.enqueue(op)
    assert w.matcher.next_match() is None
    for worker in workers:
        worker.paused = False
        w.matcher.refresh(worker)
    match = w.matcher.next_match()
    assert match is not None
    assert match.operation is waiting[1]
    urgent = [operation(6, waiting[0].demand), operation(5, waiting[1].demand)]
    for op in urgent:
        w.matcher.enqueue(op)
    match = w.matcher.next_match()
    assert match is not None
    assert (match.operation, match.worker) == (urgent[1], workers[1])


def test_room_in_one_pool_counts_although_another_lost_some() -> None:
    w = world()
    worker = w.add_worker(0, 0)
    worker.remaining[:] = [1_000, 50]
    w.matcher.refresh(worker)
    op = operation(10_000, Demand(912, NO_NEED, ((1, 100),)))
    w.matcher.enqueue(op)
    assert w.matcher.next_match() is None
    worker.remaining[:] = [500, 100]
    w.matcher.refresh(worker)
    match = w.matcher.next_match()
    assert match is not None
    assert (match.operation, match.worker) == (op, worker)


def zoned(number: int, zone: str) -> Demand:
    return Demand(number, StaticNeed((("zone", zone),), (), ()), ((0, 1_000),))


# -- the parts against the plain definition --------------------------------------------------------------------------------------------


def test_a_family_of_many_classes_answers_as_a_walk_would() -> None:
    rng = random.Random(5)
    family = Family(((0, 100),), sorted_pool=1)
    classes: dict[int, DemandClass] = {}
    for step in range(6_000):
        draw = rng.random()
        if (draw < 0.4 and len(classes) < 1_500) or not classes:
            c = DemandClass(Demand(step, NO_NEED, ((0, 100), (1, rng.randrange(400)))), step)
            c.key = rng.choice([NEVER, rng.randrange(10**6) * 10_000 + step])
            family.add(c)
            classes[step] = c
        elif draw < 0.5:
            family.discard(classes.pop(rng.choice(list(classes))))
        else:
            number = rng.choice(list(classes))
            classes[number].key = rng.choice([NEVER, rng.randrange(10**6) * 10_000 + step])
            family.stale[classes[number]] = None
        if step % 3 == 0 and classes:
            limit = rng.randrange(-1, 420)
            family.freshen()
            fitting = [c for c in classes.values() if c.demand.amounts[1][1] <= limit]
            key, block = family.first_within(limit)
            assert key == min((c.key for c in fitting), default=NEVER)
            assert family.low == min(c.key for c in classes.values())
            assert family.most == max(c.demand.amounts[1][1] for c in classes.values())
            if key != NEVER:
                assert block is not None
                assert block.classes[block.keys.index(key)].key == key
    assert len(family.blocks) > 10


@pytest.mark.parametrize("newest", [False, True])
@pytest.mark.parametrize("probes", [1, 4])
def test_a_line_answers_as_a_walk_would(newest: bool, probes: int) -> None:
    rng = random.Random(6)
    work = Work()
    line = SlotLine(4, (0, 0, 0, 0), work, probes)
    w = world()
    seats: list[Seat] = []
    for step in range(5_000):
        draw = rng.random()
        w.seq += 1
        if (draw < 0.1 and len(seats) < 300) or not seats:
            worker = w.add_worker(0, 0)
            worker.remaining[:] = [rng.randrange(20) for _ in range(4)]
            seat = Seat(worker, worker.remaining.copy())
            seats.append(seat)
            line.add(seat)
        elif draw < 0.12:
            line.discard(seats.pop(rng.randrange(len(seats))))
        elif draw < 0.8:
            seat = rng.choice(seats)
            seat.free = rng.choice([None, [rng.randrange(20) for _ in range(4)]])
            promoted = rng.random() < 0.6
            if promoted:
                # Now and then in another order than promoted in, as rows are loaded.
                seat.recency = w.seq * 10 if rng.random() < 0.98 else rng.randrange(w.seq) * 10 + 1 + step % 9
                if any(other is not seat and other.recency == seat.recency for other in seats):
                    seat.recency = w.seq * 10
            line.touch(seat, promoted)
        if rng.random() < 0.4:
            asked = rng.choice([(), ((0, 15),), ((0, 17), (1, 17)), ((1, 19),), ((0, 9), (1, 9), (2, 12), (3, 12))])
            c = DemandClass(Demand(1, NO_NEED, asked), 1)
            fitting = [s for s in seats if s.free is not None and all(s.free[p] >= a for p, a in asked)]
            expected = (max if newest else min)(fitting, key=lambda s: s.recency, default=None)
            assert line.first_fit(c.asks, newest, None) is expected
    assert work.nodes_visited > 5_000


def test_an_operation_that_returns_to_its_old_key_is_queued_once() -> None:
    """Its first entry, a tombstone until then, comes to life again."""
    c = DemandClass(Demand(1, NO_NEED, ()), 1)
    ops = [operation(n, c.demand) for n in range(1, 5)]
    for op in ops:
        c.push(op)
    moved = ops[2]
    for key in (99, 3):
        c.remove(moved)
        moved.sort_key = key
        c.push(moved)
    assert sorted(op.operation_id for op in c.operations()) == [1, 2, 3, 4]
    drained = []
    while c.head is not None:
        drained.append(c.head.operation_id)
        c.remove(c.head)
    assert drained == [1, 2, 3, 4]
    assert (c.size, c.key) == (0, NEVER)


# -- memory follows what is live -------------------------------------------------------------------------------------------------------


def test_classes_ever_seen_are_forgotten() -> None:
    w = world()
    w.add_worker(0, 0)
    for number in range(6_000):
        demand = Demand(number, StaticNeed((), (), (("build", f"b{number}"),)), ((0, 10**9),))
        op = operation(number + 1, demand)
        w.matcher.enqueue(op)
        assert w.matcher.next_match() is None
        w.matcher.dequeue(op)
    assert w.matcher.classes_kept <= 1_100


@pytest.mark.parametrize("strategy", list(AllocationStrategy))
def test_needs_signatures_and_lines_are_forgotten(strategy: AllocationStrategy) -> None:
    w = world(zones=6, machine_types=12, strategy=strategy)
    index = FleetIndex(Caps(w.config, w.pools), 1, strategy, Work(), probes=1, merge_above=1)
    workers = [w.add_worker(n % 12, n % 7) for n in range(60)]
    demands = [w.demand(n) for n in range(80)]
    classes = [DemandClass(demand, n) for n, demand in enumerate(demands)]
    for order in (1, -1):
        seats = [index.add_worker(worker) for worker in workers]
        for c in classes:
            index.add_class(c)
            index.first_fit(c)
        for step in range(len(seats)):
            index.remove_worker(seats[::order][step])
        for c in classes[::order]:
            index.discard_class(c)
        kept = ("_seats", "_signatures", "_needs", "_reaches", "_by_mask", "_asked", "_declared", "_splitting")
        assert {name: len(getattr(index, name)) for name in kept} == dict.fromkeys(kept, 0)


def test_cancelled_operations_are_let_go() -> None:
    c = DemandClass(Demand(1, NO_NEED, ()), 1)
    ops = [operation(n, c.demand) for n in range(1, 2_001)]
    for op in ops:
        c.push(op)
    for op in ops[1:]:
        c.remove(op)
    assert len(c.fifo) + len(c.heap) <= 20


# -- counted work ----------------------------------------------------------------------------------------------------------------------


def test_a_pass_with_nothing_changed_looks_at_nothing() -> None:
    fleet = Fleet(Cell(50, 200, 10))
    before = fleet.matcher.work.total()
    for _ in range(100):
        assert fleet.matcher.next_match() is None
    assert fleet.matcher.work.total() == before


def test_an_operation_that_joins_a_waiting_class_looks_at_nothing() -> None:
    fleet = Fleet(Cell(50, 200, 1))
    before = fleet.matcher.work.total()
    for _ in range(100):
        fleet.matcher.enqueue(fleet.action(fleet.demands[0]))
        assert fleet.matcher.next_match() is None
    assert fleet.matcher.work.total() == before


def test_work_is_flat_in_the_queue() -> None:
    short, long = (work_of(Fleet(Cell(100, queued, 10)), 1_500) for queued in (500, 20_000))
    assert long <= 1.25 * short


@pytest.mark.parametrize("queued", [0, 500])
def test_work_is_flat_in_the_fleet(queued: int) -> None:
    few, many = (work_of(Fleet(Cell(workers, queued, 10)), 1_500) for workers in (20, 2_000))
    assert many <= 4 * few  # a hundred times the workers; the depth of the trees


def test_work_hardly_grows_with_the_classes() -> None:
    few, many = (work_of(Fleet(Cell(100, 3_000, classes)), 1_500) for classes in (10, 1_000))
    assert many <= 2.5 * few


def test_machines_rich_in_opposite_pools_are_not_searched_one_by_one() -> None:
    """Half has the cores and half the memory; nothing has both. One tournament over all would go down to every leaf."""
    w = world(workers=500)
    for n in range(500):
        worker = w.add_worker(0, 0)
        w.matcher.remove_worker(worker)
        worker.totals = [64_000, 10] if n % 2 else [1_000, 6_400]
        worker.remaining = list(worker.totals)
        w.matcher.add_worker(worker)
    w.matcher.enqueue(operation(10_000, Demand(901, NO_NEED, ((0, 2_000), (1, 100)))))
    before = w.matcher.work.nodes_visited + w.matcher.work.workers_probed
    assert w.matcher.next_match() is None
    assert w.matcher.work.nodes_visited + w.matcher.work.workers_probed - before < 20


def test_host_names_and_unknown_properties_nobody_declares_split_nothing() -> None:
    """Every worker has a host name of its own, every action a build id of its own: one reach, one family, one line."""
    w = world()
    for _ in range(40):
        w.add_worker(0, 0)
    for number in range(300):
        need = StaticNeed((), (), (("build", f"b{number}"),))
        w.matcher.enqueue(operation(10_000 + number, Demand(1_000 + number, need, ((0, 10**9),))))
    assert w.matcher.next_match() is None
    before = w.matcher.work.families_visited
    worker = next(iter(w.workers.values()))
    worker.remaining[0] += 1
    w.matcher.refresh(worker)
    assert w.matcher.next_match() is None
    assert w.matcher.work.families_visited - before <= 2
    assert w.matcher.work.fleet_regroupings == 0


@pytest.mark.parametrize(("merge_above", "asked"), [(8, 1), (10**6, 400)])
def test_many_machine_types_are_searched_in_one_merged_line(merge_above: int, asked: int) -> None:
    w = World(Shape(probes=4, merge_above=merge_above), random.Random(1).randrange)
    for n in range(400):
        worker = w.add_worker(0, 0)
        w.matcher.remove_worker(worker)
        worker.totals = [2_000, 1_000 + n]
        worker.remaining = list(worker.totals)
        w.matcher.add_worker(worker)
    w.check_pass()
    for _ in range(20):
        w.add_operation(6)
        before = w.matcher.work.lines_asked
        match = w.matcher.next_match()
        assert match is not None
        assert w.matcher.work.lines_asked - before == asked
        w.check_pass()


def test_a_shelf_drops_families_without_classes() -> None:
    shelf = Shelf(1, -1, Work())
    classes = [DemandClass(Demand(n, NO_NEED, ((0, n), (1, 5))), n) for n in range(50)]
    for c in classes:
        c.key = c.serial
        shelf.add(c)
    for c in classes[1:]:
        shelf.discard(c)
    work = Work()
    shelf._work = work
    assert shelf.first_for([100, 100], NEVER)[0] == 0
    assert work.families_visited == 1


def test_a_matcher_needs_no_workers_and_no_queue() -> None:
    w = world()
    assert isinstance(w.matcher, Matcher)
    assert w.matcher.next_match() is None
    assert w.matcher.head() is None
    assert list(w.matcher.walk()) == []
