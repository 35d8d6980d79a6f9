"""How fast the core decides, whether its cost stays flat, and what a row keeps in memory; beside the naive pass.

The grid is whole cycles of the pass (`_fleet.py`) at every combination of classes, queue and fleet: the least processor time of many short
repetitions, since on a shared machine anything else measures the neighbours. One fleet for each number of classes and of workers; its queue
grows from cell to cell.
"""

import gc
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from statistics import median
from time import thread_time_ns
from typing import Any, Final, NamedTuple

from events.state import Operation, Worker
from streams.bench import hold
from streams.bench._fleet import Cell, Fleet
from streams.bench._rows import Row, at_least, at_most, reference

CLASSES: Final = (1, 10, 1_000)
QUEUED: Final = (0, 1_000, 100_000, 1_000_000)
WORKERS: Final = (10, 100, 1_000, 10_000)

GOALS: Final = {Cell(1_000, 100_000, 10): 100_000, Cell(10_000, 1_000_000, 1_000): 50_000}
"""Decisions a second that a cell must reach."""

FLEET_MOST, QUEUE_MOST, MEDIAN_MOST = 5.0, 3.0, 2.0
"""How many times the cost a cycle may grow: from the smallest fleet to the largest, from a queue of 1,000 to the longest, in the median."""

NAIVE_CELL: Final = Cell(1_000, 100_000, 10)
NAIVE_SAMPLE: Final = 40

SLOT_CELL: Final = Cell(1_000, 10_000, 10)
SLOT_MOST_US: Final = 7.4
"""NativeLink 1.6.6 takes 0.74 s and more from a freed slot to the dispatch in such a cell, since its pass walks the queue times the fleet:
this is a hundred-thousandth of the least of that."""


class Effort(NamedTuple):
    """How often a cell is measured."""

    cycles: int = 250  # of one repetition
    repetitions: int = 20
    warm_up: int = 1_500  # cycles before the first


GRID_EFFORT: Final = Effort()
GOAL_EFFORT: Final = Effort(cycles=500, repetitions=60)


class Cost(NamedTuple):
    """What a cell took at best."""

    cycle_us: float
    decisions_per_s: float


def measure(fleet: Fleet, effort: Effort = GRID_EFFORT) -> Cost:
    """The best of many short repetitions on a fleet as it is."""
    fleet.cycles(effort.warm_up)
    taken = [fleet.cycles(effort.cycles) for _ in range(effort.repetitions)]
    return Cost(min(us for us, _ in taken), max(per_s for _, per_s in taken))


def measure_grid(
    classes: Iterable[int],
    queued: Iterable[int],
    workers: Iterable[int],
    progress: Callable[[str], Any] = lambda case: None,
) -> dict[Cell, Cost]:
    """Every cell of the grid; `queued` ascending. Cells of a fleet that have a goal are measured longer."""
    costs: dict[Cell, Cost] = {}
    for kinds, size in product(classes, workers):
        fleet: Fleet | None = None
        for waiting in queued:
            cell = Cell(size, waiting, kinds)
            progress(str(cell))
            if fleet is None:
                fleet = Fleet(cell)
            else:
                fleet.grow(waiting)
            costs[cell] = measure(fleet, GOAL_EFFORT if cell in GOALS else GRID_EFFORT)
    return costs


def flatness(costs: Mapping[Cell, Cost]) -> list[Row]:
    """How cost grows with the fleet and with the queue, all else equal, from one end of the grid to the other; and the medians of that.

    An empty queue is no base for the queue: nearly each of its arrivals asks the fleet, while what joins a class that waits asks nobody.
    """
    fleets = sorted({cell.workers for cell in costs})
    queues = sorted({cell.queued for cell in costs if cell.queued})
    rows: list[Row] = []
    if len(fleets) > 1:
        name = f"cost a cycle, workers {fleets[0]:,} to {fleets[-1]:,}"
        grown = {
            f"queued={cell.queued:,} classes={cell.classes:,}": (cost, costs[cell._replace(workers=fleets[-1])])
            for cell, cost in costs.items()
            if cell.workers == fleets[0]
        }
        rows += _growth(name, grown, FLEET_MOST)
    if len(queues) > 1:
        name = f"cost a cycle, queued {queues[0]:,} to {queues[-1]:,}"
        grown = {
            f"workers={cell.workers:,} classes={cell.classes:,}": (cost, costs[cell._replace(queued=queues[-1])])
            for cell, cost in costs.items()
            if cell.queued == queues[0]
        }
        rows += _growth(name, grown, QUEUE_MOST)
    return rows


def _growth(name: str, grown: Mapping[str, tuple[Cost, Cost]], most: float) -> list[Row]:
    times = {where: after.cycle_us / before.cycle_us for where, (before, after) in grown.items()}
    rows = [at_most(f"{name}, {where}", value, "times", most) for where, value in times.items()]
    return [*rows, at_most(f"{name}, median of {len(rows)}", median(times.values()), "times", MEDIAN_MOST)]


def slot_us(cell: Cell, effort: Effort = GRID_EFFORT) -> float:
    """Microseconds from a freed slot to the placement that it makes room for, a long queue behind it."""
    fleet = Fleet(cell)
    fleet.cycles(effort.warm_up)
    return min(fleet.free_slots(effort.cycles) for _ in range(effort.repetitions))


def naive_pass_us(cell: Cell, sample: int = NAIVE_SAMPLE) -> float:
    """Microseconds of one naive pass over a full fleet: `sample` actions asked of every worker, times the queue."""
    fleet = Fleet(Cell(cell.workers, sample, cell.classes))
    operations = list(fleet.matcher.walk())[:sample]
    properties = [(worker, dict(worker.properties)) for worker in fleet.workers]
    started = thread_time_ns()
    for op in operations:
        _first_that_fits(op, properties)
    return (thread_time_ns() - started) / len(operations) * cell.queued / 1_000


def _first_that_fits(op: Operation, workers: Iterable[tuple[Worker, dict[str, str]]]) -> Worker | None:
    demand = op.demand
    for worker, properties in workers:
        if worker.accepts() and demand.fits(worker.remaining) and demand.need.satisfied_by(properties):
            return worker
    return None


def run(*, most_queued: int = QUEUED[-1], progress: Callable[[str], Any] = lambda case: None) -> list[Row]:
    """Measure the whole grid; two minutes in all, 1.5 GiB at the largest cell.

    A smaller `most_queued` leaves out the cells with a longer queue, and the goals among them. `progress` is told each case before it runs.
    """
    gc.disable()
    try:
        costs = measure_grid(CLASSES, [queued for queued in QUEUED if queued <= most_queued], WORKERS, progress)
        progress("one slot freed")
        freed_us = slot_us(SLOT_CELL)
    finally:
        gc.enable()
    rows: list[Row] = []
    for cell, least_per_s in GOALS.items():
        if cell in costs:
            rows.append(at_least(f"decisions, {cell}", costs[cell].decisions_per_s, "1/s", least_per_s))
    rows.append(at_most(f"one slot freed to its placement, {SLOT_CELL}", freed_us, "us", SLOT_MOST_US))
    rows += flatness(costs)
    if NAIVE_CELL in costs:
        progress("the naive pass")
        naive = f"one naive pass (estimated; ratio: to a cycle), {NAIVE_CELL}"
        rows.append(reference(naive, naive_pass_us(NAIVE_CELL), "us", per=costs[NAIVE_CELL].cycle_us))
    rows += hold.run(progress)
    return rows + [reference(f"cycle, {cell}", cost.cycle_us, "us") for cell, cost in costs.items()]
