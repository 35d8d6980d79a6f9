"""Starvation of large work, as others met it (field failures, group B1): each report's own sequence, and what must hold here.

Numbers are those of the collection. Rows 8, 14, 16 and 22 describe no sequence: they ask for what the hold is.
"""

from events import events as e
from tests.stories.crowds import arrive, end, names, overtake
from tests.stories.notation import alive, cancel, configure, connect, drain, finish, gone, pause, queue, restart
from tests.stories.story import Story

CORES = 8


def eight_small(story: Story, hold: dict[str, object] | None) -> Story:
    """One worker of 8 cores full of one-core actions, and an 8-core action that waits."""
    story.given(
        configure(retain_completed_for_s=10_000, **({} if hold is None else {"hold": hold})), connect("w", cpu=CORES)
    )
    return story.given(*(arrive(name) for name in names("s", CORES)), arrive("b", cpu=8))


def stream(story: Story, rounds: int) -> list[str]:
    """`rounds` times a core frees and a new one-core action takes it; returns who waits then."""
    running = names("s", CORES)
    for number in range(1, rounds + 1):
        story.when(overtake(running.pop(0), f"t{number}"))
        running.append(f"t{number}")
    return story.waiting()


def test_1_a_queue_full_of_small_jobs_fills_every_hole_without_the_hold(story):
    assert stream(eight_small(story, None), 20) == ["b"]


def test_1_with_the_hold_the_large_one_runs(story):
    eight_small(story, {"kind": "shortfall", "after_s": 0})
    stream(story, 1)
    assert story.held() == ("w", "b")
    story.given(arrive("late"), end(names("s", 7, first=2))).when(finish("t1"))
    story.then("t1 finished: completed", "b to w", "hold of w for b released: placed")
    assert story.waiting() == ["late"]


def test_2_what_fits_is_placed_past_the_head_and_the_event_says_whom_it_overtook(story):
    story.given(connect("w", cpu=7), arrive("b", cpu=8))
    for number in range(1, 6):
        story.when(arrive(f"s{number}")).then(f"s{number} queued", f"s{number} to w, overtaking b")


def test_4_room_that_was_freed_for_the_large_one_is_not_taken_by_others(story):
    eight_small(story, {"kind": "shortfall", "after_s": 0})
    stream(story, 1)
    story.given().when(finish("s2"), arrive("late")).then("s2 finished: completed", "late queued")
    assert story.waiting() == ["b", "late"]


def test_6_unplaceable_actions_at_the_front_stop_nobody_behind(story):
    story.given(configure(supported_platform_properties={"gpu": "minimum"}), connect("w", cpu=8))
    story.given(*(arrive(f"a{number}", gpu="4") for number in range(3)))
    story.when(arrive("s")).then("s queued", "s to w, overtaking a0")


def test_9_among_equal_priorities_too_the_large_one_gets_its_reservation(story):
    eight_small(story, {"kind": "shortfall", "after_s": 0})
    stream(story, 1)
    assert [row.priority for row in story.rehearsal.shard.operations.values()] == [0] * 10
    assert story.held() == ("w", "b")


def test_10_after_the_wait_freed_room_stays_free_on_the_held_worker(story):
    eight_small(story, {"kind": "shortfall", "after_s": 20})
    story.given(alive(20), overtake("s1", "t1"))
    story.when(finish("s2"), arrive("t2")).then("s2 finished: completed", "t2 queued")
    assert story.free("w") == 1000


def test_12_a_large_action_of_higher_priority_is_held_for_after_the_wait(story):
    story.given(configure(hold={"kind": "shortfall", "after_s": 20}), connect("w", cpu=16))
    story.given(*(arrive(name, priority=1) for name in names("s", 16)), queue("b", cpu=16, priority=9), alive(20))
    story.when(overtake("s1", "t1", priority=1))
    assert story.told()[-2:] == ["t1 to w, overtaking b", "w held for b, overtaken by t1"]


def test_15_full_workers_are_candidates_too(story):
    story.given(configure(hold={"kind": "shortfall", "after_s": 0}), connect("w1", cpu=16), queue("x", cpu=16))
    story.given(connect("w2", cpu=16), queue("y", cpu=15), queue("z", cpu=1), arrive("b", cpu=16))
    story.when(finish("z"), arrive("s"))
    assert story.told()[-1] == "w1 held for b, overtaken by s"  # one run to wait for, on w2 two
    assert [(each.endpoint, each.shortfall_milli) for each in story.last(e.HoldMade).candidates] == [
        ("w1", 1000),
        ("w2", 1000),
    ]


def held_pair(story: Story) -> Story:
    """Two workers of 8 cores full of one-core actions; `w1` is held for `b`."""
    story.given(
        configure(hold={"kind": "shortfall", "after_s": 0}, retain_completed_for_s=10_000), connect("w1", cpu=8)
    )
    story.given(
        *(arrive(name) for name in names("s", 8)), connect("w2", cpu=8), *(arrive(name) for name in names("t", 8))
    )
    story.given(arrive("b", cpu=8), overtake("t1", "u1"))
    assert story.held() == ("w1", "b")
    return story


def test_17_a_hold_never_blocks_a_worker_for_good(story):
    held_pair(story).when(cancel("b"))
    assert story.told()[-1] == "hold of w1 for b released: gone"


def test_17_a_drained_worker_hands_the_hold_on_within_the_same_fact(story):
    held_pair(story).when(drain("w1")).then("w1 drained", "hold for b moved from w1 to w2: drained")
    story.when(drain("w2"))
    assert story.told()[:2] == ["w2 drained", "hold of w2 for b released: unfit"]


def test_17_a_paused_instance_keeps_no_stale_hold(story):
    held_pair(story).given(pause()).when(gone("w1"))
    assert story.told()[-1] == "hold for b moved from w1 to w2: worker_left"


def test_17_a_hold_survives_a_restart_and_ends_as_it_would_have(story):
    held_pair(story).given(restart()).when(end(names("s", 8)))
    assert story.told()[-2:] == ["b to w1", "hold of w1 for b released: placed"]


def test_21_when_the_heads_worker_is_down_and_no_other_fits_the_rest_flows(story):
    story.given(configure(hold={"kind": "shortfall", "after_s": 0}), connect("big", cpu=8), connect("small", cpu=2))
    story.given(*(arrive(name) for name in names("s", 10)), arrive("b", cpu=8), overtake("s1", "t1"))
    assert story.held() == ("big", "b")
    story.when(gone("big"))
    assert "hold of big for b released: worker_lost" in story.told()
    on_small = [
        name for name, endpoint in story.endpoints.items() if endpoint == "small" and name not in story.waiting()
    ]
    story.given().when(finish(on_small[0]))
    assert story.told()[-1].endswith(" to small")
