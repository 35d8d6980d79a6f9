"""The jvm way: one Apache Kafka process, broker and controller in one (KRaft), detached, on loopback."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from streams.broker.endpoint import KAFKA_VERSION, BrokerEndpoint, BrokerFailed, BrokerSettings
from streams.broker.jars import fetch_jars
from streams.broker.java import find_java
from streams.broker.ports import FIRST_PORT, free_ports, is_free, require_port
from streams.broker.probe import NoKafka, ask
from streams.broker.processes import ProcessMark, find, search, start_detached, stop
from streams.broker.record import BrokerRecord, KafkaHome, new_cluster_id

START_TIMEOUT_S = 120
STOP_GRACE_S = 30
_PORT_TRIES = 5

# G1 with short pauses: SerialGC's young pauses of 50 ms were the 99th percentile of placing. One compiler tier and a
# small heap start fast and fit beside everything else on two cores.
_JVM_FLAGS = (
    "-Xms256m",
    "-Xmx1g",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=10",
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
)

_LOG_FLAGS = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS",
)


def server_properties(port: int, controller_port: int, data: Path) -> dict[str, str]:
    """Return the broker's configuration: one node, internal topics of one replica, on 127.0.0.1 only."""
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(data),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "8",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "8",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        # A topic made by a typo would have one partition and broker time, which the scheduler cannot work with.
        "auto.create.topics.enable": "false",
        # A decider's transactions take milliseconds; one left open by a killed process would hold back every
        # read-committed reader until it times out, and no client may ask for more than this.
        "transaction.max.timeout.ms": "60000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    }


def write_properties(path: Path, properties: Mapping[str, str]) -> None:
    """Write a Java properties file (backslashes doubled, as its grammar wants)."""
    lines = [f"{key}={value}".replace("\\", "\\\\") for key, value in properties.items()]
    partial = path.with_suffix(".partial")
    partial.write_text("# Written by `headway broker up` at every start; edits are lost.\n" + "\n".join(lines) + "\n")
    os.replace(partial, path)


def running(home: KafkaHome, record: BrokerRecord) -> ProcessMark | None:
    """Return the broker process of this home, also one whose record was lost by a kill between start and note."""
    arguments = _own_arguments(home)
    if record.process is not None and find(record.process, arguments):
        return record.process
    return search(arguments)


def _own_arguments(home: KafkaHome) -> list[str]:
    return ["kafka.Kafka", str(home.properties)]


def start(
    home: KafkaHome,
    record: BrokerRecord | None,
    port: int | None,
    settings: BrokerSettings,
    say: Callable[[str], None],
) -> BrokerEndpoint:
    """Start the broker of this home and return once it answers. Raises BrokerFailed with the broker's own last errors."""
    java = find_java(settings, say)
    jars = fetch_jars(settings, say)
    class_path = ["-cp", f"{jars}/*"]
    taken: set[int] = set()
    for _ in range(_PORT_TRIES):
        record = _with_ports(record, port, frozenset(taken), say)
        home.write(record)
        controller_port = record.controller_port
        assert controller_port is not None, "the jvm way always has one"
        write_properties(home.properties, server_properties(record.port, controller_port, home.data))
        environment = settings.environment or {}
        formatted_for = _formatted_for(home.data)
        if formatted_for is None:
            _format(java.launcher, class_path, record.cluster_id, home, environment)
        elif formatted_for != record.cluster_id:
            raise BrokerFailed(
                f"the data in {home.data} were formatted for cluster {formatted_for}, this home is cluster "
                f"{record.cluster_id}: put the right data back, or delete them by `headway broker down --reset`"
            )
        _rotate(home.log)
        command = [str(java.launcher), *_JVM_FLAGS, *_LOG_FLAGS, f"-XX:ErrorFile={home.crash}", *class_path]
        command += _own_arguments(home)
        try:
            process = start_detached(command, log=home.log, environment=environment)
        except OSError as error:
            raise BrokerFailed(f"{java.launcher} cannot be started: {error}") from error
        record = record.with_process(process)
        home.write(record)
        if _wait_until_it_answers(home, record, process):
            return endpoint(home, record, process)
        if port is not None or "Address already in use" not in home.log.read_text(errors="replace"):
            raise BrokerFailed(failure("ended before it answered", home.log))
        # Between probing and the start another process took a port; the data do not mind another one.
        taken |= {record.port, controller_port}
    raise BrokerFailed(failure(f"found its port taken {_PORT_TRIES} times", home.log))


