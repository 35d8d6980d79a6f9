"""The history as flat tables: every row is there once, and times add up."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from events import events as e
from projections.tables import TABLES, Tabulation
from tests.projections.histories import History

DOCS = Path(__file__).parents[2] / "infra" / "docs" / "tables.md"


def tabulated(history: History) -> dict[str, list[dict[str, object]]]:
    found: dict[str, list[dict[str, object]]] = {name: [] for name in TABLES}
    tabulation = Tabulation(3, lambda table, row: found[table].append(row))
    for event in history.events:
        tabulation.take(event)
    tabulation.finish()
    return found


@pytest.mark.parametrize("seed", range(6))
def test_every_operation_dispatch_worker_and_hold_has_one_row(seed):
    history = History(seed).run(600)
    found = tabulated(history)
    kinds = Counter(type(event) for event in history.events)
    assert {name: len(rows) for name, rows in found.items()} == {
        "operations": kinds[e.OperationQueued],
        "dispatches": kinds[e.OperationDispatched],
        "workers": kinds[e.WorkerAdmitted],
        "holds": kinds[e.HoldMade],
        "configurations": kinds[e.Configured],
        "refusals": kinds[e.FactRejected] + kinds[e.FactIgnored],
        "events": len(history.events),
    }
    for name, columns in TABLES.items():
        names = {column.name for column in columns}
        assert [row for row in found[name] if not row.keys() <= names or row["shard"] != 3] == []


@pytest.mark.parametrize("seed", range(6))
def test_what_an_operation_waited_and_was_dispatched_is_its_life(seed):
    ended = [row for row in tabulated(History(seed).run(600))["operations"] if row.get("finished_at") is not None]
    assert ended
    for row in ended:
        assert row["waiting_us"] + row["dispatched_us"] == row["finished_at"] - row["queued_at"], row


def test_counts_of_an_operation_are_those_of_its_dispatches():
    found = tabulated(History(3).run(800))
    by_operation = Counter(row["operation_id"] for row in found["dispatches"])
    requeued = Counter(row["operation_id"] for row in found["dispatches"] if row.get("end") == "requeued")
    for row in found["operations"]:
        assert row["dispatches"] == by_operation[row["operation_id"]]
        assert row["requeues"] == requeued[row["operation_id"]]
    assert requeued


def test_an_end_without_a_run_of_its_own_has_no_exit_code():
    rows = tabulated(History(1).run(600))["operations"]
    ended = [row for row in rows if row.get("outcome") is not None]
    without = [row for row in ended if row["outcome"] not in ("completed", "completed_from_cache")]
    assert without != []
    assert {row["exit_code"] for row in without} == {None}
    assert None not in {row["exit_code"] for row in ended if row not in without}


def test_every_column_is_documented_with_what_it_means():
    due = [
        f"| `{column.name}` | {column.kind} | {column.meaning} |" for columns in TABLES.values() for column in columns
    ]
    lines = DOCS.read_text().splitlines()
    assert [line for line in due if line not in lines] == []
    assert [name for name in TABLES if f"## `{name}.parquet`" not in lines] == []
