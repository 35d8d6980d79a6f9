"""What the scenes of the recorded run did, in their own words: what an explanation has to find out from the log alone.

A truth is written by the scene while it acts; nothing in it is read from an event.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Cause(StrEnum):
    """What the scene did to end a hold; the value is said as a person would."""

    DRAINED_EMPTY = "enough of what ran on the held worker ended"
    ROOM_ELSEWHERE = "another worker had room first"
    WORKER_CAME = "a new worker connected"
    CANCELLED = "it was cancelled"
    CLIENT_LEFT = "its client left"
    CLIENT_SILENT = "its client was silent"
    OUTRANKED = "an operation before it needs a worker that the held one cannot be"
    LEFT = "the worker left"
    SILENT = "the worker was silent"
    REPLACED = "the worker's process was replaced"
    REMOVED = "an operator removed the worker"
    DRAINED = "an operator drained the worker"
    DECLINED = "the worker declined work and was paused"
    UNACKNOWLEDGED = "the worker did not acknowledge work and was paused"
    REFUSED_IDLE = "the worker ran nothing and still had no room"
    REPORTED_LESS = "the worker reported less free memory"
    SHRUNK = "the worker came back with less"
    OUT_OF_TIME = "the hold lasted max_hold_s"
    POLICY_OFF = "the hold was switched off"
    POLICY_CHANGED = "the hold got other options"
    SOONER = "another worker was free sooner"
    NOBODY = "no worker could be held"


@dataclass(slots=True)
class Move:
    """A hold went to another worker."""

    to: str
    cause: Cause
    reason: str  # HoldMove in lower case
    fact: int | None  # offset of the fact that did it; None where time did


@dataclass(slots=True)
class Truth:
    """One hold, or the lack of one, and what the scene did about it.

    Attributes:
        operation: client_operation_id of the one that waited.
        operation_id: the offset of the fact that queued it.
        worker: which was held first; empty where nobody could be.
        closest: whether the scene had given that worker the smallest shortfall; else it was the only candidate, or drained soonest.
        overtaken_by: client_operation_id of the one that went past it; empty under `backfill`.
        made_by: offset of the fact in whose pass the hold was made.
        ending: HoldEnd in lower case; empty where nobody was held.
        cause: what the scene did to end it.
        ended_by: offset of the fact that ended it; None where time did.
        placed_on: the worker it started on at the hold's end.
        subject: the worker, client or operation that the cause is about.
        excluded: how many workers could not be held, by reason, where nobody could be.
        held_us: how long it was held for, from the first worker on; as the scene's clock says.
    """

    operation: str
    operation_id: int
    worker: str
    closest: bool
    overtaken_by: str
    made_by: int
    made_at_us: int
    ending: str = ""
    cause: Cause = Cause.NOBODY
    ended_by: int | None = None
    placed_on: str = ""
    subject: str = ""
    moves: list[Move] = field(default_factory=list)
    excluded: dict[str, int] = field(default_factory=dict)
    held_us: int = 0

    @property
    def last_worker(self) -> str:
        """Which was held at the end."""
        return self.moves[-1].to if self.moves else self.worker
