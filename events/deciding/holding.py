"""The head-of-line hold: keep one busy worker draining for the action that later ones keep overtaking (section 5).

At most one hold per instance (H2). The pass calls `keep_valid` before it begins and after each placement, `meet` whenever it has come
past the held action or a parked head, and `close_pass` at its fixpoint. All of it runs only under a configuration with a hold (H1).
"""

from collections.abc import Sequence

from events import events as e
from events.config import SECOND_US
from events.config.hold import BackfillHold, DrainTimeHold, HoldConfig
from events.deciding.candidates import Census, Choice, Spared, awaits_acceptance, could_hold_for
from events.deciding.draining import choose_by_drain
from events.deciding.step import Step
from events.evolving.rows import demand_of
from events.fitting import Demand
from events.matching import Match
from events.reasons import HoldEnd, HoldMove
from events.state import Hold, Instance, Operation, Stage


def keep_valid(step: Step, instance: Instance) -> None:
    """Release a hold whose action left the queue; move one whose worker left, was drained or paused (5.4).

    It runs after everything else a fact causes, in the pass, and also while the instance is paused: so between two facts a hold's
    action is queued and its worker is connected, neither draining nor paused, whatever the fact was (V-5).
    """
    hold = instance.hold
    if hold is None:
        return
    worker = hold.worker
    if hold.operation.stage is not Stage.QUEUED:
        release(step, instance, HoldEnd.GONE)
    elif instance.workers.get(worker.endpoint) is not worker:
        _move(step, instance, hold, HoldMove.WORKER_LEFT)
    elif worker.draining:
        _move(step, instance, hold, HoldMove.DRAINED)
    elif worker.paused or awaits_acceptance(worker):
        _move(step, instance, hold, HoldMove.PAUSED)


def meet(step: Step, instance: Instance, match: Match | None) -> bool:
    """The pass goes on with `match` (None: with nothing). Whether the hold changed, so that it has to ask again.

    Where it has come past the held action, that found no room anywhere: its worker is looked at again (H18-H20). Under `backfill` a head
    without room gets its worker here, before anything overtakes it.
    """
    hold = instance.hold
    if (
        hold is not None
        and (match is None or match.operation.sort_key > hold.operation.sort_key)
        and not _still_fit(step, instance, hold)
    ):
        return True
    if isinstance(instance.config.hold, BackfillHold) and (match is None or match.overtook is not None):
        return _reserve(step, instance, instance.config.hold)
    return False


def close_pass(step: Step, instance: Instance, placed: Sequence[Operation]) -> bool:
    """At the fixpoint: hold a worker for the head when it has waited and one of `placed` overtook it (H3-H7).

    Returns whether room was given back, so that the pass has to go on.
    """
    policy = instance.config.hold
    head = instance.matcher.head()
    if policy is None or isinstance(policy, BackfillHold) or head is None or not placed:
        return False
    hold = instance.hold
    if (hold is not None and hold.operation is head) or not _has_waited(step, head, policy):
        return False
    overtaking = next((operation for operation in placed if operation.sort_key > head.sort_key), None)
    if overtaking is None:
        return False
    if hold is not None:
        if could_hold_for(hold.worker, head.demand, instance.config, instance.pools):
            return False  # the head sorts first, so it takes that room first
        release(step, instance, HoldEnd.SUPERSEDED)
    _make(step, instance, head, overtaking.operation_id)
    return hold is not None


def close_fact(step: Step, instance: Instance) -> None:
    """Note which workers this fact changed, for the next choice."""
    census = instance.census
    if census is not None and not census.note(step.shard, step.events):
        instance.census = None


def release(step: Step, instance: Instance, reason: HoldEnd) -> None:
    """End the hold of the instance, which has one."""
    hold = instance.hold
    assert hold is not None, "only a hold that stands is released"
    say_released(step, hold, reason)


def say_released(step: Step, hold: Hold, reason: HoldEnd) -> None:
    """Emit `HoldReleased` for this hold, which may have been cleared by the dispatch before it (`placed`)."""
    held_us = step.now_us - hold.made_at_us
    operation = hold.operation
    step.emit(e.HoldReleased, operation.instance, operation.operation_id, hold.worker.endpoint, reason, held_us)


def policy_changed(step: Step, instance: Instance, before: HoldConfig | None) -> None:
    """Another configuration is in force; `before` is the hold's policy until now. A hold made under another policy ends."""
    if instance.hold is not None and instance.config.hold != before:
        release(step, instance, HoldEnd.CONFIGURED)


def expire(step: Step, instance: Instance) -> None:
    """`max_hold_s` is over: the worker is given back."""
    release(step, instance, HoldEnd.EXPIRED)


def _still_fit(step: Step, instance: Instance, hold: Hold) -> bool:
    """Whether the held worker is still worth waiting for (H20a): a worker that runs nothing and has no room is refusing."""
    worker = hold.worker
    if worker.running:
        if could_hold_for(worker, hold.operation.demand, instance.config, instance.pools):
            return True
    elif worker.free_memory_kib is not None and worker.free_memory_kib != worker.idle_free_kib:
        step.emit(e.WorkerIdleCapped, instance.name, worker.endpoint, worker.free_memory_kib)
    release(step, instance, HoldEnd.UNFIT)
    return False


