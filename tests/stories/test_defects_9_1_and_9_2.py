"""Failures such schedulers had and this one cannot have: capacity, stuck workers, duplicates, lost keys, orphans (9.1, 9.2).

Numbers and promises: tests/fixtures/spec/defects.toml.
"""

import pytest

import events.decide
from events import events as e
from events import facts as f
from events.reasons import KillCause, Outcome, PlacementEnd, RejectReason, RunResult
from events.state import Stage
from projections import answers
from tests.stories.client_words import (
    commands,
    depart,
    dispatches_of,
    ended,
    hear,
    kills,
    of_kind,
    placed,
    placements,
    row,
    submit,
)
from tests.stories.notation import (
    MAIN,
    accept,
    advance,
    alive,
    cancel,
    configure,
    connect,
    fact,
    finish,
    gone,
    keepalive,
    queue,
    restart,
    tick,
)
from tests.stories.read_side import table_of

# -- 9.1 capacity leaks and stuck workers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "result", [RunResult.EXITED, RunResult.KILLED, RunResult.INTERNAL_ERROR, RunResult.BACKPRESSURE]
)
def test_9_1_1_a_final_report_the_operation_no_longer_takes_still_returns_the_amounts(story, result):
    story.given(connect("w1", cpu=8, memory=100), queue("a", cpu=8, memory=100), accept("a"), cancel("a"))
    assert (story.free("w1"), story.free("w1", "memory_kib")) == (0, 0)
    story.given(finish("a", result))
    assert (story.free("w1"), story.free("w1", "memory_kib")) == (8000, 100)
    assert row(story, "a").outcome is Outcome.CANCELLED


def test_9_1_2_a_worker_that_is_heard_but_answers_no_kill_does_not_keep_its_slot(story):
    story.given(configure(unacknowledged_kill_timeout_s=20), connect("w1", cpu=8), queue("a", cpu=8), cancel("a"))
    story.given(queue("b", cpu=8), alive(20))
    assert story.waiting() == ["b"]
    story.when(alive(1)).then("w1 out: kill_overdue")
    story.when(connect("w1", cpu=8, boot=2)).then("w1 admitted", "b to w1")


def test_9_1_3_a_run_that_lost_its_operation_is_told_to_stop_once(story):
    story.given(configure(max_action_executing_timeout_s=30), connect("w1", cpu=8), queue("requeued", cpu=2))
    story.given(submit("abandoned", cpu=2, attached=True), queue("cancelled", cpu=2))
    runs = dict(story.dispatch_ids)
    story.given(alive(20), depart("abandoned"), cancel("cancelled"), alive(20), alive(10))
    causes = {
        each.kill_requested.dispatch_id: each.kill_requested.cause
        for each in commands(story)
        if each.WhichOneof("kind") == "kill_requested"
    }
    assert causes == {
        runs["abandoned"]: KillCause.ABANDONED,
        runs["cancelled"]: KillCause.CANCELLED,
        runs["requeued"]: KillCause.ACTION_TIMEOUT,
    }
    assert len(kills(story, "w1")) == 3, "each once, though nobody has answered"


def test_9_1_4_a_worker_at_its_limit_is_not_paused_by_a_completion(story):
    story.given(connect("w1", cpu=8, inflight=2), *(queue(f"a{number}", cpu=1) for number in range(8)))
    for number in range(6):
        story.when(finish(f"a{number}")).then(f"a{number} finished: completed", f"a{number + 2} to w1")


def test_9_1_5_a_worker_that_goes_leaves_nothing_executing_whichever_came_first(story):
    story.given(connect("w1", cpu=8), gone("w1")).when(queue("a", cpu=8)).then("a queued")
    story.given(connect("w1", cpu=8)).when(gone("w1")).then("a requeued: worker_gone", "w1 out: gone")
    assert row(story, "a").stage is Stage.QUEUED
    story.when(accept("a")).then("DispatchAccepted ignored: unknown_worker")  # its word on the way while it went
    assert all(sent.connection_id for sent in placed(story))


def test_9_1_6_a_pass_that_fails_takes_nothing_with_it_and_the_next_one_is_whole(story, monkeypatch):
    story.given(connect("w1", cpu=8), queue("a", cpu=8), queue("b", cpu=8))
    with monkeypatch.context() as broken:

        def fail(step: object) -> None:
            raise RuntimeError("a pass that fails")

        broken.setattr(events.decide, "place", fail)
        story.given(fact(f.ActionFinished(MAIN, "w1", story.connections["w1"], story.dispatch_ids["a"]), "w1"))
    assert story.last(e.FactRejected).reason is RejectReason.UNDECIDABLE
    assert row(story, "a").stage is Stage.EXECUTING, "none of what it caused stands"
    story.given(fact(f.KeyReleased("w1")))
    story.when(fact(f.ActionFinished(MAIN, "w1", story.connections["w1"], story.dispatch_ids["a"]), "w1"))
    story.then("a finished: completed", "b to w1")


