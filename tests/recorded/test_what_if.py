"""`headway what-if` on the recorded run: the unchanged policy gives the recorded waits; without the hold the large actions wait longer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from events import events as e
from streams.cli.main import main
from tests.recorded.run import RecordedRun, recorded_run
from tests.recorded.truths import Cause

CONTESTED = ("drained_for_it", "drained_across_a_takeover", "drained_soonest")
"""Scenes in which small actions wait for the very room that the hold keeps for the large one."""


def asked(directory: Path, *options: str) -> dict[str, Any]:
    """What `headway what-if --file` says."""
    done = CliRunner().invoke(main, ["what-if", "--file", str(directory), "-o", "json", *options])
    assert done.exit_code == 0, (done.output, done.exception)
    return dict(json.loads(done.stdout))


@pytest.fixture(scope="module")
def without(directory: Path) -> dict[str, Any]:
    return asked(directory, "--set", "hold=off", "--longest", "1000")


def of_policy(answer: dict[str, Any], name: str) -> dict[str, Any]:
    return next(policy for policy in answer["policies"] if policy["policy"] == name)


def waits_of(recorded: RecordedRun) -> dict[int, int]:
    """How long each operation waited in all, by the events: from being queued to its dispatch or end, again after each requeue."""
    since: dict[int, int] = {}
    waited: dict[int, int] = {}
    for event in recorded.events:
        match event:
            case e.OperationQueued():
                since[event.operation_id] = event.queued_at_us
            case e.OperationRequeued():
                since[event.operation_id] = event.at_us
            case e.OperationDispatched() | e.OperationFinished() if event.operation_id in since:
                queued_us = since.pop(event.operation_id)
                waited[event.operation_id] = waited.get(event.operation_id, 0) + event.at_us - queued_us
    return waited


def test_the_unchanged_policy_gives_the_recorded_waits_within_the_error_it_prints(recorded, without):
    """Here nothing is left to guess, so the error it prints is none, and each wait is the recorded one."""
    each = without["each"]
    assert (each["operations"], each["exact"]) == (len(recorded.names), len(recorded.names))
    waited = waits_of(recorded)
    told = [one for one in without["longest"] if one["operation_id"] in waited]
    assert len(told) > 50
    for one in told:
        assert one["recorded_us"] == waited[one["operation_id"]]
        assert abs(one["unchanged_us"] - one["recorded_us"]) <= each["max_us"]
    was, modelled = of_policy(without, "recorded"), of_policy(without, "unchanged")
    for figure in ("mean_us", "p50_us", "p95_us", "max_us"):
        assert abs(modelled["waits"][figure] - was["waits"][figure]) <= without["error"]["off"]["waits"][figure]
    assert modelled["holds"] == was["holds"]
    assert modelled["first_divergence"] is None


def test_the_recorded_holds_are_those_of_the_scenes(recorded, without):
    made = recorded.held
    ended = of_policy(without, "recorded")["holds"]["ended"]
    assert of_policy(without, "recorded")["holds"]["made"] == len(made)
    assert {reason: count for reason, count in ended.items() if count} == {
        reason: sum(truth.ending == reason for truth in made) for reason in {truth.ending for truth in made}
    }


def test_without_the_hold_the_large_actions_wait_longer(without):
    was, changed = of_policy(without, "recorded"), without["policies"][-1]
    assert changed["set"] != []
    assert changed["large"]["mean_us"] > was["large"]["mean_us"]
    assert changed["large"]["max_us"] > was["large"]["max_us"]
    assert changed["holds"]["made"] == 0
    assert 0 < changed["facts"]["share_of_runs_real"] < 1


def test_it_first_decides_otherwise_where_the_first_hold_was_made(recorded, without):
    first = recorded.first(e.HoldMade)
    assert without["policies"][-1]["first_divergence"]["seq"] == first.seq


@pytest.mark.parametrize("place", [0, 1, 2], ids=CONTESTED)
def test_what_a_hold_was_contested_for_would_have_waited_longer_without_it(directory, place):
    """The question of a person whose action waited: would another setting have helped?"""
    contested = [
        truth for truth in recorded_run().truths if truth.ending == "placed" and truth.cause == Cause.DRAINED_EMPTY
    ]
    drained = [truth for truth in contested if not truth.moves and truth.held_us > 5_000_000]
    answer = asked(directory, "--set", "hold=off", "--operation", drained[place].operation)
    told = answer["operation"]
    assert told["client_operation_id"] == drained[place].operation
    assert told["unchanged_us"] == told["recorded_us"]
    assert told["changed_us"][0] > told["recorded_us"] + 10_000_000


def test_the_same_question_gets_the_same_answer(directory, without):
    assert asked(directory, "--set", "hold=off", "--longest", "1000") == without
