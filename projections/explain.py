"""Why is it pending, and what is that hold for: answers from the rows, as of the position they stand at.

An explanation never has an empty reason: each operation is somewhere, and each connected worker has exactly one standing to it. Its
size does not grow with the fleet or the queue: workers and operations are named up to a few and counted beyond.
"""

from typing import Any

from events.reasons import Explanation, Outcome, sentence
from projections import answers, keys
from projections.ending import exit_code_of
from projections.explaining.absence import why_not_held
from projections.explaining.held import given_back_at_us, held_worker
from projections.explaining.queueing import brief, head_of
from projections.explaining.waiting import why_it_waits
from projections.fleet import config_of, instance_rows
from projections.holding import hold_of
from projections.table import Table
from proto.gen.headway.v1 import rows_pb2
from proto.gen.headway.v1.rows_pb2 import InstanceRow, OperationRow


def explain_operation(table: Table, row: OperationRow) -> dict[str, Any]:
    """Why an operation is where it is.

    Returns `operation` as `answers.operation` gives it; `reasons`, each with its sentence and never empty; and one of `waits` (queued:
    see `why_it_waits`), `runs` (executing) and `ended` (finished), the others null.
    """
    instance = next(instance_rows(table, row.instance))
    found: dict[str, Any] = {"waits": None, "runs": None, "ended": None}
    match row.stage:
        case rows_pb2.STAGE_EXECUTING:
            reasons = [Explanation.ACCEPTED if row.dispatch.accepted else Explanation.PLACED]
            found["runs"] = _runs(table, row)
        case rows_pb2.STAGE_FINISHED:
            reasons = [Explanation.FINISHED]
            found["ended"] = _ended(table, row)
        case rows_pb2.STAGE_CACHE_CHECK:
            reasons = [Explanation.CACHE_LOOKUP]
        case rows_pb2.STAGE_FORWARDED:
            reasons = [Explanation.FORWARDED]
        case _:
            reasons, found["waits"] = why_it_waits(table, instance, row)
    return {
        "operation": answers.operation(table, row),
        "reasons": [{"reason": reason.name.lower(), "sentence": sentence(reason)} for reason in reasons],
        **found,
    }


def explain_hold(table: Table, instance: InstanceRow, asked: OperationRow | None = None) -> dict[str, Any]:
    """The hold of an instance, or why there is none: for `asked` where given, else for the first operation that waits.

    `hold` is as `holding.hold_of` gives it, `worker` the held worker as it drains; without a hold (for `asked`) they are null and
    `absence` says why.
    """
    config = config_of(instance)
    hold = hold_of(table, instance)
    stands = hold is not None and (asked is None or hold["operation_id"] == asked.operation_id)
    subject = asked
    if subject is None and hold is not None:
        subject = answers.find(table, hold["operation_id"])
    if subject is None:
        subject = head_of(table, instance.name)
    return {
        "instance": instance.name,
        "policy": None if config.hold is None else config.hold.model_dump(mode="json"),
        "operation": None if subject is None else answers.operation(table, subject),
        "hold": hold if stands else None,
        "worker": held_worker(table, instance) if stands else None,
        "given_back_at_us": given_back_at_us(instance, config) if stands else None,
        "absence": None if stands else why_not_held(table, instance, subject, config),
        "other_hold": None if stands else hold,
        "overtaken_by": _named(table, hold["overtaken_by"]) if stands and hold is not None else None,
    }


def _runs(table: Table, row: OperationRow) -> dict[str, Any]:
    """Where and since when it executes, and how it came there."""
    dispatch = row.dispatch
    return {
        "endpoint": dispatch.endpoint,
        "dispatch_id": dispatch.dispatch_id,
        "dispatched_at_us": dispatch.dispatched_at_us,
        "for_us": max(0, table.shard.now_us - dispatch.dispatched_at_us),
        "waited_us": max(0, dispatch.dispatched_at_us - row.queued_since_us),
        "overtook": _named(table, dispatch.overtook) if dispatch.HasField("overtook") else None,
        "backfilled": dispatch.backfilled,
        "holders": answers.holders_of(dispatch),
        "saved_bytes": dispatch.saved_bytes,
    }


def _ended(table: Table, row: OperationRow) -> dict[str, Any]:
    """How it ended, and where it ran last."""
    outcome = Outcome(row.outcome)
    dispatch = row.dispatch if row.HasField("dispatch") else None
    return {
        "outcome": outcome.name.lower(),
        "sentence": sentence(outcome),
        "message": row.message or None,
        "exit_code": exit_code_of(outcome, row.exit_code),
        "finished_at_us": row.finished_at_us,
        "endpoint": dispatch and dispatch.endpoint,
        "dispatch_id": dispatch and dispatch.dispatch_id,
        "ran_us": max(0, row.finished_at_us - dispatch.dispatched_at_us) if dispatch else None,
        "waited_us": max(0, (dispatch.dispatched_at_us if dispatch else row.finished_at_us) - row.queued_since_us),
    }


def _named(table: Table, operation_id: int | None) -> dict[str, Any] | None:
    """An operation by its id, in a few words; only the id where it is forgotten by now; None for None."""
    if operation_id is None:
        return None
    row = table.find(table.key(keys.OPERATION, keys.number(operation_id)), OperationRow)
    return {"operation_id": operation_id} if row is None else brief(table, row)
