"""Brokers for all tests: `kafka` is one real broker for the whole session, `kafka_container` one in a container.

Environment, for developers: HEADWAY_TEST_BOOTSTRAP names a broker that already runs and is used as `kafka`. Set by
infra/test: HEADWAY_TEST_HOME and HEADWAY_TEST_ENGINE, the directories of what this session starts, so that the script
can end it when pytest was killed.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import HealthCheck, settings

from streams.broker import BrokerSettings, bring_down, bring_up
from streams.broker.probe import ask, split_address
from tests.container_engine import ContainerEngine, NoEngine, engine_for_tests

# Before anything imports it, wherever that is: its assertions are the stories' own.
pytest.register_assert_rewrite("tests.stories.story")

# A busy machine is no finding: no example has a time limit.
settings.register_profile("headway", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("headway")

_why_no_containers = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Let SIGTERM end the session as Ctrl-C does: fixtures stop what they started.

    A shell that starts the session in its background has it ignore SIGINT, and every process it starts with it: those that tests
    interrupt could not be.
    """
    session = os.getpid()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt(number: int, frame: FrameType | None) -> None:
        if os.getpid() == session:
            raise KeyboardInterrupt("SIGTERM")
        os._exit(128 + number)  # a fork that has not replaced its program yet

    signal.signal(signal.SIGTERM, interrupt)


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


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Undo what a command that ran in this process set: its level would silence what later tests wait to be said."""
    named = [logging.getLogger(), logging.getLogger("aiokafka")]
    levels, handlers = [logger.level for logger in named], named[0].handlers[:]
    yield
    for logger, level in zip(named, levels, strict=True):
        logger.setLevel(level)
    named[0].handlers[:] = handlers


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


@pytest.fixture(scope="session")
def container_engine(pytestconfig: pytest.Config, broker_settings: BrokerSettings) -> Iterator[ContainerEngine]:
    """A Docker engine: this machine's, else a private one (started under infra/test only). Skips with the reason."""

    directory = os.environ.get("HEADWAY_TEST_ENGINE")
    with pytest.MonkeyPatch.context() as patch:
        # testcontainers reads both when it is first imported. Its reaper is one more image to pull, and the fixtures
        # here stop what they start; the engine's published ports are on this machine.
        patch.setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
        patch.setenv("TESTCONTAINERS_CONNECTION_MODE", "docker_host")
        try:
            with engine_for_tests(Path(directory) if directory else None, broker_settings.image) as engine:
                if engine.docker_host is not None:
                    patch.setenv("DOCKER_HOST", engine.docker_host)
                yield engine
        except NoEngine as reason:
            pytestconfig.stash[_why_no_containers] = str(reason)
            pytest.skip(str(reason))


@pytest.fixture(scope="session")
def kafka_container(container_engine: ContainerEngine) -> Iterator[str]:
    """The bootstrap servers of one broker in a container, by testcontainers, shared by the session."""
    from tests.apache_kafka_container import ApacheKafkaContainer

    with ApacheKafkaContainer(container_engine.image) as container:
        yield container.bootstrap_servers()
