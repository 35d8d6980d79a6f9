"""A line of workers in recency order: the first that fits, without a walk over the fleet.

A worker that is promoted goes to the tail, so its old slot is left dead and the line is laid out again only when it is full: O(1) a
promotion over time. Over the slots stands one tournament of maxima per pool. Everything is lazy: a change only marks its worker. The order
is brought up to date by the next search, which in a backlog may never come; the leaves by one that gets past the probes, which in an idle
fleet it hardly ever does.
"""

from collections import OrderedDict
from typing import TYPE_CHECKING

from events.matching.demand_class import Asks
from events.matching.work import Work
from events.state import Worker

if TYPE_CHECKING:  # a seat knows its signature, which stands above
    from events.matching.reach import Line, Signature

REFUSES = -(1 << 64)
"""Leaf of a slot that takes nothing: dead, or its worker accepts nothing. Below NO_ASK, so that it fails even an empty demand."""

PROBES = 4
"""Workers asked one by one before the tree is searched."""


class Seat:
    """The matcher's view of one worker: its row, and what of the row the indexes have seen.

    `free` is what the worker is offered (fitting.Caps), or None while it accepts nothing or is held.
    """

    __slots__ = ("free", "line", "recency", "signature", "worker")

    def __init__(self, worker: Worker, free: list[int] | None) -> None:
        self.worker = worker
        self.recency = worker.recency
        self.free = free
        self.line: Line
        self.signature: Signature


