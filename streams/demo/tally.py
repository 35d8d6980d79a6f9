"""Counts a run from its events, and from nothing else: what was asked for, how each action fared, whether anything is wrong.

A `Tally` takes the events of one instance's shard in log order. "Lost" and "doubled" are judged against the client operation
ids that were acknowledged to the producer, so a fact that the log took and nobody decided counts as lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from events.events import (
    Event,
    LeaderElected,
    OperationDispatched,
    OperationFinished,
    OperationQueued,
    OperationRequeued,
)
from events.reasons import Outcome
from streams.cli.output import percentile

SECOND_US = 1_000_000


@dataclass(slots=True)
class Run:
    """One operation, as the events tell it. Instants are the scheduler's now; None: it did not happen."""

    operation_id: int
    client_operation_id: str
    requirement_id: int
    queued_at_us: int
    queued_seq: int
    target_id: str = ""
    first_dispatch: OperationDispatched | None = None
    current_dispatch: int = 0  # 0: none
    dispatches: int = 0
    requeues: int = 0
    finishes: int = 0
    overlapping: int = 0  # dispatched while another dispatch was current
    finished: OperationFinished | None = None

    @property
    def wait_us(self) -> int | None:
        """From queued to the first dispatch."""
        return None if self.first_dispatch is None else self.first_dispatch.at_us - self.queued_at_us


@dataclass(slots=True)
class Tally:
    """The fold. Feed it with `add`, in log order."""

    runs: dict[int, Run] = field(default_factory=dict)
    by_client: dict[str, list[int]] = field(default_factory=dict)  # client operation id to operation ids
    last_seq: int = 0
    seq_gaps: int = 0
    requeued: int = 0
    elections: int = 0
    queued: int = 0
    executing: int = 0
    finished: int = 0
    strays: int = 0  # dispatched or finished without having been queued

    def add(self, event: Event) -> None:
        """Take the next event."""
        if event.seq != self.last_seq + 1:
            self.seq_gaps += 1
        self.last_seq = event.seq
        match event:
            case LeaderElected():
                self.elections += 1
            case OperationQueued():
                run = Run(
                    event.operation_id,
                    event.client_operation_id,
                    event.requirement_id,
                    event.queued_at_us,
                    event.seq,
                    event.target_id,
                )
                self.runs[event.operation_id] = run
                self.by_client.setdefault(event.client_operation_id, []).append(event.operation_id)
                self.queued += 1
            case OperationDispatched() | OperationRequeued() | OperationFinished():
                known = self.runs.get(event.operation_id)
                if known is None:
                    self.strays += 1
                else:
                    self._move(known, event)

    def _move(self, run: Run, event: OperationDispatched | OperationRequeued | OperationFinished) -> None:
        match event:
            case OperationDispatched():
                run.dispatches += 1
                if run.current_dispatch or run.finishes:
                    run.overlapping += 1
                else:
                    self.queued -= 1
                    self.executing += 1
                run.current_dispatch = event.dispatch_id
                run.first_dispatch = run.first_dispatch or event
            case OperationRequeued():
                run.requeues += 1
                self.requeued += 1
                if run.current_dispatch:
                    self.executing -= 1
                    self.queued += 1
                run.current_dispatch = 0
            case OperationFinished():
                run.finishes += 1
                if run.finishes == 1:
                    self.finished += 1
                    if run.current_dispatch:
                        self.executing -= 1
                    else:
                        self.queued -= 1
                run.current_dispatch = 0
                run.finished = event

    def waits_us(self) -> list[int]:
        """All waits, ascending."""
        return sorted(run.wait_us for run in self.runs.values() if run.wait_us is not None)

    def unfinished(self, published: Iterable[str]) -> list[str]:
        """Of the client operation ids, in their order, those without a finished operation."""
        return [name for name in published if not any(self.runs[i].finishes for i in self.by_client.get(name, ()))]

    def placed(self) -> int:
        """Operations dispatched at least once."""
        return sum(1 for run in self.runs.values() if run.dispatches)

    def completed(self) -> int:
        """Operations whose action ran to its end."""
        return sum(
            1 for run in self.runs.values() if run.finished is not None and run.finished.outcome is Outcome.COMPLETED
        )

    def doubled(self) -> int:
        """Operations that were created, run or finished more often than once at a time."""
        twice = sum(len(ids) - 1 for ids in self.by_client.values())
        return twice + self.strays + sum(1 for run in self.runs.values() if run.overlapping or run.finishes > 1)

    def longest_wait(self) -> Run | None:
        """The operation that waited longest for its first dispatch; None when nothing was placed."""
        placed = [run for run in self.runs.values() if run.wait_us is not None]
        return max(placed, key=lambda run: (run.wait_us or 0, -run.operation_id), default=None)


def summary_of(
    tally: Tally,
    published: Iterable[str],
    *,
    table_equals_replay: bool,
    broker: dict[str, str],
    wall_s: float,
    counted: Tally | None = None,
) -> dict[str, Any]:
    """The summary of a run, with exactly these keys.

    Args:
        tally: of every event of the shard: what is lost, doubled or skipped is looked for in all of it.
        published: every client operation id that the log took.
        table_equals_replay: whether it does.
        broker: its kind and version.
        wall_s: how long it all took.
        counted: of one instance's events; given, `placed`, `finished` and `wait_s` are of that instance alone.
    """
    counted = counted or tally
    waits_us = counted.waits_us()
    return {
        "placed": counted.placed(),
        "finished": counted.completed(),
        "lost": len(tally.unfinished(published)),
        "doubled": tally.doubled(),
        "requeued": tally.requeued,
        "seq_gaps": tally.seq_gaps,
        "table_equals_replay": table_equals_replay,
        "wait_s": {
            "p50": percentile(waits_us, 0.50) / SECOND_US,
            "p95": percentile(waits_us, 0.95) / SECOND_US,
            "max": (waits_us[-1] if waits_us else 0) / SECOND_US,
        },
        "broker": broker,
        "wall_s": round(wall_s, 1),
    }


def is_sound(summary: dict[str, Any]) -> bool:
    """Whether nothing was lost, doubled or skipped, and the table is what the log says."""
    return bool(
        summary["table_equals_replay"] and not summary["lost"] and not summary["doubled"] and not summary["seq_gaps"]
    )
