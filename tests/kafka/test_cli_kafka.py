"""The operator's commands as processes against a real broker, decider and state table: what they change is seen by those that read."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.broker.ports import free_ports

DEADLINE_S = 60.0
COMMAND = [sys.executable, "-m", "streams.cli.main"]


class Deployment:
    """A log of its own on the session's broker, with the parts that a test starts."""

    def __init__(self, kafka: str, home: Path) -> None:
        self.home = home
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
        self.environment = {
            **inherited,
            "HEADWAY_HOME": str(home),
            "HEADWAY_BOOTSTRAP_SERVERS": kafka,
            "HEADWAY_TOPIC_PREFIX": f"cli-{secrets.token_hex(4)}.",
            "HEADWAY_WEB_PORT": str(next(free_ports(20_087))),
        }
        self.parts: list[subprocess.Popen[bytes]] = []

    def start(self, *arguments: str) -> None:
        log = (self.home / f"{len(self.parts)}.log").open("wb")
        self.parts.append(subprocess.Popen([*COMMAND, *arguments], env=self.environment, stdout=log, stderr=log))

    def run(self, *arguments: str, code: int = 0, stdin: str = "") -> str:
        done = subprocess.run(
            [*COMMAND, *arguments],
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert done.returncode == code, f"{arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout if code == 0 else done.stderr

    def json(self, *arguments: str, stdin: str = "") -> dict[str, object]:
        return json.loads(self.run(*arguments, "-o", "json", stdin=stdin))

    def until(self, what: str, holds) -> None:
        """Ask again until `holds()`; a command that fails meanwhile (the table is starting) is asked again too."""
        deadline = time.monotonic() + DEADLINE_S
        said: object = None
        while time.monotonic() < deadline:
            try:
                if holds():
                    return
            except AssertionError as error:
                said = error
            time.sleep(0.2)
        raise AssertionError(f"{what} did not happen within {DEADLINE_S} s: {said}")

    def stop(self) -> None:
        for part in reversed(self.parts):
            part.send_signal(signal.SIGTERM)
        for part in self.parts:
            try:
                part.wait(30)
            except subprocess.TimeoutExpired:
                part.kill()
                part.wait()


@pytest.fixture
def deployment(kafka, tmp_path) -> Iterator[Deployment]:
    found = Deployment(kafka, tmp_path)
    yield found
    found.stop()


@pytest.mark.slow
def test_an_operator_sees_what_was_changed(deployment):
    d = deployment
    assert d.json("topics", "apply", "--instance", "main")["instances"] == {"main": 0}
    assert d.json("topics", "plan")["changes"] == []
    d.start("decider", "run", "--claim")
    d.start("state-table", "run")
    d.start(
        "worker", "run", "--name", "w", "--cores", "1", "--memory-kib", "65536", "--property", "pool=a", "--simulate"
    )
    d.until("a worker in the table", lambda: len(d.json("worker", "list")["workers"]) == 1)

    config = '{"kind":"simple","worker_timeout_s":33}'
    assert d.json("config", "set", "-", stdin=config)[0]["result"] == "configured"
    assert d.json("config", "show")["worker_timeout_s"] == 33
    assert "worker_timeout_s" in d.run("config", "set", "-", code=1, stdin='{"kind":"simple","worker_timeout_s":0}')

    assert d.json("instance", "pause", "main")[0]["result"] == "paused"
    assert d.json("instance", "list")["instances"][0]["paused"] is True

    facts = [
        {"kind": "ActionQueued", "instance": "main", "client_operation_id": name, "client_id": client}
        for name, client in (("a", "x"), ("b", "y"), ("c", "y"))
    ]
    d.run("publish", "-", stdin="".join(json.dumps(fact) + "\n" for fact in facts))
    d.until("three operations in the queue", lambda: len(d.json("queue", "list")["operations"]) == 3)
    d.run("operation", "reprioritise", "--priority", "5", "c")
    order = [row["client_operation_id"] for row in d.json("queue", "list")["operations"]]
    assert order == ["c", "a", "b"]

    assert d.json("operation", "cancel", "a")[0]["result"] == "cancelled"
    again = subprocess.run([*COMMAND, "operation", "cancel", "a"], env=d.environment, capture_output=True, text=True)
    assert again.returncode == 1
    assert "The operation has already finished." in again.stdout
    assert d.json("operation", "show", "a")["operation"]["outcome"] == "cancelled"

    assert d.json("worker", "drain", "--property", "pool=a")[0]["result"] == "drained"
    assert d.json("instance", "resume", "main")[0]["result"] == "resumed"
    assert d.json("status")["shards"][0]["queued"] == 2  # the only worker drains
    d.run("worker", "undrain", "w")
    d.until(
        "the rest to finish",
        lambda: all(row["stage"] == "finished" for row in d.json("operation", "list")["operations"]),
    )

    status = d.json("status")
    assert status["broker"]["topic_prefix"] == d.environment["HEADWAY_TOPIC_PREFIX"]
    (shard,) = status["shards"]
    assert (shard["leader_epoch"], shard["workers"], shard["queued"], shard["executing"]) == (1, 1, 0, 0)
    assert shard["facts_end"] > 0
    d.run("worker", "remove", "w", "--yes")
    d.run("operation", "show", "nope", code=4)


@pytest.mark.slow
def test_without_decider_and_table_the_commands_say_what_is_missing(deployment):
    d = deployment
    assert "no-such-topic" in d.run("instance", "pause", "main", code=1)
    d.run("topics", "apply")
    assert "not-decided" in d.run("instance", "pause", "main", "--timeout", "1", code=1)
    assert "read-side-unreachable" in d.run("queue", "list", code=1)
    assert "unknown-instance" in d.run("instance", "pause", "nope", code=4)
    text = d.run("status")
    assert "does not answer" in text
    assert "broker: Kafka" in text
