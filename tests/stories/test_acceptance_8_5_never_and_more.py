"""Newer suites: what nobody can run, escalation, clients, counts. See tests/fixtures/spec/acceptance.toml."""

import pytest

from events import events as e
from events.codec import requirements_of
from events.reasons import Outcome, UpstreamState
from events.state import Stage
from projections import answers
from tests.stories.client_words import (
    configured,
    depart,
    ended,
    hear,
    killed_for_memory,
    of_kind,
    relay,
    row,
    submit,
)
from tests.stories.notation import (
    MAIN,
    advance,
    alive,
    cancel,
    configure,
    connect,
    finish,
    gone,
    queue,
    remove,
)
from tests.stories.read_side import table_of
from tests.stories.story import Story

# -- what nobody can run --------------------------------------------------------------------------------------------------------------


def impatient(story: Story, seconds: int = 30) -> Story:
    return story.given(configure(unsatisfiable_action_timeout_s=seconds), connect("w1", cpu=8))


def outcome(story: Story, name: str) -> Outcome:
    return row(story, name).outcome


def test_fails_after_the_timeout_on_a_wrong_shape_fleet(story):
    impatient(story).given(queue("a", cpu=99), alive(29))
    assert story.waiting() == ["a"]
    story.given(alive(2))
    assert outcome(story, "a") is Outcome.UNSATISFIABLE
    assert "cpu_millis 99000 (the largest registered is 8000)" in story.last(e.OperationFinished).message


def test_a_capable_joiner_runs_it(story):
    impatient(story).given(queue("a", cpu=99), alive(29), connect("w2", cpu=128))
    assert story.endpoints["a"] == "w2"
    story.given(queue("b", cpu=99), alive(60))
    assert row(story, "a").stage is Stage.EXECUTING
    assert story.waiting() == ["b"], "the joiner is busy, which is not never"


def test_the_clock_restarts_when_that_one_leaves(story):
    impatient(story).given(queue("a", cpu=99), queue("first", cpu=128, priority=9), alive(20), connect("w2", cpu=128))
    assert story.endpoints == {"first": "w2"}
    story.given(alive(5), gone("w2"), alive(20), alive(8))
    assert outcome(story, "a") is Outcome.UNSPECIFIED, "53 s after it was queued, 28 s after the capable one left"
    story.given(alive(3))
    assert outcome(story, "a") is Outcome.UNSATISFIABLE


def test_the_waiting_client_is_woken(story):
    impatient(story).given(submit("a", "x", cpu=99), submit("b", "x", cpu=99), alive(31))
    assert {end.client_operation_id: end.outcome for end in ended(story)} == dict.fromkeys("ab", Outcome.UNSATISFIABLE)
    assert all("cpu_millis" in end.message for end in ended(story))


def test_timeout_0_only_logs(story):
    impatient(story, seconds=0).given(queue("a", cpu=99), alive(600))
    assert story.waiting() == ["a"]
    assert [event.properties for event in of_kind(story, e.DemandUnsatisfiable)] == [("cpu_millis",)]


@pytest.mark.parametrize("fleet", ["busy", "empty", "saturated"])
def test_busy_empty_and_saturated_fleets_are_handled(story, fleet):
    impatient(story)
    if fleet == "empty":
        story.given(queue("a", cpu=99), remove("w1"), advance(600))
        assert story.waiting() == ["a"], "an empty fleet says nothing of what is possible"
        return
    story.given(queue("fills", cpu=8), queue("a", cpu=8 if fleet == "busy" else 99), alive(50))
    if fleet == "busy":
        assert story.waiting() == ["a"], "no room now is not never"
    else:
        assert outcome(story, "a") is Outcome.UNSATISFIABLE, "a fleet without room does not hide what is impossible"


def test_a_peers_capable_worker_prevents_the_failure(story):
    # The peer here is the instance upstream: what was handed to it is its to judge, whoever is connected on this side.
    story.given(configured({"kind": "upstream", "instance": "big-iron"}), connect("w1", cpu=8), queue("a", cpu=99))
    story.given(alive(3600))
    assert row(story, "a").stage is Stage.FORWARDED
    story.given(relay("a", UpstreamState.PLACED), relay("a", UpstreamState.FINISHED, outcome=Outcome.COMPLETED))
    assert outcome(story, "a") is Outcome.COMPLETED


# -- others present -------------------------------------------------------------------------------------------------------------------


def test_escalation(story):
    story.given(configure(memory_escalation={}), connect("w1", cpu=8, memory=3000), queue("a", cpu=2, memory=1000))

    def reserved() -> dict[str, str]:
        return dict(requirements_of(story.rehearsal.shard.requirements[row(story, "a").requirement_id]))

    story.when(killed_for_memory("a")).then("a requeued: escalated", "a to w1")
    assert reserved() == {"cpu_millis": "2000", "memory_kib": "2000"}
    story.when(killed_for_memory("a")).then("a requeued: escalated", "a to w1")
    assert reserved() == {"cpu_millis": "8000", "memory_kib": "3000"}, "the ceiling reserves the whole worker"
    assert story.counters("a") == (0, 0, 0)
    story.when(killed_for_memory("a")).then("a finished: escalation_exhausted")
    assert (story.free("w1"), story.free("w1", "memory_kib")) == (8000, 3000)


def test_fleet_capabilities(story):
    impatient(story, 0).given(queue("a", cpu=99))
    instance = story.rehearsal.shard.instances[MAIN]
    assert list(instance.unsatisfiable) == [row(story, "a").requirement_id]
    story.given(connect("w2", cpu=128), finish("a"))
    assert instance.unsatisfiable == {}
    assert of_kind(story, e.DemandSatisfiable)
    story.given(queue("b", cpu=99), remove("w2"))
    assert list(instance.unsatisfiable) == [row(story, "b").requirement_id]


def test_client_keepalive_clobber(story):
    story.given(connect("w1", cpu=8), submit("a", "x", cpu=8, attached=True), submit("b", "x", cpu=8, attached=True))
    before, dispatch_id = dict(story.dispatch_ids), row(story, "a").dispatch.dispatch_id
    kept = row(story, "a").sort_key, row(story, "a").stage, row(story, "a").queued_since_us
    for _ in range(5):
        story.given(alive(10), hear("b"))
    assert (row(story, "a").sort_key, row(story, "a").stage, row(story, "a").queued_since_us) == kept
    assert row(story, "a").dispatch.dispatch_id == dispatch_id
    assert story.dispatch_ids == before
    clients = row(story, "a").clients
    assert clients["b"].last_heard_us == story.now_us > clients["a"].last_heard_us
    story.given(depart("b"))
    assert row(story, "a").stage is Stage.EXECUTING, "one of two clients has left"


def test_execution_active_count(story):
    def counts() -> tuple[int, int, int]:
        (told,) = answers.instances(table_of(story), MAIN)
        return told["queued"], told["executing"], told["finished"]

    assert counts() == (0, 0, 0)
    story.given(queue("a", cpu=8), queue("b", cpu=8))
    assert counts() == (2, 0, 0)
    story.given(connect("w1", cpu=8))
    assert counts() == (1, 1, 0)
    story.given(gone("w1"))
    assert counts() == (2, 0, 0)
    story.given(connect("w1", cpu=8), finish("a"), cancel("b"))
    assert counts() == (0, 0, 2)
