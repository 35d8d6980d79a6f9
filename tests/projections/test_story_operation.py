"""What is told of an operation, whatever became of it: the turns of its life in order, each with its cause and the link to its event."""

from __future__ import annotations

from typing import Any

from events import events as e
from events.reasons import DeclineReason
from projections import answers
from projections.explain import explain_operation
from projections.story.operation import story_of_operation
from tests.projections.stories import history_of, operation_story, operation_words
from tests.stories.notation import (
    accept,
    advance,
    alive,
    cancel,
    configure,
    connect,
    decline,
    finish,
    gone,
    heard,
    keepalive,
    pause,
    queue,
    resume,
)
from tests.stories.story import Story


def overtaken() -> Story:
    """Eight small actions fill W1; b, of eight cores, waits and is overtaken twice; then W1 is held for it until the others have ended."""
    small = [queue(f"s{number}", cpu=1) for number in range(8)]
    story = Story().given(
        configure(hold={"kind": "shortfall", "after_s": 2}), connect("W1", cpu=8), *small, queue("b", cpu=8)
    )
    for number in range(2):
        story.given(advance(1), queue(f"t{number}", cpu=1), finish(f"s{number}"))
    for name in ("s2", "s3", "s4", "s5", "s6", "s7", "t0", "t1"):
        story.given(advance(1), finish(name))
    return story


def kinds(found: dict[str, Any]) -> list[str]:
    return [
        chapter.get("moment", chapter["event"]) for chapter in found["chapters"] if chapter["event"] != "LeaderElected"
    ]


def chapter(found: dict[str, Any], kind: str, number: int = 0) -> dict[str, Any]:
    return [each for each in found["chapters"] if kind in (each["event"], each.get("moment"))][number]


def test_a_finished_operation_is_told_from_queued_to_its_end_with_who_overtook_and_what_let_it_go():
    story = overtaken().given(advance(3), finish("b", exit_code=2))
    found = operation_story(story, "b")
    assert kinds(found) == [
        *("OperationQueued", "queued", "overtaken", "HoldMade", "last"),
        *("OperationDispatched", "HoldReleased", "OperationFinished"),
    ]
    assert found["times_us"] == {"queued": 10_000_000, "executing": 3_000_000}
    past = chapter(found, "overtaken")
    assert [each["client_operation_id"] for each in past["overtakers"]] == ["t0", "t1"]
    assert past["why"]["waits"]["closest"][0]["short"] == [
        {"name": "cpu_millis", "asked": 8000, "free": 0, "total": 8000, "lacks": 8000}
    ]
    placed = chapter(found, "OperationDispatched")
    assert placed["room"]["operation"]["client_operation_id"] == "t1"
    assert (placed["room"]["event"], placed["waited_us"]) == ("OperationFinished", 10_000_000)
    assert chapter(found, "OperationFinished")["exit_code"] == 2


def test_the_story_reads_like_this():
    story = overtaken().given(advance(3), finish("b", exit_code=2))
    assert operation_words(story, "b") == [
        "main/op-11 (b, asks cpu_millis=8000): completed after 13.00s, from 2027-01-15T08:00:00.000Z",
        "in all 10.00s waiting in the queue, 3.00s with a worker",
        "+0us  queued",
        "+0us  it had to wait",
        "    number 1 in the queue",
        "    of 1 connected worker: 1 without enough room",
        "    W1 lacked 8000 cpu_millis (0 of 8000 free, 8000 asked); it ran 8",
        "+1.00s  2 later ones went past it (2 on W1), first main/op-14 (t0, asks cpu_millis=1000)",
        "    then main/op-18 (t1, asks cpu_millis=1000) on W1 after 2.00s",
        "    number 1 in the queue",
        "    of 1 connected worker: 1 without enough room",
        "    W1 lacked 8000 cpu_millis (0 of 8000 free, 8000 asked); it ran 8",
        "+2.00s  hold-34: W1 is held for it, since it had waited 2.00s and main/op-18 (t1, asks cpu_millis=1000) went past it",
        "    of 1 connected worker: 1 without enough room",
        "    W1 lacked 8000 cpu_millis (0 of 8000 free, 8000 asked); it ran 8",
        "+10.00s  and so until the end of this wait",
        "    number 1 in the queue",
        "    of 1 connected worker: 1 without enough room",
        "    W1 lacked 1000 cpu_millis (7000 of 8000 free, 8000 asked); it ran 1",
        "+10.00s  placed on W1 after it waited 10.00s (attempt 1)",
        "    made possible by: main/op-18 (t1) ended on W1, completed",
        "+10.00s  the hold on W1 ended after 8.00s, placed: The operation it was for was placed.",
        "    main/op-11 (b) was placed on W1",
        "+13.00s  ended on W1 after 3.00s, exit code 2, completed: The action ran to its end; the exit code is the action's own.",
    ]


