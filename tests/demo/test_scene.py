"""The scene of the hold on a virtual clock, and its life told from the events."""

from __future__ import annotations

import heapq
from dataclasses import replace

import pytest

from events import events as e
from events import facts as f
from events.codec import canonical_requirements, decode_fact, encode_fact
from events.config import canonical_config, parse_config
from events.reasons import HoldMove
from events.values import HoldCandidate
from streams.demo.hold_life import HoldLife, life_in_words, lives_of, summary_of_hold
from streams.demo.scene import CONFIGS, CORES, MACHINES, MEMORY_KIB, WITH, WITHOUT, large, scene, scene_workers
from streams.demo.watching import of_instance, tally_of
from streams.rehearsal import Rehearsal

START_US = 1_700_000_000_000_000


def performed() -> list[e.Event]:
    """The scene with machines that take exactly as long as is expected."""
    rehearsal = Rehearsal()
    facts: list[tuple[int, int, f.Fact]] = []

    def at(us: int, fact: f.Fact) -> None:
        heapq.heappush(facts, (us, len(facts) + len(rehearsal.events), fact))

    for instance, config in CONFIGS.items():
        rehearsal.take(f.Configured(instance, canonical_config(config)), START_US)
        properties = (("cpu_millis", str(1000 * CORES)), ("memory_kib", str(MEMORY_KIB)))
        for number in range(MACHINES):
            rehearsal.take(f.WorkerConnected(instance, f"{instance}-{number}", 1, number + 1, properties), START_US)
            for second in range(1, 40):
                at(START_US + second * 1_000_000, f.WorkerReported(instance, f"{instance}-{number}", number + 1))
    durations = {}
    for due in scene():
        durations[due.fact.client_operation_id] = due.fact.expected_duration_us
        at(START_US + due.at_us, due.fact)
    names: dict[int, tuple[str, str]] = {}
    while facts:
        at_us, _, fact = heapq.heappop(facts)
        for event in rehearsal.take(fact, at_us):
            if isinstance(event, e.OperationQueued):
                names[event.operation_id] = (event.instance, event.client_operation_id)
            elif isinstance(event, e.OperationDispatched):
                instance, name = names[event.operation_id]
                ended = f.ActionFinished(instance, event.endpoint, event.connection_id, event.dispatch_id)
                at(at_us + durations[name], ended)
    return rehearsal.events


@pytest.fixture(scope="module")
def events() -> list[e.Event]:
    return performed()


def test_both_runs_ask_for_the_same_at_the_same_moments_and_all_of_it_is_valid():
    asked: dict[str, list[tuple[object, ...]]] = {WITHOUT: [], WITH: []}
    for due in scene():
        assert decode_fact(encode_fact(due.fact)) == due.fact
        alike = replace(due.fact, instance="", client_operation_id="")
        asked[due.fact.instance].append((due.at_us, alike))
    assert asked[WITHOUT] == asked[WITH]
    assert len({due.fact.client_operation_id for due in scene()}) == len(scene())
    assert all(parse_config(canonical_config(config)) == config for config in CONFIGS.values())


def test_the_machines_of_a_run_work_for_its_instance_only():
    for instance, arguments in scene_workers().items():
        assert arguments[arguments.index("--instance") + 1] == instance
        assert arguments[arguments.index("--count") + 1] == str(MACHINES)


def test_without_a_hold_the_large_action_waits_for_the_end_of_the_stream_and_with_one_it_does_not(events):
    tallies = {name: tally_of(of_instance(events, instance)) for name, instance in (("a", WITHOUT), ("b", WITH))}
    lives, missed = lives_of(list(of_instance(events, WITH)), tallies["b"])
    found = summary_of_hold(tallies, {"a": large(WITHOUT), "b": large(WITH)}, lives, len(missed))
    assert found["large_wait_s"]["a"] > 10
    assert found["large_wait_s"]["b"] < 4
    assert (found["made"], found["moved"], found["released"], found["no_candidate"]) == (1, 0, {"placed": 1}, 0)
    assert found["small_wait_s"]["b"]["max"] < found["large_wait_s"]["a"]
    assert all(run.finishes == 1 for tally in tallies.values() for run in tally.runs.values())


