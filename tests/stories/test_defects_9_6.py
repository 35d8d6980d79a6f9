"""Defects that were still in the scheduler this one follows; none of them is here (9.6). Numbers: tests/fixtures/spec/defects.toml."""

import pytest

from events import events as e
from events import facts as f
from events.decide import decide
from events.reasons import IgnoreReason, Outcome, RunResult
from events.state import Stage
from projections import answers
from tests.reference.rows import rows_of
from tests.stories.client_words import dispatches_of, kills, of_kind, row, submit
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
    reprioritise,
    restart,
    tick,
    undrain,
)
from tests.stories.read_side import table_of


@pytest.fixture
def dispatched_twice(story):
    """`a` was not acknowledged by w1, was told to stop there and runs there again; its first dispatch id."""
    story.given(configure(dispatch_ack_timeout_s=5), connect("w1", cpu=8), queue("a", cpu=3))
    first = story.dispatch_ids["a"]
    story.given(alive(6), keepalive("w1"))
    assert dispatches_of(story, "a") == ["w1", "w1"]
    return story, first


def test_9_6_1_a_second_dispatch_to_a_worker_that_still_holds_it_leaks_nothing(dispatched_twice):
    story, first = dispatched_twice
    assert story.free("w1") == 2000, "both runs are there, so both are paid for"
    stopped = f.ActionFinished(MAIN, "w1", story.connections["w1"], first, RunResult.KILLED)
    story.given(fact(stopped), fact(stopped))
    assert story.free("w1") == 5000
    story.given(finish("a"), finish("a"))
    assert story.free("w1") == 8000


def test_9_6_2_a_kill_names_the_dispatch_so_it_never_reaches_the_run_that_came_after(dispatched_twice):
    story, first = dispatched_twice
    story.given(tick(), alive(4), tick())
    assert kills(story, "w1") == [first]
    assert row(story, "a").dispatch.dispatch_id == story.dispatch_ids["a"] != first


def test_9_6_3_a_minimum_that_is_no_number_is_refused_when_it_is_submitted(story):
    story.given(connect("w1", cpu=8)).when(queue("a", cpu_millis="2 cores"), tick(), advance(5))
    story.then("ActionQueued requirements.cpu_millis rejected: invalid_requirement")
    assert story.waiting() == []


def test_9_6_4_an_idle_worker_that_refuses_is_not_asked_in_a_loop(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8), decline("a"), *(tick() for _ in range(50)))
    assert dispatches_of(story, "a") == ["w1"]
    story.given(*(queue(f"b{number}", cpu=1) for number in range(20)))
    assert len(of_kind(story, e.OperationDispatched)) == 1


def test_9_6_5_a_drain_leaves_no_pause_behind(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=2), queue("b", cpu=2), drain("w1"), finish("a"), queue("c", cpu=2))
    story.when(undrain("w1")).then("w1 undrained", "c to w1")


def test_9_6_6_restarts_of_the_scheduler_cost_no_attempt(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8), accept("a"))
    before = rows_of(story.rehearsal.shard)["operations"]
    for number in range(6):
        story.when(restart(), keepalive("w1")).then(f"leader {number + 2} elected")
    assert rows_of(story.rehearsal.shard)["operations"] == before
    story.when(finish("a")).then("a finished: completed")


def test_9_6_7_queue_order_is_exact_and_ties_go_by_the_log(story):
    names = ["tie1", "tie2", "tie3", "older", "oldest"]
    story.given(*(queue(name, cpu=8) for name in names[:3]), queue("older", cpu=8, queued_s=-0.000001))
    story.given(queue("oldest", cpu=8, queued_s=-0.000002))
    assert story.waiting() == ["oldest", "older", "tie1", "tie2", "tie3"]


def test_9_6_8_timeouts_need_nobody_who_waits_or_reads(story):
    story.given(configure(max_action_executing_timeout_s=60, client_action_timeout_s=100), connect("w1", cpu=8))
    story.given(queue("stuck", cpu=8), accept("stuck"), submit("left", cpu=8, attached=True), alive(61))
    assert of_kind(story, e.OperationRequeued), "taken from a worker that lives though nobody asked"
    story.given(alive(40))
    assert row(story, "left").outcome is Outcome.ABANDONED


