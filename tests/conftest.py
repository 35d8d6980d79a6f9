"""Brokers for all tests: `kafka` is one real broker for the whole session, `kafka_container` one in a container.

Environment, for developers: HEADWAY_TEST_BOOTSTRAP names a broker that already runs and is used as `kafka`. Set by
infra/test: HEADWAY_TEST_HOME and HEADWAY_TEST_ENGINE, the directories of what this session starts, so that the script
can end it when pytest was killed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from streams.broker import BrokerSettings, bring_down, bring_up
from streams.broker.probe import ask, split_address

ROOT = Path(__file__).parents[1]

LOCAL_IMAGE = "kafka-local:4.4.0"

_why_no_containers = pytest.StashKey[str]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a broker by the fixtures it uses, so that `-m 'not kafka'` is complete."""
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "kafka" in fixtures:
            item.add_marker("kafka")
        if "container_engine" in fixtures:
            item.add_marker("container")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say aloud when the container path was not tested."""
    reason = config.stash.get(_why_no_containers, None)
    if reason is not None:
        terminalreporter.section("CONTAINER TESTS DID NOT RUN", red=True)
        terminalreporter.line(reason)


@pytest.fixture(scope="session")
def broker_settings() -> BrokerSettings:
    """This machine's settings without a cluster: what a test starts is its own."""
    return replace(BrokerSettings.from_environment(os.environ), bootstrap_servers=None)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory, broker_settings: BrokerSettings) -> Iterator[str]:
    """The bootstrap servers of one real broker (JVM), shared by the session: use topics of your own in it."""
    running = os.environ.get("HEADWAY_TEST_BOOTSTRAP")
    if running:
        for host, port in split_address(running):
            ask(host, port, timeout_s=10)
        yield running
        return
    given = os.environ.get("HEADWAY_TEST_HOME")
    home = Path(given) if given else tmp_path_factory.mktemp("kafka-home")
    try:
        yield bring_up(home, way="jvm", settings=broker_settings).bootstrap_servers
    finally:
        bring_down(home, reset=True, settings=broker_settings)


@dataclass(frozen=True)
class ContainerEngine:
    """A Docker engine that answers and an image of Kafka in it."""

    docker_host: str | None
    image: str


@pytest.fixture(scope="session")
def container_engine(pytestconfig: pytest.Config, broker_settings: BrokerSettings) -> Iterator[ContainerEngine]:
    """A Docker engine: this machine's, else a private one (started under infra/test only). Skips with the reason."""

    def skip(reason: str) -> None:
        pytestconfig.stash[_why_no_containers] = reason
        pytest.skip(reason)

    directory = os.environ.get("HEADWAY_TEST_ENGINE")
    with pytest.MonkeyPatch.context() as patch:
        # testcontainers reads both when it is first imported. Its reaper is one more image to pull, and the fixtures
        # here stop what they start; the engine's published ports are on this machine.
        patch.setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
        patch.setenv("TESTCONTAINERS_CONNECTION_MODE", "docker_host")
        try:
            if _run(["docker", "version"]).returncode == 0:
                host, private = os.environ.get("DOCKER_HOST"), False
            elif directory is None:
                skip("no Docker engine answers; infra/test would start a private one")
                return
            else:
                started = _run([str(ROOT / "infra/dockerd"), "up", directory])
                if started.returncode == 4:
                    skip(started.stderr.strip().splitlines()[-1])
                assert started.returncode == 0, started.stderr
                host, private = started.stdout.strip(), True
                patch.setenv("DOCKER_HOST", host)
            image = broker_settings.image if _has_image(broker_settings.image, private) else LOCAL_IMAGE
            if image == LOCAL_IMAGE:
                built = _run([str(ROOT / "infra/kafka-image/build"), LOCAL_IMAGE], {"HEADWAY_PYTHON": sys.executable})
                if built.returncode and not private:
                    skip(f"{broker_settings.image} cannot be pulled and no local image built: {built.stderr.strip()}")
                assert built.returncode == 0, built.stderr
            yield ContainerEngine(host, image)
        finally:
            if directory is not None and Path(directory).exists():
                stopped = _run([str(ROOT / "infra/dockerd"), "down", directory])
                assert stopped.returncode == 0, stopped.stderr


def _has_image(image: str, private: bool) -> bool:
    """Whether the engine has the image or can get it; a private engine only ever has what is built here."""
    if _run(["docker", "image", "inspect", image]).returncode == 0:
        return True
    return not private and _run(["docker", "pull", "--quiet", image]).returncode == 0


def _run(command: list[str], environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            timeout=600,
        )
    except FileNotFoundError as error:
        return subprocess.CompletedProcess(command, 127, "", str(error))


@pytest.fixture(scope="session")
def kafka_container(container_engine: ContainerEngine) -> Iterator[str]:
    """The bootstrap servers of one broker in a container, by testcontainers, shared by the session."""
    from tests.apache_kafka_container import ApacheKafkaContainer

    with ApacheKafkaContainer(container_engine.image) as container:
        yield container.bootstrap_servers()
