"""The JSON mapping: what is read, what is refused with which words, what is printed."""

import json

import pytest
from hypothesis import given, settings

from events import events as e
from events import facts as f
from events.codec import canonical_requirements, command_bytes, decode_fact
from events.errors import InvalidFact
from events.jsonform import (
    command_to_json,
    digest_from_text,
    event_to_json,
    fact_from_json,
    fact_to_json,
    json_object,
    placement_to_json,
)
from events.reasons import Outcome, RejectReason, RunResult
from events.values import NO_DIGEST, Digest, Usage
from proto.gen.headway.v1 import commands_pb2, placements_pb2
from tests.core.record_strategies import any_event, records

SHA = "ab" * 32
QUEUED = {"kind": "ActionQueued", "client_operation_id": "c1"}
FINISHED = {"kind": "ActionFinished", "endpoint": "w1", "connection_id": 1, "dispatch_id": 4}


@pytest.mark.parametrize("kind", sorted(f.FACT_KINDS))
def test_a_fact_comes_back_from_its_json(kind):
    @settings(max_examples=40, deadline=None)
    @given(records(f.FACT_KINDS[kind]))
    def holds(fact):
        if isinstance(fact, f.ActionFinished):
            fact.stdout_tail, fact.stderr_tail = "é".encode(), b"plain"
        if isinstance(fact, f.Configured):
            fact.config_json = '{"kind":"simple"}'
        text = json.dumps(fact_to_json(fact))
        assert fact_from_json(json_object(text)) == fact

    holds()


@settings(max_examples=200, deadline=None)
@given(any_event)
def test_every_event_prints_as_json_with_its_envelope_on_top(event):
    printed = event_to_json(event, offset=12, shard=3)
    assert list(printed)[:6] == ["seq", "offset", "shard", "at_us", "cause_offset", "kind"]
    assert (printed["seq"], printed["offset"], printed["shard"]) == (event.seq, 12, 3)
    assert printed["kind"] == type(event).__name__
    json.dumps(printed)


def test_the_short_form_of_an_action_gets_the_defaults():
    assert fact_from_json(dict(QUEUED)) == f.ActionQueued("main", "c1")


def test_the_long_form_of_an_action():
    fact = fact_from_json(
        QUEUED
        | {
            "instance": "ci",
            "requirements": [{"name": "os", "value": "linux"}, {"name": "cpu_millis", "value": "500"}],
            "priority": -3,
            "action_digest": f"{SHA}/17",
            "argv": ["echo", "hi"],
            "env": [{"name": "A", "value": "1"}, {"name": "TOKEN", "secret": "ci-token"}],
            "inputs": [f"{SHA}/9"],
            "attached": True,
        }
    )
    digest = bytes.fromhex(SHA)
    assert fact == f.ActionQueued(
        "ci",
        "c1",
        canonical_requirements([("cpu_millis", "500"), ("os", "linux")]),
        priority=-3,
        action_digest=Digest(digest, 17),
        command=command_bytes(["echo", "hi"], [("A", "1"), ("TOKEN", "", "ci-token")], [Digest(digest, 9)]),
        attached=True,
    )


def test_a_finish_reads_enums_usage_and_tails():
    fact = fact_from_json(FINISHED | {"result": "timed_out", "stdout_tail": "é", "usage": {"wall_us": 5}})
    assert fact == f.ActionFinished(
        "main", "w1", 1, 4, RunResult.TIMED_OUT, stdout_tail="é".encode(), usage=Usage(wall_us=5)
    )


