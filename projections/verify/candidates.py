"""Who could be held for an operation, and who is the closest: each worker looked at on its own (5.2)."""

from heapq import nsmallest
from typing import NamedTuple

from projections.verify.fitting import could_be_held, could_run, shortfall
from projections.verify.rows import UNDECLARED, Demand, Domain, Op, Worker
from proto.gen.headway.v1 import reasons_pb2 as r

CLOSEST = 5
"""Candidates that an event names."""

Rank = tuple[int, int, int, int]
"""(expected free time, shortfall, running, recency)."""


class Choice(NamedTuple):
    """Who is held, and what the event says of the others."""

    worker: Worker | None
    candidates: list[tuple[str, int, int, int]]
    more: int
    excluded: list[tuple[int, int]]
    free_at_us: int


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
    """When enough runs are expected to have ended; None: it depends on one whose duration nobody gave."""
    left = worker.left.copy()
    slots = worker.inflight - len(worker.runs) if worker.inflight else 1
    for end_us, number in sorted(
        (run.at_us + run.op.expected_us, run.id) for run in worker.runs.values() if run.op.expected_us
    ):
        for pool, amount in worker.runs[number].demand.amounts:
            left[pool] += amount
        slots += 1
        if slots > 0 and demand.within(left):
            return end_us
    return None


def choose(domain: Domain, op: Op, demand: Demand, *, spare: bool) -> Choice:
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
    closest = nsmallest(CLOSEST, ranks, key=lambda ranked: ranked[0])
    excluded = [(why, counts[why]) for why in sorted(counts) if counts[why]]
    if not closest:
        return Choice(None, [], 0, excluded, 0)
    candidates = [(worker.endpoint, short, running, free_us) for (free_us, short, running, _), worker in closest]
    rank, worker = closest[0]
    return Choice(worker, candidates, len(ranks) - len(candidates), excluded, rank[0])


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
