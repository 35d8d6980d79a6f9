"""What a hold says, when it ends, who is spared; backfill; and the limits that stand in the runbook."""

import pytest

from events import events as e
from events import facts as f
from events.reasons import HoldExclusion, RunResult
from tests.stories.crowds import arrive, both, end, full, names, overtake
from tests.stories.notation import (
    MAIN,
    accept,
    advance,
    alive,
    cancel,
    configure,
    connect,
    decline,
    drain,
    fact,
    finish,
    gone,
    keepalive,
    pause,
    queue,
    remove,
    reprioritise,
    restart,
    resume,
    tick,
)
from tests.stories.story import Story

QUIET = {"retain_completed_for_s": 10_000}
"""So that nothing is forgotten in the middle of a story."""


def shortfall(after_s: int = 0, **options: object):
    return configure(hold={"kind": "shortfall", "after_s": after_s, **options}, **QUIET)


def backfill(after_s: int = 0, **options: object):
    return configure(hold={"kind": "backfill", "after_s": after_s, **options}, **QUIET)


@pytest.fixture
def held(story: Story) -> Story:
    """`a` is held for `big`; `b` is as full."""
    story.given(shortfall(), full("a"), full("b"), arrive("big", cpu=8), overtake("b1", "s1"))
    assert story.held() == ("a", "big")
    return story


# -- what the events say -----------------------------------------------------------------------------------------------------------------


def test_a_hold_names_the_closest_five_and_counts_the_rest(story):
    story.given(shortfall(), *(full(f"w{number}") for number in range(7)))
    story.given(arrive("big", cpu=8), end(["w31", "w32", "w33", "w51"]), arrive("s1"))
    made = story.last(e.HoldMade)
    first, *rest = made.candidates
    assert (first.endpoint, first.shortfall_milli, first.running) == ("w3", 500, 10)
    assert [(each.endpoint, each.shortfall_milli) for each in rest] == [
        ("w5", 583),
        ("w0", 666),
        ("w1", 666),
        ("w2", 666),
    ]
    assert made.more_candidates == 2


def test_a_hold_says_whom_it_did_not_consider_and_why(story):
    story.given(shortfall(), full("a"), full("b"), full("c"), connect("small", cpu=4), drain("c"))
    story.given(arrive("big", cpu=8), arrive("s1"))
    made = story.last(e.HoldMade)
    assert [(each.exclusion, each.workers) for each in made.excluded] == [(HoldExclusion.UNFIT, 2)]
    assert [each.endpoint for each in made.candidates] == ["a", "b"]


def test_shortfalls_add_up_over_the_minimums_and_round_down_each(story):
    story.given(
        shortfall(), full("a", memory=30_000), arrive("big", cpu=5, memory=28_000), overtake("a1", "s1", memory=1)
    )
    # 5 of 12 cores: 416 of 1000; 30 000 - 11 001 = 18 999 KiB are left of 30 000, so 9 001 are short: 300.
    assert story.last(e.HoldMade).candidates[0].shortfall_milli == 416 + 300


def test_no_candidate_is_said_once_for_an_action(story):
    story.given(shortfall(), connect("a", cpu=12), arrive("huge", cpu=16))
    story.when(arrive("s1")).then("s1 queued", "s1 to a, overtaking huge", "nobody to hold for huge: 1 unfit")
    story.when(arrive("s2")).then("s2 queued", "s2 to a, overtaking huge")
    story.when(connect("b", cpu=16)).then("b admitted", "huge to b")


def test_no_candidate_is_said_again_after_another_action_found_none_or_somebody(story):
    story.given(shortfall(), connect("a", cpu=12), arrive("huge", cpu=16), arrive("s1"))
    story.given(arrive("first", cpu=16, priority=1)).when(arrive("s2"))
    assert story.told()[-1] == "nobody to hold for first: 1 unfit"
    story.given(cancel("first")).when(arrive("s3"))
    assert story.told()[-1] == "nobody to hold for huge: 1 unfit"


def test_a_worker_that_becomes_able_is_found_although_nobody_was_before(story):
    story.given(shortfall(), full("a"), drain("a"), arrive("big", cpu=8), connect("b", cpu=4))
    story.when(arrive("s1"))
    assert story.told()[-1] == "nobody to hold for big: 2 unfit"
    story.given(fact(f.WorkerUndrained(MAIN, "a"))).when(arrive("s2"))
    assert story.told()[-1] == "a held for big, overtaken by s2"


