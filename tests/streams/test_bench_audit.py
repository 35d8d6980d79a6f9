"""`headway bench audit` on a history of minutes: every part is measured, and the history is sound."""

from __future__ import annotations

import pytest

from streams.bench import audit
from streams.bench._rows import BenchFailed


@pytest.mark.slow
def test_every_part_is_measured_on_a_small_history():
    rows = {row["case"]: row for row in audit.run(events=15_000)}
    assert 7_000 < rows["events"]["value"] < 30_000
    for case in ("index built from the log", "verify with its facts", "verify without facts"):
        assert rows[case]["value"] > 1_000
    assert rows["verify with its facts"]["limit"] == rows["verify without facts"]["limit"] == 50_000
    explained = [case for case in rows if case.startswith("explain")]
    assert {case.split()[1].rstrip(",:") for case in explained} == {"operation", "hold", "worker"}
    assert all(row["value"] > 0 or "has none" in case for case, row in rows.items() if case in explained)
    assert all((row["limit"] is None) == (row["ratio"] is None) for row in rows.values())


def test_a_process_that_explains_nothing_is_no_figure(tmp_path):
    with pytest.raises(BenchFailed, match=r"ended with [1-4]"):
        audit._cold(tmp_path, tmp_path / "home", 7)
