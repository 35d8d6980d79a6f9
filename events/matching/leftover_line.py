"""A line of workers by what they offer: the one on which least would be left over (best_fit, A2).

Workers of equal amounts stand in one bucket, in which the fewest running and least recent comes first: idle machines of one type are one
bucket, however many. Buckets are sorted by each amount. A search takes the amount of which the fewest buckets have enough, starts at the
closest one and goes up; what is left over of that amount alone is a lower bound, so it stops as soon as the bound is above the best found.
"""

from bisect import bisect_left, insort
from typing import NamedTuple

from events.matching.demand_class import Asks
from events.matching.slot_line import Seat
from events.matching.work import Work


class Rank(NamedTuple):
    """How well an action fits a worker; the least is taken."""

    leftover_milli: int
    running: int
    recency: int


class Bucket:
    """Workers that are offered the same amounts and have the same left by the ledger."""

    __slots__ = ("free", "ledger", "seats", "serial")

    def __init__(self, free: tuple[int, ...], ledger: tuple[int, ...], serial: int) -> None:
        self.free = free
        self.ledger = ledger
        self.serial = serial  # breaks ties, so that buckets are never compared
        self.seats: list[tuple[int, int, Seat]] = []  # (running, recency, seat), sorted


class LeftoverLine:
    """Workers of one machine type (equal `totals`), by their amounts."""

    __slots__ = ("_buckets", "_by_amount", "_places", "_serial", "_work", "members", "totals", "touched")

    def __init__(self, amounts: int, totals: tuple[int, ...], work: Work) -> None:
        self.totals = totals
        self.members: dict[Seat, None] = {}
        self.touched: dict[Seat, bool] = {}  # changed since the last search; whether promoted
        self._work = work
        self._serial = 0
        self._buckets: dict[tuple[tuple[int, ...], tuple[int, ...]], Bucket] = {}
        self._by_amount: list[list[tuple[int, int, Bucket]]] = [[] for _ in range(amounts)]  # (amount, serial, bucket)
        self._places: dict[Seat, tuple[Bucket, int, int]] = {}  # where it stands: bucket, running, recency

    def add(self, seat: Seat) -> None:
        """A worker joins the line."""
        self.members[seat] = None
        self.touched[seat] = True

    def discard(self, seat: Seat) -> None:
        """A worker leaves the line."""
        del self.members[seat]
        self.touched.pop(seat, None)
        self._leave(seat)

    def touch(self, seat: Seat, promoted: bool) -> None:
        """The seat's amounts, acceptance, running actions or (`promoted`) recency changed."""
        self.touched[seat] = promoted

    def best_fit(
        self, asks: Asks, demanded: tuple[tuple[int, int], ...], bound: Rank | None
    ) -> tuple[Rank, Seat] | None:
        """The best of the seats that `asks` fits, with its rank; None when none is better than `bound`.

        `demanded` are the amounts by pool: what is left over is counted from the ledger, not from what is offered.
        """
        if self.touched:
            self._settle()
        best, found = bound, None
        rows, start, pool, ask = self._candidates(asks)
        # The amount behind the pools (fitting.Caps.whole) bounds nothing, and neither does asking for nothing.
        total = self.totals[pool] if 0 <= pool < len(self.totals) else 0
        scanned = 0
        for at in range(start, len(rows)):
            amount, _, bucket = rows[at]
            scanned += 1
            # Offered is at most what the ledger has, so this is at most what is left over of it.
            if best is not None and total > 0 and (amount - ask) * 1000 // total > best.leftover_milli:
                break
            free = bucket.free
            if any(free[each] < asked for each, asked in asks.amounts):
                continue
            running, recency, seat = bucket.seats[0]
            rank = Rank(leftover_milli(bucket.ledger, self.totals, demanded), running, recency)
            if best is None or rank < best:
                best, found = rank, seat
        self._work.buckets_scanned += scanned
        return None if best is None or found is None else (best, found)

    def _candidates(self, asks: Asks) -> tuple[list[tuple[int, int, Bucket]], int, int, int]:
        """The shortest run of buckets that holds all that fit: (rows, where it starts, the amount it is sorted by, what is asked of it)."""
        rows, start, pool, asked = self._by_amount[0], 0, -1, 0
        for each, ask in asks.amounts:
            sorted_rows = self._by_amount[each]
            first = bisect_left(sorted_rows, (ask,))
            if pool < 0 or len(sorted_rows) - first < len(rows) - start:
                rows, start, pool, asked = sorted_rows, first, each, ask
        return rows, start, pool, asked

    def _settle(self) -> None:
        for seat in self.touched:
            self._leave(seat)
            if seat.free is None:
                continue
            key = (tuple(seat.free), tuple(seat.worker.remaining))
            bucket = self._buckets.get(key)
            if bucket is None:
                self._serial += 1
                bucket = self._buckets[key] = Bucket(*key, self._serial)
                for amount, rows in zip(bucket.free, self._by_amount, strict=True):
                    insort(rows, (amount, bucket.serial, bucket))
            running, recency = len(seat.worker.running), seat.recency
            insort(bucket.seats, (running, recency, seat))
            self._places[seat] = (bucket, running, recency)
        self._work.leaves_updated += len(self.touched)
        self.touched.clear()

    def _leave(self, seat: Seat) -> None:
        place = self._places.pop(seat, None)
        if place is None:
            return
        bucket, running, recency = place
        del bucket.seats[bisect_left(bucket.seats, (running, recency))]
        if not bucket.seats:
            del self._buckets[bucket.free, bucket.ledger]
            for amount, rows in zip(bucket.free, self._by_amount, strict=True):
                del rows[bisect_left(rows, (amount, bucket.serial))]


def leftover_milli(
    ledger: tuple[int, ...] | list[int], totals: tuple[int, ...] | list[int], demanded: tuple[tuple[int, int], ...]
) -> int:
    """What would be left of the pools asked for, in thousandths of what is registered, added up; lower fits better (A2).

    Pools that are not advertised or advertised as 0 contribute nothing.
    """
    return sum((ledger[pool] - asked) * 1000 // totals[pool] for pool, asked in demanded if totals[pool] > 0)
