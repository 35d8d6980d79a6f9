"""Rows of one instance and a matcher beside them, changed at random: what `evolve` does to the rows, without facts and events.

`choose(n)` is the only source of choice: a number from 0 to n-1. A seeded random number generator makes long walks of it, a tape of
numbers drawn by hypothesis makes short ones that shrink.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from events.config import AllocationStrategy, PropertyKind, SimpleScheduler
from events.fitting import Demand, compile_demand, worker_totals
from events.matching import Matcher
from events.state import Dispatch, Operation, Stage, Worker, sort_key
from tests.reference.naive_pass import naive_pass

EXTRA_POOLS = ("disk_mib", "gpu_milli")

Choose = Callable[[int], int]


@dataclass
class Shape:
    """How a world looks: how many pools (1 to 4), how varied the fleet and the requirements are, when trees come in."""

    strategy: AllocationStrategy = AllocationStrategy.LEAST_RECENTLY_USED
    pools: int = 2
    machine_types: int = 3
    zones: int = 3
    requirements: int = 12
    workers: int = 12
    probes: int = 1
    merge_above: int = 2
    mutations_per_pass: int = 1


@dataclass
class World:
    """The rows, the matcher, and the reference; every pass is compared placement by placement."""

    shape: Shape
    choose: Choose
    seq: int = 0
    decisions: int = 0
    passes: int = 0
    overtakes: int = 0
    nodes_visited: int = 0  # by matchers before the present one
    queued: dict[int, Operation] = field(default_factory=dict)
    running: dict[int, Dispatch] = field(default_factory=dict)
    workers: dict[str, Worker] = field(default_factory=dict)
    demands: dict[int, Demand] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kinds = {"zone": PropertyKind.EXACT, "arch": PropertyKind.PRIORITY, "note": PropertyKind.IGNORE}
        kinds.update(dict.fromkeys(EXTRA_POOLS[: max(0, self.shape.pools - 2)], PropertyKind.MINIMUM))
        if self.shape.pools == 1:
            kinds["memory_kib"] = PropertyKind.IGNORE
        self.config = SimpleScheduler(
            kind="simple", supported_platform_properties=kinds, allocation_strategy=self.shape.strategy
        )
        self.pools = self.config.pools()
        assert len(self.pools) == self.shape.pools
        self.matcher = self.fresh_matcher()

    def fresh_matcher(self) -> Matcher:
        return Matcher(self.config, self.pools, probes=self.shape.probes, merge_above=self.shape.merge_above)

    # -- rows

    def demand(self, requirement: int) -> Demand:
        """The demand of requirement number `requirement`: which numbers and names it has follows from the number alone."""
        known = self.demands.get(requirement)
        if known is not None:
            return known
        n = requirement
        properties = []
        if n % 5:
            properties.append(("cpu_millis", str((n % 5) * 1000)))
        if n % 3:
            properties.append(("memory_kib", str(((n // 5) % 7) * 100)))
        if n % 4 == 1:
            properties.append(("zone", f"z{(n // 4) % (self.shape.zones + 1)}"))
        if n % 7 == 2:
            properties.append(("arch", "any"))
        if n % 6 == 3:
            properties.append((f"flag{n % 2}", f"v{n % 3}"))  # of unknown kind; some workers declare flag0, none flag1
        if n % 8 == 5:
            properties.append(("note", str(n)))
        for extra in EXTRA_POOLS[: max(0, self.shape.pools - 2)]:
            share = n % 4 if extra == EXTRA_POOLS[0] else n // 3 % 4
            if share:
                properties.append((extra, str(share)))
        demand = compile_demand(n, tuple(sorted(properties)), self.config, self.pools)
        self.demands[requirement] = demand
        return demand

    def add_operation(self, requirement: int, priority: int = 0, backdated_us: int = 0) -> Operation:
        self.seq += 1
        queued_at_us = max(self.seq * 1000 - backdated_us, 0)
        op = Operation(
            operation_id=self.seq,
            instance="main",
            client_operation_id=f"c{self.seq}",
            requirement_id=requirement,
            priority=priority,
            queued_at_us=queued_at_us,
            sort_key=sort_key(priority, queued_at_us, self.seq),
            queued_since_us=queued_at_us,
            demand=self.demand(requirement),
        )
        self.queued[op.operation_id] = op
        self.matcher.enqueue(op)
        return op

    def add_worker(self, machine: int, zone: int, max_inflight: int = 0) -> Worker:
        self.seq += 1
        properties = [("cpu_millis", str(2000 + machine % 4 * 2000)), ("host", f"h{self.seq}")]
        if machine % 5 != 4:
            properties.append(("memory_kib", str(1200 - machine % 4 * 250 + machine // 4)))
        if zone:
            properties.append(("zone", f"z{zone}"))
        if zone % 2:
            properties.append(("arch", f"a{zone}"))
        if machine % 3 == 1:
            properties.append(("flag0", f"v{zone % 3}"))
        for extra in EXTRA_POOLS[: max(0, self.shape.pools - 2)]:
            if machine % 3 != EXTRA_POOLS.index(extra):
                properties.append((extra, str(3 + zone)))
        declared = tuple(sorted(properties))
        totals = worker_totals(declared, self.pools)
        worker = Worker(
            instance="main",
            endpoint=f"w{self.seq}",
            boot_epoch=1,
            connection_id=self.seq,
            properties=declared,
            max_inflight=max_inflight,
            build="",
            connected_at_us=0,
            last_seen_us=0,
            recency=self.seq,
            totals=totals,
            remaining=list(totals),
        )
        self.workers[worker.endpoint] = worker
        self.matcher.add_worker(worker)
        return worker

    def dispatch(self, op: Operation, worker: Worker) -> None:
        """What `OperationDispatched` does to the rows."""
        self.seq += 1
        assert worker.accepts()
        assert op.demand.fits(worker.remaining), (op.demand, worker.remaining)
        for pool, asked in op.demand.amounts:
            worker.remaining[pool] -= asked
        dispatch = Dispatch(self.seq, op.operation_id, op, worker, worker.connection_id, 0, op.demand)
        worker.running[self.seq] = self.running[self.seq] = op.dispatch = dispatch
        worker.recency = self.seq
        op.stage = Stage.EXECUTING
        del self.queued[op.operation_id]
        # Either order must do.
        if self.seq % 2:
            self.matcher.dequeue(op)
            self.matcher.refresh(worker)
        else:
            self.matcher.refresh(worker)
            self.matcher.dequeue(op)

    def end(self, dispatch: Dispatch, requeue: bool, promote: bool) -> None:
        """A run ends; its operation is over, or queued again with the key it had."""
        self.seq += 1
        worker = dispatch.worker
        del self.running[dispatch.dispatch_id], worker.running[dispatch.dispatch_id]
        for pool, asked in dispatch.demand.amounts:
            worker.remaining[pool] += asked
        if promote:
            worker.recency = self.seq
        if worker.endpoint in self.workers:
            self.matcher.refresh(worker)
        if requeue:
            op = dispatch.operation
            op.stage = Stage.QUEUED
            self.queued[op.operation_id] = op
            self.matcher.enqueue(op)

    def cancel(self, op: Operation) -> None:
        del self.queued[op.operation_id]
        self.matcher.dequeue(op)

    def reprioritise(self, op: Operation, priority: int) -> None:
        self.matcher.dequeue(op)
        op.priority = priority
        op.sort_key = sort_key(priority, op.queued_at_us, op.operation_id)
        self.matcher.enqueue(op)

    def remove_worker(self, worker: Worker) -> None:
        """A worker is lost, its runs are queued again. Loss before or after the requeues: either must do."""
        first = self.choose(2)
        del self.workers[worker.endpoint]
        if first:
            self.matcher.remove_worker(worker)
        for dispatch in list(worker.running.values()):
            if first:
                self.end(dispatch, requeue=True, promote=False)
            else:
                # Its room opens, but it refuses: paused while it goes.
                worker.paused = True
                self.workers[worker.endpoint] = worker
                self.end(dispatch, requeue=True, promote=False)
                del self.workers[worker.endpoint]
        if not first:
            self.matcher.remove_worker(worker)

    def restart(self) -> None:
        """A new matcher from the same rows, met in another order."""
        self.nodes_visited += self.matcher.work.nodes_visited
        self.matcher = self.fresh_matcher()
        operations, workers = list(self.queued.values()), list(self.workers.values())
        for rows in (operations, workers):
            for row in rows:
                row.index = None
            turn = self.choose(len(rows)) if rows else 0
            rows[:] = rows[turn:] + rows[:turn]
        if self.choose(2):
            operations.reverse()
            workers.reverse()
        if self.choose(2):
            for op in operations:
                self.matcher.enqueue(op)
            for worker in workers:
                self.matcher.add_worker(worker)
        else:
            for worker in workers:
                self.matcher.add_worker(worker)
            for op in operations:
                self.matcher.enqueue(op)
        self.matcher.everything_dirty()

    # -- the walk

    def mutate(self) -> None:
        """One change, drawn by `choose`."""
        choose = self.choose
        draw = choose(100)
        if draw < 36:
            late = choose(4) == 0
            self.add_operation(
                choose(self.shape.requirements),
                priority=choose(3) if late else 0,
                backdated_us=choose(20) * 1000 if late else 0,
            )
        elif draw < 66:
            if self.running:
                dispatch = self.running[list(self.running)[choose(len(self.running))]]
                self.end(dispatch, requeue=choose(6) == 0, promote=choose(3) > 0)
        elif draw < 71:
            if self.queued:
                self.cancel(self.queued[list(self.queued)[choose(len(self.queued))]])
        elif draw < 76:
            if self.queued:
                self.reprioritise(self.queued[list(self.queued)[choose(len(self.queued))]], choose(4))
        elif draw < 84:
            if len(self.workers) < self.shape.workers:
                self.add_worker(choose(self.shape.machine_types), choose(self.shape.zones + 1), choose(2) * choose(4))
        elif not self.workers:
            return
        else:
            worker = self.workers[list(self.workers)[choose(len(self.workers))]]
            if draw < 87:
                if len(self.workers) * 2 > self.shape.workers:
                    self.remove_worker(worker)
            elif draw < 90:
                self.seq += 1
                worker.draining = not worker.draining
                worker.recency = self.seq
                self.matcher.refresh(worker)
            elif draw < 93:
                worker.paused = not worker.paused
                self.matcher.refresh(worker)
            elif draw < 95:
                worker.max_inflight = choose(5)
                self.matcher.refresh(worker)
            elif draw < 96:
                for each in self.workers.values():
                    each.paused = each.draining = False
                    self.matcher.refresh(each)
            elif draw < 97:
                self.matcher.everything_dirty()
            elif draw < 98:
                self.restart()

    def check_pass(self, most: int | None = None) -> None:
        """Run the pass, holding every placement to the reference's: to its fixpoint, or up to `most` placements.

        A pass that is broken off has found its next placement and not made it.
        """
        expected = naive_pass(self.queued.values(), self.workers.values(), self.shape.strategy)
        for made, (operation, worker, overtook) in enumerate(expected):
            found = self.matcher.next_match()
            assert found is not None, f"nothing found, expected {operation.operation_id} on {worker.endpoint}"
            assert (found.operation.operation_id, found.worker.endpoint, found.overtook) == (
                operation.operation_id,
                worker.endpoint,
                overtook,
            )
            if made == most:
                return
            self.decisions += 1
            self.overtakes += overtook is not None
            self.dispatch(found.operation, found.worker)
        found = self.matcher.next_match()
        assert found is None, f"nothing fits, but {found.operation.operation_id} on {found.worker.endpoint} was found"
        self.passes += 1

    def check_views(self) -> None:
        """The matcher's own answers about the queue."""
        in_order = sorted(self.queued.values(), key=lambda op: op.sort_key)
        assert [op.operation_id for op in self.matcher.walk()] == [op.operation_id for op in in_order]
        assert len(self.matcher) == len(in_order)
        assert self.matcher.head() is (in_order[0] if in_order else None)

    def walk(self, steps: int) -> None:
        """`steps` passes, each after one or more changes."""
        for step in range(steps):
            for _ in range(1 + self.choose(self.shape.mutations_per_pass)):
                self.mutate()
            if self.choose(8) == 0:
                self.check_pass(most=self.choose(4))
                continue  # changes meet a pass that is not over, as they do when an instance is paused in its middle
            self.check_pass()
            if step % 16 == 0:
                self.check_views()
        self.check_pass()
        self.restart()
        assert self.matcher.next_match() is None, "a restart at the fixpoint finds something new"
