"""Records and back: every kind, the written-out forms against the tables, the chain, and what cannot be read."""

from dataclasses import replace

import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given, settings
from hypothesis import strategies as st

from events import events as e
from events import fact_rules
from events import facts as f
from events.codec import (
    GENESIS_CHAIN,
    EventEncoder,
    FactCodec,
    canonical_requirements,
    chain_of,
    check_chain,
    command_bytes,
    command_of,
    decode_event,
    decode_fact,
    encode_event,
    encode_fact,
    envelope_of,
    hot_events,
    hot_facts,
    requirements_of,
)
from events.codec import events as event_records
from events.codec import facts as fact_records
from events.errors import ChainBroken, InvalidFact, UnknownEvent
from events.reasons import Outcome, RejectReason, RunResult
from events.values import Digest
from proto.gen.headway.v1 import common_pb2, events_pb2, facts_pb2
from tests.core.record_strategies import any_event, any_fact, commands, records

EVENT_KINDS = sorted(e.EVENT_KINDS)
FACT_KINDS = sorted(f.FACT_KINDS)
JSON_HEADERS = (("content-type", b"application/json"),)


def epoch_of(event):
    return event.leader_epoch if isinstance(event, e.LeaderElected) else 7


@pytest.mark.parametrize("kind", EVENT_KINDS)
def test_an_event_comes_back_as_it_was_written(kind):
    @settings(max_examples=40, deadline=None)
    @given(records(e.EVENT_KINDS[kind]))
    def holds(event):
        value, _ = encode_event(event, epoch_of(event), GENESIS_CHAIN)
        assert decode_event(value) == event
        assert envelope_of(value) == (event.seq, event.cause_offset, event.at_us, epoch_of(event))

    holds()


@pytest.mark.parametrize("kind", FACT_KINDS)
def test_a_fact_comes_back_as_it_was_written(kind):
    @settings(max_examples=40, deadline=None)
    @given(records(f.FACT_KINDS[kind]))
    def holds(fact):
        assert decode_fact(encode_fact(fact)) == fact

    holds()


@pytest.mark.parametrize("kind", sorted(kind.__name__ for kind in hot_events.writers()))
def test_the_written_out_form_of_an_event_equals_the_plain_one(kind):
    encoder = EventEncoder()  # one for all examples: a field left over from the one before must show

    @settings(max_examples=150, deadline=None)
    @given(records(e.EVENT_KINDS[kind]))
    def holds(event):
        body = event_records.plain_body(event, 3)
        value, _ = encoder.encode(event, 3, GENESIS_CHAIN)
        assert value[:-18] == body
        message = events_pb2.Event.FromString(value)
        assert event_records.plain_event(message, message.WhichOneof("kind")) == decode_event(value)

    holds()


@pytest.mark.parametrize("kind", sorted(kind.__name__ for kind in hot_facts.writers(hot_facts.KnownRequirements())))
def test_the_written_out_form_of_a_fact_equals_the_plain_one(kind):
    codec = FactCodec()

    @settings(max_examples=150, deadline=None)
    @given(records(f.FACT_KINDS[kind]))
    def holds(fact):
        value = codec.encode(fact)
        assert value == fact_records.plain_record(fact)
        message = facts_pb2.Fact.FromString(value)
        assert codec.decode(value) == fact_records.plain_fact(message, message.WhichOneof("kind")) == fact

    holds()


def test_every_kind_that_has_a_written_out_writer_has_a_reader():
    assert len(hot_events.writers()) == len(hot_events.READERS)
    known = hot_facts.KnownRequirements()
    assert len(hot_facts.writers(known)) == len(hot_facts.readers(known))


