"""Deciding again: nothing diverges in what this build recorded, and what does is found at its fact and nowhere else.

Rerun a walk by its seed: `pytest tests/projections/test_redeciding.py -k '[7]'`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from events import decide as deciding
from events import events as e
from events import facts as f
from events.deciding import admission, placing
from events.reasons import DecisionDifference, IgnoreReason, RejectReason
from projections.redeciding import CannotFollow, Redeciding, redecide
from tests.projections.recorded import Recorded
from tests.streams.deciding import configured, connected, queued
from tests.streams.preferring import PREFER, D, action, holds, worker

START_US = 1_700_000_000_000_000


def told(*facts: f.Fact, recorded: Recorded | None = None) -> Recorded:
    """Facts a millisecond apart, behind those of `recorded`."""
    made = recorded or Recorded()
    for fact in facts:
        made.take(fact, START_US + len(made.facts) * 1_000)
    return made


def two_workers() -> Recorded:
    return told(configured(), connected("w1"), connected("w2", connection_id=8))


@pytest.mark.parametrize("seed", range(24))
def test_what_this_build_recorded_has_no_divergence(seed: int) -> None:
    recorded = Recorded().walk(seed, 300)
    found, redeciding = recorded.again()
    assert found == [], f"seed {seed}"
    assert redeciding.judged.facts == len(recorded.facts)
    assert redeciding.judged.events + redeciding.judged.elections == len(recorded.events)
    assert redeciding.judged.not_judged == 0
    assert redeciding.seq == recorded.shard.seq


def test_the_walks_hold_elections_dispatches_and_facts_that_changed_nothing() -> None:
    """Otherwise that nothing diverges would say little."""
    walks = [Recorded().walk(seed, 300) for seed in range(24)]
    kinds = {type(event) for walk in walks for _, event in walk.events}
    assert {e.OperationDispatched, e.FactIgnored, e.FactRejected, e.RecoveryCompleted, e.LogSilent, e.HoldMade} <= kinds
    assert sum(walk.again()[1].judged.elections > 1 for walk in walks) > 10


def test_a_rule_that_changed_diverges_at_its_fact_and_the_record_is_followed_from_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorded = two_workers()
    told(queued("a"), queued("b"), recorded=recorded)
    dispatch = placing._dispatch

    def other_worker(step, instance, match):  # the tie-break of the strategy turned round, for the first action only
        if match.operation.client_operation_id == "a":
            last = list(instance.workers.values())[-1]
            first = next(iter(instance.workers.values()))
            match = replace(match, worker=first if match.worker is last else last)
        dispatch(step, instance, match)

    monkeypatch.setattr(placing, "_dispatch", other_worker)
    found, redeciding = recorded.again()
    assert len(found) == 1
    [one] = found
    at = next(index for index, (_, event) in enumerate(recorded.events) if isinstance(event, e.OperationDispatched))
    assert (one.seq, one.offset) == (recorded.events[at][1].seq, recorded.events[at][0])
    assert (one.difference, one.fact_kind) == (DecisionDifference.FIELDS, "ActionQueued")
    assert one.cause_offset == 3
    assert set(one.fields) == {"endpoint", "connection_id"}
    assert one.recorded[one.at].endpoint != one.decided[one.at].endpoint
    assert one.recorded[: one.at] == one.decided[: one.at]
    assert one.build == "b"
    # `b` went where the record left room, which is another worker than the divergent decision would have left.
    assert redeciding.judged.facts == 5
    assert redeciding.judged.divergences == 1


def test_every_fact_that_a_changed_rule_decides_otherwise_is_found_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorded = Recorded().walk(5, 300)
    ignored = [event.cause_offset for _, event in recorded.events if isinstance(event, e.WorkerReported)]
    assert len(ignored) > 5
    report = deciding.RULES[f.WorkerReported]

    def silent(step, fact):
        before = len(step.events)
        report(step, fact)
        if any(isinstance(event, e.WorkerReported) for event in step.events[before:]):
            step.ignore(IgnoreReason.NO_CHANGE, fact.instance)

    monkeypatch.setitem(deciding.RULES, f.WorkerReported, silent)
    found, _ = recorded.again()
    assert [one.cause_offset for one in found] == ignored
    assert {one.fact_kind for one in found} == {"WorkerReported"}


def test_more_and_fewer_events_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = told(f.Tick(), recorded=two_workers())
    tick = deciding.RULES[f.Tick]
    monkeypatch.setitem(deciding.RULES, f.Tick, lambda step, fact: (tick(step, fact), tick(step, fact)))
    more, _ = recorded.again()
    assert [(one.difference, one.seq) for one in more] == [(DecisionDifference.NOT_RECORDED, recorded.shard.seq + 1)]
    twice = told(f.Tick(), recorded=two_workers())
    monkeypatch.setitem(deciding.RULES, f.Tick, tick)
    less, _ = twice.again()
    assert [(one.difference, one.seq) for one in less] == [(DecisionDifference.NOT_DECIDED, twice.shard.seq)]


def test_another_kind_of_event_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = told(queued("a"), queued("a"), recorded=two_workers())
    assert isinstance(recorded.events[-1][1], e.FactIgnored)
    monkeypatch.setitem(
        deciding.RULES,
        f.ActionQueued,
        lambda step, fact: (
            step.reject(RejectReason.INVALID_FIELD, "x", "", "")
            if fact.client_operation_id in step.shard.instances["main"].by_client
            else admission.queue_action(step, fact)
        ),
    )
    found, _ = recorded.again()
    assert [(one.difference, one.cause_offset) for one in found] == [(DecisionDifference.KIND, 4)]


def test_a_build_that_fails_on_a_fact_says_so_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = told(queued("a"), f.Tick(), queued("b"), recorded=two_workers())

    def fails(step, fact):
        step.emit(e.Ticked)
        raise RuntimeError("no ticks today")

    monkeypatch.setitem(deciding.RULES, f.Tick, fails)
    found, redeciding = recorded.again()
    assert [(one.difference, one.cause_offset, one.error) for one in found] == [
        (DecisionDifference.FAILED, 4, "RuntimeError: no ticks today")
    ]
    assert redeciding.judged.facts == 6


def test_a_fact_that_both_builds_fail_on_is_no_divergence(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = two_workers()
    recorded.write_off(queued("bad"), START_US + 9_000, "ZeroDivisionError: by zero, in other words")
    told(queued("a"), recorded=recorded)
    queue = deciding.RULES[f.ActionQueued]

    def fails(step, fact):
        if fact.client_operation_id == "bad":
            raise ZeroDivisionError("by zero")
        queue(step, fact)

    monkeypatch.setitem(deciding.RULES, f.ActionQueued, fails)
    found, redeciding = recorded.again()
    assert found == []
    assert redeciding.judged.written_off == 1


def test_a_fact_that_was_written_off_and_can_be_decided_is_a_divergence() -> None:
    recorded = two_workers()
    recorded.write_off(queued("bad"), START_US + 9_000, "ZeroDivisionError: by zero")
    told(queued("bad"), queued("a"), recorded=recorded)
    found, _ = recorded.again()
    assert [(one.difference, one.cause_offset) for one in found] == [(DecisionDifference.DECIDABLE, 3)]


def test_what_the_log_refused_is_followed() -> None:
    recorded = two_workers()
    error = f"{deciding.REFUSED_BY_THE_LOG}headway.events.v1: 5000000 bytes, the limit is 4194304"
    recorded.write_off(queued("large"), START_US + 9_000, error)
    told(queued("a"), recorded=recorded)
    found, redeciding = recorded.again()
    assert found == []
    assert redeciding.judged.refused == 1


def test_a_forged_event_is_found_at_its_place() -> None:
    recorded = told(queued("a", 3000), queued("b", 3000), queued("c", 3000), f.Tick(), recorded=two_workers())
    at, offset = next(
        (index, offset)
        for index, (offset, event) in enumerate(recorded.events)
        if isinstance(event, e.OperationQueued) and event.client_operation_id == "b"
    )
    recorded.events[at] = (offset, replace(recorded.events[at][1], priority=7))
    found, _ = recorded.again()
    assert [(one.seq, one.offset, one.fields) for one in found] == [(at + 1, offset, ("priority",))]


def test_events_without_a_fact_and_facts_without_an_event_are_found() -> None:
    recorded = told(queued("a"), f.Tick(), f.Tick(), recorded=two_workers())
    missing = recorded.facts.pop(4)
    found, _ = recorded.again()
    assert [(one.difference, one.cause_offset) for one in found] == [(DecisionDifference.NO_FACT, missing.offset)]

    passed = two_workers()
    passed.publish(b"", START_US + 4_000)
    told(f.Tick(), recorded=passed)
    found, _ = passed.again()
    assert [(one.difference, one.cause_offset) for one in found] == [(DecisionDifference.PASSED_OVER, 3)]
    assert isinstance(found[0].decided[0], e.FactRejected)
    assert found[0].recorded == ()


def test_facts_that_are_gone_are_followed_and_the_rest_is_judged() -> None:
    recorded = Recorded().walk(11, 300)
    recorded.facts = recorded.facts[150:]
    found, redeciding = recorded.again(facts_from=150)
    assert found == []
    assert (redeciding.judged.not_judged, redeciding.judged.facts) == (150, 150)


def test_what_was_judged_before_is_followed_only() -> None:
    recorded = Recorded().walk(12, 200)
    for _, event in recorded.events:
        if isinstance(event, e.OperationQueued):
            event.priority += 1
    every, _ = recorded.again()
    assert len(every) > 10
    middle = every[5]
    later, redeciding = recorded.again(judge_from=middle.recorded[-1].seq + 1)
    assert [one.cause_offset for one in later] == [one.cause_offset for one in every[6:]]
    assert redeciding.seq == recorded.shard.seq
    assert redeciding.judged.facts == len(recorded.facts) - middle.cause_offset - 1
    assert redeciding.judged.not_judged == 0


def test_an_election_that_does_not_follow_is_found() -> None:
    recorded = two_workers()
    recorded.elect(cluster_id="another")
    told(queued("a"), recorded=recorded)
    found, _ = recorded.again()
    assert [(one.difference, one.fields) for one in found] == [(DecisionDifference.ELECTION, ("cluster_id",))]


def test_a_generation_that_an_import_began_is_followed() -> None:
    recorded = two_workers()
    recorded.elect(cluster_id="another", facts_topic_id="f2", events_topic_id="e2")
    told(queued("a"), recorded=recorded)
    assert recorded.again()[0] == []


def test_the_builds_that_led_are_named_and_a_divergence_says_whose_record_it_is() -> None:
    recorded = two_workers()
    recorded.elect(build="newer")
    told(queued("a"), recorded=recorded)
    recorded.changed(lambda event: replace(event, priority=3) if isinstance(event, e.OperationQueued) else None)
    found, redeciding = recorded.again()
    assert redeciding.builds == {"b": 1, "newer": 5}
    assert [(one.build, one.leader_epoch) for one in found] == [("newer", 2)]


def test_who_held_an_actions_inputs_is_answered_from_the_dispatch() -> None:
    recorded = told(PREFER, worker("w1"), worker("w2"), holds("w2", D), action("a", D), queued("b"))
    went = [event for _, event in recorded.events if isinstance(event, e.OperationDispatched)]
    assert [(event.endpoint, event.saved_bytes) for event in went] == [("w2", 1_000), ("w1", 0)]
    assert recorded.again()[0] == []
    recorded.changed(lambda event: replace(event, holders=()) if isinstance(event, e.OperationDispatched) else None)
    found, _ = recorded.again()
    assert [one.cause_offset for one in found] == [4], "what does not follow from the recorded answer is found"


def test_an_event_that_has_no_place_in_the_state_ends_the_judging_behind_what_was_found() -> None:
    recorded = told(queued("a"), f.Tick(), f.Tick(), recorded=two_workers())
    at = next(index for index, (_, event) in enumerate(recorded.events) if isinstance(event, e.OperationDispatched))
    offset, dispatched = recorded.events[at]
    recorded.events[at] = (offset, replace(dispatched, endpoint="nobody"))
    redeciding = Redeciding()
    again = redecide(recorded.facts, recorded.events, redeciding)
    assert next(again).fields == ("endpoint",)
    with pytest.raises(CannotFollow, match=f"event {dispatched.seq} at offset {offset}"):
        next(again)
    with pytest.raises(CannotFollow):
        redeciding.finish()


def test_events_are_not_judged_before_their_facts_are_given() -> None:
    recorded = two_workers()
    redeciding = Redeciding()
    redeciding.add_facts(recorded.facts[:1], through=1)
    for offset, event in recorded.events[:3]:
        redeciding.add_event(offset, event)
    with pytest.raises(ValueError, match="only facts below 1 are given"):
        redeciding.finish()
