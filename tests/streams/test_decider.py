"""The decider on the in-memory log: deciding, bad facts, recovery from every doubt, several shards."""

from __future__ import annotations

import asyncio

import pytest

from events import events as e
from events import facts as f
from events.codec import decode_fact, encode_fact
from events.reasons import IgnoreReason, RejectReason
from streams import leadership
from streams.errors import Fenced, NoSuchPartition, NoSuchTopic, OffsetTrimmed, Refused
from streams.log import Outgoing
from streams.memory_log import MemoryLog
from streams.ownership import Role
from streams.recovery import DamagedLog, OtherLog
from streams.topics import DEAD_LETTERS, EVENTS, FACTS, PLACEMENTS, WORKER_COMMANDS, TopicSpec, topic_table
from streams.transaction import CLOSE_AT_BYTES
from tests.streams.deciding import (
    Cluster,
    assert_exactly_once,
    configured,
    connected,
    decide_all,
    decided,
    decider,
    events_of,
    queued,
    running,
    until,
    without_elections,
)

STORY = [
    configured(),
    connected("w1", 2000),
    connected("w2", 2000),
    *(queued(f"a{number}") for number in range(6)),
    f.CancelRequested("main", client_operation_id="a5"),
    f.Tick(),
    f.WorkerGone("main", "w1"),
    queued("a0"),
    connected("w3", 1000),
    f.PriorityRequested("main", client_operation_id="a4", priority=5),
    f.WorkerDrained("main", "w2"),
    queued("late", priority=9),
    f.Tick(),
]


async def cluster_with(*facts: f.Fact, **options: object) -> Cluster:
    cluster = await Cluster.start(**options)
    await cluster.put(*facts)
    return cluster


# -- deciding -------------------------------------------------------------------------------------------------------------


async def test_a_queued_action_is_placed_on_a_worker_in_one_transaction() -> None:
    cluster = await cluster_with(configured(), connected("w1"), queued("a"))
    await decide_all(cluster)
    assert cluster.kinds() == [
        "LeaderElected", "Configured", "WorkerAdmitted", "RequirementDefined", "OperationQueued", "OperationDispatched",
    ]  # fmt: skip
    (placement,) = cluster.placements()
    assert placement.action_placed.client_operation_id == "a"
    assert placement.action_placed.dispatch_id == 6
    assert_exactly_once(cluster)


async def test_the_first_event_names_the_leader_the_cluster_and_the_topics() -> None:
    cluster = await cluster_with(configured())
    await decide_all(cluster)
    elected = cluster.events()[0]
    assert isinstance(elected, e.LeaderElected)
    assert (elected.leader_epoch, elected.cluster_id, elected.build) == (1, "memory", "test")
    assert elected.facts_topic_id == await cluster.log.topic_id(FACTS)
    assert elected.events_topic_id == await cluster.log.topic_id(EVENTS)


async def test_placements_and_commands_carry_cloudevents_headers() -> None:
    cluster = await cluster_with(configured(), connected("w1"), queued("a"))
    await decide_all(cluster)
    (placed,) = cluster.records(PLACEMENTS)
    assert placed.key == b"w1"
    assert dict(placed.headers) == {
        "ce_specversion": b"1.0",
        "ce_id": b"0/6",
        "ce_source": b"/headway/main",
        "ce_type": b"headway.v1.ActionPlaced",
        "content-type": b"application/protobuf",
    }
    (admitted,) = cluster.records(WORKER_COMMANDS)
    assert (admitted.key, dict(admitted.headers)["ce_type"]) == (b"w1", b"headway.v1.WorkerAdmitted")


async def test_no_two_messages_share_a_cloudevents_id() -> None:
    cluster = await cluster_with(
        configured(), *(connected(f"w{n}", 1000) for n in range(4)), *(queued(f"a{n}") for n in range(4))
    )
    await cluster.put(*(f.CancelRequested("main", client_operation_id=f"a{n}") for n in range(4)))
    await decide_all(cluster)
    await decide_all(cluster)  # the new leader writes the four kills again, all with its own event's seq
    ids = [dict(record.headers)["ce_id"] for record in cluster.records(WORKER_COMMANDS)]
    assert len(ids) == 12
    assert len(set(ids)) == 12


