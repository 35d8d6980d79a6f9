"""The upstream edge: operations run with another scheduler, and neither dying nor a log that is away loses or doubles one."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from events import events as e
from events import facts as f
from events.codec import canonical_requirements
from events.errors import SequenceBroken
from events.payloads import command_bytes
from events.reasons import Outcome, RunResult, UpstreamState
from streams.client import FactPublisher
from streams.crashing_log import Crash, CrashingLog, ProcessDied, When
from streams.edges.forwards import CANCEL_AGAIN_US, Forwards, Target
from streams.edges.running import ShardEdges, UpstreamLogs
from streams.edges.upstream import offset_at
from streams.errors import OutcomeUnknown
from streams.log import Follower, Log, Outgoing, Partition
from streams.memory_log import MemoryLog
from streams.topics import FACTS, PLACEMENTS, topic_table
from streams.worker.executors import SimulatedExecutor
from streams.worker.protocol import RunReport
from tests.streams.edging import ONE_CORE, action, cache_lookup, configured, edges, of_instance, put, upstream
from tests.streams.scheduling import events_in, serving, until, worker

SIMPLE: dict[str, object] = {"kind": "simple"}


def queued(name: str, instance: str = "front", **more: object) -> f.ActionQueued:
    return f.ActionQueued(instance, name, ONE_CORE, **more)  # type: ignore[arg-type]


def finished(log: MemoryLog, instance: str = "front") -> list[e.OperationFinished]:
    return of_instance(log, instance, e.OperationFinished)  # type: ignore[return-value]


def named(log: MemoryLog, instance: str = "main") -> list[str]:
    """The client_operation_ids of what was queued in an instance, in order."""
    return [event.client_operation_id for event in events_in(log, e.OperationQueued) if event.instance == instance]  # type: ignore[attr-defined]


def told(log: MemoryLog) -> list[UpstreamState]:
    return [event.state for event in events_in(log, e.UpstreamReported)]  # type: ignore[attr-defined]


class ExitsWith(SimulatedExecutor):
    """Reports an exit code of its own."""

    def __init__(self, exit_code: int) -> None:
        super().__init__()
        self.exit_code = exit_code

    def start(self, placed, ended) -> None:  # type: ignore[no-untyped-def]
        super().start(
            placed, lambda number, report: ended(number, RunReport(RunResult.EXITED, self.exit_code, "as told"))
        )


# -- there and back ---------------------------------------------------------------------------------------------------------


async def test_an_operation_runs_upstream_and_its_end_comes_back() -> None:
    asked = queued("mine", priority=4, expected_duration_us=1_000, target_id="//a", mnemonic="Make", client_id="me")
    async with (
        configured(front=upstream("main"), main=SIMPLE) as log,
        edges(log),
        serving(log, worker(), executor=ExitsWith(3)),
        FactPublisher(log) as publisher,
    ):
        await publisher.publish(asked)
        end = await publisher.wait("mine", instance="front", timeout_s=20)
    assert (end.outcome, end.exit_code) == (Outcome.COMPLETED, 3)
    front, there = events_in(log, e.OperationQueued)
    assert there.client_operation_id == f"front/op-{front.operation_id}"
    for name in (
        "priority",
        "expected_duration_us",
        "target_id",
        "mnemonic",
        "client_id",
        "queued_at_us",
        "requirement_id",
    ):
        assert getattr(there, name) == getattr(front, name), name
    assert told(log) == [UpstreamState.PLACED, UpstreamState.FINISHED]


async def test_a_requeue_upstream_is_told() -> None:
    async with configured(front=upstream("main"), main=SIMPLE) as log, edges(log):
        await put(
            log, queued("mine"), f.WorkerConnected("main", "w1", 1, 7, (("cpu_millis", "4000"), ("memory_kib", "1")))
        )
        await until(lambda: told(log) == [UpstreamState.PLACED], "placed")
        await put(log, f.WorkerGone("main", "w1", 7))
        await until(lambda: told(log) == [UpstreamState.PLACED, UpstreamState.REQUEUED], "requeued")


@pytest.mark.parametrize("running", [True, False])
async def test_a_cancel_here_cancels_there(running: bool) -> None:
    async with configured(front=upstream("main"), main=SIMPLE) as log, edges(log), AsyncExitStack() as stack:
        if running:
            await stack.enter_async_context(serving(log, worker()))
        await put(log, queued("mine", expected_duration_us=600_000_000))
        await until(lambda: bool(told(log)) if running else len(named(log)) == 1, "there")
        await put(log, f.CancelRequested("front", client_operation_id="mine"))
        await until(lambda: len(finished(log, "main")) == 1, "cancelled there")
        assert [end.outcome for end in finished(log, "main")] == [Outcome.CANCELLED]
        assert [end.outcome for end in finished(log)] == [Outcome.CANCELLED]


async def test_another_priority_here_is_another_priority_there() -> None:
    async with configured(front=upstream("main"), main=SIMPLE) as log, edges(log):
        await put(log, queued("mine"))
        await until(lambda: len(named(log)) == 1, "there")
        await put(log, f.PriorityRequested("front", client_operation_id="mine", priority=9))
        await until(lambda: len(of_instance(log, "main", e.OperationReprioritised)) == 1, "told")
        (event,) = of_instance(log, "main", e.OperationReprioritised)
        assert event.priority == 9  # type: ignore[attr-defined]


async def test_a_miss_of_the_cache_goes_upstream_and_a_hit_does_not() -> None:
    looked_up = {"kind": "cache_lookup", "scheduler": upstream("main")}
    async with (
        configured(front=looked_up, main=SIMPLE) as log,
        edges(log),
        serving(log, worker()),
        FactPublisher(log) as publisher,
    ):
        for name in ("first", "second"):
            await publisher.publish(action(name, instance="front"))
            assert (await publisher.wait(name, instance="front", timeout_s=20)).succeeded
    assert len(named(log)) == 1
    assert [end.outcome for end in finished(log)] == [Outcome.COMPLETED, Outcome.COMPLETED_FROM_CACHE]


# -- refused ----------------------------------------------------------------------------------------------------------------


async def refused(log: MemoryLog, *facts: f.Fact) -> str:
    await put(log, *facts)
    await until(lambda: len(finished(log)) == 1, "refused")
    (end,) = finished(log)
    assert end.outcome is Outcome.UPSTREAM_FAILED
    return end.message


async def test_an_instance_that_is_not_there_refuses_with_the_known_ones() -> None:
    async with configured(front=upstream("nowhere"), main=SIMPLE) as log, edges(log):
        message = await refused(log, queued("mine"))
        assert "unknown instance 'nowhere'; known instances: 'front', 'main'" in message


async def test_what_the_scheduler_there_rejects_is_refused_with_its_rule() -> None:
    numbers: dict[str, object] = {"kind": "simple", "supported_platform_properties": {"gpu": "minimum"}}
    async with configured(front=upstream("main"), main=numbers) as log, edges(log):
        asked = f.ActionQueued("front", "mine", canonical_requirements([("gpu", "many")]))
        message = await refused(log, asked)
        assert "requirements.gpu" in message
        assert "'many'" in message


async def test_what_the_log_there_never_takes_is_refused_alone() -> None:
    async with configured(front=upstream("main"), main=SIMPLE) as log, edges(log) as one:
        await until(lambda: one.caught_up)
        # Large enough that the longer name of the operation there puts the record over the limit.
        room = (1 << 20) - 123
        large = f.ActionQueued("front", "m", ONE_CORE, command=command_bytes(["x" * room]))
        await put(log, large, queued("small"))
        await until(lambda: len(finished(log)) == 1 and len(named(log)) == 1, "one is refused, one is there")
        (end,) = finished(log)
        assert "over the limit of 1048576 bytes" in end.message


@pytest.mark.parametrize("others", [[], ["b"], ["b", "c"]])
async def test_what_would_go_round_in_a_circle_is_refused(others: list[str]) -> None:
    ring = ["front", *others]
    configs = {name: upstream(after) for name, after in zip(ring, [*others, "front"], strict=True)}
    async with configured(**configs) as log, edges(log):
        message = await refused(log, queued("mine"))
        assert "circle" in message
        assert len(events_in(log, e.OperationQueued)) == 1


def test_what_came_from_another_shard_is_not_sent_back() -> None:
    events = front_events()
    assert isinstance(events[3], e.OperationQueued)
    events[3].client_operation_id = "main/op-77"
    forwards = folded(*events)
    assert forwards.goes_round(forwards.open[5])
    assert not (plain := folded(*front_events())).goes_round(plain.open[5])


# -- dying and being away ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at_call", range(4))
@pytest.mark.parametrize("of", ["publish", "follow"])
async def test_a_death_at_any_publish_or_follow_loses_and_doubles_nothing(of: str, at_call: int, when: When) -> None:
    async with configured(front=upstream("main"), main=SIMPLE) as log:
        dying = CrashingLog(log, Crash(at_call, when, of))
        task = asyncio.create_task(ShardEdges(dying, 0, UpstreamLogs(dying, None)).run(asyncio.Event()))
        async with serving(log, worker(), executor=ExitsWith(3)), FactPublisher(log) as publisher:
            await publisher.publish_all([queued("a"), queued("b", expected_duration_us=50_000)])
            _, pending = await asyncio.wait([task], timeout=1.0)
            if pending:  # fewer calls than that were made
                task.cancel()
            async with edges(log):
                ends = [await publisher.wait(name, instance="front", timeout_s=20) for name in ("a", "b")]
        result = (await asyncio.gather(task, return_exceptions=True))[0]
    assert isinstance(result, ProcessDied | asyncio.CancelledError)
    assert [(end.outcome, end.exit_code) for end in ends] == [(Outcome.COMPLETED, 3)] * 2
    assert len(named(log)) == 2
    assert len(finished(log, "main")) == 2


async def test_what_ended_and_was_forgotten_while_the_edge_was_away_is_not_run_again() -> None:
    async with configured(front=upstream("main"), main={"kind": "simple", "retain_completed_for_s": 0}) as log:
        async with edges(log):
            await put(log, queued("mine"))
            await until(lambda: len(named(log)) == 1, "there")
        async with serving(log, worker(), executor=ExitsWith(3)):
            await until(lambda: len(events_in(log, e.OperationsForgotten)) == 1, "ended and forgotten there")
            async with edges(log):
                await until(lambda: len(finished(log)) == 1, "brought back")
        assert finished(log)[0].exit_code == 3
        assert len(named(log)) == 1


async def test_a_cancel_while_the_edge_was_away_is_told_by_the_next() -> None:
    async with configured(front=upstream("main"), main=SIMPLE) as log:
        async with edges(log):
            await put(log, queued("mine"))
            await until(lambda: len(named(log)) == 1, "there")
        await put(log, f.CancelRequested("front", client_operation_id="mine"))
        await until(lambda: len(finished(log)) == 1, "cancelled here")
        async with edges(log):
            await until(lambda: len(finished(log, "main")) == 1, "cancelled there")


async def test_another_cluster_may_be_away_and_come_back() -> None:
    async with (
        configured(front=upstream("main", bootstrap_servers="there:9092"), other=cache_lookup()) as here,
        configured(main=SIMPLE) as there,
    ):

        def open_log(target: Target) -> Log:
            assert target == Target("main", "there:9092")
            return there

        there.cut()
        async with edges(here, open_log) as one, FactPublisher(here) as publisher:
            await publisher.publish(queued("mine"))
            await until(lambda: bool(one.forwards.open), "forwarded")
            # The other edges of the shard go on meanwhile.
            await publisher.publish(action("looked-up", instance="other"))
            await until(lambda: len(events_in(here, e.CacheAnswered)) == 1, "answered")
            there.mend()
            async with serving(there, worker(), executor=ExitsWith(0)):
                assert (await publisher.wait("mine", instance="front", timeout_s=20)).succeeded
        (name,) = named(there)
        assert name.startswith("front/op-")
        assert name.endswith("@headway.facts.v1#0")


@pytest.mark.parametrize("committed", [True, False])
async def test_an_action_whose_fate_is_unknown_is_queued_once(committed: bool) -> None:
    async with (
        configured(front=upstream("main", bootstrap_servers="there:9092")) as here,
        configured(main=SIMPLE) as there,
    ):
        there.fail_next_publish(committed=committed)
        async with edges(here, lambda target: there), serving(there, worker()), FactPublisher(here) as publisher:
            await publisher.publish(queued("mine"))
            assert (await publisher.wait("mine", instance="front", timeout_s=20)).succeeded
        assert len(named(there)) == 1


class CutOff:
    """A log whose first publish arrives without an answer; from then on neither publishes nor reads get through."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self._reading: list[tuple[Follower, Partition]] = []
        self._publishes_pass = True
        self.publishes = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._log, name)

    async def publish(self, partition: Partition, records: list[Outgoing]) -> list[int]:
        self.publishes += 1
        if self._publishes_pass:
            offsets = await self._log.publish(partition, records)
            if self.publishes > 1:
                return offsets
            for follower, followed in self._reading:
                follower.pause(followed)
        self._publishes_pass = False
        raise OutcomeUnknown("publish", phase="publish", waited_ms=0)

    async def follow(self, partitions: dict[Partition, int | None], *, committed: bool = True) -> Follower:
        follower = await self._log.follow(partitions, committed=committed)
        if (PLACEMENTS, 0) in partitions:
            self._reading += [(follower, partition) for partition in partitions]
        return follower

    def let_publishes_pass(self) -> None:
        self._publishes_pass = True

    def let_reads_pass(self) -> None:
        for follower, followed in self._reading:
            follower.resume(followed)


