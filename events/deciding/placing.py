"""The pass: place what fits, in queue order, until nothing queued fits any worker (section 4)."""

from events.deciding import holding
from events.deciding.step import Step
from events.events import OperationDispatched
from events.matching import Match
from events.reasons import HoldEnd
from events.state import Instance, Operation


def place(step: Step) -> None:
    """Run the pass of every instance. It touches only what this fact could have changed (events/matching)."""
    for instance in step.shard.instances.values():
        if instance.config.hold is not None:
            _place_around_hold(step, instance)
        elif not instance.paused:
            next_match = instance.matcher.next_match
            while (match := next_match()) is not None:
                _dispatch(step, match)


def _place_around_hold(step: Step, instance: Instance) -> None:
    """The same pass where a hold may stand or be made; a change of it gives or takes room, so the matcher is asked again."""
    holding.keep_valid(step, instance)
    if not instance.paused:
        matcher = instance.matcher
        placed: list[Operation] = []
        while True:
            match = matcher.next_match(step.now_us)
            if holding.meet(step, instance, match):
                continue
            if match is not None:
                _dispatch_around_hold(step, instance, match)
                placed.append(match.operation)
                holding.keep_valid(step, instance)  # the held worker may have been given all it may have unaccepted
            elif not holding.close_pass(step, instance, placed):
                break
    holding.close_fact(step, instance)


def _dispatch_around_hold(step: Step, instance: Instance, match: Match) -> None:
    hold = instance.hold
    _dispatch(step, match)
    if hold is not None and hold.operation is match.operation:
        # The fold of the dispatch has cleared the hold: no state shows both. This says so, on whatever worker it landed.
        holding.say_released(step, hold, HoldEnd.PLACED)


def _dispatch(step: Step, match: Match) -> None:
    worker = match.worker
    step.emit(
        OperationDispatched,
        match.operation.operation_id,
        worker.endpoint,
        worker.connection_id,
        match.overtook,
        match.backfilled,
    )
