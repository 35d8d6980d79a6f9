"""Newer suites: strategies, pauses, the veto, retries, kills, queue order. Names and promises: tests/fixtures/spec/acceptance.toml."""

import json

import pytest

from events import events as e
from events import facts as f
from events.decide import decide
from events.reasons import DeclineReason, RunResult
from projections import answers, fleet
from tests.stories.client_words import dispatches_of, kills, of_kind, row
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
    fail,
    finish,
    keepalive,
    queue,
    tick,
    undrain,
)
from tests.stories.read_side import table_of

# -- placement ----------------------------------------------------------------------------------------------------------------------


def veteran_and_newcomer(story, strategy):
    """`veteran` runs one action and is the least recent; `newcomer` has just come and runs nothing."""
    story.given(configure(allocation_strategy=strategy), connect("veteran", cpu=8), queue("a", cpu=1))
    return story.given(advance(1), connect("newcomer", cpu=8))


def test_least_loaded_gives_the_next_action_to_the_idle_newcomer(story):
    veteran_and_newcomer(story, "least_loaded").when(queue("b", cpu=1)).then("b queued", "b to newcomer")


def test_least_recently_used_gives_it_to_the_busy_veteran(story):
    veteran_and_newcomer(story, "least_recently_used").when(queue("b", cpu=1)).then("b queued", "b to veteran")


def test_best_fit_keeps_the_big_room_for_big_actions(story):
    story.given(configure(allocation_strategy="best_fit"), connect("big", cpu=16), connect("small", cpu=4))
    story.when(queue("a", cpu=4)).then("a queued", "a to small")
    story.when(queue("b", cpu=16)).then("b queued", "b to big")


def test_best_fit_prefers_the_worker_with_the_actions_priority_value(story):
    kinds = {"image": "priority"}
    story.given(configure(allocation_strategy="best_fit", supported_platform_properties=kinds))
    story.given(connect("tight", cpu=4, image="old"), connect("roomy", cpu=16, image="new"))
    story.when(queue("a", cpu=4, image="new")).then("a queued", "a to roomy")
    story.when(queue("b", cpu=4, image="neither")).then("b queued", "b to tight")


# -- pauses and declines --------------------------------------------------------------------------------------------------------------


def test_backpressure_pauses_an_idle_worker_until_its_next_keepalive(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8), accept("a"))
    story.when(finish("a", RunResult.BACKPRESSURE), tick(), advance(1)).then("a requeued: backpressure")
    assert story.counters("a") == (0, 0, 1)
    story.when(keepalive("w1")).then("a to w1")


def test_a_decline_requeues_untried_and_holds_until_the_load_fits(story):
    story.given(connect("w1", cpu=8, memory=9000), queue("busy", cpu=1, memory=10), queue("a", cpu=1, memory=4000))
    story.when(decline("a", DeclineReason.MEMORY, 4000, 1000)).then("a requeued: declined")
    assert story.counters("a") == (0, 0, 1)
    story.when(keepalive("w1", 3999)).then()
    story.when(keepalive("w1", 4000)).then("a to w1")


def test_a_decline_from_an_idle_worker_lifts_and_is_not_offered_again(story):
    story.given(connect("w1", cpu=8, memory=9000), queue("a", cpu=1, memory=4000))
    story.given(decline("a", DeclineReason.MEMORY, 4000, 1000))
    story.when(keepalive("w1"), keepalive("w1", 3999), alive(6)).then()
    assert story.waiting() == ["a"]
    story.when(queue("b", cpu=1, memory=3999)).then("b queued", "b to w1, overtaking a")
    story.when(keepalive("w1", 4000)).then("a to w1")


# -- the live memory veto -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def vetoed(story):
    """`w1` has 9000 KiB by the ledger and reports 1000 free."""
    story.given(configure(live_memory_veto="memory_kib"), connect("w1", cpu=8, memory=9000))
    return story.given(keepalive("w1", 1000))


def test_veto_skips_a_worker_that_reports_no_room(vetoed):
    vetoed.when(queue("a", cpu=1, memory=2000)).then("a queued")
    vetoed.when(queue("small", cpu=1, memory=1000)).then("small queued", "small to w1, overtaking a")
    vetoed.given(finish("small")).when(queue("whole", cpu=1, memory=9000)).then(
        "whole queued", "whole to w1, overtaking a"
    )


