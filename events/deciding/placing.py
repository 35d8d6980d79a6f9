"""The pass: place what fits, in queue order, until nothing queued fits any worker (section 4).

Which action is next is never a matter of who holds what. Under `locality.prefer_from_bytes` only the worker may be another one than the
strategy's: of those that could take this very action now, one that holds enough bytes of its inputs, and more than the strategy's own
choice does (field failure 85).
"""

from collections.abc import Sequence

from events.deciding import holding
from events.deciding.step import Step
from events.events import OperationDispatched
from events.fitting import may_take
from events.matching import Match
from events.reasons import HoldEnd
from events.state import Instance, Operation, Worker
from events.values import Holding


def place(step: Step) -> None:
    """Run the pass of every instance. It touches only what this fact could have changed (events/matching)."""
    for instance in step.shard.instances.values():
        if instance.config.hold is not None:
            _place_around_hold(step, instance)
        elif not instance.paused:
            next_match = instance.matcher.next_match
            while (match := next_match()) is not None:
                _dispatch(step, instance, match)


def preferred(instance: Instance, match: Match, holders: Sequence[Holding], own_bytes: int, from_bytes: int) -> Worker:
    """The worker that gets the action: of `holders` with `from_bytes` or more, the most first, the first that could take it now.

    The strategy's choice holds `own_bytes`, and is left only for one that holds more: where all hold the same, the strategy decides.
    "Could" is what the pass itself asks of a worker (`fitting.may_take`), so the rows after the dispatch are ones a pass may leave behind.
    A held worker is left to its hold: it is not preferred, and what the pass gave it stays there (H15-H17, backfill).
    """
    hold = instance.hold
    held = None if hold is None else hold.worker
    if match.worker is held:
        return match.worker
    for endpoint, held_bytes in sorted(holders, key=_most_bytes_first):  # stable: equals stay as they were answered
        if held_bytes < from_bytes or held_bytes <= own_bytes:
            break
        worker = instance.workers.get(endpoint)
        if worker is None or worker is held:
            continue
        if may_take(worker, match.operation.demand, instance.config, instance.pools):
            return worker
    return match.worker


def _most_bytes_first(holder: Holding) -> int:
    return -holder.bytes


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
    _dispatch(step, instance, match)
    if hold is not None and hold.operation is match.operation:
        # The fold of the dispatch has cleared the hold: no state shows both. This says so, on whatever worker it landed.
        holding.say_released(step, hold, HoldEnd.PLACED)


def _dispatch(step: Step, instance: Instance, match: Match) -> None:
    operation, worker = match.operation, match.worker
    holders: tuple[Holding, ...] = ()
    saved_bytes = 0
    from_bytes = instance.config.locality.prefer_from_bytes
    if from_bytes is not None and operation.command:
        holders = step.holders_of(operation)
        # What is named is exact, and recorded: asked only for who is not, the log gives the same answers again.
        named = dict(holders)
        own = named.get(worker.endpoint)
        own_bytes = step.bytes_at(operation, worker.endpoint) if own is None else own
        worker = preferred(instance, match, holders, own_bytes, from_bytes)
        saved_bytes = own_bytes if worker is match.worker else named[worker.endpoint]
    step.emit(
        OperationDispatched,
        operation.operation_id,
        worker.endpoint,
        worker.connection_id,
        match.overtook,
        match.backfilled,
        holders,
        saved_bytes,
    )
