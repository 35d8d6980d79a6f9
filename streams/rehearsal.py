"""A shard in memory on a virtual clock: facts in, events out, no broker. The engine of `headway decide` and of the stories in tests/.

It decides as a decider does: each event is encoded and chained, a restart folds those records from the first one through the
decider's own recovery, and a fact on which the core fails is written off with its key parked. What endpoints hold is folded beside it, in
memory, and survives a restart as a decider's store does. What is missing is only what a log adds: transactions, dead letters, takeovers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from events.codec import encode_event
from events.decide import decide, elect, reject_undecidable
from events.errors import HeadwayError
from events.events import Event
from events.fact_rules import key_of
from events.facts import Fact, Tick
from events.indexing import build_indexes
from events.outbox import Outbound, outbox
from events.state import Shard
from events.values import U63_MAX
from projections.rows import MemoryRows
from streams.holders import FoldedHolders
from streams.log import Record
from streams.recovery import Fold
from streams.ticker import INTERVAL_US

MOST_TICKS: Final = 200_000
"""Between two facts; more are a slip in the times rather than a wish (28 hours)."""

_LONGEST_ERROR: Final = 400


class ClockTurnedBack(HeadwayError):
    """A fact is older than the one before it; on a log, append times never decrease."""

    code = "HW-111"

    def __init__(self, at_us: int, now_us: int) -> None:
        super().__init__(
            f"at_us {at_us} lies {now_us - at_us} microseconds before the {now_us} of the fact before it; order facts by at_us"
        )
        self.at_us, self.now_us = at_us, now_us


class TooManyTicks(HeadwayError):
    """The clock would jump so far that the ticks between would take long and fill the output."""

    code = "HW-112"

    def __init__(self, from_us: int, to_us: int, ticks: int) -> None:
        super().__init__(
            f"from {from_us} to {to_us} there would be {ticks} ticks, the limit is {MOST_TICKS}: are all times in microseconds and "
            "of one epoch? Without a ticker (--no-ticker) any gap is taken"
        )


class TakenFact(NamedTuple):
    """A fact as it would stand on the log; its place in the list of all is its offset."""

    at_us: int
    key: str
    fact: Fact


class Identity(NamedTuple):
    """The log that the elections name as theirs."""

    cluster_id: str = ""
    facts_topic_id: str = ""
    events_topic_id: str = ""


class Rehearsal:
    """One shard, decided in memory.

    Args:
        ticker: whether a `Tick` is added every 500 ms of virtual time, as the deciders' ticker does. Without it a gap of more than
            3 s is an outage of the log.
        build: what LeaderElected says of the build.
        keep_history: whether `facts`, `events` and `outbounds` are kept. The records of events are, in any case: a restart needs them.
        identity: the log for which this is rehearsed, where its records are to stand on one.

    Attributes:
        facts: every fact so far, ticks included; the first has offset 0.
        events: every event so far, in order of `seq`.
        outbounds: every placement and worker command so far.
        now_us: the virtual time; None before the first fact.
    """

    def __init__(
        self, *, ticker: bool = True, build: str = "", keep_history: bool = True, identity: Identity | None = None
    ) -> None:
        self.ticker, self.build, self.keep_history = ticker, build, keep_history
        self._identity = identity or Identity()
        self.facts: list[TakenFact] = []
        self.events: list[Event] = []
        self.outbounds: list[Outbound] = []
        self.now_us: int | None = None
        self._fold = Fold(0)
        self._shard = self._fold.shard
        self._chain = self._fold.chain
        self._records: list[Record] = []
        self._holders = FoldedHolders(MemoryRows(), 0)
        self._next_offset = 0
        self._next_tick_us = 0
        self._elected = False

    @property
    def next_offset(self) -> int:
        """The offset the next fact gets; ticks take one each."""
        return self._next_offset

    @property
    def records(self) -> Sequence[Record]:
        """The records of all events so far, chained; their offsets are dense, as no log's are."""
        return self._records

    @property
    def shard(self) -> Shard:
        """The state."""
        return self._shard

    def take(self, fact: Fact, at_us: int, key: str | None = None) -> list[Event]:
        """Decide one fact at `at_us`; returns what it and the ticks before it caused.

        Raises:
            ClockTurnedBack: `at_us` is before the fact before it.
            TooManyTicks: the gap is too large for the ticker.
        """
        caused = self.run_until(at_us, including=False)
        return caused + self._decide(fact, at_us, key_of(fact) if key is None else key)

    def run_until(self, at_us: int, *, including: bool = True) -> list[Event]:
        """Let time pass: the events of every tick before `at_us`, and of one right at it when `including`.

        Raises: as `take`.
        """
        if not 0 <= at_us <= U63_MAX:
            raise ClockTurnedBack(at_us, self.now_us or 0)
        caused = [] if self._elected else self._elect()
        if self.now_us is None:
            self.now_us, self._next_tick_us = at_us, at_us + INTERVAL_US
        if at_us < self.now_us:
            raise ClockTurnedBack(at_us, self.now_us)
        if not self.ticker:
            return caused
        end_us = at_us if including else at_us - 1
        ticks = (end_us - self._next_tick_us) // INTERVAL_US + 1
        if ticks > MOST_TICKS:
            raise TooManyTicks(self.now_us, at_us, ticks)
        while self._next_tick_us <= end_us:
            caused += self._decide(Tick(), self._next_tick_us, "")
            self._next_tick_us += INTERVAL_US
        return caused

    def restart(self, *, waiting: int = 0) -> list[Event]:
        """Throw the state away, fold it again from the records (their chain is checked) and elect a new leader.

        Args:
            waiting: how many of the facts to come stand in the log already, so that the leader has recovered after them. Ticks count.

        Raises:
            DamagedLog: the records do not fold, a defect of this build.
        """
        caused = [] if self._elected else self._elect()
        self._rebuild()
        return caused + self._elect(waiting)

    def _elect(self, waiting: int = 0) -> list[Event]:
        if not self._shard.live:
            build_indexes(self._shard)
        self._elected = True
        caused = elect(
            self._shard,
            leader_epoch=self._shard.leader_epoch + 1,
            **self._identity._asdict(),
            build=self.build,
            facts_end=self._next_offset + waiting,
        )
        self._holders.see(caused)
        self._keep(caused, None)
        return caused

    def _decide(self, fact: Fact, at_us: int, key: str) -> list[Event]:
        self.now_us = at_us
        offset = self._next_offset
        try:
            caused = decide(self._shard, fact, offset=offset, append_us=at_us, key=key, holders=self._holders)
            self._keep(caused, fact)
        except Exception as failure:
            # As a decider does: the state is of no use any more, and one fact must not stop the rest.
            self._rebuild()
            build_indexes(self._shard)
            error = f"{type(failure).__name__}: {failure}"[:_LONGEST_ERROR]
            caused = reject_undecidable(self._shard, fact, offset=offset, append_us=at_us, key=key, error=error)
            self._holders.see(caused)
            self._keep(caused, fact)
        self._next_offset += 1
        if self.keep_history:
            self.facts.append(TakenFact(at_us, key, fact))
        return caused

    def _keep(self, caused: list[Event], fact: Fact | None) -> None:
        """Write the events of one fact down, all or (where one has no record) none."""
        chain = self._chain
        records: list[Record] = []
        for event in caused:
            value, chain = encode_event(event, self._shard.leader_epoch, chain)
            records.append(Record(len(self._records) + len(records), event.at_us, None, value))
        sent = outbox(self._shard, caused, fact)
        self._chain = chain
        self._records += records
        self._holders.commit(chain, len(caused))
        if self.keep_history:
            self.events += caused
            self.outbounds += sent

    def _rebuild(self) -> None:
        self._holders.discard()
        fold = Fold(0)
        fold.apply(self._records)
        self._shard, self._chain = fold.shard, fold.chain
