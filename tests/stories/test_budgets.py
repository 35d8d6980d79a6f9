"""Split budgets: job failures, worker losses, free causes; what each costs and what stays when one is spent (2.7)."""

import pytest

from events import events as e
from events.reasons import RunResult
from tests.stories.notation import (
    accept,
    advance,
    configure,
    connect,
    decline,
    fail,
    finish,
    gone,
    keepalive,
    out_of_memory,
    queue,
    restart,
)


def test_three_retries_are_four_executions(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8))
    for failures in (1, 2, 3):
        story.when(fail("a")).then("a requeued: job_error", "a to w1")
        assert story.counters("a") == (failures, 0, 0)
    story.when(fail("a")).then("a finished: job_retries_exhausted")
    finished = story.last(e.OperationFinished)
    assert (finished.exit_code, finished.message, finished.job_failures) == (-178, "it broke", 4)


def test_worker_losses_have_a_budget_of_their_own(story):
    quiet = {"flap_threshold": 100}  # that it restarts so often is another story
    story.given(configure(max_worker_loss_retries=4, max_job_retries=0, locality=quiet))
    story.given(connect("w1", cpu=8), queue("a", cpu=8))
    for boot in range(2, 6):
        story.when(gone("w1"), connect("w1", cpu=8, boot=boot))
        story.then("a requeued: worker_gone", "w1 out: gone", "w1 admitted", "a to w1")
    story.when(gone("w1")).then("a finished: worker_losses_exhausted", "w1 out: gone")
    assert story.last(e.OperationFinished).message == "lost its worker 5 times; the last was w1"


def test_free_causes_spend_no_attempt_but_are_bounded(story):
    story.given(configure(max_job_retries=0, max_free_requeues=2), connect("w1", cpu=8), queue("a", cpu=8))
    story.given(decline("a"), keepalive("w1"), finish("a", RunResult.BACKPRESSURE, message="busy"), keepalive("w1"))
    assert story.counters("a") == (0, 0, 2)
    story.when(decline("a")).then("a finished: free_requeues_exhausted")


def test_the_budgets_are_told_apart(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8), fail("a"), decline("a"), keepalive("w1"), gone("w1"))
    assert story.counters("a") == (1, 1, 1)


def test_a_restart_spends_no_attempt(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8), accept("a"))
    for _ in range(5):
        story.given(restart())
    story.when(finish("a")).then("a finished: completed")
    assert story.counters("a") == (0, 0, 0)


@pytest.mark.parametrize("exit_code", [0, 1, -9, 137])
def test_any_exit_code_is_a_success_of_the_scheduler(story, exit_code):
    story.given(connect("w1", cpu=8), queue("a", cpu=8)).when(finish("a", exit_code=exit_code))
    story.then("a finished: completed")
    assert story.last(e.OperationFinished).exit_code == exit_code


def test_missing_inputs_end_it_at_once_and_cost_nothing(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8)).when(finish("a", RunResult.FAILED_PRECONDITION))
    story.then("a finished: failed_precondition")
    assert story.counters("a") == (0, 0, 0)


def test_the_worker_whose_retry_fails_is_charged_once(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=3))
    for _ in range(3):
        story.given(fail("a"))
        assert story.free("w1") == 5000
    story.given(finish("a"))
    assert story.free("w1") == 8000


def test_a_kill_for_memory_without_a_policy_is_a_result_like_any_other(story):
    story.given(connect("w1", memory=100), queue("a", memory=50)).when(out_of_memory("a")).then("a finished: completed")
    assert story.last(e.OperationFinished).exit_code == 137


def test_a_kill_for_memory_is_never_a_success(story):
    story.given(connect("w1", memory=100), queue("a", memory=50)).when(out_of_memory("a", exit_code=0))
    assert story.last(e.OperationFinished).exit_code == -178


def test_a_worker_that_refuses_build_after_build_is_told_to_be_redeployed(story):
    story.given(configure(compatible_builds=["r2", ""]))
    story.when(connect("w1", build="r1"), connect("w2", build="r2"), connect("w3"))
    story.then("WorkerConnected build rejected: incompatible_build", "w2 admitted", "w3 admitted")
    rejected = story.last(e.FactRejected)
    assert (rejected.value, rejected.rule) == ("r1", "one of compatible_builds ('r2', ''): redeploy the worker")
    refused = [out for out in story.rehearsal.outbounds if out.kind == "WorkerRefused"]
    assert [out.key for out in refused] == ["w1"]


def test_legacy_workers_are_refused_unless_named(story):
    story.given(configure(compatible_builds=["r2"])).when(connect("w1"))
    story.then("WorkerConnected build rejected: incompatible_build")


def test_a_short_blip_before_the_acceptance_requeues_nothing(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8), advance(1))
    story.when(connect("w1", cpu=8, running=("a",)), accept("a")).then("w1 admitted again with a", "a accepted")
    assert story.counters("a") == (0, 0, 0)
