"""What is told of a worker: its connections, drains, pauses and holds with their causes, how its time went, and why it got nothing."""

from __future__ import annotations

from typing import Any

from projections.story.worker import story_of_worker
from tests.projections.stories import history_of, worker_story, worker_words
from tests.projections.test_story_operation import overtaken
from tests.stories.notation import (
    accept,
    advance,
    alive,
    configure,
    connect,
    decline,
    drain,
    finish,
    gone,
    keepalive,
    queue,
    undrain,
)
from tests.stories.story import Story


def times(found: dict[str, Any]) -> dict[str, int]:
    return {state["state"]: state["for_us"] for state in found["states"]}


def test_one_that_was_lost_and_came_back_as_another_process():
    story = Story().given(connect("W1", cpu=4), queue("a", cpu=2), accept("a"), advance(3), gone("W1"), advance(2))
    story.given(connect("W1", cpu=4, boot=2), advance(1), finish("a"), advance(4))
    found = worker_story(story, "W1")
    assert [chapter["event"] for chapter in found["chapters"]] == [
        "WorkerAdmitted",
        "WorkerDisconnected",
        "WorkerAdmitted",
    ]
    assert (found["connections"], found["boot_epochs"], found["state"]) == (2, 2, "idle")
    assert times(found) == {"away": 2_000_000, "working": 4_000_000, "idle": 4_000_000}
    assert {item["how"]: item["runs"] for item in found["ran"]["ended"]} == {"worker_gone": 1, "completed": 1}
    assert worker_words(story, "W1") == [
        "W1 of instance main: idle; told of 10.00s from 2027-01-15T08:00:00.000Z, 2 connections, 2 processes; has cpu_millis=4000",
        "  2.00s not connected",
        "  4.00s working (cpu_millis 50 % in use)",
        "  4.00s idle (cpu_millis 0 % in use)",
        "it was given 2 runs, the longest 3.00s, on average 2.00s; ended: 1 completed, 1 worker_gone",
        "+0us  connected, boot epoch 1, with cpu_millis=4000",
        "+3.00s  lost, gone: The worker said that it leaves.",
        "+5.00s  connected, boot epoch 2, with cpu_millis=4000",
        "idle and taking work 1 time, the longest:",
        "  +6.00s for 4.00s (as of seq 41): nothing waited".replace("41", str(found["idle"][0]["as_of_seq"])),
    ]


def test_one_that_was_silent_says_for_how_long():
    story = Story().given(configure(worker_timeout_s=5), connect("W1", cpu=4), advance(8))
    out = worker_story(story, "W1")["chapters"][-1]
    assert (out["event"], out["reason"]["reason"]) == ("WorkerDisconnected", "timeout")
    assert out["silent_us"] >= 5_000_000
    assert worker_story(story, "W1")["state"] == "away"


def test_one_that_was_drained_and_let_work_again():
    story = Story().given(connect("W1", cpu=4), drain("W1"), queue("a", cpu=1), alive(3), undrain("W1"), advance(1))
    found = worker_story(story, "W1")
    assert times(found) == {"draining": 3_000_000, "working": 1_000_000}
    assert [chapter["event"] for chapter in found["chapters"]] == ["WorkerAdmitted", "WorkerDrained", "WorkerUndrained"]


def test_a_pause_is_from_the_decline_to_the_report_that_lifts_it():
    story = Story().given(connect("W1", cpu=4), queue("x", cpu=1), queue("a", cpu=1))
    story.given(decline("a", needed_kib=700), advance(2), keepalive("W1", 100), advance(1), keepalive("W1", 800))
    story.given(advance(1))
    found = worker_story(story, "W1")
    assert times(found) == {"paused": 3_000_000, "working": 1_000_000}
    _, paused, resumed = found["chapters"]
    assert (paused["cause"]["reason"], paused["needed_kib"]) == ("declined", 700)
    assert (resumed["event"], resumed["free_memory_kib"]) == ("WorkerReported", 800)


def test_the_time_in_which_it_was_held_and_how_much_of_it_was_used_meanwhile():
    found = worker_story(overtaken(), "W1")
    assert times(found) == {"held": 8_000_000, "working": 2_000_000}
    used = {state["state"]: state["used"][0]["percent_hundredths"] for state in found["states"]}
    # Eight of eight cores for a second, then one less each second.
    assert used == {"held": (8 + 7 + 6 + 5 + 4 + 3 + 2 + 1) * 10_000 // 64, "working": 10_000}


def test_while_it_was_idle_it_says_what_waited_and_why_none_of_it_came():
    story = Story().given(connect("W1", cpu=4), queue("wide", cpu=8), queue("wider", cpu=9), alive(5))
    (idle,) = worker_story(story, "W1")["idle"]
    assert (idle["waiting"], idle["for_us"]) == (2, 5_000_000)
    assert [(each["standing"], each["operations"]) for each in idle["standings"]] == [("too_small", 2)]
    assert worker_words(story, "W1")[-1].endswith("2 operations waited: 2 asked for more than it has")


def test_from_a_later_moment_on_only_what_was_after_it_is_told():
    story = overtaken()
    history = history_of(story)
    made = worker_story(story, "W1")["chapters"][1]
    found = story_of_worker(history, "main", "W1", None, made["seq"])
    assert found is not None
    assert [chapter["event"] for chapter in found["chapters"]] == ["HoldMade", "HoldReleased"]
    assert times(found) == {"held": 8_000_000}
    assert sum(state["for_us"] for state in found["states"]) == found["span_us"] == 8_000_000


def test_one_that_never_connected_has_no_story():
    assert story_of_worker(history_of(overtaken()), "main", "W9") is None


def test_at_an_earlier_moment_what_ended_later_still_runs():
    story = Story().given(connect("W1", cpu=4), queue("a", cpu=1), advance(2))
    seq = story.every_event()[-1].seq
    found = story_of_worker(history_of(story.given(advance(3), finish("a"))), "main", "W1", seq)
    assert found is not None
    assert (found["state"], found["ran"]["still_running"], found["ran"]["ended"]) == ("working", 1, [])
    assert times(found) == {"working": 2_000_000}
