"""Bring up, find, bring down: which way is taken, what is said, and that data survive."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from streams.broker import BrokerFailed, BrokerSettings, bring_down, bring_up, java, jvm, status
from streams.broker.ports import EPHEMERAL_FROM, free_ports
from streams.broker.processes import ProcessMark
from streams.broker.record import KafkaHome, new_cluster_id
from tests.broker import records


@pytest.fixture
def home(tmp_path: Path, broker_settings: BrokerSettings) -> Iterator[Path]:
    """A home of its own, and no broker of it left behind."""
    yield tmp_path / "home"
    for place in (tmp_path / "home", tmp_path / "moved"):
        if (place / "kafka").is_dir() and (place / "kafka" / "broker.json").exists():
            bring_down(place, settings=broker_settings)


@pytest.fixture
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BrokerSettings:
    """The settings of a machine with no cluster, no Docker and no Java."""
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    return BrokerSettings(cache=tmp_path / "cache", search_path=str(tmp_path), environment={})


# --- ways


def test_with_no_way_open_the_error_names_all_three_and_offers_the_log_in_memory(
    home: Path, nothing: BrokerSettings
) -> None:
    said: list[str] = []
    with pytest.raises(BrokerFailed) as failed:
        bring_up(home, say=said.append, settings=nothing)
    text = str(failed.value)
    assert "cluster: HEADWAY_BOOTSTRAP_SERVERS is not set" in text
    assert "docker: there is no docker command on PATH" in text
    assert "jvm: no Java 17 or newer" in text
    assert "--embedded" in text
    assert [line.partition(":")[0] for line in said] == ["docker", "jvm"]


def test_a_cluster_that_does_not_answer_is_said_in_one_line_and_the_next_way_tried(
    home: Path, nothing: BrokerSettings
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    said: list[str] = []
    with pytest.raises(BrokerFailed):
        bring_up(home, say=said.append, settings=replace(nothing, bootstrap_servers=f"127.0.0.1:{port}"))
    assert [line.partition(":")[0] for line in said] == ["cluster", "docker", "jvm"]
    assert f"no Kafka answers at 127.0.0.1:{port}" in said[0]
    assert not any("\n" in line for line in said)


@pytest.mark.parametrize(
    ("way", "reason"),
    [
        ("cluster", "cluster: HEADWAY_BOOTSTRAP_SERVERS is not set"),
        ("docker", "docker: there is no docker command on PATH"),
        ("jvm", "jvm: no Java 17 or newer"),
    ],
)
def test_a_way_selected_by_name_fails_instead_of_giving_way_to_another(
    home: Path, nothing: BrokerSettings, way: str, reason: str
) -> None:
    said: list[str] = []
    with pytest.raises(BrokerFailed, match=f"^{reason}"):
        bring_up(home, way=way, say=said.append, settings=nothing)
    assert said == []


def test_an_unknown_way_is_refused_with_the_ways(home: Path, nothing: BrokerSettings) -> None:
    with pytest.raises(BrokerFailed, match="'podman' is no way to a broker; the ways are cluster, docker, jvm"):
        bring_up(home, way="podman", settings=nothing)


def test_a_docker_command_without_an_engine_is_said(home: Path, nothing: BrokerSettings, tmp_path: Path) -> None:
    (tmp_path / "docker").write_text("#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n")
    (tmp_path / "docker").chmod(0o755)
    with pytest.raises(BrokerFailed, match="docker: `docker version --format`: Cannot connect to the Docker daemon"):
        bring_up(home, way="docker", settings=nothing)


def test_a_docker_engine_on_another_machine_is_refused_with_the_remedy(
    home: Path, nothing: BrokerSettings, tmp_path: Path
) -> None:
    (tmp_path / "docker").write_text("#!/bin/sh\necho tcp://build-farm:2375\n")
    (tmp_path / "docker").chmod(0o755)
    with pytest.raises(BrokerFailed, match=r"tcp://build-farm:2375.*HEADWAY_BOOTSTRAP_SERVERS"):
        bring_up(home, way="docker", settings=nothing)


def test_a_cluster_that_answers_is_taken_first_and_never_touched(
    home: Path, kafka: str, broker_settings: BrokerSettings
) -> None:
    settings = replace(broker_settings, bootstrap_servers=kafka)
    found = bring_up(home, settings=settings)
    assert (found.kind, found.bootstrap_servers, found.version, found.pid) == ("cluster", kafka, "4.4", None)
    assert status(home, settings=settings) == found
    assert bring_down(home, settings=settings) is False
    assert status(home, settings=settings) == found


def test_a_home_with_data_of_one_way_is_not_served_empty_by_another(
    home: Path, nothing: BrokerSettings, tmp_path: Path
) -> None:
    KafkaHome(home).write(jvm.BrokerRecord("jvm", new_cluster_id(), 19_092, 19_093))
    with pytest.raises(BrokerFailed, match=r"docker: .* holds the data of a broker brought up by the jvm way"):
        bring_up(home, way="docker", settings=nothing)


# --- directories


def test_a_directory_that_something_else_made_is_neither_used_nor_deleted(
    home: Path, broker_settings: BrokerSettings
) -> None:
    (home / "kafka").mkdir(parents=True)
    (home / "kafka" / "thesis.txt").write_text("years of work")
    for act in (
        lambda: bring_up(home, way="jvm", settings=broker_settings),
        lambda: bring_down(home, reset=True, settings=broker_settings),
    ):
        with pytest.raises(BrokerFailed, match=r"was not made by Headway .* left alone"):
            act()
    assert (home / "kafka" / "thesis.txt").read_text() == "years of work"


def test_a_symbolic_link_is_not_followed(home: Path, tmp_path: Path, broker_settings: BrokerSettings) -> None:
    home.mkdir()
    elsewhere = tmp_path / "elsewhere"
    KafkaHome(elsewhere).write(jvm.BrokerRecord("jvm", new_cluster_id(), 19_092, 19_093))
    (home / "kafka").symlink_to(elsewhere / "kafka")
    with pytest.raises(BrokerFailed, match="is a symbolic link"):
        bring_down(home, reset=True, settings=broker_settings)
    assert (elsewhere / "kafka" / "broker.json").exists()


def test_reset_leaves_what_others_put_beside_the_data(home: Path, broker_settings: BrokerSettings) -> None:
    place = KafkaHome(home)
    place.write(jvm.BrokerRecord("jvm", new_cluster_id(), 19_092, 19_093))
    place.data.mkdir()
    (place.directory / "notes.txt").write_text("mine")
    assert bring_down(home, reset=True, settings=broker_settings) is False
    assert [path.name for path in place.directory.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 2}', '{"format": 1, "process": null, "way": "jvm"}'])
def test_a_damaged_record_is_named_and_nothing_deleted(home: Path, broker_settings: BrokerSettings, text: str) -> None:
    place = KafkaHome(home)
    place.data.mkdir(parents=True)
    (place.directory / "broker.json").write_text(text)
    for act in (lambda: bring_up(home, way="jvm", settings=broker_settings), lambda: bring_down(home, reset=True)):
        with pytest.raises(BrokerFailed, match=r"broker\.json cannot be read .* restore the file, or move"):
            act()
    assert place.data.is_dir()
    (place.directory / "broker.json").unlink()


def test_a_home_that_never_had_a_broker_has_none(home: Path, broker_settings: BrokerSettings) -> None:
    assert status(home, settings=broker_settings) is None
    assert bring_down(home, reset=True, settings=broker_settings) is False
    assert not home.exists()


def test_cluster_ids_are_of_kafkas_form() -> None:
    ids = {new_cluster_id() for _ in range(500)}
    assert len(ids) == 500
    assert all(len(text) == 22 and not text.startswith("-") for text in ids)


def test_properties_double_their_backslashes(tmp_path: Path) -> None:
    jvm.write_properties(tmp_path / "p", {"log.dirs": r"C:\data"})
    assert (tmp_path / "p").read_text().splitlines()[1] == r"log.dirs=C:\\data"


# --- the jvm way, with a real broker


@pytest.mark.kafka
async def test_data_survive_down_and_up_and_reset_deletes_them(home: Path, broker_settings: BrokerSettings) -> None:
    first = bring_up(home, way="jvm", settings=broker_settings)
    assert first.kind == "jvm"
    assert first.version == "4.4.0"
    assert int(first.bootstrap_servers.rpartition(":")[2]) < EPHEMERAL_FROM
    await records.create_topic(first.bootstrap_servers, "kept")
    await records.write(first.bootstrap_servers, "kept", [b"one", b"two"])

    # What runs is found, not started again, also when its record was lost between the start and the note.
    assert bring_up(home, way="jvm", settings=broker_settings) == first == status(home, settings=broker_settings)
    place = KafkaHome(home)
    record = place.read()
    assert record is not None
    place.write(record.with_process(ProcessMark(os.getpid(), 1)))
    assert bring_up(home, settings=broker_settings, say=lambda line: None) == first

    assert bring_down(home, settings=broker_settings) is True
    assert status(home, settings=broker_settings) is None
    assert first.pid is not None
    assert not psutil.pid_exists(first.pid)
    assert bring_down(home, settings=broker_settings) is False

    second = bring_up(home, settings=broker_settings, say=lambda line: None)
    assert second.bootstrap_servers == first.bootstrap_servers
    assert await records.read(second.bootstrap_servers, "kept") == [b"one", b"two"]

    assert bring_down(home, reset=True, settings=broker_settings) is True
    assert not (home / "kafka").exists()


@pytest.mark.kafka
async def test_a_killed_broker_is_started_again_on_another_port_when_its_own_is_taken(
    home: Path, broker_settings: BrokerSettings
) -> None:
    first = bring_up(home, way="jvm", settings=broker_settings)
    await records.create_topic(first.bootstrap_servers, "kept")
    await records.write(first.bootstrap_servers, "kept", [b"one"])
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    psutil.Process(first.pid).wait(timeout=30)
    assert status(home, settings=broker_settings) is None

    port = int(first.bootstrap_servers.rpartition(":")[2])
    said: list[str] = []
    with socket.create_server(("127.0.0.1", port)):
        second = bring_up(home, way="jvm", settings=broker_settings, say=said.append)
    assert second.bootstrap_servers != first.bootstrap_servers
    assert said == [
        f"jvm: port {port} is taken by another process; the broker moves to {second.bootstrap_servers[10:]}"
    ]
    assert await records.read(second.bootstrap_servers, "kept") == [b"one"]
    with pytest.raises(BrokerFailed, match=f"already runs at {second.bootstrap_servers}, not on port {port}"):
        bring_up(home, way="jvm", port=port, settings=broker_settings)
    with pytest.raises(BrokerFailed, match="brought up by the jvm way"):
        bring_up(home, way="docker", settings=broker_settings)


@pytest.mark.kafka
def test_a_port_taken_between_probing_and_start_is_left_for_the_next(
    home: Path, broker_settings: BrokerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = free_ports
    with socket.create_server(("127.0.0.1", next(real()))) as taken:
        lost = taken.getsockname()[1]

        def racing(start: int = lost, *, avoid: frozenset[int] = frozenset()) -> Iterator[int]:
            return itertools.chain([] if lost in avoid else [lost], real(start, avoid=avoid))

        monkeypatch.setattr(jvm, "free_ports", racing)
        found = bring_up(home, way="jvm", settings=broker_settings)
        assert found.bootstrap_servers != f"127.0.0.1:{lost}"
        assert status(home, settings=broker_settings) == found


@pytest.mark.kafka
def test_a_failed_start_shows_the_brokers_own_last_errors(home: Path, broker_settings: BrokerSettings) -> None:
    bring_up(home, way="jvm", settings=broker_settings)
    bring_down(home, settings=broker_settings)
    quorum = KafkaHome(home).data / "__cluster_metadata-0" / "quorum-state"
    assert quorum.is_file()
    quorum.write_text("not json")
    with pytest.raises(BrokerFailed) as failed:
        bring_up(home, way="jvm", settings=broker_settings)
    text = str(failed.value)
    assert text.startswith("jvm: the broker ended before it answered; its last errors, from ")
    assert "JsonParseException" in text or "quorum" in text
    assert len(text.splitlines()) <= 10
    assert status(home, settings=broker_settings) is None


@pytest.mark.kafka
def test_data_of_another_cluster_are_refused(home: Path, tmp_path: Path, broker_settings: BrokerSettings) -> None:
    for place in (home, tmp_path / "moved"):
        bring_up(place, way="jvm", settings=broker_settings)
        bring_down(place, settings=broker_settings)
    shutil.rmtree(KafkaHome(home).data)
    shutil.copytree(KafkaHome(tmp_path / "moved").data, KafkaHome(home).data)
    ids = [
        json.loads((place / "kafka" / "broker.json").read_text())["cluster_id"] for place in (home, tmp_path / "moved")
    ]
    with pytest.raises(BrokerFailed, match=f"formatted for cluster {ids[1]}, this home is cluster {ids[0]}"):
        bring_up(home, way="jvm", settings=broker_settings)


@pytest.mark.kafka
def test_a_broker_does_not_keep_the_lock_of_the_home_that_started_it(
    home: Path, broker_settings: BrokerSettings
) -> None:
    found = bring_up(home, way="jvm", settings=broker_settings)
    assert found.pid is not None
    held = [Path(os.readlink(path)) for path in Path(f"/proc/{found.pid}/fd").iterdir() if path.is_symlink()]
    assert home / "kafka.lock" not in held
