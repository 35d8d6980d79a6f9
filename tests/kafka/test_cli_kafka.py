"""The operator's commands as processes against a real broker, decider and state table: what they change is seen by those that read."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.kafka.deployment import COMMAND


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
