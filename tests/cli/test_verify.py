"""`headway verify` on an exported directory: what it says, and its exit codes."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from proto.gen.headway.v1 import events_pb2
from streams.cli.main import main
from streams.log import Outgoing, Record
from streams.memory_log import MemoryLog
from streams.shard_map import write_shard_map
from streams.topics import EVENTS, FACTS, topic_table
from tests.streams.exported import write_directory
from tests.verify.forging import History, forged, holds, parsed

NO_BROKER = {"HEADWAY_BOOTSTRAP_SERVERS": "127.0.0.1:1", "HEADWAY_VIEWS_URL": "http://127.0.0.1:1"}


def run(*arguments: str | Path) -> Result:
    return CliRunner(env=NO_BROKER).invoke(main, ["verify", *(str(argument) for argument in arguments)])


def answered(*arguments: str | Path) -> tuple[int, dict[str, Any]]:
    result = run(*arguments, "-o", "json")
    return result.exit_code, json.loads(result.stdout)["shards"][0]


def facts_of(history: History) -> list[Record]:
    """The records of the facts."""
    return [Record(f.offset, f.at_us, f.key.encode() or None, f.value) for f in history.facts]


def directory(path: Path, history: History, *, facts: Sequence[Record] | None = None) -> Path:
    """An export of this history, with all its facts or these."""
    given = facts_of(history) if facts is None else facts

    async def make() -> None:
        log = MemoryLog(cluster_id="recorded")
        await log.ensure_topics(topic_table(1))
        await write_shard_map(log, {"main": 0})
        await (await log.open("any")).append({(EVENTS, 0): [Outgoing(b"x")]})
        records = {(EVENTS, 0): [Record(offset, 0, None, value) for offset, value in history.events]}
        if given:
            records[FACTS, 0] = list(given)
        await write_directory(log, path, records, segment_bytes=200_000)

    asyncio.run(make())
    return path


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    return directory(tmp_path_factory.mktemp("sound"), holds())


def test_a_sound_log_passes_and_is_decided_the_same_again(sound):
    code, shard = answered("--file", sound)
    assert (code, shard["sound"], shard["findings"], shard["damage"]) == (0, True, [], None)
    assert shard["events"] == len(holds().events)
    assert (shard["redecided"]["facts"], shard["redecided"]["divergence_count"]) == (len(holds().facts), 0)
    assert shard["judged"]["hold_made"] > 20
    assert "joined" in shard["judged_nothing"]


def test_people_are_told_in_a_few_lines(sound):
    result = run("--file", sound)
    assert result.exit_code == 0, result.output
    assert "everything follows" in result.stdout
    assert "with all facts" in result.stdout
    assert "judged nothing" in result.stdout
    assert "0 divergences" in result.stdout
    assert "hold_choice" in run("--file", sound, "--rules", "--no-redecide").stdout


def test_a_forged_decision_ends_with_the_code_of_a_failed_check_and_its_seq(tmp_path):
    messages = parsed(holds())
    at = next(at for at, m in enumerate(messages) if m.WhichOneof("kind") == "hold_released")

    def forge(messages: list[Any], at: int) -> None:
        messages[at].hold_released.reason = 5

    path = directory(tmp_path, forged(holds(), at, forge))
    code, shard = answered("--file", path)
    assert (code, shard["sound"]) == (3, False)
    first = shard["findings"][0]
    assert (first["seq"], first["rule"], first["offset"]) == (at + 1, "hold_released", holds().events[at][0])
    assert "reason=" in first["expected"]
    assert shard["redecided"]["divergences"][0]["seq"] == at + 1, "deciding again says so on its own"
    shown = run("--file", path, "--no-redecide")
    assert shown.exit_code == 3
    assert f"the first at seq {at + 1}" in shown.stdout


def test_damage_is_located_and_what_is_before_it_judged(tmp_path):
    history = holds()
    events = list(history.events)
    del events[300]
    code, shard = answered("--file", directory(tmp_path, History(events, history.facts)))
    assert code == 3
    assert (shard["damage"]["rule"], shard["damage"]["seq"]) == ("sequence", 302)
    assert shard["events"] == 300


def test_a_changed_byte_in_a_file_is_read_past_and_found(sound, tmp_path):
    shutil.copytree(sound, tmp_path, dirs_exist_ok=True)
    file = sorted(path for path in tmp_path.glob("*events*/*.zst"))[1]
    changed = bytearray(file.read_bytes())
    changed[len(changed) // 2] ^= 1
    file.write_bytes(bytes(changed))
    code, shard = answered("--file", tmp_path, "--no-redecide")
    assert code == 3
    assert file.name in shard["damaged_files"][0]
    assert shard["damage"]["rule"] in ("sequence", "chain", "readable")
    assert shard["events"] > 0


def test_a_file_that_is_cut_short_is_never_said_to_follow(sound, tmp_path):
    shutil.copytree(sound, tmp_path, dirs_exist_ok=True)
    for file in tmp_path.glob("*events*/*.zst"):
        file.write_bytes(file.read_bytes()[:1000])
    result = run("--file", tmp_path, "--no-redecide")
    assert result.exit_code == 3
    assert "everything follows" not in result.stdout
    assert "the log is damaged" in result.stdout


def test_facts_that_are_gone_are_said_and_the_rest_is_judged(tmp_path):
    code, shard = answered("--file", directory(tmp_path, holds(), facts=facts_of(holds())[2000:]))
    assert (code, shard["findings"]) == (0, [])
    caused = next(m.seq for m in parsed(holds()) if m.cause_offset == 2000)
    assert shard["facts_from_seq"] == caused
    assert shard["redecided"]["not_judged"] > 0


def test_a_log_without_facts_is_judged_by_its_events(tmp_path):
    path = directory(tmp_path, holds(), facts=[])
    code, shard = answered("--file", path)
    assert (code, shard["facts_kept"], shard["redecided"], shard["findings"]) == (0, False, None, [])
    assert "without facts" in run("--file", path).stdout


def test_a_range_is_judged_and_nothing_behind_it_is_read(sound):
    code, shard = answered("--file", sound, "--from", "1000", "--to", "1500", "--no-redecide")
    assert code == 0
    assert 495 <= shard["events"] <= 510


def test_a_moment_that_cannot_be_read_is_a_usage_error(sound):
    assert run("--file", sound, "--from", "yesterday").exit_code == 2


def test_what_was_written_by_whom_is_said(sound):
    _, shard = answered("--file", sound, "--no-redecide", "--no-facts")
    assert shard["builds"][0] == {"from_seq": 1, "leader_epoch": 1, "build": "recorded"}
    assert events_pb2.Event.FromString(holds().events[0][1]).leader_elected.build == "recorded"
