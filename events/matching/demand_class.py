"""The queue of one demand class, and the order of classes by their heads."""

from collections import deque
from collections.abc import Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING

from events.fitting import Demand
from events.state import Operation

if TYPE_CHECKING:  # a class knows its place in the indexes above it
    from events.matching.backfill import Lasting
    from events.matching.class_index import Block, Family
    from events.matching.reach import Need

NEVER = 1 << 192
"""A head key after every sort key: the class is empty."""

NO_ASK = -(1 << 63)
"""What is asked of a pool that is not asked for; every amount of an accepting worker is above it, an undeclared pool's -1 too."""


class Asks:
    """Amounts to compare with what workers offer. The first two are unpacked, since nearly every demand has one or two."""

    __slots__ = ("amounts", "ask_a", "ask_b", "more", "pool_a", "pool_b")

    def __init__(self, amounts: tuple[tuple[int, int], ...]) -> None:
        self.amounts = amounts
        self.pool_a, self.ask_a = amounts[0] if amounts else (0, NO_ASK)
        self.pool_b, self.ask_b = amounts[1] if len(amounts) > 1 else (self.pool_a, self.ask_a)
        self.more = amounts[2:]


class DemandClass:
    """Queued operations with the same requirements, in queue order.

    Arrivals come in order, so they stand in a deque; what arrives out of order (requeued, reprioritised) stands in a heap. An entry
    is (sort key, operation); one whose operation left or changed its key since is a tombstone and is dropped when it reaches the front.

    `key` and `head` are those of the first operation (NEVER and None when empty).
    """

    __slots__ = (
        "asks",
        "block",
        "demand",
        "family",
        "fifo",
        "head",
        "heap",
        "key",
        "lasting",
        "need",
        "serial",
        "size",
        "sorted_ask",
        "whole",
    )

    def __init__(self, demand: Demand, serial: int) -> None:
        self.demand = demand
        self.serial = serial  # breaks ties between stale entries of two classes, so that classes are never compared
        self.key = NEVER
        self.head: Operation | None = None
        self.size = 0
        self.fifo: deque[tuple[int, Operation]] = deque()
        self.heap: list[tuple[int, Operation]] = []
        self.asks = Asks(demand.amounts)
        self.whole: Asks | None = (
            None  # the same, to ask workers whose whole veto pool it wants; set there, too (fitting.Caps)
        )
        self.lasting: Lasting | None = None  # by expected duration; kept once a worker was held with backfill
        self.need: Need  # the need it stands under in the fleet index; set there
        self.family: Family  # where it stands in the class index; set there
        self.block: Block
        self.sorted_ask: int  # what it asks of the pool its family is sorted by

    def push(self, op: Operation) -> bool:
        """Add `op`; whether it is the new head."""
        key = op.sort_key
        fifo = self.fifo
        if not fifo or key > fifo[-1][0]:
            fifo.append((key, op))
        else:
            heappush(self.heap, (key, op))
        op.index = self
        self.size += 1
        if self.lasting is not None:
            self.lasting.add(op)
        if key < self.key:
            self.key, self.head = key, op
            return True
        return False

    def remove(self, op: Operation) -> bool:
        """Take `op` out; whether the head changed."""
        op.index = None
        self.size = size = self.size - 1
        fifo, heap = self.fifo, self.heap
        if op is not self.head:
            # Tombstones keep their operations alive: more of them than queued operations are swept out at once.
            if len(fifo) + len(heap) > 2 * size + 16:
                self._sweep()
            return False
        if not heap and len(fifo) == size + 1:
            fifo.popleft()  # the usual case: in order, without tombstones
        else:
            while fifo and ((entry := fifo[0])[1].index is not self or entry[1].sort_key != entry[0]):
                fifo.popleft()
            while heap and ((entry := heap[0])[1].index is not self or entry[1].sort_key != entry[0]):
                heappop(heap)
        if fifo and (not heap or fifo[0][0] < heap[0][0]):
            self.key, self.head = fifo[0]
        elif heap:
            self.key, self.head = heap[0]
        else:
            self.key, self.head = NEVER, None
        return True

    def operations(self) -> Iterator[Operation]:
        """The queued operations, each once, in no particular order."""
        return iter(self._live().values())

    def _live(self) -> dict[int, Operation]:
        entries = (entry for part in (self.fifo, self.heap) for entry in part)
        # An operation that left and came back with its old key has two entries with one key; the dict makes them one.
        return {key: op for key, op in entries if op.index is self and op.sort_key == key}

    def _sweep(self) -> None:
        live = self._live()
        self.fifo = deque((key, live[key]) for key in sorted(live))
        self.heap = []


class HeadOrder:
    """Classes by head key, lazily: the class whose head comes first in queue order.

    A heap with one entry per class, whose key is at most the class's head key: a head that moves back costs nothing until its entry
    reaches the top. Only a head that moves ahead pushes a new entry.
    """

    __slots__ = ("_entries", "listed")

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, DemandClass]] = []
        self.listed: dict[DemandClass, int] = {}  # class to the key of its one valid entry

    def note(self, c: DemandClass) -> None:
        """Class `c` is not empty, and its head may have moved ahead or `c` may be new here."""
        key = c.key
        listed = self.listed.get(c)
        if listed is not None and listed <= key:
            return
        self.listed[c] = key
        entries = self._entries
        heappush(entries, (key, c.serial, c))
        if len(entries) > 2 * len(self.listed) + 64:
            self._entries = [(k, c.serial, c) for c, k in self.listed.items()]
            heapify(self._entries)

    def discard(self, c: DemandClass) -> None:
        """Class `c` is no longer of interest."""
        self.listed.pop(c, None)

    def first(self) -> DemandClass | None:
        """The class with the first head, empty ones dropped on the way; None when there is none."""
        entries, listed = self._entries, self.listed
        while entries:
            key, serial, c = entries[0]
            if listed.get(c) != key:
                heappop(entries)
            elif c.key == key:
                return c
            elif c.head is None:
                del listed[c]
                heappop(entries)
            else:
                listed[c] = c.key
                heapreplace(entries, (c.key, serial, c))
        return None
