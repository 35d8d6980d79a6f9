"""Under another policy, what-if gives what that policy does: held against simulations, where the truth is known, and case by case."""

from __future__ import annotations

import json

import pytest

from events.events import OperationFinished
from events.facts import ActionFinished, Configured
from events.reasons import CacheAnswer, HoldEnd, Outcome, RunResult
from projections.whatif.comparing import answer_of, check_settings, compare
from projections.whatif.decisions import Decision
from projections.whatif.durations import Courses, Source
from projections.whatif.meter import Meter
from projections.whatif.reading import Window
from projections.whatif.record import Record
from projections.whatif.setting import BadSetting, parse_setting
from projections.whatif.world import World
from streams.simulate.made import farm
from streams.simulate.policies import Policy
from streams.simulate.world import Run
from tests.stories.notation import accept, advance, alive, answer, cancel, connect, fact, finish, queue, submit
from tests.stories.story import START_US, Story
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


@pytest.mark.parametrize(
    ("policy", "settings"),
    [
        (Policy.HOLD, (f"hold.after_s={AFTER_S}",)),
        (Policy.DRAIN_TIME, ("hold.kind=drain_time", f"hold.after_s={AFTER_S}")),
        (Policy.EASY, ("hold.kind=backfill", f"hold.after_s={AFTER_S}")),
    ],
)
def test_what_a_hold_would_have_done_is_what_a_simulation_with_it_does(
    policy: Policy, settings: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record without hold, asked about one: the wait of each of some thousand jobs is that of the run with the hold."""
    _, events, facts = simulation(monkeypatch, farm(1, span_s=SPAN_S), Policy.NONE)
    held, _, _ = simulation(monkeypatch, farm(1, span_s=SPAN_S), policy, after_s=AFTER_S)
    record, recorded = recording(events, facts)
    world = what_if(record, *settings)
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


def test_how_well_holds_are_known_is_not_claimed_where_none_were_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    policies = [(parse_setting("hold.after_s=10"),)]
    for policy in (Policy.NONE, Policy.HOLD):
        _, events, facts = simulation(monkeypatch, farm(1, span_s=300), policy, after_s=10)
        error = answer_of(compare(*recording(events, facts), policies), longest=0)["error"]
        for part in ("off", "chance", "most"):
            assert (error[part]["holds"] is None) == (policy is Policy.NONE)


def test_without_the_hold_large_actions_wait_longer_and_the_rest_less(monkeypatch: pytest.MonkeyPatch) -> None:
    _, events, facts = simulation(monkeypatch, farm(1, span_s=SPAN_S), Policy.HOLD, after_s=AFTER_S)
    none, _, _ = simulation(monkeypatch, farm(1, span_s=SPAN_S), Policy.NONE)
    record, recorded = recording(events, facts)
    found = answer_of(compare(record, recorded, [(parse_setting("hold=off"),)]), longest=2)
    was, off = found["policies"][0], found["policies"][-1]
    assert off["large"]["mean_us"] > was["large"]["mean_us"]
    assert off["waits"]["mean_us"] < was["waits"]["mean_us"]
    assert off["holds"]["made"] == off["holds"]["held_us"] == 0 < was["holds"]["held_us"]
    assert off["holds"]["held_idle_core_s"] == 0 < was["holds"]["held_idle_core_s"]
    assert off["first_divergence"]["recorded"]["kind"] == "HoldMade"
    assert 0 < off["facts"]["share_of_runs_real"] < 1
    assert off["waits"]["max_us"] == max(waits(none))
    assert [each["recorded_us"] for each in found["longest"]] == sorted(waits_of(recorded))[:-3:-1]


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
        for number, said in enumerate(attempts[0].answers):
            if said.at_us == ended_us:
                attempts[0].answers[number] = said._replace(at_us=began_us + 1_000_000)
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


def elsewhere() -> Story:
    """`a` fills w1 and `b`, queued next, goes to w2; under best_fit the small `b` would have gone to w1, where it just fits."""
    story = Story()
    return story.given(connect("w2", cpu=4), connect("w1", cpu=1), queue("b", cpu=1), accept("b"))


def of_run(record: Record, world: World) -> str:
    """The worker of the first dispatch in a new history, other than in the record."""
    (attempts,) = record.attempts.values()
    divergence = world.comparison.divergence
    assert divergence is not None
    assert divergence.recorded is not None
    assert divergence.instead is not None
    assert divergence.recorded.said[1] == attempts[0].endpoint
    return str(divergence.instead.said[1])


def test_a_run_that_is_elsewhere_goes_on_when_its_worker_reconnects_and_is_lost_with_another_process() -> None:
    for boot, ended_s in ((1, 9), (2, 12)):
        story = elsewhere().given(alive(3), connect("w1", cpu=1, boot=boot), alive(6), finish("b"), alive(10))
        record, _ = of_story(story)
        world = what_if(record, "allocation_strategy=best_fit")
        assert of_run(record, world) == "w1"
        # Its list of runs as it connects is made here. Of another process the run is lost, and takes its 9 s once more from then on.
        finished = [end for end in ends_of(world) if end.said[1] == Outcome.COMPLETED]
        assert [(end.at_us - START_US) // 1_000_000 for end in finished] == [ended_s]


def ends_of(world: World) -> list[Decision]:
    """How operations end there: they are still in the rows."""
    instance = world.shard.instances["main"]
    return [
        Decision(at_us, OperationFinished, (operation.operation_id, operation.outcome), seq)
        for seq, at_us, operation in instance.finished
    ]


def test_only_what_no_worker_could_run_under_any_policy_is_left_out_of_the_waits() -> None:
    """`later` waits for a worker that comes but is taken; `early` was queued before any worker; `other` asks for a system nobody has."""
    story = Story()
    story.configure({"supported_platform_properties": {"os": "exact"}})
    story.given(queue("early", cpu=8), connect("w1", cpu=2, os="linux"), queue("later", cpu=4), alive(2))
    story.given(queue("other", cpu=1, os="plan9"), queue("fills", cpu=5, priority=9), alive(2))
    story.given(connect("w2", cpu=5, os="linux"), accept("fills"), alive(5))
    record, recorded = of_story(story)

    def left_out(*settings: str) -> list[str]:
        policies = [tuple(parse_setting(text) for text in settings)] if settings else []
        found = answer_of(compare(record, recorded, policies), longest=0)["left_out"]
        assert found["operations"] == len(found["told"])
        return [each["client_operation_id"] for each in found["told"]]

    assert left_out() == ["early", "other"]
    assert left_out('supported_platform_properties={"os":"ignore"}') == ["early"]


def test_a_run_that_is_elsewhere_stops_as_it_is_told_to() -> None:
    """The record has it killed on w2, which answers 2 s later; here it is w1 that is told, at the same moment, and that answers as late."""
    story = elsewhere().given(alive(3), cancel("b"), alive(2))
    (dispatch,) = story.rehearsal.shard.instances["main"].workers["w2"].running.values()
    said = ActionFinished("main", "w2", story.connections["w2"], dispatch.dispatch_id, RunResult.KILLED)
    story.given(fact(said), alive(4))
    record, _ = of_story(story)
    world = what_if(record, "allocation_strategy=best_fit")
    assert of_run(record, world) == "w1"
    assert world.shard.instances["main"].workers["w1"].running == {}
    assert world.facts.modelled == 2  # accepted, and stopped
    early, _ = of_story(elsewhere().given(alive(3), cancel("b"), alive(2)))
    pays = what_if(early, "allocation_strategy=best_fit").shard.instances["main"].workers["w1"]
    assert len(pays.running) == 0  # nobody ever answered such a call in that record: at once


def test_an_action_that_joins_nobody_here_is_looked_up_and_not_found() -> None:
    """In the record `b` joined `a`, which still waited. Here `a` has ended by then, so `b` is an operation of its own, and is looked up."""
    story = Story(configured=False)
    nested = {"kind": "cache_lookup", "scheduler": {"kind": "simple", "hold": None}}
    story.take(Configured("main", json.dumps(nested)))
    story.given(connect("w1", cpu=1, pool="x"), submit("a", digest="x", cpu=2))
    story.given(answer("a", CacheAnswer.MISS), alive(2), connect("w2", cpu=2), accept("a"), alive(1))
    story.given(submit("b", digest="x", cpu=2), alive(5), finish("a"), alive(3))
    record, _ = of_story(story)
    assert record.lookups_us == {}
    joined = [given for given in record.givens if getattr(given.fact, "client_operation_id", "") == "b"]
    assert len(joined) == 1
    (attempts,) = record.attempts.values()
    at = next(i for i, said in enumerate(attempts[0].answers) if type(said.fact) is ActionFinished)
    end = attempts[0].answers[at]
    attempts[0].answers[at] = end._replace(at_us=joined[0].at_us - 500_000, offset=joined[0].offset - 1)
    world = World(record, "main", courses=Courses(record), regenerate=True)
    world.play()
    rows = {row.client_operation_id: row for row in world.meter.waits.values()}
    assert rows["b"].dispatches == 1
