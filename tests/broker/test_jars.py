"""The jar cache: complete or not there, checked against the pins, whole with two processes at once."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from streams.broker import BrokerFailed, BrokerSettings, jars
from streams.broker.jars import Jar, central_mirror, fetch_jars, jars_directory, pinned

CONTENT = {"a-1.jar": b"aaa", "b-2.jar": b"bb"}

Resolve = Callable[[list[str], Path, BrokerSettings, Callable[[str], None]], None]


def _settings_for(cache: Path) -> BrokerSettings:
    return BrokerSettings(cache=cache, environment={})


@pytest.fixture
def two_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pins of two small jars in place of Kafka's."""
    wanted = [Jar(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in CONTENT.items()]
    monkeypatch.setattr(jars, "pinned", lambda: (["g:a:1"], wanted))


def _resolving(content: dict[str, bytes], calls: list[str]) -> Resolve:
    def resolve(coordinates: list[str], target: Path, settings: BrokerSettings, say: Callable[[str], None]) -> None:
        calls.append(",".join(coordinates))
        for name, data in content.items():
            (target / name).write_bytes(data)

    return resolve


def _failing(reason: str) -> Resolve:
    def resolve(coordinates: list[str], target: Path, settings: BrokerSettings, say: Callable[[str], None]) -> None:
        raise BrokerFailed(reason)

    return resolve


@pytest.mark.usefixtures("two_jars")
def test_jars_are_resolved_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(jars, "_resolve_by_jgo", _resolving(CONTENT, calls))
    for _ in range(2):
        found = fetch_jars(_settings_for(tmp_path), print)
        assert {path.name: path.read_bytes() for path in found.glob("*.jar")} == CONTENT
    assert calls == ["g:a:1"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kafka-4.4.0", "kafka-4.4.0.lock"]


@pytest.mark.usefixtures("two_jars")
@pytest.mark.parametrize("damage", ["missing", "cut", "foreign", "no marker"])
def test_a_damaged_cache_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    calls: list[str] = []
    monkeypatch.setattr(jars, "_resolve_by_jgo", _resolving(CONTENT, calls))
    found = fetch_jars(_settings_for(tmp_path), print)
    match damage:
        case "missing":
            (found / "a-1.jar").unlink()
        case "cut":
            (found / "a-1.jar").write_bytes(b"aa")
        case "foreign":
            (found / "c-3.jar").write_bytes(b"c")
        case _:
            (found / jars.MARKER).unlink()
    found = fetch_jars(_settings_for(tmp_path), print)
    assert {path.name: path.read_bytes() for path in found.glob("*.jar")} == CONTENT
    assert len(calls) == 2


@pytest.mark.usefixtures("two_jars")
def test_what_a_killed_process_left_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kafka-4.4.0.x1y2.partial").mkdir()
    (tmp_path / "kafka-4.4.0.x1y2.partial" / "a-1.jar").write_bytes(b"a")
    monkeypatch.setattr(jars, "_resolve_by_jgo", _resolving(CONTENT, []))
    fetch_jars(_settings_for(tmp_path), print)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kafka-4.4.0", "kafka-4.4.0.lock"]


@pytest.mark.usefixtures("two_jars")
def test_several_at_once_resolve_once_and_all_get_whole_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(jars, "_resolve_by_jgo", _resolving(CONTENT, calls))
    gate, seen = threading.Barrier(4), []

    def fetch() -> None:
        gate.wait(timeout=30)
        found = fetch_jars(_settings_for(tmp_path), lambda line: None)
        seen.append({path.name: path.read_bytes() for path in found.glob("*.jar")})

    threads = [threading.Thread(target=fetch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert seen == [CONTENT] * 4
    assert len(calls) == 1


@pytest.mark.usefixtures("two_jars")
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({**CONTENT, "a-1.jar": b"bad"}, "a-1.jar has SHA-256 .*, pinned is"),
        ({"a-1.jar": b"aaa"}, r"missing \['b-2.jar'\], not pinned \[\]"),
        ({**CONTENT, "c-3.jar": b"c"}, r"missing \[\], not pinned \['c-3.jar'\]"),
    ],
)
def test_other_jars_than_pinned_never_reach_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: dict[str, bytes], reason: str
) -> None:
    monkeypatch.setattr(jars, "_resolve_by_jgo", _resolving(content, []))
    monkeypatch.setattr(jars, "_resolve_by_maven", _failing("mvn is not on PATH"))
    with pytest.raises(BrokerFailed, match=rf"jgo: .*{reason}.*; Maven: mvn is not on PATH"):
        fetch_jars(_settings_for(tmp_path), print)
    assert [path.name for path in tmp_path.iterdir()] == ["kafka-4.4.0.lock"]


@pytest.mark.usefixtures("two_jars")
def test_maven_resolves_where_jgo_fails_and_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "_resolve_by_jgo", _failing("no route"))
    monkeypatch.setattr(jars, "_resolve_by_maven", _resolving(CONTENT, []))
    said: list[str] = []
    fetch_jars(_settings_for(tmp_path), said.append)
    assert said == ["jvm: jgo: no route; resolved by Maven instead"]


