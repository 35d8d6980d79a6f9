"""`headway bench`: measurements are found by their module, their keyword arguments become options, limits have an exit code."""

from __future__ import annotations

import json
import sys
from types import ModuleType

import pytest
from click.testing import CliRunner
from pydantic import BaseModel, ConfigDict, NonNegativeFloat, PositiveFloat, PositiveInt

from streams.bench._machine import addition_ns
from streams.bench._rows import at_least, at_most, missed, not_measured, percentile, reference
from streams.cli import bench
from streams.cli.main import main


class Machine(BaseModel):
    """What stands beside the rows, exactly."""

    model_config = ConfigDict(extra="forbid", strict=True)

    cpus: PositiveInt
    cpu: str
    memory_mib: PositiveInt
    python: str
    python_build: str
    system: str
    headway: str
    load: list[NonNegativeFloat]
    addition_ns: PositiveFloat


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
    Machine.model_validate(answer["machine"])


def test_a_table_ends_with_the_machine(measured):
    measured(lambda: [row(1.5, 3.0)])
    assert "addition_ns" in run("fake-one").stdout.splitlines()[-1]


def test_a_figure_that_could_not_be_measured_is_empty_and_misses_nothing(measured):
    measured(lambda: [not_measured("tasks of a rival", "1/s", "not installed")])
    assert "tasks of a rival: not installed" in run("fake-one").stdout


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


@pytest.mark.parametrize(
    ("made", "value", "limit", "ratio", "beyond"),
    [
        (at_most("c", 10.0, "ms", 20.0), 10.0, 20.0, 0.5, False),
        (at_most("c", 20.0, "ms", 20.0), 20.0, 20.0, 1.0, False),
        (at_most("c", 21.0, "ms", 20.0), 21.0, 20.0, 1.05, True),
        (at_least("c", 40_000.4, "1/s", 20_000), 40_000, 20_000, 0.5, False),
        (at_least("c", 10_000.0, "1/s", 20_000), 10_000, 20_000, 2.0, True),
        (at_least("c", 0.0, "1/s", 20_000), 0.0, 20_000, None, True),
        (reference("c", 12.34567, "us"), 12.346, None, None, False),
        (reference("c", 50.0, "us", per=20.0), 50.0, None, 2.5, False),
    ],
)
def test_a_ratio_is_at_most_one_exactly_where_the_limit_is_met(made, value, limit, ratio, beyond):
    assert (made["value"], made["limit"], made["ratio"], missed(made)) == (value, limit, ratio, beyond)


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.5, 51), (0.99, 100), (1.0, 100)])
def test_a_percentile_is_a_value_that_was_seen(share, value):
    assert percentile(range(1, 101), share) == value


def test_an_addition_takes_time():
    assert 1 < addition_ns() < 10_000
