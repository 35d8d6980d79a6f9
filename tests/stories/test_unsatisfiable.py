"""What no connected worker could run even if idle is told from what only waits for room (X2-X5)."""

import pytest

from events import events as e
from tests.stories.notation import (
    advance,
    alive,
    cancel,
    configure,
    connect,
    drain,
    fail,
    finish,
    gone,
    queue,
    restart,
    submit,
    tick,
)


@pytest.fixture
def strict(story):
    """Ten seconds without anybody who could run it fail an action; five without anybody at all do not."""
    return story.given(configure(unsatisfiable_action_timeout_s=10))


def test_an_action_for_which_no_worker_is_large_enough_fails_and_says_how_large_they_are(strict):
    strict.given(connect("w1", cpu=4), connect("w2", cpu=16), queue("a", cpu=99))
    assert strict.verdicts() == ["nobody could serve cpu_millis"]
    strict.when(alive(9.5)).then()
    strict.when(alive(0.5)).then("a finished: unsatisfiable")
    finished = strict.last(e.OperationFinished)
    assert finished.message == (
        "no connected worker could run it even if idle: cpu_millis 99000 (the largest registered is 16000)"
    )
    assert finished.exit_code == -178


def test_a_property_nobody_has_is_named_and_no_other_workers_values_are(story):
    story.given(
        configure(unsatisfiable_action_timeout_s=5, supported_platform_properties={"os": "exact", "gpu": "priority"})
    )
    story.given(connect("w1", cpu=8, os="linux"), submit("a", cpu=1, properties={"os": "mac", "gpu": "h100"}), alive(5))
    message = story.last(e.OperationFinished).message
    assert message == "no connected worker could run it even if idle: gpu (any value), os=mac"
    assert "linux" not in message


def test_properties_that_no_single_worker_has_together_are_all_named(strict):
    strict.given(connect("w1", cpu=16, memory=10), connect("w2", cpu=1, memory=1000), queue("a", cpu=8, memory=500))
    assert strict.verdicts() == ["nobody could serve cpu_millis, memory_kib"]


def test_an_action_that_waits_for_a_busy_worker_is_never_failed(strict):
    strict.given(connect("w1", cpu=8), queue("a", cpu=8), queue("b", cpu=8)).when(alive(500)).then()
    assert strict.verdicts() == []


def test_a_draining_or_full_worker_is_still_one_that_could(strict):
    strict.given(connect("w1", cpu=8, inflight=1), queue("a", cpu=1), queue("b", cpu=8), drain("w1"))
    strict.when(alive(500)).then()


def test_an_empty_fleet_fails_nothing(strict):
    strict.given(queue("a", cpu=8)).when(alive(500)).then()
    assert strict.verdicts() == []


def test_without_the_timeout_it_is_only_noted(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=99)).when(alive(500)).then()
    assert story.verdicts() == ["nobody could serve cpu_millis"]


def test_a_verdict_is_one_event_however_many_actions_ask_for_the_same(strict):
    strict.given(connect("w1", cpu=8), *(queue(f"a{number}", cpu=99) for number in range(9)), alive(3), tick())
    assert strict.verdicts() == ["nobody could serve cpu_millis"]


def test_a_capable_worker_that_joins_runs_it(strict):
    strict.given(connect("w1", cpu=8), queue("a", cpu=16), alive(5))
    strict.when(connect("w2", cpu=16), alive(20)).then("w2 admitted", "a to w2")
    assert strict.verdicts() == ["nobody could serve cpu_millis", "somebody could serve it"]


def test_the_clock_starts_again_when_the_capable_one_leaves(strict):
    strict.given(connect("w1", cpu=8), queue("busy", cpu=8), queue("a", cpu=16), alive(8))
    strict.given(connect("w2", cpu=16, inflight=1), fail("a"), gone("w2"))
    assert strict.stage("a") == "queued"
    strict.when(alive(9.5)).then()
    strict.when(alive(0.5)).then("a finished: unsatisfiable")


def test_each_action_waits_the_whole_time_itself(strict):
    strict.given(connect("w1", cpu=8), queue("a", cpu=99), alive(6), queue("b", cpu=99))
    strict.when(alive(4)).then("a finished: unsatisfiable")
    strict.when(alive(5.5)).then()
    strict.when(alive(0.5)).then("b finished: unsatisfiable")


def test_a_waiting_client_hears_of_it(strict):
    strict.given(connect("w1", cpu=8), submit("a", cpu=99, digest="x"), submit("b", cpu=99, digest="x"), alive(10))
    assert strict.ended() == [("a", "finished"), ("b", "finished")]


