"""The fleet index: which workers can serve which demands, by what never changes with load.

Workers stand in lines by signature and machine type, classes on shelves by reach (reach.py). A reach with many lines gets one merged line
more; not under best_fit, for which every machine type is another answer.

Signatures, needs and reaches come and go with workers and classes, so memory follows what is live, not what was ever seen.
"""

from events.config import AllocationStrategy
from events.fitting import Caps, Demand, StaticNeed
from events.matching.class_index import Shelf
from events.matching.demand_class import Asks, DemandClass
from events.matching.leftover_line import LeftoverLine, Rank, leftover_milli
from events.matching.loaded_line import LoadedLine
from events.matching.reach import Line, Need, Reach, Signature
from events.matching.slot_line import PROBES, Seat, SlotLine
from events.matching.work import Work
from events.state import Worker
from events.values import Properties

MERGE_ABOVE = 8
"""Lines of a reach above which it gets a merged line: asking every line would cost more."""


class FleetIndex:
    """Seats, signatures, needs and reaches of one instance."""

    def __init__(
        self,
        caps: Caps,
        sorted_pool: int,
        strategy: AllocationStrategy,
        work: Work,
        *,
        probes: int = PROBES,
        merge_above: int = MERGE_ABOVE,
    ) -> None:
        self._caps = caps
        self._sorted_pool = sorted_pool
        self._strategy = strategy
        self._newest = strategy is AllocationStrategy.MOST_RECENTLY_USED
        self._by_recency = self._newest or strategy is AllocationStrategy.LEAST_RECENTLY_USED
        self._by_load = strategy is AllocationStrategy.LEAST_LOADED
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
        seat = Seat(worker, self._caps.offer(worker) if worker.accepts() else None)
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
            line = signature.lines[totals] = self._open_line(totals)
            for reach in signature.reaches:
                reach.count_line(1)
        seat.signature, seat.line = signature, line
        line.add(seat)
        for merged in signature.merged:
            merged.add(seat)

    def _open_line(self, totals: tuple[int, ...]) -> Line:
        amounts = self._caps.amounts
        if self._by_recency:
            return SlotLine(amounts, totals, self._work, self._probes)
        if self._by_load:
            return LoadedLine(amounts, totals, self._work, self._probes)
        return LeftoverLine(amounts, totals, self._work)

    def workers(self) -> list[Worker]:
        """The connected workers, least recent first."""
        return [seat.worker for seat in sorted(self._seats, key=_recency)]

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
        caps = self._caps
        amounts = c.demand.amounts
        if caps.vetoes and any(pool == caps.pool for pool, _ in amounts):
            c.whole = Asks(tuple((caps.whole if pool == caps.pool else pool, asked) for pool, asked in amounts))
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
        reach = Reach(mask, signatures, Shelf(self._sorted_pool, self._caps.whole, self._work))
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
        reach = c.need.reach
        if not self._by_recency and not self._by_load:
            return self._best_fit(c, reach)
        best: Seat | None = None
        merged = reach.merged
        if merged is not None or reach.line_count > self._merge_above:
            self._work.lines_asked += 1
            best = self._first_of(merged or self._merge(reach), c.asks, None)
            if c.whole is None:
                return best
            # Who is asked for its whole pool is exempt from the veto, which a line of many totals cannot tell.
            lines = [line for line in reach.lines() if self._asks_whole(c, line.totals)]
        else:
            lines = reach.lines()
        self._work.lines_asked += len(lines)
        asks = c.asks
        if best is None and len(lines) == 1 and self._by_recency:
            line = lines[0]  # one machine type, which is what most fleets are
            if asks.amounts and (line.totals[asks.pool_a] < asks.ask_a or line.totals[asks.pool_b] < asks.ask_b):
                return None
            whole = c.whole if c.whole is not None and self._asks_whole(c, line.totals) else asks
            assert isinstance(line, SlotLine), "workers in order of recency stand in no other line"
            return line.first_fit(whole, self._newest, None)
        for line in lines:
            totals = line.totals
            if asks.amounts and (totals[asks.pool_a] < asks.ask_a or totals[asks.pool_b] < asks.ask_b):
                continue
            whole = c.whole if c.whole is not None and self._asks_whole(c, totals) else asks
            seat = self._first_of(line, whole, best)
            if seat is not None and (best is None or self.before(seat, best, c.demand)):
                best = seat
        return best

    def before(self, seat: Seat, other: Seat, demand: Demand) -> bool:
        """Whether `seat` comes before `other` in strategy order for `demand` (1.3)."""
        if self._by_recency:
            return (seat.recency > other.recency) is self._newest
        return self._rank(seat, demand) < self._rank(other, demand)

    def _first_of(self, line: Line, asks: Asks, bound: Seat | None) -> Seat | None:
        if isinstance(line, SlotLine):
            return line.first_fit(asks, self._newest, None if bound is None else bound.recency)
        assert isinstance(line, LoadedLine), "a line of leftovers has no first, only a best"
        return line.first_fit(asks, bound)

    def _asks_whole(self, c: DemandClass, totals: tuple[int, ...]) -> bool:
        return (self._caps.pool, totals[self._caps.pool]) in c.asks.amounts

    def _best_fit(self, c: DemandClass, reach: Reach) -> Seat | None:
        demand = c.demand
        wanted: dict[int, list[Signature]] = {}  # by how many preferred properties they carry
        for signature in reach.signatures:
            wanted.setdefault(_carried(signature.declared, demand), []).append(signature)
        for carried in sorted(wanted, reverse=True):
            best: Rank | None = None
            found: Seat | None = None
            for signature in wanted[carried]:
                self._work.lines_asked += len(signature.lines)
                for line in signature.lines.values():
                    assert isinstance(line, LeftoverLine), "under best_fit there are no other lines"
                    if not demand.fits(list(line.totals)):
                        continue
                    whole = c.whole if c.whole is not None and self._asks_whole(c, line.totals) else c.asks
                    fit = line.best_fit(whole, demand.amounts, best)
                    if fit is not None:
                        best, found = fit
            if found is not None:
                return found
        return None

    def _rank(self, seat: Seat, demand: Demand) -> tuple[int, ...]:
        worker = seat.worker
        running = len(worker.running)
        if self._by_load:
            return (running, seat.recency)
        leftover = leftover_milli(worker.remaining, worker.totals, demand.amounts)
        return (-_carried(dict(worker.properties), demand), leftover, running, seat.recency)

    def could_run_idle(self, c: DemandClass) -> bool:
        """Whether some connected worker would fit class `c` with nothing running on it, by what it registered (X2)."""
        amounts = c.demand.amounts
        return any(all(line.totals[pool] >= asked for pool, asked in amounts) for line in c.need.reach.lines())

    def _merge(self, reach: Reach) -> Line:
        merged = self._open_line(())
        for line in reach.lines():
            for seat in line.members:
                merged.add(seat)
        for signature in reach.signatures:
            signature.merged.append(merged)
        reach.merged = merged
        return merged


def _carried(declared: dict[str, str], demand: Demand) -> int:
    """How many of the properties that the demand prefers a worker carries with the same value."""
    return sum(declared.get(name) == value for name, value in demand.preferred)


def _recency(seat: Seat) -> int:
    return seat.recency
