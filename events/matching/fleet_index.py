"""The fleet index: which workers can serve which demands, by what never changes with load.

* A *signature* is what a worker declares, cut down to the names some need asks for: a host name that nobody asks for splits nothing.
* A signature's workers stand in one slot line per machine type (equal totals).
* A *need* is the static part of a demand. Needs that the same signatures satisfy share a *reach*: a requirement of the unknown kind that
  no worker declares costs nothing, however many values it takes.
* A reach has the shelf of its classes, and the lines of its workers; when these are many, one merged line more.

Signatures, needs and reaches come and go with workers and classes, so memory follows what is live, not what was ever seen.
"""

from events.fitting import StaticNeed
from events.matching.class_index import Shelf
from events.matching.demand_class import DemandClass
from events.matching.slot_line import PROBES, Seat, SlotLine
from events.matching.work import Work
from events.state import Worker
from events.values import Properties

MERGE_ABOVE = 8
"""Lines of a reach above which it gets a merged line: asking every line would cost more."""


class Signature:
    """Workers that declare the same, as far as anybody asks."""

    __slots__ = ("bit", "declared", "lines", "merged", "properties", "reaches")

    def __init__(self, properties: Properties, bit: int) -> None:
        self.properties = properties
        self.declared = dict(properties)
        self.bit = bit  # in the masks of reaches
        self.lines: dict[tuple[int, ...], SlotLine] = {}  # by totals
        self.reaches: dict[Reach, None] = {}  # those it belongs to
        self.merged: list[SlotLine] = []  # the merged lines its workers stand in as well


class Need:
    """A static need and the classes under it."""

    __slots__ = ("classes", "need", "reach")

    def __init__(self, need: StaticNeed) -> None:
        self.need = need
        self.classes: dict[DemandClass, None] = {}
        self.reach: Reach

    def names(self) -> list[str]:
        """The property names it asks for."""
        need = self.need
        return [*(name for name, _ in need.exact), *need.present, *(name for name, _ in need.unknown)]


class Reach:
    """The needs that the same signatures satisfy, and their classes."""

    __slots__ = ("_lines", "line_count", "mask", "merged", "needs", "shelf", "signatures")

    def __init__(self, mask: int, signatures: dict[Signature, None], shelf: Shelf) -> None:
        self.mask = mask  # of the bits of its signatures
        self.signatures = signatures
        self.shelf = shelf
        self.needs: dict[Need, None] = {}
        self.merged: SlotLine | None = None
        self.line_count = sum(len(signature.lines) for signature in signatures)
        self._lines: list[SlotLine] | None = None

    def lines(self) -> list[SlotLine]:
        """The lines of its signatures."""
        if self._lines is None:
            self._lines = [line for signature in self.signatures for line in signature.lines.values()]
        return self._lines

    def count_line(self, step: int) -> None:
        """A signature got (1) or lost (-1) a line."""
        self.line_count += step
        self._lines = None

    def drop_merged(self) -> None:
        """The merged line no longer covers the reach, or is no longer worth its upkeep."""
        if self.merged is not None:
            for signature in self.signatures:
                signature.merged = [line for line in signature.merged if line is not self.merged]
            self.merged = None