BAD_FACTS = [
    (f.ActionQueued("", "c"), "instance"),
    (f.ActionQueued("i" * 257, "c"), "instance"),
    (f.ActionQueued("main", ""), "client_operation_id"),
    (f.ActionQueued("main", "c" * 257), "client_operation_id"),
    (f.ActionQueued("main", "c", priority=2**31), "priority"),
    (f.ActionQueued("main", "c", queued_at_us=2**63), "queued_at_us"),
    (f.ActionQueued("main", "c", queued_at_us=-1), "queued_at_us"),
    (f.ActionQueued("main", "c", timeout_us=10 * 365 * 24 * 3600 * 1_000_000 + 1), "timeout_us"),
    (f.ActionQueued("main", "c", expected_duration_us=2**62), "expected_duration_us"),
    (f.ActionQueued("main", "c", action_digest=Digest(b"x" * 19, 1)), "action_digest"),
    (f.ActionQueued("main", "c", action_digest=Digest(b"x" * 65, 1)), "action_digest"),
    (f.ActionQueued("main", "c", action_digest=Digest(b"", 1)), "action_digest"),
    (f.ActionQueued("main", "c", target_id="t" * 1025), "target_id"),
    (f.ActionQueued("main", "c", mnemonic="m" * 257), "mnemonic"),
    (f.ActionQueued("main", "c", client_id="m" * 257), "client_id"),
    (f.ActionQueued("main", "c", invocation_id="m" * 257), "invocation_id"),
    (
        f.ActionQueued("main", "c", requirements=canonical_requirements([(f"n{i:02}", "v") for i in range(65)])),
        "requirements",
    ),
    (f.ActionQueued("main", "c", requirements=canonical_requirements([("n" * 257, "v")])), "requirements[0].name"),
    (f.ActionQueued("main", "c", requirements=canonical_requirements([("", "v")])), "requirements[0].name"),
    (f.ActionQueued("main", "c", requirements=canonical_requirements([("n", "v" * 257)])), "requirements[0].value"),
    (f.ActionQueued("main", "c", command=command_bytes(["a\0b"])), "command.argv[0]"),
    (f.ActionQueued("main", "c", command=command_bytes([], [("A", "1"), ("A", "2")])), "command.env[1].name"),
    (f.ActionQueued("main", "c", command=command_bytes([], [("", "1")])), "command.env[0].name"),
    (f.ActionQueued("main", "c", command=command_bytes([], [("A=B", "1")])), "command.env[0].name"),
    (f.ActionQueued("main", "c", command=command_bytes([], [("A", "1", "s")])), "command.env[0].value"),
    (f.ActionQueued("main", "c", command=command_bytes([], [], [Digest(b"", 0)])), "command.inputs[0]"),
    (f.ActionQueued("main", "c", command=command_bytes([], [], [Digest(b"x" * 32, 1)] * 4097)), "command.inputs"),
    (f.WorkerConnected("main", "", 1, 1), "endpoint"),
    (f.WorkerConnected("main", "w 1", 1, 1), "endpoint"),
    (f.WorkerConnected("main", "w1\n", 1, 1), "endpoint"),
    (f.WorkerConnected("main", "w" * 257, 1, 1), "endpoint"),
    (f.WorkerConnected("main", "w1", 1, 0), "connection_id"),
    (f.WorkerConnected("main", "w1", 1, 1, properties=(("a", "1"), ("a", "2"))), "properties[1].name"),
    (f.WorkerConnected("main", "w1", 1, 1, running=(0,)), "running[0]"),
    (f.WorkerReported("main", "w 1", 1), "endpoint"),
    (f.WorkerReported("main", "w1", 1, 2**63), "free_memory_kib"),
    (f.DispatchAccepted("main", "w1", 1, 0), "dispatch_id"),
    (f.DispatchAccepted("main", "", 1, 1), "endpoint"),
    (f.DispatchDeclined("main", "w1", 1, 1, needed_kib=2**63), "needed_kib"),
    (f.ActionFinished("main", "w1", 1, 1, message="m" * 1025), "message"),
    (f.ActionFinished("main", "w1", 1, 1, stdout_tail=b"x" * 16385), "stdout_tail"),
    (f.ActionFinished("main", "w1", 1, 1, stderr_tail=b"x" * 16385), "stderr_tail"),
    (f.ActionFinished("main", "w1", 1, 1, exit_code=2**31), "exit_code"),
    (f.ActionFinished("main", "w1", 1, 1, RunResult.UNSPECIFIED), "result"),
    (f.CancelRequested("main"), "operation_id"),
    (f.CancelRequested("main", 4, "c"), "operation_id"),
    (f.PriorityRequested("main"), "operation_id"),
    (f.Configured("main", '{"x":"' + "y" * 262_144 + '"}'), "config_json"),
    (f.Configured("main", '{"x":"\\ud800"}'), "config_json"),
    (f.Configured("main", "[" * 100_000), "config_json"),
    (f.KeyReleased(""), "key"),
]