def test_a_report_with_room_wakes_the_matcher(vetoed):
    vetoed.given(queue("a", cpu=1, memory=2000)).when(keepalive("w1", 1999)).then()
    vetoed.when(keepalive("w1", 2000)).then("a to w1")


def test_without_the_veto_it_still_gets_actions(story):
    story.given(connect("w1", cpu=8, memory=9000), keepalive("w1", 1000))
    story.when(queue("a", cpu=1, memory=2000)).then("a queued", "a to w1")


# -- retries and kills ----------------------------------------------------------------------------------------------------------------


def test_same_worker_retry_conserves_the_resource_budget(story):
    story.given(connect("w1", cpu=8, memory=100), queue("a", cpu=5, memory=60))
    for _ in range(3):
        story.when(fail("a")).then("a requeued: job_error", "a to w1")
        assert (story.free("w1"), story.free("w1", "memory_kib")) == (3000, 40)
    story.given(finish("a"))
    assert (story.free("w1"), story.free("w1", "memory_kib")) == (8000, 100)


def test_a_kill_for_the_old_dispatch_must_not_kill_the_re_dispatched_operation(story):
    story.given(configure(dispatch_ack_timeout_s=5), connect("w1", cpu=8), queue("a", cpu=4))
    old = story.dispatch_ids["a"]
    story.given(alive(6), keepalive("w1"))
    assert dispatches_of(story, "a") == ["w1", "w1"]
    assert story.dispatch_ids["a"] != old
    assert kills(story, "w1") == [old]
    report = f.ActionFinished(MAIN, "w1", story.connections["w1"], old, RunResult.KILLED)
    story.when(fact(report)).then("w1 settled a: killed")
    story.when(accept("a"), finish("a")).then("a accepted", "a finished: completed")
    assert kills(story, "w1") == [old]


# -- queue order ----------------------------------------------------------------------------------------------------------------------


def test_both_backends_serve_highest_priority_then_oldest_to_sub_second_precision(story):
    story.given(
        queue("low", cpu=8, priority=-1, queued_s=-9),
        queue("c", cpu=8, queued_s=-0.000001),
        queue("b", cpu=8, queued_s=-0.000002),
        queue("a", cpu=8, queued_s=-0.000003),
        queue("high", cpu=8, priority=7),
    )
    order = ["high", "a", "b", "c", "low"]
    assert [
        each["client_operation_id"] for each in answers.queue(table_of(story))
    ] == order  # the rows of the read side
    assert story.waiting() == order
    story.given(connect("w1", cpu=8))
    for name in order:
        assert dispatches_of(story, name) == ["w1"]
        story.given(finish(name))
    served = [story.names[event.operation_id] for event in of_kind(story, e.OperationDispatched)]
    assert served == order


# -- others present -------------------------------------------------------------------------------------------------------------------


def test_liveness_under_clock_step(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8), accept("a"), advance(4))
    heard_at_us = story.rehearsal.shard.instances[MAIN].workers["w1"].last_seen_us
    # The log's own clock decides; a fact that an earlier clock stamped moves nothing back.
    shard = story.rehearsal.shard
    keepalive_fact = f.WorkerReported(MAIN, "w1", story.connections["w1"])
    (event,) = decide(shard, keepalive_fact, offset=shard.position + 1, append_us=story.now_us - 3_600_000_000)
    assert isinstance(event, e.WorkerReported)
    assert event.at_us == shard.now_us == story.now_us
    assert shard.instances[MAIN].workers["w1"].last_seen_us == story.now_us > heard_at_us
    assert row(story, "a").dispatch is not None


def test_admin(story):
    story.given(
        connect("w1", cpu=8, inflight=4), queue("a", cpu=3), keepalive("w1", 77), drain("w1"), queue("b", cpu=9)
    )
    (told,) = fleet.workers(table_of(story))
    assert (told["endpoint"], told["draining"], told["paused"]) == ("w1", True, False)
    assert json.dumps(told)  # plain values
    assert "reserved_for" not in told or told["reserved_for"] is None
    (waiting,) = answers.queue(table_of(story))
    assert (waiting["client_operation_id"], waiting["place"]) == ("b", 1)
    story.given(undrain("w1"))
    assert fleet.workers(table_of(story))[0]["draining"] is False
    story.when(cancel("b")).then("b finished: cancelled")
