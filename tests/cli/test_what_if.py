"""`headway what-if` over an exported directory: tables, JSON, windows, sweeps, plots, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from events.codec import encode_event
from events.codec.chain import GENESIS_CHAIN
from events.events import Event, LeaderElected
from streams.cli.main import main
from streams.export import ExportWriter
from streams.log import Record
from streams.topics import EVENTS, FACTS, SHARDS
from streams.what_if import plotting
from tests.recorded.run import recorded_run
from tests.recorded.tampering import write_directory
from tests.stories.notation import accept, alive, cancel, connect, finish, queue
from tests.stories.story import Story


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_directory(recorded_run(), tmp_path_factory.mktemp("what-if") / "run")


def what_if(directory: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["what-if", "--file", str(directory), *arguments])


def answer(directory: Path, *arguments: str) -> dict[str, Any]:
    done = what_if(directory, *arguments, "-o", "json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_with_the_hold_off_large_actions_wait_longer_and_the_model_s_error_stands_beside(directory: Path) -> None:
    found = answer(directory, "--set", "hold=off", "--longest", "3")
    recorded, unchanged, exchanged, off = found["policies"]
    assert [row["policy"] for row in found["policies"]] == ["recorded", "unchanged", "exchanged", "changed"]
    assert off["set"] == ["hold=off"]
    assert off["large"]["mean_us"] > recorded["large"]["mean_us"]
    assert unchanged["waits"] == recorded["waits"]
    assert off["error"] == found["error"]
    assert found["error"]["most"]["waits"]["mean_us"] == abs(
        exchanged["waits"]["mean_us"] - recorded["waits"]["mean_us"]
    )
    assert len(found["longest"]) == 3
    assert off["first_divergence"]["recorded"]["kind"] == "HoldMade"


def test_the_table_says_what_the_json_says(directory: Path) -> None:
    text = what_if(directory, "--set", "hold=off").stdout
    found = answer(directory, "--set", "hold=off")
    off = found["policies"][-1]
    assert f"first decides otherwise at seq {off['first_divergence']['seq']}" in text
    assert f"{off['facts']['share_of_runs_real']:.0%} of what workers say of runs is as recorded" in text
    assert "±" in next(line for line in text.splitlines() if line.startswith("hold=off "))
    assert f"of {found['each']['operations']} recorded waits it gives {found['each']['exact']} exactly" in text


def test_an_operation_is_answered_for_first(directory: Path) -> None:
    longest = answer(directory, "--longest", "1")["longest"][0]
    for name in (longest["id"], longest["client_operation_id"]):
        text = what_if(directory, "--set", "hold=off", "--operation", name).stdout
        first, second = text.splitlines()[:2]
        assert first.startswith(longest["id"])
        assert second.startswith("  with hold=off: ")
    told = answer(directory, "--set", "hold=off", "--operation", longest["id"])["operation"]
    assert told["recorded_us"] == told["unchanged_us"] == longest["recorded_us"]
    missing = what_if(directory, "--operation", "nobody")
    assert missing.exit_code == 4
    assert "was not queued in this window" in missing.stderr


def test_a_window_is_decided_again_alone(directory: Path) -> None:
    found = answer(directory, "--from", "3000", "--to", "5000")
    window = found["window"]
    assert window["from_seq"] <= 3000 <= 5000 <= window["to_seq"] < 5100
    assert found["each"]["exact"] == found["each"]["operations"]
    by_time = answer(directory, "--from", "2027-01-15T08:05:00Z", "--to", "2027-01-15T08:06:00Z")["window"]
    assert by_time["from_at_us"] >= 1_800_000_300_000_000
    assert by_time["to_at_us"] <= 1_800_000_360_000_000
    empty = what_if(directory, "--from", "2030-01-01")
    assert empty.exit_code == 1
    assert "has no event in the window" in empty.stderr


def test_a_sweep_compares_its_values_in_order_and_the_same_each_time(directory: Path) -> None:
    arguments = ("--sweep", "hold.after_s=5..45/20", "--set", "allocation_strategy=best_fit")
    found = answer(directory, *arguments)
    swept = [row["set"] for row in found["policies"] if row["policy"] == "changed"]
    assert swept == [["allocation_strategy=best_fit", f"hold.after_s={value}"] for value in (5, 25, 45)]
    assert answer(directory, *arguments) == found


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--set", "hold.afer_s=3"), "configuration field 'hold.afer_s': '3' is refused: there is no such option"),
        (("--set", "hold.after_s=soon"), "configuration field 'hold.after_s': 'soon' is refused"),
        (("--set", "hold"), "write PATH=VALUE"),
        (("--sweep", "hold.after_s=9..1"), "is no range"),
        (("--from", "yesterday"), "a moment is the seq of an event"),
        (("--from", "500", "--to", "400"), "--from seq 500 lies after --to seq 400"),
        (("--from", "2027-01-15T08:06", "--to", "2027-01-15T08:05"), "name the earlier one as --from"),
    ],
)
def test_what_cannot_be_asked_is_refused_as_usage(directory: Path, arguments: tuple[str, ...], said: str) -> None:
    done = what_if(directory, *arguments)
    assert done.exit_code == 2
    assert said in done.stderr


def test_an_unknown_instance_is_named_with_the_known_ones(directory: Path) -> None:
    done = what_if(directory, "--instance", "night")
    assert done.exit_code == 4
    assert "known instances: 'main'" in done.stderr


@pytest.fixture(scope="module")
def stuck(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two instances. In `main` x waits behind a till the end, and nothing could ever run the two huge ones."""
    story = Story()
    story.given(connect("w1", cpu=4), queue("huge", cpu=64), queue("gone", cpu=64), queue("small", cpu=1))
    story.given(accept("small"), alive(5), finish("small"), queue("a", cpu=3), accept("a"), cancel("gone"))
    story.given(queue("x", cpu=2), alive(30))
    path = tmp_path_factory.mktemp("stuck") / "run"
    writer = ExportWriter(
        path,
        cluster_id="story",
        topics={EVENTS: ("events", 2), FACTS: ("facts", 2), SHARDS: ("shards", 1)},
        shards={"main": 0, "night": 1},
    )
    values = encoded(story.rehearsal.events)
    writer.add((EVENTS, 0), values)
    writer.cover((EVENTS, 0), 0, len(values))
    writer.finish()
    return path


