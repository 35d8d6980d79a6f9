"""Who could be held for an action: which workers qualify, how far each is from room for it, and who is chosen (5.2).

Every choice is a total order over rows (the last tie is recency, which no two workers share), so it is the same after a restart.
"""

from collections import Counter
from collections.abc import Iterable
from heapq import heapify, heappop, heappush, nsmallest
from typing import NamedTuple

from events.config import SimpleScheduler
from events.events import Event, OperationAccepted
from events.fitting import DECLINED_POOL, UNDECLARED, Demand
from events.reasons import HoldExclusion
from events.state import Instance, Shard, Worker
from events.values import DrainBasis, HoldCandidate, HoldExclusionCount

CLOSEST = 5
"""Candidates that stand in an event; the rest is a count, so that no event grows with the fleet."""

UNKNOWN_US = 2**63
"""After every time: of whom nobody knows when they have room, they come behind those of whom somebody does."""

Rank = tuple[int, int, int, int]
"""(expected free time, shortfall, running, recency): the smallest is chosen. The first is 0 where the policy does not look at it."""


class Found(NamedTuple):
    """Who could be held, by endpoint, and how many could not, by reason."""

    ranks: dict[str, Rank]
    excluded: tuple[HoldExclusionCount, ...]


class Choice(NamedTuple):
    """Who was chosen and why; `worker` is None when nobody qualifies."""

    worker: Worker | None
    candidates: tuple[HoldCandidate, ...]
    more_candidates: int
    excluded: tuple[HoldExclusionCount, ...]
    free_at_us: int  # of the chosen worker; 0 where the policy does not look at it, or does not know
    basis: tuple[DrainBasis, ...] = ()  # what that follows from, under drain_time


def shortfall_milli(worker: Worker, demand: Demand) -> int:
    """What the worker lacks now, in thousandths of what it registered, rounded down for each minimum and added up (H13)."""
    total = 0
    for pool, asked in demand.amounts:
        registered, lacking = worker.totals[pool], asked - worker.remaining[pool]
        if registered > 0 and lacking > 0:
            total += lacking * 1000 // registered
    return total


def could_run_there(worker: Worker, demand: Demand, declared: dict[str, str] | None = None) -> bool:
    """Whether what the worker registered satisfies the demand; `declared` are its properties by name where the caller has them."""
    properties = dict(worker.properties) if declared is None else declared
    return demand.need.satisfied_by(properties) and demand.fits(worker.totals)


def awaits_acceptance(worker: Worker) -> bool:
    """Whether the worker gets nothing until it accepts what it was given (B6): as good as paused."""
    return 0 < worker.max_unaccepted <= worker.unaccepted


def could_hold_for(worker: Worker, demand: Demand, config: SimpleScheduler, pools: tuple[str, ...]) -> bool:
    """Whether the worker, once drained, is expected to take the action (H10).

    Under the live memory veto that is what it reported free, plus what was lent to its runs when it reported (so a stale report stays
    true as they finish), at most what it ever reported while idle. The whole worker is exempt, as it is from the veto; admitting when
    idle is not (H10a).
    """
    if worker.draining or worker.paused or awaits_acceptance(worker) or not could_run_there(worker, demand):
        return False
    veto = config.live_memory_veto
    memory = veto or DECLINED_POOL
    pool = pools.index(memory) if memory in pools else -1
    asked = next((amount for asked_pool, amount in demand.amounts if asked_pool == pool), None)
    if asked is None:
        return True
    if worker.idle_declined_kib is not None and asked >= worker.idle_declined_kib:
        return False
    if veto is None or worker.free_memory_kib is None or asked >= worker.totals[pool]:
        return True
    projected_kib = worker.free_memory_kib + worker.lent_kib
    if worker.idle_free_kib is not None:
        projected_kib = min(projected_kib, worker.idle_free_kib)
    return asked <= projected_kib


def room_at_us(worker: Worker, demand: Demand, ends: dict[int, int | None]) -> int | None:
    """When the demand is expected to fit, as the worker's runs end: `ends` has when, by dispatch id, and None where nobody knows.

    None while it depends on one of those. At least one run has to end.
    """
    remaining = worker.remaining.copy()
    slots = worker.max_inflight - len(worker.running) if worker.max_inflight else 1
    known = sorted((end_us, dispatch_id) for dispatch_id, end_us in ends.items() if end_us is not None)
    for end_us, dispatch_id in known:
        for pool, amount in worker.running[dispatch_id].demand.amounts:
            remaining[pool] += amount
        slots += 1
        if slots > 0 and demand.fits(remaining):
            return end_us
    return None


def free_at_us(worker: Worker, demand: Demand) -> int | None:
    """When the demand is expected to fit by what producers expect; None while that depends on a run whose duration nobody gave.

    May lie in the past: a run that takes longer than expected is expected to end at any moment.
    """
    ends: dict[int, int | None] = {}
    for dispatch in worker.running.values():
        expected_us = dispatch.operation.expected_duration_us
        ends[dispatch.dispatch_id] = dispatch.dispatched_at_us + expected_us if expected_us else None
    return room_at_us(worker, demand, ends)


