"""How long runs have taken, by kind of action: a fold of the log, which the hold by drain time asks (deciding/draining.py).

The kind of an action is its mnemonic, where it names none its target, else the requirements it ran with. Of each kind the last so many
runs count, each as one of eight steps to a doubling of time, so a duration is known to a sixteenth. Whole numbers only, bounded in kinds
and in runs, and the same from the same events: a replay has the same history. A run counts for as long as the log saw it: one that ended
in an outage of the log for longer than it took.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from events.reasons import DurationSource

if TYPE_CHECKING:  # rows hold durations
    from events.state import Dispatch

MOST_KINDS = 512
"""Kinds an instance remembers; past it the one goes whose last run ended longest ago."""

STEP_BITS = 3
"""Steps to a doubling of time, as a power of two."""

Kind = tuple[int, str]
"""What the durations are of: by what the kind is named, a `DurationSource` as a plain number (an enum's hash takes longer than all the
rest), and its name.
"""

MNEMONIC, TARGET, REQUIREMENT = map(int, (DurationSource.MNEMONIC, DurationSource.TARGET, DurationSource.REQUIREMENT))


def kind_of(dispatch: "Dispatch") -> Kind:
    """The kind of action that runs."""
    operation = dispatch.operation
    if operation.mnemonic:
        return MNEMONIC, operation.mnemonic
    if operation.target_id:
        return TARGET, operation.target_id
    return REQUIREMENT, str(dispatch.demand.requirement_id)


def step_of(duration_us: int) -> int:
    """The step a duration counts as: exact below 16 us, then eight to a doubling."""
    shift = max(0, duration_us.bit_length() - STEP_BITS - 1)
    return (shift << STEP_BITS) + (duration_us >> shift)


def middle_us(step: int) -> int:
    """The duration that a step stands for."""
    shift = max(0, (step >> STEP_BITS) - 1)
    return ((step - (shift << STEP_BITS)) << shift) + (1 << shift >> 1)


class Known:
    """Durations in order, made to be asked how long a run goes on that has gone so long."""

    __slots__ = ("_middles", "_over", "_sums", "samples")

    def __init__(self, counts: dict[int, int]) -> None:
        steps = sorted(counts)
        self._middles = [middle_us(step) for step in steps]
        self._over = [0]  # from the end: runs that took so long or longer, and their durations added up
        self._sums = [0]
        for step, middle in zip(reversed(steps), reversed(self._middles), strict=True):
            self._over.append(self._over[-1] + counts[step])
            self._sums.append(self._sums[-1] + counts[step] * middle)
        self.samples = self._over[-1]

    def left_us(self, ran_us: int) -> int:
        """The mean of what is left of the runs that took longer than `ran_us`.

        One that has gone longer than all of them is expected to go as long again: whatever it does, it is none of those.
        """
        longer = len(self._middles) - bisect_right(self._middles, ran_us)
        return self._sums[longer] // self._over[longer] - ran_us if longer else ran_us


class _Window:
    """The last runs of one kind. Those that ended since somebody asked stand as they lasted: most are never asked for."""

    __slots__ = ("counts", "fresh_us", "known", "steps")

    def __init__(self, last_runs: int) -> None:
        self.fresh_us: deque[int] = deque(maxlen=last_runs)
        self.steps: deque[int] = deque()  # of those before, oldest first
        self.counts: dict[int, int] = {}  # how many there are of each step
        self.known: Known | None = None  # derived from the counts

    def settle(self, last_runs: int) -> None:
        """Count what ended since the last time, and forget all but the last so many."""
        if not self.fresh_us and len(self.steps) <= last_runs:
            return
        for duration_us in self.fresh_us:
            step = step_of(duration_us)
            self.steps.append(step)
            self.counts[step] = self.counts.get(step, 0) + 1
        self.fresh_us.clear()
        while len(self.steps) > last_runs:
            step = self.steps.popleft()
            if self.counts[step] == 1:
                del self.counts[step]
            else:
                self.counts[step] -= 1
        self.known = None


class Durations:
    """What is remembered of the runs of an instance. Changed by `evolve` only."""

    __slots__ = ("_every", "_windows", "last_runs")

    def __init__(self, last_runs: int) -> None:
        self.last_runs = last_runs
        self._windows: dict[Kind, _Window] = {}  # that whose last run ended longest ago first
        self._every: Known | None = None  # derived; None: runs ended since

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Durations) and self.rows() == other.rows()

    __hash__ = None  # type: ignore[assignment]  # it changes

    def rows(self) -> tuple[tuple[Kind, tuple[int, ...]], ...]:
        """Everything remembered: the steps of each kind's last runs, oldest first; the kind whose last run ended longest ago first."""
        return tuple((kind, tuple(window.steps)) for kind, window in self._settled())

    def put(self, kind: Kind, steps: Iterable[int]) -> None:
        """Take one kind as `rows` has it, behind those that are there."""
        window = self._windows[kind] = _Window(self.last_runs)
        window.steps.extend(steps)
        for step in window.steps:
            window.counts[step] = window.counts.get(step, 0) + 1
        self._every = None

    def add(self, kind: Kind, duration_us: int) -> None:
        """A run of this kind has ended after `duration_us`."""
        windows = self._windows
        window = windows.pop(kind, None)
        if window is None:
            window = _Window(self.last_runs)
            if len(windows) >= MOST_KINDS:
                del windows[next(iter(windows))]
        windows[kind] = window
        window.fresh_us.append(duration_us)
        self._every = None

    def keep(self, last_runs: int) -> None:
        """Remember so many runs of each kind from now on."""
        if last_runs == self.last_runs:
            return
        for _, window in self._settled():
            window.fresh_us = deque(maxlen=last_runs)
            window.settle(last_runs)
        self.last_runs = last_runs
        self._every = None

    def _settled(self) -> Iterator[tuple[Kind, _Window]]:
        for kind, window in self._windows.items():
            window.settle(self.last_runs)
            yield kind, window

    def of(self, kind: Kind) -> Known | None:
        """The durations of one kind; None where no run of it is remembered."""
        window = self._windows.get(kind)
        if window is None:
            return None
        window.settle(self.last_runs)
        if window.known is None:
            window.known = Known(window.counts)
        return window.known

    def of_all(self) -> Known:
        """The durations of all kinds together."""
        if self._every is None:
            counts: dict[int, int] = {}
            for _, window in self._settled():
                for step, count in window.counts.items():
                    counts[step] = counts.get(step, 0) + count
            self._every = Known(counts)
        return self._every