def encoded(events: list[Event]) -> list[Record]:
    """Events as records of a log, chained."""
    records: list[Record] = []
    chain, epoch = GENESIS_CHAIN, 0
    for offset, event in enumerate(events):
        epoch = event.leader_epoch if isinstance(event, LeaderElected) else epoch
        value, chain = encode_event(event, epoch, chain)
        records.append(Record(offset, event.at_us, None, value))
    return records


def test_what_still_waits_at_the_end_is_not_told_as_a_wait_that_ended(stuck: Path) -> None:
    text = what_if(stuck, "--set", "hold.after_s=5", "--operation", "x").stdout
    first, second, third = text.splitlines()[:3]
    assert first.endswith("waited at least 30.00s, still waiting at the end of the window")
    assert second.endswith("with hold.after_s=5: at least 30.00s, still waiting at the end of the window")
    assert third.count("still waiting at the end of the window") == 2
    assert ">=30.00s" in next(line for line in text.splitlines() if line.startswith("main/op-") and " x " in line)
    assert ">=: still waiting at the end of the window" in text
    asked = answer(stuck, "--set", "hold.after_s=5", "--operation", "x")["operation"]
    assert (asked["recorded_open"], asked["unchanged_open"], asked["changed_open"]) == (True, True, [True])
    ended = answer(stuck, "--set", "hold.after_s=5", "--operation", "small")["operation"]
    assert (ended["recorded_open"], ended["changed_open"], ended["could_run"]) == (False, [False], True)