class FleetIndex:
    """Seats, signatures, needs and reaches of one instance."""

    def __init__(
        self,
        pools: int,
        sorted_pool: int,
        newest: bool,
        work: Work,
        *,
        probes: int = PROBES,
        merge_above: int = MERGE_ABOVE,
    ) -> None:
        self._pools = pools
        self._sorted_pool = sorted_pool
        self._newest = newest
        self._work = work
        self._probes = probes
        self._merge_above = merge_above
        self._seats: dict[Seat, None] = {}
        self._signatures: dict[Properties, Signature] = {}
        self._needs: dict[StaticNeed, Need] = {}
        self._reaches: dict[Reach, None] = {}
        self._by_mask: dict[int, Reach] = {}
        self._free_bits: list[int] = []
        self._bits = 0
        self._asked: dict[str, int] = {}  # name to needs that ask for it
        self._declared: dict[str, int] = {}  # name to workers that declare it
        self._splitting: dict[str, None] = {}  # names both asked for and declared: what signatures are cut down to

    def __len__(self) -> int:
        return len(self._seats)

    # -- workers ------------------------------------------------------------------------------------------------------------------

    def add_worker(self, worker: Worker) -> Seat:
        """A seat for `worker`, in its lines."""
        seat = Seat(worker)
        for name, _ in worker.properties:
            self._declared[name] = self._declared.get(name, 0) + 1
            if name in self._asked:
                self._splitting[name] = None  # nobody declared it before, so no other signature changes
        self._seats[seat] = None
        self._place(seat)
        return seat

    def remove_worker(self, seat: Seat) -> None:
        """Take a seat out; a line, signature or name without workers goes too."""
        self._unplace(seat)
        del self._seats[seat]
        for name, _ in seat.worker.properties:
            count = self._declared[name] - 1
            if count:
                self._declared[name] = count
            else:
                del self._declared[name]
                self._splitting.pop(name, None)

    def _place(self, seat: Seat) -> None:
        worker = seat.worker
        splitting = self._splitting
        properties = tuple(pair for pair in worker.properties if pair[0] in splitting)
        signature = self._signatures.get(properties)
        if signature is None:
            signature = self._open_signature(properties)
        totals = tuple(worker.totals)
        line = signature.lines.get(totals)
        if line is None:
            line = signature.lines[totals] = SlotLine(self._pools, totals, self._work, self._probes)
            for reach in signature.reaches:
                reach.count_line(1)
        seat.signature, seat.line = signature, line
        line.add(seat)
        for merged in signature.merged:
            merged.add(seat)

    def _unplace(self, seat: Seat) -> None:
        signature, line = seat.signature, seat.line
        line.discard(seat)
        for merged in signature.merged:
            merged.discard(seat)
        if line.members:
            return
        del signature.lines[line.totals]
        for reach in signature.reaches:
            reach.count_line(-1)
            # Half, so that a fleet at the limit does not merge again and again.
            if 2 * reach.line_count <= self._merge_above:
                reach.drop_merged()
        if not signature.lines:
            self._close_signature(signature)

    def _open_signature(self, properties: Properties) -> Signature:
        if self._free_bits:
            bit = self._free_bits.pop()
        else:
            bit = 1 << self._bits
            self._bits += 1
        signature = self._signatures[properties] = Signature(properties, bit)
        for reach in list(self._reaches):
            satisfied = [need for need in reach.needs if need.need.satisfied_by(signature.declared)]
            if len(satisfied) == len(reach.needs):
                self._set_mask(reach, reach.mask | bit)
                grown = reach
            elif satisfied:
                grown = self._open_reach(reach.mask | bit, dict(reach.signatures))
                for need in satisfied:
                    self._move(need, grown)
            else:
                continue
            grown.signatures[signature] = None
            signature.reaches[grown] = None
            if grown.merged is not None:
                signature.merged.append(grown.merged)
        return signature

    def _close_signature(self, signature: Signature) -> None:
        del self._signatures[signature.properties]
        for reach in signature.reaches:
            del reach.signatures[signature]
            self._set_mask(reach, reach.mask & ~signature.bit)
        self._free_bits.append(signature.bit)

    # -- needs and their classes --------------------------------------------------------------------------------------------------

    def add_class(self, c: DemandClass) -> None:
        """Put class `c` under its need, which is opened when it is the first."""
        need = self._needs.get(c.demand.need) or self._open_need(c.demand.need)
        need.classes[c] = None
        c.need = need
        need.reach.shelf.add(c)

    def discard_class(self, c: DemandClass) -> None:
        """Take class `c` out; a need or reach without classes goes too."""
        need = c.need
        need.reach.shelf.discard(c)
        del need.classes[c]
        if need.classes:
            return
        del self._needs[need.need]
        for name in need.names():
            count = self._asked[name] - 1
            if count:
                self._asked[name] = count
            else:
                del self._asked[name]
        self._leave(need)

    def _open_need(self, static: StaticNeed) -> Need:
        need = Need(static)
        regroup = False
        for name in need.names():
            self._asked[name] = self._asked.get(name, 0) + 1
            if name in self._declared and name not in self._splitting:
                self._splitting[name] = None
                regroup = True
        if regroup:
            self._regroup()
        signatures = {s: None for s in self._signatures.values() if static.satisfied_by(s.declared)}
        mask = 0
        for signature in signatures:
            mask |= signature.bit
        self._needs[static] = need
        reach = self._by_mask.get(mask)
        if reach is None:
            reach = self._open_reach(mask, signatures)
        need.reach = reach
        reach.needs[need] = None
        return need

    def _regroup(self) -> None:
        # A name that workers declare is asked for, for the first time: their signatures become finer. At most once per declared name.
        self._work.fleet_regroupings += 1
        for seat in self._seats:
            self._unplace(seat)
        for seat in self._seats:
            self._place(seat)

    def _open_reach(self, mask: int, signatures: dict[Signature, None]) -> Reach:
        reach = Reach(mask, signatures, Shelf(self._sorted_pool, self._work))
        self._reaches[reach] = None
        self._by_mask.setdefault(mask, reach)
        for signature in signatures:
            signature.reaches[reach] = None
        return reach

    def _set_mask(self, reach: Reach, mask: int) -> None:
        # Two reaches may come to the same mask; they are not joined: both stay right, and the table keeps the first.
        if self._by_mask.get(reach.mask) is reach:
            del self._by_mask[reach.mask]
        reach.mask = mask
        self._by_mask.setdefault(mask, reach)

    def _move(self, need: Need, reach: Reach) -> None:
        for c in need.classes:
            need.reach.shelf.discard(c)
            reach.shelf.add(c)
        self._leave(need)
        need.reach = reach
        reach.needs[need] = None

    def _leave(self, need: Need) -> None:
        reach = need.reach
        del reach.needs[need]
        if reach.needs:
            return
        reach.drop_merged()
        del self._reaches[reach]
        if self._by_mask.get(reach.mask) is reach:
            del self._by_mask[reach.mask]
        for signature in reach.signatures:
            del signature.reaches[reach]

    # -- the search ---------------------------------------------------------------------------------------------------------------

    def first_fit(self, c: DemandClass) -> Seat | None:
        """The first worker in strategy order that class `c` fits."""
        self._work.class_searches += 1
        newest = self._newest
        reach = c.need.reach
        if reach.merged is not None or reach.line_count > self._merge_above:
            self._work.lines_asked += 1
            return (reach.merged or self._merge(reach)).first_fit(c, newest, None)
        best: Seat | None = None
        bound: int | None = None
        lines = reach.lines()
        self._work.lines_asked += len(lines)
        for line in lines:
            totals = line.totals
            if totals[c.pool_a] < c.ask_a or totals[c.pool_b] < c.ask_b:
                continue
            seat = line.first_fit(c, newest, bound)
            if seat is not None and (bound is None or (seat.recency > bound if newest else seat.recency < bound)):
                best, bound = seat, seat.recency
        return best

    def _merge(self, reach: Reach) -> SlotLine:
        merged = SlotLine(self._pools, (), self._work, self._probes)
        for line in reach.lines():
            for seat in line.members:
                merged.add(seat)
        for signature in reach.signatures:
            signature.merged.append(merged)
        reach.merged = merged
        return merged
