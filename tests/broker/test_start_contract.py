"""What every broker must do, however it was started: by the jvm way or as a container."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from aiokafka.errors import UnknownTopicOrPartitionError

from streams.broker import BrokerFailed, BrokerSettings, bring_down, bring_up, status
from streams.broker.probe import ask, split_address
from tests.broker import records
from tests.container_engine import ContainerEngine


@pytest.fixture(
    params=[
        pytest.param("kafka", marks=pytest.mark.kafka),
        pytest.param("kafka_container", marks=pytest.mark.container),
    ]
)
def broker(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


async def test_committed_records_are_read_and_aborted_ones_only_by_who_asks_for_uncommitted(broker: str) -> None:
    topic = f"contract-{uuid.uuid4().hex}"
    await records.create_topic(broker, topic)
    await records.write_in_transaction(broker, topic, b"committed", commit=True)
    await records.write_in_transaction(broker, topic, b"aborted", commit=False)
    await records.write_in_transaction(broker, topic, b"committed too", commit=True)
    assert await records.read(broker, topic) == [b"committed", b"committed too"]
    uncommitted = await records.read(broker, topic, isolation_level="read_uncommitted")
    assert uncommitted == [b"committed", b"aborted", b"committed too"]


async def test_it_is_one_broker_of_the_pinned_release(broker: str) -> None:
    ((host, port),) = split_address(broker)
    answer = ask(host, port, timeout_s=10)
    assert (answer.brokers, answer.release) == (1, "4.4")


async def test_a_topic_is_never_made_by_a_writer_that_mistypes_it(broker: str) -> None:
    topic = f"mistyped-{uuid.uuid4().hex}"
    with pytest.raises(UnknownTopicOrPartitionError):
        await records.write(broker, topic, [b"x"], timeout_ms=1_000)
    assert topic not in await records.topics(broker)


async def test_the_docker_way_is_found_keeps_its_data_and_is_deleted_whole(
    tmp_path: Path, container_engine: ContainerEngine, broker_settings: BrokerSettings
) -> None:
    # The environment of now, with the DOCKER_HOST of the engine that the fixture started.
    settings = replace(broker_settings, image=container_engine.image, environment=dict(os.environ))
    home = tmp_path / "home"
    try:
        first = bring_up(home, way="docker", settings=settings)
        assert (first.kind, first.pid) == ("docker", None)
        await records.create_topic(first.bootstrap_servers, "kept")
        await records.write(first.bootstrap_servers, "kept", [b"one"])
        assert bring_up(home, settings=settings) == first == status(home, settings=settings)

        assert bring_down(home, settings=settings) is True
        assert status(home, settings=settings) is None
        second = bring_up(home, settings=settings)
        assert second == first
        assert await records.read(second.bootstrap_servers, "kept") == [b"one"]
    finally:
        bring_down(home, reset=True, settings=settings)
    assert not (home / "kafka").exists()
    assert _volumes_of(home) == ""


def test_a_container_that_does_not_start_leaves_the_home_to_another_way(
    tmp_path: Path, container_engine: ContainerEngine, broker_settings: BrokerSettings
) -> None:
    settings = replace(broker_settings, image=container_engine.image, environment=dict(os.environ))
    broken = replace(settings, image="headway-test/no-kafka:1")
    subprocess.run(
        ["docker", "import", "-c", 'CMD ["/bin/true"]', "-", broken.image],
        input=_tar_of_nothing(),
        env=dict(os.environ),
        capture_output=True,
        check=True,
    )
    with pytest.raises(BrokerFailed, match=r"^docker: "):
        bring_up(tmp_path / "home", way="docker", settings=broken)
    assert not (tmp_path / "home" / "kafka").exists()


def _volumes_of(home: Path) -> str:
    command = ["docker", "volume", "ls", "--quiet", "--filter", f"label=headway.home={home}"]
    return subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, check=True).stdout


def _tar_of_nothing() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w"):
        pass
    return buffer.getvalue()
