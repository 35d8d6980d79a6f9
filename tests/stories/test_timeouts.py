"""Runs that take too long: the action's own timeout, the ceiling on silence about a run, unacknowledged dispatches (T1-T6, 1.4)."""

import pytest

from events import events as e
from events import facts as f
from events.decide import decide
from events.reasons import RunResult
from tests.stories.notation import (
    accept,
    advance,
    alive,
    configure,
    connect,
    fact,
    finish,
    keepalive,
    queue,
    restart,
    submit,
)


def test_an_action_timeout_is_enforced_by_the_scheduler_after_the_workers_grace(story):
    story.given(connect("w1", cpu=8), submit("a", cpu=8, timeout_s=2), accept("a")).when(alive(7)).then()
    story.when(alive(0.5)).then("w1 told to kill a: action_timeout", "a requeued: action_timeout")
    requeued = story.last(e.OperationRequeued)
    assert requeued.message == "dispatched to w1 7 s ago with a timeout of 2000 ms"
    assert story.counters("a") == (1, 0, 0)


def test_a_run_that_timed_out_pays_until_it_stops(story):
    story.given(connect("w1", cpu=8), submit("a", cpu=8, timeout_s=2), alive(8)).when(queue("b", cpu=1)).then(
        "b queued"
    )
    story.when(finish("a", RunResult.KILLED)).then("w1 settled a: killed", "a to w1")


def test_the_workers_own_report_of_the_timeout_is_final(story):
    story.given(connect("w1", cpu=8), submit("a", cpu=8, timeout_s=2), alive(2))
    story.when(finish("a", RunResult.TIMED_OUT)).then("a finished: action_timed_out")
    story.when(alive(20)).then()


def test_an_action_that_times_out_again_and_again_fails(story):
    story.given(configure(max_job_retries=1), connect("w1", cpu=8), connect("w2", cpu=8), connect("w3", cpu=8))
    story.given(submit("a", cpu=8, timeout_s=2), alive(7)).when(alive(0.5))
    story.then("w1 told to kill a: action_timeout", "a requeued: action_timeout", "a to w2")
    story.when(alive(8)).then("w2 told to kill a: action_timeout", "a finished: job_retries_exhausted")
    assert story.last(e.OperationFinished).exit_code == -178


def test_a_queued_operation_never_times_out(story):
    story.given(submit("a", cpu=8, timeout_s=1)).when(alive(500)).then()


def test_an_action_without_a_timeout_runs_as_long_as_it_likes(story):
    story.given(connect("w1", cpu=8), submit("a", cpu=8), accept("a")).when(alive(5000)).then()


def test_a_live_worker_that_says_nothing_of_a_run_for_too_long_loses_it(story):
    story.given(
        configure(max_action_executing_timeout_s=30), connect("w1", cpu=8), submit("a", cpu=8), alive(10), accept("a")
    )
    story.when(alive(30)).then()
    story.when(alive(0.5)).then("w1 told to kill a: action_timeout", "a requeued: executing_timeout")
    assert story.last(e.OperationRequeued).message == "w1 is alive but has said nothing of it for 30 s"
    assert story.counters("a") == (1, 0, 0)


def test_a_reconnect_that_lists_a_run_is_a_word_about_it(story):
    story.given(
        configure(max_action_executing_timeout_s=30), connect("w1", cpu=8), submit("a", cpu=8), accept("a"), alive(25)
    )
    story.given(connect("w1", cpu=8, running=("a",))).when(alive(30)).then()
    story.when(alive(0.5)).then("w1 told to kill a: action_timeout", "a requeued: executing_timeout")


def test_without_the_ceiling_a_live_workers_silence_about_a_run_is_no_reason(story):
    story.given(connect("w1", cpu=8), submit("a", cpu=8), accept("a")).when(alive(4000)).then()


def test_a_dead_worker_loses_its_runs_whatever_the_ceiling(story):
    story.given(configure(max_action_executing_timeout_s=900), connect("w1", cpu=8), submit("a", cpu=8), accept("a"))
    story.when(advance(10)).then("a requeued: worker_timeout", "w1 out: timeout")


def test_a_clock_that_goes_back_times_nothing_out(story):
    story.given(connect("w1", cpu=8), submit("a", cpu=8, timeout_s=2), accept("a"), alive(6))
    before = story.rehearsal.shard.now_us
    shard, offset = story.rehearsal.shard, story.rehearsal.next_offset
    events = decide(shard, f.Tick(), offset=offset, append_us=before - 60_000_000)
    assert [type(event).__name__ for event in events] == ["Ticked"]
    assert shard.now_us == before