def test_the_life_of_the_hold_is_told_with_its_cause_and_its_cost(events):
    tally = tally_of(of_instance(events, WITH))
    (life,), _ = lives_of(list(of_instance(events, WITH)), tally)
    said = life_in_words(life, tally, START_US)
    assert said[0].startswith("made at 4.")
    assert f"({large(WITH)}), which had waited 2." in said[0]
    assert "was placed past it;" in said[0]
    assert said[2].startswith("placed at 4.")
    assert said[-1].startswith("cost: ")
    # It keeps at most what the action asks for, for as long as it stands; the cores come free one after the other.
    assert 0 < life.idle_core_us < 3 * life.released.held_us


def test_the_cost_is_what_is_free_on_the_held_worker_and_never_more_than_what_is_asked_for():
    rehearsal = Rehearsal(ticker=False)
    at_us = START_US

    def take(fact: f.Fact, after_s: int = 0) -> None:
        nonlocal at_us
        at_us += after_s * 1_000_000
        rehearsal.take(fact, at_us)

    def queued(name: str, cores: int) -> None:
        take(f.ActionQueued(WITH, name, canonical_requirements([("cpu_millis", str(1000 * cores))])))

    def finish(name: str, after_s: int = 1) -> None:
        running = rehearsal.shard.instances[WITH].by_client[name].dispatch
        take(f.ActionFinished(WITH, running.worker.endpoint, 7, running.dispatch_id), after_s)

    take(f.Configured(WITH, '{"kind":"simple","hold":{"kind":"shortfall","after_s":0}}'))
    take(f.WorkerConnected(WITH, "w", 1, 7, (("cpu_millis", "4000"), ("memory_kib", "9"))))
    for name, cores in (("a", 1), ("b", 1), ("c", 2), ("big", 4), ("late", 1)):
        queued(name, cores)
    finish("a")  # late goes past big; w is held
    finish("b")  # one core idle from here
    finish("c")  # three
    finish("late", 2)  # all four: big is placed
    tally = tally_of(rehearsal.events)
    (life,), _ = lives_of(rehearsal.events, tally)
    assert life.released.held_us == 4_000_000
    assert life.idle_core_us == 1 * 1_000_000 + 3 * 2_000_000
    assert life_in_words(life, tally, START_US)[-1] == "cost: 7.00 core-seconds kept idle"


def test_moves_and_a_hold_that_still_stands_are_told():
    envelope = {"seq": 1, "at_us": 5, "cause_offset": 1, "instance": "i", "operation_id": 3, "more_candidates": 0}
    choice = {"candidates": (HoldCandidate("w1", 500, 2, 0),), "excluded": (), "free_at_us": 0, **envelope}
    made = e.HoldMade(endpoint="w1", requirement_id=1, waited_us=2_000_000, overtaken_by=None, **choice)
    moved = e.HoldMoved(from_endpoint="w1", to_endpoint="w2", cause=HoldMove.WORKER_LEFT, **choice)
    said = life_in_words(HoldLife(made, [moved]), tally_of([]), 0)
    assert "moved at 0.0 s from w1 to w2: The held worker left." in said
    assert "it still stands" in said


def test_the_events_of_an_instance_are_its_own_and_those_of_the_shard(events):
    found = list(of_instance(events, WITH))
    assert {event.instance for event in found if isinstance(event, e.OperationQueued)} == {WITH}
    own = {event.operation_id for event in found if isinstance(event, e.OperationQueued)}
    assert {event.operation_id for event in found if isinstance(event, e.OperationDispatched)} == own
    assert any(isinstance(event, e.RequirementDefined) for event in found)
    both = len(found) + len(list(of_instance(events, WITHOUT)))
    shared = sum(isinstance(event, e.Ticked | e.RequirementDefined | e.LeaderElected) for event in events)
    assert both == len(events) + shared
