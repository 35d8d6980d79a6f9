"""The docker way: one container of `apache/kafka` with a named volume, through the `docker` command.

The command rather than a library, since it brings the user's contexts, credentials and helpers along.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from streams.broker.endpoint import KAFKA_VERSION, BrokerEndpoint, BrokerFailed, BrokerSettings
from streams.broker.jvm import last_errors
from streams.broker.ports import free_ports, is_free, require_port
from streams.broker.probe import NoKafka, ask
from streams.broker.record import BrokerRecord, KafkaHome, new_cluster_id

START_TIMEOUT_S = 120
_PULL_TIMEOUT_S = 600
_COMMAND_TIMEOUT_S = 60
_HOME_LABEL = "headway.home"
_DATA = "/var/lib/kafka/data"


class _Docker:
    """The docker command, with its failures as BrokerFailed in one line."""

    def __init__(self, settings: BrokerSettings) -> None:
        program = shutil.which("docker", path=settings.search_path)
        if program is None:
            raise BrokerFailed("there is no docker command on PATH")
        self._program, self._environment = program, settings.environment

    def __call__(self, *arguments: str, timeout_s: float = _COMMAND_TIMEOUT_S) -> str:
        command = f"docker {' '.join(arguments[:2])}"
        try:
            done = subprocess.run(
                [self._program, *arguments],
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                timeout=timeout_s,
                env=self._environment,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BrokerFailed(f"`{command}` did not finish: {error}") from error
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if line.strip()] or [f"exit code {done.returncode}"]
            raise BrokerFailed(f"`{command}`: {said[0].strip()}")
        return done.stdout.strip()

    def container(self, name: str) -> dict[str, Any] | None:
        """Return what the engine knows of a container, or None when it has none of that name."""
        found = self("ps", "--all", "--quiet", "--no-trunc", "--filter", f"name=^/{name}$")
        inspected: list[dict[str, Any]] = json.loads(self("container", "inspect", found)) if found else []
        return inspected[0] if inspected else None

    def has_volume(self, name: str) -> bool:
        return name in self("volume", "ls", "--quiet", "--filter", f"name=^{name}$").splitlines()

    def logs(self, name: str) -> str:
        # Both streams in one, in order; a container that just vanished has none to show.
        done = subprocess.run(
            [self._program, "logs", "--tail", "200", name],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=_COMMAND_TIMEOUT_S,
            env=self._environment,
        )
        return done.stdout


def _container_name(home: KafkaHome) -> str:
    return "headway-kafka-" + hashlib.sha256(str(home.home).encode()).hexdigest()[:12]


def _variables(record: BrokerRecord) -> dict[str, str]:
    """Return the image's variables; one KAFKA_ variable turns off its default properties, so all are given."""
    return {
        "CLUSTER_ID": record.cluster_id,
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": f"PLAINTEXT://:{record.port},CONTROLLER://127.0.0.1:{record.controller_port}",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://127.0.0.1:{record.port}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": f"1@127.0.0.1:{record.controller_port}",
        "KAFKA_LOG_DIRS": _DATA,
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "8",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS": "8",
        "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
        "KAFKA_TRANSACTION_MAX_TIMEOUT_MS": "60000",
        "KAFKA_HEAP_OPTS": "-Xms256m -Xmx1g",
    }


def running(home: KafkaHome, record: BrokerRecord, settings: BrokerSettings) -> BrokerEndpoint | None:
    """Return the container's endpoint when it runs, else None. Raises BrokerFailed when the engine cannot be asked."""
    if record.container is None:
        return None
    found = _Docker(settings).container(record.container)
    return _endpoint(home, record) if found is not None and found["State"]["Running"] else None