@pytest.mark.parametrize("most_facts", [1, 2, 3, 7, 2000])
async def test_any_batching_gives_the_same_events(most_facts: int) -> None:
    reference = await cluster_with(*STORY)
    await decide_all(reference)
    cluster = await cluster_with(*STORY)
    one = await decide_all(cluster, most_facts=most_facts)
    assert cluster.records(EVENTS) != []
    assert [record.value for record in cluster.records(EVENTS)] == [
        record.value for record in reference.records(EVENTS)
    ]
    assert one.stats.transactions == 1 + -(-len(STORY) // most_facts)
    assert_exactly_once(cluster)


async def test_a_large_batch_is_split_into_transactions_of_a_sane_size_between_facts() -> None:
    big = [f.ActionQueued("main", f"a{n}", target_id="t" * 200, mnemonic="m" * 50) for n in range(60)]
    reference = await cluster_with(configured(), connected("w1"), *big)
    await decide_all(reference)
    cluster = await cluster_with(configured(), connected("w1"), *big)
    one = await decide_all(cluster, close_at_bytes=2_000)
    assert CLOSE_AT_BYTES == 3 << 20
    assert one.stats.batches == 1
    assert 4 < one.stats.transactions < 30
    assert [r.value for r in cluster.records(EVENTS)] == [r.value for r in reference.records(EVENTS)]


async def test_a_restart_requeues_nothing_and_writes_unsettled_placements_again() -> None:
    cluster = await cluster_with(*STORY)
    await decide_all(cluster)
    before = cluster.events()
    state = cluster.fold().shard
    current = [operation.dispatch.dispatch_id for operation in state.operations.values() if operation.dispatch]
    await decide_all(cluster)
    after = cluster.events()
    assert [type(event).__name__ for event in after[len(before) :]] == ["LeaderElected"]
    redelivered = [p.action_placed.dispatch_id for p in cluster.placements() if p.action_placed.redelivered]
    assert sorted(redelivered) == sorted(current) != []
    assert_exactly_once(cluster)


async def test_facts_that_came_while_nobody_led_are_decided_in_order() -> None:
    cluster = await cluster_with(*STORY[:9])
    await decide_all(cluster)
    await cluster.put(*STORY[9:])
    await decide_all(cluster)
    reference = await cluster_with(*STORY)
    await decide_all(reference)
    assert without_elections(cluster.events()) == without_elections(reference.events())


async def test_each_shard_has_its_own_order_and_one_process_owns_several() -> None:
    cluster = await Cluster.start(shards=3)
    for shard in range(3):
        await cluster.put(configured(f"i{shard}"), connected("w1", instance=f"i{shard}"), shard=shard)
        await cluster.put(*(queued(f"a{n}", instance=f"i{shard}") for n in range(shard + 1)), shard=shard)
    deciders = [decider(cluster.log, shard) for shard in range(3)]
    async with running(*deciders):
        for one in deciders:
            await decided(one, cluster)
    for shard in range(3):
        assert_exactly_once(cluster, shard)
        assert len(events_of(cluster.events(shard), e.OperationDispatched)) == shard + 1


async def test_a_stop_finishes_the_batch_at_hand() -> None:
    cluster = await cluster_with(*STORY)
    one = decider(cluster.log, most_facts=4)
    async with running(one):
        await until(lambda: one.stats.transactions > 1)
    assert one.role is Role.STOPPED
    assert cluster.fold().shard.position == one.stats.position
    await decide_all(cluster)
    assert_exactly_once(cluster)


# -- bad facts --------------------------------------------------------------------------------------------------------------


async def test_an_undecodable_record_is_rejected_with_its_bytes_in_the_dead_letters() -> None:
    cluster = await cluster_with(configured(), connected("w1"))
    offset = await cluster.put_raw(b"\xff\xff poison", b"k")
    await cluster.put(queued("a"))
    await decide_all(cluster)
    (rejected,) = events_of(cluster.events(), e.FactRejected)
    assert (rejected.reason, rejected.cause_offset) == (RejectReason.UNDECODABLE, offset)
    (letter,) = cluster.records(DEAD_LETTERS)
    headers = dict(letter.headers)
    assert (letter.key, letter.value) == (b"k", b"\xff\xff poison")
    assert headers["headway_reason"] == b"UNDECODABLE"
    assert headers["headway_offset"] == str(offset).encode()
    assert headers["ce_type"] == b"headway.v1.FactRejected"
    assert headers["ce_id"] == f"0/{rejected.seq}".encode()
    assert len(cluster.placed_ids()) == 1
    assert_exactly_once(cluster)


async def test_an_ignored_fact_is_no_dead_letter() -> None:
    cluster = await cluster_with(configured(), queued("a"), queued("a"))
    await decide_all(cluster)
    assert [event.reason for event in events_of(cluster.events(), e.FactIgnored)] == [IgnoreReason.DUPLICATE_OPERATION]
    assert cluster.records(DEAD_LETTERS) == []


def poisoned(monkeypatch: pytest.MonkeyPatch, name: str = "poison") -> None:
    """Make `decide` raise for one operation, after it has already changed the state."""
    real = leadership.decide

    def decide(shard, fact, **where):
        events = real(shard, fact, **where)
        if getattr(fact, "client_operation_id", "") == name and events[-1].__class__ is not e.FactIgnored:
            raise ZeroDivisionError("a fault in a rule")
        return events

    monkeypatch.setattr(leadership, "decide", decide)


@pytest.mark.parametrize("most_facts", [1, 2, 2000])
async def test_a_fact_that_cannot_be_decided_parks_its_key_and_the_rest_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, most_facts: int
) -> None:
    poisoned(monkeypatch)
    cluster = await cluster_with(configured(), connected("w1"), queued("a"), queued("poison"), queued("b"))
    await cluster.put(f.CancelRequested("main", client_operation_id="poison"), queued("c"))
    one = await decide_all(cluster, most_facts=most_facts)
    events = cluster.events()
    (rejected,) = events_of(events, e.FactRejected)
    assert (rejected.reason, rejected.key) == (RejectReason.UNDECIDABLE, "poison")
    assert "ZeroDivisionError: a fault in a rule" in rejected.value
    assert [event.key for event in events_of(events, e.KeyParked)] == ["poison"]
    assert [event.client_operation_id for event in events_of(events, e.OperationQueued)] == ["a", "b", "c"]
    assert [event.reason for event in events_of(events, e.FactIgnored)] == [IgnoreReason.KEY_PARKED]
    assert [dict(letter.headers)["headway_reason"] for letter in cluster.records(DEAD_LETTERS)] == [
        b"UNDECIDABLE",
        b"KEY_PARKED",
    ]
    assert (one.stats.undecidable, one.stats.rebuilds, one.stats.takeovers) == (1, 1, 1)
    (line,) = [record for record in caplog.records if record.message == "a fact cannot be decided"]
    assert "ZeroDivisionError" in line.fields["traceback"]
    assert_exactly_once(cluster)