# -- the wait ----------------------------------------------------------------------------------------------------------------------------


def test_a_requeue_starts_the_wait_again_although_the_place_in_the_queue_stays(story):
    story.given(shortfall(20), full("a"), connect("b", cpu=8), arrive("big", cpu=8), alive(15), gone("b"), alive(10))
    story.given(overtake("a1", "s1"))
    assert story.held() is None
    story.given(alive(10)).when(overtake("a2", "s2"))
    assert story.told()[-1] == "a held for big, overtaken by s2"


def test_after_an_escalation_only_a_worker_with_the_larger_amount_is_held(story):
    hold = {"kind": "shortfall", "after_s": 0}
    story.given(configure(hold=hold, memory_escalation={"percent": 200}), connect("a", cpu=8, memory=20_000))
    story.given(queue("big", cpu=8, memory=16_000), full("b", memory=40_000))
    story.when(finish("big", RunResult.OUT_OF_MEMORY), arrive("s1", memory=1000))
    assert story.told()[-2:] == ["s1 to a, overtaking big", "b held for big, overtaken by s1"]
    assert [(each.exclusion, each.workers) for each in story.last(e.HoldMade).excluded] == [(HoldExclusion.UNFIT, 1)]


def test_what_is_only_next_in_line_is_never_held_for(story):
    story.given(shortfall(), full("a"), arrive("big", cpu=8), alive(60), end(names("a", 7)))
    assert story.held() is None


def test_an_action_ahead_that_the_held_worker_could_run_leaves_the_hold_where_it_is(held):
    held.given(arrive("first", cpu=8, priority=1)).when(overtake("b2", "s2"))
    assert held.told()[-1] == "s2 to b, overtaking first"
    assert held.held() == ("a", "big")


# -- how a hold ends ---------------------------------------------------------------------------------------------------------------------


def test_the_held_action_may_land_on_any_worker(held):
    held.when(connect("c", cpu=8)).then("c admitted", "big to c", "hold of a for big released: placed")
    assert held.last(e.HoldReleased).held_us == 0


def test_a_hold_says_how_long_it_stood(held):
    held.given(alive(30)).when(cancel("big")).then("big finished: cancelled", "hold of a for big released: gone")
    assert held.last(e.HoldReleased).held_us == 30_000_000


def test_a_cancelled_action_gives_the_worker_back_while_the_instance_is_paused(held):
    held.given(pause()).when(cancel("big")).then("big finished: cancelled", "hold of a for big released: gone")
    held.given(arrive("s2"), finish("a1")).when(resume()).then("main resumed", "s2 to a")


def test_a_worker_lost_without_another_ends_the_hold(story):
    story.given(shortfall(), full("a"), connect("b", cpu=4), arrive("big", cpu=8), arrive("s1"))
    assert story.held() == ("a", "big")
    story.when(remove("a"))
    assert story.told()[-6:] == [
        "a out: removed",
        "hold of a for big released: worker_lost",
        "nobody to hold for big: 1 unfit",
        "a1 to b",
        "a2 to b",
        "a3 to b",
    ]


def test_a_silent_worker_that_is_evicted_hands_the_hold_on(held):
    # `b` is heard, `a` is not.
    held.given(*(both(advance(2), keepalive("b")) for _ in range(4))).when(advance(2))
    assert held.told()[-2:] == ["a out: timeout", "hold for big moved from a to b: worker_left"]


def test_a_held_worker_that_declines_another_action_hands_the_hold_on(story):
    story.given(shortfall(), full("a"), full("b"), arrive("big", cpu=8), overtake("b1", "s1"))
    story.when(decline("a2"))
    assert story.told() == ["a2 requeued: declined", "hold for big moved from a to b: paused"]


def test_a_held_worker_that_has_too_much_to_accept_hands_the_hold_on(story):
    hold = {"kind": "shortfall", "after_s": 0}
    running = [*names("a"), *names("b")]
    story.given(configure(hold=hold, max_unaccepted_dispatches=12, **QUIET), full("a"), full("b"), arrive("big", cpu=8))
    story.given(*(accept(name) for name in running), overtake("b1", "s1"))
    assert story.held() == ("a", "big")
    story.given(*(arrive(f"p{number}", priority=1) for number in range(1, 13)), end(names("a", 11)))
    assert story.held() == ("a", "big")
    # The twelfth that sorts before the held action is as much as `a` may have unaccepted.
    story.when(finish("a12"))
    story.then("a12 finished: completed", "p12 to a", "hold for big moved from a to b: paused")


