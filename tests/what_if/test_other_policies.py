"""Under another policy, what-if gives what that policy does: held against simulations, where the truth is known, and case by case."""

from __future__ import annotations

import json

import pytest

from events.events import OperationFinished
from events.facts import ActionFinished
from events.reasons import HoldEnd
from projections.whatif.comparing import answer_of, check_settings, compare
from projections.whatif.durations import Courses, Source
from projections.whatif.meter import Meter
from projections.whatif.reading import Window
from projections.whatif.record import Record
from projections.whatif.setting import BadSetting, parse_setting
from projections.whatif.world import World
from streams.simulate.made import farm
from streams.simulate.policies import Policy
from streams.simulate.world import Run
from tests.stories.notation import accept, advance, alive, cancel, connect, fact, finish, queue
from tests.stories.story import Story
from tests.what_if.records import of_story, recording, simulation

SPAN_S = 600
AFTER_S = 20


def what_if(record: Record, *settings: str) -> World:
    world = World(record, "main", [parse_setting(text) for text in settings], courses=Courses(record))
    world.play()
    return world


def waits(run: Run) -> list[int]:
    return [started - job.arrival_us for job, started in zip(run.workload.jobs, run.started_us, strict=True)]


def waits_of(meter: Meter) -> list[int]:
    """By the jobs' numbers, which are their names."""
    rows = sorted(meter.waits.values(), key=lambda row: int(row.client_operation_id))
    return [meter.waited_us(row) for row in rows]


