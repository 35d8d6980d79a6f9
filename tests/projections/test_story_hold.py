"""What is told of a hold: why it was made, where it went, the event that ended it, and what it cost those that waited behind."""

from __future__ import annotations

from typing import Any

from tests.projections.stories import hold_story, hold_words
from tests.projections.test_story_operation import overtaken
from tests.stories.notation import (
    advance,
    alive,
    cancel,
    configure,
    connect,
    decline,
    drain,
    finish,
    gone,
    queue,
    restart,
)
from tests.stories.story import Story

HOLD = {"kind": "shortfall", "after_s": 2}


def held(**options: Any) -> Story:
    """W1 (eight cores) runs eight small ones, and is held for b once t0 went past it; W2 is too small for b."""
    small = [queue(f"s{number}", cpu=1) for number in range(8)]
    story = Story().given(
        configure(hold={**HOLD, **options}), connect("W1", cpu=8), *small, connect("W2", cpu=1), queue("x", cpu=1)
    )
    story.given(queue("b", cpu=8), alive(3), queue("t0", cpu=1), finish("s0"))
    assert story.held() == ("W1", "b")
    return story


def ended(story: Story) -> tuple[str, str | None, str | None]:
    """How the hold for b ended, the kind of event behind it, and whom that is about."""
    end = hold_story(story, "b")["ended"]
    because = end["because"] or {}
    return end["reason"]["reason"], because.get("event"), because.get("endpoint")


def test_a_hold_that_ends_with_its_placement_says_what_was_waited_for_and_what_it_cost():
    assert hold_words(overtaken(), "b") == [
        "hold-34 of instance main: W1 for main/op-11 (b, asks cpu_millis=8000), placed, from 2027-01-15T08:00:02.000Z, 8.00s long",
        "hold policy shortfall, after_s 2",
        "+0us  W1 was held because the operation had waited 2.00s",
        "    and main/op-18 (t1, asks cpu_millis=1000) went past it, onto W1",
        "    it lacked 8000 cpu_millis there (0 of 8000 free, 8000 asked) and waited for 8 runs",
        "      main/op-5 (s2, asks cpu_millis=1000), for 2.00s so far",
        "      main/op-6 (s3, asks cpu_millis=1000), for 2.00s so far",
        "      main/op-7 (s4, asks cpu_millis=1000), for 2.00s so far",
        "      main/op-8 (s5, asks cpu_millis=1000), for 2.00s so far",
        "      main/op-9 (s6, asks cpu_millis=1000), for 2.00s so far",
        "+8.00s  placed: The operation it was for was placed.",
        "    main/op-11 (b) was placed on W1",
        "    made possible by: main/op-18 (t1) ended on W1, completed",
        "    the operation is executing by now; it waited 10.00s in all",
        "cost: 28.00 core-seconds kept idle; nobody waited who would have fitted there",
    ]


def test_what_it_kept_idle_is_the_room_it_had_less_than_asked_for_in_each_moment():
    # One core comes free each second from 1 s after it was made: 1 + 2 + ... + 7 core-seconds until the eighth lets b go.
    (idle,) = hold_story(overtaken(), "b")["cost"]["idle"]
    assert idle == {
        "name": "cpu_millis",
        "asked": 8000,
        "most": 7000,
        "amount_seconds": 28_000,
        "core_seconds": "28.00",
    }


def test_those_that_would_have_fitted_on_the_held_worker_are_named_with_how_long_they_waited_for_it():
    story = held().given(queue("wide", cpu=4), queue("t1", cpu=1), queue("t2", cpu=1))
    story.given(advance(1), finish("s1"), advance(2), finish("s2"), advance(2), cancel("b"))
    waited = hold_story(story, "b")["cost"]["waited"]
    found = [(each["client_operation_id"], each["for_us"]) for each in waited["first"]]
    assert found == [("t1", 4_000_000), ("t2", 2_000_000)]
    assert (waited["operations"], waited["for_us"], waited["longest_us"]) == (2, 6_000_000, 4_000_000)