def test_a_hold_follows_its_worker_through_a_reconnect_of_the_same_process(held):
    held.when(connect("a", cpu=12, running=tuple(names("a")))).then(
        "a admitted again with " + ", ".join(sorted(names("a")))
    )
    assert held.held() == ("a", "big")
    held.when(arrive("s2"), finish("a1")).then("s2 queued", "a1 finished: completed")


def test_another_process_at_the_held_endpoint_is_another_worker(held):
    held.when(connect("a", cpu=4, boot=2))
    assert "hold for big moved from a to b: worker_left" in held.told()


def test_a_held_worker_that_comes_back_smaller_than_the_action_is_released(held):
    held.when(connect("a", cpu=7, running=tuple(names("a", 7))))
    assert "hold of a for big released: unfit" in held.told()


def test_after_max_hold_the_worker_is_given_back(story):
    story.given(
        shortfall(10, max_hold_s=60), full("a"), full("b"), arrive("big", cpu=8), alive(9), overtake("b1", "s1")
    )
    assert story.held() == ("a", "big")
    story.given(arrive("s2"), finish("a1")).when(alive(58.5)).then()
    story.when(alive(0.5)).then("hold of a for big released: expired", "s2 to a, overtaking big")
    assert story.last(e.HoldReleased).held_us == 60_000_000
    # The fleet is left alone for as long as it was held; then it may be held again.
    story.given(alive(57)).when(overtake("a2", "s4"))
    assert "a held for big" not in story.told()[-1]
    story.given(alive(2)).when(overtake("b2", "s5"))
    assert story.told()[-1].endswith("held for big, overtaken by s5")


def test_a_hold_moved_to_another_worker_ends_as_early(story):
    story.given(shortfall(max_hold_s=60), full("a"), full("b"), arrive("big", cpu=8), overtake("b1", "s1"))
    story.given(alive(40), drain("a")).when(alive(19.5)).then()
    story.when(alive(0.5)).then("hold of b for big released: expired")


def test_a_restart_keeps_the_hold_and_its_end(story):
    story.given(shortfall(max_hold_s=60), full("a"), full("b"), arrive("big", cpu=8), overtake("b1", "s1"))
    story.given(alive(30), restart(), arrive("s2"), finish("a1"))
    assert (story.held(), story.waiting()) == (("a", "big"), ["big", "s2"])
    story.when(alive(28.5)).then()
    story.when(alive(0.5)).then("hold of a for big released: expired", "s2 to a, overtaking big")


def test_another_policy_ends_the_hold(held):
    held.given(arrive("s2"), finish("a1"))
    held.when(configure()).then("main configured", "hold of a for big released: configured", "s2 to a, overtaking big")


def test_another_option_leaves_the_hold_alone(held):
    held.when(configure(hold={"kind": "shortfall", "after_s": 0}, max_job_retries=7, **QUIET)).then("main configured")
    assert held.held() == ("a", "big")


def test_a_lower_priority_of_the_held_action_opens_its_worker_to_those_before_it_now(held):
    held.given(arrive("s2"), finish("a1")).when(reprioritise("big", -1)).then("big has priority -1", "s2 to a")
    assert held.held() == ("a", "big")


# -- who is spared -----------------------------------------------------------------------------------------------------------------------


def test_with_spare_last_the_only_worker_is_never_held(story):
    story.given(shortfall(spare_last=True), full("a"), arrive("big", cpu=8))
    story.when(overtake("a1", "s1"))
    assert story.told()[-2:] == ["s1 to a, overtaking big", "nobody to hold for big: 1 last"]
    story.given().when(overtake("a2", "s2")).then("a2 finished: completed", "s2 queued", "s2 to a, overtaking big")


def test_with_spare_last_a_worker_may_be_held_while_another_serves_the_rest(story):
    story.given(shortfall(spare_last=True), full("a"), full("b"), arrive("big", cpu=8), overtake("b1", "s1"))
    assert story.held() == ("a", "big")


