"""`headway config`: every example is accepted, NativeLink's file is imported, and what is left out is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from events.config.reference import reference
from streams.cli.main import main

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "infra/examples").glob("*.json"))
NATIVELINK = str(ROOT / "infra/examples/nativelink-basic.json5")


def run(*arguments: str, code: int = 0, **options) -> Result:
    result = CliRunner().invoke(main, ["config", *arguments], **options)
    assert result.exit_code == code, (result.output, result.exception)
    return result


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.name for path in EXAMPLES])
def test_an_example_is_accepted_and_shown(path):
    shown = json.loads(run("set", str(path), "--dry-run", "-o", "json").stdout)
    given = json.loads(path.read_text())
    assert {name: shown[name] for name in given if not isinstance(given[name], dict | list)} == {
        name: value for name, value in given.items() if not isinstance(value, dict | list)
    }


def test_a_nested_configuration_is_shown_by_the_paths_of_its_options():
    path = str(ROOT / "infra/examples/everything-around-simple.json")
    lines = [line.split() for line in run("set", path, "--dry-run").stdout.splitlines()]
    assert ["scheduler.modifications", "remove", "container-image"] in lines
    assert ["scheduler.scheduler.scheduler.hold.after_s", "120"] in lines


def test_an_import_shows_what_it_read_and_says_what_it_left_out():
    result = run("import", NATIVELINK, "--scheduler", "MAIN_SCHEDULER", "--dry-run", "-o", "json")
    assert json.loads(result.stdout)["scheduler"]["scheduler"]["worker_timeout_s"] == 30
    assert "experimental_backend: not applicable: state is a fold of the log" in result.stderr
    # What was read is what `config set` takes.
    assert json.loads(run("set", "-", "--dry-run", "-o", "json", input=result.stdout).stdout) == json.loads(
        result.stdout
    )


def test_variables_are_taken_from_the_command_line_or_by_name_from_the_environment():
    arguments = ("import", NATIVELINK, "--scheduler", "MAIN_SCHEDULER", "--dry-run", "-o", "json")

    def worker_timeout_s(*more: str, **options) -> int:
        return json.loads(run(*arguments, *more, **options).stdout)["scheduler"]["scheduler"]["worker_timeout_s"]

    assert worker_timeout_s("--env", "WORKER_TIMEOUT=45s") == 45
    assert worker_timeout_s("--env", "WORKER_TIMEOUT", env={"WORKER_TIMEOUT": "1m"}) == 60
    assert worker_timeout_s(env={"WORKER_TIMEOUT": "1m"}) == 30  # not named: the file's own default
    assert "no such variable" in run(*arguments, "--env", "NOWHERE_SET", code=2).stderr


def test_an_import_that_cannot_be_read_says_where_in_the_file(tmp_path):
    path = tmp_path / "nativelink.json5"
    path.write_text("{schedulers: [{name: 'A', simple: {worker_timeout: 5}}]}")
    result = run("import", str(path), "--dry-run", code=1)
    assert "error [HW-101]: configuration field 'schedulers[0].simple.worker_timeout'" in result.stderr
    assert "did you mean 'worker_timeout_s'?" in result.stderr


def test_a_grpc_scheduler_needs_the_name_of_an_instance():
    assert "--upstream-instance" in run("import", NATIVELINK, "--scheduler", "FARM", "--dry-run", code=1).stderr
    shown = run("import", NATIVELINK, "--scheduler", "FARM", "--upstream-instance", "farm", "--dry-run", "-o", "json")
    assert json.loads(shown.stdout)["instance"] == "farm"
    assert "goes with" in run("import", NATIVELINK, "--upstream-bootstrap", "k:9092", code=2).stderr


def test_the_reference_is_printed_as_the_page():
    assert run("reference").stdout == reference()


@pytest.mark.parametrize("verb", ["set", "import"])
@pytest.mark.parametrize("text", ["", " \n"], ids=["nothing", "blank"])
def test_an_empty_configuration_is_said_to_be_empty_and_where(tmp_path, verb, text):
    said = "is empty: a configuration is a JSON object"
    assert f"error [HW-101]: standard input {said}" in run(verb, "-", "--dry-run", code=1, input=text).stderr
    path = tmp_path / "empty.json"
    path.write_text(text)
    assert f"error [HW-101]: {path} {said}" in run(verb, str(path), "--dry-run", code=1).stderr