@pytest.mark.parametrize(
    ("fact", "field"), BAD_FACTS, ids=[f"{type(fact).__name__}-{field}" for fact, field in BAD_FACTS]
)
def test_a_fact_that_breaks_a_rule_is_refused_by_writer_and_reader_alike(fact, field):
    with pytest.raises(InvalidFact) as refused:
        encode_fact(fact)
    assert (refused.value.kind, refused.value.field) == (type(fact).__name__, field)
    assert refused.value.rule
    message = facts_pb2.Fact()
    try:
        fact_records._BY_KIND[type(fact)].fill(message, fact)
    except ValueError:
        return  # no record can hold it
    read = decode_fact(message.SerializeToString())
    assert isinstance(read, f.Unreadable)
    assert (read.reason, read.fact_kind, read.field) == (RejectReason.INVALID_FIELD, type(fact).__name__, field)
    assert read.rule == refused.value.rule
    assert len(read.value) <= 128


def test_the_quick_look_at_a_command_passes_nothing_that_the_full_one_refuses():
    @settings(max_examples=300, deadline=None)
    @given(
        st.lists(st.text(st.characters(exclude_categories=("Cs",)), max_size=20), max_size=4),
        st.lists(
            st.tuples(
                st.sampled_from(["A", "B", "C", "", "A=B", "A\0"]),
                st.sampled_from(["", "1", "\0"]),
                st.sampled_from(["", "", "key", "x" * 257]),
            ),
            max_size=3,
        ),
        st.lists(st.builds(Digest, st.sampled_from([b"", b"x" * 32, b"y" * 5]), st.integers(0, 5)), max_size=2),
    )
    def holds(argv, env, inputs):
        data = command_bytes(argv, env, inputs)
        if hot_facts._only_arguments(data):
            assert fact_rules.COMMAND_RULE.fault(data) is None
            assert command_of(data)[1:] == ((), ())
        read = common_pb2.Command.FromString(data)
        assert hot_facts._command_holds(data, read) == (fact_rules.COMMAND_RULE.fault(data) is None)

    holds()
    assert hot_facts._only_arguments(command_bytes(["echo", "hello"]))
    assert not hot_facts._only_arguments(command_bytes(["x"] * 20_000))


def test_a_number_of_an_enum_this_build_does_not_know_is_an_invalid_field():
    message = facts_pb2.Fact()
    message.action_finished.instance, message.action_finished.endpoint = "main", "w1"
    message.action_finished.dispatch_id, message.action_finished.result = 4, 99
    read = decode_fact(message.SerializeToString())
    assert isinstance(read, f.Unreadable)
    assert (read.field, read.value, read.key, read.instance) == ("result", "99", "w1", "main")


@pytest.mark.parametrize("value", [b"", b"\xff\xff", b"\0", b"{}", b"[]", b'{"kind":"Tick"}'])
def test_what_is_no_fact_is_undecodable(value):
    read = decode_fact(value)
    assert isinstance(read, f.Unreadable)
    assert read.reason is RejectReason.UNDECODABLE