def test_what_a_hold_would_have_done_is_what_a_simulation_with_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record without hold, asked about one: the wait of each of some thousand jobs is that of the run with the hold."""
    _, events, facts = simulation(monkeypatch, farm(1, span_s=SPAN_S), Policy.NONE)
    held, _, _ = simulation(monkeypatch, farm(1, span_s=SPAN_S), Policy.HOLD, after_s=AFTER_S)
    record, recorded = recording(events, facts)
    world = what_if(record, f"hold.after_s={AFTER_S}")
    # The record ends with its last run; what the hold delays beyond it is not decided any more.
    modelled, simulated = waits_of(world.meter), waits(held)
    ended = {int(row.client_operation_id) for row in world.meter.unplaced()}
    assert len(ended) < 5
    assert [wait for job, wait in enumerate(modelled) if job not in ended] == [
        wait for job, wait in enumerate(simulated) if job not in ended
    ]
    assert modelled != waits_of(recorded)
    assert world.meter.holds_made == held.holds > 0
    assert world.comparison.divergence is not None


def test_without_the_hold_large_actions_wait_longer_and_the_rest_less(monkeypatch: pytest.MonkeyPatch) -> None:
    _, events, facts = simulation(monkeypatch, farm(1, span_s=SPAN_S), Policy.HOLD, after_s=AFTER_S)
    none, _, _ = simulation(monkeypatch, farm(1, span_s=SPAN_S), Policy.NONE)
    record, recorded = recording(events, facts)
    answer = answer_of(compare(record, recorded, [(parse_setting("hold=off"),)]), longest=2)
    was, off = answer["policies"][0], answer["policies"][-1]
    assert off["large"]["mean_us"] > was["large"]["mean_us"]
    assert off["waits"]["mean_us"] < was["waits"]["mean_us"]
    assert off["holds"]["made"] == off["holds"]["held_us"] == 0 < was["holds"]["held_us"]
    assert off["holds"]["held_idle_core_s"] == 0 < was["holds"]["held_idle_core_s"]
    assert off["first_divergence"]["recorded"]["kind"] == "HoldMade"
    assert 0 < off["facts"]["share_of_runs_real"] < 1
    assert off["waits"]["max_us"] == max(waits(none))
    assert [each["recorded_us"] for each in answer["longest"]] == sorted(waits_of(recorded))[:-3:-1]


def test_the_same_question_has_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    _, events, facts = simulation(monkeypatch, farm(2, span_s=300), Policy.NONE)
    policies = [(parse_setting(f"hold.after_s={after_s}"),) for after_s in (10, 40)]
    texts = []
    for _ in range(2):
        record, recorded = recording(events, facts)
        texts.append(json.dumps(answer_of(compare(record, recorded, policies), longest=5)))
    assert texts[0] == texts[1]


def two_at_once() -> Story:
    """A worker of two cores; `a` takes it whole for 10 s, then `b`, which was queued with it."""
    story = Story()
    story.given(
        connect("w1", cpu=2),
        queue("a", cpu=2),
        accept("a"),
        queue("b", cpu=2),
        alive(10),
        finish("a"),
        accept("b"),
        alive(5),
        finish("b", exit_code=3),
        alive(5),
    )
    return story


def test_a_run_elsewhere_takes_as_long_as_it_did_and_ends_in_the_same_way() -> None:
    record, recorded = of_story(two_at_once())
    world = World(record, "main", courses=Courses(record), regenerate=True)
    world.play()
    assert waits_by_name(world.meter) == waits_by_name(recorded) == {"a": 0, "b": 10_000_000}
    assert world.facts.runs == {Source.ATTEMPT: 2}


def waits_by_name(meter: Meter) -> dict[str, int]:
    return {row.client_operation_id: meter.waited_us(row) for row in meter.waits.values()}


def test_what_the_record_saw_only_in_part_takes_what_is_expected_else_the_median_of_its_kind() -> None:
    story = Story()
    story.given(connect("w1", cpu=4))
    for name, took_s in (("a", 2), ("b", 4), ("c", 9)):
        story.given(queue(name, cpu=1), accept(name), alive(took_s), finish(name))
    story.given(queue("told", cpu=1, expected_s=30), queue("untold", cpu=1), queue("long", cpu=1))
    story.given(accept("told"), accept("untold"), accept("long"), alive(1), cancel("told"), cancel("untold"), alive(11))
    record, _ = of_story(story)
    courses = Courses(record)
    names = {story.names[attempts[0].operation_id]: attempts[0] for attempts in record.attempts.values()}

    def course(name: str, expected_us: int = 0) -> tuple[int | None, Source]:
        attempt = names[name]
        found = courses.of(attempt.operation_id, 0, attempt.kind, expected_us)
        return found.run_us, found.source

    assert course("b") == (4_000_000, Source.ATTEMPT)
    assert course("told", 30_000_000) == (30_000_000, Source.EXPECTED)
    assert course("untold") == (4_000_000, Source.KIND)
    seen_us, source = course("long")  # it has run for 12 s as the record ends: longer than the median
    assert seen_us is not None
    assert seen_us > 12_000_000
    assert source is Source.KIND
    other = courses.of(1 << 40, 0, "another kind", 0)
    assert (other.run_us, other.source) == (4_000_000, Source.ANY)
    assert courses.of(names["b"].operation_id, 1, names["b"].kind, 0).source is Source.OPERATION


def test_a_worker_that_was_evicted_stays_under_a_longer_timeout_and_its_run_ends() -> None:
    story = Story()
    story.configure({"worker_timeout_s": 5})
    story.given(
        connect("w1", cpu=1),
        queue("x", cpu=1),
        accept("x"),
        alive(1),
        finish("x"),
        queue("a", cpu=1),
        accept("a"),
        advance(8),  # it says nothing: evicted after 5 s, and nobody is left to run `a`
    )
    record, recorded = of_story(story)
    assert waits_by_name(recorded)["a"] > 0
    world = what_if(record, "worker_timeout_s=60")
    assert waits_by_name(world.meter)["a"] == 0
    assert world.facts.runs == {}
    assert world.facts.modelled == 1  # the end that the record did not see


def test_nobody_says_anything_while_the_log_is_away() -> None:
    """The record has an outage of 40 s. A run that is modelled to end in it ends after it, and nobody is evicted for it."""
    story = Story()
    story.given(connect("w1", cpu=2), connect("w2", cpu=1))
    story.given(queue("a", cpu=1), accept("a"), alive(3), queue("b", cpu=1), accept("b"), alive(1))
    rehearsal = story.rehearsal
    rehearsal.ticker = False
    story.now_us += 40_000_000
    story.given(finish("a"), finish("b"))
    rehearsal.ticker = True
    story.given(alive(2))
    record, _ = of_story(story)
    assert len(record.silences) == 1
    began_us, ended_us = record.silences[0]
    assert ended_us - began_us == 40_000_000
    assert record.awake_us(began_us + 1) == ended_us
    assert record.awake_us(ended_us + 1) == ended_us + 1
    for attempts in record.attempts.values():  # as if they had ended a second into the outage
        for number, answer in enumerate(attempts[0].answers):
            if answer.at_us == ended_us:
                attempts[0].answers[number] = answer._replace(at_us=began_us + 1_000_000)
    world = World(record, "main", courses=Courses(record), regenerate=True)
    ends: list[int] = []
    see = world.comparison.see
    world.comparison.see = lambda events: (ends.extend(e.at_us for e in events if is_end(e)), see(events))[1]  # type: ignore[method-assign]
    world.play()
    assert ends == [ended_us, ended_us]
    assert len(world.shard.instances["main"].workers) == 2


def is_end(event: object) -> bool:
    return isinstance(event, OperationFinished)


def test_settings_hold_from_the_first_moment_of_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stretch has no configuration of its own: what was in force before it is changed as it begins."""
    _, events, facts = simulation(monkeypatch, farm(1, span_s=SPAN_S), Policy.HOLD, after_s=AFTER_S)
    record, recorded = recording(events, facts, window=Window(from_seq=len(events) // 2))
    assert recorded.holds_made > 0
    assert what_if(record, "hold=off").meter.holds_made == 0


def test_an_answer_about_a_dispatch_that_never_was_is_about_nobody_here() -> None:
    """A worker says that it has finished what nobody gave it. In a new history that number may be somebody's."""
    story = Story()
    story.configure({"hold": {"kind": "shortfall", "after_s": 5}})
    story.given(connect("w1", cpu=1), queue("a", cpu=1), accept("a"), alive(2))
    record, _ = of_story(story)
    never = record.last_seq + 3
    story.given(fact(ActionFinished("main", "w1", story.connections["w1"], never, exit_code=9)), alive(4))
    record, _ = of_story(story)
    (lie,) = [given for given in record.givens if isinstance(given.fact, ActionFinished)]
    assert isinstance(lie.fact, ActionFinished)
    assert lie.fact.dispatch_id > 1 << 61
    assert what_if(record, "hold=off").comparison.divergence is None


def test_gaps_are_no_outage_where_no_ticker_ran() -> None:
    story = Story(ticker=False)
    story.given(connect("w1", cpu=1), queue("a", cpu=1), accept("a"))
    story.now_us += 9_000_000
    story.given(finish("a"))
    assert of_story(story)[0].silences == []


def test_a_setting_that_the_rows_of_the_record_do_not_take_is_refused_by_name() -> None:
    story = Story()
    story.given(connect("w1", cpu=1, zone="a"), queue("a", cpu=1))
    record, recorded = of_story(story)
    with pytest.raises(BadSetting, match="no configuration in this window"):
        check_settings(record, "night", [(parse_setting("hold=off"),)])
    assert recorded.instance == "main"


def test_a_hold_that_ends_by_the_record_s_cancel_ends_so_here() -> None:
    """What operators did comes as it came, wherever it finds the operation."""
    story = Story()
    story.configure({"hold": {"kind": "shortfall", "after_s": 5}})
    story.given(connect("w1", cpu=2), queue("s1", cpu=1), queue("s2", cpu=1), accept("s1"), accept("s2"))
    story.given(queue("big", cpu=2), alive(6), queue("s3", cpu=1), finish("s1"), accept("s3"), alive(1), cancel("big"))
    story.given(alive(1), finish("s2"), finish("s3"), alive(1))
    record, recorded = of_story(story)
    assert recorded.hold_ends == {HoldEnd.GONE: 1}
    assert what_if(record).meter.hold_ends == {HoldEnd.GONE: 1}
    assert what_if(record, "hold.after_s=4").meter.hold_ends == {HoldEnd.GONE: 1}
    assert what_if(record, "hold=off").meter.hold_ends == {}
