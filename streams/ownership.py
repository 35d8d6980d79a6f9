"""Who decides for a shard: the states of a decider, its legal moves, and when a standby takes over. Pure: no I/O, no clock.

    start ──▶ FOLLOWING ──▶ OPENING ──▶ LEADING
                  ▲            │           │
                  └── FENCED ◀─┴───────────┘

    FOLLOWING to OPENING    a silence that is this rank's to end, or a claim at the start
    OPENING   to LEADING    LeaderElected was read back from the log
    OPENING   to OPENING    the outcome of its append is unknown: again, from the log
    OPENING   to FOLLOWING  the log is away
    LEADING   to OPENING    the outcome of a commit is unknown, or the log was away: again, from the log
    OPENING, LEADING to FENCED    another decider opened the id
    FENCED    to FOLLOWING  writer and state are dropped

Any state may move to STOPPED (asked to, or an error that this decider must not pass over). A fenced decider never opens
again by itself: it becomes a follower and waits for a silence, so two owners cannot duel for a shard.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

TAKEOVER_AFTER_US: Final = 1_000_000
RANK_STEP_US: Final = 300_000
TICK_SILENCE_US: Final = 1_000_000
SAMPLE_US: Final = 50_000  # facts read within this time count as seen at once, which bounds what a standby remembers


class Role(Enum):
    """Where a decider stands."""

    FOLLOWING = "following"
    OPENING = "opening"
    LEADING = "leading"
    FENCED = "fenced"
    STOPPED = "stopped"


MOVES: Final[Mapping[Role, tuple[Role, ...]]] = {
    Role.FOLLOWING: (Role.OPENING, Role.STOPPED),
    Role.OPENING: (Role.LEADING, Role.OPENING, Role.FENCED, Role.FOLLOWING, Role.STOPPED),
    Role.LEADING: (Role.FENCED, Role.OPENING, Role.STOPPED),
    Role.FENCED: (Role.FOLLOWING, Role.STOPPED),
    Role.STOPPED: (),
}


class IllegalMove(RuntimeError):
    """The program asked for a move that the diagram does not have: a fault in the program."""

    def __init__(self, role: Role, to: Role) -> None:
        legal = ", ".join(move.value for move in MOVES[role]) or "nothing"
        super().__init__(f"a decider that is {role.value} cannot become {to.value}; it can become {legal}")


@dataclass(slots=True)
class Ownership:
    """The role of one decider for one shard; `moves` counts them, by the role moved to."""

    role: Role = Role.FOLLOWING
    moves: dict[Role, int] = field(default_factory=dict)

    def move(self, to: Role) -> Role:
        """Become `to`; returns the role before.

        Raises:
            IllegalMove: the diagram has no such move.
        """
        if to not in MOVES[self.role]:
            raise IllegalMove(self.role, to)
        before, self.role = self.role, to
        self.moves[to] = self.moves.get(to, 0) + 1
        return before


@dataclass(slots=True)
class Watch:
    """What a standby has seen of its shard, and whether that is a silence. All times are its own monotonic clock's.

    A silence is: a fact stands in the log for `after_us` + `rank` * `step_us` without an event of it, and no event at all
    came in that time. The second half keeps a leader that is behind but at work from being fenced in the middle of it:
    whoever took over would be just as far behind.

    Args:
        rank: 0 for the first in line; standbys of different rank do not take over at the same moment.
        began_at_us: when the watch began; silence is counted from here on, never from before.
    """

    rank: int
    began_at_us: int
    after_us: int = TAKEOVER_AFTER_US
    step_us: int = RANK_STEP_US
    _undecided: deque[tuple[int, int]] = field(default_factory=deque)  # (offset, seen at), both rising
    _event_at_us: int = field(init=False)
    _tick_at_us: int = field(init=False)
    _position: int = -1

    def __post_init__(self) -> None:
        self._event_at_us = self._tick_at_us = self.began_at_us

    def facts_seen(self, last_offset: int, at_us: int) -> None:
        """Facts up to `last_offset` were read from the log."""
        if last_offset <= self._position:
            return
        if self._undecided and at_us - self._undecided[-1][1] < SAMPLE_US:
            self._undecided[-1] = (last_offset, self._undecided[-1][1])
        else:
            self._undecided.append((last_offset, at_us))

    def events_seen(self, position: int, at_us: int) -> None:
        """Events came; facts up to `position` are decided."""
        self._event_at_us = at_us
        self._position = position
        while self._undecided and self._undecided[0][0] <= position:
            self._undecided.popleft()

    def tick_seen(self, at_us: int) -> None:
        """A tick was read from the facts, or published by this very process."""
        self._tick_at_us = at_us

    def silent_us(self, now_us: int) -> int:
        """For how long a fact has waited while nothing was decided; 0 when none waits."""
        if not self._undecided:
            return 0
        return max(0, now_us - max(self._undecided[0][1], self._event_at_us))

    def takeover_due(self, now_us: int) -> bool:
        """Whether the silence is this rank's to end."""
        return self.silent_us(now_us) >= self.after_us + self.rank * self.step_us

    def tick_due(self, now_us: int, silence_us: int = TICK_SILENCE_US) -> bool:
        """Whether nobody ticks, so that a standby has to: without facts no silence would ever show."""
        return now_us - self._tick_at_us >= silence_us