def start(
    home: KafkaHome,
    record: BrokerRecord | None,
    port: int | None,
    settings: BrokerSettings,
    say: Callable[[str], None],
) -> BrokerEndpoint:
    """Start this home's container and return once the broker in it answers. Raises BrokerFailed."""
    docker = _Docker(settings)
    _require_local_engine(docker)
    if not docker("image", "ls", "--quiet", settings.image):
        say(f"docker: pulling {settings.image} (once)")
        docker("pull", "--quiet", settings.image, timeout_s=_PULL_TIMEOUT_S)
    fresh = record is None
    record = _with_port(home, record, port, say)
    name = record.container
    assert name is not None, "the docker way always has one"
    _remove(docker, home, name)  # of an engine that was stopped before `down`; its data are in the volume
    options = ["--detach", "--name", name, "--label", f"{_HOME_LABEL}={home.home}", "--volume", f"{name}:{_DATA}"]
    options += ["--publish", f"127.0.0.1:{record.port}:{record.port}"]
    for key, value in _variables(record).items():
        options += ["--env", f"{key}={value}"]
    home.write(record)
    docker("volume", "create", "--label", f"{_HOME_LABEL}={home.home}", name)
    try:
        docker("run", *options, settings.image)
        _wait_until_it_answers(docker, record, name)
    except BrokerFailed:
        if fresh:  # nothing was ever written there: leave no trace, so that another way may have this home
            _remove(docker, home, name)
            docker("volume", "rm", name)
            home.delete()
        raise
    return _endpoint(home, record)


def _require_local_engine(docker: _Docker) -> None:
    docker("version", "--format", "{{.Server.Version}}")
    address = docker("context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
    if not address.startswith(("unix://", "npipe://")):
        raise BrokerFailed(
            f"the Docker engine is on another machine ({address}), where 127.0.0.1 is not here; "
            "run Kafka there and name it in HEADWAY_BOOTSTRAP_SERVERS"
        )


def _with_port(
    home: KafkaHome, record: BrokerRecord | None, port: int | None, say: Callable[[str], None]
) -> BrokerRecord:
    if port is not None:
        chosen = require_port(port)
    elif record is not None and is_free(record.port):
        chosen = record.port
    else:
        chosen = next(free_ports())
        if record is not None:
            say(f"docker: port {record.port} is taken by another process; the broker moves to {chosen}")
    # Inside the container nothing else listens, so any other port will do.
    controller = 9093 if chosen != 9093 else 9094
    if record is None:
        return BrokerRecord("docker", new_cluster_id(), chosen, controller, container=_container_name(home))
    return replace(record, port=chosen, controller_port=controller)


def _wait_until_it_answers(docker: _Docker, record: BrokerRecord, name: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            if ask("127.0.0.1", record.port, timeout_s=5).cluster_id == record.cluster_id:
                return
            reason = "another broker answers at its port"
        except NoKafka as error:
            reason = str(error)
        found = docker.container(name)
        if found is None or not found["State"]["Running"]:
            raise _failure("ended before it answered", docker, name)
        if time.monotonic() > deadline:
            failure = _failure(f"did not answer within {START_TIMEOUT_S} s ({reason})", docker, name)
            docker("stop", name)
            raise failure
        time.sleep(0.2)


def _failure(what: str, docker: _Docker, name: str) -> BrokerFailed:
    return BrokerFailed(f"the broker in container {name} {what}; its last errors:\n{last_errors(docker.logs(name))}")


def _endpoint(home: KafkaHome, record: BrokerRecord) -> BrokerEndpoint:
    return BrokerEndpoint("docker", f"127.0.0.1:{record.port}", KAFKA_VERSION, home.home, None)


def _remove(docker: _Docker, home: KafkaHome, name: str) -> bool:
    """Stop and remove the container; its volume stays. True when it ran. Raises BrokerFailed when it is not this home's."""
    found = docker.container(name)
    if found is None:
        return False
    if found["Config"]["Labels"].get(_HOME_LABEL) != str(home.home):
        raise BrokerFailed(f"container {name} was not made for {home.home} (label {_HOME_LABEL}); it is left alone")
    ran = bool(found["State"]["Running"])
    if ran:
        docker("stop", "-t", "30", name)
    docker("rm", "--volumes", name)  # the anonymous ones of the image; the named one stays
    return ran


def remove_container(home: KafkaHome, record: BrokerRecord, settings: BrokerSettings) -> bool:
    """Stop this home's container and remove it, data kept; True when it ran. Raises BrokerFailed."""
    return record.container is not None and _remove(_Docker(settings), home, record.container)


def delete_volume(home: KafkaHome, record: BrokerRecord, settings: BrokerSettings) -> None:
    """Delete the data of this home's container. Raises BrokerFailed when the volume is another's."""
    docker = _Docker(settings)
    if record.container is None or not docker.has_volume(record.container):
        return
    labels = json.loads(docker("volume", "inspect", "--format", "{{json .Labels}}", record.container)) or {}
    if labels.get(_HOME_LABEL) != str(home.home):
        raise BrokerFailed(f"volume {record.container} was not made for {home.home}; it is left alone")
    docker("volume", "rm", record.container)
