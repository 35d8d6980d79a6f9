"""The indexed pass: the next placement, from what changed since the last fixpoint.

After a pass no queued demand class fits any worker. So an operation that joins a class which waits already cannot be placed; room that
opens on a worker can only be used on that worker; only a class that begins to wait needs a search through the fleet. The matcher keeps
the workers with new room and the classes that began to wait, and asks no others. Within a pass room only shrinks, so walking the queue in
order is the same as placing, again and again, the first operation in queue order that fits anywhere.

Decisions depend on the rows alone, never on the history of the indexes: a matcher built from the same rows decides the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import gt

from events.config import AllocationStrategy, SimpleScheduler
from events.fitting import Demand
from events.matching.class_index import Block
from events.matching.demand_class import NEVER, DemandClass, HeadOrder
from events.matching.fleet_index import MERGE_ABOVE, FleetIndex
from events.matching.slot_line import PROBES, Seat
from events.matching.work import Work
from events.state import Operation, Worker

FEW_WORKERS = 4
"""Up to so many workers with new room are asked one by one, whatever the number of classes."""

IDLE_CLASSES = 1024
"""So many classes without queue are kept (or as many as there are with one, if more): actions of their kind come back."""


@dataclass(slots=True, eq=False)
class Match:
    """A placement that the rows ask for.

    `overtook` is the operation_id of the first operation still queued that sorts before the placed one; None when it is the first.
    """

    operation: Operation
    worker: Worker
    overtook: int | None


class Matcher:
    """The queue and fleet of one instance, indexed.

    Rows stay the caller's: it changes them and says so. `Operation.index` and `Worker.index` belong to the matcher. No two operations
    have the same sort key and no two workers the same recency (both hold a position in the log). Demands with one requirement_id are
    equal: under another configuration there is another matcher.

    `probes` and `merge_above` set when trees and merged lines come into play; they change the work, never a decision.
    """

    def __init__(
        self,
        config: SimpleScheduler,
        pools: tuple[str, ...],
        *,
        probes: int = PROBES,
        merge_above: int = MERGE_ABOVE,
    ) -> None:
        self.work = Work()
        sorted_pool = pools.index("memory_kib") if "memory_kib" in pools else len(pools) - 1
        newest = config.allocation_strategy is AllocationStrategy.MOST_RECENTLY_USED
        self._fleet = FleetIndex(len(pools), sorted_pool, newest, self.work, probes=probes, merge_above=merge_above)
        self._newest = newest
        self._classes: dict[int, DemandClass] = {}  # by requirement_id
        self._idle: dict[DemandClass, None] = {}  # those without queue, longest first
        self._serial = 0
        self._queued = 0
        self._waiting = HeadOrder()  # every class with a queue
        self._dirty_classes = HeadOrder()  # those that began to wait since the last fixpoint
        # Workers with new room since the last fixpoint, each with a head key that none of the classes it fits is below.
        self._dirty_workers: dict[Seat, int] = {}
        self._bounds_hold = True  # no class head moved ahead since those keys were found

    def __len__(self) -> int:
        """Queued operations."""
        return self._queued

    @property
    def classes_kept(self) -> int:
        """Demand classes in memory: those that wait, and some that came and may come back."""
        return len(self._classes)

    # -- what changed ---------------------------------------------------------------------------------------------------------------

    def enqueue(self, op: Operation) -> None:
        """`op` is queued: its demand and sort key are set. Raises ValueError if it already is."""
        if op.index is not None:
            raise ValueError(f"operation {op.operation_id} is queued already; dequeue it before its row changes")
        c = self._classes.get(op.demand.requirement_id)
        if c is None:
            c = self._open_class(op.demand)
        self._queued += 1
        if c.push(op):
            c.family.stale[c] = None
            self._bounds_hold = False
            self._waiting.note(c)
            if c.size == 1:
                self._idle.pop(c, None)
                self._dirty_classes.note(c)
            elif c in self._dirty_classes.listed:
                self._dirty_classes.note(c)

    def dequeue(self, op: Operation) -> None:
        """`op` is no longer queued: dispatched, cancelled, finished, or about to change its sort key. Raises ValueError if it is not."""
        c: DemandClass | None = op.index
        if c is None:
            raise ValueError(f"operation {op.operation_id} is not queued; it cannot be dequeued")
        self._queued -= 1
        if c.remove(op):
            c.family.stale[c] = None
            if c.head is None:
                self._dirty_classes.discard(c)
                self._idle[c] = None
                if len(self._idle) > IDLE_CLASSES and len(self._idle) > len(self._classes) >> 1:
                    self._retire()

    def add_worker(self, w: Worker) -> None:
        """`w` is connected. Raises ValueError if it already is."""
        if w.index is not None:
            raise ValueError(f"worker {w.endpoint!r} is in the fleet already; remove it before it is replaced")
        w.index = seat = self._fleet.add_worker(w)
        if seat.free is not None:
            self._dirty_workers[seat] = 0

    def remove_worker(self, w: Worker) -> None:
        """`w` is gone. Raises ValueError if it is not in the fleet."""
        seat: Seat | None = w.index
        if seat is None:
            raise ValueError(f"worker {w.endpoint!r} is not in the fleet; it cannot be removed")
        w.index = None
        self._dirty_workers.pop(seat, None)
        self._fleet.remove_worker(seat)

    def refresh(self, w: Worker) -> None:
        """`w` changed its remaining amounts, its recency, or whether it accepts. Raises ValueError if it is not in the fleet."""
        seat: Seat | None = w.index
        if seat is None:
            raise ValueError(f"worker {w.endpoint!r} is not in the fleet; it cannot be refreshed")
        # Twice a decision, so `SlotLine.touch` is written out for the worker's own line.
        if seat.recency != w.recency:
            seat.recency = w.recency
            seat.line.touched[seat] = True
            for merged in seat.signature.merged:
                merged.touch(seat, True)
        else:
            seat.line.touched.setdefault(seat, False)
            for merged in seat.signature.merged:
                merged.touch(seat, False)
        before = seat.free
        if not w.accepts():
            seat.free = None
            return
        seat.free = free = w.remaining.copy()
        # Lists compare by their first difference: greater means room in that pool; otherwise a later pool may still have grown.
        if before is None or free > before or seat in self._dirty_workers or any(map(gt, free, before)):
            self._dirty_workers[seat] = 0

    def everything_dirty(self) -> None:
        """Assume no fixpoint: the next pass asks for every class."""
        self._dirty_workers.clear()
        for c in self._classes.values():
            if c.head is not None:
                self._dirty_classes.note(c)

    # -- the pass -------------------------------------------------------------------------------------------------------------------

    def next_match(self) -> Match | None:
        """The next placement of the pass for the rows as they are; None at the fixpoint.

        Asking twice without a change gives the same answer.
        """
        workers, dirty = self._dirty_workers, self._dirty_classes
        if not workers and not dirty.listed:
            return None
        if not self._queued:
            workers.clear()
            return None
        key = NEVER
        block: Block | None = None
        seat: Seat | None = None
        if len(workers) == 1:
            (seat,) = workers
            free = seat.free
            if free is not None:
                for reach in seat.signature.reaches:
                    key, found_block = reach.shelf.first_for(free, key)
                    if found_block is not None:
                        block = found_block
            if block is None:
                workers.clear()
        elif workers:
            key, block, seat = self._first_for_dirty_workers()
        while dirty.listed and (c := dirty.first()) is not None and c.key <= key:
            found = self._fleet.first_fit(c)
            if found is not None:
                return self._match(c, found)
            dirty.discard(c)
        if seat is None or block is None:
            return None
        return self._match(block.classes[block.keys.index(key)], seat)

    def head(self) -> Operation | None:
        """The first queued operation in queue order."""
        c = self._waiting.first()
        return None if c is None else c.head

    def walk(self) -> Iterator[Operation]:
        """The queued operations in queue order. O(n log n), for views; the pass never walks."""
        queued = [op for c in self._classes.values() for op in c.operations()]
        queued.sort(key=_sort_key)
        return iter(queued)

    def _match(self, c: DemandClass, seat: Seat) -> Match:
        op, head = c.head, self.head()
        assert op is not None, "a class that can be placed has a head"
        return Match(op, seat.worker, None if head is None or head is op else head.operation_id)

    def _first_for_dirty_workers(self) -> tuple[int, Block | None, Seat | None]:
        """The first head key that a worker with new room takes, and the first such worker in strategy order."""
        workers = self._dirty_workers
        count = len(workers)
        if count > FEW_WORKERS and count * count > len(self._classes):
            # Every placement would ask each of them again; asking each class once, anywhere, is less.
            self.everything_dirty()
            return NEVER, None, None
        if not self._bounds_hold:
            workers = self._dirty_workers = dict.fromkeys(workers, 0)
            self._bounds_hold = True
        best_key, best_block, best_seat = NEVER, None, None
        full: list[Seat] = []
        for seat, bound in workers.items():
            if bound > best_key:
                continue
            # One more than the best so far: workers that tie for an operation are told apart by recency.
            key, block = self._first_for(seat, min(best_key + 1, NEVER))
            if block is None:
                if best_key == NEVER:
                    full.append(seat)
                continue
            workers[seat] = key
            if key < best_key or best_seat is None or self._before(seat, best_seat):
                best_key, best_block, best_seat = key, block, seat
        for seat in full:
            del workers[seat]
        return best_key, best_block, best_seat

    def _first_for(self, seat: Seat, best: int) -> tuple[int, Block | None]:
        free = seat.free
        if free is None:
            return best, None
        found: Block | None = None
        for reach in seat.signature.reaches:
            best, block = reach.shelf.first_for(free, best)
            if block is not None:
                found = block
        return best, found

    def _before(self, seat: Seat, other: Seat) -> bool:
        return seat.recency > other.recency if self._newest else seat.recency < other.recency

    # -- classes come and go -----------------------------------------------------------------------------------------------------------

    def _open_class(self, demand: Demand) -> DemandClass:
        self._serial += 1
        c = self._classes[demand.requirement_id] = DemandClass(demand, self._serial)
        self._fleet.add_class(c)
        return c

    def _retire(self) -> None:
        # Half of them at a time, those without queue for longest, so that the cost is spread over as many arrivals.
        for c in list(self._idle)[: len(self._idle) >> 1]:
            del self._idle[c], self._classes[c.demand.requirement_id]
            self._waiting.discard(c)
            self._fleet.discard_class(c)


def _sort_key(op: Operation) -> int:
    return op.sort_key
