"""Scenes in which a hold ends as its action starts, leaves the queue or is outranked, or as time or an operator ends it."""

from __future__ import annotations

from tests.recorded.farm import HOLD, Farm
from tests.recorded.truths import Cause
from tests.stories.notation import cancel, heard, left, pause, restart, resume


def drained_for_it(farm: Farm) -> None:
    """What runs on the held worker ends, two that wait behind go past in vain, and the big one starts there."""
    farm.tilt("w2", free=2)
    truth = farm.hold(farm.new("big"), "w2", over="w5")
    crowd = [farm.new("small") for _ in range(3)]
    for name in crowd:
        farm.arrive(name)
    farm.wait(8)
    farm.drains(truth, "w2", pause_s=8)
    farm.wait(20)


def drained_across_a_takeover(farm: Farm) -> None:
    """The same, and the leader changes while the worker drains."""
    farm.tilt("w6")
    truth = farm.hold(farm.new("big"), "w6", over="w3")
    for _ in range(2):
        farm.arrive(farm.new("small"))
    restart()(farm.story)
    farm.wait(6)
    farm.drains(truth, "w6", pause_s=7)
    farm.wait(15)


def room_on_another(farm: Farm) -> None:
    """A worker that is not held has room first."""
    farm.tilt("w3")
    truth = farm.hold(farm.new("big"), "w3", over="w1")
    first, second, _ = farm.runs("w7")
    farm.end(first)
    farm.ended(truth, "placed", Cause.ROOM_ELSEWHERE, farm.end(second), subject="w7", on="w7")
    farm.wait(10)


def a_worker_comes(farm: Farm) -> None:
    """A ninth worker connects."""
    farm.tilt("w1")
    truth = farm.hold(farm.new("big"), "w1", over="w4")
    farm.ended(truth, "placed", Cause.WORKER_CAME, farm.come("w9"), subject="w9", on="w9")
    farm.wait(10)


def drained_soonest(farm: Farm) -> None:
    """A learnt hold: one worker has the smallest shortfall, another one runs what the log knows to be quick, and is held."""
    farm.configure(hold={"kind": "drain_time", "after_s": 5, "min_runs": 2})
    long, *others = farm.runs("w3")
    farm.end(long)
    for _ in range(2):
        quick = farm.new("quick")
        farm.submit(quick, "quick")
        farm.wait(3)
        farm.end(quick)
    farm.submit(farm.new("quick"), "quick")
    for name in others:
        farm.end(name)
        farm.submit(farm.new("quick"), "quick")
    farm.tilt("w2", free=2)
    truth = farm.hold(farm.new("big"), "w3", over="w5", closest=False)
    for _ in range(2):
        farm.arrive(farm.new("small"))
    farm.drains(truth, "w3", pause_s=4)
    farm.wait(10)


def cancelled(farm: Farm) -> None:
    """An operator cancels it."""
    farm.tilt("w4")
    truth = farm.hold(farm.new("big"), "w4", over="w2")
    farm.wait(5)
    farm.ended(truth, "gone", Cause.CANCELLED, farm.do(cancel(truth.operation)), subject=truth.operation)


def cancelled_while_paused(farm: Farm) -> None:
    """It is cancelled while the instance is paused."""
    farm.tilt("w5")
    truth = farm.hold(farm.new("big"), "w5", over="w6")
    farm.do(pause())
    farm.wait(3)
    farm.ended(truth, "gone", Cause.CANCELLED, farm.do(cancel(truth.operation)), subject=truth.operation)
    farm.do(resume())


def the_client_leaves(farm: Farm) -> None:
    """Its client says that it waits no longer."""
    farm.tilt("w7")
    truth = farm.hold(farm.new("big"), "w7", over="w1", attached=True)
    farm.do(heard(truth.operation))
    farm.wait(4)
    farm.ended(truth, "gone", Cause.CLIENT_LEFT, farm.do(left(truth.operation)), subject=truth.operation)