def test_every_chapter_links_to_its_event():
    story = overtaken().given(advance(3), finish("b"))
    history = history_of(story)
    for each in operation_story(story, "b")["chapters"]:
        (told,) = history.events_between(each["seq"], each["seq"])
        assert (told.offset, told.event.at_us) == (each["offset"], each["at_us"])
        assert each["event"] in ("moment", type(told.event).__name__)


def test_why_it_waited_then_is_what_explain_said_at_that_moment():
    story = overtaken()
    history = history_of(story)
    looked = [each for each in operation_story(story, "b")["chapters"] if each.get("why")]
    assert len(looked) == 4
    for each in looked:
        table = history.table_at(each["why"]["seq"])
        row = answers.lookup(table, "b")
        assert row is not None
        assert each["why"]["waits"] == explain_operation(table, row)["waits"]


def test_an_operation_that_waits_says_why_now_as_its_last_turn():
    story = Story().given(connect("W1", cpu=4), queue("x", cpu=3), queue("a", cpu=2), alive(3))
    found = operation_story(story, "a")
    assert kinds(found) == ["OperationQueued", "queued", "now"]
    assert (found["stage"], found["outcome"], found["life_us"]) == ("queued", None, 3_000_000)
    assert operation_words(story, "a")[-3:] == [
        "    number 1 in the queue",
        "    of 1 connected worker: 1 without enough room",
        "    W1 lacked 1000 cpu_millis (1000 of 4000 free, 2000 asked); it ran 1",
    ]


def test_without_a_worker_the_reason_is_that_none_is_connected():
    words = operation_words(Story().given(queue("a", cpu=1), alive(2)), "a")
    assert "    No worker is connected." in words


def test_it_says_since_when_it_was_first_in_line():
    story = Story().given(connect("W1", cpu=4), queue("x", cpu=4), queue("y", cpu=4), queue("a", cpu=4))
    story.given(advance(2), finish("x"), advance(5), finish("y"))
    found = operation_story(story, "a")
    first = chapter(found, "first_in_line")
    y = next(
        event
        for event in story.every_event()
        if isinstance(event, e.OperationDispatched) and event.operation_id == story.operation_id("y")
    )
    assert (first["seq"], first["after_us"]) == (y.seq, 2_000_000)
    assert chapter(found, "queued")["why"]["waits"]["first_ahead"][0]["client_operation_id"] == "y"


def test_who_stood_before_it_is_named_with_what_ended_that():
    story = Story().given(configure(hold={"kind": "shortfall", "after_s": 2}), connect("W1", cpu=4), queue("x", cpu=4))
    story.given(queue("huge", cpu=99), queue("a", cpu=4), advance(5), cancel("huge"), advance(1), finish("x"))
    before = chapter(operation_story(story, "a"), "first_in_line")["before"]
    assert (before["operation"]["client_operation_id"], before["nothing_held"]) == ("huge", True)
    assert (before["left"]["event"], before["left"]["reason"]["reason"]) == ("OperationFinished", "cancelled")
    huge = f"main/op-{story.operation_id('huge')} (huge"
    words = operation_words(story, "a")
    began = words.index("+5.00s  first in line from here on")
    assert words[began + 1 : began + 4] == [
        f"    until then {huge}, asks cpu_millis=99000) stood before it, which no connected worker could ever run",
        "    so nothing was held for anybody while that one was first",
        f"    that ended: {huge}) ended, cancelled",
    ]
    assert f"    no connected worker could ever run {huge}): while it is first, nothing is held for anybody" in words


def test_one_that_could_run_and_stood_before_it_is_not_said_to_be_in_the_way_of_a_hold():
    story = Story().given(configure(hold={"kind": "shortfall", "after_s": 60}), connect("W1", cpu=4), queue("x", cpu=4))
    story.given(queue("y", cpu=4), queue("a", cpu=4), advance(2), finish("x"), advance(5), finish("y"))
    before = chapter(operation_story(story, "a"), "first_in_line")["before"]
    assert (before["never"], before["nothing_held"], before["left"]["event"]) == (None, False, "OperationDispatched")
    assert not any("no connected worker" in line or "nothing was held" in line for line in operation_words(story, "a"))