def test_9_1_7_a_full_fleet_costs_nothing_to_ask(story):
    story.given(
        *(connect(f"w{number}", cpu=1) for number in range(60)), *(queue(f"r{number}", cpu=1) for number in range(60))
    )
    story.given(*(queue(f"q{number}", cpu=1) for number in range(60)))
    matcher = story.rehearsal.shard.instances[MAIN].matcher
    before = repr(matcher.work)
    story.given(tick(), keepalive("w3"), queue("one more", cpu=1), tick())
    assert repr(matcher.work) == before
    story.when(finish("r7")).then("r7 finished: completed", "q0 to w7")
    assert repr(matcher.work) != before, "the counters count"


# -- 9.2 duplicate executions, lost keys, orphans -------------------------------------------------------------------------------------


def test_9_2_1_a_late_clean_up_leaves_the_newer_operations_key_alone(story):
    story.given(configure(retain_completed_for_s=5), connect("w1", cpu=8), submit("a", "x", cpu=8), finish("a"))
    story.given(submit("b", "x", cpu=8), alive(7), submit("c", "x", cpu=8))
    assert of_kind(story, e.OperationsForgotten)
    assert row(story, "c") is row(story, "b")
    assert dispatches_of(story, "b") == ["w1"]
    story.given(finish("b"), submit("d", "x", cpu=8))
    assert row(story, "d") is not row(story, "b"), "and a finished one is joined by nobody"


def test_9_2_2_a_second_identical_submit_in_the_same_moment_joins(story):
    story.given(connect("w1", cpu=8), submit("a", "x", cpu=1), submit("b", "x", cpu=1))
    assert row(story, "a") is row(story, "b")
    assert len(of_kind(story, e.OperationDispatched)) == 1


def test_9_2_3_a_long_action_on_a_worker_that_is_heard_is_kept_and_no_orphan_stays(story):
    story.given(connect("w1", cpu=8), submit("a", "x", cpu=8), accept("a"), alive(7200))
    assert (row(story, "a").stage, dispatches_of(story, "a")) == (Stage.EXECUTING, ["w1"])
    story.given(advance(10))
    assert row(story, "a").stage is Stage.QUEUED
    for operation in story.rehearsal.shard.operations.values():
        assert (operation.dispatch is None) == (operation.stage is not Stage.EXECUTING)


def test_9_2_4_a_new_owner_times_nobody_out_for_what_happened_before_it(silent_story):
    story = silent_story.given(connect("w1", cpu=8), queue("a", cpu=8), accept("a"), advance(2), keepalive("w1"))
    story.given(advance(120)).when(restart(), tick(), advance(3), keepalive("w1"))
    story.then("leader 2 elected", "log silent for 120 s")
    assert row(story, "a").stage is Stage.EXECUTING


def test_9_2_5_a_client_that_joined_finds_the_operation_under_its_own_id(story):
    story.given(connect("w1", cpu=8), submit("a", "x", cpu=8), submit("b", "x", cpu=8))
    table = table_of(story)
    assert answers.lookup(table, "b").operation_id == answers.lookup(table, "a").operation_id
    story.given(finish("a"))
    assert [end.client_operation_id for end in ended(story)] == ["a", "b"]
    assert answers.operation(table_of(story), answers.lookup(table_of(story), "b"))["outcome"] == "completed"


def test_9_2_6_ids_keys_and_operations_are_forgotten_in_the_end(story):
    story.given(configure(retain_completed_for_s=5), connect("w1", cpu=8))
    for number in range(10):
        story.given(
            submit(f"a{number}", f"x{number % 3}", cpu=1, attached=True), submit(f"b{number}", f"x{number % 3}")
        )
        story.given(*(finish(name) for name in list(story.endpoints) if row(story, name).stage is Stage.EXECUTING))
    story.given(alive(8))
    shard = story.rehearsal.shard
    instance = shard.instances[MAIN]
    assert (shard.operations, instance.by_client, instance.by_action, list(instance.finished)) == ({}, {}, {}, [])
    assert answers.lookup(table_of(story), "a3") is None
    story.given(alive(70))
    assert {timer[3] for timer in shard.timers} <= {"w1"}, "timers of forgotten clients are gone when they come up"


def test_9_2_7_what_nobody_waits_for_any_more_does_not_stay_queued(story):
    story.given(submit("a", cpu=8, attached=True), queue("b", cpu=8), advance(61))
    assert story.waiting() == ["b"], "b never said that it would listen"
    assert row(story, "a").outcome is Outcome.ABANDONED


def test_9_2_8_to_join_is_to_be_heard(story):
    story.given(
        submit("a", "x", cpu=8, attached=True), advance(59), submit("b", "x", cpu=8, attached=True), advance(59)
    )
    assert row(story, "b").stage is Stage.QUEUED
    story.given(advance(2))
    assert row(story, "b").outcome is Outcome.ABANDONED
    story.when(hear("b")).then("ClientHeard ignored: operation_finished")


def test_9_2_9_whoever_reads_on_from_anywhere_misses_no_change(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8), gone("w1"), connect("w2", cpu=8), finish("a"))
    said = [
        ("placed", out.action_placed.dispatch_id)
        if out.WhichOneof("kind") == "action_placed"
        else (PlacementEnd(out.placement_ended.end).name.lower(), out.placement_ended.dispatch_id)
        for out in placements(story)
    ]
    first, second = (event.dispatch_id for event in of_kind(story, e.OperationDispatched))
    assert said == [("placed", first), ("requeued", first), ("placed", second), ("finished", second)]