def test_what_no_worker_could_ever_run_is_in_no_wait_and_named(stuck: Path) -> None:
    found = answer(stuck, "--set", "hold.after_s=5")
    assert found["left_out"]["operations"] == 2
    assert [each["client_operation_id"] for each in found["left_out"]["told"]] == ["huge", "gone"]
    for policy in found["policies"]:
        assert (policy["waits"]["operations"], policy["waits"]["max_us"]) == (3, 30_000_000)
        assert policy["unplaced"] == 2
    assert {each["client_operation_id"] for each in found["longest"]} == {"small", "a", "x"}
    text = what_if(stuck, "--set", "hold.after_s=5").stdout
    assert "left out of the waits: 2 operations that no connected worker could ever run while they waited" in text
    asked = what_if(stuck, "--operation", "huge").stdout
    assert "no connected worker could ever run it while it waited" in asked


def test_other_instances_are_named_where_none_was_chosen(stuck: Path) -> None:
    said = "of main alone; the log also has: --instance night"
    assert said in what_if(stuck).stdout
    assert answer(stuck)["other_instances"] == ["night"]
    assert said not in what_if(stuck, "--instance", "main").stdout


def test_plots_show_the_swept_values_and_are_the_same_each_time(directory: Path, tmp_path: Path) -> None:
    paths = [tmp_path / "one.svg", tmp_path / "two.svg", tmp_path / "three.png"]
    for path in paths:
        done = what_if(directory, "--sweep", "hold.after_s=5,30,60", "--plot", str(path))
        assert done.exit_code == 0, done.output
        assert f"plotted into {path}" in done.stderr
    assert paths[0].read_bytes() == paths[1].read_bytes()
    texts = {"".join(element.itertext()).strip() for element in ElementTree.parse(paths[0]).getroot().iter()}
    for wanted in ("hold.after_s (seconds)", "Longest wait of large actions", "core-seconds", "as recorded"):
        assert wanted in texts
    assert paths[2].read_bytes().startswith(b"\x89PNG")


def test_policies_that_are_no_numbers_stand_side_by_side_in_a_plot(directory: Path, tmp_path: Path) -> None:
    path = tmp_path / "plot.svg"
    swept = "allocation_strategy=best_fit,least_loaded"
    assert what_if(directory, "--sweep", swept, "--plot", str(path)).exit_code == 0
    assert "allocation_strategy=least_loaded" in path.read_text()


@pytest.mark.parametrize("name", ["plot.pdf", "plot"])
def test_other_files_are_refused_before_the_work(directory: Path, tmp_path: Path, name: str) -> None:
    done = what_if(directory, "--plot", str(tmp_path / name))
    assert done.exit_code == 1
    assert "ends in .svg or .png" in done.stderr
    assert done.stdout == ""


def test_without_matplotlib_a_plot_is_refused_with_the_extra_to_install(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plotting, "find_spec", lambda name: None)
    done = what_if(directory, "--plot", str(tmp_path / "plot.svg"))
    assert done.exit_code == 1
    assert "matplotlib is not installed" in done.stderr
    assert "headway[plot]" in done.stderr
    assert what_if(directory).exit_code == 0


def test_an_export_of_events_alone_is_enough_and_what_was_made_again_is_said(directory: Path, tmp_path: Path) -> None:
    run = recorded_run()
    writer = ExportWriter(
        tmp_path / "events",
        cluster_id="recorded",
        topics={EVENTS: ("events", 1), FACTS: ("facts", 1), SHARDS: ("shards", 1)},
        shards={"main": 0},
    )
    records = run.log.records((EVENTS, 0))
    writer.add((EVENTS, 0), records)
    writer.cover((EVENTS, 0), records[0].offset, records[-1].offset + 1)
    writer.finish()
    found = answer(tmp_path / "events", "--set", "hold=off")
    assert found["window"]["facts_rebuilt"] == found["window"]["facts"]
    whole = answer(directory, "--set", "hold=off")
    assert found["policies"] == whole["policies"]
    assert "are gone from the log and were made again from their events" in what_if(tmp_path / "events").stdout
