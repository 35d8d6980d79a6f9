"""Scenes in which the held worker is lost or turns out unfit, the hold moves, or nobody can be held."""

from __future__ import annotations

from events.reasons import RunResult
from tests.recorded.farm import BENCH, BIG, HOLD, Farm
from tests.recorded.truths import Cause, Truth
from tests.stories.notation import advance, cancel, decline, drain, finish, gone, keepalive, remove

ON_THE_BENCH = {"bench": "yes"}


def _hold_the_bench(farm: Farm, **asked: object) -> Truth:
    """The only worker that could run it is held."""
    return farm.hold(farm.new("big"), BENCH, over="w1", closest=False, **ON_THE_BENCH, **asked)


# -- nobody else could be held: worker_lost -------------------------------------------------------------------------------------------


def left_for_good(farm: Farm) -> None:
    """The only worker that could be held says that it leaves."""
    truth = _hold_the_bench(farm)
    farm.wait(3)
    farm.ended(truth, "worker_lost", Cause.LEFT, farm.do(gone(BENCH)), subject=BENCH)
    farm.wait(4)


def fell_silent(farm: Farm) -> None:
    """It is not heard for worker_timeout_s."""
    truth = _hold_the_bench(farm)
    while BENCH in farm.story.connected():
        farm.wait(1, silent=BENCH)
    farm.ended(truth, "worker_lost", Cause.SILENT, None, subject=BENCH)
    farm.wait(2)


def another_process(farm: Farm) -> None:
    """Its process was restarted: it is another worker, without the work, and a smaller one."""
    truth = _hold_the_bench(farm)
    farm.wait(2)
    farm.ended(truth, "worker_lost", Cause.REPLACED, farm.come(BENCH, cpu=4), subject=BENCH)
    farm.wait(2)


def removed(farm: Farm) -> None:
    """An operator removes it."""
    truth = _hold_the_bench(farm)
    farm.wait(6)
    farm.ended(truth, "worker_lost", Cause.REMOVED, farm.do(remove(BENCH)), subject=BENCH)


# -- nobody else could be held: unfit -------------------------------------------------------------------------------------------------


def drained(farm: Farm) -> None:
    """An operator drains it."""
    truth = _hold_the_bench(farm)
    farm.wait(2)
    farm.ended(truth, "unfit", Cause.DRAINED, farm.do(drain(BENCH)), subject=BENCH)
    farm.wait(2)


def declined(farm: Farm) -> None:
    """It declines something more important, which went before the big one, and is paused."""
    truth = _hold_the_bench(farm)
    farm.end(farm.runs(BENCH)[0])
    ahead = farm.new("ahead")
    farm.arrive(ahead, priority=1, accepting=False, **ON_THE_BENCH)
    advance(0.1)(farm.story)
    farm.ended(truth, "unfit", Cause.DECLINED, farm.do(decline(ahead), accepting=False), subject=BENCH)
    farm.do(cancel(truth.operation))
    farm.wait(4)


def unacknowledged(farm: Farm) -> None:
    """It does not accept something more important within dispatch_ack_timeout_s, and is paused at its next message."""
    truth = _hold_the_bench(farm)
    farm.end(farm.runs(BENCH)[0])
    ahead = farm.new("ahead")
    farm.arrive(ahead, priority=1, accepting=False, **ON_THE_BENCH)
    farm.wait(32)
    farm.ended(truth, "unfit", Cause.UNACKNOWLEDGED, None, subject=BENCH)
    farm.do(finish(ahead, RunResult.KILLED), accepting=False)


def refused_idle(farm: Farm) -> None:
    """It reports less free memory than its runs leave; when the last has ended it still has no room."""
    for name in farm.runs(BENCH):
        farm.end(name)
        farm.arrive(farm.new("memory"), memory=10_000, **ON_THE_BENCH)
    farm.do(keepalive(BENCH, 40_000))
    truth = _hold_the_bench(farm, memory=60_000)
    first, second, third = farm.runs(BENCH)
    farm.end(first)
    farm.end(second)
    farm.ended(truth, "unfit", Cause.REFUSED_IDLE, farm.end(third), subject=BENCH)
    _renewed(farm)


def reports_less(farm: Farm) -> None:
    """A report says that less memory is free than the big one asks for."""
    farm.do(keepalive(BENCH, 70_000))
    truth = _hold_the_bench(farm, memory=60_000)
    farm.wait(4)
    farm.ended(truth, "unfit", Cause.REPORTED_LESS, farm.do(keepalive(BENCH, 50_000)), subject=BENCH)
    _renewed(farm)


def came_back_smaller(farm: Farm) -> None:
    """The same process connects again with fewer cores than the big one asks for."""
    truth = _hold_the_bench(farm)
    farm.end(farm.runs(BENCH)[0])
    by = farm.back(BENCH, running=farm.runs(BENCH), cpu=7)
    farm.ended(truth, "unfit", Cause.SHRUNK, by, subject=BENCH)
    farm.do(cancel(truth.operation))
    farm.do(gone(BENCH))


def _renewed(farm: Farm) -> None:
    """The bench's worker leaves and comes as another process: what it reported of its memory is forgotten."""
    waiting = [name for name in farm.story.waiting() if name.startswith("big")]
    for name in waiting:
        farm.do(cancel(name))
    farm.do(gone(BENCH))
    farm.wait(1)


# -- moved ----------------------------------------------------------------------------------------------------------------------------


