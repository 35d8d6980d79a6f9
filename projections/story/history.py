"""What a story is told from: the recorded events of one shard, by subject, and the rows as of any of them.

The seam to whoever keeps the history: `recorded.Recorded` has all of it in memory; an index over a log answers the same questions
without reading the log. Events by subject are few, whatever the length of the history: what comes by the thousand (who overtook, what a
worker ran) is answered as short records.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from events.events import Event
from projections.table import Table


class Told(NamedTuple):
    """An event, and the offset of its record in the shard's event partition: together with `seq`, the link to it."""

    offset: int
    event: Event


@dataclass(frozen=True, slots=True)
class Overtaking:
    """A dispatch that went past an operation which was the first that waited then: `OperationDispatched.overtook` names it."""

    seq: int
    offset: int
    at_us: int
    operation_id: int  # who went past
    endpoint: str
    backfilled: bool = False


@dataclass(frozen=True, slots=True)
class RunTold:
    """What a worker was given, from the dispatch until it paid no more for it."""

    dispatch_id: int  # the seq of the dispatch
    offset: int  # of the dispatch
    operation_id: int
    requirement_id: int
    since_us: int
    until_us: int | None = None  # None: it still pays
    until_seq: int | None = None
    ended: str = ""  # how: an outcome or the cause of a requeue, in lower case; empty while it runs


class History(Protocol):
    """The history of one shard, up to its last event that follows from those before it."""

    @property
    def shard(self) -> int:
        """Its number."""
        ...

    @property
    def last_seq(self) -> int:
        """The last event; 0 when there is none."""
        ...

    def seq_at(self, at_us: int) -> int:
        """The last event at or before an instant of the scheduler's time; 0 when there is none."""
        ...

    def table_at(self, seq: int) -> Table:
        """The rows as of event `seq`. Good until the next call: it may be the same table, gone on."""
        ...

    def events_between(self, from_seq: int, to_seq: int) -> Sequence[Told]:
        """The events from `from_seq` to `to_seq`, both included, those that are there."""
        ...

    def events_of_operation(self, operation_id: int) -> Sequence[Told]:
        """The events that name it as their operation, in order: its own, its clients', the holds for it, kills of its runs."""
        ...

    def overtakings_of(self, operation_id: int) -> Sequence[Overtaking]:
        """The dispatches that went past it while it was the first that waited, in order."""
        ...

    def events_of_worker(self, instance: str, endpoint: str) -> Sequence[Told]:
        """Its telling events, in order: admitted, out, drained, undrained, capped, paused (the requeue that did it), the report that
        lifted a pause, holds that begin, move or end on it, kills of its runs. Neither other reports nor what it ran."""
        ...

    def runs_of_worker(self, instance: str, endpoint: str, from_us: int, to_us: int) -> Sequence[RunTold]:
        """What it paid for at some moment between two instants, by dispatch."""
        ...

    def events_of_instance(self, instance: str, from_seq: int, to_seq: int) -> Sequence[Told]:
        """What concerns an instance as a whole, in order: configurations, pauses, holds, demands that nobody can run; and the
        shard: elections and silences of the log."""
        ...

    def operations_named(self, name: str, instance: str | None = None) -> Sequence[int]:
        """The operations that a client_operation_id ever led to, the oldest first."""
        ...