def test_a_kind_of_a_newer_producer_is_an_unknown_kind_with_its_number():
    newer = bytes([0xA2, 0x06, 0x02, 0x0A, 0x00])  # field 100, length-delimited
    read = decode_fact(newer)
    assert isinstance(read, f.Unreadable)
    assert (read.reason, read.value) == (RejectReason.UNKNOWN_KIND, "100")


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=60), st.sampled_from([(), JSON_HEADERS]))
@example(b"[" * 200_000, JSON_HEADERS)
@example(b'{"a":' * 100_000, JSON_HEADERS)
@example(b"9" * 10_000, JSON_HEADERS)
@example(b'{"kind":"ActionQueued","kind":"Tick"}', JSON_HEADERS)
@example(b'{"kind":"\\ud800"}', JSON_HEADERS)
@example(b'{"kind":"Tick","\\udfff":1}', JSON_HEADERS)
@example(b"\xef\xbb\xbf{}", JSON_HEADERS)
def test_no_bytes_make_the_reader_raise_and_each_can_be_written_down_as_rejected(value, headers):
    read = decode_fact(value, headers)
    if isinstance(read, f.Unreadable):
        event = e.FactRejected(
            1, 1, 0, read.fact_kind, read.reason, read.field, read.value, read.rule, read.instance, read.key
        )
        record, _ = encode_event(event, 1, GENESIS_CHAIN)
        assert decode_event(record) == event


@settings(max_examples=200, deadline=None)
@given(any_fact, st.data())
def test_a_record_with_a_changed_byte_never_makes_the_reader_raise(fact, data):
    value = bytearray(encode_fact(fact))
    if value:
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    decode_fact(bytes(value))


def test_requirements_are_the_same_bytes_whatever_order_they_came_in():
    forward = canonical_requirements([("a", "1"), ("b", "2")])
    assert forward == canonical_requirements([("b", "2"), ("a", "1")])
    assert requirements_of(forward) == (("a", "1"), ("b", "2"))
    message = facts_pb2.Fact()
    message.action_queued.instance, message.action_queued.client_operation_id = "main", "c"
    for name, value in (("b", "2"), ("a", "1")):
        message.action_queued.requirements.items.add(name=name, value=value)
    for _ in range(2):  # the second time from memory
        assert decode_fact(message.SerializeToString()).requirements == forward
    with pytest.raises(InvalidFact, match="sorted by name"):
        encode_fact(f.ActionQueued("main", "c", message.action_queued.requirements.SerializeToString()))


def test_a_workers_properties_are_sorted_whatever_order_they_came_in():
    message = facts_pb2.Fact()
    part = message.worker_connected
    part.instance, part.endpoint, part.connection_id = "main", "w1", 1
    for name, value in (("b", "2"), ("a", "1")):
        part.properties.add(name=name, value=value)
    assert decode_fact(message.SerializeToString()).properties == (("a", "1"), ("b", "2"))


def test_a_requirement_that_stands_twice_is_refused():
    with pytest.raises(InvalidFact, match="no name stands twice"):
        canonical_requirements([("a", "1"), ("a", "2")])
    message = facts_pb2.Fact()
    message.action_queued.instance, message.action_queued.client_operation_id = "main", "c"
    for value in "12":
        message.action_queued.requirements.items.add(name="a", value=value)
    read = decode_fact(message.SerializeToString())
    assert isinstance(read, f.Unreadable)
    assert (read.field, read.value, read.key) == ("requirements", "a", "c")


def test_known_requirements_forget_rather_than_grow():
    known = hot_facts.KnownRequirements(max_entries=3, max_bytes=100)
    for number in range(10):
        data = canonical_requirements([("a", str(number))])
        assert known.is_canonical(data)
        assert len(known._canonical) <= 3
    known.is_canonical(canonical_requirements([("a", "x" * 200)]))
    assert all(len(data) <= 100 for data in known._canonical)


@settings(max_examples=100, deadline=None)
@given(commands)
def test_a_command_comes_back_as_it_was_written(data):
    command = command_of(data)
    assert command_bytes(*command) == data


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=40))
def test_canonical_bytes_of_a_command_stay_as_they_are_even_with_fields_of_a_newer_build(noise):
    message = common_pb2.Command()
    try:
        message.ParseFromString(noise)
    except DecodeError:
        return
    fact = facts_pb2.Fact()
    fact.action_queued.instance, fact.action_queued.client_operation_id = "main", "c"
    fact.action_queued.command.CopyFrom(message)
    read = decode_fact(fact.SerializeToString())
    if isinstance(read, f.ActionQueued):
        again = decode_fact(encode_fact(read))
        assert again == read
        event = e.OperationQueued(1, 1, 0, "main", "c", 1, command=read.command)
        assert decode_event(encode_event(event, 1, GENESIS_CHAIN)[0]) == event


