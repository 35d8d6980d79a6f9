"""Runs that no longer count are told to stop, by dispatch id, and pay until they have (K1-K6)."""

from events import facts as f
from events.reasons import RunResult
from tests.stories.notation import (
    MAIN,
    accept,
    advance,
    alive,
    cancel,
    configure,
    connect,
    decline,
    fact,
    finish,
    gone,
    keepalive,
    queue,
    restart,
    submit,
)


def test_a_kill_for_the_old_dispatch_does_not_touch_the_new_one(story):
    """The operation goes back to the same worker before the old run has answered; ids tell the two apart (K6)."""
    story.given(configure(dispatch_ack_timeout_s=2), connect("w1", cpu=16), queue("a", cpu=8))
    old = story.dispatch_ids["a"]
    story.given(advance(3), keepalive("w1"), keepalive("w1"))
    new = story.dispatch_ids["a"]
    assert new != old
    story.given(accept("a")).when(
        fact(f.ActionFinished(MAIN, "w1", story.connections["w1"], old, RunResult.KILLED)), finish("a")
    )
    story.then("w1 settled a: killed", "a finished: completed")
    assert story.free("w1") == 16000


def test_a_revoked_run_is_killed_once(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8), cancel("a")).when(alive(50)).then()
    assert len([out for out in story.rehearsal.outbounds if out.kind == "KillRequested"]) == 1


def test_a_live_worker_that_never_answers_a_kill_is_evicted_after_a_minute(story):
    story.given(
        configure(retain_completed_for_s=1000), connect("w1", cpu=8), queue("a", cpu=8, attached=True), alive(61)
    )
    story.when(alive(30)).then()
    assert story.connected() == ["w1"]
    story.when(alive(31)).then("w1 out: kill_overdue")


def test_the_slot_stays_taken_until_the_worker_reports_on_the_killed_run(story):
    story.given(connect("w1", cpu=8, inflight=1), queue("a", cpu=1), cancel("a")).when(queue("b", cpu=1)).then(
        "b queued"
    )
    story.when(finish("a", RunResult.KILLED)).then("w1 settled a: killed", "b to w1")


def test_a_decline_of_a_killed_run_settles_it(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8), cancel("a")).when(decline("a")).then(
        "w1 settled a: backpressure"
    )


def test_a_returning_node_that_still_runs_the_old_copy_is_told_to_stop_and_the_action_finishes_once(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8), accept("a"))
    old = story.dispatch_ids["a"]
    story.given(gone("w1"), connect("w2", cpu=8))
    story.when(connect("w1", cpu=8, running=(old,))).then("w1 admitted", "w1 told to kill a: not_current")
    story.when(finish("a")).then("a finished: completed")
    story.when(fact(f.ActionFinished(MAIN, "w1", story.connections["w1"], old)))
    story.then("ActionFinished ignored: dispatch_not_current")


def test_after_losing_all_workers_each_action_is_submitted_once_again(story):
    story.given(connect("w1", cpu=8), connect("w2", cpu=8), queue("a", cpu=8), queue("b", cpu=8))
    story.given(gone("w1"), gone("w2"))
    story.when(connect("w1", cpu=8, boot=2), connect("w2", cpu=8, boot=2))
    story.then("w1 admitted", "a to w1", "w2 admitted", "b to w2")
    assert (story.counters("a"), story.counters("b")) == ((0, 1, 0), (0, 1, 0))


def test_a_kill_and_its_deadline_outlive_a_restart(story):
    story.given(configure(retain_completed_for_s=1000), connect("w1", cpu=8), queue("a", cpu=8), cancel("a"), alive(40))
    story.given(restart())
    assert [out.kind for out in story.rehearsal.outbounds[-1:]] == ["KillRequested"]
    story.when(alive(20)).then()
    story.when(alive(1)).then("w1 out: kill_overdue")


def test_a_client_timeout_kills_one_run_and_its_report_frees_the_slot(story):
    story.given(connect("w1", cpu=8), submit("a", cpu=8, attached=True), alive(60)).when(alive(0.5))
    story.then("a left a: timeout", "w1 told to kill a: abandoned", "a finished: abandoned")
    story.when(queue("b", cpu=8), alive(10)).then("b queued")
    story.when(finish("a", RunResult.KILLED)).then("w1 settled a: killed", "b to w1")