def test_an_outage_of_the_log_times_no_run_out(silent_story):
    story = silent_story.given(
        configure(max_action_executing_timeout_s=30),
        connect("w1", cpu=8),
        submit("a", cpu=8, timeout_s=20),
        accept("a"),
    )
    story.when(advance(3600), keepalive("w1")).then("log silent for 3600 s")
    story.when(advance(2), finish("a")).then("a finished: completed")


def test_timeouts_outlive_a_restart(story):
    story.given(connect("w1", cpu=8), submit("a", cpu=8, timeout_s=2), alive(4), restart()).when(alive(3)).then()
    story.when(alive(0.5)).then("w1 told to kill a: action_timeout", "a requeued: action_timeout")


def test_timers_of_runs_that_ended_do_not_pile_up(story):
    story.given(configure(retain_completed_for_s=0), connect("w1", cpu=8))
    for number in range(5000):
        story.given(submit(f"a{number}", cpu=8, timeout_s=36_000), finish(f"a{number}"))
    assert len(story.rehearsal.shard.timers) <= 4097


@pytest.fixture
def acknowledging(story):
    """Dispatches are to be accepted within two seconds; w1 was given `a` and `b` and accepted only `b`."""
    return story.given(
        configure(dispatch_ack_timeout_s=2), connect("w1", cpu=8), queue("a", cpu=4), queue("b", cpu=4), accept("b")
    )


def test_a_dispatch_that_is_not_acknowledged_goes_back_untried_and_is_stopped(acknowledging):
    acknowledging.when(advance(2), keepalive("w1")).then()
    acknowledging.when(advance(0.5), keepalive("w1"))
    acknowledging.then("w1 told to kill a: unacknowledged", "a requeued: unacknowledged")
    assert acknowledging.counters("a") == (0, 0, 1)
    assert acknowledging.last(e.OperationRequeued).message == "not accepted by w1 within 2 s"


def test_only_a_message_of_the_worker_itself_tells_that_it_does_not_acknowledge(acknowledging):
    acknowledging.when(advance(9)).then()


@pytest.mark.parametrize("message", [accept, finish])
def test_any_message_of_the_worker_counts(acknowledging, message):
    acknowledging.given(advance(3)).when(message("b"))
    assert acknowledging.told()[-2:] == ["w1 told to kill a: unacknowledged", "a requeued: unacknowledged"]


def test_a_worker_that_did_not_acknowledge_is_paused_until_its_next_keepalive(acknowledging):
    acknowledging.given(advance(3), keepalive("w1"), finish("a", RunResult.KILLED)).when(queue("c", cpu=1)).then(
        "c queued"
    )
    acknowledging.when(keepalive("w1")).then("a to w1")


def test_an_acceptance_that_is_late_but_first_counts(acknowledging):
    acknowledging.given(advance(3)).when(accept("a"), keepalive("w1")).then("a accepted")


def test_an_acceptance_after_the_dispatch_went_back_changes_nothing(acknowledging):
    dispatch_id = acknowledging.dispatch_ids["a"]
    acknowledging.given(advance(3), keepalive("w1"))
    acknowledging.when(fact(f.DispatchAccepted("main", "w1", acknowledging.connections["w1"], dispatch_id)))
    acknowledging.then("DispatchAccepted ignored: dispatch_not_current")


def test_without_acknowledgements_an_operation_is_not_passed_round_for_ever_and_the_last_reason_stays(story):
    story.given(configure(dispatch_ack_timeout_s=2, max_free_requeues=2), connect("w1", cpu=8), queue("a", cpu=8))
    for _ in range(2):
        story.given(advance(3), keepalive("w1"), finish("a", RunResult.KILLED), keepalive("w1"))
    story.when(advance(3), keepalive("w1"))
    story.then("w1 told to kill a: unacknowledged", "a finished: free_requeues_exhausted")
    message = story.last(e.OperationFinished).message
    assert message == "given back untried 3 times; the last was w1: not accepted by w1 within 2 s"


def test_a_worker_that_never_answers_the_kill_either_is_evicted(acknowledging):
    acknowledging.given(advance(3), keepalive("w1"), alive(60)).when(alive(1))
    assert acknowledging.told()[-1] == "w1 out: kill_overdue"


def test_off_by_default_a_dispatch_may_stay_unacknowledged(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8)).when(alive(500)).then()
