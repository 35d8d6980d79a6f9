"""`FactPublisher` and `PlacementReader` on the in-memory log, with a real decider where one is needed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from events import events as e
from events import facts
from events.codec import command_of, decode_fact, requirements_of
from events.errors import InvalidFact
from events.payloads import EnvironmentVariable
from events.reasons import Outcome, PlacementEnd, RequeueCause
from proto.gen.headway.v1 import placements_pb2
from streams import client
from streams.client import ActionPlaced, FactPublisher, PlacementEnded, PlacementReader, Secret, StillWaiting
from streams.endings import Endings, Finished
from streams.errors import (
    Closed,
    LogUnavailable,
    NoSuchTopic,
    OffsetPastEnd,
    OffsetTrimmed,
    OutcomeUnknown,
    Refused,
    UnknownInstance,
)
from streams.log import Outgoing, Partition
from streams.memory_log import MemoryLog
from streams.placements import Redeliveries, UnreadablePlacement
from streams.provisioning import provision
from streams.topics import FACTS, PLACEMENTS
from streams.worker.executors import SimulatedExecutor
from tests.streams.scheduling import deciding, events_in, scheduler, serving, until, worker

LIMIT_BYTES = 1 << 20


async def made(*instances: str, shards: int = 1) -> MemoryLog:
    """A log with topics and instances, and nobody at work."""
    log = MemoryLog()
    await provision(log, dict.fromkeys(instances or ("main",)), shards=shards)
    return log


def facts_in(log: MemoryLog, shard: int = 0) -> list[facts.Fact]:
    """The facts of a shard without the configuration."""
    found = [decode_fact(record.value, record.headers) for record in log.records((FACTS, shard))]
    return [fact for fact in found if not isinstance(fact, facts.Configured)]


def placed(dispatch_id: int, *, redelivered: bool = False, instance: str = "main") -> Outgoing:
    message = placements_pb2.Placement()
    part = message.action_placed
    part.instance, part.dispatch_id, part.endpoint, part.redelivered = instance, dispatch_id, "w1", redelivered
    part.operation_id, part.client_operation_id = 7, f"c{dispatch_id}"
    return Outgoing(message.SerializeToString(), b"w1")


def ended(dispatch_id: int, end: PlacementEnd = PlacementEnd.FINISHED) -> Outgoing:
    message = placements_pb2.Placement()
    part = message.placement_ended
    part.instance, part.dispatch_id, part.client_operation_id = "main", dispatch_id, f"c{dispatch_id}"
    part.end, part.exit_code, part.outcome = int(end), 3, int(Outcome.COMPLETED)
    if end is PlacementEnd.REQUEUED:
        part.cause, part.outcome = int(RequeueCause.WORKER_GONE), 0
    return Outgoing(message.SerializeToString(), b"w1")


# -- publishing -------------------------------------------------------------------------------------------------------------


async def test_queue_writes_the_fact_it_was_given() -> None:
    log = await made()
    async with FactPublisher(log) as publisher:
        name = await publisher.queue(
            argv=["make", "all"],
            env={"B": Secret("token"), "A": "x"},
            requirements={"memory_kib": 64, "cpu_millis": "500"},
            priority=-3,
            timeout_us=5,
            expected_duration_us=6,
            client_operation_id="mine",
            mnemonic="Make",
            target_id="//a:b",
        )
    assert name == "mine"
    (fact,) = facts_in(log)
    assert isinstance(fact, facts.ActionQueued)
    assert (fact.instance, fact.client_operation_id, fact.priority) == ("main", "mine", -3)
    assert (fact.timeout_us, fact.expected_duration_us, fact.mnemonic, fact.target_id) == (5, 6, "Make", "//a:b")
    assert requirements_of(fact.requirements) == (("cpu_millis", "500"), ("memory_kib", "64"))
    command = command_of(fact.command)
    assert command.argv == ("make", "all")
    assert command.env == (EnvironmentVariable("A", "x"), EnvironmentVariable("B", "", "token"))
    assert log.records((FACTS, 0))[-1].key == b"mine"


async def test_an_operation_id_is_made_where_none_is_given() -> None:
    log = await made()
    async with FactPublisher(log) as publisher:
        names = [await publisher.queue() for _ in range(3)]
    assert len(set(names)) == 3
    assert [fact.client_operation_id for fact in facts_in(log)] == names  # type: ignore[union-attr]


async def test_facts_go_to_the_shard_of_their_instance() -> None:
    log = await made("main", "other", shards=2)
    async with FactPublisher(log) as publisher:
        assert publisher.instances == ("main", "other")
        here, there = publisher.shard_of("main"), publisher.shard_of("other")
        assert {here, there} == {0, 1}
        await publisher.queue(client_operation_id="a")
        await publisher.queue(client_operation_id="b", instance="other")
        await publisher.cancel("b", instance="other")
        await publisher.set_priority("a", 5)
    assert facts_in(log, there)[1] == facts.CancelRequested("other", client_operation_id="b")
    assert facts_in(log, here)[1] == facts.PriorityRequested("main", client_operation_id="a", priority=5)
    assert len(facts_in(log, 0)) == len(facts_in(log, 1)) == 2


async def test_an_unknown_instance_lists_the_known_ones() -> None:
    log = await made("main", "other", shards=1)
    async with FactPublisher(log, instance="mian") as publisher:
        with pytest.raises(UnknownInstance, match="'mian'; known instances: 'main', 'other'"):
            await publisher.queue()
    assert facts_in(log) == []


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"client_operation_id": ""}, "client_operation_id"),
        ({"priority": 2**31}, "priority"),
        ({"requirements": {"": "1"}}, "requirements"),
        ({"timeout_us": -1}, "timeout_us"),
        ({"argv": ["a\0b"]}, "command"),
    ],
)
async def test_an_invalid_fact_is_refused_before_anything_is_sent(options: dict[str, object], field: str) -> None:
    log = await made()
    async with FactPublisher(log) as publisher:
        with pytest.raises(InvalidFact) as caught:
            await publisher.queue(**options)  # type: ignore[arg-type]
        assert caught.value.field.startswith(field)
        assert caught.value.rule
        with pytest.raises(InvalidFact):
            await publisher.publish_all([facts.CancelRequested("main", 5), facts.CancelRequested("main")])
    assert facts_in(log) == []


async def test_one_that_is_too_large_is_refused_with_size_and_limit_and_takes_no_other_with_it() -> None:
    log = await made()
    async with FactPublisher(log) as publisher:
        names = ["a", "large", "b"]
        results = await asyncio.gather(
            *[
                publisher.queue(argv=["x" * (LIMIT_BYTES if name == "large" else 1)], client_operation_id=name)
                for name in names
            ],
            return_exceptions=True,
        )
    refused = results[1]
    assert isinstance(refused, Refused)
    assert refused.limit_bytes == LIMIT_BYTES
    assert refused.size_bytes is not None
    assert refused.size_bytes > LIMIT_BYTES
    assert [results[0], results[2]] == ["a", "b"]
    assert [fact.client_operation_id for fact in facts_in(log)] == ["a", "b"]  # type: ignore[union-attr]


async def test_facts_put_at_the_same_time_share_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    log = await made()
    batches: list[int] = []
    publish = MemoryLog.publish

    async def counted(self: MemoryLog, partition: Partition, records: Sequence[Outgoing]) -> list[int]:
        batches.append(len(records))
        return await publish(self, partition, records)

    monkeypatch.setattr(MemoryLog, "publish", counted)
    async with FactPublisher(log) as publisher:
        offsets = await asyncio.gather(*[publisher.publish(facts.CancelRequested("main", n)) for n in range(500)])
    assert len(batches) <= 3
    assert sorted(offsets) == list(offsets)
    assert [fact.operation_id for fact in facts_in(log)] == list(range(500))  # type: ignore[union-attr]


async def test_a_lost_answer_is_sent_again_and_queues_one_operation() -> None:
    async with scheduler() as log, FactPublisher(log) as publisher:
        log.fail_next_publish(committed=True)
        await publisher.queue(client_operation_id="once")
        await publisher.queue(client_operation_id="after")
        await until(lambda: len(events_in(log, e.OperationQueued)) == 2)
        assert len([fact for fact in facts_in(log) if isinstance(fact, facts.ActionQueued)]) == 3


async def test_a_log_that_stays_away_is_an_error_in_time() -> None:
    log = await made()
    async with FactPublisher(log, timeout_s=0.2) as publisher:
        await publisher.queue(client_operation_id="a")
        log.cut()
        with pytest.raises((OutcomeUnknown, LogUnavailable)):
            await publisher.queue(client_operation_id="b")
        log.mend()
        assert await publisher.queue(client_operation_id="b") == "b"


async def test_a_publisher_that_was_not_entered_or_has_been_left_says_so() -> None:
    log = await made()
    publisher = FactPublisher(log)
    with pytest.raises(Closed):
        await publisher.queue()
    async with publisher:
        await publisher.queue()
    with pytest.raises(Closed):
        await publisher.queue()
    with pytest.raises(NoSuchTopic):
        await FactPublisher(MemoryLog()).__aenter__()
    with pytest.raises(ValueError, match="prefix"):
        FactPublisher(log, prefix="x-")


# -- waiting ----------------------------------------------------------------------------------------------------------------


async def test_wait_may_come_after_the_end() -> None:
    async with (
        scheduler() as log,
        serving(log, worker(), executor=SimulatedExecutor(0.001)),
        FactPublisher(log) as publisher,
    ):
        name = await publisher.queue(expected_duration_us=1_000)
        await until(lambda: len(events_in(log, e.OperationFinished)) == 1)
        first = await publisher.wait(name, timeout_s=10)
        assert isinstance(first, Finished)
        assert first.succeeded
        assert await publisher.wait(name, timeout_s=0) == first


async def test_wait_gives_up_in_time_and_can_be_asked_again() -> None:
    async with scheduler() as log, FactPublisher(log) as publisher:
        name = await publisher.queue()
        with pytest.raises(StillWaiting, match=r"within 0\.05 s"):
            await publisher.wait(name, timeout_s=0.05)
        async with serving(log, worker(), executor=SimulatedExecutor(0)):
            both = await asyncio.gather(publisher.wait(name, timeout_s=20), publisher.wait(name, timeout_s=20))
        assert both[0] == both[1]


async def test_a_requeue_is_no_end() -> None:
    log = await made()
    endings = Endings(log, 0, {(PLACEMENTS, 0): 0})
    waiting = asyncio.create_task(endings.wait("main", "c5", 10))
    await log.publish((PLACEMENTS, 0), [placed(5), ended(5, PlacementEnd.REQUEUED)])
    with pytest.raises(StillWaiting):
        await endings.wait("main", "c5", 0.1)
    await log.publish((PLACEMENTS, 0), [ended(5)])
    assert (await waiting).exit_code == 3
    await endings.close()


async def test_whoever_waits_hears_of_a_placement_that_cannot_be_read() -> None:
    log = await made()
    endings = Endings(log, 0, {(PLACEMENTS, 0): 0})
    await log.publish((PLACEMENTS, 0), [Outgoing(b"\xff", b"w1")])
    with pytest.raises(UnreadablePlacement):
        await endings.wait("main", "c5", 10)
    await endings.close()


# -- reading placements -----------------------------------------------------------------------------------------------------


async def test_placements_of_a_run_are_typed() -> None:
    async with scheduler() as log, PlacementReader(log) as reader:
        async with serving(log, worker(), executor=SimulatedExecutor(0)), FactPublisher(log) as publisher:
            await publisher.queue(
                argv=["true"], requirements={"cpu_millis": 1000}, client_operation_id="a", mnemonic="M", timeout_us=9
            )
            found = [await anext(aiter(reader)), await anext(aiter(reader))]
        first, second = found
        assert isinstance(first, ActionPlaced)
        assert isinstance(second, PlacementEnded)
        assert (first.client_operation_id, first.endpoint, first.attempt) == ("a", "w1", 1)
        assert first.requirements == (("cpu_millis", "1000"),)
        assert first.command.argv == ("true",)
        assert (first.mnemonic, first.timeout_us, first.action_digest) == ("M", 9, None)
        assert first.queued_at_us <= first.placed_at_us
        assert (second.dispatch_id, second.end, second.outcome) == (
            first.dispatch_id,
            PlacementEnd.FINISHED,
            Outcome.COMPLETED,
        )
        assert second.offset > first.offset


async def test_redeliveries_are_left_out_until_the_run_has_ended() -> None:
    log = await made()
    again = placed(5, redelivered=True)
    await log.publish((PLACEMENTS, 0), [placed(5), placed(6), again, ended(5), again])
    async with PlacementReader(log, start="earliest") as reader:
        found = await reader.read()
    assert [(type(p).__name__, p.dispatch_id) for p in found] == [
        ("ActionPlaced", 5),
        ("ActionPlaced", 6),
        ("PlacementEnded", 5),
        ("ActionPlaced", 5),
    ]


async def test_a_redelivery_of_a_run_that_began_before_comes_through_once_and_says_what_it_is() -> None:
    log = await made()
    async with PlacementReader(log) as reader:
        await log.publish((PLACEMENTS, 0), [placed(5, redelivered=True), placed(5, redelivered=True)])
        (only,) = await reader.read()
    assert isinstance(only, ActionPlaced)
    assert only.redelivered


async def test_what_is_remembered_of_redeliveries_is_bounded() -> None:
    seen = Redeliveries(remember=3)
    runs = [ActionPlaced("main", 1, "c", dispatch_id, "w", 1) for dispatch_id in range(5)]
    assert [seen.repeats(run) for run in runs] == [False] * 5
    assert len(seen) == 3
    assert [seen.repeats(run) for run in runs[2:]] == [True] * 3
    assert not seen.repeats(runs[0])
    with pytest.raises(ValueError, match="at least 1"):
        PlacementReader(MemoryLog(), remember=0)


async def test_a_reader_goes_on_where_an_earlier_one_had_come_to() -> None:
    log = await made("main", "other", shards=2)
    await log.publish((PLACEMENTS, 0), [placed(n) for n in range(1, 6)])
    await log.publish((PLACEMENTS, 1), [placed(n) for n in range(11, 14)])
    seen: list[int] = []
    async with PlacementReader(log, start="earliest") as reader:
        async for placement in reader:
            seen.append(placement.dispatch_id)
            if len(seen) == 4:
                break
        position = reader.position
    async with PlacementReader(log, start=position) as reader:
        while not await reader.at_end():
            seen += [placement.dispatch_id for placement in await reader.read(timeout_ms=50)]
    assert sorted(seen) == [1, 2, 3, 4, 5, 11, 12, 13]
    assert sum(position.values()) == 4


async def test_a_reader_may_be_of_one_shard_one_instance_and_one_offset() -> None:
    log = await made("main", "other", shards=2)
    await log.publish((PLACEMENTS, 1), [placed(1), placed(2), placed(3, instance="other"), placed(4)])
    async with PlacementReader(log, start=1, shards=[1], instance="main") as reader:
        assert [placement.dispatch_id for placement in await reader.read()] == [2, 4]
        assert reader.position == {1: 4}
    with pytest.raises(ValueError, match="2 shards"):
        await PlacementReader(log, start=1).__aenter__()


async def test_a_start_that_is_not_in_the_log_is_an_error() -> None:
    log = await made()
    await log.publish((PLACEMENTS, 0), [placed(n) for n in range(5)])
    await log.trim((PLACEMENTS, 0), 3)
    async with PlacementReader(log, start=1) as reader:
        with pytest.raises(OffsetTrimmed):
            await reader.read()
    async with PlacementReader(log, start=50) as reader:
        with pytest.raises(OffsetPastEnd):
            await reader.read()
    with pytest.raises(NoSuchTopic):
        await PlacementReader(MemoryLog()).__aenter__()
    with pytest.raises(Closed):
        await PlacementReader(log).read()


async def test_an_unreadable_placement_is_said_with_its_offset_after_those_before_it() -> None:
    log = await made()
    unknown = placements_pb2.Placement()
    unknown.placement_ended.end = 99  # type: ignore[assignment]
    for bad in (b"\xff", b"", unknown.SerializeToString()):
        async with PlacementReader(log) as reader:
            before = reader.position[0]
            await log.publish((PLACEMENTS, 0), [placed(1), Outgoing(bad, b"w1"), ended(1)])
            assert len(await reader.read()) == 1
            for _ in range(2):
                with pytest.raises(UnreadablePlacement, match=f"offset {before + 1}") as caught:
                    await reader.read()
            assert caught.value.offset == before + 1
        async with PlacementReader(log, start=before + 2) as reader:
            assert len(await reader.read()) == 1


async def test_only_what_is_committed_is_read() -> None:
    log = await made()
    log.fail_next_append(OutcomeUnknown, committed=False)
    writer = await log.open("decider-0")
    async with PlacementReader(log) as reader:
        with pytest.raises(OutcomeUnknown):
            await writer.append({(PLACEMENTS, 0): [placed(1)]})
        writer = await log.open("decider-0")
        await writer.append({(PLACEMENTS, 0): [placed(2)]})
        assert [placement.dispatch_id for placement in await reader.read()] == [2]


async def test_a_takeover_does_not_show_to_a_reader() -> None:
    async with (
        scheduler() as log,
        PlacementReader(log) as reader,
        serving(log, worker(), executor=SimulatedExecutor(1)),
        FactPublisher(log) as publisher,
    ):
        await publisher.queue(expected_duration_us=600_000_000)
        assert isinstance(await anext(aiter(reader)), ActionPlaced)
        async with deciding(log) as second:
            await until(lambda: second.stats.leader_epoch >= 2)
            assert len(log.records((PLACEMENTS, 0))) == 2, "it was redelivered"
            assert await reader.read(timeout_ms=50) == []


def test_what_the_module_promises_is_there() -> None:
    assert [name for name in client.__all__ if not hasattr(client, name)] == []
    assert client.__all__ == sorted(client.__all__)
