"""`headway publish`, `headway placements` and the options of `headway worker run`, over a log in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from click.testing import CliRunner, Result

from events import facts
from events.codec import decode_fact
from events.reasons import Outcome, PlacementEnd, RequeueCause
from streams.cli import placements as placements_command
from streams.cli import publish as publish_command
from streams.cli.main import main
from streams.cli.placements import line_of
from streams.cli.worker_run import run as worker_run
from streams.log import Outgoing, Record
from streams.memory_log import MemoryLog
from streams.placements import ActionPlaced, PlacementEnded
from streams.provisioning import provision
from streams.topics import FACTS, PLACEMENTS
from tests.streams.test_client import ended, placed


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> MemoryLog:
    """A log with the instances `main` and `other`, which the commands connect to."""
    log = MemoryLog()
    asyncio.run(provision(log, {"main": None, "other": None}, shards=2))

    @asynccontextmanager
    async def connected(settings: object, *, client_id: str = "") -> AsyncIterator[MemoryLog]:
        yield log

    monkeypatch.setattr(publish_command, "connected", connected)
    monkeypatch.setattr(placements_command, "connected", connected)
    return log


def headway(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main, arguments, input=stdin)


def records(log: MemoryLog, shard: int = 0) -> list[Record]:
    """The facts of a shard behind its configuration."""
    return log.records((FACTS, shard))[1:]


def line(**of: object) -> str:
    return json.dumps({"kind": "ActionQueued", **of}) + "\n"


def test_lines_become_facts_in_order(log: MemoryLog) -> None:
    lines = line(client_operation_id="a", argv=["true"]) + "\n" + line(client_operation_id="b", instance="other")
    result = headway("publish", stdin=lines + json.dumps({"kind": "WorkerDrained", "endpoint": "w1"}))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "3 published\n", "")
    (first, second), (third,) = records(log, 0), records(log, 1)
    fact = decode_fact(first.value, first.headers)
    assert isinstance(fact, facts.ActionQueued)
    assert (fact.client_operation_id, first.key, first.headers) == ("a", b"a", ())
    assert decode_fact(second.value) == facts.WorkerDrained("main", "w1")
    assert (second.key, third.key) == (b"w1", b"b")


def test_facts_may_stand_in_the_log_as_json(log: MemoryLog) -> None:
    text = line(client_operation_id="a", priority=4)
    assert headway("publish", "--as", "json", stdin=text).exit_code == 0
    (record,) = records(log)
    assert record.value == text.strip().encode()
    assert record.headers == (("content-type", b"application/json"),)
    fact = decode_fact(record.value, record.headers)
    assert isinstance(fact, facts.ActionQueued)
    assert fact.priority == 4


def test_offsets_are_printed_as_json_lines(log: MemoryLog) -> None:
    result = headway("publish", "-o", "json", stdin=line(client_operation_id="a") + line(client_operation_id="b"))
    rows = [json.loads(row) for row in result.stdout.splitlines()]
    assert [row["line"] for row in rows] == [1, 2]
    assert [row["offset"] for row in rows] == [record.offset for record in records(log)]
    assert {(row["kind"], row["shard"]) for row in rows} == {("ActionQueued", 0)}


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (line(client_operation_id="x", priority="high"), ["line 2", "HW-102", "priority", "high"]),
        (line(client_operation_id="x", prioritty=1), ["line 2", "prioritty", "priority"]),
        (line(client_operation_id="x", at_us=5), ["line 2", "at_us", "headway decide"]),
        (line(client_operation_id="x", instance="mian"), ["line 2", "unknown-instance", "'main', 'other'"]),
        ('{"kind": "NoSuch"}\n', ["line 2", "NoSuch"]),
        ("not json\n", ["line 2", "not json"]),
        ("[1]\n", ["line 2"]),
        (line(client_operation_id="x", argv=["y" * (1 << 20)]), ["line 2", "refused", "1048576"]),
    ],
)
def test_a_bad_line_is_said_and_the_others_are_published(log: MemoryLog, bad: str, said: list[str]) -> None:
    lines = line(client_operation_id="a") + bad + line(client_operation_id="b")
    result = headway("publish", stdin=lines)
    assert result.exit_code == 1
    assert result.stdout == "2 published, 1 refused\n"
    for part in said:
        assert part in result.stderr, result.stderr
    assert [record.key for record in records(log)] == [b"a", b"b"]


def test_a_refusal_has_a_json_form(log: MemoryLog) -> None:
    result = headway("publish", "-o", "json", stdin=line(client_operation_id="x", priority="high"))
    row = json.loads(result.stderr)
    assert (row["line"], row["refused"], row["kind"], row["field"]) == (1, "HW-102", "ActionQueued", "priority")
    assert row["value"]
    assert row["rule"]
    assert result.exit_code == 1


def test_unchecked_lines_go_as_they_are(log: MemoryLog) -> None:
    result = headway(
        "publish", "--no-validate", stdin='{"kind": "ActionQueued", "client_operation_id": "k", "p": 1}\n???\n'
    )
    assert (result.exit_code, result.stdout) == (0, "2 published\n")
    first, second = records(log)
    assert (first.key, second.key, second.value) == (b"k", None, b"???")
    assert isinstance(decode_fact(first.value, first.headers), facts.Unreadable)


def test_placements_are_printed_and_the_command_ends_at_the_end(log: MemoryLog) -> None:
    asyncio.run(log.publish((PLACEMENTS, 0), [placed(5), placed(5, redelivered=True), ended(5)]))
    result = headway("placements", "-o", "json")
    rows = [json.loads(row) for row in result.stdout.splitlines()]
    assert [(row["kind"], row["offset"]) for row in rows] == [("ActionPlaced", 0), ("PlacementEnded", 2)]
    assert (rows[1]["end"], rows[1]["outcome"], rows[1]["exit_code"]) == ("finished", "completed", 3)
    result = headway("placements", "--from", "2", "--shard", "0")
    assert result.stdout == "finished   main/op-0 c5: exit code 3\n"
    assert headway("placements", "--from", "latest").stdout == ""
    assert len(headway("placements", "--limit", "1").stdout.splitlines()) == 1
    assert headway("placements", "--instance", "other").stdout == ""


@pytest.mark.parametrize("start", ["-1", "sometime", "1.5"])
def test_a_start_that_is_none_is_a_usage_error(log: MemoryLog, start: str) -> None:
    result = headway("placements", "--from", start)
    assert result.exit_code == 2
    assert "latest, earliest and an offset" in result.stderr


def test_a_start_behind_the_end_is_a_failure_that_names_it(log: MemoryLog) -> None:
    result = headway("placements", "--from", "77", "--shard", "0")
    assert result.exit_code == 1
    assert "offset-past-end" in result.stderr


def test_an_unreadable_placement_ends_the_command_with_its_offset(log: MemoryLog) -> None:
    asyncio.run(log.publish((PLACEMENTS, 0), [placed(5), Outgoing(b"\xff")]))
    result = headway("placements")
    assert result.exit_code == 1
    assert result.stdout.startswith("placed ")
    assert "offset 1" in result.stderr


def test_every_kind_of_line_reads_well() -> None:
    action = ActionPlaced("main", 7, "c", 9, "w1", 1, attempt=2, redelivered=True)
    assert line_of(action) == "placed     main/op-7 c on w1, dispatch 9, attempt 2 (redelivered)"
    ended_ = PlacementEnded("main", 7, "c", 9, "w1", PlacementEnd.REQUEUED, cause=RequeueCause.WORKER_GONE)
    assert line_of(ended_).startswith("requeued   main/op-7 c on w1: The worker left")
    ended_ = PlacementEnded("main", 7, "c", 0, "", PlacementEnd.CANCELLED, outcome=Outcome.CANCELLED)
    assert line_of(ended_) == "cancelled  main/op-7 c: It was cancelled."
    ended_ = PlacementEnded(
        "main", 7, "c", 9, "w1", PlacementEnd.FINISHED, outcome=Outcome.FAILED_PRECONDITION, message="no x"
    )
    assert line_of(ended_).endswith("running it again would not help. no x")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--count", "3"], "--count goes with --simulate"),
        (["--simulate", "--secrets-dir", "."], "--secrets-dir does not go with --simulate"),
        (["--property", "os"], "'os' is not NAME=VALUE"),
        (["--property", "cpu_millis=5"], "cpu_millis is set by --cores"),
        (["--property", "os=a", "--property", "os=b"], "os is given twice"),
        (["--name", "a b"], "without spaces"),
        (["--cores", "0"], "--cores"),
    ],
)
def test_options_of_a_worker_that_make_no_sense_are_usage_errors(options: list[str], said: str) -> None:
    arguments = ["--cores", "2", "--memory-kib", "1024", *options]
    result = CliRunner().invoke(worker_run, arguments)
    assert result.exit_code == 2
    assert said in result.stderr
