"""`headway export` and `headway import` against a log in memory: what they say, and with which exit code."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from streams.cli import export as export_command
from streams.cli import importing as import_command
from streams.cli.main import main
from streams.memory_log import MemoryLog
from streams.topics import EVENTS, FACTS
from tests.streams.deciding import Cluster, configured, connected, decide_all, queued


class Clusters:
    """Logs in memory that the commands reach, one at a time: what a test makes in one event loop they use in their own."""

    def __init__(self) -> None:
        self.here = Cluster(cluster_id="here")

    @asynccontextmanager
    async def connected(self, *_: object, **__: object) -> AsyncIterator[MemoryLog]:
        yield self.here.log


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> Clusters:
    made = Clusters()
    monkeypatch.setattr(export_command, "connected", made.connected)
    monkeypatch.setattr(import_command, "connected", made.connected)

    async def fill() -> None:
        made.here = await Cluster.start(cluster_id="here")
        await made.here.put(configured(), connected("w1"), *(queued(f"a{n}") for n in range(10)))
        await decide_all(made.here)

    asyncio.run(fill())
    return made


def run(*arguments: str | Path, code: int = 0) -> Result:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def test_an_export_says_what_it_added_and_a_second_one_that_there_is_nothing_new(clusters, tmp_path):
    last = clusters.here.fold().shard.seq
    answer = json.loads(run("export", "all", "--to", tmp_path, "-o", "json").stdout)
    assert [(part["topic"], part["records"], part["last_seq"]) for part in answer["added"]] == [
        (EVENTS, last, last),
        (FACTS, 12, None),
    ]
    again = run("export", "all", "--to", tmp_path)
    assert "nothing new" in again.stderr


def test_a_hole_in_the_facts_is_said(clusters, tmp_path):
    run("export", "all", "--to", tmp_path)

    async def lose() -> None:
        await clusters.here.put(queued("b1"), queued("b2"))
        await decide_all(clusters.here)
        await clusters.here.log.trim((FACTS, 0), 13)

    asyncio.run(lose())
    assert "offsets 12 to 12 were gone" in run("export", "all", "--to", tmp_path).stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("--until", "9999"), "event seq 9999"), (("--since", "2090-01-01"), "2090-01-01"), (("--shard", "4"), "4")],
)
def test_what_the_log_does_not_have_is_refused(clusters, tmp_path, arguments, said):
    result = run("export", "events", "--to", tmp_path / "x", *arguments, code=1)
    assert said.removeprefix("event seq ") in result.stderr
    assert not (tmp_path / "x" / "manifest.json").exists()


def test_an_import_begins_a_log_and_a_second_one_has_nothing_to_do(clusters, tmp_path):
    run("export", "all", "--to", tmp_path)
    chain = clusters.here.fold().chain
    clusters.here = Cluster(cluster_id="there")
    (shard,) = json.loads(run("import", tmp_path, "-o", "json").stdout)["shards"]
    assert (shard["written"], shard["next_fact_offset"]) == (shard["events"], 12)
    events = clusters.here.records(EVENTS)
    assert events[-2].value.endswith(chain)
    assert "nothing to do" in run("import", tmp_path).stderr
    assert clusters.here.records(EVENTS) == events


def test_an_import_into_a_cluster_with_a_log_says_what_to_do(clusters, tmp_path):
    run("export", "all", "--to", tmp_path)

    async def other() -> None:
        clusters.here = await Cluster.start(cluster_id="there")
        await clusters.here.put(configured())
        await decide_all(clusters.here)

    asyncio.run(other())
    said = run("import", tmp_path, code=1).stderr
    assert "not-empty" in said
    assert "HEADWAY_TOPIC_PREFIX" in said
