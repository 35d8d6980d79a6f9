"""`headway shadow`: exit codes, and what people and programs read of what was found, on a log in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from click.testing import CliRunner, Result

from events import events as e
from projections import redeciding
from streams.cli import shadow
from streams.cli.main import main
from streams.log import Log
from tests.streams.deciding import Cluster, configured, connected, decide_all, queued


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A decided log of two shards, which every command of the test is connected to."""

    async def made() -> Cluster:
        cluster = await Cluster.start(shards=2)
        for number in range(2):
            await cluster.put(configured(), connected("w1"), queued("a"), queued("b"), shard=number)
            await decide_all(cluster, shard=number)
        return cluster

    cluster = asyncio.run(made())

    @asynccontextmanager
    async def to_it(*arguments: object, **named: object) -> AsyncIterator[Log]:
        yield cluster.log

    monkeypatch.setattr(shadow, "connected", to_it)
    return cluster


@pytest.fixture
def other_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """The build of the command queues `b` with another priority."""
    real = redeciding.decide

    def decide(*arguments, **named):
        return [
            replace(event, priority=5)
            if isinstance(event, e.OperationQueued) and event.client_operation_id == "b"
            else event
            for event in real(*arguments, **named)
        ]

    monkeypatch.setattr(redeciding, "decide", decide)


def headway(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["shadow", *arguments])


def test_a_build_that_decides_the_same_ends_with_0(cluster: Cluster) -> None:
    result = headway("run", "--until-caught-up", "--log-level", "error")
    assert result.exit_code == 0, result.output
    assert "shard 0: 4 facts judged up to event 8, 0 decided otherwise" in result.output
    assert "shard 1: 4 facts judged" in result.output


@pytest.mark.usefixtures("other_rules")
def test_a_build_that_decides_otherwise_ends_with_3_now_and_when_asked_again(cluster: Cluster) -> None:
    for _ in range(2):
        result = headway("run", "--until-caught-up", "--shard", "1", "--log-level", "error")
        assert result.exit_code == 3, result.output
        assert "1 decided otherwise" in result.output


def test_facts_that_are_gone_are_named(cluster: Cluster) -> None:
    asyncio.run(cluster.log.trim(("headway.facts.v1", 0), 2))
    result = headway("run", "--until-caught-up", "--shard", "0", "--log-level", "error")
    assert (result.exit_code, "2 older facts are gone and were followed" in result.output) == (0, True)


def test_a_shard_that_cannot_be_judged_ends_with_1_and_the_reason(cluster: Cluster) -> None:
    result = headway("run", "--until-caught-up", "--shard", "7", "--log-level", "error")
    assert result.exit_code == 1
    assert "no-such-partition" in result.stderr


@pytest.mark.usefixtures("other_rules")
def test_what_was_found_is_listed_for_people_and_for_programs(cluster: Cluster) -> None:
    headway("run", "--until-caught-up", "--log-level", "error")
    text = headway("list", "--shard", "0").stdout
    assert "shard 0 event 7 at offset" in text
    assert "fact 3 (ActionQueued): This build decides the same kind of event, with other values in it." in text
    assert "differs in priority" in text
    assert "recorded by test: OperationQueued" in text
    rows = [json.loads(line) for line in headway("list", "-o", "json").stdout.splitlines()]
    assert [(row["shard"], row["cause_offset"], row["difference"]) for row in rows] == [
        (0, 3, "fields"),
        (1, 3, "fields"),
    ]
    assert rows[0]["decided"][0]["priority"] == 5
    assert rows[0]["recorded"][0]["priority"] == 0
    assert headway("list", "--auditor", "nobody").stdout == ""


@pytest.mark.usefixtures("other_rules")
def test_the_status_says_how_far_each_build_is(cluster: Cluster) -> None:
    assert json.loads(headway("status", "-o", "json").stdout) == []
    headway("run", "--until-caught-up", "--log-level", "error")
    rows = json.loads(headway("status", "-o", "json").stdout)
    assert [(row["shard"], row["seq"], row["behind"], row["facts"], row["divergences"]) for row in rows] == [
        (0, 8, 0, 4, 1),
        (1, 8, 0, 4, 1),
    ]
    table = headway("status", "--shard", "0").stdout
    assert "DECIDED OTHERWISE" in table
    assert "fields 1" in table
