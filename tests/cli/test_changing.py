"""The commands that change something, with the real decider on an in-memory log that stands in for the cluster."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from click.testing import CliRunner

from events.codec import canonical_requirements, decode_fact
from events.facts import ActionQueued, Configured, InstancePaused, WorkerConnected
from streams.cli import changing
from streams.cli.main import main
from streams.decider import Decider
from streams.effects import publish_and_see
from streams.memory_log import MemoryLog
from streams.provisioning import provision
from streams.topics import FACTS

FACTS_BEFORE = [
    WorkerConnected("main", "w1", 1, 7, (("cpu_millis", "1000"), ("memory_kib", "1024"))),
    ActionQueued("main", "runs", canonical_requirements([("cpu_millis", "1000")])),
    ActionQueued("main", "waits", canonical_requirements([("cpu_millis", "1000")])),
]


class Cluster:
    """What commands connect to instead of Kafka: made anew for each, with a decider unless told otherwise."""

    def __init__(self) -> None:
        self.decides = True
        self.published: list[object] = []

    @asynccontextmanager
    async def connected(self, settings, *, client_id):
        log = MemoryLog()
        await provision(log, {"main": 0})
        stop = asyncio.Event()
        running = asyncio.create_task(Decider(log, 0).run(stop))
        await publish_and_see(log, 0, FACTS_BEFORE)
        if not self.decides:
            stop.set()
            await running
        before = len(log.records((FACTS, 0)))
        try:
            yield log
        finally:
            stop.set()
            await running
            facts = [decode_fact(record.value) for record in log.records((FACTS, 0))[before:]]
            self.published += [fact for fact in facts if type(fact).__name__ != "Tick"]


@pytest.fixture
def cluster(monkeypatch):
    found = Cluster()
    monkeypatch.setattr(changing, "connected", found.connected)
    monkeypatch.setenv("HEADWAY_VIEWS_URL", "http://127.0.0.1:1")
    return found


def run(*arguments: str, code: int = 0, **options: object):
    result = CliRunner().invoke(main, arguments, **options)
    assert result.exit_code == code, (result.output, result.exception)
    return result


def rows(*arguments: str, code: int = 0) -> list[dict[str, object]]:
    return json.loads(run(*arguments, "-o", "json", code=code).stdout)


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        (["instance", "pause", "main"], "paused"),
        (["worker", "drain", "w1"], "drained"),
        (["worker", "remove", "w1"], "removed"),
        (["operation", "cancel", "runs"], "cancelled"),
        (["operation", "reprioritise", "--priority", "7", "waits"], "reprioritised"),
    ],
)
def test_a_change_is_reported_with_the_seq_of_its_event(cluster, arguments, result):
    (row,) = rows(*arguments)
    assert (row["result"], row["reason"]) == (result, "")
    assert row["seq"] > 0
    assert len(cluster.published) == 1


@pytest.mark.parametrize(
    ("arguments", "result", "code", "reason"),
    [
        (["instance", "resume", "main"], "unchanged", 0, "What the fact asks for is already so."),
        (["worker", "undrain", "w1"], "unchanged", 0, "What the fact asks for is already so."),
        (["worker", "drain", "w9"], "ignored", 4, "No worker is connected at this endpoint."),
        (["operation", "cancel", "nope"], "ignored", 4, "No operation with this id is known"),
        (["operation", "cancel", "op-99"], "ignored", 4, "No operation with this id is known"),
    ],
)
def test_what_has_no_effect_is_reported_with_its_sentence(cluster, arguments, result, code, reason):
    (row,) = rows(*arguments, code=code)
    assert row["result"] == result
    assert row["reason"].startswith(reason)


def test_the_worst_of_several_gives_the_exit_code(cluster):
    found = rows("operation", "cancel", "waits", "nope", "waits", code=4)
    assert [(row["target"], row["result"]) for row in found] == [("waits", "cancelled"), ("nope", "ignored")]
    text = run("operation", "cancel", "waits", "nope", code=4)
    assert "1 of 2 cancelled" in text.stderr


def test_a_configuration_is_published_in_its_canonical_form(cluster, tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{ "worker_timeout_s": 30, "kind": "simple" }')
    (row,) = rows("config", "set", str(path))
    assert row["result"] == "configured"
    (fact,) = cluster.published
    assert isinstance(fact, Configured)
    assert json.loads(fact.config_json)["worker_timeout_s"] == 30
    assert " " not in fact.config_json


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"kind":"simple","worker_timeout_s":0}', "configuration field 'worker_timeout_s': '0' is refused"),
        ('{"kind":"simple","colour":1}', "configuration field 'colour'"),
        ('{"worker_timeout_s":5}', 'write {"kind": "simple", "worker_timeout_s": 5}'),
        ("nonsense", "not JSON"),
    ],
)
def test_a_wrong_configuration_never_reaches_the_log(cluster, text, said):
    result = run("config", "set", "-", code=1, input=text)
    assert "error [HW-101]" in result.stderr
    assert said in result.stderr
    assert cluster.published == []


def test_a_dry_run_shows_the_configuration_and_publishes_nothing(cluster):
    result = run("config", "set", "-", "--dry-run", "-o", "json", input='{"kind":"simple"}')
    assert json.loads(result.stdout)["worker_timeout_s"] == 10
    assert cluster.published == []


def test_an_unknown_instance_lists_the_known_ones(cluster):
    result = run("instance", "pause", "nope", code=4)
    assert "unknown instance 'nope'; known instances: 'main'" in result.stderr


def test_without_waiting_only_the_offset_is_reported(cluster):
    cluster.decides = False
    (row,) = rows("instance", "pause", "main", "--no-wait")
    assert (row["result"], row["seq"]) == ("published", None)
    assert cluster.published == [InstancePaused("main")]


def test_a_missing_decider_is_said_with_its_remedy(cluster):
    cluster.decides = False
    result = run("instance", "pause", "main", "--timeout", "0.3", code=1)
    assert "error [not-decided]: 1 of 1 fact(s)" in result.stderr
    assert "headway decider run --shard 0" in result.stderr


def test_a_table_that_does_not_answer_is_a_note_because_the_change_is_done(cluster):
    result = run("instance", "pause", "main")
    assert "note: decided, but not in the table yet: the read side at http://127.0.0.1:1" in result.stderr
