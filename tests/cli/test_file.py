"""Commands on an exported directory, with no broker."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from events.codec import decode_event
from streams.cli.main import main
from streams.export import ExportLog
from streams.topics import EVENTS
from tests.contract.reading import read_all
from tests.projections.histories import History
from tests.streams.exported import log_of, write_directory

E0 = (EVENTS, 0)
NO_BROKER = {"HEADWAY_BOOTSTRAP_SERVERS": "127.0.0.1:1", "HEADWAY_VIEWS_URL": "http://127.0.0.1:1"}


def run(*arguments: str | Path) -> Result:
    return CliRunner(env=NO_BROKER).invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    async def make() -> None:
        log = await log_of(History(7).run(200))
        await write_directory(log, tmp_path, {E0: log.records(E0)})

    asyncio.run(make())
    return tmp_path


def test_a_replay_folds_the_directory(directory):
    result = run("replay", "--file", directory, "-o", "json")
    assert result.exit_code == 0, result.output
    (shard,) = json.loads(result.stdout)["shards"]
    manifest = json.loads((directory / "manifest.json").read_text())
    assert (shard["chain_ok"], shard["gaps"], shard["seq"]) == (True, 0, manifest["segments"][-1]["last_seq"])


def test_events_are_tailed_from_the_directory(directory):
    result = run("events", "tail", "--file", directory, "--from-seq", "40", "--limit", "3", "-o", "json")
    assert [json.loads(line)["seq"] for line in result.stdout.splitlines()] == [40, 41, 42]
    assert run("events", "tail", "--file", directory, "--last", "2").stdout.count("\n") == 2


def test_nothing_is_waited_for_in_a_directory(directory):
    result = run("events", "tail", "--file", directory, "--follow")
    assert result.exit_code == 2
    assert "--follow" in result.stderr


def test_damage_ends_a_command_with_the_code_of_a_failed_check(directory):
    path = min(directory.glob("*/*.zst"))
    path.write_bytes(path.read_bytes()[:-3])
    result = run("replay", "--file", directory)
    assert result.exit_code == 3
    assert path.name in result.stderr
    assert "events 1 to " in result.stderr


def test_a_shard_that_is_not_in_the_directory_is_not_found(tmp_path):
    async def make() -> None:
        log = await log_of(History(7).run(20), shards=2, shard=1)
        at = (EVENTS, 1)
        await write_directory(log, tmp_path, {at: log.records(at)})

    asyncio.run(make())
    assert json.loads(run("replay", "--file", tmp_path, "-o", "json").stdout)["shards"][0]["shard"] == 1
    result = run("replay", "--file", tmp_path, "--shard", "0")
    assert result.exit_code == 4
    assert "shards here: 1" in result.stderr


def test_a_part_of_a_log_is_tailed_but_not_folded(tmp_path):
    async def make() -> None:
        log = await log_of(History(7).run(50))
        await write_directory(log, tmp_path, {E0: log.records(E0)[9:]})

    asyncio.run(make())
    result = run("replay", "--file", tmp_path)
    assert result.exit_code == 1
    assert "begin at event 10" in result.stderr
    assert run("events", "tail", "--file", tmp_path, "--limit", "1", "-o", "json").stdout.startswith('{"seq": 10,')


def test_a_directory_without_an_export_says_so(tmp_path):
    result = run("replay", "--file", tmp_path)
    assert result.exit_code == 1
    assert "manifest.json" in result.stderr


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated log, cut in the middle of its life: actions wait, others run, a worker is held."""
    whole, part = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("part")
    assert run("simulate", "scene", "--policy", "hold", "--export", whole).exit_code == 0

    async def cut() -> None:
        log = ExportLog(whole)
        records = await read_all(log, E0)
        kinds = [type(decode_event(record.value)).__name__ for record in records]
        await write_directory(log, part, {E0: records[: kinds.index("HoldMade") + 1]})

    asyncio.run(cut())
    return part


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("operation", "list"), "operations"),
        (("queue", "list"), "operations"),
        (("worker", "list"), "workers"),
        (("hold", "list"), "holds"),
        (("instance", "list"), "instances"),
    ],
)
def test_lists_answer_from_the_directory(scene, arguments, name):
    result = run(*arguments, "--file", scene, "-o", "json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer[name]
    assert answer["seq"] == json.loads((scene / "manifest.json").read_text())["segments"][-1]["last_seq"]
    assert run(*arguments, "--file", scene).exit_code == 0


def test_an_operation_is_shown_from_the_directory(scene):
    (hold,) = json.loads(run("hold", "list", "--file", scene, "-o", "json").stdout)["holds"]
    result = run("operation", "show", f"op-{hold['operation_id']}", "--file", scene, "-o", "json")
    assert json.loads(result.stdout)["operation"]["stage"] == "queued"
    assert run("operation", "show", "nobody", "--file", scene).exit_code == 4


def test_nothing_is_answered_from_half_a_log(tmp_path):
    """An event is missing and every digest holds: the fold stops there, and so does the command."""

    async def make() -> None:
        log = await log_of(History(7).run(50))
        records = log.records(E0)
        await write_directory(log, tmp_path, {E0: [*records[:20], *records[21:]]})

    asyncio.run(make())
    result = run("queue", "list", "--file", tmp_path)
    assert result.exit_code == 3
    assert "HW-204" in result.stderr
    assert "after event 20" in result.stderr


def test_a_part_of_a_log_answers_no_list(tmp_path):
    async def make() -> None:
        log = await log_of(History(7).run(50))
        await write_directory(log, tmp_path, {E0: log.records(E0)[9:]})

    asyncio.run(make())
    assert "begin at event 10" in run("worker", "list", "--file", tmp_path).stderr
