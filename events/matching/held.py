"""The held worker: it takes the held operation and what sorts before it, and under backfill what does not delay it (H15-H17).

It stands in the fleet index as a worker that refuses, and is asked on its own. Like any worker it is asked only when something changed:
its own room, the hold, or what is queued. Time that passes makes backfill impossible, never possible.
"""

from operator import gt

from events.fitting import Caps
from events.matching.backfill import first_ending_within, room_beside, surely_ends_by
from events.matching.demand_class import NEVER, DemandClass
from events.matching.slot_line import Seat
from events.matching.work import Work
from events.state import Operation

FEW_JOINED = 64
"""Operations that joined the queue are looked at one by one up to so many; past it the held worker is asked for all of the queue."""


class Held:
    """One worker, held for one operation.

    `room` is what the worker is offered (None while it accepts nothing); `beside`, under backfill, how much of that leaves room for the
    held operation at `free_at_us`.
    """

    __slots__ = (
        "_caps",
        "_joined",
        "_open",
        "_work",
        "backfill",
        "beside",
        "free_at_us",
        "key",
        "operation",
        "room",
        "seat",
    )

    def __init__(
        self, seat: Seat, operation: Operation, free_at_us: int, backfill: bool, caps: Caps, work: Work
    ) -> None:
        self.seat = seat
        self.operation = operation
        self.key = operation.sort_key
        self.free_at_us = free_at_us
        self.backfill = backfill
        self.room: list[int] | None = None
        self.beside: list[int] | None = None
        self._caps = caps
        self._work = work
        self._open = True  # anything queued may be taken
        self._joined: list[Operation] = []  # otherwise only these, which joined since
        self.look()

    @property
    def dirty(self) -> bool:
        """Whether the worker may take something."""
        return self._open or bool(self._joined)

    def open(self) -> None:
        """Assume nothing: the next search asks for all of the queue."""
        self._open = True
        self._joined.clear()

    def settle(self) -> None:
        """It takes nothing that is queued."""
        self._open = False
        self._joined.clear()

    def look(self) -> None:
        """The worker's row or the held operation's changed: see what it offers now."""
        worker = self.seat.worker
        room = self._caps.offer(worker) if worker.accepts() else None
        beside = None
        if self.backfill and room is not None:
            beside = self._within(room, room_beside(worker, self.operation.demand, self.free_at_us))
        if _grew(self.room, room) or _grew(self.beside, beside):
            self.open()
        self.room, self.beside = room, beside

    def joined(self, operation: Operation) -> None:
        """`operation` joined the queue."""
        if operation is self.operation:
            # With another place in the queue, or another demand, than when it left.
            self.key = operation.sort_key
            self.look()
            self.open()
        elif self._open or (operation.sort_key > self.key and not self.backfill):
            return
        elif len(self._joined) < FEW_JOINED:
            self._joined.append(operation)
        else:
            self.open()

    def first(self, now_us: int, below: int) -> Operation | None:
        """The first queued operation that the worker takes, of those that sort before the key `below`."""
        found: Operation | None = None
        if self.room is not None:
            self._work.held_searches += 1
            found = self._first_of_queue(now_us, below) if self._open else self._first_joined(now_us, below)
        if found is None and below == NEVER:
            self.settle()
        return found

    def _first_of_queue(self, now_us: int, below: int) -> Operation | None:
        reaches = self.seat.signature.reaches
        room, beside = self.room, self.beside
        assert room is not None, "asked only while it accepts"
        key, head = self._first_head(room, below)
        if head is None or key <= self.key or not self.backfill:
            return head if key <= self.key else None
        key, found = (below, None) if beside is None else self._first_head(beside, below)
        limit_us = self.free_at_us - now_us
        if limit_us > 0:
            for reach in reaches:
                fitting = list(reach.shelf.fitting(room))
                key, sooner = first_ending_within(fitting, limit_us, key, self._work)
                if sooner is not None:
                    found = sooner
        return found

    def _first_head(self, room: list[int], below: int) -> tuple[int, Operation | None]:
        key, found = below, None
        for reach in self.seat.signature.reaches:
            key, block = reach.shelf.first_for(room, key)
            if block is not None:
                found = block
        return key, None if found is None else found.classes[found.keys.index(key)].head

    def _first_joined(self, now_us: int, below: int) -> Operation | None:
        found: Operation | None = None
        for operation in self._joined:
            if operation.sort_key < below and self._takes(operation, now_us):
                below, found = operation.sort_key, operation
        return found

    def _takes(self, operation: Operation, now_us: int) -> bool:
        c: DemandClass | None = operation.index
        room = self.room
        if c is None or room is None or c.need.reach not in self.seat.signature.reaches or not self._fits(c, room):
            return False
        if operation.sort_key <= self.key:
            return True
        if not self.backfill:
            return False
        if surely_ends_by(operation, now_us, self.free_at_us):
            return True
        return self.beside is not None and self._fits(c, self.beside)

    def _fits(self, c: DemandClass, room: list[int]) -> bool:
        if all(room[pool] >= asked for pool, asked in c.asks.amounts):
            return True
        pool, whole = self._caps.pool, c.whole
        return (
            whole is not None
            and (pool, self.seat.worker.totals[pool]) in c.asks.amounts
            and all(room[each] >= asked for each, asked in whole.amounts)
        )

    def _within(self, room: list[int], beside: list[int] | None) -> list[int] | None:
        """`room` cut down to what is beside the held operation; the amount behind the pools is offered whole or not at all."""
        if beside is None:
            return None
        cut = list(map(min, room, beside))
        if len(room) > len(beside):
            pool, whole = self._caps.pool, self._caps.whole
            cut += [room[whole] if beside[pool] >= room[whole] else cut[pool]] if whole >= 0 else room[len(beside) :]
        return cut


def _grew(before: list[int] | None, after: list[int] | None) -> bool:
    return after is not None and (before is None or any(map(gt, after, before)))
