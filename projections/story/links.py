"""Links to events, the events that one fact caused, and operations by name even when they are long forgotten."""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final

from events import events as e
from events.reasons import sentence
from projections import answers
from projections.explaining.queueing import brief
from projections.story.history import History, Told
from projections.table import Table

EVENTS_OF_A_FACT: Final = 256
"""So many events are looked at to either side for those of the same fact; of a fact with more, the nearest."""


def link(told: Told) -> dict[str, Any]:
    """Where an event stands and what it is: `seq`, `offset` of its record, `at_us` of the scheduler's time, `event` its kind."""
    event = told.event
    return {"seq": event.seq, "offset": told.offset, "at_us": event.at_us, "event": type(event).__name__}


def reason_of(reason: IntEnum) -> dict[str, Any]:
    """A reason and its sentence; both null for none."""
    return {"reason": reason.name.lower() if reason else None, "sentence": sentence(reason) or None}


def facts_events(history: History, told: Told) -> tuple[Sequence[Told], Sequence[Told]]:
    """The events of the same fact before this one, and those after it. An election is of no fact."""
    seq, cause = told.event.seq, told.event.cause_offset
    before: list[Told] = []
    for each in reversed(history.events_between(max(1, seq - EVENTS_OF_A_FACT), seq - 1)):
        if each.event.cause_offset != cause or isinstance(each.event, e.LeaderElected):
            break
        before.append(each)
    before.reverse()
    after: list[Told] = []
    for each in history.events_between(seq + 1, seq + EVENTS_OF_A_FACT):
        if each.event.cause_offset != cause or isinstance(each.event, e.LeaderElected):
            break
        after.append(each)
    return before, after


def who(history: History, table: Table, operation_id: int) -> dict[str, Any]:
    """An operation in a few words, as `queueing.brief` has it: from the rows, or from its first event where it is not in them."""
    row = answers.find(table, operation_id)
    if row is not None:
        return brief(table, row)
    queued = next(
        (each.event for each in history.events_of_operation(operation_id) if isinstance(each.event, e.OperationQueued)),
        None,
    )
    return {"operation_id": operation_id} if queued is None else brief(table, queued)
