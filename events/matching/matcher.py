"""The indexed pass: the next placement, from what changed since the last fixpoint.

After a pass no queued demand class fits any worker. So an operation that joins a class which waits already cannot be placed; room that
opens on a worker can only be used on that worker; only a class that begins to wait needs a search through the fleet. The matcher keeps
the workers with new room and the classes that began to wait, and asks no others. Within a pass room only shrinks, so walking the queue in
order is the same as placing, again and again, the first operation in queue order that fits anywhere.

A held worker stands aside of all this and is asked on its own (held.py).

Decisions depend on the rows alone, never on the history of the indexes: a matcher built from the same rows, with the same hold, decides
the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import gt

from events.config import SimpleScheduler
from events.fitting import Caps, Demand
from events.matching.class_index import Block
from events.matching.demand_class import NEVER, DemandClass, HeadOrder
from events.matching.fleet_index import MERGE_ABOVE, FleetIndex
from events.matching.held import Held
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
    `backfilled`: it goes to the held worker although it sorts after the held operation, which it does not delay.
    """

    operation: Operation
    worker: Worker
    overtook: int | None
    backfilled: bool = False


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
        self._caps = caps = Caps(config, pools)
        # Memory has the most values. Where there is a veto its pool is memory, and what asks for the whole of it is found by it.
        sorted_pool = caps.pool if caps.pool >= 0 else max(0, len(pools) - 1)
        self._fleet = FleetIndex(
            caps, sorted_pool, config.allocation_strategy, self.work, probes=probes, merge_above=merge_above
        )
        self._plain = caps.plain
        self._held: Held | None = None
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

    @property
    def held(self) -> Worker | None:
        """The worker that is held."""
        return None if self._held is None else self._held.seat.worker

    @property
    def held_free_at_us(self) -> int:
        """When the held operation is expected to start there, as last told; 0 without a hold."""
        return 0 if self._held is None else self._held.free_at_us

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
        if self._held is not None:
            self._held.joined(op)

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
                self._let_rest(c)

    def add_worker(self, w: Worker) -> None:
        """`w` is connected. Raises ValueError if it already is."""
        if w.index is not None:
            raise ValueError(f"worker {w.endpoint!r} is in the fleet already; remove it before it is replaced")
        w.index = seat = self._fleet.add_worker(w)
        if seat.free is not None:
            self._dirty_workers[seat] = 0

    def remove_worker(self, w: Worker) -> None:
        """`w` is gone, and a hold on it too. Raises ValueError if it is not in the fleet."""
        seat: Seat | None = w.index
        if seat is None:
            raise ValueError(f"worker {w.endpoint!r} is not in the fleet; it cannot be removed")
        w.index = None
        self._dirty_workers.pop(seat, None)
        self._fleet.remove_worker(seat)
        if self._held is not None and self._held.seat is seat:
            self._held = None

    def refresh(self, w: Worker) -> None:
        """`w` changed: its remaining amounts, runs, recency, whether it accepts, what it reports free or declined.

        Raises ValueError if it is not in the fleet.
        """
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
        if self._held is not None and self._held.seat is seat:
            self._held.look()
            return
        before = seat.free
        if not w.accepts():
            seat.free = None
            return
        if self._plain and w.idle_declined_kib is None:
            if before == w.remaining:
                return
            seat.free = free = w.remaining.copy()
        else:
            seat.free = free = self._caps.offer(w)
        # Lists compare by their first difference: greater means room in that pool; otherwise a later pool may still have grown.
        if before is None or free > before or seat in self._dirty_workers or any(map(gt, free, before)):
            self._dirty_workers[seat] = 0

    def everything_dirty(self) -> None:
        """Assume no fixpoint: the next pass asks for every class."""
        self._every_class_dirty()
        if self._held is not None:
            self._held.open()

    def _every_class_dirty(self) -> None:
        # The held worker is no part of it: what it has not taken it still does not take.
        self._dirty_workers.clear()
        for c in self._classes.values():
            if c.head is not None:
                self._dirty_classes.note(c)

    # -- the hold -------------------------------------------------------------------------------------------------------------------

    def hold(self, worker: Worker, operation: Operation, *, free_at_us: int = 0, backfill: bool = False) -> None:
        """From now on `worker` takes only `operation` and what sorts before it (H15-H17), until `release_hold`.

        With `backfill` it also takes what surely ends by `free_at_us`, when the operation is expected to start, and what leaves room
        for the operation then (backfill.py). A hold there was is released first: the same call moves it, and tells a new `free_at_us`.
        Raises ValueError if the worker is not in the fleet.
        """
        seat: Seat | None = worker.index
        if seat is None:
            raise ValueError(f"worker {worker.endpoint!r} is not in the fleet; it cannot be held")
        self.release_hold()
        self._dirty_workers.pop(seat, None)
        seat.free = None
        self._touch(seat)
        self._held = Held(seat, operation, free_at_us, backfill, self._caps, self.work)

    def release_hold(self) -> None:
        """The held worker is like any other again, with whatever room it has. Nothing happens when none is held."""
        held = self._held
        if held is None:
            return
        self._held = None
        seat = held.seat
        worker = seat.worker
        if worker.accepts():
            seat.free = self._caps.offer(worker)
            self._dirty_workers[seat] = 0
        self._touch(seat)

    def _touch(self, seat: Seat) -> None:
        seat.line.touch(seat, False)
        for merged in seat.signature.merged:
            merged.touch(seat, False)

    # -- the pass -------------------------------------------------------------------------------------------------------------------

    def next_match(self, now_us: int = 0) -> Match | None:
        """The next placement of the pass for the rows as they are at `now_us`; None at the fixpoint.

        Asking twice without a change gives the same answer. Only backfill looks at the time.
        """
        workers, dirty, held = self._dirty_workers, self._dirty_classes, self._held
        if not workers and not dirty.listed and (held is None or not held.dirty):
            return None  # most facts give no room and begin no queue
        if not self._queued:
            workers.clear()
            if held is not None:
                held.settle()
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
        taken: Operation | None = None  # by the held worker
        last = key
        if held is not None and held.dirty:
            taken = held.first(now_us, min(key + 1, NEVER))
            if taken is not None:
                last = taken.sort_key
        while dirty.listed and (c := dirty.first()) is not None and c.key <= last:
            found = self._fleet.first_fit(c)
            if found is None:
                dirty.discard(c)
            elif held is None or c.head is not taken or self._fleet.before(found, held.seat, c.demand):
                return self._match(c, found)
            if held is not None and taken is not None and c.head is taken:
                return self._match_held(held, taken)
        if block is not None and seat is not None and (held is None or taken is None or key <= last):
            c = block.classes[block.keys.index(key)]
            if held is None or c.head is not taken or self._fleet.before(seat, held.seat, c.demand):
                return self._match(c, seat)
        if held is not None and taken is not None:
            return self._match_held(held, taken)
        return None

    def workers(self) -> Iterator[Worker]:
        """The connected workers, least recent first; O(n log n)."""
        return iter(self._fleet.workers())

    def could_run_idle(self, demand: Demand) -> bool:
        """Whether some connected worker would take this demand with nothing running on it, by what it registered (X2)."""
        c = self._classes.get(demand.requirement_id)
        if c is None:
            c = self._open_class(demand)  # like one that came and went: its kind is likely to be asked about again
            self._let_rest(c)
        return self._fleet.could_run_idle(c)

    def head(self) -> Operation | None:
        """The first queued operation in queue order."""
        c = self._waiting.first()
        return None if c is None else c.head

    def demands(self) -> Iterator[tuple[Demand, int]]:
        """Each demand that waits, and how many operations ask for it."""
        return ((c.demand, c.size) for c in self._classes.values() if c.head is not None)

    def waiting(self, requirement_id: int) -> list[Operation]:
        """The queued operations with this requirement, in no particular order."""
        c = self._classes.get(requirement_id)
        return [] if c is None or c.head is None else list(c.operations())

    def walk(self) -> Iterator[Operation]:
        """The queued operations in queue order. O(n log n), for views; the pass never walks."""
        queued = [op for c in self._classes.values() for op in c.operations()]
        queued.sort(key=_sort_key)
        return iter(queued)

    def _match(self, c: DemandClass, seat: Seat) -> Match:
        op, head = c.head, self.head()
        assert op is not None, "a class that can be placed has a head"
        return Match(op, seat.worker, None if head is None or head is op else head.operation_id)

    def _match_held(self, held: Held, op: Operation) -> Match:
        head = self.head()
        overtook = None if head is None or head is op else head.operation_id
        return Match(op, held.seat.worker, overtook, op.sort_key > held.key)

    def _first_for_dirty_workers(self) -> tuple[int, Block | None, Seat | None]:
        """The first head key that a worker with new room takes, and the first such worker in strategy order."""
        workers = self._dirty_workers
        count = len(workers)
        if count > FEW_WORKERS and count * count > len(self._classes):
            # Every placement would ask each of them again; asking each class once, anywhere, is less.
            self._every_class_dirty()
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
            if key < best_key or best_seat is None:
                best_key, best_block, best_seat = key, block, seat
            elif self._fleet.before(seat, best_seat, block.classes[block.keys.index(key)].demand):
                best_block, best_seat = block, seat
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

    # -- classes come and go -----------------------------------------------------------------------------------------------------------

    def _open_class(self, demand: Demand) -> DemandClass:
        self._serial += 1
        c = self._classes[demand.requirement_id] = DemandClass(demand, self._serial)
        self._fleet.add_class(c)
        return c

    def _let_rest(self, c: DemandClass) -> None:
        """Class `c` has no queue."""
        self._idle[c] = None
        if len(self._idle) > IDLE_CLASSES and len(self._idle) > len(self._classes) >> 1:
            self._retire()

    def _retire(self) -> None:
        # Half of them at a time, those without queue for longest, so that the cost is spread over as many arrivals.
        for c in list(self._idle)[: len(self._idle) >> 1]:
            del self._idle[c], self._classes[c.demand.requirement_id]
            self._waiting.discard(c)
            self._fleet.discard_class(c)


def _sort_key(op: Operation) -> int:
    return op.sort_key
