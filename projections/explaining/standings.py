"""What keeps each worker of an instance from taking an operation now, and whom the strategy would take of those with room.

The same rules as the core's, written plainly over rows; a test holds them against what the core places.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from events.config import AllocationStrategy
from events.fitting import DECLINED_POOL, Demand, compile_demand
from events.reasons import WorkerStanding
from projections.fleet import Ledger, worker_rows
from projections.row_access import operation_at, queue_key, requirements_of_row
from projections.table import Table
from proto.gen.headway.v1.rows_pb2 import InstanceRow, OperationRow, WorkerRow

NEVER = (WorkerStanding.OTHER_PROPERTIES, WorkerStanding.TOO_SMALL)
"""It could not run the operation even if idle."""

TAKES_NOTHING = (WorkerStanding.DRAINING, WorkerStanding.PAUSED, WorkerStanding.FULL, WorkerStanding.UNACCEPTED)
"""It takes no operation now."""

LACKS_ROOM = (WorkerStanding.SHORT, WorkerStanding.DECLINED, WorkerStanding.VETOED)
"""It takes operations, and has no room for this one."""


@dataclass(frozen=True, slots=True)
class Assessed:
    """A worker and where it stands to one operation; amounts are by the pools that the worker declares."""

    worker: WorkerRow
    standing: WorkerStanding
    totals: Mapping[str, int]
    remaining: Mapping[str, int]
    shortfall_milli: int  # in thousandths of what it registered, over the minimums (H13)

    def short(self, asked: Mapping[str, int]) -> list[dict[str, Any]]:
        """Each minimum of which it has less left than is asked for, with the amounts: `lacks` is what is missing."""
        return [
            {
                "name": name,
                "asked": amount,
                "free": self.remaining[name],
                "total": self.totals[name],
                "lacks": amount - self.remaining[name],
            }
            for name, amount in asked.items()
            if name in self.remaining and self.remaining[name] < amount
        ]

    @property
    def capable(self) -> bool:
        """Whether it could run the operation if idle."""
        return self.standing not in NEVER


class Standings:
    """The standing of every connected worker of an instance to one operation.

    Raises NotANumber when the configuration in force cannot read the operation's requirements, which the core does not let happen.
    """

    def __init__(self, table: Table, instance: InstanceRow, operation: OperationRow) -> None:
        self.ledger = Ledger(table, instance)
        self.config = self.ledger.config
        self.operation = operation
        pairs = requirements_of_row(table, operation.requirement_id)
        self.demand: Demand = compile_demand(operation.requirement_id, pairs, self.config, self.ledger.pools)
        self.asked: dict[str, int] = {self.ledger.pools[pool]: amount for pool, amount in self.demand.amounts}
        self.held_before = _held_before(table, instance, operation)
        self._table, self._instance = table, instance

    @cached_property
    def assessed(self) -> list[Assessed]:
        """Every connected worker of the instance, where it stands."""
        return [self.assess(worker) for worker in worker_rows(self._table, self._instance.name)]

    def assess(self, worker: WorkerRow) -> Assessed:
        """Where one worker stands."""
        totals, remaining = self.ledger.totals(worker), self.ledger.remaining(worker)
        standing = self._standing(worker, totals, remaining)
        return Assessed(worker, standing, totals, remaining, shortfall_milli(self.asked, remaining, totals))

    def counts(self) -> dict[WorkerStanding, int]:
        """How many workers have each standing, in the order of the standings; those that none has are left out."""
        found = [assessed.standing for assessed in self.assessed]
        return {standing: found.count(standing) for standing in WorkerStanding if standing in found}

    def closest(self) -> list[Assessed]:
        """The workers that could run it if idle, those nearest to taking it first."""
        capable = [assessed for assessed in self.assessed if assessed.capable]
        return sorted(capable, key=lambda each: (each.standing in TAKES_NOTHING, *_nearness(each)))

    def with_room(self) -> list[Assessed]:
        """The workers that have room for it, the one the strategy takes first (1.3)."""
        found = [assessed for assessed in self.assessed if assessed.standing is WorkerStanding.ROOM]
        return sorted(found, key=self._preference)

    def _standing(self, worker: WorkerRow, totals: Mapping[str, int], remaining: Mapping[str, int]) -> WorkerStanding:
        if not self.demand.need.satisfied_by({item.name: item.value for item in worker.properties}):
            return WorkerStanding.OTHER_PROPERTIES
        if any(totals.get(name, -1) < amount for name, amount in self.asked.items()):
            return WorkerStanding.TOO_SMALL
        if worker.draining:
            return WorkerStanding.DRAINING
        if worker.paused:
            return WorkerStanding.PAUSED
        if worker.max_inflight and len(worker.running) >= worker.max_inflight:
            return WorkerStanding.FULL
        most = self.config.max_unaccepted_dispatches
        if most and sum(not run.accepted and not run.revoked for run in worker.running) >= most:
            return WorkerStanding.UNACCEPTED
        if any(remaining[name] < amount for name, amount in self.asked.items()):
            return WorkerStanding.SHORT
        if self._declined(worker):
            return WorkerStanding.DECLINED
        if self._vetoed(worker, totals):
            return WorkerStanding.VETOED
        return WorkerStanding.HELD if worker.endpoint == self.held_before else WorkerStanding.ROOM

    def _declined(self, worker: WorkerRow) -> bool:
        """It refused as much while it ran nothing (B5)."""
        asked = self.asked.get(self.config.live_memory_veto or DECLINED_POOL)
        return asked is not None and worker.HasField("idle_declined_kib") and asked >= worker.idle_declined_kib

    def _vetoed(self, worker: WorkerRow, totals: Mapping[str, int]) -> bool:
        """It reports less free than is asked for; who asks for the whole worker is exempt (V1, V2)."""
        veto = self.config.live_memory_veto
        if veto is None or veto not in self.asked or not worker.HasField("free_memory_kib"):
            return False
        if worker.admits_when_idle and not worker.running:
            return False
        return worker.free_memory_kib < self.asked[veto] < totals[veto]

    def _preference(self, found: Assessed) -> tuple[int, ...]:
        worker = found.worker
        match self.config.allocation_strategy:
            case AllocationStrategy.LEAST_RECENTLY_USED:
                return (worker.recency,)
            case AllocationStrategy.MOST_RECENTLY_USED:
                return (-worker.recency,)
            case AllocationStrategy.LEAST_LOADED:
                return (len(worker.running), worker.recency)
            case AllocationStrategy.BEST_FIT:
                declared = {item.name: item.value for item in worker.properties}
                carried = sum(declared.get(name) == value for name, value in self.demand.preferred)
                leftover = sum(
                    (found.remaining[name] - amount) * 1000 // found.totals[name]
                    for name, amount in self.asked.items()
                    if found.totals[name]
                )
                return (-carried, leftover, len(worker.running), worker.recency)


def shortfall_milli(asked: Mapping[str, int], remaining: Mapping[str, int], totals: Mapping[str, int]) -> int:
    """What is missing of each minimum in thousandths of what the worker registered, rounded down and added up (H13)."""
    missing = (
        max(0, amount - remaining[name]) * 1000 // totals[name] for name, amount in asked.items() if totals.get(name, 0)
    )
    return sum(missing)


def largest(assessed: Iterable[Assessed], pool: str) -> int | None:
    """The most that any of the workers registered of a pool; None where none declares it."""
    return max((each.totals[pool] for each in assessed if pool in each.totals), default=None)


def _held_before(table: Table, instance: InstanceRow, operation: OperationRow) -> str | None:
    """The worker that is held for an operation that sorts before this one (H15); None: there is none."""
    if not instance.HasField("hold") or instance.hold.operation_id == operation.operation_id:
        return None
    _, held_for = operation_at(table, instance.hold.operation_id)
    return instance.hold.endpoint if queue_key(table, held_for) < queue_key(table, operation) else None


def _nearness(assessed: Assessed) -> tuple[int, int, int]:
    return (assessed.shortfall_milli, len(assessed.worker.running), assessed.worker.recency)