def the_client_is_silent(farm: Farm) -> None:
    """Nobody is heard for it for longer than client_action_timeout_s."""
    farm.tilt("w1")
    truth = farm.hold(farm.new("big"), "w1", over="w2", attached=True)
    farm.do(heard(truth.operation))
    farm.wait(20)
    farm.wait(0.5)
    farm.ended(truth, "gone", Cause.CLIENT_SILENT, None, subject=truth.operation)


def outranked_in_another_zone(farm: Farm) -> None:
    """A more important one that only the other zone can run is overtaken there; then that zone's worker drains for it."""
    farm.tilt("w2", free=2)
    farm.tilt("w7")
    truth = farm.hold(farm.new("big"), "w2", over="w3")
    first = farm.hold(farm.new("big"), "w7", over="w5", zone="west", priority=1)
    farm.ended(truth, "superseded", Cause.OUTRANKED, first.made_by, subject=first.operation)
    farm.drains(first, "w7")


def outranked_by_one_that_needs_more(farm: Farm) -> None:
    """A more important one needs more memory than the held worker has; it is cancelled in the end."""
    farm.tilt("w2", free=2)
    truth = farm.hold(farm.new("big"), "w2", over="w3")
    first = farm.hold(farm.new("big"), "w5", over="w6", closest=False, memory=300_000, priority=1)
    farm.ended(truth, "superseded", Cause.OUTRANKED, first.made_by, subject=first.operation)
    farm.ended(first, "gone", Cause.CANCELLED, farm.do(cancel(first.operation)), subject=first.operation)


def out_of_time(farm: Farm) -> None:
    """Nothing ends on the held worker for as long as a hold may last."""
    farm.configure(hold={**HOLD, "max_hold_s": 20})
    farm.tilt("w3")
    truth = farm.hold(farm.new("big"), "w3", over="w8")
    farm.arrive(farm.new("small"))
    until_us = truth.made_at_us + 20_000_000
    farm.wait((until_us - farm.story.now_us) / 1_000_000 - 0.5)
    held = farm.held()
    assert held is not None, "the scene would prove nothing"
    farm.wait(1)
    farm.ended(truth, "expired", Cause.OUT_OF_TIME, None, subject="w3")


def out_of_time_after_a_move(farm: Farm) -> None:
    """A hold that moved ends as early as it would have."""
    farm.configure(hold={**HOLD, "max_hold_s": 25})
    farm.tilt("w2", free=2)
    farm.tilt("w6")
    truth = farm.hold(farm.new("big"), "w2", over="w4")
    farm.wait(10)
    farm.drain(truth, "w2", to="w6")
    farm.wait((truth.made_at_us + 25_500_000 - farm.story.now_us) / 1_000_000)
    farm.ended(truth, "expired", Cause.OUT_OF_TIME, None, subject="w6")


def switched_off(farm: Farm) -> None:
    """An operator configures no hold."""
    farm.tilt("w8")
    truth = farm.hold(farm.new("big"), "w8", over="w6")
    farm.wait(3)
    farm.ended(truth, "configured", Cause.POLICY_OFF, farm.configure(hold=None))


def changed(farm: Farm) -> None:
    """An operator gives the hold another after_s."""
    farm.tilt("w4", free=2)
    truth = farm.hold(farm.new("big"), "w4", over="w1")
    farm.ended(truth, "configured", Cause.POLICY_CHANGED, farm.configure(hold={**HOLD, "after_s": 90}))


SCENES = (
    drained_for_it,
    cancelled,
    room_on_another,
    the_client_leaves,
    drained_across_a_takeover,
    outranked_in_another_zone,
    a_worker_comes,
    out_of_time,
    cancelled_while_paused,
    switched_off,
    outranked_by_one_that_needs_more,
    the_client_is_silent,
    out_of_time_after_a_move,
    changed,
    drained_soonest,
)
