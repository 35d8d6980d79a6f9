"""Clients of attached operations: heard while they wait, gone when they leave, and silent otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from events import events as e
from events import facts
from events.codec import decode_fact
from events.reasons import Outcome, PlacementEnd
from proto.gen.headway.v1 import placements_pb2
from streams.client import FactPublisher, StillWaiting
from streams.endings import Finished
from streams.log import Outgoing, Partition
from streams.memory_log import MemoryLog
from streams.provisioning import provision
from streams.topics import FACTS, PLACEMENTS
from tests.streams.scheduling import events_in, scheduler, until

ALWAYS_S = 0.02


async def made() -> MemoryLog:
    log = MemoryLog()
    await provision(log, {"main": None}, shards=1)
    return log


def of_clients(log: MemoryLog) -> list[facts.Fact]:
    found = [decode_fact(record.value, record.headers) for record in log.records((FACTS, 0))]
    return [fact for fact in found if isinstance(fact, facts.ClientHeard | facts.ClientGone)]


async def finish(log: MemoryLog, name: str, outcome: Outcome = Outcome.COMPLETED) -> None:
    message = placements_pb2.Placement()
    ended = message.placement_ended
    ended.instance, ended.client_operation_id = "main", name
    ended.end, ended.outcome = int(PlacementEnd.FINISHED), int(outcome)
    await log.publish((PLACEMENTS, 0), [Outgoing(message.SerializeToString(), b"w1")])


async def test_a_client_that_waits_is_heard_again_and_again_and_not_after_the_end() -> None:
    log = await made()
    async with FactPublisher(log, heard_every_s=ALWAYS_S) as publisher:
        name = await publisher.queue(attached=True, client_operation_id="c")
        waiting = asyncio.create_task(publisher.wait(name))
        await until(lambda: len(of_clients(log)) >= 3, "heard three times")
        await finish(log, name)
        assert (await waiting).succeeded
        heard = of_clients(log)
        assert set(map(repr, heard)) == {repr(facts.ClientHeard("main", "c"))}
        assert (await publisher.wait(name)).succeeded
    assert of_clients(log) == heard
    assert log.records((FACTS, 0))[-1].key == b"c"


async def test_a_client_is_not_heard_before_the_interval_is_over() -> None:
    log = await made()
    async with FactPublisher(log, heard_every_s=600) as publisher:
        name = await publisher.queue(attached=True)
        with pytest.raises(StillWaiting):
            await publisher.wait(name, timeout_s=0.05)
    assert of_clients(log) == []


async def test_a_client_that_comes_back_elsewhere_is_heard_at_once() -> None:
    log = await made()
    async with FactPublisher(log, heard_every_s=600) as publisher:
        with pytest.raises(StillWaiting):
            await publisher.wait("of-another-process", timeout_s=0.01, attached=True)
    assert of_clients(log) == [facts.ClientHeard("main", "of-another-process")]


async def test_a_wait_that_is_cancelled_says_that_the_client_is_gone() -> None:
    log = await made()
    async with FactPublisher(log) as publisher:
        name = await publisher.queue(attached=True, client_operation_id="c")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await publisher.wait(name)
        await until(lambda: of_clients(log) == [facts.ClientGone("main", "c")], "gone")


async def test_leaving_the_publisher_leaves_what_is_waited_for() -> None:
    log = await made()
    async with FactPublisher(log) as publisher:
        names = [await publisher.queue(attached=True, client_operation_id=each) for each in ("a", "b")]
        waiting = [asyncio.create_task(publisher.wait(name)) for name in names]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [asyncio.CancelledError] * 2
    assert of_clients(log) == [facts.ClientGone("main", "a"), facts.ClientGone("main", "b")]


async def test_the_client_is_gone_when_the_last_of_its_waits_is() -> None:
    log = await made()
    async with FactPublisher(log) as publisher:
        name = await publisher.queue(attached=True, client_operation_id="c")
        first, second = (asyncio.create_task(publisher.wait(name)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        assert of_clients(log) == []
        second.cancel()
        await asyncio.wait([second])
        await until(lambda: of_clients(log) == [facts.ClientGone("main", "c")], "gone")


async def test_after_still_waiting_the_client_may_wait_again() -> None:
    log = await made()
    async with FactPublisher(log) as publisher:
        name = await publisher.queue(attached=True, client_operation_id="c")
        with pytest.raises(StillWaiting):
            await publisher.wait(name, timeout_s=0.01)
        await finish(log, name)
        assert (await publisher.wait(name)).outcome is Outcome.COMPLETED
    assert of_clients(log) == []


@pytest.mark.parametrize("attached", [False, None])
async def test_nothing_is_said_for_operations_that_are_not_attached(attached: bool | None) -> None:
    log = await made()
    async with FactPublisher(log, heard_every_s=ALWAYS_S) as publisher:
        name = await publisher.queue()
        with pytest.raises(StillWaiting):
            await publisher.wait(name, timeout_s=5 * ALWAYS_S, attached=attached)
        waiting = asyncio.create_task(publisher.wait(name))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
    assert of_clients(log) == []


async def test_many_clients_are_heard_in_few_batches() -> None:
    class Counting(MemoryLog):
        batches = 0

        async def publish(self, partition: Partition, records: Sequence[Outgoing]) -> list[int]:
            if isinstance(decode_fact(records[0].value, records[0].headers), facts.ClientHeard):
                self.batches += 1
            return await super().publish(partition, records)

    log = Counting()
    await provision(log, {"main": None}, shards=1)
    async with FactPublisher(log, heard_every_s=0.3) as publisher:
        names = [f"c{number}" for number in range(500)]
        await publisher.publish_all([facts.ActionQueued("main", name, attached=True) for name in names])
        waiting = [asyncio.create_task(publisher.wait(name)) for name in names]
        await until(lambda: len(of_clients(log)) >= 1_000, "each was heard twice")
        assert log.batches <= 2 * len(of_clients(log)) / 500
        for name in names:
            await finish(log, name)
        await asyncio.gather(*waiting)
    assert {type(fact) for fact in of_clients(log)} == {facts.ClientHeard}


async def test_a_keepalive_that_does_not_reach_the_log_is_said_and_does_not_end_the_wait(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = await made()
    # The time-out also bounds what must succeed here: a machine that stands still for less must not end the wait.
    async with FactPublisher(log, heard_every_s=ALWAYS_S, timeout_s=2.0) as publisher:
        name = await publisher.queue(attached=True, client_operation_id="c")
        waiting = asyncio.create_task(publisher.wait(name))
        await until(lambda: len(of_clients(log)) >= 1)
        log.cut()
        before = len(of_clients(log))
        await until(lambda: waiting.done() or "did not reach the log" in caplog.text, "it is said")
        assert not waiting.done()
        log.mend()
        await until(lambda: len(of_clients(log)) > before, "heard again")
        await finish(log, name)
        assert (await waiting).succeeded


async def test_an_operation_lives_as_long_as_its_client_waits() -> None:
    async with (
        scheduler(client_action_timeout_s=1) as log,
        FactPublisher(log, heard_every_s=0.2) as publisher,
        FactPublisher(log) as other,
    ):
        name = await publisher.queue(attached=True)
        forgotten = await other.queue(attached=True)
        waiting = asyncio.create_task(publisher.wait(name))
        ended = asyncio.create_task(other.wait(forgotten, attached=False))
        assert (await asyncio.wait_for(ended, 20)).outcome is Outcome.ABANDONED
        begun = len(events_in(log, e.Ticked))
        await until(lambda: len(events_in(log, e.Ticked)) >= begun + 3, "the timeout passed once more")
        assert not waiting.done()
        waiting.cancel()
        finished = lambda: [event.outcome for event in events_in(log, e.OperationFinished)]  # noqa: E731
        await until(lambda: len(finished()) == 2, "ended at once")
        assert finished() == [Outcome.ABANDONED] * 2


@pytest.mark.parametrize(
    ("outcome", "exit_code", "succeeded"),
    [
        (Outcome.COMPLETED, 0, True),
        (Outcome.COMPLETED_FROM_CACHE, 0, True),
        (Outcome.COMPLETED_FROM_CACHE, 1, False),
        (Outcome.ABANDONED, 0, False),
    ],
)
def test_a_result_from_the_cache_is_a_success(outcome: Outcome, exit_code: int, succeeded: bool) -> None:
    assert Finished("c", 1, outcome, exit_code, "", "", 0).succeeded is succeeded
