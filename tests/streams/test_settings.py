"""Settings from the environment."""

from pathlib import Path

import pytest

from streams.settings import InvalidSetting, Settings, load_settings


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    for name in Settings.model_fields:
        monkeypatch.delenv(f"HEADWAY_{name.upper()}", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


def test_the_defaults_are_those_of_the_xdg_rule(tmp_path, monkeypatch):
    assert load_settings().home == tmp_path / "headway"
    monkeypatch.delenv("XDG_DATA_HOME")
    assert load_settings().home == Path.home() / ".local" / "share" / "headway"
    assert load_settings().views_address == "http://127.0.0.1:8087"


def test_variables_and_then_options_win(monkeypatch):
    monkeypatch.setenv("HEADWAY_BOOTSTRAP_SERVERS", "a:1")
    monkeypatch.setenv("HEADWAY_WEB_PORT", "1234")
    assert load_settings().bootstrap_servers == "a:1"
    assert load_settings(bootstrap_servers="b:2").bootstrap_servers == "b:2"
    assert load_settings(bootstrap_servers=None).bootstrap_servers == "a:1"
    assert load_settings().views_address == "http://127.0.0.1:1234"


def test_an_empty_variable_counts_as_unset(monkeypatch):
    monkeypatch.setenv("HEADWAY_BOOTSTRAP_SERVERS", "")
    assert load_settings().bootstrap_servers is None


def test_a_relative_home_becomes_absolute(monkeypatch):
    monkeypatch.setenv("HEADWAY_HOME", "~/x")
    assert load_settings().home == Path.home() / "x"


@pytest.mark.parametrize(
    ("name", "value"),
    [("WEB_PORT", "0"), ("BROKER", "podman"), ("TOPIC_PREFIX", "no spaces"), ("VIEWS_URL", "localhost:1")],
)
def test_a_wrong_value_is_named_with_its_variable(monkeypatch, name, value):
    monkeypatch.setenv(f"HEADWAY_{name}", value)
    with pytest.raises(InvalidSetting) as caught:
        load_settings()
    assert caught.value.variable == f"HEADWAY_{name}"
    assert repr(value) in str(caught.value)