class SlotLine:
    """Workers in recency order, with first fit from either end.

    `totals` are the registered amounts its workers share, one per pool; () for a merged line. Workers of one machine type stand in one
    line because then the maxima of two pools come from the same workers; across machine types (few cores and much memory beside many
    cores and little memory) they would not, and a search would go down to every leaf.
    """

    __slots__ = (
        "_capacity",
        "_finger",
        "_last",
        "_slots",
        "_stale",
        "_stamps",
        "_tail",
        "_trees",
        "_work",
        "members",
        "pools",
        "probes",
        "totals",
        "touched",
    )

    def __init__(self, pools: int, totals: tuple[int, ...], work: Work, probes: int) -> None:
        self.pools = pools  # amounts offered
        self.totals = totals
        self.probes = probes
        # By recency, but for those touched; to the slot, -1 without one.
        self.members: OrderedDict[Seat, int] = OrderedDict()
        self._last = -1  # greatest recency among those in order
        self.touched: dict[Seat, bool] = {}  # changed since the last search; whether promoted, so no longer in place
        self._work = work
        self._stale: dict[Seat, None] = {}  # those whose leaves are not up to date
        self._capacity = 0  # slots; a power of two; 0 until a search needs the tree
        self._slots: list[Seat | None] = []
        self._stamps: list[int] = []  # per slot: recency of its seat when it was placed there
        self._trees: list[list[int]] = []  # per pool: [unused, root, ..., leaves]
        self._tail = 0  # next unused slot
        self._finger = 0  # no live slot below

    def add(self, seat: Seat) -> None:
        """A worker joins the line."""
        self.members[seat] = -1
        self.touched[seat] = True

    def discard(self, seat: Seat) -> None:
        """A worker leaves the line."""
        slot = self.members.pop(seat)
        self.touched.pop(seat, None)
        self._stale.pop(seat, None)
        if slot >= 0:
            self._clear(slot)
        if not self.members:
            self._last = -1

    def touch(self, seat: Seat, promoted: bool) -> None:
        """The seat's amounts, acceptance or (`promoted`) recency changed."""
        if promoted:
            self.touched[seat] = True
        else:
            self.touched.setdefault(seat, False)

    def first_fit(self, asks: Asks, newest: bool, bound: int | None) -> Seat | None:
        """The first seat that `asks` fits, by recency ascending (`newest`: descending), better than recency `bound` where given.

        A seat that is no better than `bound` may be returned or not; the caller compares.
        """
        if self.touched:
            self._order()
        a, b, p, q, more = asks.ask_a, asks.ask_b, asks.pool_a, asks.pool_b, asks.more
        left = self.probes
        for seat in reversed(self.members) if newest else self.members:
            if bound is not None and (seat.recency < bound if newest else seat.recency > bound):
                self._work.workers_probed += self.probes - left
                return None
            free = seat.free
            if (
                free is not None
                and free[p] >= a
                and free[q] >= b
                and (not more or all(free[pool] >= asked for pool, asked in more))
            ):
                self._work.workers_probed += self.probes - left + 1
                return seat
            left -= 1
            if not left:
                break
        else:
            self._work.workers_probed += self.probes - left
            return None
        self._work.workers_probed += self.probes
        if self._stale:
            self._freshen()
        return self._rightmost(a, b, p, q, more) if newest else self._leftmost(a, b, p, q, more)

    def _leftmost(self, a: int, b: int, p: int, q: int, more: tuple[tuple[int, int], ...]) -> Seat | None:
        trees, capacity, slots = self._trees, self._capacity, self._slots
        finger = self._finger
        while slots[finger] is None:
            finger += 1
        self._finger = finger
        first, second = trees[p], trees[q]
        visited = 0
        node = capacity + finger
        # Preorder without a stack. It starts at the oldest live leaf, not at the root: what fits is mostly near it.
        while True:
            visited += 1
            if (
                first[node] >= a
                and second[node] >= b
                and (not more or all(trees[pool][node] >= asked for pool, asked in more))
            ):
                if node >= capacity:
                    self._work.nodes_visited += visited
                    return slots[node - capacity]
                node += node
                continue
            while node & 1:
                node >>= 1
            if not node:
                self._work.nodes_visited += visited
                return None
            node += 1

    def _rightmost(self, a: int, b: int, p: int, q: int, more: tuple[tuple[int, int], ...]) -> Seat | None:
        trees, capacity = self._trees, self._capacity
        first, second = trees[p], trees[q]
        visited = 0
        node = capacity + self._tail - 1
        while True:
            visited += 1
            if (
                first[node] >= a
                and second[node] >= b
                and (not more or all(trees[pool][node] >= asked for pool, asked in more))
            ):
                if node >= capacity:
                    self._work.nodes_visited += visited
                    return self._slots[node - capacity]
                node += node + 1
                continue
            while not node & 1:
                node >>= 1
            if node == 1:
                self._work.nodes_visited += visited
                return None
            node -= 1

    def _order(self) -> None:
        touched, members = self.touched, self.members
        if len(touched) == 1:
            # One worker, which was promoted: nearly always, since each placement promotes one.
            (seat,) = touched
            recency = seat.recency
            if touched[seat] and recency > self._last:
                members.move_to_end(seat)
                self._last = recency
                self._stale[seat] = None
                touched.clear()
                return
        promoted = [seat for seat, moved in touched.items() if moved]
        if promoted:
            if len(promoted) > 1:
                promoted.sort(key=_recency)
            if promoted[0].recency > self._last:
                for seat in promoted:
                    members.move_to_end(seat)
            else:
                # Rows loaded in another order than they were promoted in: sorted and laid out anew.
                self.members = OrderedDict.fromkeys(sorted(members, key=_recency), -1)
                self._capacity = 0
                self._stale = dict.fromkeys(self.members)
            self._last = next(reversed(self.members)).recency
        self._stale.update(dict.fromkeys(touched))
        touched.clear()

    def _freshen(self) -> None:
        stale, members, slots = self._stale, self.members, self._slots
        # Deferred work is bounded: past an eighth of the line one bulk lay-out is cheaper than leaf by leaf.
        if self._tail + len(stale) > self._capacity or len(stale) > (len(members) >> 3) + 8:
            self._lay_out()
            return
        self._work.leaves_updated += len(stale)
        stamps = self._stamps
        for seat in sorted(stale, key=_recency) if len(stale) > 1 else stale:
            slot = members[seat]
            if slot < 0 or stamps[slot] != seat.recency:
                # Promoted since it was placed: later than every worker that was not, so its place is the tail.
                if slot >= 0:
                    self._clear(slot)
                members[seat] = slot = self._tail
                self._tail += 1
                slots[slot] = seat
                stamps[slot] = seat.recency
            self._set_leaves(slot, seat.free)
        stale.clear()

    def _clear(self, slot: int) -> None:
        self._slots[slot] = None
        self._set_leaves(slot, None)

    def _set_leaves(self, slot: int, free: list[int] | None) -> None:
        leaf = self._capacity + slot
        for pool, tree in enumerate(self._trees):
            node = leaf
            top = tree[node] = REFUSES if free is None else free[pool]
            while node > 1:
                beside = tree[node ^ 1]
                if beside > top:
                    top = beside
                node >>= 1
                if tree[node] == top:
                    break
                tree[node] = top

    def _lay_out(self) -> None:
        seats = list(self.members)
        count = len(seats)
        capacity = 16
        while capacity < 2 * count:
            capacity <<= 1
        self._work.slots_rebuilt += count
        unused = capacity - count
        self.members = OrderedDict(zip(seats, range(count), strict=True))
        self._slots = [*seats, *[None] * unused]
        self._stamps = [seat.recency for seat in seats] + [0] * unused
        nothing = [REFUSES] * self.pools
        rows = [nothing if seat.free is None else seat.free for seat in seats]
        self._trees = []
        for pool in range(self.pools):
            tree = level = [row[pool] for row in rows] + [REFUSES] * unused
            while len(level) > 1:
                level = list(map(max, level[::2], level[1::2]))
                tree = level + tree
            self._trees.append([REFUSES, *tree])
        self._capacity, self._tail, self._finger = capacity, count, 0
        self._stale.clear()


def _recency(seat: Seat) -> int:
    return seat.recency