def test_an_operation_that_would_not_have_fitted_beside_those_before_it_is_not_counted():
    story = held().given(queue("t1", cpu=1), queue("t2", cpu=1), advance(1), finish("s1"), advance(4), cancel("b"))
    waited = hold_story(story, "b")["cost"]["waited"]
    assert [each["client_operation_id"] for each in waited["first"]] == ["t1"]
    assert (waited["operations"], waited["for_us"]) == (1, 4_000_000)


def test_one_that_is_placed_elsewhere_says_that_it_was_not_the_held_worker():
    story = held().given(connect("W3", cpu=8))
    end = hold_story(story, "b")["ended"]
    assert (end["endpoint"], end["because"]["endpoint"], end["elsewhere"]) == ("W1", "W3", True)
    assert end["room"]["event"] == "WorkerAdmitted"
    assert "    that is not the worker that was held, W1" in hold_words(story, "b")


def test_the_end_of_a_hold_names_the_event_behind_it():
    assert ended(held().given(cancel("b"))) == ("gone", "OperationFinished", None)
    assert ended(held().given(gone("W1"))) == ("worker_lost", "WorkerDisconnected", "W1")
    assert ended(held().given(connect("W1", cpu=4, boot=2))) == ("worker_lost", "WorkerAdmitted", "W1")
    assert ended(held().given(drain("W1"))) == ("unfit", "WorkerDrained", "W1")
    assert ended(held().given(configure(hold=None))) == ("configured", "Configured", None)
    assert ended(held(max_hold_s=5).given(alive(6))) == ("expired", None, None)


def test_a_decline_that_made_the_worker_unfit_is_named_with_whose_it_was():
    story = held().given(advance(1), finish("s1"), queue("ahead", cpu=1, priority=1), decline("ahead"))
    end = hold_story(story, "b")["ended"]
    assert (end["reason"]["reason"], end["because"]["event"]) == ("unfit", "OperationRequeued")
    assert end["because"]["operation"]["client_operation_id"] == "ahead"
    assert "    main/op-22 (ahead) came back from W1: The worker declined it; no attempt is counted" in [
        line.replace(str(story.operation_id("ahead")), "22") for line in hold_words(story, "b")
    ]


def test_one_that_is_superseded_names_the_hold_that_followed():
    story = Story().given(configure(hold=HOLD), connect("W1", cpu=8), connect("M1", cpu=2, memory=900))
    small = [queue(f"s{number}", cpu=1) for number in range(8)]
    story.given(queue("m0", cpu=2, memory=500), *small, queue("b", cpu=8), alive(3), queue("t0", cpu=1), finish("s0"))
    assert story.held() == ("W1", "b")
    story.given(queue("first", cpu=2, memory=900, priority=5), alive(3), queue("t1", cpu=1, priority=1), finish("s1"))
    reason, event, endpoint = ended(story)
    assert (reason, event, endpoint) == ("superseded", "HoldMade", "M1")


def test_a_hold_that_moved_says_from_where_to_where_and_why():
    story = Story().given(configure(hold=HOLD), connect("W1", cpu=8), connect("W3", cpu=8))
    story.given(*[queue(f"s{number}", cpu=1) for number in range(16)], queue("b", cpu=8), alive(3))
    story.given(queue("t0", cpu=1), finish("s0"))
    holder, _ = story.held() or ("", "")
    away = "W3" if holder == "W1" else "W1"
    story.given(advance(1), drain(holder))
    (move,) = hold_story(story, "b")["moves"]
    assert (move["from_endpoint"], move["endpoint"], move["cause"]["reason"]) == (holder, away, "drained")
    assert (move["because"]["event"], move["after_us"]) == ("WorkerDrained", 1_000_000)


def test_a_hold_that_stands_has_no_end_and_goes_on_across_a_takeover():
    story = held().given(advance(1), restart(), advance(1))
    found = hold_story(story, "b")
    assert (found["ended"], found["held_us"], found["operation_now"]["still_waits"]) == (None, 2_000_000, True)
    assert "+2.00s  it still stands" in hold_words(story, "b")