def test_a_cache_that_cannot_be_written_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BrokerFailed, match=r"the jar cache .*file/kafka-4.4.0 cannot be written: .*XDG_CACHE_HOME"):
        fetch_jars(_settings_for(tmp_path / "file"), print)


def _settings_xml(tmp_path: Path, mirrors: str, servers: str = "") -> Path:
    path = tmp_path / "settings.xml"
    path.write_text(
        '<settings xmlns="http://maven.apache.org/SETTINGS/1.0.0">'
        f"<mirrors>{mirrors}</mirrors><servers>{servers}</servers></settings>"
    )
    return path


def _mirror(of: str, url: str = "https://mirror.example/maven/", name: str = "m") -> str:
    return f"<mirror><id>{name}</id><mirrorOf>{of}</mirrorOf><url> {url} </url></mirror>"


@pytest.mark.parametrize("of", ["*", "central", "external:*", "other,central", "*,!other"])
def test_a_mirror_of_central_in_maven_settings_is_used(tmp_path: Path, of: str) -> None:
    assert central_mirror(_settings_xml(tmp_path, _mirror(of))) == "https://mirror.example/maven"


@pytest.mark.parametrize("of", ["other", "*,!central", "external:http:*"])
def test_a_mirror_of_something_else_is_not(tmp_path: Path, of: str) -> None:
    assert central_mirror(_settings_xml(tmp_path, _mirror(of))) is None


def test_without_maven_settings_there_is_no_mirror(tmp_path: Path) -> None:
    assert central_mirror(tmp_path / "settings.xml") is None


def test_a_mirror_with_credentials_is_left_to_maven(tmp_path: Path) -> None:
    server = "<server><id>m</id><username>u</username></server>"
    with pytest.raises(BrokerFailed, match="needs credentials, which only Maven reads"):
        central_mirror(_settings_xml(tmp_path, _mirror("*"), server))


def test_maven_settings_that_are_no_xml_are_named(tmp_path: Path) -> None:
    path = tmp_path / "settings.xml"
    path.write_text("<settings>")
    with pytest.raises(BrokerFailed, match=r"settings.xml cannot be read: .*line 1"):
        central_mirror(path)


def test_the_pins_name_kafka_and_a_logging_binding() -> None:
    coordinates, wanted = pinned()
    assert coordinates == ["org.apache.kafka:kafka_2.13:4.4.0", "org.slf4j:slf4j-simple:1.7.36"]
    assert {"kafka_2.13-4.4.0.jar", "slf4j-simple-1.7.36.jar"} <= {jar.name for jar in wanted}
    assert len({jar.name for jar in wanted}) == len(wanted)


@pytest.mark.slow
def test_jgo_alone_resolves_the_pinned_jars(tmp_path: Path, broker_settings: BrokerSettings) -> None:
    said: list[str] = []
    found = fetch_jars(replace(broker_settings, cache=tmp_path, search_path=""), said.append)
    assert found == jars_directory(replace(broker_settings, cache=tmp_path))
    assert len(said) == 1
    assert said[0].startswith("jvm: fetching Kafka 4.4.0")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("mvn", path=os.environ.get("PATH")) is None, reason="Maven is not installed")
def test_maven_alone_resolves_the_pinned_jars(
    tmp_path: Path, broker_settings: BrokerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "find_spec", lambda name: None)
    said: list[str] = []
    fetch_jars(replace(broker_settings, cache=tmp_path), said.append)
    assert said[-1] == (
        "jvm: jgo: the jgo wheel is not installed (pip install 'headway[jvm]'); resolved by Maven instead"
    )
