"""Identical cacheable actions are one operation with several clients (J1-J7)."""

from events import events as e
from events import facts as f
from events.reasons import RunResult
from events.values import Digest
from tests.stories.notation import (
    accept,
    advance,
    alive,
    cancel,
    configure,
    connect,
    fact,
    fail,
    finish,
    gone,
    reprioritise,
    restart,
    submit,
)


def test_an_identical_cacheable_action_joins_the_queued_one(story):
    story.given(submit("a", digest="x", cpu=8)).when(advance(1), submit("b", digest="x", cpu=8)).then("b joined a")
    assert story.operation_id("a") == story.operation_id("b")
    story.when(connect("w1", cpu=16)).then("w1 admitted", "a to w1")


def test_an_identical_action_joins_the_running_one(story):
    story.given(connect("w1", cpu=8), submit("a", digest="x"), accept("a"))
    story.when(submit("b", digest="x")).then("b joined a")


def test_every_client_hears_of_the_end_under_its_own_id(story):
    story.given(connect("w1", cpu=8), submit("a", digest="x"), submit("b", digest="x"), submit("c", digest="x"))
    story.when(finish("a")).then("a finished: completed")
    assert story.ended() == [("a", "finished"), ("b", "finished"), ("c", "finished")]


def test_every_client_hears_of_a_requeue_under_its_own_id(story):
    story.given(connect("w1", cpu=8), submit("a", digest="x"), submit("b", digest="x"), fail("a"))
    assert story.ended() == [("a", "requeued"), ("b", "requeued")]


def test_another_size_of_the_same_hash_is_another_action(story):
    story.given(submit("a", digest="x"))
    other = f.ActionQueued("main", "b", action_digest=Digest(b"x" * 32, 8), cacheable=True)
    story.when(fact(other)).then("b queued")


def test_the_same_action_of_another_instance_is_another_action(story):
    story.given(fact(f.Configured("night", '{"kind":"simple"}')), submit("a", digest="x"))
    story.when(fact(f.ActionQueued("night", "b", action_digest=Digest(b"x" * 32, 7), cacheable=True))).then("b queued")


def test_what_is_not_cacheable_never_joins(story):
    story.given(submit("a", digest="x", cacheable=False))
    story.when(submit("b", digest="x", cacheable=False), submit("c", digest="x")).then("b queued", "c queued")


def test_who_skips_the_cache_neither_joins_nor_is_joined(story):
    story.given(submit("a", digest="x", skip_cache_lookup=True))
    story.when(submit("b", digest="x"), submit("c", digest="x", skip_cache_lookup=True)).then("b queued", "c queued")


def test_an_action_without_a_digest_joins_nothing(story):
    story.given(submit("a"), submit("b")).then()
    assert story.operation_id("a") != story.operation_id("b")


def test_after_the_end_the_same_action_is_a_new_operation(story):
    story.given(connect("w1", cpu=8), submit("a", digest="x"), finish("a"))
    story.when(submit("b", digest="x")).then("b queued", "b to w1")


def test_a_late_end_of_retention_leaves_the_key_to_its_new_owner(story):
    story.given(configure(retain_completed_for_s=5), connect("w1", cpu=8), submit("a", digest="x"), finish("a"))
    story.given(submit("b", digest="x"), alive(6)).when(submit("c", digest="x")).then("c joined b")


def test_after_retention_every_clients_id_is_free_again(story):
    story.given(
        configure(retain_completed_for_s=5), connect("w1", cpu=8), submit("a", digest="x"), submit("b", digest="x")
    )
    story.given(finish("a"), alive(6)).when(submit("b", digest="x"), submit("a", digest="x")).then(
        "b queued", "b to w1", "a joined b"
    )


def test_a_joined_id_that_is_repeated_is_a_duplicate(story):
    story.given(submit("a", digest="x"), submit("b", digest="x"))
    story.when(submit("b", digest="x")).then("ActionQueued ignored: duplicate_operation")


def test_a_join_keeps_the_first_submitters_values(story):
    story.given(submit("a", digest="x", cpu=1)).when(submit("b", digest="x", cpu=9, priority=5)).then("b joined a")
    assert story.asks("b") == {"cpu_millis": "1000"}
    assert story.rehearsal.shard.operations[story.operation_id("b")].priority == 0


def test_a_joined_operation_has_the_first_queued_time(story):
    story.given(submit("a", digest="x"), advance(3), submit("b", digest="x"))
    assert story.rehearsal.shard.operations[story.operation_id("b")].queued_at_us == story.now_us - 3_000_000


def test_a_join_outlives_a_worker_loss_and_a_restart(story):
    story.given(connect("w1", cpu=8), submit("a", digest="x"), submit("b", digest="x"), gone("w1"), restart())
    story.when(connect("w1", cpu=8, boot=2), finish("a")).then("w1 admitted", "a to w1", "a finished: completed")
    assert story.ended()[-2:] == [("a", "finished"), ("b", "finished")]


def test_one_of_two_clients_that_cancels_leaves_and_the_other_gets_the_result(story):
    story.given(connect("w1", cpu=8), submit("a", digest="x"), submit("b", digest="x"))
    story.when(cancel("a")).then("a left a: gone")
    assert story.ended() == [("a", "cancelled")]
    story.when(finish("a")).then("a finished: completed")
    assert story.ended()[1:] == [("b", "finished")]


def test_the_last_client_that_cancels_ends_the_operation(story):
    story.given(connect("w1", cpu=8), submit("a", digest="x"), submit("b", digest="x"), cancel("b"))
    story.when(cancel("b")).then("CancelRequested ignored: no_change")
    story.when(cancel("a")).then("w1 told to kill a: cancelled", "a finished: cancelled")


def test_a_joined_operation_is_reprioritised_by_any_of_its_ids(story):
    story.given(submit("a", digest="x"), submit("b", digest="x")).when(reprioritise("b", 4)).then("a has priority 4")


def test_a_kill_nobody_asked_for_requeues_once_for_all(story):
    story.given(connect("w1", cpu=8), submit("a", digest="x"), submit("b", digest="x"))
    story.when(finish("a", RunResult.KILLED)).then("a requeued: job_error", "a to w1")
    assert isinstance(story.last(e.OperationDispatched), e.OperationDispatched)
    assert len(story.rehearsal.shard.operations) == 1
