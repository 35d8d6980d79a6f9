"""`headway bench`: measurements are found by their module, their keyword arguments become options, limits have an exit code."""

from __future__ import annotations

import json
import sys
from types import ModuleType

import pytest
from click.testing import CliRunner

from streams.cli import bench
from streams.cli.main import main


@pytest.fixture
def measured(monkeypatch):
    """A measurement `fake-one`, whose `run` is given by the test."""

    def give(run) -> None:
        module = ModuleType("streams.bench.fake_one")
        module.run = run
        monkeypatch.setitem(sys.modules, "streams.bench.fake_one", module)
        monkeypatch.setattr(bench, "benches", lambda: {"fake-one": "A measurement."})

    return give


def run(*arguments: str, code: int = 0):
    result = CliRunner().invoke(main, ["bench", *arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def row(value: float, limit: float | None) -> dict[str, object]:
    ratio = None if limit is None else value / limit
    return {"case": "c", "value": value, "unit": "ms", "limit": limit, "ratio": ratio}


def test_rows_come_with_the_machine_they_were_measured_on(measured):
    measured(lambda: [row(1.5, 3.0)])
    answer = json.loads(run("fake-one", "-o", "json").stdout)
    assert list(answer) == ["bench", "machine", "rows"]
    assert answer["bench"] == "fake-one"
    assert answer["rows"] == [{"case": "c", "value": 1.5, "unit": "ms", "limit": 3.0, "ratio": 0.5}]
    assert {"cpus", "memory_mib", "python", "system", "headway"} <= answer["machine"].keys()


def test_a_value_beyond_its_limit_is_exit_code_3(measured):
    measured(lambda: [row(4.0, 3.0), row(1.0, None), {**row(9.0, None), "ratio": 9.0}])
    result = run("fake-one", code=3)
    assert "1 of 3 value(s) beyond the limit: c" in result.stderr


def test_keyword_arguments_become_options_and_a_measurement_may_be_async(measured):
    async def measure(*, rounds: int = 3, name: str = "x"):
        return [{**row(float(rounds), None), "case": name}]

    measured(measure)
    (found,) = json.loads(run("fake-one", "--rounds", "7", "--name", "y", "-o", "json").stdout)["rows"]
    assert (found["value"], found["case"]) == (7.0, "y")


def test_an_unknown_measurement_is_a_usage_error(measured):
    measured(list)
    assert run("nope", code=2)


def test_every_measurement_says_what_it_measures():
    assert bench.benches()
    assert all(bench.benches().values())