async def test_after_an_unknown_fate_what_came_from_there_is_read_before_anything_is_sent_again() -> None:
    async with (
        configured(front=upstream("main", bootstrap_servers="there:9092")) as here,
        configured(main={"kind": "simple", "retain_completed_for_s": 0}) as there,
    ):
        between = CutOff(there)
        async with edges(here, lambda target: between), serving(there, worker()):  # type: ignore[arg-type, return-value]
            await put(here, queued("mine"))
            await until(lambda: len(events_in(there, e.OperationsForgotten)) == 1, "ended and forgotten there")
            between.let_publishes_pass()
            tried, deadline = between.publishes, asyncio.get_running_loop().time() + 2
            await until(lambda: between.publishes > tried or asyncio.get_running_loop().time() > deadline)
            between.let_reads_pass()
            await until(lambda: len(finished(here)) == 1, "brought back")
        assert len(named(there)) == 1


async def test_a_prefix_without_a_cluster_is_refused() -> None:
    async with configured(front=upstream("main", topic_prefix="x-")) as log, edges(log):
        assert "this log is in memory" in await refused(log, queued("mine"))


async def test_many_operations_are_relayed_in_batches() -> None:
    async with configured(front=upstream("main"), main=SIMPLE) as log, edges(log):
        fleet = [worker(f"w{number}", cores=16) for number in range(8)]
        async with serving(log, *fleet), FactPublisher(log) as publisher:
            names = [f"c{number}" for number in range(1_200)]
            await publisher.publish_all([queued(name) for name in names])
            ends = await asyncio.gather(*[publisher.wait(name, instance="front", timeout_s=60) for name in names])
    assert all(end.succeeded for end in ends)
    assert len(named(log)) == len({*named(log)}) == 1_200


