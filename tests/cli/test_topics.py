"""`headway topics plan` and `apply`, with an in-memory log that stands in for the cluster."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import pytest
from click.testing import CliRunner

from streams.cli import topics
from streams.cli.main import main
from streams.memory_log import MemoryLog
from streams.topics import EVENTS, FACTS, TOPICS


@pytest.fixture
def log(monkeypatch):
    found = MemoryLog()

    @asynccontextmanager
    async def connected(settings):
        yield found

    monkeypatch.setattr(topics, "connected", connected)
    return found


def run(*arguments: str, code: int = 0):
    result = CliRunner().invoke(main, ["topics", *arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def test_a_plan_says_what_it_would_create_and_what_that_costs(log):
    answer = json.loads(run("plan", "-o", "json").stdout)
    assert [row["topic"] for row in answer["topics"]] == [spec.name for spec in TOPICS]
    assert {row["change"] for row in answer["topics"]} == {"create"}
    by_topic = {row["topic"]: row for row in answer["topics"]}
    assert by_topic[EVENTS]["kept"] == "for ever"
    assert by_topic[EVENTS]["disk_bytes"] is None
    assert by_topic[FACTS]["kept"] == "7 days"
    assert answer["growth_bytes_per_day"] == by_topic[EVENTS]["bytes_per_day"] > 0
    assert len(answer["changes"]) == len(TOPICS)


def test_a_plan_changes_nothing_and_after_apply_there_is_nothing_to_do(log):
    run("plan")
    applied = json.loads(run("apply", "--instance", "a", "--instance", "b=1", "-o", "json").stdout)
    assert applied["instances"] == {"a": 0, "b": 1}
    assert any(line.startswith("create") for line in applied["done"])
    assert json.loads(run("plan", "-o", "json").stdout)["changes"] == []
    again = run("apply", "--instance", "a")
    assert "nothing to do" in again.stderr
    assert [line.split() for line in again.stdout.splitlines()] == [["INSTANCE", "SHARD"], ["a", "0"], ["b", "1"]]


def test_apply_alone_makes_the_instance_main(log):
    assert json.loads(run("apply", "-o", "json").stdout)["instances"] == {"main": 0}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--instance", "a=x"], "'x' is no shard number"),
        (["--instance", "a=4", "--shards", "2"], "shard 4 does not exist: there are 2 shard(s)"),
    ],
)
def test_a_wrong_assignment_is_refused(log, arguments, said):
    assert said in run("apply", *arguments, code=1).stderr


def test_more_load_and_larger_records_cost_more():
    def events(*arguments: str) -> int:
        return json.loads(run("plan", "--new-cluster", "-o", "json", *arguments).stdout)["growth_bytes_per_day"]

    base = events()
    assert events("--actions-per-s", "100") > base
    assert events("--replicas", "3") == 3 * base
    assert events("--record-bytes", "events=1800") > 5 * base
    for wrong in ("events", "events=0", "nope=3", "events=-1"):
        assert "is not TOPIC=BYTES" in run("plan", "--new-cluster", "--record-bytes", wrong, code=2).stderr
