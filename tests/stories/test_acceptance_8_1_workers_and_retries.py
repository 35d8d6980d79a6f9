"""The scheduler's own suite, second half: retries, timeouts, revoked runs. Names and promises: tests/fixtures/spec/acceptance.toml."""

from events import events as e
from events.reasons import KillCause, Outcome, RunResult
from projections import answers
from tests.stories.client_words import commands, depart, ended, kills, of_kind, row, submit
from tests.stories.notation import (
    MAIN,
    accept,
    advance,
    alive,
    cancel,
    configure,
    connect,
    fail,
    finish,
    gone,
    queue,
    tick,
)
from tests.stories.read_side import table_of


def test_worker_retries_on_internal_error_and_fails(story):
    story.given(configure(max_job_retries=1), connect("w1", cpu=8), queue("a", cpu=8))
    story.when(fail("a")).then("a requeued: job_error", "a to w1")
    story.when(finish("a", RunResult.INTERNAL_ERROR, message="the disk is full"))
    story.then("a finished: job_retries_exhausted")
    finished = story.last(e.OperationFinished)
    assert (finished.exit_code, finished.message) == (-178, "the disk is full")


def test_worker_disconnect_loop_caps_at_max_job_retries(story):
    story.given(configure(max_worker_loss_retries=1), connect("w1", cpu=8), queue("a", cpu=8), gone("w1"))
    story.given(connect("w1", cpu=8)).when(gone("w1")).then("a finished: worker_losses_exhausted", "w1 out: gone")
    finished = story.last(e.OperationFinished)
    assert (finished.exit_code, finished.worker_losses) == (-178, 2)
    assert "lost its worker 2 times" in finished.message
    assert story.counters("a")[0] == 0, "a lost worker is no job failure"


def test_action_timeout_is_enforced_backend_side(story):
    story.given(connect("w1", cpu=8), submit("a", cpu=8, timeout_s=2), accept("a"))
    story.when(alive(0.5)).then()
    story.when(alive(2)).then()  # past its timeout, within the grace in which its worker reports by itself
    story.when(alive(5)).then("w1 told to kill a: action_timeout", "a requeued: action_timeout")
    assert story.counters("a") == (1, 0, 0)
    assert kills(story, "w1") == [story.dispatch_ids["a"]]


def test_ensure_task_or_worker_change_notification_received(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8), connect("w2", cpu=8))
    story.when(fail("a")).then("a requeued: job_error", "a to w2")


def test_logs_when_no_workers_match(story):
    story.given(connect("w1", cpu=0), queue("a", cpu=4))
    (shortage,) = of_kind(story, e.DemandUnsatisfiable)
    assert shortage.properties == ("cpu_millis",)
    (told,) = answers.instances(table_of(story), MAIN)[0]["unsatisfiable"]
    assert told["properties"] == ["cpu_millis"]
    assert told["requirements"] == [{"name": "cpu_millis", "value": "4000"}]
    # What is there stands in the message of the failure, where a timeout asks for one.
    story.given(configure(unsatisfiable_action_timeout_s=5), alive(6))
    assert "cpu_millis 4000 (the largest registered is 0)" in story.last(e.OperationFinished).message


def test_failed_final_update_does_not_leak_worker_capacity(story):
    story.given(configure(client_action_timeout_s=10), connect("w1", cpu=8), submit("a", cpu=8, attached=True))
    story.given(accept("a"), alive(11), queue("b", cpu=8))
    assert row(story, "a").outcome is Outcome.ABANDONED
    assert story.free("w1") == 0, "the run still goes on"
    story.when(finish("a")).then("w1 settled a: exited", "b to w1")
    assert row(story, "a").outcome is Outcome.ABANDONED


def test_revoked_operation_is_killed_once_and_its_report_frees_the_slot(story):
    story.given(connect("w1", cpu=8), submit("a", cpu=8, attached=True), accept("a"), tick())
    assert kills(story, "w1") == []
    story.given(depart("a"), tick(), tick(), queue("b", cpu=8), alive(20))
    told = [each for each in commands(story) if each.WhichOneof("kind") == "kill_requested"]
    assert [each.kill_requested.cause for each in told] == [KillCause.ABANDONED]
    assert story.free("w1") == 0
    story.when(finish("a", RunResult.KILLED)).then("w1 settled a: killed", "b to w1")
    (end,) = [each for each in ended(story) if each.client_operation_id == "a"]
    assert end.outcome == Outcome.ABANDONED
    assert story.connected() == ["w1"]


def test_unreachable_worker_is_evicted_when_kill_cannot_be_sent(story):
    # A command is a record of the log, so it can always be sent; what is left of the promise is that a worker which reads no more goes.
    story.given(connect("w1", cpu=8), queue("a", cpu=4), queue("b", cpu=4), cancel("a"))
    story.when(advance(10)).then("b requeued: worker_timeout", "w1 out: timeout")
    assert story.counters("b") == (0, 1, 0)


def test_live_worker_that_never_acknowledges_a_kill_is_evicted(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8), cancel("a"))
    story.when(alive(30)).then()
    assert story.connected() == ["w1"]
    story.given(alive(30))
    assert story.connected() == ["w1"]
    story.when(alive(1)).then("w1 out: kill_overdue")