# -- the fold ---------------------------------------------------------------------------------------------------------------


def front_events(bootstrap_servers: str | None = None) -> list[e.Event]:
    config = '{"kind": "upstream", "instance": "main"}'
    if bootstrap_servers:
        config = f'{{"kind": "upstream", "instance": "main", "bootstrap_servers": "{bootstrap_servers}"}}'
    return [
        e.LeaderElected(1, 1, 0, 1, "cluster", "topic-7", "events-7", "test"),
        e.Configured(2, 1, 0, "front", config),
        e.RequirementDefined(3, 1, 5, 1, ONE_CORE),
        e.OperationQueued(4, 1, 5, "front", "mine", 1),
        e.OperationForwarded(5, 1, 5, 5, "main"),
    ]


def folded(*events: e.Event) -> Forwards:
    forwards = Forwards()
    for event in events:
        forwards.take(event)
    return forwards


def test_the_name_there_is_the_same_every_time_and_says_which_log_it_is_from() -> None:
    (here,) = folded(*front_events()).open.values()
    (away,) = folded(*front_events("there:1")).open.values()
    assert (here.name, away.name) == ("front/op-5", "front/op-5@topic-7")
    assert here.action.requirements == ONE_CORE


def test_a_name_there_is_never_too_long() -> None:
    events = front_events("there:1")
    for event in events:
        if isinstance(event, e.Configured | e.OperationQueued):
            event.instance = "i" * 255
    (forward,) = folded(*events).open.values()
    assert len(forward.name) <= 256
    assert forward.name.endswith("/op-5@topic-7")


