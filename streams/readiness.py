"""When the read side may answer: nothing before it is complete, except what blobs are where, which opens after 30 s as it is.

The public API listens at once and says "not ready" with progress until every shard that this process answers for has been read up
to the end that its log had when the reading began. What comes later is lag, which the age of an answer shows: an open gate stays
open. Queue, operations, workers and holds fail closed: half a queue is a wrong answer. What endpoints hold is an index whose gaps cost
a fetch, so it fails open after `LOCALITY_AFTER_S` (PM4), and its answers say so.

    closed ──30 s──▶ locality open ──every shard caught up──▶ open
       └─────────────every shard caught up────────────────────▲

The gate of the start knows nothing of the end: a process that is told to stop while it is closed stops as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

LOCALITY_AFTER_S: Final = 30.0
"""Locality is answered from what there is, complete or not, so long after the start (PM4)."""


class Progress(NamedTuple):
    """How far a shard that is not complete has been read.

    Offsets are of the events topic; `left` counts offsets, at least as many as events. `end` is None before the log has told it.
    """

    shard: int
    seq: int
    position: int
    end: int | None

    @property
    def left(self) -> int | None:
        """Offsets between here and the end as of the start."""
        return None if self.end is None else max(0, self.end - self.position)

    def as_dict(self) -> dict[str, Any]:
        """As an answer has it."""
        return {"shard": self.shard, "seq": self.seq, "position": self.position, "end": self.end, "left": self.left}

    def __str__(self) -> str:
        if self.end is None:
            return f"shard {self.shard} stands at event {self.seq}; the log has not told its end yet"
        return f"shard {self.shard} stands at event {self.seq}, offset {self.position} of {self.end}, {self.left} left"


class Gate:
    """Which shards may be answered for, and by which views.

    Args:
        clock_s: a monotonic clock, in seconds.
        locality_after_s: when locality opens at the latest, counted from now.
    """

    def __init__(self, clock_s: Callable[[], float], *, locality_after_s: float = LOCALITY_AFTER_S) -> None:
        self._clock_s = clock_s
        self._locality_at_s = clock_s() + locality_after_s
        self._complete: dict[int, bool] = {}
        self._opened = False

    def expect(self, shards: Iterable[int]) -> None:
        """These shards are answered for once they have caught up; those that already have stay as they are."""
        for shard in shards:
            self._complete.setdefault(shard, False)

    def caught_up(self, shard: int) -> None:
        """A shard has been read to the end that its log had when the reading began."""
        self._complete[shard] = True
        self._opened = self._opened or all(self._complete.values())

    def let_go(self, shard: int) -> None:
        """A shard is another process's now."""
        self._complete.pop(shard, None)
        self._opened = self._opened or (bool(self._complete) and all(self._complete.values()))

    @property
    def is_open(self) -> bool:
        """Whether every view answers. Stays true; what is not complete after that is left out of answers."""
        return self._opened

    @property
    def locality_is_open(self) -> bool:
        """Whether the views of locality answer, with what there is."""
        return self._opened or self.locality_in_s <= 0

    @property
    def locality_in_s(self) -> float:
        """In how many seconds they answer at the latest; 0 when they do."""
        return 0.0 if self._opened else max(0.0, self._locality_at_s - self._clock_s())

    def shards(self) -> list[int]:
        """The shards that are complete."""
        return sorted(shard for shard, complete in self._complete.items() if complete)

    def waiting(self) -> list[int]:
        """The shards that are still catching up."""
        return sorted(shard for shard, complete in self._complete.items() if not complete)