def endpoint(home: KafkaHome, record: BrokerRecord, process: ProcessMark) -> BrokerEndpoint:
    """Describe the running broker."""
    return BrokerEndpoint("jvm", f"127.0.0.1:{record.port}", KAFKA_VERSION, home.home, process.pid)


def stop_process(home: KafkaHome, mark: ProcessMark, say: Callable[[str], None]) -> None:
    """Stop the broker cleanly, or by force after the grace time; Kafka recovers its log then, at the next start."""
    process = find(mark, _own_arguments(home))
    if process is not None and not stop(process, grace_s=STOP_GRACE_S):
        say(
            f"jvm: the broker (pid {mark.pid}) did not stop within {STOP_GRACE_S} s and was killed; its log is checked at the next start"
        )


def _with_ports(
    record: BrokerRecord | None, port: int | None, avoid: frozenset[int], say: Callable[[str], None]
) -> BrokerRecord:
    """Choose the ports: the caller's, else the ones this home had, else the next free ones."""
    if port is not None:
        chosen = require_port(port)
    elif record is not None and record.port not in avoid and is_free(record.port):
        chosen = record.port
    else:
        chosen = next(free_ports(avoid=avoid))
        if record is not None and record.port != chosen:
            say(f"jvm: port {record.port} is taken by another process; the broker moves to {chosen}")
    controller = record.controller_port if record is not None else None
    if controller is None or controller == chosen or controller in avoid or not is_free(controller):
        controller = next(free_ports(min(chosen + 1, FIRST_PORT + 1), avoid=avoid | {chosen}))
    if record is None:
        return BrokerRecord("jvm", new_cluster_id(), chosen, controller)
    return replace(record, port=chosen, controller_port=controller, process=None)


def _format(
    launcher: Path, class_path: list[str], cluster_id: str, home: KafkaHome, environment: Mapping[str, str]
) -> None:
    command = [str(launcher), "-Xmx256m", "-XX:TieredStopAtLevel=1", *class_path, "kafka.tools.StorageTool", "format"]
    command += ["-t", cluster_id, "-c", str(home.properties), "--standalone"]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=START_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            env=dict(environment),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BrokerFailed(f"Kafka's storage tool did not finish: {error}") from error
    if done.returncode:
        raise BrokerFailed(f"Kafka could not format {home.data}:\n" + last_errors(done.stdout + done.stderr))


def _formatted_for(data: Path) -> str | None:
    """Return the cluster id that the data directory was formatted with, or None when it was not yet."""
    try:
        lines = (data / "meta.properties").read_text().splitlines()
    except FileNotFoundError:
        return None
    return next((line.partition("=")[2].strip() for line in lines if line.startswith("cluster.id")), "unknown")


def _rotate(log: Path) -> None:
    """Keep the log of one start before, so that what is in it belongs to this start."""
    if log.exists():
        os.replace(log, log.with_name(f"{log.name}.1"))


def _wait_until_it_answers(home: KafkaHome, record: BrokerRecord, mark: ProcessMark) -> bool:
    """Wait for the broker with our cluster id; False when its process ended. Raises BrokerFailed at the deadline."""
    deadline = time.monotonic() + START_TIMEOUT_S
    arguments = _own_arguments(home)
    while True:
        process = find(mark, arguments)
        if process is None:
            return False
        try:
            # The id tells our broker from another one that took the port in between.
            if ask("127.0.0.1", record.port, timeout_s=5).cluster_id == record.cluster_id:
                return True
        except NoKafka:
            pass  # not yet: it listens two to five seconds after its start
        if time.monotonic() > deadline:
            stop(process, grace_s=5)
            raise BrokerFailed(failure(f"did not answer within {START_TIMEOUT_S} s", home.log))
        time.sleep(0.05)


def failure(what: str, log: Path) -> str:
    """Return an error message with the broker's own last errors."""
    text = log.read_text(errors="replace") if log.exists() else ""
    return f"the broker {what}; its last errors, from {log}:\n{last_errors(text)}"


def last_errors(text: str, *, lines: int = 8) -> str:
    """Return the last lines of a broker's output that tell of an error, indented; its very last lines when none does."""
    said = [line for line in text.splitlines() if line.strip() and not line.startswith(("WARNING:", "\tat ", "\t... "))]
    telling = [
        line for line in said if any(word in line for word in (" ERROR ", " FATAL ", "Exception", "Error", "Caused by"))
    ]
    chosen = (telling or said)[-lines:]
    return "\n".join(f"  {line.rstrip()[:400]}" for line in chosen) or "  (it printed nothing)"
