"""Backfill on a held worker (EASY): what surely ends before the held operation starts, and what fits beside it.

The held operation starts on its worker at `free_at_us`. Until then the worker may also run an operation that is expected to end by then,
and one of any length that leaves room for the held operation at that time. A run whose duration nobody expected never ends.
"""

from heapq import heapify, heappop, heappush

from events.fitting import Demand
from events.matching.demand_class import NEVER, DemandClass
from events.matching.work import Work
from events.state import Dispatch, Operation, Worker


def still_runs_at(dispatch: Dispatch, at_us: int) -> bool:
    """Whether a run is expected to go on after `at_us`; one without an expected duration goes on for ever."""
    expected_us = dispatch.operation.expected_duration_us
    return expected_us <= 0 or dispatch.dispatched_at_us + expected_us > at_us


def surely_ends_by(operation: Operation, now_us: int, at_us: int) -> bool:
    """Whether `operation`, started now, is expected to have ended at `at_us`."""
    return 0 < operation.expected_duration_us <= at_us - now_us


def room_beside(worker: Worker, held: Demand, at_us: int) -> list[int] | None:
    """What `worker` has at `at_us` beside the held operation, per pool; None when its inflight limit leaves no slot.

    Registered amounts, less those of the runs expected to go on then, less what the held operation asks for. May be below 0.
    """
    room = worker.totals.copy()
    lasting = [dispatch for dispatch in worker.running.values() if still_runs_at(dispatch, at_us)]
    if worker.max_inflight and len(lasting) + 1 >= worker.max_inflight:
        return None
    for demand in (held, *(dispatch.demand for dispatch in lasting)):
        for pool, amount in demand.amounts:
            room[pool] -= amount
    return room


class Lasting:
    """The operations of one class by how long they are expected to last, to find the first that is short enough.

    One heap per power of two, by sort key: of the heaps that are short enough as a whole only the first is looked at, and only the one heap
    that the limit goes through is searched. Entries of operations that left are dropped like those of the class itself.
    """

    __slots__ = ("_class", "_entries", "_heaps")

    def __init__(self, of: DemandClass) -> None:
        self._class = of
        self._heaps: dict[int, list[tuple[int, Operation]]] = {}  # by bit length of the duration in microseconds
        self._entries = 0
        for operation in of.operations():
            self.add(operation)

    def add(self, operation: Operation) -> None:
        """`operation` joined the class."""
        duration_us = operation.expected_duration_us
        if duration_us <= 0:
            return
        heappush(self._heaps.setdefault(duration_us.bit_length(), []), (operation.sort_key, operation))
        self._entries += 1
        if self._entries > 2 * self._class.size + 64:
            self._sweep()

    def first_within(self, limit_us: int, below: int, work: Work) -> Operation | None:
        """The first operation in queue order that lasts at most `limit_us` and sorts before the key `below`."""
        edge = limit_us.bit_length()
        found: Operation | None = None
        for length, heap in self._heaps.items():
            if length > edge:
                continue
            while heap and not self._live(heap[0]):
                heappop(heap)
                self._entries -= 1
            work.backfills_scanned += 1
            if not heap or heap[0][0] >= below:
                continue
            if length < edge:
                below, found = heap[0]
                continue
            work.backfills_scanned += len(heap)
            for key, operation in heap:
                if key < below and operation.expected_duration_us <= limit_us and self._live((key, operation)):
                    below, found = key, operation
        return found

    def _live(self, entry: tuple[int, Operation]) -> bool:
        key, operation = entry
        return operation.index is self._class and operation.sort_key == key

    def _sweep(self) -> None:
        self._entries = 0
        for heap in self._heaps.values():
            # By key: an operation that left and came back has two entries with one key.
            heap[:] = {key: (key, operation) for key, operation in heap if self._live((key, operation))}.values()
            heapify(heap)
            self._entries += len(heap)


def first_ending_within(
    classes: list[DemandClass], limit_us: int, below: int, work: Work
) -> tuple[int, Operation | None]:
    """The first operation of `classes` that lasts at most `limit_us` and sorts before the key `below`, as (key, operation)."""
    found: Operation | None = None
    for c in classes:
        work.backfills_scanned += 1
        if c.key >= below or c.key == NEVER:
            continue
        if c.lasting is None:
            c.lasting = Lasting(c)
        operation = c.lasting.first_within(limit_us, below, work)
        if operation is not None:
            below, found = operation.sort_key, operation
    return below, found
