"""`headway replay --at` on the recorded run: the state as it was while each hold stood, and before and after; damage is not folded past."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from events import events as e
from streams.cli.main import CHECK_FAILED, NOT_FOUND, OK, main
from tests.recorded.run import recorded_run
from tests.recorded.tampering import leave_out, own_events, write_directory
from tests.recorded.truths import Truth

HELD = recorded_run().held


def replayed(directory: Path, *options: str, code: int = OK) -> dict[str, Any]:
    """What `headway replay --file` says of the shard."""
    done = CliRunner().invoke(main, ["replay", "--file", str(directory), "-o", "json", *options])
    assert done.exit_code == code, (done.output, done.exception)
    (shard,) = json.loads(done.stdout)["shards"]
    return dict(shard)


def held_at(directory: Path, seq: int) -> list[tuple[str, str]]:
    """(worker, operation) of the holds that stood as of an event."""
    then = replayed(directory, "--at", str(seq))
    assert then["seq"] == seq
    return [(hold["endpoint"], hold["client_operation_id"]) for hold in then["holds"]]


@pytest.mark.parametrize("truth", HELD, ids=lambda truth: f"{truth.operation}-{truth.ending}")
def test_a_hold_stands_from_the_event_that_made_it_up_to_the_one_that_ended_it(recorded, directory, truth: Truth):
    made = recorded.first(e.HoldMade, truth.operation_id)
    released = recorded.first(e.HoldReleased, truth.operation_id)
    assert held_at(directory, made.seq) == [(truth.worker, truth.operation)]
    # A dispatch clears the hold it was for in the same step, before the release is said.
    last = released.seq - (2 if truth.ending == "placed" else 1)
    assert held_at(directory, last) == [(truth.last_worker, truth.operation)]
    assert (truth.last_worker, truth.operation) not in held_at(directory, released.seq)


def test_what_waited_then_waits_then_and_not_now(recorded, directory):
    truth = HELD[0]
    made = recorded.first(e.HoldMade)
    then = replayed(directory, "--at", str(made.seq))
    assert truth.operation in [row["client_operation_id"] for row in then["queue"]]
    assert truth.overtaken_by in [row["client_operation_id"] for row in then["executing"]]
    now = replayed(directory, "--at", str(recorded.events[-1].seq))
    assert (now["queue"], now["executing"], now["holds"]) == ([], [], [])


def test_the_same_moment_by_its_time_is_the_same_state(recorded, directory):
    """The last event at or before the time, as an auditor reads it off a clock."""
    made = recorded.first(e.HoldMade)
    second = made.at_us // 1_000_000 + 1
    by_time = replayed(directory, "--at", f"2027-01-15T08:00:{second - 1_800_000_000:02}Z")
    last = [each.seq for each in recorded.events if each.at_us <= second * 1_000_000][-1]
    assert by_time == replayed(directory, "--at", str(last))


def test_a_range_counts_what_happened_in_it(recorded, directory):
    shard = replayed(directory, "--from", "400", "--to", "600")
    kinds = [type(each).__name__ for each in recorded.events if 400 <= each.seq <= 600]
    text = json.dumps(shard)
    assert (kinds.count("HoldMade"), kinds.count("HoldReleased")) == (1, 1)
    for kind in set(kinds):
        assert f'"{kind}": {kinds.count(kind)}' in text


def test_no_state_is_told_from_behind_damage(recorded, tmp_path):
    directory = write_directory(recorded, tmp_path / "export", leave_out(own_events(recorded), 3000))
    done = CliRunner().invoke(main, ["replay", "--file", str(directory), "--at", "4000"])
    assert done.exit_code == NOT_FOUND
    assert "2999" in done.output
    done = CliRunner().invoke(main, ["replay", "--file", str(directory), "--from", "2900", "--to", "3100"])
    assert (done.exit_code, "BROKEN" in done.output) == (CHECK_FAILED, True)
    assert replayed(directory, "--at", "2999")["seq"] == 2999