def test_with_spare_last_the_last_worker_of_a_zone_is_spared_while_somebody_waits_for_it(story):
    zones = {"supported_platform_properties": {"zone": "exact"}}
    hold = {"hold": {"kind": "shortfall", "after_s": 0, "spare_last": True}}
    story.given(configure(**zones, **hold), full("a", zone="east"), full("b", zone="west"), arrive("big", cpu=8))
    story.given(arrive("pinned", zone="east", priority=-1), overtake("b1", "s1"))
    assert story.held() == ("b", "big")
    assert [(each.exclusion, each.workers) for each in story.last(e.HoldMade).excluded] == [(HoldExclusion.LAST, 1)]


def test_a_worker_that_drains_does_not_count_as_another_one(story):
    story.given(shortfall(spare_last=True), full("a"), full("b"), drain("b"), arrive("big", cpu=8))
    story.when(overtake("a1", "s1"))
    assert story.told()[-1] == "nobody to hold for big: 1 unfit, 1 last"


# -- backfill ----------------------------------------------------------------------------------------------------------------------------


def test_backfill_reserves_as_soon_as_the_head_finds_no_room(story):
    story.given(backfill(), connect("a", cpu=12), queue("run", cpu=8, expected_s=100), alive(1))
    story.when(queue("head", cpu=12)).then("head queued", "a held for head")
    assert story.last(e.HoldMade).free_at_us == story.now_us + 99_000_000
    assert story.last(e.HoldMade).overtaken_by is None


def test_what_surely_ends_before_the_head_can_start_may_run_there(story):
    story.given(backfill(), connect("a", cpu=12), queue("run", cpu=8, expected_s=100), queue("head", cpu=12))
    story.when(queue("long", cpu=1, expected_s=101)).then("long queued")
    story.when(queue("unknown", cpu=1)).then("unknown queued")
    story.when(queue("short", cpu=1, expected_s=100))
    story.then("short queued", "short to a, overtaking head, backfilled")
    story.when(alive(1), queue("late", cpu=1, expected_s=100)).then("late queued")


def test_what_leaves_the_head_its_room_may_run_longer(story):
    story.given(backfill(), connect("a", cpu=12), queue("run", cpu=8, expected_s=100), queue("head", cpu=10))
    story.when(queue("beside", cpu=2)).then("beside queued", "beside to a, overtaking head, backfilled")
    story.when(queue("more", cpu=1)).then("more queued")
    story.when(finish("run"))
    assert story.told()[:3] == ["run finished: completed", "head to a", "hold of a for head released: placed"]


def test_the_worker_that_is_free_soonest_is_the_heads(story):
    story.given(backfill(), connect("a", cpu=12), queue("long", cpu=8, expected_s=500), connect("b", cpu=12))
    story.given(queue("short", cpu=8, expected_s=60)).when(queue("head", cpu=12)).then("head queued", "b held for head")
    found = [(each.endpoint, each.free_at_us - story.now_us) for each in story.last(e.HoldMade).candidates]
    assert found == [("b", 60_000_000), ("a", 500_000_000)]


def test_the_head_gets_another_worker_that_is_free_sooner_after_all(story):
    story.given(backfill(), connect("a", cpu=12), queue("a1", cpu=6, expected_s=500), queue("a2", cpu=6, expected_s=50))
    story.given(connect("b", cpu=12), queue("b1", cpu=8, expected_s=60), queue("head", cpu=12))
    assert story.held() == ("b", "head")
    story.when(finish("a1")).then("a1 finished: completed", "hold for head moved from b to a: sooner")
    assert story.last(e.HoldMoved).free_at_us == story.now_us + 50_000_000


def test_a_run_that_ends_early_takes_room_from_what_would_delay_the_head(story):
    story.given(backfill(), connect("a", cpu=12), queue("r1", cpu=6, expected_s=100), queue("r2", cpu=2, expected_s=20))
    story.given(queue("head", cpu=10)).when(finish("r1"))
    # Ten cores will be free in 20 s, no longer in 100: what takes 50 s may not run before the head any more.
    story.then("r1 finished: completed", "head to a", "hold of a for head released: placed")


def test_the_time_before_which_others_may_use_the_worker_follows_what_runs(story):
    story.given(backfill(), connect("a", cpu=12), queue("r1", cpu=5, expected_s=100), queue("r2", cpu=5, expected_s=20))
    story.given(queue("head", cpu=12), queue("mid", cpu=2, expected_s=50), finish("mid"))
    assert story.held() == ("a", "head")
    story.when(finish("r1")).then("r1 finished: completed")
    story.when(queue("mid2", cpu=2, expected_s=50)).then("mid2 queued")
    story.when(queue("quick", cpu=2, expected_s=20)).then("quick queued", "quick to a, overtaking head, backfilled")


