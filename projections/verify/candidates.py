"""Who could be held for an operation, and who is the closest: each worker looked at on its own (5.2).

Under `drain_time` the closest 64 by shortfall are told apart by when they are expected to have room, as the runs of the past say.
"""

from heapq import nsmallest
from typing import NamedTuple

from projections.verify.durations import expected
from projections.verify.fitting import could_be_held, could_run, shortfall
from projections.verify.rows import UNDECLARED, Demand, Domain, Op, Worker
from proto.gen.headway.v1 import reasons_pb2 as r

CLOSEST = 5
"""Candidates that an event names, and kinds of run."""

CONSIDERED = 64
UNKNOWN_US = 1 << 64
"""Behind every time: when a worker has room is not known."""

Rank = tuple[int, int, int, int]
"""(expected free time, shortfall, running, recency)."""


Basis = tuple[int, str, int, int, int]
"""Runs that have to end first: (where that is known from, kind, samples, runs, when the last one ends)."""


class Choice(NamedTuple):
    """Who is held, and what the event says of the others."""

    worker: Worker | None
    candidates: list[tuple[str, int, int, int]]
    more: int
    excluded: list[tuple[int, int]]
    free_at_us: int
    basis: list[Basis]


def standing(domain: Domain, worker: Worker, demand: Demand) -> Rank | int | None:
    """Its rank, why it cannot be held, or None where it could never run the operation (H8-H10, H13)."""
    known = domain.ranks.get(worker.endpoint)
    if known is not None and known[0] == worker.stamp and known[1] == demand.number:
        found: Rank | int | None = known[2]
        return found
    found = _standing(domain, worker, demand)
    domain.ranks[worker.endpoint] = (worker.stamp, demand.number, found)
    return found


def _standing(domain: Domain, worker: Worker, demand: Demand) -> Rank | int | None:
    if not worker.suits(demand) or any(worker.total[pool] == UNDECLARED for pool, _ in demand.amounts):
        return None
    if not could_be_held(worker, demand, domain.options):
        return r.HOLD_EXCLUSION_UNFIT
    if not worker.runs:
        return r.HOLD_EXCLUSION_IDLE
    free_us = 0
    if domain.options.hold == "backfill":
        expected_us = free_at_us(worker, demand)
        if expected_us is None:
            return r.HOLD_EXCLUSION_UNKNOWN_DURATION
        free_us = expected_us
    return (free_us, shortfall(worker, demand), len(worker.runs), worker.recency)


def free_at_us(worker: Worker, demand: Demand) -> int | None:
    """When enough runs have ended as their producers expect; None: it depends on one whose duration nobody gave."""
    return _room_at_us(
        worker, demand, {run.id: run.at_us + run.op.expected_us for run in worker.runs.values() if run.op.expected_us}
    )


def _room_at_us(worker: Worker, demand: Demand, ends: dict[int, int]) -> int | None:
    left = worker.left.copy()
    slots = worker.inflight - len(worker.runs) if worker.inflight else 1
    for end_us, number in sorted((end_us, number) for number, end_us in ends.items()):
        for pool, amount in worker.runs[number].demand.amounts:
            left[pool] += amount
        slots += 1
        if slots > 0 and demand.within(left):
            return end_us
    return None


def choose(domain: Domain, op: Op, demand: Demand, now_us: int, *, spare: bool) -> Choice:
    """The choice for an operation with this demand; with `spare` the last worker for somebody else is left out."""
    ranks: list[tuple[Rank, Worker]] = []
    counts: dict[int, int] = {}
    for worker in domain.workers.values():
        found = standing(domain, worker, demand)
        if isinstance(found, tuple):
            ranks.append((found, worker))
        elif found is not None:
            counts[found] = counts.get(found, 0) + 1
    if spare:
        lasts = _lasts(domain, op)
        kept = [(rank, worker) for rank, worker in ranks if not _is_last(domain, worker, lasts)]
        counts[r.HOLD_EXCLUSION_LAST] = len(ranks) - len(kept)
        ranks = kept
    excluded = [(why, counts[why]) for why in sorted(counts) if counts[why]]
    if not ranks:
        return Choice(None, [], 0, excluded, 0, [])
    count = len(ranks)
    drains = domain.options.hold == "drain_time"
    if drains:
        ranks = [
            ((_drained_us(domain, worker, demand, now_us), *rank[1:]), worker)
            for rank, worker in nsmallest(CONSIDERED, ranks, key=_rank)
        ]
    closest = nsmallest(CLOSEST, ranks, key=_rank)
    candidates = [
        (worker.endpoint, short, running, free_us if free_us < UNKNOWN_US else 0)
        for (free_us, short, running, _), worker in closest
    ]
    worker, free_us = closest[0][1], candidates[0][3]
    basis = _basis(domain, worker, now_us, free_us) if drains else []
    return Choice(worker, candidates, count - len(candidates), excluded, free_us, basis)


def _rank(ranked: tuple[Rank, Worker]) -> Rank:
    return ranked[0]


def _drained_us(domain: Domain, worker: Worker, demand: Demand, now_us: int) -> int:
    ends = {run.id: expected(domain, run, now_us).end_us for run in worker.runs.values()}
    free_us = _room_at_us(worker, demand, {number: end_us for number, end_us in ends.items() if end_us is not None})
    return UNKNOWN_US if free_us is None else free_us


def _basis(domain: Domain, worker: Worker, now_us: int, free_us: int) -> list[Basis]:
    """The runs that have to end first, by kind; where nothing is known of when, those that nothing is known of."""
    groups: dict[tuple[int, str], Basis] = {}
    for run in worker.runs.values():
        end_us, source, kind, samples = expected(domain, run, now_us)
        counts = end_us is None if not free_us else end_us is not None and end_us <= free_us
        if counts:
            *_, runs, last_us = groups.get((source, kind), (0, "", 0, 0, 0))
            groups[source, kind] = (source, kind, samples, runs + 1, max(last_us, end_us or 0))
    return nsmallest(CLOSEST, groups.values(), key=lambda basis: (basis[4], basis[0], basis[1]))


def _able(domain: Domain, demand: Demand) -> list[Worker]:
    return [worker for worker in domain.workers.values() if not worker.draining and could_run(worker, demand)]


def _lasts(domain: Domain, op: Op) -> dict[str, None]:
    """Workers that alone could run something else that is queued."""
    found: dict[str, None] = {}
    for line in domain.lines.values():
        if len(line.ops) > 1 or line.demand is not op.demand:
            able = _able(domain, line.demand)
            if len(able) == 1:
                found[able[0].endpoint] = None
    return found


def _is_last(domain: Domain, worker: Worker, lasts: dict[str, None]) -> bool:
    return worker.endpoint in lasts or any(_able(domain, run.demand) == [worker] for run in worker.runs.values())
