"""The choice by drain time as one would first write it, from every remembered run one by one. It reads rows and changes none."""

from collections.abc import Iterable

from events.config import DrainTimeHold
from events.deciding.candidates import Census, Choice, Spared, shortfall_milli
from events.durations import middle_us
from events.fitting import Demand
from events.reasons import DurationSource
from events.state import Dispatch, Instance, Worker
from events.values import DrainBasis, HoldCandidate

BEYOND_US = 10**30


def mean_left_us(steps: Iterable[int], ran_us: int) -> int:
    """The mean of what is left of those that took longer; as long again where none did."""
    longer = [middle_us(step) for step in steps if middle_us(step) > ran_us]
    return sum(longer) // len(longer) - ran_us if longer else ran_us


def named(dispatch: Dispatch) -> tuple[DurationSource, str]:
    """What runs of its kind have in common."""
    operation = dispatch.operation
    if operation.mnemonic != "":
        return DurationSource.MNEMONIC, operation.mnemonic
    if operation.target_id != "":
        return DurationSource.TARGET, operation.target_id
    return DurationSource.REQUIREMENT, str(dispatch.demand.requirement_id)


def expected_end(
    dispatch: Dispatch, instance: Instance, min_runs: int, now_us: int
) -> tuple[int, DurationSource, str, int]:
    """(end, source, kind, samples); the end is beyond all times where nothing is known."""
    rows = dict(instance.durations.rows())
    began_us, expected_us = dispatch.dispatched_at_us, dispatch.operation.expected_duration_us
    source, kind = named(dispatch)
    own = rows.get((source, kind), ())
    if len(own) >= min_runs:
        return now_us + mean_left_us(own, now_us - began_us), source, kind, len(own)
    if expected_us > 0:
        return max(began_us + expected_us, now_us), DurationSource.PRODUCER, "", 0
    every = [step for steps in rows.values() for step in steps]
    if len(every) >= min_runs:
        return now_us + mean_left_us(every, now_us - began_us), DurationSource.EVERY_RUN, "", len(every)
    return BEYOND_US, DurationSource.UNKNOWN, "", len(every)


def roomy_at_us(worker: Worker, demand: Demand, ends: dict[int, int]) -> int:
    """The first moment at which what has ended by then leaves room; beyond all times where that is never known."""
    for moment_us in sorted(ends.values()):
        if moment_us == BEYOND_US:
            break
        going = [run for run in worker.running.values() if ends[run.dispatch_id] > moment_us]
        taken = {pool: sum(dict(run.demand.amounts).get(pool, 0) for run in going) for pool, _ in demand.amounts}
        fits = all(worker.totals[pool] - taken[pool] >= asked for pool, asked in demand.amounts)
        if fits and (worker.max_inflight == 0 or len(going) < worker.max_inflight):
            return moment_us
    return BEYOND_US


def choose_plainly(census: Census, policy: DrainTimeHold, now_us: int, spared: Spared | None = None) -> Choice:
    """The same as `events.deciding.draining.choose_by_drain` of a fleet with no more candidates than it considers."""
    instance, demand = census.instance, census.demand
    found = census.find(spared)
    outlooks, ranked = {}, []
    for endpoint in found.ranks:
        worker = instance.workers[endpoint]
        ends = {
            run.dispatch_id: expected_end(run, instance, policy.min_runs, now_us) for run in worker.running.values()
        }
        free_us = roomy_at_us(worker, demand, {dispatch_id: end[0] for dispatch_id, end in ends.items()})
        outlooks[endpoint] = list(ends.values())
        ranked.append((free_us, shortfall_milli(worker, demand), len(worker.running), worker.recency, endpoint))
    ranked.sort()
    if not ranked:
        return Choice(None, (), 0, found.excluded, 0)
    candidates = tuple(
        HoldCandidate(endpoint, short, running, 0 if free_us == BEYOND_US else free_us)
        for free_us, short, running, _, endpoint in ranked[:5]
    )
    free_us, *_, endpoint = ranked[0]
    counting = [
        end for end in outlooks[endpoint] if (end[0] == BEYOND_US if free_us == BEYOND_US else end[0] <= free_us)
    ]
    bases = []
    for source, kind, samples in dict.fromkeys(end[1:] for end in counting):
        ends_us = [end[0] for end in counting if end[1:] == (source, kind, samples)]
        last_us = 0 if free_us == BEYOND_US else max(ends_us)
        bases.append(DrainBasis(source, kind, samples, len(ends_us), last_us))
    bases.sort(key=lambda basis: (basis.last_end_us, basis.source, basis.kind))
    told_us = 0 if free_us == BEYOND_US else free_us
    more = max(0, len(ranked) - 5)
    return Choice(instance.workers[endpoint], candidates, more, found.excluded, told_us, tuple(bases[:5]))
