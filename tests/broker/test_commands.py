"""`headway broker up | status | down`, as a person or a script uses it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from streams.broker import BrokerSettings, bring_down
from streams.cli.broker import broker, default_home

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broker_settings: BrokerSettings) -> Iterator[Path]:
    for name in ("HEADWAY_BROKER", "HEADWAY_BOOTSTRAP_SERVERS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HEADWAY_HOME", str(tmp_path / "home"))
    yield tmp_path / "home"
    bring_down(tmp_path / "home", settings=broker_settings)


@pytest.mark.kafka
def test_up_status_down_and_reset(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = CliRunner()
    monkeypatch.setenv("HEADWAY_BROKER", "jvm")
    up = run.invoke(broker, ["up", "-o", "json"])
    assert up.exit_code == 0, up.output
    found = json.loads(up.stdout)
    assert found.keys() == {"running", "kind", "bootstrap_servers", "version", "home", "pid"}
    assert (found["running"], found["kind"], found["version"], found["home"]) == (True, "jvm", "4.4.0", str(home))

    status = run.invoke(broker, ["status"])
    assert status.exit_code == 0
    assert status.stdout == f"Kafka 4.4.0 at {found['bootstrap_servers']} (jvm, pid {found['pid']}), home {home}\n"

    down = run.invoke(broker, ["down", "-o", "json"])
    assert json.loads(down.stdout) == {"stopped": True, "reset": False, "home": str(home)}
    assert (home / "kafka" / "data").is_dir()
    reset = run.invoke(broker, ["down", "--reset"])
    assert (reset.exit_code, reset.stdout) == (0, f"no broker ran in {home}; its data are deleted\n")
    assert not (home / "kafka").exists()


def test_status_without_a_broker_is_exit_code_4_with_the_remedy_on_stderr(home: Path) -> None:
    result = CliRunner().invoke(broker, ["status", "-o", "json"])
    assert result.exit_code == 4
    assert json.loads(result.stdout) == {"running": False, "home": str(home)}
    assert result.stderr == f"no broker runs in {home}; `headway broker up` starts one\n"


def test_a_failure_is_exit_code_1_with_the_reason_on_stderr(home: Path) -> None:
    result = CliRunner().invoke(broker, ["up", "--way", "cluster"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "error: cluster: HEADWAY_BOOTSTRAP_SERVERS is not set\n"
    as_json = CliRunner().invoke(broker, ["up", "--way", "cluster", "-o", "json"])
    assert json.loads(as_json.stderr)["error"] == "broker-failed"


@pytest.mark.parametrize("arguments", [["up", "--way", "podman"], ["up", "--port", "40000"], ["sideways"]])
def test_a_wrong_argument_is_exit_code_2(home: Path, arguments: list[str]) -> None:
    assert CliRunner().invoke(broker, arguments).exit_code == 2


@pytest.mark.kafka
def test_a_cluster_named_in_the_environment_is_used(home: Path, kafka: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_BOOTSTRAP_SERVERS", kafka)
    result = CliRunner().invoke(broker, ["status", "-o", "json"])
    assert json.loads(result.stdout)["kind"] == "cluster"


def test_the_default_home_is_the_users_data_directory() -> None:
    assert default_home({"XDG_DATA_HOME": "/data"}) == Path("/data/headway")
    assert default_home({}) == Path.home() / ".local" / "share" / "headway"
