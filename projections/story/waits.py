"""Why an operation waited then: what `explain` says of it now, as of a moment of its history; and since when it was first in line."""

from typing import Any

from events import events as e
from projections import answers, keys
from projections.explain import explain_operation
from projections.explaining.never import never_runs
from projections.explaining.queueing import brief, head_of
from projections.explaining.standings import Standings
from projections.fleet import instance_rows
from projections.row_access import queue_key
from projections.story.causes import cause_of_end, described
from projections.story.history import History
from projections.table import Table
from proto.gen.headway.v1.rows_pb2 import STAGE_QUEUED, OperationRow

ASKED_AT_MOST = 16
"""Moments of one wait that are looked at to find when it became the first that waited."""

AHEAD_MOST = 200
"""So many that wait before it are followed until they leave."""


def why_then(history: History, operation_id: int, seq: int) -> dict[str, Any] | None:
    """Why it waited as of event `seq`: `seq`, `reasons` and `waits` as `explain_operation` gives them; None unless it was queued."""
    table = history.table_at(seq)
    row = queued_row(table, operation_id)
    if row is None:
        return None
    found = explain_operation(table, row)
    return {"seq": seq, "at_us": table.shard.now_us, "reasons": found["reasons"], "waits": found["waits"]}


def queued_row(table: Table, operation_id: int) -> OperationRow | None:
    """The operation's row, if it waits in the queue."""
    row = answers.find(table, operation_id)
    return row if row is not None and row.stage == STAGE_QUEUED else None


def first_in_line(history: History, operation_id: int, from_seq: int, to_seq: int) -> int | None:
    """The event since which it is the first that waits, between two events in one wait of it; None when it is not at `to_seq`.

    It is when the last of those has left that were ahead of it at `from_seq`; where more came before it since, it is looked for by
    halves, so something that came and went in between is passed over.
    """
    if not _is_head(history, operation_id, to_seq):
        return None
    ahead = _ahead_of(history.table_at(from_seq), operation_id)
    if ahead is not None:
        left = [left_queue(history, other, from_seq) for other in ahead]
        last = max((event.seq for event in left if event is not None), default=from_seq)
        if None not in left and last <= to_seq and _is_head(history, operation_id, last):
            return last
    not_yet, since = from_seq - 1, to_seq
    for _ in range(ASKED_AT_MOST):
        if since - not_yet <= 1:
            break
        middle = (not_yet + since) // 2
        if _is_head(history, operation_id, middle):
            since = middle
        else:
            not_yet = middle
    return since


def stood_before(history: History, operation_id: int, seq: int) -> dict[str, Any] | None:
    """Who was first in the queue until event `seq` made the operation so; None where nobody was.

    `operation` is that one; `never` as `never_runs` has it; `nothing_held` whether for that nobody could be held although the
    configuration has a hold; `left` the event that ended it, with what was behind that.
    """
    table = history.table_at(seq - 1)
    row = queued_row(table, operation_id)
    head = None if row is None else head_of(table, row.instance)
    if head is None or head.operation_id == operation_id:
        return None
    instance = next(instance_rows(table, head.instance))
    standings = Standings(table, instance, head)
    never = never_runs(instance, head, standings)
    before = {
        "operation": brief(table, head),
        "never": never,
        "nothing_held": never is not None and not never["no_workers"] and standings.config.hold is not None,
    }
    (told,) = history.events_between(seq, seq)
    left = described(history, told)
    if left is not None and isinstance(told.event, e.OperationFinished):
        left["because"] = cause_of_end(history, told)
    return {**before, "left": left}


def _ahead_of(table: Table, operation_id: int) -> list[int] | None:
    """Those that wait before it; None where they are more than `AHEAD_MOST`, or it does not wait."""
    row = queued_row(table, operation_id)
    if row is None:
        return None
    own = queue_key(table, row)
    ahead: list[int] = []
    for key, identity in table.scan(table.key(keys.QUEUED, keys.named(row.instance))):
        if key >= own:
            return ahead
        ahead.append(int.from_bytes(identity, "big"))
        if len(ahead) > AHEAD_MOST:
            return None
    return ahead


def left_queue(history: History, operation_id: int, seq: int) -> e.Event | None:
    """The event after `seq` with which an operation left the queue; None: it did not."""
    for told in history.events_of_operation(operation_id):
        if told.event.seq > seq and isinstance(told.event, e.OperationDispatched | e.OperationFinished):
            return told.event
    return None


def _is_head(history: History, operation_id: int, seq: int) -> bool:
    table = history.table_at(seq)
    row = queued_row(table, operation_id)
    if row is None:
        return False
    head = head_of(table, row.instance)
    return head is not None and head.operation_id == operation_id