def chained(events):
    chain, values = GENESIS_CHAIN, []
    for event in events:
        value, chain = encode_event(event, 1, chain)
        values.append(value)
    return values


THREE = [e.Ticked(1, 10, 0), e.Ticked(2, 20, 1), e.Ticked(3, 30, 2)]


def verified(values):
    chain = GENESIS_CHAIN
    for value in values:
        chain = check_chain(value, chain)
        assert chain_of(value) == chain
    return chain


def test_a_whole_chain_is_accepted():
    verified(chained(THREE))


@pytest.mark.parametrize("change", ["removed", "swapped", "doubled", "foreign"])
def test_a_changed_log_breaks_its_chain(change):
    values = chained(THREE)
    changed = {
        "removed": [values[0], values[2]],
        "swapped": [values[1], values[0], values[2]],
        "doubled": [values[0], values[0], values[1]],
        "foreign": [values[0], chained([replace(THREE[1], at_us=21)])[0], values[2]],
    }[change]
    with pytest.raises(ChainBroken):
        verified(changed)


@settings(max_examples=100, deadline=None)
@given(any_event, st.data())
def test_any_changed_byte_breaks_the_chain(event, data):
    value, _ = encode_event(event, epoch_of(event), GENESIS_CHAIN)
    changed = bytearray(value)
    changed[data.draw(st.integers(0, len(value) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ChainBroken):
        check_chain(bytes(changed), GENESIS_CHAIN)


@pytest.mark.parametrize("value", [b"", b"short", events_pb2.Event(seq=4).SerializeToString()])
def test_a_record_without_a_chain_is_no_event_record(value):
    with pytest.raises(ChainBroken, match="does not end in a chain"):
        chain_of(value)


@pytest.mark.parametrize("value", [b"\xff", b"", events_pb2.Event(seq=4).SerializeToString()])
def test_a_record_of_no_known_kind_stops_the_reader(value):
    with pytest.raises(UnknownEvent, match="HW-203"):
        decode_event(value)


def test_an_outcome_of_a_newer_build_stops_the_reader_and_is_named():
    message = events_pb2.Event(seq=9)
    message.operation_finished.outcome = 77
    with pytest.raises(UnknownEvent, match=r"OperationFinished with seq 9.*outcome.*77"):
        decode_event(message.SerializeToString())


def test_an_event_that_the_wire_contract_cannot_hold_is_an_error():
    with pytest.raises(ValueError, match=r"."):
        encode_event(e.OperationAccepted(1, 1, 1, -1, 1), 1, GENESIS_CHAIN)
    with pytest.raises(ValueError, match="command"):
        encode_event(e.OperationQueued(1, 1, 1, "main", "c", 1, command=b"\xff\xff"), 1, GENESIS_CHAIN)
    with pytest.raises(ValueError, match="leader epoch"):
        encode_event(e.LeaderElected(1, 1, 0, 5), 4, GENESIS_CHAIN)


def test_a_failed_write_leaves_nothing_behind_in_the_next_record():
    encoder, good = EventEncoder(), e.OperationFinished(2, 2, 2, 1, 1, Outcome.COMPLETED)
    with pytest.raises(ValueError, match=r"."):
        encoder.encode(replace(good, message="left over", exit_code=2**40), 1, GENESIS_CHAIN)
    assert decode_event(encoder.encode(good, 1, GENESIS_CHAIN)[0]) == good


def test_the_content_type_header_chooses_json():
    value = b'{"kind":"Tick"}'
    for content_type in (b"application/json", b"application/json; charset=utf-8", b"Application/JSON"):
        assert decode_fact(value, (("Content-Type", content_type),)) == f.Tick()
    assert isinstance(decode_fact(value, (("content-type", b"application/protobuf"),)), f.Unreadable)


def test_a_fact_no_producer_can_send_has_no_record():
    with pytest.raises(TypeError):
        encode_fact(f.Unreadable(RejectReason.UNDECODABLE))
