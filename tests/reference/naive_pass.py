"""The pass as one would first write it: every queued operation asks every worker. O(queue x workers).

This is the definition of the decisions; `events.matching` finds the same ones. It reads rows and changes none.
"""

from collections.abc import Iterable
from typing import NamedTuple

from events.config import AllocationStrategy
from events.state import Operation, Worker


class Placement(NamedTuple):
    """One placement of a pass: what goes where, and the first operation still queued that sorts before it."""

    operation: Operation
    worker: Worker
    overtook: int | None


class _Offer:
    """What a worker has left in this pass."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.properties = dict(worker.properties)
        self.remaining = list(worker.remaining)
        self.running = len(worker.running)
        self.recency = worker.recency

    def takes(self, op: Operation) -> bool:
        worker = self.worker
        if worker.paused or worker.draining or (worker.max_inflight and self.running >= worker.max_inflight):
            return False
        need = op.demand.need
        return (
            all(self.properties.get(name) == value for name, value in need.exact)
            and all(name in self.properties for name in need.present)
            and all(self.properties.get(name, value) == value for name, value in need.unknown)
            and all(self.remaining[pool] >= asked for pool, asked in op.demand.amounts)
        )


def naive_pass(queued: Iterable[Operation], workers: Iterable[Worker], strategy: AllocationStrategy) -> list[Placement]:
    """All placements of one pass, in the order they are made: in queue order, each on the first worker in strategy order that takes it."""
    offers = [_Offer(worker) for worker in workers]
    newest = strategy is AllocationStrategy.MOST_RECENTLY_USED
    clock = max((offer.recency for offer in offers), default=0)
    first_waiting: int | None = None
    placements = []
    for op in sorted(queued, key=lambda op: op.sort_key):
        takers = [offer for offer in offers if offer.takes(op)]
        if not takers:
            first_waiting = op.operation_id if first_waiting is None else first_waiting
            continue
        pick = max if newest else min
        taker = pick(takers, key=lambda offer: offer.recency)
        for pool, asked in op.demand.amounts:
            taker.remaining[pool] -= asked
        taker.running += 1
        clock += 1
        taker.recency = clock
        placements.append(Placement(op, taker.worker, first_waiting))
    return placements
