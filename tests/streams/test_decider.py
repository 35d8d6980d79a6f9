"""The decider on the in-memory log: deciding, bad facts, recovery from every doubt, several shards."""

from __future__ import annotations

import asyncio

import pytest

from events import events as e
from events import facts as f
from events.codec import encode_fact
from events.reasons import IgnoreReason, RejectReason
from streams import leadership
from streams.crashing_log import CrashingLog
from streams.errors import Fenced, NoSuchPartition, NoSuchTopic, OffsetTrimmed, OutcomeUnknown, Refused
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
    leading,
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


# -- fencing and doubt ------------------------------------------------------------------------------------------------------


async def test_a_fenced_owner_becomes_a_follower_and_what_it_had_not_committed_is_not_in_the_log() -> None:
    cluster = await cluster_with(*STORY[:6])
    first = decider(cluster.log)
    async with running(first):
        await decided(first, cluster)
        second = decider(cluster.log)
        async with running(second):
            await leading(second)
            await cluster.put(*STORY[6:])
            await decided(second, cluster)
            await until(lambda: first.role is Role.FOLLOWING, "the first one follows")
            assert first.stats.fencings == 1
            assert second.role is Role.LEADING
            await until(lambda: first.stats.seq == second.stats.seq, "it folds what the second one writes")
    assert_exactly_once(cluster)
    reference = await cluster_with(*STORY)
    await decide_all(reference)
    assert without_elections(cluster.events()) == without_elections(reference.events())


async def test_two_deciders_of_one_shard_never_both_append() -> None:
    cluster = await cluster_with(configured(), connected("w1", 1_000_000))
    deciders = [decider(cluster.log, most_facts=3) for _ in range(4)]  # each claims the shard at its start
    async with running(*deciders):
        for number in range(120):
            await cluster.put(queued(f"a{number}"))
            await asyncio.sleep(0)
        await until(lambda: cluster.fold().shard.position == cluster.records(FACTS)[-1].offset)
        assert sum(one.role is Role.LEADING for one in deciders) <= 1 + sum(one.stats.fencings == 0 for one in deciders)
    assert_exactly_once(cluster)
    epochs = [event.leader_epoch for event in events_of(cluster.events(), e.LeaderElected)]
    assert epochs == list(range(1, len(epochs) + 1))


@pytest.mark.parametrize("committed", [True, False, None], ids=["committed", "aborted", "left open"])
@pytest.mark.parametrize("transactions_before", [0, 1, 3])
async def test_an_unknown_outcome_is_settled_by_the_log(committed: bool | None, transactions_before: int) -> None:
    cluster = await cluster_with(*STORY)

    def lose_the_answer(name: str, count: int) -> None:
        if (name, count) == ("append", transactions_before):
            cluster.log.fail_next_append(OutcomeUnknown, committed=committed)

    one = decider(CrashingLog(cluster.log, on_call=lose_the_answer), most_facts=4)
    async with running(one):
        await decided(one, cluster)
    assert one.stats.unknown_outcomes == 1
    assert len(events_of(cluster.events(), e.LeaderElected)) == (
        1 if committed is not True and not transactions_before else 2
    )
    assert_exactly_once(cluster)
    reference = await cluster_with(*STORY)
    await decide_all(reference)
    assert without_elections(cluster.events()) == without_elections(reference.events())


async def test_an_outage_while_leading_is_waited_for_and_nothing_is_decided_twice() -> None:
    cluster = await cluster_with(*STORY[:8])
    one = decider(cluster.log, most_facts=2)
    async with running(one):
        await decided(one, cluster)
        await cluster.put(*STORY[8:])
        cluster.log.cut()  # the facts are in the log, the leader's next read or commit meets the outage
        await until(lambda: one.role is not Role.LEADING or one.stats.position < cluster.records(FACTS)[-1].offset)
        cluster.log.mend()
        await until(lambda: cluster.fold().shard.position == cluster.records(FACTS)[-1].offset)
    assert_exactly_once(cluster)


async def test_a_commit_into_an_outage_is_an_unknown_outcome_and_the_owner_comes_back() -> None:
    cluster = await cluster_with(*STORY[:8])
    clock = Clock()
    one = decider(cluster.log, monotonic_us=clock)
    async with running(one):
        await decided(one, cluster)
        append = one._writer.append

        async def into_the_outage(batches):
            cluster.log.cut()
            await append(batches)

        one._writer.append = into_the_outage
        await cluster.put(STORY[8])
        await until(lambda: one.role is Role.FOLLOWING, "it lost the log in a commit, and then could not open")
        assert one.stats.unknown_outcomes == 1
        cluster.log.mend()
        await cluster.put(*STORY[9:])

        def back() -> bool:
            clock.now_us += 10_000
            return one.role is Role.LEADING

        await until(back)
        await decided(one, cluster)
    assert_exactly_once(cluster)


async def test_a_decider_started_before_its_log_answers_waits_for_it(caplog: pytest.LogCaptureFixture) -> None:
    cluster = await cluster_with(*STORY)
    cluster.log.cut()
    one = decider(cluster.log)
    async with running(one):
        await until(lambda: one.stats.unavailable >= 1)
        assert one.role is Role.FOLLOWING
        cluster.log.mend()
        await decided(one, cluster)
    assert "the log is away" in caplog.messages
    assert_exactly_once(cluster)