REFUSED = [
    ({}, "kind", "a fact says its kind"),
    ({"kind": 7}, "kind", "one of ActionFinished"),
    ({"kind": "ActionQueud"}, "kind", "did you mean 'ActionQueued'?"),
    ({"kind": "ActionQueued"}, "client_operation_id", "this field is required"),
    (QUEUED | {"prioritty": 1}, "prioritty", "did you mean 'priority'?"),
    (QUEUED | {"zzzzz": 1}, "zzzzz", "known are instance"),
    (QUEUED | {"priority": "1"}, "priority", "valid integer"),
    (QUEUED | {"priority": 1.5}, "priority", "valid integer"),
    (QUEUED | {"priority": True}, "priority", "valid integer"),
    (QUEUED | {"priority": 2**31}, "priority", "from -2^31 to 2^31-1"),
    (QUEUED | {"attached": 1}, "attached", "valid boolean"),
    (QUEUED | {"queued_at_us": -1}, "queued_at_us", "from 0 to 2^63-1"),
    (QUEUED | {"requirements": {"a": "b"}}, "requirements", "valid list"),
    (QUEUED | {"requirements": [{"name": "cpu_millis", "value": 500}]}, "requirements[0].value", "valid string"),
    (QUEUED | {"requirements": [{"name": "a", "value": "1", "x": 1}]}, "requirements[0].x", "no such field"),
    (QUEUED | {"requirements": [{"name": "a", "value": "1"}] * 2}, "requirements", "no name stands twice"),
    (QUEUED | {"action_digest": "xyz"}, "action_digest", "<hex>/<size>"),
    (QUEUED | {"action_digest": "abc/1"}, "action_digest", "<hex>/<size>"),
    (QUEUED | {"action_digest": "ab/1"}, "action_digest", "20 to 64 bytes"),
    (QUEUED | {"inputs": [f"{SHA}/1", ""]}, "command.inputs[1]", "each input is a digest"),
    (QUEUED | {"argv": ["a", 1]}, "argv[1]", "valid string"),
    (QUEUED | {"client_operation_id": ""}, "client_operation_id", "1 to 256 characters"),
    (FINISHED | {"result": "EXITED"}, "result", "one of exited"),
    (FINISHED | {"result": "unspecified"}, "result", "one of exited"),
    (FINISHED | {"usage": {"wall_us": -1}}, "usage.wall_us", "from 0 to 2^63-1"),
    (FINISHED | {"dispatch_id": 0}, "dispatch_id", "from 1"),
    ({"kind": "Configured", "config": []}, "config", "valid dictionary"),
    ({"kind": "Configured", "config_json": "{}"}, "config", "required"),
    ({"kind": "Tick", "instance": "main"}, "instance", "no such field"),
    ({"kind": "CancelRequested"}, "operation_id", "exactly one"),
    ({"kind": "CancelRequested", "operation_id": 0, "client_operation_id": "c"}, "operation_id", "exactly one"),
    ({"kind": "PriorityRequested", "client_operation_id": "c"}, "priority", "required"),
]


@pytest.mark.parametrize(("obj", "field", "words"), REFUSED, ids=[str(i) for i in range(len(REFUSED))])
def test_an_invalid_json_fact_is_refused_with_field_value_and_rule(obj, field, words):
    with pytest.raises(InvalidFact) as refused:
        fact_from_json(obj)
    assert refused.value.field == field
    assert words in refused.value.rule
    read = decode_fact(json.dumps(obj).encode(), (("content-type", b"application/json"),))
    assert isinstance(read, f.Unreadable)
    assert read.field == field
    assert read.rule == refused.value.rule
    assert read.reason is (RejectReason.UNKNOWN_KIND if field == "kind" else RejectReason.INVALID_FIELD)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "one JSON object"),
        ("[1]", "one JSON object"),
        ("nonsense", "one JSON object"),
        ('{"a":NaN}', "NaN"),
        ('{"a":{"b":1,"b":2}}', "'b' stands twice"),
        (b'{"a":"\xff"}', "UTF-8"),
        ('{"a":"\\ud800"}', "UTF-8"),
        ("[" * 100_000, "nested"),
    ],
)
def test_what_is_no_json_object_is_refused_as_a_whole(text, words):
    with pytest.raises(InvalidFact) as refused:
        json_object(text)
    assert refused.value.field == ""
    assert words in refused.value.rule