def test_the_next_head_is_reserved_for_before_anything_overtakes_it(story):
    story.given(
        backfill(), connect("a", cpu=12), queue("run", cpu=12, expected_s=10), queue("h1", cpu=8, expected_s=100)
    )
    story.given(queue("h2", cpu=8, expected_s=100), queue("long", cpu=4, expected_s=1000))
    story.when(finish("run"))
    story.then(
        "run finished: completed",
        "h1 to a",
        "hold of a for h1 released: placed",
        "a held for h2",
        "long to a, overtaking h2, backfilled",  # beside h2 when h1 has ended
    )


def test_a_new_head_takes_the_reservation(story):
    story.given(backfill(), connect("a", cpu=12), queue("run", cpu=8, expected_s=100), queue("head", cpu=12))
    story.when(queue("first", cpu=10, priority=1))
    story.then("first queued", "hold of a for head released: superseded", "a held for first")


def test_without_expected_durations_nobody_is_held(story):
    story.given(backfill(), connect("a", cpu=12), queue("run", cpu=8)).when(queue("head", cpu=12))
    story.then("head queued", "nobody to hold for head: 1 unknown_duration")
    story.when(queue("small", cpu=1)).then("small queued", "small to a, overtaking head")


def test_under_backfill_too_the_head_may_have_to_wait_first(story):
    story.given(backfill(30), connect("a", cpu=12), queue("run", cpu=8, expected_s=100), queue("head", cpu=12))
    story.when(queue("long", cpu=1, expected_s=500)).then("long queued", "long to a, overtaking head")
    story.when(alive(29.5)).then()
    story.when(alive(0.5)).then("a held for head")


def test_an_expired_reservation_is_not_made_again_at_once(story):
    story.given(
        backfill(max_hold_s=20), connect("a", cpu=12), queue("run", cpu=8, expected_s=100), queue("head", cpu=12)
    )
    story.given(queue("long", cpu=1, expected_s=500)).when(alive(20))
    story.then("hold of a for head released: expired", "long to a, overtaking head")
    story.when(alive(20)).then("a held for head")


# -- limits that the runbook names ----------------------------------------------------------------------------------------------------


def test_an_action_blocked_only_by_a_concurrency_limit_holds_a_whole_worker_for_one_slot(story):
    """Limit 2."""
    kinds = {"supported_platform_properties": {"zone": "exact"}}
    story.given(configure(hold={"kind": "shortfall", "after_s": 0}, **kinds))
    story.given(connect("a", cpu=12, inflight=2, zone="east"), connect("b", cpu=12, inflight=2, zone="west"))
    story.given(
        arrive("a1", zone="east"), arrive("a2", zone="east"), arrive("b1", zone="west"), arrive("b2", zone="west")
    )
    story.given(arrive("waits", zone="east")).when(finish("b1"), arrive("s1"))
    assert story.told()[-1] == "a held for waits, overtaken by s1"
    assert story.last(e.HoldMade).candidates[0].shortfall_milli == 0


def test_runs_that_declared_too_little_cost_one_useless_drain_for_each_worker(story):
    """Limit 5."""
    story.given(configure(hold={"kind": "shortfall", "after_s": 0}, live_memory_veto="memory_kib"))
    story.given(full("a", memory=100_000), keepalive("a", 55_000), connect("b", cpu=1, memory=1000))
    story.given(arrive("big", cpu=8, memory=60_000), arrive("s1", memory=1000))
    assert story.held() == ("a", "big")  # 55 000 free and 12 000 lent look like enough
    story.given(end(names("a", 11))).when(finish("a12"))
    story.then("a12 finished: completed", "a capped at 55000 KiB while idle", "hold of a for big released: unfit")
    story.given(*(arrive(f"t{number}", memory=1000) for number in range(1, 13))).when(overtake("t1", "s2", memory=1000))
    assert story.held() is None


def test_a_moved_hold_and_the_ticks_between_decide_alike_after_a_restart(held):
    held.given(drain("a"), restart(), tick())
    assert held.held() == ("b", "big")
