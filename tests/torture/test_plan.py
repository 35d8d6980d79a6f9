"""What a seed draws."""

from __future__ import annotations

import pytest

from events.facts import ActionQueued, CancelRequested
from events.payloads import requirements_of
from streams.torture.plan import FLEET, REAL_PREFIX, RUNNER, Plan, Victim, draw_plan


@pytest.fixture(scope="module")
def plan() -> Plan:
    return draw_plan(7, actions=2_000, kills=20)


def test_a_seed_draws_the_same_plan_again_and_another_seed_another(plan):
    assert draw_plan(7, actions=2_000, kills=20) == plan
    assert draw_plan(8, actions=2_000, kills=20).due != plan.due
    assert draw_plan(8, actions=2_000, kills=20).kills != plan.kills


def test_another_number_of_kills_leaves_the_workload_as_it_is(plan):
    other = draw_plan(7, actions=2_000, kills=12)
    assert other.due == plan.due
    assert len(other.kills) == 12


@pytest.mark.parametrize("seed", range(20))
def test_every_kind_of_victim_is_killed_at_least_once_before_the_last_actions_are_published(seed):
    drawn = draw_plan(seed, actions=100, kills=3)
    assert drawn.kills_by_victim() == {victim.value: 1 for victim in Victim}
    assert [kill.at_us for kill in drawn.kills] == sorted(kill.at_us for kill in drawn.kills)
    assert max(kill.at_us for kill in drawn.kills) < drawn.held_from_us < drawn.span_us
    assert all(bool(kill.process) is (kill.victim is Victim.WORKER) for kill in drawn.kills)


def test_there_are_as_many_actions_as_asked_for_and_some_are_repeated_or_cancelled(plan):
    queued = [item.fact for item in plan.due if isinstance(item.fact, ActionQueued)]
    cancelled = [item.fact.client_operation_id for item in plan.due if isinstance(item.fact, CancelRequested)]
    assert len(plan.names) == len(set(plan.names)) == 2_000
    assert len(queued) > 2_000
    assert {fact.client_operation_id for fact in queued} == set(plan.names)
    assert set(cancelled) < set(plan.names)
    assert cancelled


def test_a_cancel_comes_after_its_action(plan):
    first = {}
    for item in plan.due:
        first.setdefault(item.fact.client_operation_id, item.fact)
    assert all(isinstance(fact, ActionQueued) for fact in first.values())


def test_every_action_fits_a_worker_of_its_runner(plan):
    for item in plan.due:
        if not isinstance(item.fact, ActionQueued):
            continue
        asked = dict(requirements_of(item.fact.requirements))
        real = item.fact.client_operation_id.startswith(REAL_PREFIX)
        assert asked[RUNNER] == ("process" if real else "simulated")
        assert any(
            int(asked["cpu_millis"]) <= process.cores * 1_000 and int(asked["memory_kib"]) <= process.memory_kib
            for process in FLEET
            if process.real is real
        )


def test_the_fleet_would_be_nearly_full_while_actions_arrive(plan):
    asked_us = sum(
        int(dict(requirements_of(fact.requirements))["cpu_millis"]) * fact.expected_duration_us // 1_000
        for fact in {item.fact.client_operation_id: item.fact for item in plan.due}.values()
        if isinstance(fact, ActionQueued)
    )
    offered_us = plan.span_us * sum(process.cores * process.count for process in FLEET if not process.real)
    assert 0.8 < asked_us / offered_us <= 0.91


@pytest.mark.parametrize(("actions", "kills"), [(0, 20), (10, 2)])
def test_a_torture_of_nothing_is_refused(actions, kills):
    with pytest.raises(ValueError, match=r"0 actions|2 kills"):
        draw_plan(1, actions=actions, kills=kills)
