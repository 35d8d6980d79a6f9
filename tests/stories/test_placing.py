"""Who is placed, where, in which order."""

import pytest

from events import events as e
from tests.stories.client_words import placed, submit
from tests.stories.notation import (
    accept,
    advance,
    configure,
    connect,
    drain,
    finish,
    keepalive,
    pause,
    queue,
    reprioritise,
    resume,
    undrain,
)


def test_an_action_is_placed_on_a_worker_with_room(story):
    story.given(connect("w1", cpu=16)).when(queue("a", cpu=8)).then("a queued", "a to w1")


def test_a_placement_says_whether_its_result_may_be_kept_for_identical_actions(story):
    story.given(connect("w1", cpu=16), submit("a", "x", cpu=1), queue("b", cpu=1), submit("c", "y", cpu=1))
    assert [sent.cacheable for sent in placed(story)] == [True, False, True]


def test_an_action_waits_until_a_worker_connects(story):
    story.given(queue("a", cpu=8)).when(connect("w1", cpu=16)).then("w1 admitted", "a to w1")


def test_a_finish_makes_room_for_the_next(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8), queue("b", cpu=8), accept("a"))
    story.when(finish("a")).then("a finished: completed", "b to w1")


def test_higher_priority_goes_first(story):
    story.given(queue("a", cpu=8), queue("b", cpu=8, priority=5)).when(connect("w1", cpu=8)).then(
        "w1 admitted", "b to w1"
    )


def test_among_equals_the_older_goes_first(story):
    story.given(queue("a", cpu=8), advance(1), queue("b", cpu=8)).when(connect("w1", cpu=8))
    story.then("w1 admitted", "a to w1")


def test_the_producers_queued_time_decides_to_the_microsecond(story):
    story.given(queue("a", cpu=8, queued_s=-0.000001), queue("b", cpu=8, queued_s=-0.000002)).when(connect("w1", cpu=8))
    story.then("w1 admitted", "b to w1")


def test_among_actions_of_one_microsecond_the_log_decides(story):
    story.given(queue("b", cpu=8), queue("a", cpu=8)).when(connect("w1", cpu=8)).then("w1 admitted", "b to w1")


def test_a_smaller_action_may_overtake_and_the_event_says_whom(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=4), queue("big", cpu=8))
    story.when(queue("small", cpu=4)).then("small queued", "small to w1, overtaking big")


def test_a_negative_priority_waits_for_all_others(story):
    story.given(queue("a", cpu=8, priority=-1), queue("b", cpu=8)).when(connect("w1", cpu=8)).then(
        "w1 admitted", "b to w1"
    )


def test_another_priority_changes_the_order_and_keeps_the_queued_time(story):
    story.given(queue("a", cpu=8), queue("b", cpu=8), queue("c", cpu=8))
    story.when(reprioritise("c", 1), reprioritise("b", 1)).then("c has priority 1", "b has priority 1")
    assert story.waiting() == ["b", "c", "a"]
    story.when(connect("w1", cpu=16)).then("w1 admitted", "b to w1", "c to w1")


def test_the_ledger_never_lends_more_than_there_is(story):
    story.given(connect("w1", cpu=16, memory=1000))
    story.when(queue("a", cpu=8, memory=600), queue("b", cpu=8, memory=600)).then("a queued", "a to w1", "b queued")
    assert (story.free("w1"), story.free("w1", "memory_kib")) == (8000, 400)
    story.when(finish("a")).then("a finished: completed", "b to w1")
    assert (story.free("w1"), story.free("w1", "memory_kib")) == (8000, 400)
    story.when(finish("b"))
    assert (story.free("w1"), story.free("w1", "memory_kib")) == (16000, 1000)


def test_a_demand_of_zero_still_needs_the_worker_to_declare_it(story):
    story.given(connect("w1", cpu=16)).when(queue("a", memory=0)).then("a queued")
    story.when(connect("w2", memory=0)).then("w2 admitted", "a to w2")


def test_an_action_without_requirements_goes_anywhere(story):
    story.given(connect("w1")).when(queue("a")).then("a queued", "a to w1")


def test_the_inflight_limit_holds_whatever_room_there_is(story):
    story.given(connect("w1", cpu=16, inflight=2))
    story.when(queue("a", cpu=1), queue("b", cpu=1), queue("c", cpu=1))
    story.then("a queued", "a to w1", "b queued", "b to w1", "c queued")
    story.when(finish("b")).then("b finished: completed", "c to w1")


