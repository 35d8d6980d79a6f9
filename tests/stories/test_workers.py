"""Workers come, are heard, fall silent, come back and go."""

import pytest

from events import events as e
from events import facts as f
from events.reasons import RunResult
from proto.gen.headway.v1 import commands_pb2, placements_pb2
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
    queue,
    remove,
    undrain,
)


@pytest.fixture
def running(story):
    """`a` runs on w1, which has room for two."""
    return story.given(connect("w1", cpu=16), queue("a", cpu=8), accept("a"))


def test_a_worker_that_leaves_gives_its_work_back_as_a_loss(running):
    running.when(gone("w1")).then("a requeued: worker_gone", "w1 out: gone")
    assert running.counters("a") == (0, 1, 0)


def test_a_worker_that_is_removed_by_an_operator_is_out(running):
    running.when(remove("w1")).then("a requeued: worker_gone", "w1 out: removed")


def test_silence_of_exactly_the_timeout_evicts(running):
    running.when(advance(9.999999)).then()
    running.when(advance(0.000001), fact(f.Tick())).then("a requeued: worker_timeout", "w1 out: timeout")
    assert running.last(e.WorkerDisconnected).silent_us == 10_000_000


def test_a_worker_that_is_heard_stays(running):
    running.given(advance(9), keepalive("w1")).when(advance(9)).then()
    running.when(advance(1.5)).then("a requeued: worker_timeout", "w1 out: timeout")


def test_a_report_is_as_good_as_a_keepalive(running):
    running.given(advance(9), finish("a")).when(advance(9)).then()


def test_a_dispatch_is_no_sign_of_life(story):
    story.given(connect("w1", cpu=16), advance(9), queue("a", cpu=8)).when(advance(1.5))
    story.then("a requeued: worker_timeout", "w1 out: timeout")


def test_lost_workers_are_forgiven_up_to_a_limit(story):
    story.given(configure(max_worker_loss_retries=1), connect("w1", cpu=8), queue("a", cpu=8))
    story.when(gone("w1"), connect("w1", cpu=8), gone("w1"))
    story.then(
        "a requeued: worker_gone",
        "w1 out: gone",
        "w1 admitted",
        "a to w1",
        "a finished: worker_losses_exhausted",
        "w1 out: gone",
    )
    finished = story.last(e.OperationFinished)
    assert (finished.exit_code, finished.worker_losses) == (-178, 2)


def test_a_keepalive_of_nobody_is_ignored(story):
    story.when(fact(f.WorkerReported(MAIN, "w9", 1))).then("WorkerReported ignored: unknown_worker")


def test_an_older_connection_has_no_say(running):
    old = running.connections["w1"]
    running.given(connect("w1", cpu=16, running=("a",)))
    running.when(
        fact(f.WorkerReported(MAIN, "w1", old)),
        fact(f.ActionFinished(MAIN, "w1", old, running.dispatch_ids["a"])),
        fact(f.WorkerGone(MAIN, "w1", old)),
        fact(f.DispatchAccepted(MAIN, "w1", old, running.dispatch_ids["a"])),
    )
    running.then(*[f"{kind} ignored: stale_connection" for kind in
                   ("WorkerReported", "ActionFinished", "WorkerGone", "DispatchAccepted")])  # fmt: skip


def test_the_same_connection_twice_is_a_duplicate(running):
    running.when(connect("w1", cpu=16, connection=running.connections["w1"]))
    running.then("WorkerConnected ignored: duplicate_connection")


def test_a_report_on_another_workers_dispatch_changes_nothing(running):
    running.given(connect("w2", cpu=16))
    running.when(fact(f.ActionFinished(MAIN, "w2", running.connections["w2"], running.dispatch_ids["a"])))
    running.then("ActionFinished ignored: dispatch_not_current")
    assert (running.free("w1"), running.free("w2")) == (8000, 16000)


def test_a_dispatch_id_nobody_gave_is_answered_with_a_kill_when_it_is_accepted(running):
    running.when(fact(f.DispatchAccepted(MAIN, "w1", running.connections["w1"], 4711)))
    running.then("DispatchAccepted ignored: dispatch_not_current", "w1 told to kill dispatch 4711: not_current")


def test_the_same_process_that_reconnects_keeps_what_it_lists(running):
    running.when(connect("w1", cpu=16, running=("a",))).then("w1 admitted again with a")
    assert running.free("w1") == 8000
    running.when(finish("a")).then("a finished: completed")
    assert running.free("w1") == 16000


def test_the_same_process_that_reconnects_loses_what_it_does_not_list(running):
    running.given(queue("b", cpu=8), accept("b"))
    running.when(connect("w1", cpu=16, running=("b",)))
    running.then("a requeued: worker_replaced", "w1 admitted again with b", "a to w1")
    assert running.counters("a") == (0, 1, 0)


def test_another_process_at_the_endpoint_loses_everything_even_what_it_lists(running):
    running.when(connect("w1", cpu=16, boot=2, running=("a",)))
    running.then("a requeued: worker_replaced", "w1 admitted", "w1 told to kill a: not_current", "a to w1")


def test_a_worker_without_a_boot_epoch_loses_everything_at_each_connect(story):
    story.given(connect("w1", cpu=16, boot=0), queue("a", cpu=8))
    story.when(connect("w1", cpu=16, boot=0)).then("a requeued: worker_replaced", "w1 admitted", "a to w1")


def test_a_listed_dispatch_that_is_unknown_is_killed(story):
    story.when(connect("w1", cpu=16, running=(4711,)))
    story.then("w1 admitted", "w1 told to kill dispatch 4711: not_current")


