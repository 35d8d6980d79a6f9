"""What a worker has and what its runs hold of it: the worker's own ledger, pure.

The scheduler keeps the ledger that decides. This one only makes sure that the machine is never over-committed while the two differ:
a run that is being stopped still holds its memory here when the scheduler has long given it to the next action.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from events.reasons import DeclineReason
from events.values import Properties


class Amounts(NamedTuple):
    """The two amounts every worker counts."""

    cpu_millis: int = 0
    memory_kib: int = 0


NOTHING = Amounts()


def asked_by(requirements: Properties) -> Amounts:
    """What an action asks for. A value that is no number asks for nothing: a scheduler that counts it has refused it already."""
    asked = dict(requirements)
    return Amounts(*(_number(asked.get(name, "0")) for name in Amounts._fields))


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0


@dataclass(slots=True)
class Ledger:
    """Amounts held per dispatch, never more than `total`; `max_inflight` 0 is no limit on their number."""

    total: Amounts
    max_inflight: int = 0
    held: dict[int, Amounts] = field(default_factory=dict)
    lent: Amounts = NOTHING

    def why_not(self, asked: Amounts) -> DeclineReason | None:
        """What stands in the way of `asked` now; None, nothing."""
        if self.max_inflight and len(self.held) >= self.max_inflight:
            return DeclineReason.FULL
        if self.lent.cpu_millis + asked.cpu_millis > self.total.cpu_millis:
            return DeclineReason.FULL
        if self.lent.memory_kib + asked.memory_kib > self.total.memory_kib:
            return DeclineReason.MEMORY
        return None

    def could_ever(self, asked: Amounts) -> bool:
        """Whether an idle worker would have room for `asked`."""
        return asked.cpu_millis <= self.total.cpu_millis and asked.memory_kib <= self.total.memory_kib

    def take(self, dispatch_id: int, asked: Amounts) -> None:
        """Hold `asked` for a dispatch that fits and holds nothing yet."""
        assert dispatch_id not in self.held
        assert self.why_not(asked) is None
        self.held[dispatch_id] = asked
        self.lent = Amounts(self.lent.cpu_millis + asked.cpu_millis, self.lent.memory_kib + asked.memory_kib)

    def give_back(self, dispatch_id: int) -> None:
        """Return what a dispatch holds."""
        asked = self.held.pop(dispatch_id)
        self.lent = Amounts(self.lent.cpu_millis - asked.cpu_millis, self.lent.memory_kib - asked.memory_kib)

    @property
    def unlent_kib(self) -> int:
        """Memory that no run holds."""
        return self.total.memory_kib - self.lent.memory_kib
