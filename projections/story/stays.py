"""How long an operation was in each state, attempt by attempt. The stays are without gap or overlap, so they sum to its life."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from events import events as e
from events.reasons import CacheAnswer
from projections.story.history import Told

ON_ITS_WAY = "on_its_way"
CACHE_CHECK = "cache_check"
QUEUED = "queued"
FORWARDED = "forwarded"
EXECUTING = "executing"
STATES = (ON_ITS_WAY, CACHE_CHECK, QUEUED, FORWARDED, EXECUTING)
"""`on_its_way` is from when its producer says that it queued it until the scheduler took the fact."""


@dataclass(slots=True)
class Stay:
    """Some time in one state. `attempt` counts dispatches from 1: of a wait, the one that it is for."""

    state: str
    attempt: int
    from_us: int
    until_us: int
    endpoint: str | None = None
    dispatch_id: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """As JSON, with `for_us`."""
        return {
            "state": self.state,
            "attempt": self.attempt,
            "from_us": self.from_us,
            "for_us": self.until_us - self.from_us,
            "endpoint": self.endpoint,
            "dispatch_id": self.dispatch_id,
        }


def stays_of(told: Sequence[Told], until_us: int) -> list[Stay]:
    """The stays of an operation from its events, the first of which queued it; the last one ends at `until_us` at the latest."""
    stays: list[Stay] = []
    attempt = 1

    def enter(state: str, at_us: int, endpoint: str | None = None, dispatch_id: int | None = None) -> None:
        if stays:
            stays[-1].until_us = at_us
        stays.append(Stay(state, attempt, at_us, at_us, endpoint, dispatch_id))

    for each in told:
        event = each.event
        match event:
            case e.OperationQueued():
                if event.queued_at_us < event.at_us:
                    enter(ON_ITS_WAY, event.queued_at_us)
                enter(QUEUED, event.at_us)
            case e.CacheLookupRequested():
                enter(CACHE_CHECK, event.at_us)
            case e.CacheAnswered() if event.answer is CacheAnswer.MISS:
                enter(QUEUED, event.at_us)
            case e.OperationForwarded():
                enter(FORWARDED, event.at_us)
            case e.OperationDispatched():
                enter(EXECUTING, event.at_us, event.endpoint, event.seq)
            case e.OperationRequeued():
                attempt += 1
                enter(QUEUED, event.at_us)
            case e.OperationFinished():
                stays[-1].until_us = event.at_us
                return [stay for stay in stays if stay.until_us > stay.from_us or stay.state == EXECUTING]
    if stays:
        stays[-1].until_us = max(stays[-1].from_us, until_us)
    return [stay for stay in stays if stay.until_us > stay.from_us or stay.state in (EXECUTING, stays[-1].state)]


def times_of(stays: Sequence[Stay]) -> dict[str, int]:
    """Microseconds in each state that it was in, in the order of `STATES`."""
    return {
        state: sum(stay.until_us - stay.from_us for stay in stays if stay.state == state)
        for state in STATES
        if any(stay.state == state for stay in stays)
    }
