"""What becomes of a dispatch: accepted, finished, failed, declined, and the budgets that bound it."""

import pytest

from events import events as e
from events import facts as f
from events.reasons import DeclineReason, RunResult
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
    fail,
    finish,
    gone,
    keepalive,
    queue,
    reprioritise,
    tick,
)


@pytest.fixture
def running(story):
    """`a` runs on w1, which has room for one."""
    return story.given(connect("w1", cpu=8), queue("a", cpu=8), accept("a"))


def test_a_dispatch_is_accepted_once(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8)).when(accept("a")).then("a accepted")
    story.when(accept("a")).then("DispatchAccepted ignored: already_accepted")


@pytest.mark.parametrize("exit_code", [0, 1, -9])
def test_any_exit_code_is_a_success_of_the_scheduler(running, exit_code):
    running.when(finish("a", exit_code=exit_code)).then("a finished: completed")
    finished = running.last(e.OperationFinished)
    assert (finished.exit_code, finished.endpoint) == (exit_code, "w1")
    assert running.free("w1") == 8000


def test_a_finish_needs_no_acceptance_before(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8)).when(finish("a")).then("a finished: completed")


def test_a_second_report_changes_nothing(running):
    running.given(finish("a")).when(finish("a"), accept("a"), decline("a"))
    running.then(
        "ActionFinished ignored: dispatch_not_current",
        "DispatchAccepted ignored: dispatch_not_current",
        "w1 told to kill a: not_current",
        "DispatchDeclined ignored: dispatch_not_current",
    )
    assert running.free("w1") == 8000


def test_an_action_that_ran_too_long_is_finished_and_not_tried_again(running):
    running.when(finish("a", RunResult.TIMED_OUT)).then("a finished: action_timed_out")


def test_a_missing_input_finishes_the_operation_and_costs_no_attempt(running):
    running.when(finish("a", RunResult.FAILED_PRECONDITION)).then("a finished: failed_precondition")
    assert running.counters("a") == (0, 0, 0)


def test_a_job_error_goes_back_to_the_queue_and_is_counted(running):
    running.when(fail("a")).then("a requeued: job_error", "a to w1")
    assert running.counters("a") == (1, 0, 0)
    assert running.last(e.OperationRequeued).message == "it broke"


def test_a_kill_nobody_asked_for_counts_as_a_job_error(running):
    running.when(finish("a", RunResult.KILLED)).then("a requeued: job_error", "a to w1")


def test_job_retries_are_attempts_beyond_the_first(story):
    story.given(configure(max_job_retries=2), connect("w1", cpu=8), queue("a", cpu=8))
    story.when(fail("a"), fail("a"), fail("a"))
    story.then(
        "a requeued: job_error", "a to w1", "a requeued: job_error", "a to w1", "a finished: job_retries_exhausted"
    )
    finished = story.last(e.OperationFinished)
    assert (finished.exit_code, finished.job_failures, finished.message) == (-178, 3, "it broke")


def test_without_retries_the_first_job_error_is_the_last(story):
    story.given(configure(max_job_retries=0), connect("w1", cpu=8), queue("a", cpu=8))
    story.when(fail("a")).then("a finished: job_retries_exhausted")


def test_a_requeued_operation_keeps_its_place(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8), advance(1), queue("b", cpu=8))
    story.when(fail("a")).then("a requeued: job_error", "a to w1")


def test_a_decline_costs_no_attempt_and_pauses_the_worker_until_its_next_keepalive(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8))
    story.when(decline("a", DeclineReason.MEMORY, 100, 50)).then("a requeued: declined")
    requeued = story.last(e.OperationRequeued)
    assert (requeued.decline_reason, requeued.needed_kib, requeued.free_kib) == (DeclineReason.MEMORY, 100, 50)
    assert story.counters("a") == (0, 0, 1)
    story.when(tick(), queue("b", cpu=1)).then("b queued")
    story.when(keepalive("w1")).then("a to w1")


def test_a_decline_goes_to_another_worker_at_once(story):
    story.given(connect("w1", cpu=8), connect("w2", cpu=8), queue("a", cpu=8))
    story.when(decline("a")).then("a requeued: declined", "a to w2")


def test_backpressure_is_a_decline_after_the_start(running):
    running.when(finish("a", RunResult.BACKPRESSURE)).then("a requeued: backpressure")
    assert running.counters("a") == (0, 0, 1)
    running.when(keepalive("w1")).then("a to w1")


def test_an_operation_is_not_passed_round_for_ever(story):
    story.given(configure(max_free_requeues=1), connect("w1", cpu=8), queue("a", cpu=8), decline("a"), keepalive("w1"))
    story.when(decline("a")).then("a finished: free_requeues_exhausted")
    story.when(queue("b", cpu=8)).then("b queued")  # and its worker is paused
    story.when(keepalive("w1")).then("b to w1")


def test_a_finish_does_not_end_the_pause_of_a_worker_its_next_keepalive_does(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=1), queue("b", cpu=1), decline("b"))
    story.when(finish("a")).then("a finished: completed")
    story.when(keepalive("w1")).then("b to w1")


def test_a_queued_operation_is_cancelled_at_once(story):
    story.given(queue("a", cpu=8)).when(cancel("a")).then("a finished: cancelled")
    assert story.last(e.OperationFinished).dispatch_id == 0
    story.when(connect("w1", cpu=8)).then("w1 admitted")