def test_9_6_9_a_clock_that_steps_back_fails_no_keepalive_and_every_word_of_a_worker_counts(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=4), queue("b", cpu=4))
    story.given(advance(9), accept("a"), advance(9), finish("a"), advance(9), decline("b"), advance(9))
    assert story.connected() == ["w1"]
    shard = story.rehearsal.shard
    early = f.WorkerReported(MAIN, "w1", story.connections["w1"])
    caused = decide(shard, early, offset=shard.position + 1, append_us=story.now_us - 7_200_000_000)
    assert isinstance(caused[0], e.WorkerReported)
    assert shard.instances[MAIN].workers["w1"].last_seen_us == story.now_us


def test_9_6_10_a_report_on_what_is_not_current_is_ignored_and_counted_and_its_sender_stays(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=4), queue("b", cpu=4), finish("a"))
    story.when(finish("a"), decline("a")).then(
        "ActionFinished ignored: dispatch_not_current", "DispatchDeclined ignored: dispatch_not_current"
    )
    assert story.connected() == ["w1"]
    assert row(story, "b").stage is Stage.EXECUTING
    assert story.rehearsal.shard.ignored[IgnoreReason.DISPATCH_NOT_CURRENT] == 2


def test_9_6_11_an_evicted_worker_leaves_nothing_behind(story):
    story.given(connect("w1", cpu=8, pool="x"), queue("a", cpu=4), cancel("a"), queue("b", cpu=4), accept("b"))
    story.given(advance(10))
    instance = story.rehearsal.shard.instances[MAIN]
    assert (instance.workers, list(instance.matcher.workers()), instance.shapes.workers) == ({}, [], {})
    assert instance.endpoints["w1"].connection_id == 0  # what is known of its process, until never_reconnect_s are over
    story.given(advance(600))
    assert instance.endpoints == {}
    assert [timer for timer in story.rehearsal.shard.timers if timer[3] == "w1"] == []
    assert answers.instances(table_of(story))[0]["workers"] == 0


def test_9_6_12_a_new_operation_is_as_new_as_it_is_and_a_priority_can_be_raised(story):
    story.given(submit("old", "x", cpu=8, attached=True, priority=0), advance(30), queue("between", cpu=8), advance(31))
    assert row(story, "old").outcome is Outcome.ABANDONED
    story.given(submit("new", "x", cpu=8))
    assert row(story, "new").queued_at_us == story.now_us
    assert story.waiting() == ["between", "new"]
    story.given(submit("joiner", "x", cpu=8, priority=9))
    assert story.waiting() == ["between", "new"], "who joins takes the place there is"
    story.given(reprioritise("joiner", 9))
    assert story.waiting() == ["new", "between"]


def test_9_6_13_a_retention_of_0_is_none(story):
    story.given(configure(retain_completed_for_s=0), connect("w1", cpu=8), submit("a", "x", cpu=8), finish("a"))
    story.when(tick()).then("main forgot what finished")
    assert story.rehearsal.shard.operations == {}
    assert answers.lookup(table_of(story), "a") is None


def test_9_6_14_the_first_in_the_list_is_the_oldest_and_nothing_is_counted_twice(story):
    story.given(pause(), queue("old", cpu=1), advance(5), queue("new", cpu=1), advance(5))
    first, second = answers.queue(table_of(story))
    assert (first["client_operation_id"], first["place"], second["place"]) == ("old", 1, 2)
    assert first["waiting_us"] == 10_000_000 > second["waiting_us"]
    told = answers.state(table_of(story))
    assert told["queued"] == answers.instances(table_of(story))[0]["queued"] == 2
    assert told["events"] == len(story.every_event())


def test_9_6_16_a_late_goodbye_of_an_older_connection_takes_nothing_from_the_new_one(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8))
    old = story.connections["w1"]
    story.given(connect("w1", cpu=8, boot=2))
    story.when(fact(f.WorkerGone(MAIN, "w1", old))).then("WorkerGone ignored: stale_connection")
    assert story.connected() == ["w1"]
    story.when(gone("w1")).then("a requeued: worker_gone", "w1 out: gone")