def moved_as_the_worker_left(farm: Farm) -> None:
    """The held worker leaves; the next one is held and drains."""
    farm.tilt("w2", free=2)
    farm.tilt("w3")
    truth = farm.hold(farm.new("big"), "w2", over="w5")
    farm.wait(2)
    farm.moved(truth, "w3", Cause.LEFT, "worker_left", farm.do(gone("w2")))
    farm.wait(3)
    farm.come("w2")
    assert farm.held() == ("w3", truth.operation), "the scene would prove nothing"
    farm.drains(truth, "w3")


def moved_as_the_worker_was_silent(farm: Farm) -> None:
    """The held worker falls silent; the action's client leaves while the next one is held."""
    farm.tilt("w2", free=2)
    farm.tilt("w3")
    truth = farm.hold(farm.new("big"), "w2", over="w5")
    while "w2" in farm.story.connected():
        farm.wait(1, silent="w2")
    farm.moved(truth, "w3", Cause.SILENT, "worker_left", None)
    farm.wait(1)
    farm.ended(truth, "gone", Cause.CANCELLED, farm.do(cancel(truth.operation)), subject=truth.operation)


def moved_as_it_was_drained(farm: Farm) -> None:
    """The held worker is drained; the action is cancelled while the next one is held."""
    farm.tilt("w6", free=2)
    farm.tilt("w7")
    truth = farm.hold(farm.new("big"), "w6", over="w4")
    farm.drain(truth, "w6", to="w7")
    farm.wait(5)
    farm.ended(truth, "gone", Cause.CANCELLED, farm.do(cancel(truth.operation)), subject=truth.operation)


def moved_as_it_declined(farm: Farm) -> None:
    """The held worker declines something more important; another one drains."""
    farm.tilt("w2", free=2)
    farm.tilt("w3")
    truth = farm.hold(farm.new("big"), "w2", over="w7")
    farm.end(farm.runs("w2")[0])
    ahead = farm.new("ahead")
    farm.arrive(ahead, priority=1, accepting=False)
    advance(0.1)(farm.story)
    farm.moved(truth, "w3", Cause.DECLINED, "paused", farm.do(decline(ahead), accepting=False))
    farm.wait(4)
    farm.accept()
    farm.drains(truth, "w3")


def moved_to_one_that_is_free_sooner(farm: Farm) -> None:
    """Backfill: the run that made the other worker late ends early."""
    for endpoint, expected_s in (("w7", (400, 400, 900)), (BENCH, (500, 500, 500))):
        for name, seconds in zip(farm.runs(endpoint), expected_s, strict=True):
            farm.end(name)
            farm.arrive(farm.new("run"), expected_s=seconds)
    late = farm.runs("w7")[-1]
    farm.configure(hold={"kind": "backfill"})
    name = farm.new("big")
    operation_id = farm.arrive(name, cpu=12, lab="yes")
    made_at_us = farm.story.rehearsal.facts[operation_id].at_us
    truth = farm.say(Truth(name, operation_id, BENCH, False, "", operation_id, made_at_us))
    farm.wait(5)
    farm.moved(truth, "w7", Cause.SOONER, "sooner", farm.end(late))
    farm.drains(truth, "w7")


# -- nobody could be held -------------------------------------------------------------------------------------------------------------


def _nobody(farm: Farm, name: str, operation_id: int, over: str, excluded: dict[str, int]) -> None:
    overtaker, offset = farm.overtake(over)
    at_us = farm.story.rehearsal.facts[offset].at_us
    farm.say(Truth(name, operation_id, "", False, overtaker, offset, at_us, excluded=excluded))


def too_large_for_anybody(farm: Farm) -> None:
    """It asks for more cores than any worker has."""
    name = farm.new("big")
    operation_id = farm.arrive(name, cpu=16)
    farm.wait(6)
    _nobody(farm, name, operation_id, "w2", {"unfit": 8})


def the_only_one_is_spared(farm: Farm) -> None:
    """`spare_last`: something on the only worker that could be held can run nowhere else."""
    farm.configure(hold={**HOLD, "spare_last": True})
    farm.end(farm.runs(BENCH)[0])
    farm.arrive(farm.new("pinned"), **ON_THE_BENCH)
    name = farm.new("big")
    operation_id = farm.arrive(name, cpu=BIG, **ON_THE_BENCH)
    farm.wait(6)
    _nobody(farm, name, operation_id, "w4", {"last": 1})


def nobody_knows_how_long(farm: Farm) -> None:
    """Backfill: what runs on the only worker that could be held does not say how long it takes."""
    farm.configure(hold={"kind": "backfill"})
    for name in farm.runs(BENCH):
        farm.end(name)
        farm.arrive(farm.new("vague"), expected_s=0)
    name = farm.new("big")
    operation_id = farm.arrive(name, cpu=BIG, **ON_THE_BENCH)
    at_us = farm.story.rehearsal.facts[operation_id].at_us
    farm.say(Truth(name, operation_id, "", False, "", operation_id, at_us, excluded={"unknown_duration": 1}))


SCENES = (
    left_for_good,
    drained,
    moved_as_the_worker_left,
    fell_silent,
    refused_idle,
    too_large_for_anybody,
    moved_as_it_was_drained,
    another_process,
    declined,
    moved_as_the_worker_was_silent,
    removed,
    reports_less,
    the_only_one_is_spared,
    moved_as_it_declined,
    came_back_smaller,
    moved_to_one_that_is_free_sooner,
    unacknowledged,
    nobody_knows_how_long,
)