async def test_a_released_key_is_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        poisoned(patch)
        cluster = await cluster_with(configured(), connected("w1"), queued("poison"))
        await decide_all(cluster)
    await cluster.put(queued("poison"), f.KeyReleased("poison"), queued("poison"))
    await decide_all(cluster)
    assert cluster.kinds()[-6:] == [
        "LeaderElected", "FactIgnored", "KeyReleased", "RequirementDefined", "OperationQueued", "OperationDispatched",
    ]  # fmt: skip


async def test_a_record_on_which_the_decoder_itself_fails_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails_on_one(value: bytes, headers: object = ()) -> f.Fact:
        if value == b"unforeseen":
            raise AttributeError("no such thing")
        return decode_fact(value, headers)  # type: ignore[arg-type]

    monkeypatch.setattr(leadership, "decode_fact", fails_on_one)
    cluster = await cluster_with(configured(), connected("w1"))
    await cluster.put_raw(b"unforeseen", b"k")
    await cluster.put(queued("a"))
    one = await decide_all(cluster)
    (rejected,) = events_of(cluster.events(), e.FactRejected)
    assert (rejected.reason, rejected.value) == (RejectReason.UNDECIDABLE, "AttributeError: no such thing")
    assert [letter.value for letter in cluster.records(DEAD_LETTERS)] == [b"unforeseen"]
    assert (one.stats.undecidable, one.stats.takeovers) == (1, 1)
    assert len(cluster.placed_ids()) == 1
    assert_exactly_once(cluster)


async def test_events_that_cannot_be_encoded_are_an_undecidable_fact(monkeypatch: pytest.MonkeyPatch) -> None:
    real = leadership.decide

    def decide(shard, fact, **where):
        events = real(shard, fact, **where)
        if getattr(fact, "client_operation_id", "") == "b":
            return [events[0], e.OperationAccepted(events[-1].seq, 0, 0, -1, -1)]
        return events

    monkeypatch.setattr(leadership, "decide", decide)
    cluster = await cluster_with(configured(), queued("a"), queued("b"), queued("c"))
    await decide_all(cluster)
    assert [event.key for event in events_of(cluster.events(), e.KeyParked)] == ["b"]
    assert [event.client_operation_id for event in events_of(cluster.events(), e.OperationQueued)] == ["a", "c"]


def narrowed(topic: str, max_message_bytes: int) -> list[TopicSpec]:
    from dataclasses import replace

    return [replace(s, max_message_bytes=max_message_bytes) if s.name == topic else s for s in topic_table(1)]