def test_a_surrogate_pair_is_one_character():
    assert json_object('{"a":"\\ud83d\\ude00"}') == {"a": "😀"}


def test_the_rejected_fact_says_whose_it_was():
    read = decode_fact(
        json.dumps(QUEUED | {"instance": "ci", "x": 1}).encode(), (("content-type", b"application/json"),)
    )
    assert isinstance(read, f.Unreadable)
    assert (read.instance, read.key, read.fact_kind) == ("ci", "c1", "ActionQueued")


def test_digests_are_hex_and_size():
    assert digest_from_text(f"{SHA}/17") == Digest(bytes.fromhex(SHA), 17)
    assert digest_from_text(f"{SHA}-17") == Digest(bytes.fromhex(SHA), 17), "as files and URLs name it"
    assert digest_from_text(None) == NO_DIGEST
    for bad in ("", None):
        assert digest_from_text(bad) == NO_DIGEST
    for bad in (7, "x", "ab", "ab/", "/1", "ab/-1"):
        with pytest.raises(ValueError, match="hex"):
            digest_from_text(bad)


def test_events_print_enums_digests_and_commands_as_they_are_read():
    queued = event_to_json(
        e.OperationQueued(
            5, 9, 4, "main", "c1", 1, action_digest=Digest(bytes.fromhex(SHA), 3), command=command_bytes(["echo"])
        )
    )
    assert "offset" not in queued
    assert (queued["operation_id"], queued["action_digest"], queued["argv"]) == (4, f"{SHA}/3", ["echo"])
    finished = event_to_json(e.OperationFinished(6, 9, 5, 4, 3, Outcome.COMPLETED, stdout_tail=b"a\xff"))
    assert (finished["outcome"], finished["stdout_tail"]) == ("completed", "a\\xff")
    assert event_to_json(e.RequirementDefined(1, 1, 1, 1, canonical_requirements([("a", "b")])))["requirements"] == [
        {"name": "a", "value": "b"}
    ]
    assert event_to_json(e.Configured(1, 1, 1, "main", '{"kind":"simple"}'))["config"] == {"kind": "simple"}


def test_a_placement_prints_in_the_same_mapping():
    placement = placements_pb2.Placement()
    placed = placement.action_placed
    placed.instance, placed.operation_id, placed.dispatch_id, placed.endpoint = "main", 4, 6, "w1"
    placed.requirements.items.add(name="a", value="b")
    placed.action_digest.hash, placed.action_digest.size_bytes = bytes.fromhex(SHA), 3
    placed.command.argv.append("echo")
    printed = placement_to_json(placement)
    assert printed["kind"] == "ActionPlaced"
    assert printed["requirements"] == [{"name": "a", "value": "b"}]
    assert (printed["action_digest"], printed["argv"], printed["redelivered"]) == (f"{SHA}/3", ["echo"], False)
    ended = placements_pb2.Placement()
    ended.placement_ended.end, ended.placement_ended.outcome = 1, 5
    assert placement_to_json(ended)["end"] == "finished"
    assert placement_to_json(ended)["outcome"] == "cancelled"
    with pytest.raises(ValueError, match="newer build"):
        placement_to_json(placements_pb2.Placement())


def test_a_worker_command_prints_what_it_is_for_and_what_it_says():
    command = commands_pb2.WorkerCommand(instance="main", endpoint="w1", connection_id=7, seq=3)
    command.kill_requested.dispatch_id, command.kill_requested.cause = 6, 1
    printed = command_to_json(command)
    assert (printed["kind"], printed["endpoint"], printed["dispatch_id"], printed["cause"]) == (
        "KillRequested",
        "w1",
        6,
        "cancelled",
    )
    admitted = commands_pb2.WorkerCommand()
    admitted.admitted.kept.extend([4, 5])
    assert command_to_json(admitted)["kept"] == [4, 5]
    with pytest.raises(ValueError, match="newer build"):
        command_to_json(commands_pb2.WorkerCommand())
