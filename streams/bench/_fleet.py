"""A fleet that runs full and the queue behind it, at any size: rows and a matcher, changed as the events of whole cycles change them.

A cycle is what one finished action causes: its room is given back, the pass places what fits, and one new action is queued with its own
pass. The changes of rows that the events would make are part of it; events and the rows of new actions are made outside of it. Processor
time of this thread.
"""

import random
from time import thread_time_ns
from typing import NamedTuple

from events.config import PropertyKind, SimpleScheduler
from events.fitting import Demand, compile_demand
from events.matching import Matcher
from events.state import Dispatch, Operation, Stage, Worker, sort_key

FULL_FROM = 200
"""Where so many wait, the fleet is full for nearly all that arrives: no pass is run while the queue grows on, but for one at the end."""


class Cell(NamedTuple):
    """A size: workers, queued actions, classes (distinct requirements)."""

    workers: int
    queued: int
    classes: int

    def __str__(self) -> str:
        return f"workers={self.workers:,} queued={self.queued:,} classes={self.classes:,}"


class Fleet:
    """Rows and matcher of one cell, running full: every worker is busy and the queue is behind it.

    With nothing queued it runs so full that one more arrival would have waited: what ends makes room for what comes.
    """

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
        while not self.matcher:
            waiting = self.action(self.rng.choice(self.demands))
            self.matcher.enqueue(waiting)
            self.run_pass()
        self.matcher.dequeue(waiting)
        self.grow(cell.queued)

    def grow(self, queued: int) -> None:
        """Let actions arrive until so many wait beside a fleet that is full for them."""
        matcher, choose = self.matcher, self.rng.choice
        while len(matcher) < queued:
            matcher.enqueue(self.action(choose(self.demands)))
            if len(matcher) < FULL_FROM or len(matcher) >= queued:
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
        """Run `count` cycles; (microseconds a cycle, decisions a second)."""
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

    def free_slots(self, count: int) -> float:
        """End `count` runs one after the other, each with its pass; microseconds a placement. The queue is as long afterwards."""
        running, placed, queued = self.running, self.placed, len(self.matcher)
        self.rng.shuffle(running)
        started = thread_time_ns()
        for _ in range(count):
            self.finish(running.pop())
            self.run_pass()
        took_ns = thread_time_ns() - started
        self.grow(queued)
        return took_ns / max(self.placed - placed, 1) / 1_000
