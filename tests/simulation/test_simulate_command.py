"""`headway simulate`: its JSON, its tables, and what it says of wrong input."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from streams.cli.main import main

FIGURES = {"mean_wait_min", "bounded_slowdown", "longest_wait_h", "utilisation", "holds", "held_idle_core_s"}
KTH = Path(__file__).parents[1] / "fixtures" / "kth" / "KTH-SP2-1996-2.1-cln.swf.gz"
OPENB = Path(__file__).parents[1] / "fixtures" / "openb"


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """The first 300 jobs of the KTH trace."""
    lines = gzip.decompress(KTH.read_bytes()).decode("latin-1").splitlines(keepends=True)
    records = [line for line in lines if not line.startswith(";")][:300]
    path = tmp_path / "kth.swf"
    path.write_text("".join(records))
    return str(path)


def simulate(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["simulate", *arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def answer(*arguments: str) -> dict[str, object]:
    return json.loads(simulate(*arguments, "-o", "json").stdout)


def test_one_run_prints_its_figures_as_numbers(trace):
    found = answer(trace, "--workers", "1", "--cores", "100", "--policy", "easy")
    assert found.keys() >= FIGURES
    assert all(isinstance(found[name], int | float) for name in FIGURES)
    assert (found["trace"], found["policy"], found["after_s"], found["jobs"]) == ("kth.swf", "easy", 0, 300)
    assert found["holds"] > 0


def test_shaken_runs_print_median_low_and_high_and_the_same_seed_prints_the_same(trace):
    arguments = (trace, "--cores", "100", "--policy", "hold", "--shake", "3", "--seed", "5")
    found = answer(*arguments)
    assert all(found[name].keys() == {"median", "low", "high"} for name in FIGURES)
    waits = found["mean_wait_min"]
    assert waits["low"] < waits["median"] < waits["high"]
    assert (found["shake"], found["seed"], found["after_s"]) == (3, 5, 60)
    assert answer(*arguments) == found
    assert answer(*arguments[:-1], "6")["mean_wait_min"] != waits


def test_after_s_and_strategy_reach_the_core(trace):
    base = (trace, "--workers", "2", "--cores", "100")
    assert answer(*base, "--policy", "hold", "--after-s", "0")["holds"] > 0
    assert answer(*base, "--policy", "hold", "--after-s", "10000000")["holds"] == 0
    assert answer(*base, "--strategy", "best_fit") != answer(*base, "--strategy", "least_loaded")


def test_a_table_has_a_figure_a_line(trace):
    assert "mean_wait_min" in simulate(trace, "--cores", "100").stdout
    head, *_ = simulate(trace, "--cores", "100", "--shake", "2").stdout.splitlines()
    assert head.split() == ["FIGURE", "MEDIAN", "LOW", "HIGH"]


def test_an_openb_folder_runs_on_its_own_machines():
    assert answer(str(OPENB))["jobs"] == 700
    cut = simulate(str(OPENB), "--workers", "3", "--leave-out-unfit", "-o", "json")
    assert json.loads(cut.stdout)["jobs"] == 698
    assert "2 job(s) fit no worker and are left out" in cut.stderr


def test_the_scene_compares_three_ways():
    runs = answer("scene")["runs"]
    assert [(run["policy"], run["strategy"]) for run in runs] == [
        ("none", "least_recently_used"),
        ("none", "best_fit"),
        ("hold", "least_recently_used"),
    ]
    assert [run["placed_in_stream"] for run in runs][::2] == [0, 4]
    (only,) = answer("scene", "--policy", "easy", "--seed", "2")["runs"]
    assert (only["policy"], only["seed"]) == ("easy", 2)
    assert "PLACED IN STREAM" in simulate("scene").stdout


def test_the_farm_takes_workers_and_cores_and_one_policy_alone():
    found = answer("farm", "--workers", "1", "--cores", "12", "--policy", "hold", "--shake", "2")
    assert found["holds"].keys() == {"median", "low", "high"}
    assert (found["trace"], found["policy"]) == ("farm", "hold")


def test_the_farm_under_drain_time_begins_with_a_history_where_one_is_named():
    arguments = ("farm", "--workers", "1", "--cores", "12", "--policy", "drain_time")
    found, learnt = answer(*arguments), answer(*arguments, "--history-seed", "7")
    assert (found["policy"], found["after_s"], "history_seed" in found) == ("drain_time", 60, False)
    assert (learnt["history_seed"], learnt["jobs"]) == (7, found["jobs"])
    (only,) = answer("scene", "--policy", "drain_time", "--history-seed", "7")["runs"]
    assert only["placed_in_stream"] == 4


def test_the_farm_compares_without_and_with_a_hold():
    arguments = ("farm", "--workers", "1", "--cores", "12", "--shake", "1")
    found = answer(*arguments)
    assert found["none"].keys() == found["hold"].keys() == found["drain_time"].keys() >= FIGURES
    assert found["drain_time_by_hold"].keys() == {"longest_wait", "mean_wait", "held_idle"}
    assert found.keys() >= {"longest_wait_ratio", "held_idle_share"}
    assert "core-seconds held idle" in simulate(*arguments).stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("absent.swf", "--cores", "4"), 1, "cannot be read"),
        ((str(KTH),), 2, "--cores C is needed"),
        ((str(KTH), "--cores", "50"), 1, "650 of 28475 jobs fit no machine"),
        ((str(OPENB), "--cores", "4"), 2, "--cores does not go with"),
        ((str(OPENB), "--workers", "9"), 1, "holds 4 machines, --workers asks for 9"),
        ((str(OPENB.parent),), 1, "exactly one *pod*.csv; here: none"),
        (("scene", "--workers", "4"), 2, "--workers does not go with scene"),
        (("farm", "--workers", "1", "--cores", "4"), 2, "less than the 4.0 cores"),
        (("scene", "--policy", "hold", "--history-seed", "2"), 2, "--history-seed goes with --policy drain_time"),
        (("farm", "--history-seed", "4"), 2, "none of the seeds that are simulated (1 to 10)"),
        (("scene", "--policy", "best"), 2, "'best' is not one of"),
    ],
)
def test_wrong_input_is_said_with_the_numbers_and_the_remedy(arguments, code, said):
    assert said in simulate(*arguments, code=code).stderr
