"""Rows of one instance and a matcher beside them, changed at random: what `evolve` does to the rows, without facts and events.

`choose(n)` is the only source of choice: a number from 0 to n-1. A seeded random number generator makes long walks of it, a tape of
numbers drawn by hypothesis makes short ones that shrink.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from events.config import AllocationStrategy, PropertyKind, SimpleScheduler
from events.deciding.placing import preferred
from events.fitting import Demand, compile_demand, may_take, worker_totals
from events.matching import Match, Matcher
from events.state import Dispatch, Instance, Operation, Stage, Worker, sort_key
from events.values import Holding as BytesHeld
from tests.reference.naive_pass import Holding, Preference, naive_pass

EXTRA_POOLS = ("disk_mib", "gpu_milli")

PREFER_FROM_BYTES = 500

Choose = Callable[[int], int]


@dataclass
class Shape:
    """How a world looks: how many pools (0 to 4), how varied the fleet and the requirements are, when trees come in.

    `veto` is the pool that workers report on (it must be one); `declines`: workers refuse so much while idle; `holds`: a worker is held now
    and then, with `backfill` under which operations have expected durations; `prefers`: workers hold bytes of what operations need, and
    from 500 on they are preferred.
    """

    strategy: AllocationStrategy = AllocationStrategy.LEAST_RECENTLY_USED
    pools: int = 2
    veto: str | None = None
    declines: bool = False
    holds: bool = False
    backfill: bool = False
    prefers: bool = False
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
    held_decisions: int = 0  # placed on a held worker
    backfilled: int = 0
    exempt: int = 0  # placed on a whole worker against its report
    redirected: int = 0  # placed on another worker than the strategy's, for the bytes it holds
    now_us: int = 0
    hold: Holding | None = None
    holders: dict[int, tuple[BytesHeld, ...]] = field(default_factory=dict)  # by operation_id
    queued: dict[int, Operation] = field(default_factory=dict)
    running: dict[int, Dispatch] = field(default_factory=dict)
    workers: dict[str, Worker] = field(default_factory=dict)
    demands: dict[int, Demand] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kinds = {"zone": PropertyKind.EXACT, "arch": PropertyKind.PRIORITY, "note": PropertyKind.IGNORE}
        kinds.update(dict.fromkeys(EXTRA_POOLS[: max(0, self.shape.pools - 2)], PropertyKind.MINIMUM))
        if self.shape.pools <= 1:
            kinds["memory_kib"] = PropertyKind.IGNORE
        if self.shape.pools == 0:
            kinds["cpu_millis"] = PropertyKind.IGNORE
        self.config = SimpleScheduler(
            kind="simple",
            supported_platform_properties=kinds,
            allocation_strategy=self.shape.strategy,
            live_memory_veto=self.shape.veto,
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
        if n % 9 == 4:
            properties.append(("memory_kib", str(1200 - n // 9 % 4 * 250)))  # a whole machine's
        elif n % 3:
            properties.append(("memory_kib", str(((n // 5) % 7) * 100)))
        if n % 4 == 1:
            properties.append(("zone", f"z{(n // 4) % (self.shape.zones + 1)}"))
        if n % 7 == 2:
            properties.append(("arch", f"a{n % 3}"))
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

    def add_operation(
        self, requirement: int, priority: int = 0, backdated_us: int = 0, expected_duration_us: int = 0
    ) -> Operation:
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
            expected_duration_us=expected_duration_us,
        )
        if self.shape.prefers and self.choose(3):
            op.command = b"needs inputs"
            # In any order, as the port does not promise more than it says; gone workers and those below the threshold among them.
            names = [*self.workers, "gone"]
            self.holders[op.operation_id] = tuple(
                BytesHeld(names[self.choose(len(names))], 100 * self.choose(12)) for _ in range(self.choose(5))
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
            admits_when_idle=self.seq % 3 == 0,
        )
        self.workers[worker.endpoint] = worker
        self.matcher.add_worker(worker)
        return worker

    def dispatch(self, op: Operation, worker: Worker) -> None:
        """What `OperationDispatched` does to the rows."""
        self.seq += 1
        assert may_take(worker, op.demand, self.config, self.pools), (op.demand, worker)
        veto = self.pools.index(self.shape.veto) if self.shape.veto else -1
        asked = dict(op.demand.amounts).get(veto, 0)
        sure = worker.admits_when_idle and not worker.running
        if worker.free_memory_kib is not None and asked > worker.free_memory_kib and veto >= 0 and not sure:
            self.exempt += 1
        for pool, amount in op.demand.amounts:
            worker.remaining[pool] -= amount
        dispatch = Dispatch(self.seq, op.operation_id, op, worker, worker.connection_id, self.now_us, op.demand)
        worker.running[self.seq] = self.running[self.seq] = op.dispatch = dispatch
        worker.recency = self.seq
        op.stage = Stage.EXECUTING
        del self.queued[op.operation_id]
        held = self.hold is not None and self.hold.operation is op
        # Any order must do.
        if held and self.seq % 3:
            self.release()
        if self.seq % 2:
            self.matcher.dequeue(op)
            self.matcher.refresh(worker)
        else:
            self.matcher.refresh(worker)
            self.matcher.dequeue(op)
        if held:
            self.release()

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
        if self.hold is not None and self.hold.operation is op:
            self.release()

    def hold_for(self, op: Operation, worker: Worker, free_at_us: int = 0) -> None:
        """`worker` is held for `op`; a hold there was is moved."""
        self.hold = Holding(worker, op, free_at_us, self.shape.backfill)
        self.matcher.hold(worker, op, free_at_us=free_at_us, backfill=self.shape.backfill)
        assert self.matcher.held is worker

    def release(self) -> None:
        """The hold ends."""
        self.hold = None
        self.matcher.release_hold()
        assert self.matcher.held is None

    def report(self, worker: Worker, free_memory_kib: int | None, idle_declined_kib: int | None) -> None:
        """What a keepalive or an idle refusal does to the row (W8, B5)."""
        worker.free_memory_kib, worker.idle_declined_kib = free_memory_kib, idle_declined_kib
        self.matcher.refresh(worker)

    def reprioritise(self, op: Operation, priority: int) -> None:
        self.matcher.dequeue(op)
        op.priority = priority
        op.sort_key = sort_key(priority, op.queued_at_us, op.operation_id)
        self.matcher.enqueue(op)

    def remove_worker(self, worker: Worker) -> None:
        """A worker is lost, its runs are queued again. Loss before or after the requeues: either must do."""
        first = self.choose(2)
        if self.hold is not None and self.hold.worker is worker:
            self.hold = None
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
        if self.hold is None:
            assert self.matcher.held is None

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
            self._hold_again()
        else:
            for worker in workers:
                self.matcher.add_worker(worker)
            self._hold_again()
            for op in operations:
                self.matcher.enqueue(op)
        self.matcher.everything_dirty()

    def _hold_again(self) -> None:
        if self.hold is not None:
            hold = self.hold
            self.matcher.hold(hold.worker, hold.operation, free_at_us=hold.free_at_us, backfill=hold.backfill)

    # -- who holds what

    def ask(self, op: Operation) -> tuple[BytesHeld, ...]:
        """Who holds bytes of what the operation needs."""
        return self.holders.get(op.operation_id, ())

    def bytes_at(self, op: Operation, endpoint: str) -> int:
        """How many of them the endpoint holds, named or not."""
        named = [held.bytes for held in self.ask(op) if held.endpoint == endpoint]
        return named[0] if named else op.operation_id * 300 % 1_100

    def preferred(self, found: Match) -> Worker:
        """The worker that gets what the matcher found, as `decide` has it."""
        if not self.shape.prefers or not found.operation.command:
            return found.worker
        instance = Instance("main", config=self.config, pools=self.pools, workers=self.workers, hold=self.hold)
        op = found.operation
        worker = preferred(instance, found, self.ask(op), self.bytes_at(op, found.worker.endpoint), PREFER_FROM_BYTES)
        self.redirected += worker is not found.worker
        return worker

    # -- the walk

    def mutate(self) -> None:
        """One change, drawn by `choose`."""
        choose = self.choose
        self.now_us += choose(4) * 500
        if (self.shape.declines or self.shape.veto) and self.workers and choose(5) == 0:
            worker = self.workers[list(self.workers)[choose(len(self.workers))]]
            reported = choose(13) * 100 if self.shape.veto and choose(4) else None
            self.report(worker, reported, choose(13) * 100 if self.shape.declines and choose(2) else None)
            return
        if self.shape.holds and choose(9) == 0:
            if self.hold is not None and choose(4) == 0:
                self.release()
            elif self.queued and self.workers:
                # Near the front and on a busy worker, as holds are; what no worker can run stands in front of them all.
                in_order = sorted(self.queued.values(), key=lambda op: op.sort_key)
                op = in_order[choose(len(in_order) if choose(2) else min(len(in_order), 4))]
                busy = [worker for worker in self.workers.values() if worker.running] or list(self.workers.values())
                self.hold_for(op, busy[choose(len(busy))], self.now_us + choose(12) * 1000)
            return
        draw = choose(100)
        if draw < 36:
            late = choose(4) == 0
            whole = self.shape.veto is not None and choose(5) == 0
            self.add_operation(
                4 + 9 * choose(8) if whole else choose(self.shape.requirements),
                priority=choose(3) if late else 0,
                backdated_us=choose(20) * 1000 if late else 0,
                expected_duration_us=choose(10) * 1100 if self.shape.backfill else 0,
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
        prefer = Preference(PREFER_FROM_BYTES, self.ask, self.bytes_at) if self.shape.prefers else None
        expected = naive_pass(
            self.queued.values(), self.workers.values(), self.config, self.pools, self.hold, self.now_us, prefer
        )
        for made, (operation, worker, overtook, backfilled) in enumerate(expected):
            found = self.matcher.next_match(self.now_us)
            assert found is not None, f"nothing found, expected {operation.operation_id} on {worker.endpoint}"
            chosen = self.preferred(found)
            assert (found.operation.operation_id, chosen.endpoint, found.overtook, found.backfilled) == (
                operation.operation_id,
                worker.endpoint,
                overtook,
                backfilled,
            )
            if made == most:
                return
            self.decisions += 1
            self.overtakes += overtook is not None
            self.held_decisions += self.hold is not None and self.hold.worker is worker
            self.backfilled += backfilled
            self.dispatch(found.operation, chosen)
        found = self.matcher.next_match(self.now_us)
        assert found is None, f"nothing fits, but {found.operation.operation_id} on {found.worker.endpoint} was found"
        self.passes += 1

    def check_views(self) -> None:
        """The matcher's own answers about the queue."""
        in_order = sorted(self.queued.values(), key=lambda op: op.sort_key)
        assert [op.operation_id for op in self.matcher.walk()] == [op.operation_id for op in in_order]
        assert len(self.matcher) == len(in_order)
        assert self.matcher.head() is (in_order[0] if in_order else None)
        workers = sorted(self.workers.values(), key=lambda worker: worker.recency)
        assert [worker.endpoint for worker in self.matcher.workers()] == [worker.endpoint for worker in workers]
        for requirement in (self.choose(self.shape.requirements), *(op.requirement_id for op in in_order[:2])):
            demand = self.demand(requirement)
            able = [w for w in workers if demand.need.satisfied_by(dict(w.properties)) and demand.fits(w.totals)]
            assert self.matcher.could_run_idle(demand) == bool(able)

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
        assert self.matcher.next_match(self.now_us) is None, "a restart at the fixpoint finds something new"