def test_a_running_operation_is_cancelled_at_once_and_its_worker_pays_until_it_reports(running):
    running.when(cancel("a"), queue("b", cpu=8))
    running.then("w1 told to kill a: cancelled", "a finished: cancelled", "b queued")
    assert running.free("w1") == 0
    running.when(finish("a", RunResult.KILLED)).then("w1 settled a: killed", "b to w1")
    assert running.counters("a") == (0, 0, 0)


def test_a_result_that_comes_after_the_cancel_settles_and_changes_nothing_else(running):
    running.given(cancel("a")).when(finish("a")).then("w1 settled a: exited")
    assert running.free("w1") == 8000


def test_a_declined_dispatch_that_was_cancelled_is_settled(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8), cancel("a"))
    story.when(decline("a")).then("w1 settled a: backpressure")


def test_a_worker_that_does_not_answer_a_kill_is_evicted_though_it_is_heard(running):
    running.given(cancel("a"), alive(60)).then()
    running.when(alive(1)).then("w1 out: kill_overdue")


def test_a_worker_that_is_evicted_for_a_kill_loses_its_other_work(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=4), queue("b", cpu=4), cancel("a"), alive(60))
    story.when(alive(1)).then("b requeued: kill_overdue", "w1 out: kill_overdue")
    assert story.counters("b") == (0, 1, 0)


def test_a_finished_operation_cannot_be_cancelled(running):
    running.given(finish("a")).when(cancel("a"), reprioritise("a", 4))
    running.then("CancelRequested ignored: operation_finished", "PriorityRequested ignored: operation_finished")


def test_an_unknown_operation_cannot_be_cancelled(story):
    story.when(cancel("nobody"), fact(f.CancelRequested(MAIN, 4711)), reprioritise("nobody", 1))
    story.then(
        "CancelRequested ignored: unknown_operation",
        "CancelRequested ignored: unknown_operation",
        "PriorityRequested ignored: unknown_operation",
    )


def test_an_operation_is_cancelled_by_its_own_id_too(story):
    story.given(queue("a", cpu=8))
    operation_id = story.last(e.OperationQueued).operation_id
    story.when(fact(f.CancelRequested(MAIN, operation_id))).then("a finished: cancelled")


def test_a_client_operation_id_is_taken_once(story):
    story.given(queue("a", cpu=8)).when(queue("a", cpu=4)).then("ActionQueued ignored: duplicate_operation")
    story.given(connect("w1", cpu=8), finish("a")).when(queue("a", cpu=8))
    story.then("ActionQueued ignored: duplicate_operation")


def test_after_its_retention_an_operation_is_forgotten_and_its_id_free(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8), finish("a"), alive(59)).then()
    story.when(alive(2)).then("main forgot what finished")
    story.when(queue("a", cpu=8)).then("a queued", "a to w1")


def test_forgetting_takes_only_what_is_due(story):
    story.given(
        connect("w1", cpu=8), queue("a", cpu=4), queue("b", cpu=4), finish("a"), alive(30), finish("b"), alive(29)
    )
    story.when(alive(2)).then("main forgot what finished")
    story.when(queue("b", cpu=4), queue("a", cpu=4))
    story.then("ActionQueued ignored: duplicate_operation", "a queued", "a to w1")


def test_a_higher_priority_of_a_running_operation_counts_when_it_comes_back(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8), queue("b", cpu=8), reprioritise("b", 2))
    story.when(reprioritise("a", 3)).then("a has priority 3")
    story.when(fail("a")).then("a requeued: job_error", "a to w1")


def test_the_same_priority_again_changes_nothing(story):
    story.given(queue("a")).when(reprioritise("a", 0)).then("PriorityRequested ignored: no_change")


def test_an_action_for_an_unknown_instance_is_rejected_and_the_next_is_placed(story):
    story.given(connect("w1", cpu=8)).when(fact(f.ActionQueued("nowhere", "x")), queue("a", cpu=8))
    story.then("ActionQueued instance rejected: unknown_instance", "a queued", "a to w1")
    assert "main" in next(event for event in story.every_event() if isinstance(event, e.FactRejected)).rule


@pytest.mark.parametrize("value", ["many", "-1", "1.5", "", "9223372036854775808", "٣"])
def test_a_minimum_that_is_no_number_is_rejected_at_submission(story, value):
    story.given(connect("w1", cpu=8)).when(queue("a", cpu_millis=value))
    story.then("ActionQueued requirements.cpu_millis rejected: invalid_requirement")


def test_a_minimum_at_the_limit_is_a_number(story):
    story.when(queue("a", cpu_millis=str(2**63 - 1))).then("a queued")


def test_a_loss_and_a_job_error_have_budgets_of_their_own(story):
    story.given(configure(max_job_retries=1, max_worker_loss_retries=1), connect("w1", cpu=8), queue("a", cpu=8))
    story.when(fail("a"), gone("w1"), connect("w1", cpu=8))
    story.then("a requeued: job_error", "a to w1", "a requeued: worker_gone", "w1 out: gone", "w1 admitted", "a to w1")
    assert story.counters("a") == (1, 1, 0)
    story.when(fail("a")).then("a finished: job_retries_exhausted")
