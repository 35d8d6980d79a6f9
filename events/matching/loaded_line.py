"""A line of workers by how many actions they run: the least loaded that fits, the least recent of equals.

Workers that run equally many stand in one slot line, so that a search asks the lines in order and stops at the first with room. A worker
moves to another one whenever it starts or ends a run; like everything here, not before a search needs to know.
"""

from bisect import insort

from events.matching.demand_class import Asks
from events.matching.slot_line import Seat, SlotLine
from events.matching.work import Work


class LoadedLine:
    """Workers by (running, recency); `totals` as in a slot line."""

    __slots__ = ("_counts", "_levels", "_work", "members", "pools", "probes", "totals", "touched")

    def __init__(self, pools: int, totals: tuple[int, ...], work: Work, probes: int) -> None:
        self.pools = pools
        self.totals = totals
        self.probes = probes
        self.members: dict[Seat, int] = {}  # to the running count it is placed under, -1 before it is
        self.touched: dict[Seat, bool] = {}  # changed since the last search; whether promoted
        self._work = work
        self._levels: dict[int, SlotLine] = {}  # by running count; none is empty
        self._counts: list[int] = []  # those of the levels, ascending

    def add(self, seat: Seat) -> None:
        """A worker joins the line."""
        self.members[seat] = -1
        self.touched[seat] = True

    def discard(self, seat: Seat) -> None:
        """A worker leaves the line."""
        self.touched.pop(seat, None)
        self._leave(seat, self.members.pop(seat))

    def touch(self, seat: Seat, promoted: bool) -> None:
        """The seat's amounts, acceptance, running actions or (`promoted`) recency changed."""
        if promoted:
            self.touched[seat] = True
        else:
            self.touched.setdefault(seat, False)

    def first_fit(self, asks: Asks, bound: Seat | None) -> Seat | None:
        """The first seat that `asks` fits, better than `bound` where given.

        A seat that is no better than `bound` may be returned or not; the caller compares.
        """
        if self.touched:
            self._settle()
        most = len(bound.worker.running) if bound is not None else 0
        for count in self._counts:
            if bound is not None and count > most:
                return None
            recency = bound.recency if bound is not None and count == most else None
            seat = self._levels[count].first_fit(asks, False, recency)
            if seat is not None:
                return seat
        return None

    def _settle(self) -> None:
        members, levels = self.members, self._levels
        for seat, promoted in self.touched.items():
            count, before = len(seat.worker.running), members[seat]
            if count == before:
                levels[count].touch(seat, promoted)
                continue
            self._leave(seat, before)
            level = levels.get(count)
            if level is None:
                level = levels[count] = SlotLine(self.pools, self.totals, self._work, self.probes)
                insort(self._counts, count)
            level.add(seat)
            members[seat] = count
        self.touched.clear()

    def _leave(self, seat: Seat, count: int) -> None:
        if count < 0:
            return
        level = self._levels[count]
        level.discard(seat)
        if not level.members:
            del self._levels[count]
            self._counts.remove(count)
