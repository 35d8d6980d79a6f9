"""How fast the core decides: whole cycles of the pass at several sizes of queue, fleet and variety, beside the naive pass.

A cycle is what one finished action causes: its room is given back, the pass places what fits, and one new action is queued with its own
pass. The changes of rows that the events would make are part of it; events and the rows of new actions are made outside of it. Processor
time of this thread, the least of many short repetitions: on a shared machine anything else measures the neighbours.
"""

import gc
import random
from collections.abc import Callable, Iterable
from time import thread_time_ns
from typing import Any, NamedTuple

from events.config import PropertyKind, SimpleScheduler
from events.fitting import Demand, compile_demand
from events.matching import Matcher
from events.state import Dispatch, Operation, Stage, Worker, sort_key
from streams.bench import hold
from streams.bench._rows import Row, at_least, at_most, reference


class Cell(NamedTuple):
    """A size: workers, queued actions, classes (distinct requirements)."""

    workers: int
    queued: int
    classes: int

    def __str__(self) -> str:
        return f"workers={self.workers:,} queued={self.queued:,} classes={self.classes:,}"


class Goal(NamedTuple):
    """What a cell must reach: decisions a second; None where only the ratio counts."""

    cell: Cell
    least_per_s: int | None


GOALS = (
    Goal(Cell(100, 1_000, 1), None),
    Goal(Cell(1_000, 100_000, 10), 100_000),
    Goal(Cell(10_000, 1_000_000, 1_000), 50_000),
)
FLAT = (
    ("queue 1,000 to 1,000,000", Cell(1_000, 1_000, 10), Cell(1_000, 1_000_000, 10), 3.0),
    ("fleet 10 to 10,000", Cell(10, 100_000, 10), Cell(10_000, 100_000, 10), 5.0),
)
"""Two cells whose cost a cycle must not differ by more than the factor."""

NAIVE_CELL = Cell(1_000, 100_000, 10)
NAIVE_SAMPLE = 40


class Fleet:
    """Rows and matcher of one cell, running full: every worker is busy and the queue is behind it."""

    def __init__(self, cell: Cell, seed: int = 1) -> None:
        self.config = SimpleScheduler(kind="simple", supported_platform_properties={"os": PropertyKind.EXACT})
        self.pools = self.config.pools()
        self.matcher = Matcher(self.config, self.pools)
        self.seq = 0
        self.arrived = 0
        self.rng = random.Random(seed)
        self.demands = [self._demand(number) for number in range(cell.classes)]
        self.running: list[Dispatch] = []
        self.placed = 0
        self.workers = [self._add_worker(number) for number in range(cell.workers)]
        choose = self.rng.choice
        # Filling starts from an empty queue, so that each action is placed at once until the fleet is full.
        while len(self.matcher) < cell.queued:
            self.matcher.enqueue(self.action(choose(self.demands)))
            if len(self.matcher) < 200:
                self.run_pass()
        self.run_pass()

    def _demand(self, number: int) -> Demand:
        cores, step = (1, 2, 4, 8)[number % 4], number // 4
        requirements = (
            ("cpu_millis", str(cores * 1_000)),
            ("memory_kib", str(cores * 1_000_000 + step * 4_000)),
            ("os", ("linux", "linux", "mac")[number % 3] if number > 3 else "linux"),
        )
        return compile_demand(number, requirements, self.config, self.pools)

    def _add_worker(self, number: int) -> Worker:
        self.seq += 1
        cores = (16, 32)[number % 2]
        totals = [cores * 1_000, cores * 2_000_000]
        system = "mac" if number % 5 == 4 else "linux"
        worker = Worker(
            "main",
            f"w{number}",
            1,
            number,
            (("cpu_millis", str(totals[0])), ("memory_kib", str(totals[1])), ("os", system)),
            0,
            "",
            0,
            0,
            self.seq,
            totals,
            list(totals),
        )
        self.matcher.add_worker(worker)
        return worker

    def action(self, demand: Demand) -> Operation:
        """An action that arrives next."""
        self.arrived += 1
        at = self.arrived
        return Operation(at, "main", "", demand.requirement_id, 0, at, sort_key(0, at, at), at, demand)

    def finish(self, dispatch: Dispatch) -> None:
        """A run ends."""
        self.seq += 1
        worker = dispatch.worker
        remaining = worker.remaining
        for pool, asked in dispatch.demand.amounts:
            remaining[pool] += asked
        del worker.running[dispatch.dispatch_id]
        worker.recency = self.seq
        dispatch.operation.dispatch = None
        self.matcher.refresh(worker)

    def run_pass(self) -> None:
        """Place until nothing fits."""
        matcher, running = self.matcher, self.running
        while (match := matcher.next_match()) is not None:
            self.seq += 1
            op, worker, demand = match.operation, match.worker, match.operation.demand
            remaining = worker.remaining
            for pool, asked in demand.amounts:
                remaining[pool] -= asked
            dispatch = Dispatch(self.seq, op.operation_id, op, worker, worker.connection_id, 0, demand)
            worker.running[self.seq] = op.dispatch = dispatch
            worker.recency = self.seq
            op.stage = Stage.EXECUTING
            matcher.dequeue(op)
            matcher.refresh(worker)
            running.append(dispatch)
            self.placed += 1

    def cycles(self, count: int) -> tuple[float, float]:
        """Run `count` cycles; (microseconds a cycle, decisions a second), of processor time."""
        rng, running = self.rng, self.running
        arrivals = [self.action(demand) for demand in rng.choices(self.demands, k=count)]
        picks = [rng.random() for _ in range(count)]
        placed = self.placed
        started = thread_time_ns()
        for op, pick in zip(arrivals, picks, strict=True):
            if running:
                at = int(pick * len(running))
                running[at], running[-1] = running[-1], running[at]
                self.finish(running.pop())
                self.run_pass()
            self.matcher.enqueue(op)
            self.run_pass()
        took_ns = max(thread_time_ns() - started, 1)
        return took_ns / count / 1_000, (self.placed - placed) * 1e9 / took_ns


def measure(cell: Cell, cycles: int = 500, repetitions: int = 60) -> tuple[float, float]:
    """The best of many short repetitions: (microseconds a cycle, decisions a second)."""
    gc.disable()
    try:
        fleet = Fleet(cell)
        fleet.cycles(4 * cycles)  # warm
        taken = [fleet.cycles(cycles) for _ in range(repetitions)]
    finally:
        gc.enable()
    return min(us for us, _ in taken), max(per_s for _, per_s in taken)


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


def run(progress: Callable[[str], Any] = lambda case: None) -> list[Row]:
    """Measure all cells. `progress` is told each case before it runs; about a minute in all, 1.5 GiB at the largest cell."""
    rows: list[Row] = []
    for cell, least in GOALS:
        progress(str(cell))
        cycle_us, per_s = measure(cell)
        decisions = f"decisions, {cell}"
        rows.append(reference(decisions, per_s, "1/s") if least is None else at_least(decisions, per_s, "1/s", least))
        rows.append(reference(f"cycle, {cell}", cycle_us, "us"))
        if cell == NAIVE_CELL:
            naive = f"one naive pass (estimated; ratio: to a cycle), {cell}"
            rows.append(reference(naive, naive_pass_us(cell), "us", per=cycle_us))
    for name, base, grown, most in FLAT:
        progress(name)
        base_us, grown_us = measure(base)[0], measure(grown)[0]
        rows.append(at_most(f"cost a cycle, {name}", grown_us, "us", base_us * most))
    return rows + hold.run(progress)
