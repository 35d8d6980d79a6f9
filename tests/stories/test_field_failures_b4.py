"""Duplicate executions and requeue loops, as others met them (field failures, group B4): each report's sequence, and what must hold here.

Numbers are those of the collection (tests/fixtures/spec/failures.toml).
"""

from events import events as e
from events import facts as f
from events.codec import GENESIS_CHAIN, encode_event
from events.decide import decide
from events.indexing import build_indexes
from events.reasons import Outcome, RequeueCause, RunResult
from events.state import Stage
from streams.log import Record
from streams.recovery import Fold
from tests.stories.client_words import dispatches_of, hear, kills, of_kind, row, submit
from tests.stories.notation import (
    MAIN,
    accept,
    advance,
    alive,
    configure,
    connect,
    fact,
    finish,
    gone,
    queue,
    restart,
)


def test_54_unacknowledged_dispatches_are_requeued_a_bounded_number_of_times_and_the_last_reason_is_kept(story):
    story.given(configure(dispatch_ack_timeout_s=5, max_free_requeues=4), connect("w1", cpu=8), queue("a", cpu=8))
    for _ in range(6):
        story.given(alive(6))
        if row(story, "a").stage is Stage.FINISHED:
            break
        report = f.ActionFinished(MAIN, "w1", story.connections["w1"], kills(story, "w1")[-1], RunResult.KILLED)
        story.given(fact(report), alive(2))
    causes = [event.cause for event in of_kind(story, e.OperationRequeued)]
    assert causes == [RequeueCause.UNACKNOWLEDGED] * 4
    finished = story.last(e.OperationFinished)
    assert finished.outcome is Outcome.FREE_REQUEUES_EXHAUSTED
    assert "given back untried 5 times; the last was w1: not accepted by w1 within 5 s" in finished.message
    assert kills(story, "w1") == [event.dispatch_id for event in of_kind(story, e.OperationDispatched)]


def test_56_a_client_that_drops_for_a_moment_loses_neither_its_place_nor_its_wait(story):
    story.given(submit("a", cpu=8, attached=True), advance(20), queue("b", cpu=8))
    before = row(story, "a").queued_since_us, row(story, "a").sort_key
    story.when(advance(35), advance(2), hear("a"), advance(50))
    assert story.waiting() == ["a", "b"]
    assert (row(story, "a").queued_since_us, row(story, "a").sort_key) == before
    story.when(hear("a"), connect("w1", cpu=8))
    assert story.told()[-2:] == ["w1 admitted", "a to w1"]


def test_56_a_client_that_joins_again_keeps_the_action_it_shared(story):
    story.given(submit("a", "x", cpu=8, attached=True), advance(40), submit("a again", "x", cpu=8, attached=True))
    story.given(advance(30), hear("a again"), advance(30))
    assert row(story, "a again").stage is Stage.QUEUED, "the first client is silent for 100 s, the second was heard"
    assert len(of_kind(story, e.OperationQueued)) == 1


def test_57_worker_losses_have_a_budget_so_a_build_ends(story):
    story.given(configure(max_worker_loss_retries=4), queue("a", cpu=8))
    for number in range(5):
        story.given(connect(f"w{number}", cpu=8), accept("a"), gone(f"w{number}"))
    finished = story.last(e.OperationFinished)
    assert (finished.outcome, finished.worker_losses, finished.job_failures) == (Outcome.WORKER_LOSSES_EXHAUSTED, 5, 0)
    story.when(connect("w9", cpu=8)).then("w9 admitted")


def test_58_what_a_decider_that_lost_its_shard_concludes_is_not_the_truth(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8), accept("a"), advance(5))
    log, chain = [], GENESIS_CHAIN

    def append(event: e.Event, epoch: int, before: bytes) -> bytes:
        value, after = encode_event(event, epoch, before)
        log.append(Record(len(log), event.at_us, None, value))
        return after

    for event in story.every_event():
        chain = append(event, 1, chain)
    zombie = Fold(0)
    zombie.apply(log)
    build_indexes(zombie.shard)
    zombies_chain = chain

    story.given(restart(), alive(8))  # another decider leads, and the worker is heard by it alone
    for event in story.every_event()[len(log) :]:
        chain = append(event, 2, chain)
    concluded = decide(
        zombie.shard, f.Tick(), offset=zombie.shard.position + 1, append_us=zombie.shard.now_us + 2_999_999
    )
    concluded += decide(
        zombie.shard, f.Tick(), offset=zombie.shard.position + 1, append_us=zombie.shard.now_us + 2_999_999
    )
    assert any(isinstance(event, e.WorkerDisconnected) for event in concluded), "it heard nobody"
    for event in concluded:
        zombies_chain = append(event, 1, zombies_chain)

    reader = Fold(0)
    reader.apply(log)
    assert reader.stale == len(concluded)
    assert list(reader.shard.instances[MAIN].workers) == ["w1"]
    assert reader.shard.instances[MAIN].by_client["a"].stage is Stage.EXECUTING


def test_59_a_blip_during_the_hand_off_keeps_an_action_that_arrived(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8))
    story.when(connect("w1", cpu=8, running=("a",))).then("w1 admitted again with a")
    story.when(accept("a"), finish("a")).then("a accepted", "a finished: completed")
    assert dispatches_of(story, "a") == ["w1"]


def test_59_a_blip_during_the_hand_off_requeues_once_what_did_not_arrive(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8))
    story.when(connect("w1", cpu=8)).then("a requeued: worker_replaced", "w1 admitted again", "a to w1")
    story.when(accept("a"), finish("a")).then("a accepted", "a finished: completed")
    assert story.connected() == ["w1"], "a blip kills no worker"


def test_61_a_worker_that_comes_back_with_an_old_copy_is_told_to_kill_it_and_the_action_finishes_once(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8), accept("a"), advance(6), connect("w2", cpu=8))
    old = story.dispatch_ids["a"]
    story.when(advance(5)).then("a requeued: worker_timeout", "w1 out: timeout", "a to w2")
    story.when(connect("w1", cpu=8, running=(old,))).then("w1 admitted", "w1 told to kill a: not_current")
    assert kills(story, "w1") == [old]
    report = f.ActionFinished(MAIN, "w1", story.connections["w1"], old, RunResult.EXITED)
    story.when(fact(report)).then("ActionFinished ignored: dispatch_not_current")  # it ended before the kill reached it
    story.when(finish("a")).then("a finished: completed")
    assert len(of_kind(story, e.OperationFinished)) == 1
    assert kills(story, "w2") == []


def test_63_after_the_loss_of_every_worker_each_action_runs_again_once(story):
    names = [f"a{number}" for number in range(6)]
    story.given(*(connect(f"w{number}", cpu=2) for number in range(3)), *(queue(name, cpu=1) for name in names))
    story.given(*(gone(f"w{number}") for number in range(3)))
    assert story.waiting() == names
    story.given(*(connect(f"w{number}", cpu=2) for number in range(3)), alive(30))
    assert [len(dispatches_of(story, name)) for name in names] == [2] * 6
    assert [story.counters(name) for name in names] == [(0, 1, 0)] * 6
    story.given(*(finish(name) for name in names), alive(5))
    assert len(of_kind(story, e.OperationFinished)) == 6
