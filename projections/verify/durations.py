"""How long runs have taken, by kind of action, and what is expected from that of those that go on (`hold.kind = "drain_time"`).

The contract: the kind of a run is its mnemonic, else its target, else its requirements; of each kind the last so many runs that
completed count, each to a sixteenth of its duration; a run is expected to go on for the mean of what is left of those that took longer.
"""

from bisect import bisect_right
from collections import deque
from itertools import accumulate
from typing import NamedTuple

from projections.verify.rows import Domain, Run
from proto.gen.headway.v1 import reasons_pb2 as r

MOST_KINDS = 512

Kind = tuple[int, str]
"""Where it is named, and its name."""


class Expected(NamedTuple):
    """When a run is expected to end (None: not known), and where that is known from."""

    end_us: int | None
    source: int
    kind: str
    samples: int


class Past:
    """The durations of the last runs of a kind, as they count."""

    __slots__ = ("_ordered", "_sums", "runs")

    def __init__(self) -> None:
        self.runs: deque[int] = deque()
        self._ordered: list[int] | None = None
        self._sums: list[int] = []

    def add(self, counted_us: int, most: int) -> None:
        """One more, and the oldest beyond `most` less."""
        self.runs.append(counted_us)
        self.keep(most)

    def keep(self, most: int) -> None:
        """So many at most."""
        while len(self.runs) > most:
            self.runs.popleft()
        self._ordered = None

    def left_us(self, ran_us: int) -> int:
        """What is left of a run that has gone so long; as long again where none has taken longer."""
        if self._ordered is None:
            self._ordered = sorted(self.runs)
            self._sums = [0, *accumulate(self._ordered)]
        first = bisect_right(self._ordered, ran_us)
        longer = len(self._ordered) - first
        return (self._sums[-1] - self._sums[first]) // longer - ran_us if longer else ran_us


class History:
    """What an instance has seen of its runs."""

    __slots__ = ("_every", "last_runs", "past")

    def __init__(self, last_runs: int) -> None:
        self.last_runs = last_runs
        self.past: dict[Kind, Past] = {}  # the kind whose last run ended longest ago first
        self._every: Past | None = None

    def add(self, run: Run, took_us: int) -> None:
        """A run has completed."""
        kind = kind_of(run)
        past = self.past.pop(kind, None)
        if past is None:
            past = Past()
            if len(self.past) >= MOST_KINDS:
                del self.past[next(iter(self.past))]
        self.past[kind] = past
        past.add(counted(took_us), self.last_runs)
        self._every = None

    def keep(self, last_runs: int) -> None:
        """So many of each kind from now on."""
        self.last_runs = last_runs
        self._every = None
        for past in self.past.values():
            past.keep(last_runs)

    def every(self) -> Past:
        """The runs of all kinds."""
        if self._every is None:
            self._every = Past()
            for past in self.past.values():
                self._every.runs.extend(past.runs)
        return self._every


def counted(took_us: int) -> int:
    """The duration that a run counts as: eight steps to a doubling, the middle of its step."""
    shift = max(0, took_us.bit_length() - 4)
    return (took_us >> shift << shift) + (1 << shift >> 1)


def kind_of(run: Run) -> Kind:
    """What the run is a run of."""
    if run.op.mnemonic:
        return r.DURATION_SOURCE_MNEMONIC, run.op.mnemonic
    if run.op.target:
        return r.DURATION_SOURCE_TARGET, run.op.target
    return r.DURATION_SOURCE_REQUIREMENT, str(run.demand.number)


def expected(domain: Domain, run: Run, now_us: int) -> Expected:
    """By its kind, where that was seen often enough; else by its producer; else by all kinds together."""
    history, least = domain.history, domain.options.min_runs
    ran_us = now_us - run.at_us
    kind = kind_of(run)
    past = history.past.get(kind)
    if past is not None and len(past.runs) >= least:
        return Expected(now_us + past.left_us(ran_us), *kind, len(past.runs))
    if run.op.expected_us:
        return Expected(max(now_us, run.at_us + run.op.expected_us), r.DURATION_SOURCE_PRODUCER, "", 0)
    every = history.every()
    if len(every.runs) >= least:
        return Expected(now_us + every.left_us(ran_us), r.DURATION_SOURCE_EVERY_RUN, "", len(every.runs))
    return Expected(None, r.DURATION_SOURCE_UNKNOWN, "", len(every.runs))
