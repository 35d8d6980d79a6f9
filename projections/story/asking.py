"""The stories that a name means, as commands and views answer them: one JSON value each, of any moment of a history."""

from collections.abc import Sequence
from typing import Any

from events import events as e
from events.reasons import Explanation, sentence
from projections import answers
from projections.explain import explain_hold, explain_operation
from projections.fleet import instance_rows
from projections.story.history import History
from projections.story.hold import (
    HoldTold,
    hold_made_at,
    holds_of_instance,
    holds_of_operation,
    holds_of_worker,
    nobody_held,
    outline,
    story_of_hold,
)
from projections.story.operation import story_of_operation
from projections.story.worker import story_of_worker

OTHERS_LISTED = 20
"""Holds that are listed beside the one that is told, the latest."""


class NothingTold(LookupError):
    """A name means nothing in a history, or nothing that can be told; `remedy` says what to do."""

    def __init__(self, message: str, remedy: str, *, code: str = "not-found") -> None:
        super().__init__(message)
        self.message, self.remedy, self.code = message, remedy, code


NEAR = "`headway operation list` names those that are kept, `headway events tail` every event; both take --file DIR"


def operation_told(history: History, name: str, instance: str | None, seq: int | None) -> dict[str, Any]:
    """Why an operation was where it was as of event `seq` (None: the last), as `explain_operation` has it, and its `story`.

    Of a forgotten one `operation` is null and the reason is that it has ended. Raises NothingTold.
    """
    identity = operation_named(history, name, instance, seq)
    story = story_of_operation(history, identity, seq)
    if story is None:
        raise _no_operation(history, name, seq)
    return {**_operation_as_of(history, identity, history.last_seq if seq is None else seq), "story": story}


def placement_told(history: History, name: str, instance: str | None) -> dict[str, Any]:
    """The same as of the event before its last dispatch, with `placed`: where it went then, and who held what of its inputs.

    Raises NothingTold, also where it was never dispatched.
    """
    identity = operation_named(history, name, instance, None)
    dispatches = [
        told.event for told in history.events_of_operation(identity) if isinstance(told.event, e.OperationDispatched)
    ]
    if not dispatches:
        found = story_of_operation(history, identity) or {}
        raise NothingTold(
            f"operation op-{identity} ({name}) is {found.get('stage')} and was never placed",
            "Without --at-placement it is explained as it stands now; --at takes any moment",
            code="not-placed",
        )
    last = dispatches[-1]
    # The rows before a dispatch cannot say what it was told of holders; the dispatch itself does.
    placed = {
        "endpoint": last.endpoint,
        "dispatch_id": last.seq,
        "holders": [{"endpoint": held.endpoint, "bytes": held.bytes} for held in last.holders],
        "saved_bytes": last.saved_bytes,
    }
    story = story_of_operation(history, identity, last.seq - 1)
    return {**_operation_as_of(history, identity, last.seq - 1), "placed": placed, "story": story}


def hold_told(
    history: History, name: str | None, instance: str, seq: int | None, *, anywhere: bool = True
) -> dict[str, Any]:
    """The last hold that a name means as of event `seq`: of an operation, a worker or an instance, or the one called `hold-SEQ`.

    `hold`, `absence` and the rest are as `explain_hold` has them; `story` is null where there never was one, `nobody_held` are the times
    that no worker could be held for the operation, `other_holds` the others that the name means.

    Args:
        instance: the one that is meant where `name` is None or a worker.
        anywhere: whether an operation of another instance of the shard may be meant.
    Raises NothingTold.
    """
    last_seq = history.last_seq if seq is None else seq
    lives, where, identity = _lives(history, name, instance, last_seq, anywhere=anywhere)
    told = lives[-1] if lives else None
    others = [life for life in lives if life is not told][-OTHERS_LISTED:]
    return {
        **_hold_as_of(history, where, identity, last_seq),
        "story": None if told is None else story_of_hold(history, told, last_seq),
        "other_holds": [outline(history, life, last_seq) for life in others],
        "more_holds": max(0, len(lives) - 1 - OTHERS_LISTED),
        "nobody_held": [] if identity is None else nobody_held(history, identity, last_seq),
    }


