"""The state manager's and the databases' suites. Names and promises: tests/fixtures/spec/acceptance.toml."""

import pytest

from events import events as e
from events import facts as f
from events.errors import SequenceBroken
from events.evolve import evolve
from events.reasons import Outcome, PlacementEnd
from events.state import Stage
from projections import answers
from tests.stories.client_words import configured, dispatches_of, ended, of_kind, placements, row, submit
from tests.stories.notation import (
    MAIN,
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
    keepalive,
    queue,
)
from tests.stories.read_side import table_of


def test_drops_missing_actions(story):
    story.given(connect("w1", cpu=8))
    story.when(fact(f.ActionFinished(MAIN, "w1", story.connections["w1"], 4711)))
    story.then("ActionFinished ignored: dispatch_not_current")
    assert story.connected() == ["w1"]


def test_does_not_time_out_a_peer_instances_worker(story):
    story.given(configured({"kind": "simple", "worker_timeout_s": 600}, "night"), connect("w1", cpu=8))
    story.given(fact(f.WorkerConnected("night", "w1", 1, 1, (("cpu_millis", "8000"),))))
    story.given(submit("a", cpu=8, instance="night"), submit("b", cpu=8))
    story.when(advance(70)).then("b requeued: worker_timeout", "w1 out: timeout")
    assert row(story, "a", "night").stage is Stage.EXECUTING


def test_still_times_out_our_own_dead_worker(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8))
    story.when(advance(70)).then("a requeued: worker_timeout", "w1 out: timeout")


def test_does_not_time_out_a_live_worker_mid_action(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8), accept("a"))
    story.when(alive(600)).then()
    assert row(story, "a").stage is Stage.EXECUTING


def test_times_out_a_live_but_stuck_worker(story):
    story.given(configure(max_action_executing_timeout_s=900), connect("w1", cpu=8), queue("a", cpu=8), accept("a"))
    story.when(alive(900)).then()
    story.when(alive(2)).then("w1 told to kill a: action_timeout", "a requeued: executing_timeout")
    assert story.counters("a") == (1, 0, 0)


def test_is_executing_on_worker_follows_the_assignment(story):
    def executes_on(endpoint: str, name: str = "a") -> bool:
        operation = story.rehearsal.shard.instances[MAIN].by_client.get(name)
        dispatch = None if operation is None else operation.dispatch
        return dispatch is not None and dispatch.worker.endpoint == endpoint

    assert not executes_on("w1")  # never existed
    story.given(queue("a", cpu=8))
    assert not executes_on("w1")
    story.given(connect("w1", cpu=8))
    assert executes_on("w1")
    story.given(connect("w2", cpu=8), fail("a"))
    assert executes_on("w2")  # reassigned
    assert not executes_on("w1")
    story.given(gone("w1"), gone("w2"))
    assert not executes_on("w2")  # requeued
    story.given(connect("w3", cpu=8), finish("a"))
    assert not executes_on("w3")  # finished


def test_try_subscribe_skips_lookup_for_uncacheable_qualifier(story):
    story.given(submit("a", "x", cpu=8, skip_cache=True), submit("b", "x", cpu=8, skip_cache=True))
    assert row(story, "a") is not row(story, "b")
    story.given(submit("c", cpu=8), submit("d", cpu=8))
    assert row(story, "c") is not row(story, "d")
    assert len(of_kind(story, e.OperationQueued)) == 4


def test_joins_an_executing_action_whose_worker_is_ours_and_alive(story):
    story.given(connect("w1", cpu=8), submit("a", "x", cpu=8), accept("a"), alive(30), submit("b", "x", cpu=8))
    assert row(story, "b") is row(story, "a")
    assert dispatches_of(story, "a") == ["w1"]


