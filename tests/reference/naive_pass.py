"""The pass as one would first write it: every queued operation asks every worker. O(queue x workers).

This is the definition of the decisions; `events.matching` finds the same ones. It reads rows and changes none.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from events import values
from events.config import AllocationStrategy, SimpleScheduler
from events.fitting import may_take
from events.matching import Match
from events.state import Dispatch, Instance, Operation, Worker


class Placement(NamedTuple):
    """One placement of a pass: what goes where, the first operation still queued that sorts before it, whether it was backfilled."""

    operation: Operation
    worker: Worker
    overtook: int | None
    backfilled: bool


class Holding(NamedTuple):
    """A worker that is held for an operation."""

    worker: Worker
    operation: Operation
    free_at_us: int = 0
    backfill: bool = False


class Preference(NamedTuple):
    """Who holds which bytes of an operation's inputs, and from how many on that counts."""

    from_bytes: int
    ask: Callable[[Operation], Sequence[values.Holding]]
    bytes_at: Callable[[Operation, str], int]


def _holder_of_most(
    op: Operation, takers: Mapping[str, Worker], holders: Sequence[values.Holding], own_bytes: int, from_bytes: int
) -> Worker | None:
    """Of the workers that could take the operation, the one that holds most of its bytes, where that is enough and more than `own_bytes`.

    Of equals the first.
    """
    enough = [
        (-held.bytes, place, held.endpoint)
        for place, held in enumerate(holders)
        if held.bytes >= from_bytes and held.bytes > own_bytes and held.endpoint in takers and op.command
    ]
    return takers[min(enough)[2]] if enough else None


def preferred_plainly(
    instance: Instance, match: Match, holders: Sequence[values.Holding], own_bytes: int, from_bytes: int
) -> Worker:
    """The same as `events.deciding.placing.preferred`: every worker is asked."""
    held = None if instance.hold is None else instance.hold.worker
    if match.worker is held:
        return match.worker
    op = match.operation
    takers = {
        worker.endpoint: worker
        for worker in instance.workers.values()
        if worker is not held and may_take(worker, op.demand, instance.config, instance.pools)
    }
    return _holder_of_most(op, takers, holders, own_bytes, from_bytes) or match.worker


def _delays(op: Operation, worker: Worker, hold: Holding, now_us: int) -> bool:
    """Whether running `op` on the held worker may keep the held operation from starting there at `free_at_us`."""
    if op.expected_duration_us > 0 and now_us + op.expected_duration_us <= hold.free_at_us:
        return False
    then_running = [
        run
        for run in worker.running.values()
        if run.operation.expected_duration_us <= 0
        or run.dispatched_at_us + run.operation.expected_duration_us > hold.free_at_us
    ]
    if worker.max_inflight and len(then_running) + 2 > worker.max_inflight:
        return True
    for pool, asked in op.demand.amounts:
        taken = sum(dict(run.demand.amounts).get(pool, 0) for run in then_running)
        if asked + taken + dict(hold.operation.demand.amounts).get(pool, 0) > worker.totals[pool]:
            return True
    return False


def _rank(op: Operation, worker: Worker, strategy: AllocationStrategy) -> tuple[int, ...]:
    """Strategy order (1.3): the least is taken."""
    match strategy:
        case AllocationStrategy.LEAST_RECENTLY_USED:
            return (worker.recency,)
        case AllocationStrategy.MOST_RECENTLY_USED:
            return (-worker.recency,)
        case AllocationStrategy.LEAST_LOADED:
            return (len(worker.running), worker.recency)
        case AllocationStrategy.BEST_FIT:
            same = len(set(op.demand.preferred) & set(worker.properties))
            leftover = 0
            for pool, asked in op.demand.amounts:
                if worker.totals[pool] > 0:
                    leftover += (worker.remaining[pool] - asked) * 1000 // worker.totals[pool]
            return (-same, leftover, len(worker.running), worker.recency)


def naive_pass(
    queued: Iterable[Operation],
    workers: Iterable[Worker],
    config: SimpleScheduler,
    pools: tuple[str, ...],
    hold: Holding | None = None,
    now_us: int = 0,
    prefer: Preference | None = None,
) -> list[Placement]:
    """All placements of one pass, in the order they are made: in queue order, each on the first worker in strategy order that takes it.

    With `prefer` on the one that holds most of its bytes instead, where that is enough and more than the first in strategy order holds;
    unless that one is held.
    """
    fleet = [
        (worker, replace(worker, remaining=list(worker.remaining), running=dict(worker.running))) for worker in workers
    ]
    clock = max((worker.recency for worker, _ in fleet), default=0)
    first_waiting: int | None = None
    placements = []
    for op in sorted(queued, key=lambda op: op.sort_key):
        best: tuple[tuple[int, ...], Worker, Worker, bool] | None = None
        takers: dict[str, Worker] = {}
        for worker, copy in fleet:
            if not may_take(copy, op.demand, config, pools):
                continue
            backfilled = False
            if hold is not None and worker is hold.worker and op.sort_key > hold.operation.sort_key:
                if not hold.backfill or _delays(op, copy, hold, now_us):
                    continue
                backfilled = True
            if hold is None or worker is not hold.worker:
                takers[worker.endpoint] = worker
            rank = _rank(op, copy, config.allocation_strategy)
            if best is None or rank < best[0]:
                best = (rank, worker, copy, backfilled)
        if best is None:
            first_waiting = op.operation_id if first_waiting is None else first_waiting
            continue
        _, worker, copy, backfilled = best
        if prefer is not None and worker.endpoint in takers:
            own_bytes = prefer.bytes_at(op, worker.endpoint)
            worker = _holder_of_most(op, takers, prefer.ask(op), own_bytes, prefer.from_bytes) or worker
            copy = next(copied for original, copied in fleet if original is worker)
        clock += 1
        for pool, asked in op.demand.amounts:
            copy.remaining[pool] -= asked
        copy.running[clock] = Dispatch(clock, op.operation_id, op, copy, copy.connection_id, now_us, op.demand)
        copy.recency = clock
        placements.append(Placement(op, worker, first_waiting, backfilled))
        if hold is not None and op is hold.operation:
            hold = None  # placed: the fold of the dispatch clears it
    return placements
