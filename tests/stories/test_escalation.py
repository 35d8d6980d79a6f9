"""A kill for memory becomes a requeue with a larger reservation, until it holds the whole of the largest worker (U8)."""

import pytest

from events import events as e
from events.reasons import RunResult
from tests.stories.notation import (
    cancel,
    configure,
    connect,
    drain,
    finish,
    keepalive,
    out_of_memory,
    queue,
    restart,
    submit,
)

ESCALATING = {"memory_escalation": {}}


@pytest.fixture
def fleet(story):
    """Twice as much after each kill; the largest worker has 1 000 KiB and 16 cores, the other 400 and 4."""
    return story.given(
        configure(**ESCALATING), connect("small", cpu=4, memory=400), connect("large", cpu=16, memory=1000)
    )


def test_a_kill_for_memory_requeues_with_twice_the_memory(fleet):
    fleet.given(queue("a", memory=100)).when(out_of_memory("a")).then("a requeued: escalated", "a to large")
    assert fleet.asks("a") == {"memory_kib": "200"}
    assert fleet.free("large", "memory_kib") == 800
    requeued = fleet.last(e.OperationRequeued)
    assert (requeued.escalations, requeued.needed_kib, requeued.message) == (1, 200, "out of memory")


def test_an_escalation_costs_no_attempt_of_another_budget(fleet):
    fleet.given(queue("a", memory=100), out_of_memory("a"))
    assert fleet.counters("a") == (0, 0, 0)


def test_what_was_asked_at_first_is_remembered(fleet):
    fleet.given(queue("a", memory=100), out_of_memory("a"), out_of_memory("a"))
    row = fleet.rehearsal.shard.operations[fleet.operation_id("a")]
    asked = fleet.rehearsal.shard.requirements[row.asked_requirement_id]
    assert b"100" in asked
    assert fleet.asks("a") == {"memory_kib": "400"}


def test_at_the_ceiling_the_whole_cpu_of_the_largest_worker_is_reserved_too(fleet):
    fleet.given(queue("a", cpu=1, memory=600)).when(out_of_memory("a")).then("a requeued: escalated", "a to large")
    assert fleet.asks("a") == {"cpu_millis": "16000", "memory_kib": "1000"}


def test_killed_again_while_holding_the_whole_worker_it_fails(fleet):
    fleet.given(queue("a", cpu=1, memory=600), out_of_memory("a")).when(out_of_memory("a"))
    fleet.then("a finished: escalation_exhausted")
    finished = fleet.last(e.OperationFinished)
    assert finished.exit_code == -178
    assert finished.message == "killed for memory holding 1000 of memory_kib; 1000 is the most that can be reserved"


def test_what_reserved_no_memory_starts_at_its_peak(fleet):
    fleet.given(queue("a", cpu=1)).when(out_of_memory("a", peak_kib=150)).then("a requeued: escalated", "a to large")
    assert fleet.asks("a") == {"cpu_millis": "1000", "memory_kib": "300"}


def test_with_neither_a_reservation_nor_a_peak_the_result_stands(fleet):
    fleet.given(queue("a", cpu=1)).when(out_of_memory("a")).then("a finished: completed")


def test_a_draining_worker_is_no_ceiling(fleet):
    fleet.given(queue("a", memory=300)).given(drain("large")).when(out_of_memory("a")).then(
        "a requeued: escalated", "a to small"
    )
    assert fleet.asks("a") == {"cpu_millis": "4000", "memory_kib": "400"}


def test_a_worker_that_could_not_run_it_is_no_ceiling(story):
    story.given(configure(**ESCALATING, supported_platform_properties={"os": "exact"}))
    story.given(connect("w1", memory=400, os="linux"), connect("w2", memory=9000, os="mac"))
    story.given(submit("a", memory=300, properties={"os": "linux"})).when(out_of_memory("a"))
    story.then("a requeued: escalated", "a to w1")
    assert story.asks("a") == {"memory_kib": "400", "os": "linux"}


def test_max_kib_lowers_the_ceiling(story):
    story.given(
        configure(memory_escalation={"max_kib": 250}), connect("w1", cpu=4, memory=1000), queue("a", memory=200)
    )
    story.given(out_of_memory("a"))
    assert story.asks("a") == {"cpu_millis": "4000", "memory_kib": "250"}
    story.when(out_of_memory("a")).then("a finished: escalation_exhausted")


def test_a_ladder_is_climbed_step_by_step_and_ends_at_the_ceiling(story):
    story.given(
        configure(memory_escalation={"ladder_kib": [150, 300]}), connect("w1", memory=1000), queue("a", memory=100)
    )
    reserved = []
    for _ in range(3):
        story.given(out_of_memory("a"))
        reserved.append(story.asks("a")["memory_kib"])
    assert reserved == ["150", "300", "1000"]


def test_a_percentage_raises_by_one_at_least(story):
    story.given(configure(memory_escalation={"percent": 101}), connect("w1", memory=1000), queue("a", memory=10))
    story.given(out_of_memory("a"))
    assert story.asks("a") == {"memory_kib": "11"}


def test_steps_are_bounded(story):
    story.given(
        configure(memory_escalation={"percent": 110, "max_steps": 2}),
        connect("w1", memory=1000),
        queue("a", memory=100),
    )
    story.given(out_of_memory("a"), out_of_memory("a")).when(out_of_memory("a")).then(
        "a finished: escalation_exhausted"
    )
    message = story.last(e.OperationFinished).message
    assert message == "killed for memory 3 times, the last holding 121 of memory_kib; max_steps is 2"


def test_a_kill_of_a_revoked_run_only_settles_it(fleet):
    fleet.given(queue("a", memory=100), cancel("a")).when(out_of_memory("a")).then("small settled a: out_of_memory")


def test_an_escalated_operation_keeps_its_place_and_its_size_over_a_restart(fleet):
    fleet.given(queue("a", cpu=1, memory=100), out_of_memory("a"), finish("a", RunResult.BACKPRESSURE), restart())
    assert fleet.asks("a") == {"cpu_millis": "1000", "memory_kib": "200"}
    fleet.given(keepalive("small"), keepalive("large"))
    assert fleet.stage("a") == "executing"