class Census:
    """The candidates for one demand, kept from pass to pass: only workers that changed are looked at again.

    Derived from rows, like every index.
    """

    __slots__ = ("_closest", "_stale", "by_end", "demand", "excluded", "instance", "ranks")

    def __init__(self, instance: Instance, demand: Demand, by_end: bool) -> None:
        self.instance = instance
        self.demand = demand
        self.by_end = by_end  # whether the expected free time comes first (backfill)
        self.ranks: dict[str, Rank] = {}
        self.excluded: dict[str, HoldExclusion] = {}
        self._closest: list[tuple[Rank, str]] = []  # heap; an entry whose rank is no longer the worker's is dropped
        self._stale: dict[str, None] = dict.fromkeys(instance.workers)

    def note(self, shard: Shard, events: Iterable[Event]) -> bool:
        """Workers that these events concern may have changed; whether it pays to keep the census."""
        for event in events:
            endpoint = getattr(event, "endpoint", "")
            if endpoint:
                self._stale[endpoint] = None
            elif type(event) is OperationAccepted:  # names its worker by the dispatch only
                dispatch = shard.operations[event.operation_id].dispatch
                if dispatch is not None:
                    self._stale[dispatch.worker.endpoint] = None
        return len(self._stale) <= len(self.ranks) + len(self.excluded) + 64

    def refresh(self) -> None:
        """Look at the workers that changed."""
        for endpoint in self._stale:
            self.ranks.pop(endpoint, None)
            self.excluded.pop(endpoint, None)
            worker = self.instance.workers.get(endpoint)
            found = None if worker is None else self._assess(worker)
            if isinstance(found, HoldExclusion):
                self.excluded[endpoint] = found
            elif found is not None:
                self.ranks[endpoint] = found
                heappush(self._closest, (found, endpoint))
        self._stale.clear()
        if len(self._closest) > 2 * len(self.ranks) + 64:
            self._closest = [(rank, endpoint) for endpoint, rank in self.ranks.items()]
            heapify(self._closest)

    def closest(self) -> tuple[Rank, Worker] | None:
        """The first candidate, after `refresh`; None without one."""
        while self._closest:
            rank, endpoint = self._closest[0]
            if self.ranks.get(endpoint) == rank:
                return rank, self.instance.workers[endpoint]
            heappop(self._closest)
        return None

    def find(self, spared: "Spared | None" = None) -> Found:
        """Who could be held in the fleet as it is; `spared` says who must not be because it is the last of its kind."""
        self.refresh()
        counts = Counter(self.excluded.values())
        ranks = self.ranks
        if spared is not None:
            workers = self.instance.workers
            ranks = {endpoint: rank for endpoint, rank in ranks.items() if not spared.is_last(workers[endpoint])}
            counts[HoldExclusion.LAST] = len(self.ranks) - len(ranks)
        return Found(ranks, tuple(HoldExclusionCount(why, counts[why]) for why in HoldExclusion if counts[why]))

    def choice(self, found: Found) -> Choice:
        """The first of those found. A time of its rank that is beyond all times is not known, and told as 0."""
        first = nsmallest(CLOSEST, ((rank, endpoint) for endpoint, rank in found.ranks.items()))
        candidates = tuple(
            HoldCandidate(endpoint, shortfall, running, free_us if free_us < UNKNOWN_US else 0)
            for (free_us, shortfall, running, _), endpoint in first
        )
        if not first:
            return Choice(None, (), 0, found.excluded, 0)
        worker = self.instance.workers[first[0][1]]
        return Choice(worker, candidates, len(found.ranks) - len(candidates), found.excluded, candidates[0].free_at_us)

    def choose(self, spared: "Spared | None" = None) -> Choice:
        """The choice among the fleet as it is."""
        return self.choice(self.find(spared))

    def _assess(self, worker: Worker) -> Rank | HoldExclusion | None:
        """Its rank, why it cannot be held (H9, in this order), or None where it could never run the action (H8)."""
        demand, instance = self.demand, self.instance
        declared = dict(worker.properties)
        if not demand.need.satisfied_by(declared) or any(worker.totals[p] == UNDECLARED for p, _ in demand.amounts):
            return None
        if not could_hold_for(worker, demand, instance.config, instance.pools):
            return HoldExclusion.UNFIT
        if not worker.running:
            return HoldExclusion.IDLE
        free_us = 0
        if self.by_end:
            expected_us = free_at_us(worker, demand)
            if expected_us is None:
                return HoldExclusion.UNKNOWN_DURATION
            free_us = expected_us
        return (free_us, shortfall_milli(worker, demand), len(worker.running), worker.recency)


class Spared:
    """Who is the last worker for somebody else (`spare_last`).

    A worker is the last where something that runs on it, or something else that is queued and that it could run, could run on no other
    connected worker that does not drain.
    """

    def __init__(self, instance: Instance, others: Iterable[Demand]) -> None:
        self._workers = [
            (worker, dict(worker.properties)) for worker in instance.workers.values() if not worker.draining
        ]
        self._able: dict[int, list[Worker]] = {}
        self._sole = {able[0].endpoint for demand in others if len(able := self._first_two(demand)) == 1}

    def is_last(self, worker: Worker) -> bool:
        """Whether nobody else could serve what it serves."""
        return worker.endpoint in self._sole or any(
            self._first_two(dispatch.demand) == [worker] for dispatch in worker.running.values()
        )

    def _first_two(self, demand: Demand) -> list[Worker]:
        """Two workers that could run it, or all there are: two are enough to know that each has a second."""
        able = self._able.get(demand.requirement_id)
        if able is None:
            able = self._able[demand.requirement_id] = []
            for worker, declared in self._workers:
                if could_run_there(worker, demand, declared):
                    able.append(worker)
                    if len(able) == 2:
                        break
        return able
