"""`headway export tables`: Parquet from an exported log."""

from __future__ import annotations

import asyncio
import builtins
import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.compute
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result

from events import events as e
from projections.tables import TABLES
from streams.cli.main import main
from streams.topics import EVENTS
from tests.projections.histories import History
from tests.streams.exported import log_of, write_directory

E0 = (EVENTS, 0)


def tables(*arguments: str | Path) -> Result:
    environment = {"HEADWAY_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    return CliRunner(env=environment).invoke(main, ["export", "tables", *map(str, arguments)])


@pytest.fixture
def history(tmp_path: Path) -> History:
    """A history, exported into `tmp_path/log`."""
    made = History(5).run(400)

    async def write() -> None:
        log = await log_of(made)
        await write_directory(log, tmp_path / "log", {E0: log.records(E0)})

    asyncio.run(write())
    return made


def test_every_table_is_a_file_with_its_columns_and_rows(history, tmp_path):
    result = tables("--file", tmp_path / "log", "--to", tmp_path / "out", "-o", "json")
    assert result.exit_code == 0, result.output
    counts = {row["table"]: row["rows"] for row in json.loads(result.stdout)}
    read = {name: pyarrow.parquet.read_table(tmp_path / "out" / f"{name}.parquet") for name in TABLES}
    assert {name: table.num_rows for name, table in read.items()} == counts
    assert counts["events"] == len(history.events)
    for name, columns in TABLES.items():
        assert read[name].column_names == [column.name for column in columns]
    meaning = read["operations"].schema.field("queued_at").metadata[b"meaning"]
    assert meaning == b"when it was queued, after clamping"

    first = next(event for event in history.events if isinstance(event, e.OperationQueued))
    row = read["operations"].filter(pyarrow.compute.field("operation_id") == first.operation_id).to_pylist()[0]
    assert (row["client_operation_id"], row["queued_seq"]) == (first.client_operation_id, first.seq)
    assert row["queued_at"] == datetime.fromtimestamp((first.queued_at_us or first.at_us) / 1e6, UTC)
    assert dict(row["requirements"]).get("cpu_millis") == (
        None if row["cpu_millis"] is None else str(row["cpu_millis"])
    )


def test_files_are_made_anew(history, tmp_path):
    for _ in range(2):
        assert tables("--file", tmp_path / "log", "--to", tmp_path / "out").exit_code == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(f"{name}.parquet" for name in TABLES)


def test_a_damaged_log_leaves_no_table(history, tmp_path):
    async def forge() -> None:
        log = await log_of(History(5).run(400))
        records = log.records(E0)
        await write_directory(log, tmp_path / "forged", {E0: [*records[:30], *records[31:]]})

    asyncio.run(forge())
    result = tables("--file", tmp_path / "forged", "--to", tmp_path / "out")
    assert result.exit_code == 3
    assert "after event 30" in result.stderr
    assert list((tmp_path / "out").iterdir()) == []


def test_without_pyarrow_it_says_what_to_install(history, tmp_path, monkeypatch):
    imported = builtins.__import__

    def without(name: str, *args: object, **more: object) -> object:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return imported(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    result = tables("--file", tmp_path / "log", "--to", tmp_path / "out")
    assert result.exit_code == 1
    assert "pip install 'headway[parquet]'" in result.stderr
