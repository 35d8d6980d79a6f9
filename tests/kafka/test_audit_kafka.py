"""The auditor's commands as processes against a real broker and decider: explain, verify, what-if, replay --at, and all on an export.

The facts of a small scene are published as producers and workers do; what is asked afterwards is answered from the log.
"""

from __future__ import annotations

import json

import pytest

from tests.kafka.deployment import Deployment

CORES = 4


class Scene:
    """Two workers of four cores each, spoken for; connection ids are their numbers."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.seq = 0

    def publish(self, *facts: dict[str, object]) -> None:
        """Publish these facts and wait until each of them is decided."""
        lines = "".join(json.dumps({"instance": "main", **fact}) + "\n" for fact in facts)
        self.deployment.run("publish", "-", stdin=lines)
        offset = json.loads(self.deployment.run("status", "-o", "json"))["shards"][0]["facts_end"] - 1
        self.deployment.until(
            "the facts to be decided", lambda: self.events() and self.events()[-1]["cause_offset"] >= offset
        )

    def events(self) -> list[dict[str, object]]:
        """Every event so far."""
        lines = self.deployment.run("events", "tail", "--from-seq", "1", "-o", "json").splitlines()
        return [json.loads(line) for line in lines]

    def of(self, kind: str) -> list[dict[str, object]]:
        """The events of a kind."""
        return [event for event in self.events() if event["kind"] == kind]

    def finished(self, name: str) -> dict[str, object]:
        """The report of the worker that runs the operation of this name."""
        events = self.events()
        (queued,) = [
            each for each in events if each["kind"] == "OperationQueued" and each["client_operation_id"] == name
        ]
        dispatched = [
            each
            for each in events
            if each["kind"] == "OperationDispatched" and each["operation_id"] == queued["cause_offset"]
        ][-1]
        return {
            "kind": "ActionFinished",
            "endpoint": dispatched["endpoint"],
            "connection_id": int(str(dispatched["endpoint"])[1:]),
            "dispatch_id": dispatched["seq"],
            "result": "exited",
            "exit_code": 0,
        }


def worker(number: int) -> dict[str, object]:
    properties = {"cpu_millis": str(CORES * 1000), "at": f"w{number}"}
    return {
        "kind": "WorkerConnected",
        "endpoint": f"w{number}",
        "boot_epoch": number,
        "connection_id": number,
        "properties": [{"name": name, "value": value} for name, value in properties.items()],
    }


def action(name: str, cores: int, at: str = "") -> dict[str, object]:
    asked = {"cpu_millis": str(cores * 1000)} | ({"at": at} if at else {})
    return {
        "kind": "ActionQueued",
        "client_operation_id": name,
        "requirements": [{"name": asked_name, "value": value} for asked_name, value in sorted(asked.items())],
    }


@pytest.mark.slow
def test_an_auditor_gets_checked_answers_from_a_cluster_and_from_its_export(deployment, tmp_path):
    d = deployment
    d.run("topics", "apply", "--instance", "main")
    d.start("decider", "run", "--claim")
    d.start("state-table", "run")
    d.until("the state table", lambda: d.json("queue", "list")["operations"] == [])
    config = {
        "kind": "simple",
        "worker_timeout_s": 900,
        "supported_platform_properties": {"at": "exact"},
        "hold": {"kind": "shortfall", "after_s": 0},
    }
    scene = Scene(d)
    # `w1` has one core left and is the closest to room for four; `w2` has none.
    scene.publish(
        {"kind": "Configured", "config": config},
        worker(1),
        worker(2),
        action("a", 2, "w1"),
        action("b", 1, "w1"),
        action("c", 2, "w2"),
        action("d", 2, "w2"),
    )
    scene.publish(action("big", CORES), scene.finished("d"), action("small", 2))
    scene.publish({"kind": "CancelRequested", "client_operation_id": "big"})
    scene.publish(action("big2", CORES), scene.finished("small"), action("small2", 2))
    scene.publish(action("late", 1, "w1"))
    scene.publish(scene.finished("a"), scene.finished("b"))
    held, placed = scene.of("HoldMade")

    told = d.json("explain", "hold", "big")["story"]
    assert (told["made"]["endpoint"], told["made"]["seq"], told["made"]["offset"]) == (
        "w1",
        held["seq"],
        held["offset"],
    )
    assert told["made"]["overtaken_by"]["client_operation_id"] == "small"
    assert (told["ended"]["reason"]["reason"], told["ended"]["because"]["reason"]["reason"]) == ("gone", "cancelled")
    told = d.json("explain", "hold", f"hold-{placed['seq']}")["story"]
    assert (told["operation"]["client_operation_id"], told["ended"]["reason"]["reason"]) == ("big2", "placed")
    assert told["ended"]["room"]["operation"]["client_operation_id"] == "b"
    assert "small2" in d.run("explain", "operation", "big2")
    assert "hold" in d.run("explain", "worker", "w1")
    d.run("explain", "operation", "nope", code=4)

    (then,) = d.json("replay", "--at", str(placed["seq"]))["shards"]
    assert [(hold["endpoint"], hold["client_operation_id"]) for hold in then["holds"]] == [("w1", "big2")]

    verified = d.json("verify")
    assert (verified["sound"], verified["shards"][0]["redecided"]["divergence_count"]) == (True, 0)
    assert verified["shards"][0]["judged"]["hold_released"] >= 2

    other = d.json("what-if", "--set", "hold=off", "--operation", "big2")
    assert other["operation"]["unchanged_us"] == other["operation"]["recorded_us"]
    assert (other["policies"][0]["holds"]["made"], other["policies"][-1]["holds"]["made"]) == (2, 0)

    export = str(tmp_path / "export")
    d.run("export", "all", "--to", export)
    again = d.json("verify", "--file", export)
    assert (again["sound"], again["shards"][0]["facts_from_seq"]) == (True, 2)
    assert again["shards"][0]["events"] >= verified["shards"][0]["events"]
    assert (
        d.json("explain", "hold", "big", "--file", export)["story"]["ended"]
        == d.json("explain", "hold", "big")["story"]["ended"]
    )
    exported = d.json("what-if", "--set", "hold=off", "--operation", "big2", "--file", export)["operation"]
    assert (exported["recorded_us"], exported["operation_id"]) == (
        other["operation"]["recorded_us"],
        placed["operation_id"],
    )

    d.run("shadow", "run", "--until-caught-up")
    assert d.run("shadow", "list") == ""