def test_nothing_is_failed_for_a_worker_that_only_reconnects(strict):
    strict.given(connect("w1", cpu=16), queue("a", cpu=16), queue("b", cpu=16), alive(8))
    strict.given(connect("w1", cpu=16, running=("a",)), alive(3))
    assert strict.verdicts() == []


def test_a_worker_that_comes_back_smaller_can_no_longer_run_it(strict):
    strict.given(connect("w1", cpu=16), queue("a", cpu=16), queue("b", cpu=16))
    strict.given(connect("w1", cpu=4, boot=2))
    assert strict.verdicts() == ["nobody could serve cpu_millis"]
    strict.when(alive(10)).then("a finished: unsatisfiable", "b finished: unsatisfiable")


def test_an_operation_that_left_in_time_is_not_failed(strict):
    strict.given(connect("w1", cpu=8), queue("a", cpu=99), cancel("a")).when(alive(20)).then()


def test_verdicts_and_their_clocks_outlive_a_restart(strict):
    strict.given(connect("w1", cpu=8), queue("a", cpu=99), alive(6), restart()).when(alive(3.5)).then()
    strict.when(alive(0.5)).then("a finished: unsatisfiable")
    assert strict.verdicts() == ["nobody could serve cpu_millis"]


def test_another_configuration_is_judged_anew(story):
    story.given(
        configure(supported_platform_properties={"os": "exact"}), connect("w1", os="linux"), queue("a", os="mac")
    )
    story.when(configure(supported_platform_properties={"os": "ignore"})).then("main configured", "a to w1")
    assert story.verdicts() == ["nobody could serve os"]


def test_without_any_worker_an_action_fails_only_where_that_is_asked_for(story):
    story.given(configure(no_worker_action_timeout_s=5), queue("a", cpu=1))
    assert story.verdicts() == ["no workers"]
    story.when(alive(4.5)).then()
    story.when(alive(0.5)).then("a finished: no_worker")
    assert story.last(e.OperationFinished).message == "no worker was connected for 5 s"


def test_after_the_last_worker_left_the_clock_of_no_workers_starts(story):
    story.given(
        configure(no_worker_action_timeout_s=5), connect("w1", cpu=1), queue("a", cpu=1), queue("b", cpu=1), alive(60)
    )
    story.given(gone("w1")).when(alive(5)).then("a finished: no_worker", "b finished: no_worker")


def test_a_worker_that_cannot_run_it_turns_no_workers_into_nobody_could(story):
    story.given(configure(no_worker_action_timeout_s=5, unsatisfiable_action_timeout_s=7), queue("a", cpu=9), alive(3))
    story.given(connect("w1", cpu=1))
    assert story.verdicts() == ["no workers", "nobody could serve cpu_millis"]
    story.when(alive(6.5)).then()
    story.when(alive(0.5)).then("a finished: unsatisfiable")


def test_a_fleet_that_was_empty_for_a_while_starts_the_clock_again(strict):
    strict.given(connect("w1", cpu=1), queue("a", cpu=9), alive(8), gone("w1"), alive(30), connect("w2", cpu=1))
    strict.when(alive(9.5)).then()
    strict.when(alive(0.5)).then("a finished: unsatisfiable")


def test_a_whole_queue_that_is_due_at_once_fails_in_parts(strict):
    strict.given(connect("w1", cpu=1), *(queue(f"a{number}", cpu=9) for number in range(100)), alive(9.5))
    failed = []
    while strict.waiting():
        before = len(strict.waiting())
        strict.given(advance(0.5))  # one tick, one fact
        failed.append(before - len(strict.waiting()))
    assert failed == [25, 18, 16, 16, 16, 9]


def test_an_outage_of_the_log_fails_nothing(silent_story):
    story = silent_story.given(configure(unsatisfiable_action_timeout_s=10), connect("w1", cpu=1), queue("a", cpu=9))
    story.when(advance(3600), tick()).then("log silent for 3600 s")
    assert story.waiting() == ["a"]


def test_what_has_finished_is_not_judged(strict):
    strict.given(connect("w1", cpu=8), queue("a", cpu=8), finish("a"), gone("w1"), connect("w2", cpu=1))
    assert strict.verdicts() == []


def test_what_a_tick_ends_is_told_before_it_is_forgotten_also_where_nothing_is_retained(story):
    story.given(configure(retain_completed_for_s=0, no_worker_action_timeout_s=2), queue("a")).when(alive(1.5)).then()
    story.when(alive(0.5)).then("a finished: no_worker")
    assert story.ended() == [("a", "finished")]
    story.when(tick()).then("main forgot what finished")
    assert story.rehearsal.shard.operations == {}