async def test_a_commit_that_hangs_is_said(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(leadership, "_SAY_WAITING_AFTER_S", 0.01)
    cluster = await cluster_with(configured())
    one = decider(cluster.log)
    async with running(one):
        await decided(one, cluster)
        released = asyncio.Event()
        writer = one._leadership.writer
        append = writer.append

        async def hanging(batches):
            await released.wait()
            await append(batches)

        one._leadership.writer = type("Hanging", (), {"append": staticmethod(hanging)})()
        await cluster.put(f.Tick())
        await until(lambda: any(message.startswith("waiting for the log since") for message in caplog.messages))
        released.set()
        await decided(one, cluster)
    assert_exactly_once(cluster)


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
    with pytest.raises(OtherLog, match=r"cluster id 'memory'.*'elsewhere'.*headway import"):
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


# -- standby ----------------------------------------------------------------------------------------------------------------


class Clock:
    """A monotonic clock that the test moves."""

    def __init__(self) -> None:
        self.now_us = 0

    def __call__(self) -> int:
        return self.now_us


async def test_a_standby_takes_over_when_a_fact_gets_no_event_for_a_second() -> None:
    cluster = await cluster_with(*STORY[:8])
    await decide_all(cluster)
    clock = Clock()
    standby = decider(cluster.log, claim=False, monotonic_us=clock)
    async with running(standby):
        await until(lambda: standby.stats.seq == cluster.fold().shard.seq)
        await cluster.put(*STORY[8:])
        await until(lambda: standby._watch is not None and len(standby._watch._undecided) > 0)
        clock.now_us += 900_000
        await still_following(standby)
        clock.now_us += 100_000
        await leading(standby)
        await decided(standby, cluster)
    assert_exactly_once(cluster)
    reference = await cluster_with(*STORY)
    await decide_all(reference)
    assert without_elections(cluster.events()) == without_elections(reference.events())


async def still_following(one) -> None:
    """Let the decider go round its loop a few times and see that it stays what it is."""
    for _ in range(3):
        events, read, calls = one._events, one._events.read, []

        async def counting(read=read, calls=calls, **how):
            calls.append(how)
            return await read(**how)

        events.read = counting
        await until(lambda calls=calls: len(calls) >= 2)
        events.read = read
    assert one.role is Role.FOLLOWING


async def test_the_lower_rank_takes_over_and_the_higher_goes_on_following() -> None:
    cluster = await cluster_with(*STORY[:8])
    await decide_all(cluster)
    clock = Clock()
    first, second = (decider(cluster.log, claim=False, rank=rank, monotonic_us=clock) for rank in (1, 2))
    async with running(first, second):
        await until(lambda: first._watch is not None and second._watch is not None)
        await cluster.put(f.Tick())
        await until(lambda: bool(first._watch._undecided and second._watch._undecided))
        clock.now_us += 1_300_000  # the turn of rank 1; that of rank 2 is at 1.6 s
        await leading(first)
        await decided(first, cluster)
        await still_following(second)
        clock.now_us += 10_000_000
        await still_following(second)  # no fact waits, so no time makes a silence
    assert (first.stats.takeovers, second.stats.takeovers) == (1, 0)
    assert_exactly_once(cluster)


async def test_a_standby_of_a_new_log_waits_for_the_first_in_line() -> None:
    cluster = await cluster_with(*STORY)
    clock = Clock()
    second = decider(cluster.log, claim=False, rank=1, monotonic_us=clock)
    first = decider(cluster.log, claim=False, rank=0, monotonic_us=clock)
    async with running(second):
        await until(lambda: second._watch is not None)
        await still_following(second)
        async with running(first):
            await decided(first, cluster)
    assert cluster.events()[0].build == "test"
    assert (first.stats.takeovers, second.stats.takeovers) == (1, 0)


async def test_a_standby_ticks_when_nobody_does_so_an_idle_shard_is_taken_over_too() -> None:
    cluster = await cluster_with(*STORY)
    await decide_all(cluster)
    clock = Clock()
    standby = decider(cluster.log, claim=False, ticks=True, monotonic_us=clock)
    async with running(standby):
        await until(lambda: standby._watch is not None)
        before = len(cluster.records(FACTS))
        clock.now_us += 1_000_000
        await until(lambda: len(cluster.records(FACTS)) == before + 1)
        await until(lambda: bool(standby._watch._undecided))
        clock.now_us += 1_000_000
        await leading(standby)
        await until(lambda: standby.stats.position >= before)
    assert_exactly_once(cluster)


async def test_a_leader_ticks_every_half_second_of_its_clock() -> None:
    cluster = await cluster_with(configured())
    clock = Clock()
    one = decider(cluster.log, ticks=True, monotonic_us=clock)
    async with running(one):
        await leading(one)
        for count in range(1, 5):
            await until(lambda count=count: one._ticker.ticks >= count)
            assert one._ticker.ticks == count
            clock.now_us += 500_000
    assert one.stats.seq == cluster.fold().shard.seq


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
