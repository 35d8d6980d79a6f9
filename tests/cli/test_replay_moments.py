"""`headway replay` of a range and of a moment, on an exported directory: no broker is asked, and nothing is written into it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from events.codec import decode_event
from events.events import Event
from projections import answers, fleet
from projections.position import take
from projections.rows import MemoryRows
from projections.table import Table
from streams.cli.main import main
from streams.cli.tables import pairs_shown
from streams.log import Record
from streams.moments import time_of
from streams.topics import EVENTS
from tests.projections.histories import History
from tests.streams.exported import log_of, write_directory

AT = (EVENTS, 0)


async def recorded(history: History, directory: Path, *, missing: int | None = None) -> list[Record]:
    """The history as a directory; without event `missing`, if one is named."""
    log = await log_of(history)
    follower = await log.follow({AT: None})
    records: list[Record] = []
    while await follower.position(AT) < await follower.end_offset(AT):
        records += (await follower.read()).get(AT, [])
    kept = [record for number, record in enumerate(records, start=1) if number != missing]
    await write_directory(log, directory, {AT: kept})
    return records


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADWAY_HOME", str(tmp_path / "home"))
    return tmp_path / "export"


@pytest.fixture
def records(directory: Path) -> list[Record]:
    return asyncio.run(recorded(History(6).run(400), directory))


@pytest.fixture
def events(records: list[Record]) -> list[Event]:
    return [decode_event(record.value) for record in records]


def replay(directory: Path, *arguments: object) -> Result:
    return CliRunner().invoke(main, ["replay", "--file", str(directory), *map(str, arguments)])


def answer(directory: Path, *arguments: object) -> dict[str, Any]:
    result = replay(directory, *arguments, "-o", "json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)["shards"][0]
    return found


def table_at(records: list[Record], seq: int) -> Table:
    table = Table(MemoryRows(), 0)
    for record in records[:seq]:
        take(table, record.offset, record.value)
    table.flush()
    return table


@pytest.mark.parametrize("seq", [1, 57, 300])
def test_the_state_at_an_event_is_that_of_a_fold_up_to_it(directory, records, seq):
    table = table_at(records, seq)
    found = answer(directory, "--at", seq)
    assert found["seq"] == seq
    assert found["at_us"] == table.shard.now_us
    assert found["state"] == answers.state(table)
    assert found["instances"] == answers.instances(table)
    assert found["queue"] == list(answers.queue(table))
    assert found["workers"] == fleet.workers(table)
    assert found["holds"] == answers.holds(table)
    assert found["executing"] == list(answers.operations(table, stage="executing"))


def test_a_time_is_the_last_event_at_or_before_it(directory, records, events):
    at_us = events[250].at_us
    last = sum(event.at_us <= at_us for event in events)
    assert answer(directory, "--at", time_of(at_us))["seq"] == last


def test_a_state_is_narrowed_to_an_operation_a_worker_an_instance_or_the_queue(directory, records):
    table = table_at(records, 300)
    queued = next(answers.queue(table))
    assert answer(directory, "--at", 300, "--queue")["queue"][0] == queued
    assert answer(directory, "--at", 300, "--operation", queued["id"])["operation"]["stage"] == "queued"
    worker = fleet.workers(table)[0]
    found = answer(directory, "--at", 300, "--worker", worker["endpoint"])["workers"]
    assert worker in found
    assert {each["endpoint"] for each in found} == {worker["endpoint"]}
    assert {each["instance"] for each in answer(directory, "--at", 300, "--instance", "main")["queue"]} <= {"main"}


def test_one_operation_reads_as_operation_show_has_it(directory, records):
    queued = next(answers.queue(table_at(records, 300)))
    result = replay(directory, "--at", 300, "--operation", queued["id"])
    assert result.exit_code == 0, result.output
    rows = [line.split("  ", maxsplit=1) for line in result.stdout.splitlines()[1:]]
    assert [row for row in rows if len(row) != 2] == []  # none without a value
    shown = {name: value.strip() for name, value in rows}
    assert shown["queued at"] == time_of(queued["queued_at_us"])
    assert shown["requirements"] == pairs_shown(queued["requirements"])


def test_a_state_reads_for_people(directory, records):
    result = replay(directory, "--at", 300, "--limit", 1)
    assert result.exit_code == 0, result.output
    table = table_at(records, 300)
    assert f"shard 0 as of seq 300, {time_of(table.shard.now_us)}" in result.stdout
    assert f"{answers.state(table)['queued']} queued" in result.stdout
    assert next(answers.queue(table))["id"] in result.stdout
    assert "the first 1" in result.stdout


@pytest.mark.parametrize(
    "narrowing", [("--operation", "nobody"), ("--worker", "nobody"), ("--instance", "nobody")], ids=lambda pair: pair[0]
)
def test_what_was_not_there_is_not_found_and_the_moment_is_named(directory, records, narrowing):
    result = replay(directory, "--at", 300, *narrowing)
    assert result.exit_code == 4
    assert "'nobody' was not there at seq 300 of shard 0" in result.stderr


def test_a_moment_past_the_end_is_not_found(directory, records):
    result = replay(directory, "--at", len(records) + 1)
    assert result.exit_code == 4
    assert f"its last event is seq {len(records)}" in result.stderr


@pytest.mark.parametrize(("begin", "end"), [(1, 40), (101, 300), (57, 57)])
def test_a_range_says_which_events_it_holds_and_what_stood_at_its_ends(directory, records, events, begin, end):
    found = answer(directory, "--from", begin, "--to", end)
    inside = events[begin - 1 : end]
    assert (found["from_seq"], found["to_seq"], found["events"]) == (begin, end, end - begin + 1)
    assert found["by_kind"] == Counter(type(event).__name__ for event in inside)
    assert (found["first_at_us"], found["last_at_us"]) == (inside[0].at_us, inside[-1].at_us)
    assert (found["gaps"], found["chain_ok"], found["damage"]) == (0, True, None)
    for name, seq in (("before", begin - 1), ("after", end)):
        table = table_at(records, seq)
        assert found[name]["seq"] == seq
        assert found[name]["queued"] == answers.state(table)["queued"]
        assert found[name]["workers"] == len(fleet.workers(table))
        assert found[name]["holds"] == answers.holds(table)


def test_a_range_by_time_begins_and_ends_with_whole_moments(directory, records, events):
    begin_us, end_us = events[100].at_us, events[200].at_us
    found = answer(directory, "--from", time_of(begin_us), "--to", time_of(end_us))
    inside = [event for event in events if begin_us <= event.at_us <= end_us]
    assert (found["from_seq"], found["to_seq"]) == (inside[0].seq, inside[-1].seq)


def test_a_range_without_an_end_goes_to_the_end_of_the_log(directory, records):
    result = replay(directory, "--from", 200)
    assert result.exit_code == 0, result.output
    assert f"events 200 to {len(records)}" in result.stdout
    assert "chain whole, gaps 0" in result.stdout


def test_a_range_that_ends_before_it_begins_is_refused(directory, records):
    result = replay(directory, "--from", 30, "--to", 20)
    assert result.exit_code == 2
    assert "ends at seq 20, before it begins at seq 30" in result.stderr


def test_damage_is_located_and_what_lies_before_it_is_answered(directory):
    asyncio.run(recorded(History(6).run(400), directory, missing=200))
    result = replay(directory, "--from", 100, "-o", "json")
    assert result.exit_code == 3
    found = json.loads(result.stdout)["shards"][0]
    assert found["damage"]["after_seq"] == 199
    assert (found["from_seq"], found["to_seq"], found["gaps"]) == (100, 199, 1)
    assert replay(directory, "--from", 100, "--to", 199).exit_code == 0
    assert answer(directory, "--at", 199)["seq"] == 199
    behind = replay(directory, "--at", 205)
    assert behind.exit_code == 4
    assert "damaged" in behind.stderr


def test_nothing_is_written_into_an_export_and_a_changed_one_is_indexed_anew(directory, records):
    before = {path: path.stat().st_mtime_ns for path in directory.rglob("*")}
    first = replay(directory, "--at", 300)
    assert {path: path.stat().st_mtime_ns for path in directory.rglob("*")} == before
    assert "made anew" not in first.stderr
    assert "made anew" not in replay(directory, "--at", 300).stderr
    for path in directory.rglob("*.zst"):
        path.touch()
    assert "it is made anew from the log" in replay(directory, "--at", 300).stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("--at", 3, "--from", 2),
        ("--at", 3, "--check"),
        ("--from", 3, "--check"),
        ("--check",),
        ("--queue",),
        ("--at", "yesterday"),
    ],
)
def test_options_that_do_not_go_together_are_refused(directory, records, arguments):
    assert replay(directory, *arguments).exit_code == 2
