"""The `headway` command itself: every noun is named, one that cannot be loaded hurts no other, errors have an exit code."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from events.errors import InvalidConfiguration
from streams.cli import main as cli
from streams.cli.main import NOUNS, Noun, load, main
from streams.errors import LogUnavailable, UnknownInstance
from streams.views import NotInTable


def run(*arguments: str, **options: object) -> object:
    return CliRunner(env={"HEADWAY_HOME": "", "HEADWAY_BOOTSTRAP_SERVERS": ""}).invoke(main, arguments, **options)


def test_the_help_names_every_noun_with_one_line_and_every_variable():
    text = run("--help").stdout
    for noun, (_, line) in NOUNS.items():
        assert f"  {noun} " in text
        assert line.split()[0] in text
    for variable in ("HEADWAY_HOME", "HEADWAY_BOOTSTRAP_SERVERS", "HEADWAY_TOPIC_PREFIX", "HEADWAY_WEB_PORT"):
        assert variable in text
    assert "3 a check failed" in text


@pytest.mark.parametrize("noun", NOUNS)
def test_every_noun_loads_and_has_help(noun):
    command = load(noun)
    assert isinstance(command, click.Command)
    assert run(noun, "--help").exit_code == 0


def test_the_help_imports_no_noun():
    script = (
        "import sys; from click.testing import CliRunner; from streams.cli.main import main;"
        "assert CliRunner().invoke(main, ['--help']).exit_code == 0;"
        "print(sorted(m for m in sys.modules if m.split('.')[0] in ('faust', 'rocksdict', 'aiokafka')))"
    )
    assert (
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()
        == "[]"
    )


def test_a_noun_that_cannot_be_loaded_says_so_and_the_others_work(monkeypatch):
    monkeypatch.setitem(cli.NOUNS, "queue", Noun("no_such_module", "Broken."))
    broken = run("queue", "list")
    assert broken.exit_code == 1
    assert "`headway queue` cannot be loaded" in broken.stderr
    assert "no_such_module" in broken.stderr
    assert run("--help").exit_code == 0
    assert run("topics", "--help").exit_code == 0


def test_an_unknown_noun_is_a_usage_error():
    assert run("quue").exit_code == 2


def test_the_version_is_the_installed_one():
    assert run("--version").stdout.strip() == f"headway, version {cli.version()}"


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (LogUnavailable("ask", address="a:1", waited_ms=5), 1, "error [log-unavailable]: ask: "),
        (UnknownInstance("x", ["main"]), 4, "error [unknown-instance]: unknown instance 'x'; known instances: 'main'"),
        (NotInTable("operation 'x' is not there", remedy="Look elsewhere"), 4, "Look elsewhere"),
        (InvalidConfiguration("a.b", "7", "must be 8"), 1, "error [HW-101]: configuration field 'a.b': '7' is refused"),
    ],
)
def test_errors_of_headway_are_messages_with_an_exit_code(monkeypatch, error, code, said):
    @click.command("queue")
    def failing() -> None:
        raise error

    monkeypatch.setitem(main.commands, "queue", failing)
    result = run("queue")
    assert result.exit_code == code
    assert said in result.stderr
    assert result.stdout == ""


def test_a_wrong_variable_is_named(monkeypatch):
    monkeypatch.setenv("HEADWAY_WEB_PORT", "99999999")
    result = CliRunner().invoke(main, ["queue", "list"])
    assert result.exit_code == 1
    assert "HEADWAY_WEB_PORT='99999999' is refused" in result.stderr


@pytest.mark.parametrize("number", ["nan", "inf"])
@pytest.mark.parametrize(
    "command",
    [("worker", "run", "--memory-kib", "5", "--cores"), ("queue", "list", "--watch"), ("up", "--worker-cores")],
)
def test_a_number_that_nothing_can_compute_with_is_a_usage_error(command, number):
    result = run(*command, number)
    assert result.exit_code == 2
    assert f"'{command[-1]}': {number}" in result.stderr
