"""What several folds do to rows: read a requirement, charge and settle workers, note who may have room."""

from projections.verify.case import Case, Off
from projections.verify.catalogue import REQUIREMENTS
from projections.verify.rows import Demand, Domain, Run, Worker


def demand_of(case: Case, domain: Domain, number: int) -> Demand:
    """A requirement as this instance reads it. Raises Off."""
    demand = domain.demands.get(number)
    if demand is None:
        known = case.shard.known
        if not 0 < number < len(known):
            raise Off(REQUIREMENTS, f"a requirement that is defined, not {number}")
        try:
            demand = domain.demands[number] = Demand(number, known[number], domain.options)
        except ValueError as error:
            raise Off(REQUIREMENTS, f"a requirement whose minimums are numbers, not {error}") from error
    return demand


def touched(domain: Domain, worker: Worker) -> None:
    """The worker may have room that it had not."""
    worker.stamp += 1
    if domain.workers.get(worker.endpoint) is worker:  # else it was replaced, or is gone
        domain.dirty[worker.endpoint] = worker


def promote(case: Case, worker: Worker) -> None:
    """The worker is the most recent one, and was heard (1.3)."""
    worker.recency = case.seq
    worker.seen_us = max(worker.seen_us, case.now_us)


def charge(worker: Worker, demand: Demand) -> None:
    """Take the amounts."""
    left = worker.left
    for pool, amount in demand.amounts:
        left[pool] -= amount


def settle(domain: Domain, run: Run) -> None:
    """Give them back."""
    worker = run.worker
    if worker.runs.pop(run.id, None) is None:
        return
    if not run.accepted and not run.revoked:
        worker.unaccepted -= 1
    left = worker.left
    for pool, amount in run.demand.amounts:
        left[pool] += amount
    touched(domain, worker)
