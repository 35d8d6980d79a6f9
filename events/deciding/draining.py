"""The hold by drain time: who of the candidates is expected to have room soonest, by recorded durations (`hold.kind = "drain_time"`).

How long a run goes on is asked of the durations of its kind, given how long it has gone (events/durations.py). A worker has drained when
so many of its runs have ended, in the order in which they are expected to, that the action fits. That moves with every moment, so it is
worked out when a choice is made, for the closest candidates by shortfall, and kept nowhere but in the event.
"""

from heapq import nsmallest
from typing import NamedTuple

from events.config import DrainTimeHold
from events.deciding.candidates import UNKNOWN_US, Census, Choice, Found, Rank, Spared, room_at_us
from events.durations import Durations, kind_of
from events.fitting import Demand
from events.reasons import DurationSource
from events.state import Dispatch, Worker
from events.values import DrainBasis

MOST_CONSIDERED = 64
"""Candidates whose drain time is worked out, those with the smallest shortfall: a choice costs the same in a fleet of any size."""

MOST_BASES = 5
"""Kinds of run that stand in an event."""


class Outlook(NamedTuple):
    """When a run is expected to end (None: not known), and how that is known."""

    end_us: int | None
    source: DurationSource
    kind: str
    samples: int


def outlook(dispatch: Dispatch, durations: Durations, min_runs: int, now_us: int) -> Outlook:
    """When the run is expected to end: by its kind, its producer, or all kinds; a producer's expectation that has passed means now."""
    ran_us = now_us - dispatch.dispatched_at_us
    source, name = kind = kind_of(dispatch)
    known = durations.of(kind)
    if known is not None and known.samples >= min_runs:
        return Outlook(now_us + known.left_us(ran_us), DurationSource(source), name, known.samples)
    expected_us = dispatch.operation.expected_duration_us
    if expected_us:
        return Outlook(max(now_us, dispatch.dispatched_at_us + expected_us), DurationSource.PRODUCER, "", 0)
    every = durations.of_all()
    if every.samples >= min_runs:
        return Outlook(now_us + every.left_us(ran_us), DurationSource.EVERY_RUN, "", every.samples)
    return Outlook(None, DurationSource.UNKNOWN, "", every.samples)


def drained_at_us(worker: Worker, demand: Demand, durations: Durations, min_runs: int, now_us: int) -> int | None:
    """When the worker is expected to have room for the demand; None where that depends on a run nothing is known of."""
    ends = {
        dispatch.dispatch_id: outlook(dispatch, durations, min_runs, now_us).end_us
        for dispatch in worker.running.values()
    }
    return room_at_us(worker, demand, ends)


def choose_by_drain(census: Census, policy: DrainTimeHold, now_us: int, spared: Spared | None = None) -> Choice:
    """The candidate that is expected to have room soonest; among equals as under `shortfall`."""
    found = census.find(spared)
    instance = census.instance
    ranks: dict[str, Rank] = {}
    for (_, *rest), endpoint in nsmallest(MOST_CONSIDERED, ((rank, name) for name, rank in found.ranks.items())):
        free_us = drained_at_us(instance.workers[endpoint], census.demand, instance.durations, policy.min_runs, now_us)
        shortfall, running, recency = rest
        ranks[endpoint] = (UNKNOWN_US if free_us is None else free_us, shortfall, running, recency)
    more = len(found.ranks) - len(ranks)
    choice = census.choice(Found(ranks, found.excluded))
    if choice.worker is None:
        return choice
    basis = basis_of(choice.worker, instance.durations, policy.min_runs, now_us, choice.free_at_us)
    return choice._replace(more_candidates=choice.more_candidates + more, basis=basis)


def basis_of(
    worker: Worker, durations: Durations, min_runs: int, now_us: int, free_at_us: int
) -> tuple[DrainBasis, ...]:
    """What the expectation follows from: the worker's runs that have to end first, by kind, in the order in which the kinds end.

    Where nothing is known of when it has room, the runs that nothing is known of.
    """
    groups: dict[tuple[DurationSource, str], DrainBasis] = {}
    outlooks = [outlook(dispatch, durations, min_runs, now_us) for dispatch in worker.running.values()]
    if free_at_us:
        counting = [found for found in outlooks if found.end_us is not None and found.end_us <= free_at_us]
    else:
        counting = [found for found in outlooks if found.end_us is None]
    for found in counting:
        group = groups.get((found.source, found.kind))
        runs, last_us = (0, 0) if group is None else (group.runs, group.last_end_us)
        groups[found.source, found.kind] = DrainBasis(
            found.source, found.kind, found.samples, runs + 1, max(last_us, found.end_us or 0)
        )
    return tuple(
        nsmallest(MOST_BASES, groups.values(), key=lambda basis: (basis.last_end_us, basis.source, basis.kind))
    )
