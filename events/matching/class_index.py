"""The class index: which class does a free worker take first.

Classes that the same workers can serve stand on one shelf. On it a family holds the classes that ask the same of every pool but one
(memory, where there is such a pool: it has the most values), sorted by what they ask of that one. "First in queue order among those that
fit" is then a minimum over a prefix. A family is cut into blocks of about the square root of its size with the minimum of each, in flat
lists: such minima run at C speed, a class comes and goes in O(sqrt n), and there is no tree to rebuild.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from events.matching.demand_class import NEVER, NO_ASK, DemandClass
from events.matching.work import Work

BLOCK_MINIMUM = 8


def _ask_of(c: DemandClass, pool: int) -> int:
    return next((asked for p, asked in c.demand.amounts if p == pool), NO_ASK)


class Block:
    """A run of a family's classes: what each asks, the class, its head key as last seen; parallel lists."""

    __slots__ = ("asks", "classes", "keys", "place")

    def __init__(self, asks: list[int], classes: list[DemandClass], keys: list[int]) -> None:
        self.asks, self.classes, self.keys = asks, classes, keys
        self.place = 0  # position among the family's blocks
        for c in classes:
            c.block = self

    def where(self, c: DemandClass) -> int:
        """The position of class `c`. By what it asks, since comparing it with the classes before it is slow."""
        at = bisect_left(self.asks, c.sorted_ask)
        classes = self.classes
        while classes[at] is not c:
            at += 1
        return at


class Family:
    """Classes with equal asks on all pools but one, sorted by that one.

    `low` is the least head key of all, `most` the greatest ask of the sorted pool; `stale` the classes whose head moved since `low` was
    computed.
    """

    __slots__ = ("ask", "blocks", "low", "lows", "more", "most", "pool", "size", "sorted_pool", "stale", "starts")

    def __init__(self, rest: tuple[tuple[int, int], ...], sorted_pool: int) -> None:
        self.pool, self.ask = rest[0] if rest else (0, NO_ASK)
        self.more = rest[1:]
        self.sorted_pool = sorted_pool
        self.blocks: list[Block] = []
        self.starts: list[int] = []  # least ask per block
        self.lows: list[int] = []  # least head key per block
        self.low = NEVER
        self.most = NO_ASK
        self.size = 0
        self.stale: dict[DemandClass, None] = {}

    def add(self, c: DemandClass) -> None:
        """Put class `c` in its place."""
        ask = c.sorted_ask = _ask_of(c, self.sorted_pool)
        c.family = self
        self.size += 1
        if not self.blocks:
            self._lay([Block([ask], [c], [c.key])])
            return
        at = max(bisect_right(self.starts, ask) - 1, 0)
        block = self.blocks[at]
        where = bisect_right(block.asks, ask)
        block.asks.insert(where, ask)
        block.classes.insert(where, c)
        block.keys.insert(where, c.key)
        c.block = block
        if len(block.asks) > 2 * max(BLOCK_MINIMUM, len(self.blocks)):
            half = len(block.asks) // 2
            low_half = Block(block.asks[:half], block.classes[:half], block.keys[:half])
            high_half = Block(block.asks[half:], block.classes[half:], block.keys[half:])
            self._lay([*self.blocks[:at], low_half, high_half, *self.blocks[at + 1 :]])
        else:
            self.starts[at] = block.asks[0]
            self.lows[at] = min(self.lows[at], c.key)
            self.low = min(self.low, c.key)
            self.most = max(self.most, ask)

    def discard(self, c: DemandClass) -> None:
        """Take class `c` out."""
        block = c.block
        where = block.where(c)
        del block.asks[where], block.classes[where], block.keys[where]
        self.stale.pop(c, None)
        self.size -= 1
        if not block.asks:
            self._lay([b for b in self.blocks if b is not block])
        else:
            self.starts[block.place] = block.asks[0]
            self.lows[block.place] = min(block.keys)
            self.low = min(self.lows)
            self.most = self.blocks[-1].asks[-1]

    def freshen(self) -> int:
        """Bring the heads that moved up to date; how many did."""
        stale, lows = self.stale, self.lows
        for c in stale:
            block = c.block
            keys = block.keys
            where = block.where(c)
            before, after = keys[where], c.key
            keys[where] = after
            place = block.place
            if after <= lows[place]:
                lows[place] = after
            elif before == lows[place]:
                lows[place] = min(keys)
        self.low = min(lows) if len(lows) > 1 else lows[0]
        count = len(stale)
        stale.clear()
        return count

    def first_within(self, limit: int) -> tuple[int, Block | None]:
        """The least head key among classes that ask at most `limit` of the sorted pool, and its block."""
        blocks = self.blocks
        last = bisect_right(self.starts, limit) - 1
        if last < 0:
            return NEVER, None
        block = blocks[last]
        asks = block.asks
        if asks[-1] <= limit:
            last += 1
            key = NEVER
        else:
            key = min(block.keys[: bisect_right(asks, limit)])
        if last:
            lows = self.lows
            low = min(lows[:last])
            if low < key:
                return low, blocks[lows.index(low, 0, last)]
        return key, block

    def first_at(self, amount: int) -> tuple[int, Block | None]:
        """The least head key among classes that ask exactly `amount` of the sorted pool, and its block."""
        best, found = NEVER, None
        # A run of equal asks may go over the edges of blocks, so the block before the first that starts with it is asked, too.
        for block in self.blocks[max(bisect_left(self.starts, amount) - 1, 0) : bisect_right(self.starts, amount)]:
            asks = block.asks
            key = min(block.keys[bisect_left(asks, amount) : bisect_right(asks, amount)], default=NEVER)
            if key < best:
                best, found = key, block
        return best, found

    def within(self, low: int, high: int) -> Iterator[DemandClass]:
        """The classes that ask from `low` to `high` of the sorted pool."""
        for block in self.blocks[max(bisect_left(self.starts, low) - 1, 0) : bisect_right(self.starts, high)]:
            yield from block.classes[bisect_left(block.asks, low) : bisect_right(block.asks, high)]

    def _lay(self, blocks: list[Block]) -> None:
        self.blocks = blocks
        for place, block in enumerate(blocks):
            block.place = place
        self.starts = [block.asks[0] for block in blocks]
        self.lows = [min(block.keys) for block in blocks]
        self.low = min(self.lows, default=NEVER)
        self.most = blocks[-1].asks[-1] if blocks else NO_ASK