@pytest.mark.parametrize("topic", [PLACEMENTS, EVENTS])
async def test_a_fact_whose_outcome_the_log_refuses_is_rejected_with_size_and_limit(topic: str) -> None:
    cluster = Cluster()
    await cluster.log.ensure_topics(narrowed(topic, 1_000))
    await cluster.put(configured(), connected("w1", 99_000), queued("a"))
    await cluster.put(f.ActionQueued("main", "large", target_id="t" * 900, mnemonic="m" * 200))
    await cluster.put(queued("b"))
    one = await decide_all(cluster)
    (rejected,) = events_of(cluster.events(), e.FactRejected)
    assert (rejected.reason, rejected.key) == (RejectReason.UNDECIDABLE, "large")
    assert f"refused by {topic}" in rejected.value
    assert "the limit is 1000" in rejected.value
    assert len(cluster.placed_ids()) == 2
    assert one.role is Role.STOPPED
    assert_exactly_once(cluster)


async def test_a_log_that_refuses_even_the_rejection_stops_the_decider() -> None:
    cluster = Cluster()
    await cluster.log.ensure_topics(narrowed(DEAD_LETTERS, 600))
    await cluster.put_raw(b"\xff" * 2_000)
    one = decider(cluster.log)
    with pytest.raises(Refused, match="600"):
        await asyncio.wait_for(one.run(asyncio.Event()), 20)
    assert one.role is Role.STOPPED


# -- refusals to start ------------------------------------------------------------------------------------------------------


async def run_to_its_error(one) -> None:
    await asyncio.wait_for(one.run(asyncio.Event()), 20)


async def test_another_cluster_is_refused_with_the_remedy() -> None:
    cluster = await cluster_with(*STORY)
    await decide_all(cluster)
    other = Cluster(cluster_id="elsewhere")
    await other.log.ensure_topics(topic_table(1))
    writer = await other.log.open("copier")
    await writer.append({(EVENTS, 0): [Outgoing(record.value) for record in cluster.records(EVENTS)]})
    before = len(other.records(EVENTS))
    with pytest.raises(OtherLog, match=r"cluster id 'memory'.*'elsewhere'.*HEADWAY_TOPIC_PREFIX"):
        await run_to_its_error(decider(other.log))
    assert len(other.records(EVENTS)) == before


async def test_damaged_events_are_refused_and_nothing_is_appended() -> None:
    cluster = await cluster_with(*STORY)
    await decide_all(cluster)
    writer = await cluster.log.open("intruder")
    await writer.append({(EVENTS, 0): [Outgoing(b"not an event")]})
    before = len(cluster.records(EVENTS))
    with pytest.raises(DamagedLog, match="HW-204"):
        await run_to_its_error(decider(cluster.log))
    assert len(cluster.records(EVENTS)) == before


async def test_missing_topics_and_shards_are_errors_with_a_remedy() -> None:
    with pytest.raises(NoSuchTopic, match="headway topics apply"):
        await run_to_its_error(decider(MemoryLog()))
    cluster = await Cluster.start()
    with pytest.raises(NoSuchPartition, match="1 partition"):
        await run_to_its_error(decider(cluster.log, 4))


async def test_facts_that_retention_took_undecided_are_never_skipped_silently(caplog: pytest.LogCaptureFixture) -> None:
    cluster = await cluster_with(*STORY[:6])
    await decide_all(cluster)
    await cluster.put(*STORY[6:10])
    await cluster.log.trim((FACTS, 0), 8)
    with pytest.raises(OffsetTrimmed, match="offset 6 is gone"):
        await run_to_its_error(decider(cluster.log))
    one = decider(cluster.log, skip_lost_facts=True)
    async with running(one):
        await decided(one, cluster)
    (line,) = [record for record in caplog.records if record.message == "facts are lost that were never decided"]
    assert (line.fields["from_offset"], line.fields["to_offset"]) == (6, 7)
    assert [event.cause_offset for event in cluster.events()][-1] == 9


# -- what reaches it besides ------------------------------------------------------------------------------------------------


async def test_a_json_fact_is_decided_like_any_other() -> None:
    cluster = await cluster_with(configured(), connected("w1"))
    record = Outgoing(
        b'{"kind": "ActionQueued", "client_operation_id": "j"}', b"j", (("content-type", b"application/json"),)
    )
    await cluster.log.publish((FACTS, 0), [record])
    await decide_all(cluster)
    assert len(cluster.placed_ids()) == 1


async def test_the_writer_of_a_fenced_decider_says_so() -> None:
    cluster = await cluster_with(configured())
    one = decider(cluster.log)
    async with running(one):
        await decided(one, cluster)
        writer = one._writer
        await cluster.log.open(leadership.transactional_id(0))
        with pytest.raises(Fenced):
            await writer.append({(EVENTS, 0): [Outgoing(encode_fact(f.Tick()))]})