def test_recreates_an_executing_action_whose_worker_went_quiet(story):
    # The same promise by another way: its worker's timeout has queued it again, so who joins it does not wait for a dead worker.
    story.given(connect("w1", cpu=8), submit("a", "x", cpu=8), accept("a"), advance(20), submit("b", "x", cpu=8))
    assert row(story, "b").stage is Stage.QUEUED
    story.when(connect("w2", cpu=8)).then("w2 admitted", "a to w2")


def test_add_action_smoke(story):
    story.given(queue("a", cpu=8))
    assert answers.operation(table_of(story), answers.lookup(table_of(story), "a"))["stage"] == "queued"
    story.given(connect("w1", cpu=8))
    assert answers.operation(table_of(story), answers.lookup(table_of(story), "a"))["stage"] == "executing"
    assert [each.WhichOneof("kind") for each in placements(story)] == ["action_placed"]


def test_multiple_clients_subscribe_to_same_action(story):
    story.given(configure(max_worker_loss_retries=1), connect("w1", cpu=8), submit("a", "x", cpu=8))
    story.given(submit("b", "x", cpu=8))
    assert len(of_kind(story, e.OperationDispatched)) == 1
    story.given(gone("w1"))
    assert row(story, "a").stage is row(story, "b").stage is Stage.QUEUED
    story.given(connect("w1", cpu=8), gone("w1"))
    ends = {end.client_operation_id: end.outcome for end in ended(story) if end.end == PlacementEnd.FINISHED}
    assert ends == dict.fromkeys("ab", Outcome.WORKER_LOSSES_EXHAUSTED)
    story.given(submit("c", "x", cpu=8))
    assert story.waiting() == ["c"]


def test_outdated_version(story):
    story.given(queue("a", cpu=8))
    shard = story.rehearsal.shard
    for seq in (shard.seq, shard.seq + 2):  # one that stands there already, and one that leaves a gap
        with pytest.raises(SequenceBroken, match=f"expected {shard.seq + 1}"):
            evolve(shard, e.Ticked(seq, shard.now_us, shard.position + 1))
    assert story.waiting() == ["a"]


def test_orphaned_client_operation_id_returns_none(story):
    story.given(configure(retain_completed_for_s=5), connect("w1", cpu=8), submit("a", "x", cpu=8))
    story.given(submit("b", "x", cpu=8), finish("a"), alive(7))
    for name in "ab":
        assert answers.lookup(table_of(story), name) is None
        story.when(cancel(name)).then("CancelRequested ignored: unknown_operation")


def test_add_action_attaches_ttl_to_cid_mapping(story):
    story.given(configure(retain_completed_for_s=5), connect("w1", cpu=8), submit("a", "x", cpu=8))
    story.given(submit("b", "x", cpu=8), finish("a"), alive(4))
    instance = story.rehearsal.shard.instances[MAIN]
    assert list(instance.by_client) == ["a", "b"]
    story.when(alive(2)).then("main forgot what finished")
    assert instance.by_client == {}
    assert story.rehearsal.shard.operations == {}


def test_action_state_any_url(story):
    story.given(connect("w1", cpu=8), submit("a", "x", cpu=8, target="//x:y", mnemonic="Link"), accept("a"))
    told = answers.operation(table_of(story), answers.lookup(table_of(story), "a"))
    assert (told["stage"], told["endpoint"], told["target_id"], told["mnemonic"]) == (
        "executing",
        "w1",
        "//x:y",
        "Link",
    )
    assert told["action_digest"].endswith("/1")
    story.given(keepalive("w1"), finish("a", exit_code=2))
    told = answers.operation(table_of(story), answers.lookup(table_of(story), "a"))
    assert (told["stage"], told["exit_code"], told["cacheable"]) == ("finished", 2, True)


def test_execute_response_status_message_is_some_on_success(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8), finish("a"))
    (end,) = ended(story)
    assert (end.end, end.outcome, end.exit_code) == (PlacementEnd.FINISHED, Outcome.COMPLETED, 0)
    assert Outcome.COMPLETED != 0, "the absent value is no success"
