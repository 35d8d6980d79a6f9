"""`headway replay --check`: a table of another log is named as such, rather than compared row by row."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from click.testing import CliRunner, Result

from events.codec import GENESIS_CHAIN, encode_event
from events.events import LeaderElected
from projections.position import Taken, take
from projections.rows import MemoryRows
from projections.table import Table
from streams.cli import replay as cli
from streams.cli.main import main
from streams.log import Outgoing
from streams.memory_log import MemoryLog
from streams.topics import EVENTS, topic_table


def election(cluster_id: str, events_topic_id: str = "events#1") -> bytes:
    event = LeaderElected(1, 1_000, 0, 1, cluster_id, "facts#0", events_topic_id)
    return encode_event(event, 1, GENESIS_CHAIN)[0]


def table_rows(value: bytes) -> dict[bytes, bytes]:
    rows = MemoryRows()
    table = Table(rows, 0)
    assert take(table, 0, value) is Taken.FOLDED
    table.flush()
    return dict(rows.by_key)


def check(monkeypatch: pytest.MonkeyPatch, rows: dict[bytes, bytes], written: list[bytes], *more: str) -> Result:
    """Runs `headway replay --check` with this table, against a log that is made in the command's own event loop."""

    @asynccontextmanager
    async def opened(*_: object, **__: object) -> AsyncIterator[MemoryLog]:
        log = MemoryLog(cluster_id="here")
        await log.ensure_topics(topic_table(1))
        if written:
            await (await log.open("decider-0")).append({(EVENTS, 0): [Outgoing(value) for value in written]})
        yield log

    monkeypatch.setattr(cli, "opened", opened)
    monkeypatch.setattr(cli, "_table_rows", lambda *_: rows)
    return CliRunner().invoke(main, ["replay", "--check", *more])


def test_the_table_of_this_log_equals_it(monkeypatch):
    result = check(monkeypatch, table_rows(election("here")), [election("here")])
    assert result.exit_code == 0, result.output


def test_a_copied_log_keeps_the_ids_that_its_elections_recorded(monkeypatch):
    result = check(monkeypatch, table_rows(election("origin")), [election("origin")])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("written", [[], [election("here")]], ids=["a log without events", "a log with events"])
def test_a_table_of_another_cluster_is_named_with_both_ids_and_what_to_do(monkeypatch, written):
    result = check(monkeypatch, table_rows(election("there")), written)
    assert result.exit_code == 3, result.output
    assert "shard 0: the table is of another log: its cluster id is there, that of this log is here" in result.stderr
    assert "HEADWAY_BOOTSTRAP_SERVERS" in result.stderr
    assert "replay:" not in result.stderr


def test_a_topic_made_again_is_another_log(monkeypatch):
    rows = table_rows(election("here", "events#9"))
    result = check(monkeypatch, rows, [election("here")], "-o", "json")
    assert result.exit_code == 3, result.output
    answer = json.loads(result.stdout)
    assert answer["table_equals_replay"] is False
    other = answer["shards"][0]["another_log"]
    assert (other["what"], other["table"], other["log"]) == ("events topic id", "events#9", "events#1")