def test_a_reconnect_settles_a_revoked_run_that_is_not_listed(running):
    running.given(cancel("a")).when(connect("w1", cpu=16)).then("w1 settled a: unspecified", "w1 admitted again")
    assert running.free("w1") == 16000


def test_a_revoked_run_that_is_listed_goes_on_paying(running):
    running.given(cancel("a")).when(connect("w1", cpu=16, running=("a",))).then("w1 admitted again with a")
    assert running.free("w1") == 8000
    running.when(finish("a", RunResult.KILLED)).then("w1 settled a: killed")


def test_an_evicted_worker_that_comes_back_is_told_to_kill_what_it_still_runs(running):
    running.given(advance(11)).when(connect("w1", cpu=16, running=("a",)))
    running.then("w1 admitted", "w1 told to kill a: not_current", "a to w1")
    assert running.free("w1") == 8000


def test_a_drain_outlives_a_reconnect_of_the_same_process_but_not_another_one(story):
    story.given(connect("w1", cpu=16), drain("w1"), connect("w1", cpu=16))
    story.when(queue("a", cpu=8)).then("a queued")
    story.when(connect("w1", cpu=16, boot=2)).then("w1 admitted", "a to w1")


def test_a_drained_worker_stays_connected_while_it_is_heard(story):
    story.given(connect("w1"), drain("w1")).when(alive(30)).then()
    assert story.connected() == ["w1"]


def test_undraining_who_is_not_drained_changes_nothing(story):
    story.given(connect("w1")).when(undrain("w1"), undrain("w2"), drain("w2"))
    story.then(
        "WorkerUndrained ignored: no_change",
        "WorkerUndrained ignored: unknown_worker",
        "WorkerDrained ignored: unknown_worker",
    )


def test_a_worker_whose_minimum_is_no_number_is_refused_and_told_why(story):
    story.when(connect("w1", cpu_millis="lots")).then(
        "WorkerConnected properties.cpu_millis rejected: invalid_property"
    )
    sent = [out for out in story.rehearsal.outbounds if out.topic_kind == "command"]
    refused = commands_pb2.WorkerCommand.FromString(sent[-1].value)
    assert (refused.endpoint, refused.refused.field, refused.refused.value) == ("w1", "properties.cpu_millis", "lots")


def test_a_worker_for_an_unknown_instance_is_rejected(story):
    story.when(fact(f.WorkerConnected("nowhere", "w1", 1, 1)))
    story.then("WorkerConnected instance rejected: unknown_instance")


def test_other_dimensions_at_a_reconnect_count_at_once(running):
    running.given(queue("b", cpu=16))
    running.when(connect("w1", cpu=32, running=("a",))).then("w1 admitted again with a", "b to w1")
    assert running.free("w1") == 8000


def test_free_memory_is_remembered(running):
    running.given(keepalive("w1", 12345), keepalive("w1"))
    assert running.rehearsal.shard.instances[MAIN].workers["w1"].free_memory_kib == 12345


def test_an_outage_of_the_log_evicts_nobody(silent_story):
    story = silent_story.given(connect("w1", cpu=16), queue("a", cpu=8), accept("a"), advance(2), keepalive("w1"))
    story.given(advance(3600)).when(fact(f.Tick())).then("log silent for 3600 s")
    story.given(advance(3)).when(keepalive("w1")).then()
    assert story.connected() == ["w1"]


def test_after_an_outage_the_deadline_is_as_far_as_before_it(silent_story):
    story = silent_story.given(connect("w1", cpu=16))
    for _ in range(3):
        story.given(advance(3), fact(f.Tick()))
    story.given(advance(100), fact(f.Tick()))
    story.when(advance(0.999999), fact(f.Tick())).then()
    story.when(advance(0.000001), fact(f.Tick())).then("w1 out: timeout")


def test_an_outage_moves_the_deadline_of_a_kill_too(silent_story):
    story = silent_story.given(
        configure(unacknowledged_kill_timeout_s=5), connect("w1", cpu=8), queue("a", cpu=8), cancel("a")
    )
    story.when(advance(1000), keepalive("w1")).then("log silent for 1000 s")
    for _ in range(2):
        story.when(advance(2.5), keepalive("w1")).then()
    story.when(advance(0.1), keepalive("w1")).then("w1 out: kill_overdue", "WorkerReported ignored: unknown_worker")


def test_three_seconds_without_a_fact_are_no_outage(silent_story):
    silent_story.given(connect("w1")).when(advance(3), fact(f.Tick())).then()
    silent_story.when(advance(3.000001), fact(f.Tick())).then("log silent for 3 s")


def test_workers_hear_of_kills_and_downstream_of_placements(running):
    running.given(cancel("a"))
    last = {out.kind: out for out in running.rehearsal.outbounds}
    placed = placements_pb2.Placement.FromString(last["ActionPlaced"].value).action_placed
    assert (placed.client_operation_id, placed.endpoint, placed.attempt) == ("a", "w1", 1)
    assert placed.dispatch_id == running.dispatch_ids["a"]
    kill = commands_pb2.WorkerCommand.FromString(last["KillRequested"].value)
    assert (kill.endpoint, kill.kill_requested.dispatch_id) == ("w1", running.dispatch_ids["a"])


def test_a_declining_worker_is_not_asked_again_before_it_is_heard_even_after_a_restart(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8), decline("a"))
    story.restart()
    story.given(advance(1)).when(fact(f.Tick())).then()
    story.when(keepalive("w1")).then("a to w1")