def test_what_came_back_is_not_withdrawn_and_what_ended_before_is() -> None:
    back = folded(
        *front_events(),
        e.UpstreamReported(6, 1, 6, "front", 5, UpstreamState.FINISHED, Outcome.COMPLETED),
        e.OperationFinished(7, 1, 6, 5, 0, Outcome.COMPLETED),
    )
    assert (len(back.open), len(back.withdrawn)) == (0, 0)
    before = folded(*front_events(), e.OperationFinished(6, 1, 6, 5, 0, Outcome.CANCELLED))
    assert (len(before.open), len(before.withdrawn)) == (0, 1)


def test_what_was_withdrawn_long_ago_is_not_told_again() -> None:
    def ended(operation_id: int, at_us: int) -> list[e.Event]:
        return [
            e.OperationQueued(4, 1, operation_id, "front", f"c{operation_id}", 1),
            e.OperationForwarded(5, 1, operation_id, operation_id, "main"),
            e.OperationFinished(6, at_us, 6, operation_id, 0, Outcome.CANCELLED),
        ]

    forwards = folded(*front_events()[:3], *ended(5, 1), *ended(6, 2), *ended(7, CANCEL_AGAIN_US + 2))
    assert list(forwards.withdrawn) == [6, 7]


def test_what_was_not_queued_cannot_be_forwarded() -> None:
    with pytest.raises(SequenceBroken, match="hands operation 5"):
        folded(*front_events()[:3], e.OperationForwarded(5, 1, 5, 5, "main"))


async def test_an_offset_is_found_by_its_time() -> None:
    now_us = 0
    log = MemoryLog(clock_us=lambda: now_us)
    await log.ensure_topics(topic_table(1))
    for now_us in range(0, 1_000_000, 1_000):  # noqa: B007 the log's clock reads it
        await log.publish((FACTS, 0), [Outgoing(b"x")])
    follower = await log.follow({(FACTS, 0): None})
    for asked_us in (0, 1, 333_000, 999_000, 2_000_000):
        offset = await offset_at(follower, (FACTS, 0), asked_us, 1_000)
        assert offset <= -(-asked_us // 1_000)
        assert offset >= min(asked_us // 1_000, 1_000) - 64
    await follower.close()