def worker_told(
    history: History, endpoint: str, instance: str, seq: int | None, from_seq: int | None = None
) -> dict[str, Any]:
    """The `story` of a worker up to event `seq`, from `from_seq` on. Raises NothingTold."""
    last_seq = history.last_seq if seq is None else seq
    story = story_of_worker(history, instance, endpoint, seq, from_seq)
    if story is None:
        raise NothingTold(
            f"no worker {endpoint!r} connected to instance {instance} in shard {history.shard} up to seq {last_seq}",
            "`headway worker list` names those that are connected; --instance names another instance",
        )
    return {"story": story, **stamp(history, last_seq)}


def stamp(history: History, seq: int) -> dict[str, Any]:
    """From which event an answer is; `age_ms` is null, since the past does not grow old."""
    return {"seq": seq, "age_ms": None, "shards": [{"shard": history.shard, "seq": seq, "age_ms": None}]}


def operation_named(history: History, name: str, instance: str | None, seq: int | None) -> int:
    """The operation that a person means, as it was called at the moment. Raises NothingTold."""
    named = [
        identity
        for identity in history.operations_named(name, instance)
        if seq is None or any(told.event.seq <= seq for told in history.events_of_operation(identity)[:1])
    ]
    if named:
        return named[-1]
    number = _number(name)
    if number is not None and any(
        isinstance(told.event, e.OperationQueued) for told in history.events_of_operation(number)
    ):
        return number
    raise _no_operation(history, name, seq)


def hold_number(name: str | None) -> int | None:
    """The seq in `hold-SEQ`; None for any other name."""
    number = (name or "").removeprefix("hold-")
    return int(number) if name and number != name and number.isascii() and number.isdigit() else None


def _number(name: str) -> int | None:
    """The id in `INSTANCE/op-N`, `op-N` and `N`."""
    _, _, last = name.rpartition("/")
    number = last.removeprefix("op-")
    return int(number) if number.isascii() and number.isdigit() and len(number) < 19 else None


def _no_operation(history: History, name: str, seq: int | None) -> NothingTold:
    upto = history.last_seq if seq is None else seq
    return NothingTold(
        f"no operation {name!r} was queued in shard {history.shard} up to seq {upto}",
        f"Is it of another instance (--instance)? {NEAR}",
    )


def _operation_as_of(history: History, identity: int, seq: int) -> dict[str, Any]:
    table = history.table_at(seq)
    row = answers.find(table, identity)
    if row is not None:
        return {**explain_operation(table, row), **stamp(history, seq)}
    ended = [{"reason": Explanation.FINISHED.name.lower(), "sentence": sentence(Explanation.FINISHED)}]
    return {"operation": None, "reasons": ended, "waits": None, "runs": None, "ended": None, **stamp(history, seq)}


def _hold_as_of(history: History, instance: str, identity: int | None, seq: int) -> dict[str, Any]:
    table = history.table_at(seq)
    row = next(instance_rows(table, instance), None)
    if row is None:
        raise NothingTold(
            f"instance {instance!r} is not in shard {history.shard} at seq {seq}",
            f"`headway instance list` names them. {NEAR}",
        )
    asked = None if identity is None else answers.find(table, identity)
    return {**explain_hold(table, row, asked), **stamp(history, seq)}


def _lives(
    history: History, name: str | None, instance: str, last_seq: int, *, anywhere: bool
) -> tuple[Sequence[HoldTold], str, int | None]:
    """The holds that a name means, their instance, and the operation where it is one's name."""
    made_by = hold_number(name)
    if made_by is not None:
        life = hold_made_at(history, made_by, last_seq)
        if life is None:
            raise NothingTold(
                f"event {made_by} of shard {history.shard} made no hold up to seq {last_seq}",
                "`headway explain hold INSTANCE` lists the holds of an instance with their names",
            )
        return [life], life.event.instance, life.event.operation_id
    if name is None or any(row.name == name for row in instance_rows(history.table_at(last_seq))):
        return holds_of_instance(history, name or instance, last_seq), name or instance, None
    try:
        identity = operation_named(history, name, None if anywhere else instance, last_seq)
    except NothingTold:
        if history.events_of_worker(instance, name):
            return holds_of_worker(history, instance, name, last_seq), instance, None
        raise NothingTold(
            f"{name!r} is no operation, worker or instance of shard {history.shard} up to seq {last_seq}",
            "`headway explain hold` without a name tells of the instance's last hold and lists others",
        ) from None
    queued = history.events_of_operation(identity)[0].event
    return holds_of_operation(history, identity, last_seq), getattr(queued, "instance", "") or instance, identity