def _has_waited(step: Step, operation: Operation, policy: HoldConfig) -> bool:
    """H4, H5: since it was last queued. After a hold that expired, the fleet is left alone for at least as long as that one lasted."""
    if step.now_us - operation.queued_since_us < policy.after_s * SECOND_US:
        return False
    given_up_at_us = operation.hold_expired_at_us
    pause_s = max(policy.after_s, policy.max_hold_s or 0)
    return not given_up_at_us or step.now_us - given_up_at_us >= pause_s * SECOND_US


def _reserve(step: Step, instance: Instance, policy: BackfillHold) -> bool:
    """EASY: the head that found no room gets the worker that is expected free soonest. Whether anything changed."""
    head = instance.matcher.head()
    if head is None or not _has_waited(step, head, policy):
        return False
    hold = instance.hold
    if hold is None:
        return _make(step, instance, head, None)
    if hold.operation is not head:
        release(step, instance, HoldEnd.SUPERSEDED)
        _make(step, instance, head, None)
        return True
    census = _census(step, instance, head.demand)
    census.refresh()
    held = census.ranks.get(hold.worker.endpoint)
    best = census.closest()
    if best is not None and (held is None or best[0][0] < held[0]):
        choice = _choose(step, instance, head, head.demand)
        if choice.worker is not None and (held is None or choice.free_at_us < held[0]):
            _say_moved(step, instance, hold, HoldMove.SOONER, choice)
            return True
    # A run beyond its expected end is expected to end now, and so are all of them: what they leave free may be used beside the head.
    expected_us = 0 if held is None else max(held[0], step.now_us)
    if instance.matcher.held_free_at_us == expected_us:
        return False
    # Runs ended earlier or later than expected: the same worker, another time before which others may use it.
    instance.matcher.hold(hold.worker, head, free_at_us=expected_us, backfill=True)
    return True


def _make(step: Step, instance: Instance, head: Operation, overtaken_by: int | None) -> bool:
    """Hold the closest candidate for the head, or say once that there is none (H13, H14). Whether one was found."""
    choice = _choose(step, instance, head, head.demand)
    waited_us = step.now_us - head.queued_since_us
    if choice.worker is None:
        _say_no_candidate(step, instance, head, choice)
        return False
    step.emit(
        e.HoldMade,
        instance.name,
        head.operation_id,
        choice.worker.endpoint,
        head.demand.requirement_id,
        waited_us,
        overtaken_by,
        choice.candidates,
        choice.more_candidates,
        choice.excluded,
        choice.free_at_us,
        choice.basis,
    )
    return True


def _move(step: Step, instance: Instance, hold: Hold, cause: HoldMove) -> None:
    """Another worker for the same action, with what it asked for when the hold was made; where nobody qualifies, the hold ends."""
    choice = _choose(step, instance, hold.operation, demand_of(step.shard, instance, hold.requirement_id))
    if choice.worker is not None:
        _say_moved(step, instance, hold, cause, choice)
        return
    release(step, instance, HoldEnd.WORKER_LOST if cause is HoldMove.WORKER_LEFT else HoldEnd.UNFIT)
    _say_no_candidate(step, instance, hold.operation, choice)


def _say_moved(step: Step, instance: Instance, hold: Hold, cause: HoldMove, choice: Choice) -> None:
    assert choice.worker is not None, "a hold moves to somebody"
    step.emit(
        e.HoldMoved,
        instance.name,
        hold.operation.operation_id,
        hold.worker.endpoint,
        choice.worker.endpoint,
        cause,
        choice.candidates,
        choice.more_candidates,
        choice.excluded,
        choice.free_at_us,
        choice.basis,
    )


def _say_no_candidate(step: Step, instance: Instance, operation: Operation, choice: Choice) -> None:
    """Once per action; again after a choice that found somebody, or after another action's that did not (H14)."""
    if instance.no_candidate_for != operation.operation_id:
        waited_us = step.now_us - operation.queued_since_us
        step.emit(e.HoldNoCandidate, instance.name, operation.operation_id, waited_us, choice.excluded)


def _choose(step: Step, instance: Instance, operation: Operation, demand: Demand) -> Choice:
    census = _census(step, instance, demand)
    policy = instance.config.hold
    spared = None
    if policy is not None and policy.spare_last:
        others = (
            other for other, waiting in instance.matcher.demands() if waiting > 1 or other is not operation.demand
        )
        spared = Spared(instance, others)
    if isinstance(policy, DrainTimeHold):
        return choose_by_drain(census, policy, step.now_us, spared)
    return census.choose(spared)


def _census(step: Step, instance: Instance, demand: Demand) -> Census:
    """The census for the demand, with the workers noted that this fact has changed so far."""
    census = instance.census
    if census is None or census.demand is not demand:
        by_end = isinstance(instance.config.hold, BackfillHold)
        census = instance.census = Census(instance, demand, by_end)
    census.note(step.shard, step.events)
    return census
