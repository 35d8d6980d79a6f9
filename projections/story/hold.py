"""The story of a hold: for whom and why it was made, who else could have been held, where it moved, how it ended and what it cost."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from events import events as e
from projections import answers
from projections.explaining.held import held_worker
from projections.fleet import config_of, instance_rows
from projections.holding import bases, exclusions
from projections.story.causes import cause_of_hold, what_made_room
from projections.story.history import History, Told
from projections.story.hold_cost import Held, cost_of
from projections.story.links import facts_events, link, reason_of, who
from projections.story.waits import why_then


@dataclass(slots=True)
class HoldTold:
    """The events of one hold."""

    made: Told
    moves: list[Told] = field(default_factory=list)
    released: Told | None = None

    @property
    def event(self) -> e.HoldMade:
        """The event that made it."""
        assert isinstance(self.made.event, e.HoldMade), "a hold begins with HoldMade"
        return self.made.event

    @property
    def hold_id(self) -> str:
        """What it is called: `hold-` and the seq of `HoldMade`."""
        return f"hold-{self.event.seq}"


def holds_of_operation(history: History, operation_id: int, last_seq: int) -> list[HoldTold]:
    """The holds for an operation up to an event, in order."""
    return _lives(history.events_of_operation(operation_id), last_seq)


def holds_of_worker(history: History, instance: str, endpoint: str, last_seq: int) -> list[HoldTold]:
    """The holds that were made on a worker or moved to it, in order."""
    operations: dict[int, None] = {}
    for told in history.events_of_worker(instance, endpoint):
        event = told.event
        made = isinstance(event, e.HoldMade) and event.endpoint == endpoint
        moved = isinstance(event, e.HoldMoved) and event.to_endpoint == endpoint
        if (made or moved) and event.seq <= last_seq:
            operations[getattr(event, "operation_id", 0)] = None
    lives = [life for operation_id in operations for life in holds_of_operation(history, operation_id, last_seq)]
    mine = [life for life in lives if endpoint in _endpoints(life)]
    return sorted(mine, key=lambda life: life.event.seq)


def holds_of_instance(history: History, instance: str, last_seq: int) -> list[HoldTold]:
    """Every hold of an instance, in order."""
    return _lives(history.events_of_instance(instance, 1, last_seq), last_seq)


def hold_made_at(history: History, seq: int, last_seq: int) -> HoldTold | None:
    """The hold that event `seq` made; None when it made none."""
    told = history.events_between(seq, seq)
    if not told or not isinstance(told[0].event, e.HoldMade):
        return None
    lives = holds_of_operation(history, told[0].event.operation_id, last_seq)
    return next((life for life in lives if life.event.seq == seq), None)


def _lives(told: Sequence[Told], last_seq: int) -> list[HoldTold]:
    lives: list[HoldTold] = []
    for each in told:
        if each.event.seq > last_seq:
            break
        match each.event:
            case e.HoldMade():
                lives.append(HoldTold(each))
            case e.HoldMoved() if lives:
                lives[-1].moves.append(each)
            case e.HoldReleased() if lives and lives[-1].released is None:
                lives[-1].released = each
    return lives


def _endpoints(life: HoldTold) -> list[str]:
    return [life.event.endpoint, *(getattr(move.event, "to_endpoint", "") for move in life.moves)]


def outline(history: History, life: HoldTold, last_seq: int) -> dict[str, Any]:
    """A hold in a line: what it is called, for whom, on which worker, since when and how it ended."""
    ended = life.released.event if life.released is not None else None
    assert ended is None or isinstance(ended, e.HoldReleased)
    table = history.table_at(last_seq)
    return {
        **link(life.made),
        "hold": life.hold_id,
        "operation": who(history, table, life.event.operation_id),
        "endpoint": _endpoints(life)[-1],
        "moves": len(life.moves),
        "held_us": ended.held_us if ended is not None else table.shard.now_us - life.event.at_us,
        "ended": None if ended is None else reason_of(ended.reason),
    }


def story_of_hold(history: History, life: HoldTold, seq: int | None = None) -> dict[str, Any]:
    """The story of a hold up to event `seq` (None: to the end of the history).

    `made`, `moves` and `ended` have the link to their event each; `ended` is null while it stands. `made` has the closest candidates as
    the decider recorded them, `worker` as it stood then (`explaining.held`), and `why` the operation waited then. `cost` is as
    `hold_cost.cost_of` gives it.
    """
    last_seq = history.last_seq if seq is None else min(seq, history.last_seq)
    made = life.event
    now_us = history.table_at(last_seq).shard.now_us
    ended = life.released
    until_seq, until_us = (ended.event.seq, ended.event.at_us) if ended is not None else (last_seq, now_us)
    return {
        "subject": "hold",
        "hold": life.hold_id,
        "instance": made.instance,
        "operation": who(history, history.table_at(last_seq), made.operation_id),
        "endpoint": _endpoints(life)[-1],
        "from_us": made.at_us,
        "held_us": until_us - made.at_us,
        "made": _made(history, life),
        "moves": [_moved(history, each, made.at_us) for each in life.moves],
        "ended": None if ended is None else _ended(history, ended, made.at_us),
        "cost": cost_of(
            history, made.instance, made.operation_id, made.requirement_id, _held(life, until_seq, until_us)
        ),
        "operation_now": _fate(history, made.operation_id, last_seq),
        "as_of": {"seq": last_seq, "at_us": now_us, "shard": history.shard},
    }


def _held(life: HoldTold, until_seq: int, until_us: int) -> list[Held]:
    """The workers that were held in turn. The last event of one is the first of the next; of the last it is the one before the end."""
    turns = [(life.event.endpoint, life.made), *((getattr(each.event, "to_endpoint", ""), each) for each in life.moves)]
    ends = [*((each.event.seq - 1, each.event.at_us) for each in life.moves), (until_seq, until_us)]
    return [
        Held(endpoint, told.event.seq, told.event.at_us, max(end_seq, told.event.seq), end_us)
        for (endpoint, told), (end_seq, end_us) in zip(turns, ends, strict=True)
    ]


def _made(history: History, life: HoldTold) -> dict[str, Any]:
    made = life.event
    table = history.table_at(made.seq)
    instance = next(instance_rows(table, made.instance))
    policy = config_of(instance).hold
    worker = held_worker(table, instance)
    past = None
    if made.overtaken_by is not None:
        past = _past(history, life.made, lambda dispatch: dispatch.operation_id == made.overtaken_by)
        past = past or who(history, table, made.overtaken_by) | {"endpoint": None, "dispatch": None}
    return {
        **link(life.made),
        "after_us": 0,
        "endpoint": made.endpoint,
        "policy": None if policy is None else policy.model_dump(mode="json"),
        "waited_us": made.waited_us,
        "overtaken_by": past,
        **_choice(made),
        "worker": worker,
        "why": why_then(history, made.operation_id, made.seq),
    }


def _past(history: History, told: Told, which: Callable[[e.OperationDispatched], bool]) -> dict[str, Any] | None:
    """Of the same fact, before this event: the first operation so dispatched, where to, and the link to that."""
    before, _ = facts_events(history, told)
    for each in before:
        if isinstance(each.event, e.OperationDispatched) and which(each.event):
            table = history.table_at(told.event.seq)
            return {
                **who(history, table, each.event.operation_id),
                "endpoint": each.event.endpoint,
                "dispatch": link(each),
            }
    return None


def nobody_held(history: History, operation_id: int, last_seq: int) -> list[dict[str, Any]]:
    """Each time up to an event that nobody could be held for an operation: after what wait, who went past it, and the counts of why."""
    found = []
    for told in history.events_of_operation(operation_id):
        event = told.event
        if isinstance(event, e.HoldNoCandidate) and event.seq <= last_seq:
            found.append(
                {
                    **link(told),
                    "operation": who(history, history.table_at(event.seq), operation_id),
                    "waited_us": event.waited_us,
                    "overtaken_by": _past(history, told, lambda dispatch: dispatch.overtook == operation_id),
                    "excluded": exclusions(event.excluded),
                }
            )
    return found


def _choice(event: e.HoldMade | e.HoldMoved) -> dict[str, Any]:
    """Between whom the decider chose, who was left out, and when the chosen one was expected to have room, from what."""
    return {
        "candidates": [
            {
                "endpoint": each.endpoint,
                "shortfall_milli": each.shortfall_milli,
                "running": each.running,
                **_free(event, each.free_at_us),
            }
            for each in event.candidates
        ],
        "more_candidates": event.more_candidates,
        "excluded": exclusions(event.excluded),
        **_free(event, event.free_at_us),
        "basis": [
            {**each, "last_end_after_us": None if each["last_end_us"] is None else each["last_end_us"] - event.at_us}
            for each in bases(event.basis)
        ],
    }


def _free(event: e.HoldMade | e.HoldMoved, free_at_us: int) -> dict[str, int | None]:
    return {"free_at_us": free_at_us or None, "free_after_us": free_at_us - event.at_us if free_at_us else None}


def _moved(history: History, told: Told, from_us: int) -> dict[str, Any]:
    event = told.event
    assert isinstance(event, e.HoldMoved)
    return {
        **link(told),
        "after_us": event.at_us - from_us,
        "from_endpoint": event.from_endpoint,
        "endpoint": event.to_endpoint,
        "cause": reason_of(event.cause),
        "because": cause_of_hold(history, told),
        **_choice(event),
    }


def _ended(history: History, told: Told, from_us: int) -> dict[str, Any]:
    event = told.event
    assert isinstance(event, e.HoldReleased)
    because = cause_of_hold(history, told)
    room = None
    if because is not None and because["event"] == "OperationDispatched":
        (dispatch,) = history.events_between(because["seq"], because["seq"])
        room = what_made_room(history, dispatch)
    return {
        **link(told),
        "after_us": event.at_us - from_us,
        "endpoint": event.endpoint,
        "reason": reason_of(event.reason),
        "because": because,
        "elsewhere": because is not None and room is not None and because.get("endpoint") != event.endpoint,
        "room": room,
    }


def _fate(history: History, operation_id: int, last_seq: int) -> dict[str, Any]:
    """What became of the operation: where it stands at the end of the story."""
    row = answers.find(history.table_at(last_seq), operation_id)
    waited_us = 0
    since_us = outcome = None
    for told in history.events_of_operation(operation_id):
        event = told.event
        if event.seq > last_seq:
            break
        match event:
            case e.OperationQueued():
                since_us = event.queued_at_us
            case e.OperationRequeued():
                since_us = event.at_us
            case e.OperationDispatched() | e.OperationFinished() if since_us is not None:
                waited_us += event.at_us - since_us
                since_us = None
        if isinstance(event, e.OperationFinished):
            outcome = event.outcome.name.lower()
    return {
        "stage": answers.STAGES[row.stage] if row is not None else None,
        "outcome": outcome,
        "waited_us": waited_us,
        "still_waits": since_us is not None,
    }