def test_one_that_is_requeued_twice_says_why_each_time_and_the_times_sum_to_its_life():
    story = Story().given(connect("W1", cpu=4), queue("a", cpu=2), advance(1), accept("a"), advance(2), gone("W1"))
    story.given(advance(1), connect("W1", cpu=4, boot=2), advance(1))
    story.given(decline("a", DeclineReason.MEMORY, needed_kib=500, free_kib=20), advance(1), keepalive("W1"))
    story.given(advance(1), finish("a"))
    found = operation_story(story, "a")
    assert [each["state"] for each in found["stays"]] == ["executing", "queued", "executing", "queued", "executing"]
    lost, declined = (each for each in found["chapters"] if each["event"] == "OperationRequeued")
    assert (lost["cause"]["reason"], lost["because"]["reason"]["reason"]) == ("worker_gone", "gone")
    assert (declined["cause"]["reason"], declined["declined"]["reason"]) == ("declined", "memory")
    assert chapter(found, "OperationDispatched", 2)["room"]["event"] == "WorkerReported"
    words = operation_words(story, "a")
    assert "    the worker said memory, needs 500 KiB, has 20 KiB free" in words
    assert "    W1 was lost: The worker said that it leaves" in words
    assert "in all 2.00s waiting in the queue, 5.00s with a worker" in words


def test_one_that_is_cancelled_while_queued_never_ran():
    story = Story().given(connect("W1", cpu=1), queue("x", cpu=1), queue("a", cpu=1), alive(4), cancel("a"))
    found = operation_story(story, "a")
    assert kinds(found)[-1] == "OperationFinished"
    assert (found["outcome"], found["attempts"], found["times_us"]) == ("cancelled", 0, {"queued": 4_000_000})
    assert operation_words(story, "a")[-1] == "+4.00s  ended without running, cancelled: It was cancelled."


def test_one_whose_client_left_says_so():
    story = Story().given(configure(client_action_timeout_s=5), queue("a", cpu=1, attached=True), alive(2), heard("a"))
    story.given(advance(8))
    end = chapter(operation_story(story, "a"), "OperationFinished")
    assert (end["outcome"]["reason"], end["because"]["event"]) == ("abandoned", "ClientLeft")
    assert end["because"]["reason"]["reason"] == "timeout"


def test_one_that_no_worker_could_ever_run_says_what_was_missing():
    story = Story().given(
        configure(
            supported_platform_properties={"cpu_millis": "minimum", "zone": "exact"}, unsatisfiable_action_timeout_s=5
        ),
        connect("W1", cpu=4, zone="b"),
        queue("a", cpu=2, zone="a"),
        alive(6),
    )
    end = chapter(operation_story(story, "a"), "OperationFinished")
    assert (end["outcome"]["reason"], end["because"]["event"]) == ("unsatisfiable", "DemandUnsatisfiable")
    assert end["because"]["properties"] == ["zone"]
    words = operation_words(story, "a")
    assert "    of 1 connected worker: 1 without the properties it asks for" in words
    assert "    it asks zone=a; 0 of 1 workers have it" in words


def test_a_forgotten_operation_is_told_from_the_log():
    story = Story().given(configure(retain_completed_for_s=5), connect("W1", cpu=4), queue("a", cpu=2), advance(1))
    before = operation_words(story.given(finish("a")), "a")
    story.given(alive(20))
    assert any(isinstance(event, e.OperationsForgotten) for event in story.every_event())
    found = operation_story(story, "a")
    assert not found["kept"]
    after = operation_words(story, "a")
    assert after[0] == before[0] + "; the state table has forgotten it"
    assert after[1:] == before[1:]


def test_a_name_that_was_given_again_leads_to_the_newer_operation_and_names_the_older_one():
    story = Story().given(configure(retain_completed_for_s=5), connect("W1", cpu=4), queue("a", cpu=2), finish("a"))
    story.given(alive(20), queue("a", cpu=1))
    older, newer = history_of(story).operations_named("a")
    found = operation_story(story, "a")
    assert (found["operation_id"], found["same_name"]) == (newer, [older])


def test_up_to_an_earlier_event_the_story_is_what_was_known_then():
    story = overtaken()
    made = story.last(e.HoldMade)
    found = operation_story(story, "b", made.seq)
    assert kinds(found)[-1] == "now"
    assert (found["stage"], found["as_of"]["seq"], found["life_us"]) == ("queued", made.seq, 2_000_000)
    assert story_of_operation(history_of(story), found["operation_id"], 5) is None


def test_a_pause_of_the_instance_stands_in_the_story():
    story = Story().given(connect("W1", cpu=4), pause(), queue("a", cpu=1), advance(2), resume())
    found = operation_story(story, "a")
    assert kinds(found) == ["OperationQueued", "queued", "last", "InstanceResumed", "OperationDispatched"]
    assert chapter(found, "OperationDispatched")["room"]["event"] == "InstanceResumed"
    assert "    The instance is paused: it places nothing until it is resumed." in operation_words(story, "a")
