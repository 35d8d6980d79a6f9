"""Histories are compared by their decisions: who was placed where, held, put back, stopped, ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple

from events import events as e

FIELDS: Final[dict[type, tuple[str, ...]]] = {
    e.OperationDispatched: ("operation_id", "endpoint"),
    e.OperationRequeued: ("operation_id", "cause"),
    e.OperationFinished: ("operation_id", "outcome"),
    e.OperationForwarded: ("operation_id", "upstream"),
    e.KillRequested: ("operation_id", "endpoint", "cause"),
    e.WorkerDisconnected: ("instance", "endpoint", "reason"),
    e.HoldMade: ("operation_id", "endpoint"),
    e.HoldMoved: ("operation_id", "from_endpoint", "to_endpoint"),
    e.HoldReleased: ("operation_id", "endpoint", "reason"),
    e.HoldNoCandidate: ("operation_id",),
}
"""What counts as a decision, and which fields make two of them the same. Ids that depend on `seq` are none of them."""


NOT_OURS: Final = 0
"""The operation of a kill that is about no operation: a worker named a dispatch that never was, or is over."""


class Decision(NamedTuple):
    """One decision of a history: when it fell, its kind, what it says by `FIELDS`, and its `seq` there."""

    at_us: int
    kind: type
    said: tuple[Any, ...]
    seq: int

    def same_as(self, other: Decision) -> bool:
        """Whether both decide the same at the same moment."""
        return self[:3] == other[:3]

    def as_json(self) -> dict[str, Any]:
        """Its fields by name, enums in lower case."""
        said = {
            name: value.name.lower() if isinstance(value, IntEnum) else value
            for name, value in zip(FIELDS[self.kind], self.said, strict=True)
        }
        return {"kind": self.kind.__name__, "at_us": self.at_us, "seq": self.seq, **said}


def decisions_in(events: Iterable[e.Event]) -> Iterator[Decision]:
    """The decisions among events, in order."""
    for event in events:
        names = FIELDS.get(type(event))
        if names is not None and getattr(event, "operation_id", None) != NOT_OURS:
            yield Decision(event.at_us, type(event), tuple(getattr(event, name) for name in names), event.seq)


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where a history first decides something else than the record: what each decides next, None where it decides nothing any more.

    `seq` is the record's, else where it has ended that of the new history; `at_us` the earlier of both moments.
    """

    recorded: Decision | None
    instead: Decision | None

    @property
    def seq(self) -> int:
        """See the class."""
        decision = self.recorded or self.instead
        assert decision is not None, "one of both decides something"
        return decision.seq

    @property
    def at_us(self) -> int:
        """See the class."""
        return min(decision.at_us for decision in (self.recorded, self.instead) if decision is not None)


class Comparison:
    """Follows a new history along the decisions of the record."""

    def __init__(self, recorded: Sequence[Decision]) -> None:
        self._recorded = recorded
        self._at = 0
        self.divergence: Divergence | None = None

    def see(self, events: Iterable[e.Event]) -> None:
        """Compare the decisions among the next events of the new history."""
        if self.divergence is not None:
            return
        for decision in decisions_in(events):
            due = self._recorded[self._at] if self._at < len(self._recorded) else None
            if due is None or not due.same_as(decision):
                self.divergence = Divergence(due, decision)
                return
            self._at += 1

    def finish(self) -> None:
        """The new history is over: what the record decides beyond it is a divergence, too."""
        if self.divergence is None and self._at < len(self._recorded):
            self.divergence = Divergence(self._recorded[self._at], None)
