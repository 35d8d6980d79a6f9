"""Resource hints from files: both forms, what is refused, and reloading that never loses the hints in force (D3)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from events import events as e
from events import facts as f
from events.codec import canonical_requirements, requirements_of
from events.values import ResourceHint
from streams.cli.hints import keep_loaded
from streams.edges.hints import UnreadableHints, read_hints
from streams.memory_log import MemoryLog
from tests.streams.edging import configured, put
from tests.streams.scheduling import DEADLINE_S, events_in, until

HINTS = (ResourceHint("//app:test", "", 0, 4_194_304), ResourceHint("", "CppLink", 2_000, 0))
CSV = "target_id,mnemonic,cpu_millis,memory_kib\n//app:test,,,4194304\n,CppLink,2000,\n"
JSON = [{"target_id": "//app:test", "memory_kib": 4_194_304}, {"mnemonic": "CppLink", "cpu_millis": 2_000}]
HISTORICAL: dict[str, object] = {"kind": "historical_resource", "scheduler": {"kind": "simple"}}


def written(directory: Path, name: str, content: str | bytes) -> Path:
    path = directory / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("hints.csv", CSV),
        ("hints.CSV", "\ufeff" + CSV.replace("\n", "\r\n") + "\r\n"),
        ("hints.csv", "memory_kib , target_id,mnemonic,cpu_millis\n4194304,//app:test,,0\n\n, ,CppLink, 2000\n"),
        ("hints.json", json.dumps(JSON)),
        ("hints.json", json.dumps({"hints": JSON})),
    ],
)
def test_both_forms_say_the_same(tmp_path: Path, name: str, content: str) -> None:
    assert read_hints(written(tmp_path, name, content)).hints == HINTS


def test_the_form_may_be_said(tmp_path: Path) -> None:
    assert read_hints(written(tmp_path, "hints.txt", CSV), "csv").hints == HINTS


def test_an_empty_list_takes_all_hints_away(tmp_path: Path) -> None:
    assert read_hints(written(tmp_path, "hints.json", "[]")).hints == ()


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("h.txt", CSV, "its name ends in .txt, not in .json or .csv"),
        ("h.json", "[", "not JSON"),
        ("h.json", "[" * 100_000, "not JSON"),
        ("h.json", "7", "neither a list of hints nor"),
        ("h.json", '{"hints": [], "more": 1}', "neither a list of hints nor"),
        ("h.json", "[1]", "hints[0] is '1', not an object"),
        ("h.json", '[{"target_id": 5}]', "hints[0].target_id: 5 is refused: a text"),
        ("h.json", '[{"mnemonic": "a", "cpu": 5}]', "hints[0]: unknown field 'cpu'; known are target_id, mnemonic"),
        ("h.json", '[{"mnemonic": "a", "cpu_millis": 1.5}]', "hints[0].cpu_millis: '1.5' is refused: a whole number"),
        ("h.json", '[{"mnemonic": "a", "cpu_millis": true}]', "hints[0].cpu_millis: 'True' is refused"),
        ("h.json", '[{"mnemonic": "a", "cpu_millis": -1}]', "hints[0].cpu_millis: '-1' is refused"),
        ("h.json", '[{"cpu_millis": 1}]', "hints[0]: 'neither a target_id nor a mnemonic' is refused"),
        ("h.json", '[{"mnemonic": "a"}, {"mnemonic": "a"}]', "hints[1]: \"target_id '' and mnemonic 'a', as in [0]\""),
        ("h.csv", "", "line 1: a header names each of its columns once"),
        ("h.csv", "mnemonic,mnemonic\n", "line 1: a header names each of its columns once"),
        ("h.csv", "mnemonic,cpu_millis\na\n", "line 2: 1 fields under 2 columns"),
        ("h.csv", "mnemonic,cores\na,1\n", "line 2: unknown field 'cores'"),
        ("h.csv", "mnemonic,cpu_millis\na,two\n", "line 2.cpu_millis: 'two' is refused: a whole number"),
        ("h.csv", 'mnemonic,cpu_millis\n"a,1\n', "not CSV"),
        ("h.csv", "mnemonic,cpu_millis\na,1\n,1\n", "line 3: 'neither a target_id nor a mnemonic' is refused"),
        ("h.csv", "mnemonic,cpu_millis\na,99999999999999999999\n", "is refused"),
        ("h.csv", b"mnemonic\n\xff\n", "it is not UTF-8 text: byte 9"),
    ],
)
def test_a_file_that_means_nothing_is_refused_with_place_and_rule(
    tmp_path: Path, name: str, content: str | bytes, says: str
) -> None:
    with pytest.raises(UnreadableHints) as caught:
        read_hints(written(tmp_path, name, content))
    assert says in str(caught.value)
    assert str(tmp_path / name) in str(caught.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableHints, match="No such file"):
        read_hints(tmp_path / "h.csv")


# -- keeping them loaded ----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def loading(log: MemoryLog, path: Path) -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(keep_loaded(log, 0, "main", path, stop=stop, every_s=0.01))
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait_for(task, DEADLINE_S)


def loaded(log: MemoryLog) -> list[tuple[ResourceHint, ...]]:
    return [event.hints for event in events_in(log, e.HintsLoaded)]  # type: ignore[attr-defined]


async def test_a_file_is_loaded_again_when_it_changes_and_raises_what_is_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path, "hints.csv", CSV)
    async with configured(main=HISTORICAL) as log, loading(log, path):
        await until(lambda: loaded(log) == [HINTS], "loaded")
        asked = canonical_requirements([("cpu_millis", "1000")])
        await put(log, f.ActionQueued("main", "a", asked, mnemonic="CppLink"))
        await until(lambda: len(events_in(log, e.OperationQueued)) == 1, "queued")
        interned = {event.requirement_id: event.requirements for event in events_in(log, e.RequirementDefined)}  # type: ignore[attr-defined]
        (queued,) = events_in(log, e.OperationQueued)
        assert dict(requirements_of(interned[queued.requirement_id]))["cpu_millis"] == "2000"  # type: ignore[attr-defined]
        path.write_text("mnemonic,cpu_millis\nCppLink,3000\n")
        await until(lambda: len(loaded(log)) == 2, "loaded again")
        assert loaded(log)[1] == (ResourceHint("", "CppLink", 3_000, 0),)


async def test_a_file_that_breaks_is_said_once_and_the_hints_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = written(tmp_path, "hints.csv", CSV)
    async with configured(main=HISTORICAL) as log, loading(log, path):
        await until(lambda: loaded(log) == [HINTS], "loaded")
        path.write_text("mnemonic,cpu_millis\nCppLink,many\n")
        await until(lambda: "the hints in force stay" in caplog.text, "said")
        path.unlink()
        await until(lambda: caplog.text.count("the hints in force stay") == 2, "said")
        path.write_text(CSV + "//b,,1,1\n")
        await until(lambda: len(loaded(log)) == 2, "loaded again")
        assert caplog.text.count("the hints in force stay") == 2
    assert loaded(log) == [HINTS, (*HINTS, ResourceHint("//b", "", 1, 1))]


async def test_hints_that_are_too_many_for_a_record_are_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = "".join(f"//{'x' * 200}:{number},1\n" for number in range(6_000))
    path = written(tmp_path, "hints.csv", "target_id,cpu_millis\n" + rows)
    async with configured(main=HISTORICAL) as log, loading(log, path):
        await until(lambda: "the hints in force stay" in caplog.text, "said")
    assert loaded(log) == []
    assert "over the limit of 1048576 bytes" in str([vars(record) for record in caplog.records])


async def test_hints_that_are_in_force_already_are_no_news(tmp_path: Path) -> None:
    path = written(tmp_path, "hints.csv", CSV)
    async with configured(main=HISTORICAL) as log:
        async with loading(log, path):
            await until(lambda: loaded(log) == [HINTS], "loaded")
        async with loading(log, path):
            await until(lambda: len(events_in(log, e.FactIgnored)) == 1, "ignored")
    assert loaded(log) == [HINTS]


async def test_a_log_that_is_away_is_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = written(tmp_path, "hints.csv", CSV)
    async with configured(main=HISTORICAL) as log:
        log.cut()
        async with loading(log, path):
            await until(lambda: "hints wait for the log" in caplog.text, "said")
            log.mend()
            await until(lambda: loaded(log) == [HINTS], "loaded")
