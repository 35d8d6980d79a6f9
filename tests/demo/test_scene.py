"""The scene of the hold on a virtual clock, and its life told from the events."""

from __future__ import annotations

import heapq
from dataclasses import replace
from pathlib import Path

import pytest

from events import events as e
from events import facts as f
from events.codec import canonical_requirements, decode_fact, encode_fact
from events.config import canonical_config, parse_config
from projections.story.history import Told
from projections.story.operation import story_of_operation
from projections.story.recorded import Recorded
from streams.cli.telling.operation import wait_in_five_lines
from streams.demo.ending import closing_lines
from streams.demo.hold_life import stories_of_holds, summary_of_hold
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


def recorded(events: list[e.Event]) -> Recorded:
    return Recorded(0, [Told(number, event) for number, event in enumerate(events)])


def test_without_a_hold_the_large_action_waits_for_the_end_of_the_stream_and_with_one_it_does_not(events):
    tallies = {name: tally_of(of_instance(events, instance)) for name, instance in (("a", WITHOUT), ("b", WITH))}
    stories = stories_of_holds(recorded(events), WITH)
    found = summary_of_hold(tallies, {"a": large(WITHOUT), "b": large(WITH)}, stories, 0)
    assert found["large_wait_s"]["a"] > 10
    assert found["large_wait_s"]["b"] < 4
    assert (found["made"], found["moved"], found["released"]) == (1, 0, {"placed": 1})
    assert found["small_wait_s"]["b"]["max"] < found["large_wait_s"]["a"]
    assert all(run.finishes == 1 for tally in tallies.values() for run in tally.runs.values())
    # It keeps at most what the action asks for, for as long as it stands; the cores come free one after the other.
    assert 0 < found["idle_core_s"] < 3 * found["held_s"]


def test_the_end_explains_the_hold_in_five_lines_and_names_one_command(events):
    stories = stories_of_holds(recorded(events), WITH)
    lines = closing_lines(stories, Path("exported"))
    told = lines[1 : lines.index("")]
    assert len(told) == 5
    assert f"({large(WITH)}, asks cpu_millis=3000) had waited 2." in told[0]
    assert "went past it onto with-hold-" in told[1]
    assert "was held for it [seq " in told[1]
    assert "it was placed on with-hold-" in told[3]
    assert "core-seconds kept idle" in told[4]
    assert lines[-1] == (
        "  headway what-if --file exported --instance with-hold --operation large-with-hold --set hold=off"
    )


def test_the_wait_without_a_hold_is_told_in_five_lines(events):
    history = recorded(events)
    (identity,) = history.operations_named(large(WITHOUT), WITHOUT)
    story = story_of_operation(history, identity)
    lines = wait_in_five_lines(story)
    assert len(lines) == 5
    assert f"({large(WITHOUT)}, asks cpu_millis=3000) waited 1" in lines[0]
    assert lines[1].startswith("When it was queued it was number 2 in the queue, first without-hold/op-")
    assert lines[1].endswith("of 2 connected workers: 2 without enough room.")
    assert "lacked" in lines[2]
    assert "later ones went past it" in lines[3]
    assert lines[4].startswith("It was placed when without-hold/op-")
    assert lines[4].endswith("nothing is held for an action that waits, unless a hold is configured.")


def test_what_was_never_placed_has_no_wait_to_tell_of():
    rehearsal = Rehearsal(ticker=False)
    rehearsal.take(f.Configured(WITH, '{"kind":"simple"}'), START_US)
    rehearsal.take(f.ActionQueued(WITH, "a", canonical_requirements([("cpu_millis", "1")])), START_US)
    story = story_of_operation(recorded(rehearsal.events), 1)
    with pytest.raises(ValueError, match="never dispatched"):
        wait_in_five_lines(story)
