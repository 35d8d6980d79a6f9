"""`headway simulate --export`: the run as an exported log that every reader reads, and that decides again to the same events."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from events.codec import decode_event, decode_fact
from events.decide import decide, elect
from events.events import LeaderElected
from events.indexing import build_indexes
from events.state import Shard
from streams.cli.main import main
from streams.export import ExportLog
from streams.log import Record
from streams.replay import replay
from streams.topics import EVENTS, FACTS
from tests.contract.reading import read_all


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["simulate", *map(str, arguments)])


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    directory = tmp_path_factory.mktemp("simulated")
    result = run("scene", "--policy", "hold", "--export", directory, "-o", "json")
    assert result.exit_code == 0, result.output
    return directory, json.loads(result.stdout)["runs"][0]


async def test_the_export_folds_with_a_whole_chain_and_has_what_the_figures_say(scene):
    directory, figures = scene
    found = await replay(ExportLog(directory), 0)
    assert (found.damage, found.gaps) == (None, 0)
    kinds = [type(decode_event(record.value)).__name__ for record in await read_all(ExportLog(directory), (EVENTS, 0))]
    assert kinds.count("OperationFinished") == kinds.count("OperationQueued") > 100
    assert kinds.count("HoldMade") == figures["holds"] > 0
    assert found.table.shard.cluster_id == "simulated"


async def test_deciding_its_facts_again_gives_its_events(scene):
    log = ExportLog(scene[0])
    recorded = [decode_event(record.value) for record in await read_all(log, (EVENTS, 0))]
    assert isinstance(recorded[0], LeaderElected)
    facts: list[Record] = await read_all(log, (FACTS, 0))
    shard = Shard()
    build_indexes(shard)
    first = recorded[0]
    again = elect(
        shard,
        leader_epoch=1,
        cluster_id=first.cluster_id,
        facts_topic_id=first.facts_topic_id,
        events_topic_id=first.events_topic_id,
    )
    for record in facts:
        again += decide(shard, decode_fact(record.value), offset=record.offset, append_us=record.at_us)
    assert again == recorded


def test_the_run_is_the_one_without_an_export(scene):
    without = json.loads(run("scene", "--policy", "hold", "-o", "json").stdout)["runs"][0]
    assert scene[1] == without


@pytest.mark.parametrize("arguments", [("farm",), ("scene",), ("farm", "--policy", "hold", "--shake", "2")])
def test_several_runs_are_no_export(tmp_path, arguments):
    result = run(*arguments, "--export", tmp_path)
    assert result.exit_code == 2
    assert "one run" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_simulation_is_not_written_over_another(scene):
    before = (scene[0] / "manifest.json").read_bytes()
    result = run("scene", "--policy", "none", "--export", scene[0])
    assert result.exit_code == 1
    assert "a simulation is a log of its own" in result.stderr
    assert (scene[0] / "manifest.json").read_bytes() == before