class Shelf:
    """The classes that one reach of workers can serve, in families.

    `whole` is the index of the amount that asks for a worker's whole sorted pool are compared with, behind those of the pools; -1 without
    a veto (fitting.Caps).
    """

    __slots__ = ("_families", "_scan", "_sorted_pool", "_whole", "_work")

    def __init__(self, sorted_pool: int, whole: int, work: Work) -> None:
        self._sorted_pool = sorted_pool
        self._whole = whole
        self._work = work
        self._families: dict[tuple[tuple[int, int], ...], Family] = {}
        self._scan: list[tuple[int, int, Family]] = []  # the same to go through, with the first pool and ask of each

    def add(self, c: DemandClass) -> None:
        """Put class `c` on the shelf."""
        rest = tuple(pair for pair in c.demand.amounts if pair[0] != self._sorted_pool)
        family = self._families.get(rest)
        if family is None:
            family = self._families[rest] = Family(rest, self._sorted_pool)
            self._scan.append((family.pool, family.ask, family))
        family.add(c)

    def discard(self, c: DemandClass) -> None:
        """Take class `c` off the shelf; a family without classes goes too."""
        family = c.family
        family.discard(c)
        if not family.size:
            rest = tuple(pair for pair in c.demand.amounts if pair[0] != self._sorted_pool)
            del self._families[rest]
            self._scan = [row for row in self._scan if row[2] is not family]

    def first_for(self, free: list[int], best: int) -> tuple[int, Block | None]:
        """The class with the least head key below `best` that fits `free`, as (key, its block); (best, None) when there is none."""
        found: Block | None = None
        limit = free[self._sorted_pool]
        whole = free[self._whole] if self._whole >= 0 else limit
        for pool, ask, family in self._scan:
            if free[pool] < ask:
                continue
            if family.stale:
                self._work.classes_updated += family.freshen()
            if family.low >= best or (family.more and any(free[p] < asked for p, asked in family.more)):
                continue
            if family.most <= limit:
                best = family.low
                found = family.blocks[family.lows.index(best)]
                continue
            key, block = family.first_within(limit)
            if key < best:
                best, found = key, block
            if whole > limit:
                key, block = family.first_at(whole)
                if key < best:
                    best, found = key, block
        self._work.families_visited += len(self._scan)
        return best, found

    def fitting(self, free: list[int]) -> Iterator[DemandClass]:
        """The classes that fit `free`."""
        limit = free[self._sorted_pool]
        whole = free[self._whole] if self._whole >= 0 else limit
        self._work.families_visited += len(self._scan)
        for pool, ask, family in self._scan:
            if free[pool] < ask or any(free[p] < asked for p, asked in family.more):
                continue
            yield from family.within(NO_ASK, limit)
            if whole > limit:
                yield from family.within(whole, whole)