def test_an_exact_property_needs_the_same_value(story):
    story.given(configure(supported_platform_properties={"os": "exact"}), connect("w1", os="linux"), connect("w2"))
    story.when(queue("a", os="mac"), queue("b", os="linux")).then("a queued", "b queued", "b to w1, overtaking a")


def test_a_priority_property_needs_the_name_only(story):
    story.given(configure(supported_platform_properties={"gpu": "priority"}), connect("w1"), connect("w2", gpu="t4"))
    story.when(queue("a", gpu="a100")).then("a queued", "a to w2")


def test_an_ignored_property_is_never_looked_at(story):
    story.given(configure(supported_platform_properties={"note": "ignore"}), connect("w1", note="x"))
    story.when(queue("a", note="y")).then("a queued", "a to w1")


def test_an_unknown_property_restricts_only_workers_that_declare_it(story):
    story.given(connect("w1", pool="blue")).when(queue("a", pool="red")).then("a queued")
    story.when(connect("w2")).then("w2 admitted", "a to w2")


def test_a_property_of_kind_minimum_is_a_pool_of_its_own(story):
    story.given(configure(supported_platform_properties={"licences": "minimum"}), connect("w1", cpu=16, licences="1"))
    story.when(queue("a", licences="1"), queue("b", licences="1")).then("a queued", "a to w1", "b queued")


def test_least_recently_used_goes_round(story):
    story.given(connect("w1", cpu=16), connect("w2", cpu=16), connect("w3", cpu=16))
    story.when(queue("a", cpu=1), queue("b", cpu=1), queue("c", cpu=1), queue("d", cpu=1))
    story.then("a queued", "a to w1", "b queued", "b to w2", "c queued", "c to w3", "d queued", "d to w1")


def test_most_recently_used_stays_with_one(story):
    story.given(configure(allocation_strategy="most_recently_used"), connect("w1", cpu=2), connect("w2", cpu=2))
    story.when(queue("a", cpu=1), queue("b", cpu=1), queue("c", cpu=1))
    story.then("a queued", "a to w2", "b queued", "b to w2", "c queued", "c to w1")


def test_a_keepalive_does_not_make_a_worker_recent(story):
    story.given(connect("w1", cpu=16), connect("w2", cpu=16), keepalive("w1"))
    story.when(queue("a", cpu=1)).then("a queued", "a to w1")


def test_a_finish_makes_a_worker_recent(story):
    story.given(connect("w1", cpu=16), connect("w2", cpu=16), queue("a", cpu=1), queue("b", cpu=1), finish("a"))
    story.when(queue("c", cpu=1)).then("c queued", "c to w2")


def test_a_paused_instance_queues_and_places_nothing(story):
    story.given(connect("w1", cpu=16)).when(pause(), queue("a", cpu=1), queue("b", cpu=1, priority=1))
    story.then("main paused", "a queued", "b queued")
    story.when(resume()).then("main resumed", "b to w1", "a to w1")


def test_pausing_twice_changes_nothing(story):
    story.given(pause()).when(pause()).then("InstancePaused ignored: no_change")
    story.when(resume(), resume()).then("main resumed", "InstanceResumed ignored: no_change")


def test_a_draining_worker_takes_nothing_new_and_finishes_what_it_has(story):
    story.given(connect("w1", cpu=16), queue("a", cpu=1))
    story.when(drain("w1"), queue("b", cpu=1), finish("a")).then("w1 drained", "b queued", "a finished: completed")
    story.when(undrain("w1")).then("w1 undrained", "b to w1")


def test_draining_twice_changes_nothing(story):
    story.given(connect("w1"), drain("w1")).when(drain("w1")).then("WorkerDrained ignored: no_change")


@pytest.mark.parametrize(("queued_s", "by_s"), [(-61, -1), (-3600, -3540), (5, 5)])
def test_a_queued_time_too_far_from_the_append_time_is_clamped_and_the_event_says_so(story, queued_s, by_s):
    story.when(queue("a", queued_s=queued_s)).then(f"a queued, clamped by {by_s} s")
    queued = story.last(e.OperationQueued)
    assert queued.queued_at_us + queued.clamped_us == story.now_us + queued_s * 1_000_000


def test_a_queued_time_within_the_limit_is_taken_as_it_is(story):
    story.when(queue("a", queued_s=-60)).then("a queued")
    assert story.last(e.OperationQueued).queued_at_us == story.now_us - 60_000_000


def test_another_configuration_places_what_now_fits(story):
    story.given(connect("w1", note="x"), queue("a", note="y"))
    story.when(configure(supported_platform_properties={"note": "ignore"})).then("main configured", "a to w1")


def test_the_configuration_in_force_again_changes_nothing(story):
    story.when(configure()).then("Configured ignored: no_change")
