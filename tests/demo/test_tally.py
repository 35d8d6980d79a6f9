"""The summary of a run: what it counts, and that each fault shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from events import events as e
from events import facts as f
from events.codec import canonical_requirements
from events.reasons import Outcome, RunResult
from streams.demo.tally import Tally, is_sound, summary_of
from streams.rehearsal import Rehearsal

BROKER = {"kind": "jvm", "version": "1"}
START_US = 1_700_000_000_000_000


def history(*steps: tuple[float, f.Fact]) -> list[e.Event]:
    rehearsal = Rehearsal()
    rehearsal.take(f.Configured("main", '{"kind":"simple"}'), START_US)
    for at_s, fact in steps:
        if isinstance(fact, f.ActionFinished | f.DispatchAccepted):
            running = rehearsal.shard.instances["main"].by_client[fact.dispatch_id]
            fact = replace(fact, dispatch_id=running.dispatch.dispatch_id)
        rehearsal.take(fact, START_US + round(at_s * 1_000_000))
    return rehearsal.events


def connected(cpu: int = 1000, connection: int = 7) -> f.WorkerConnected:
    return f.WorkerConnected("main", "w", connection, connection, (("cpu_millis", str(cpu)), ("memory_kib", "9")))


def queued(name: str) -> f.ActionQueued:
    return f.ActionQueued("main", name, canonical_requirements([("cpu_millis", "1000")]))


def finished(name: str, connection: int = 7, **fields: object) -> f.ActionFinished:
    return f.ActionFinished("main", "w", connection, name, **fields)


STORY = (
    (0.1, connected()),
    (1.0, queued("a")),
    (1.5, queued("b")),
    (2.0, finished("a")),
    (3.0, connected(connection=8)),  # another process: what ran is requeued and dispatched again
    (4.0, finished("b", connection=8)),
)


def tallied(events: list[e.Event]) -> Tally:
    tally = Tally()
    for event in events:
        tally.add(event)
    return tally


def summary(events: list[e.Event], published=("a", "b"), *, equal: bool = True) -> dict[str, object]:
    return summary_of(tallied(events), published, table_equals_replay=equal, broker=BROKER, wall_s=1.25)


def test_a_sound_run_is_counted_from_its_events():
    found = summary(history(*STORY))
    assert found == {
        "placed": 2,
        "finished": 2,
        "lost": 0,
        "doubled": 0,
        "requeued": 1,
        "seq_gaps": 0,
        "table_equals_replay": True,
        "wait_s": {"p50": 0.0, "p95": 0.5, "max": 0.5},
        "broker": BROKER,
        "wall_s": 1.2,
    }
    assert is_sound(found)


def test_the_live_counts_follow_the_operations():
    events = history(*STORY)
    tally = Tally()
    seen = set()
    for event in events:
        tally.add(event)
        seen.add((tally.queued, tally.executing, tally.finished))
    assert (1, 1, 0) in seen
    assert (0, 0, 2) in seen
    assert all(min(counts) >= 0 and sum(counts) <= 2 for counts in seen)


def broken(events: list[e.Event], fault: str) -> list[e.Event]:
    """The same log with one fault in it; `seq` is made whole again, but for the gap."""
    index = {type(event): at for at, event in enumerate(events)}
    match fault:
        case "gap":
            return [*events[:5], *events[6:]]
        case "finished twice":
            events = [*events, events[index[e.OperationFinished]]]
        case "dispatched twice":
            at = index[e.OperationDispatched]
            events = [*events[: at + 1], events[at], *events[at + 1 :]]
        case "dispatched after its end":
            events = [*events, events[index[e.OperationDispatched]]]
        case "created twice":
            first = next(event for event in events if isinstance(event, e.OperationQueued))
            events = [*events, replace(first, cause_offset=10_000)]
        case "never created":
            events = [event for event in events if getattr(event, "client_operation_id", "") != "b"]
        case "never finished":
            events = events[: index[e.OperationFinished]]
    return [replace(event, seq=number) for number, event in enumerate(events, start=1)]


@pytest.mark.parametrize(
    ("fault", "lost", "doubled", "gaps"),
    [
        ("none", 0, 0, 0),
        ("gap", 0, 0, 1),
        ("finished twice", 0, 1, 0),
        ("dispatched twice", 0, 1, 0),
        ("dispatched after its end", 0, 1, 0),
        ("created twice", 0, 1, 0),
        ("never finished", 1, 0, 0),
    ],
)
def test_each_fault_shows_in_the_summary(fault, lost, doubled, gaps):
    events = history(*STORY)
    if fault == "gap":
        ticks = [at for at, event in enumerate(events) if isinstance(event, e.Ticked)]
        damaged = [event for at, event in enumerate(events) if at != ticks[0]]
    else:
        damaged = broken(events, fault)
    found = summary(damaged)
    assert (found["lost"], found["doubled"], found["seq_gaps"]) == (lost, doubled, gaps)
    assert is_sound(found) == (fault == "none")


def test_what_was_published_and_never_decided_is_lost():
    events = history(*STORY)
    found = summary(events, ("a", "b", "c"))
    assert found["lost"] == 1
    assert tallied(events).unfinished(["c", "a"]) == ["c"]


def test_runs_of_an_operation_that_was_never_created_count_as_doubled():
    found = summary(broken(history(*STORY), "never created"))
    assert found["lost"] == 1
    assert found["doubled"] > 0


def test_a_table_that_differs_is_not_sound():
    assert not is_sound(summary(history(*STORY), equal=False))


def test_an_action_that_did_not_run_to_its_end_is_finished_but_not_counted_as_such():
    steps = [*STORY[:3], (2.0, finished("a", result=RunResult.FAILED_PRECONDITION, message="no such program"))]
    tally = tallied(history(*steps))
    assert (tally.finished, tally.completed()) == (1, 0)
    assert next(run.finished.outcome for run in tally.runs.values() if run.finished) is Outcome.FAILED_PRECONDITION


def test_an_empty_log_has_an_empty_summary():
    found = summary_of(Tally(), [], table_equals_replay=True, broker=BROKER, wall_s=0.0)
    assert found["wait_s"] == {"p50": 0.0, "p95": 0.0, "max": 0.0}
    assert Tally().longest_wait() is None


def test_what_is_counted_may_be_one_instance_while_faults_are_looked_for_in_all():
    events = history(*STORY, (5.0, queued("lost")))
    found = summary_of(
        tallied(events), ["a", "b", "lost"], table_equals_replay=True, broker=BROKER, wall_s=0.0, counted=Tally()
    )
    assert (found["placed"], found["finished"], found["wait_s"]["max"]) == (0, 0, 0)
    assert (found["lost"], found["requeued"]) == (1, 1)
