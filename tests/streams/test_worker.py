"""Workers against the real decider on the in-memory log: what is queued is run once, whatever happens in between."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from events import events as e
from events import facts
from events.errors import InvalidFact
from events.payloads import canonical_requirements
from events.reasons import DisconnectReason, Outcome, RequeueCause, RunResult
from streams.client import FactPublisher, NotQueued, Secret
from streams.effects import record_of
from streams.errors import LogUnavailable, NoSuchTopic, Refused
from streams.log import Outgoing, Partition, Record
from streams.memory_log import MemoryFollower, MemoryLog
from streams.placements import ActionPlaced
from streams.provisioning import provision
from streams.topics import FACTS, PLACEMENTS, WORKER_COMMANDS
from streams.worker.commands import UnreadableCommand
from streams.worker.executors import ProcessExecutor, SimulatedExecutor
from streams.worker.memory import available_kib
from streams.worker.outbox import Outbox
from streams.worker.protocol import RunReport, Standing
from streams.worker.runtime import Surroundings, WorkerRuntime
from streams.worker.secret_source import SecretSource
from tests.streams.scheduling import deciding, events_in, scheduler, serving, until, worker

SECOND_US = 1_000_000


class Held:
    """An executor whose runs end when the test says so."""

    def __init__(self) -> None:
        self.runs: dict[int, tuple[ActionPlaced, object]] = {}
        self.stopped: list[int] = []
        self.started: list[int] = []
        self.closed = False

    def start(self, placed: ActionPlaced, ended: object) -> None:
        self.started.append(placed.dispatch_id)
        self.runs[placed.dispatch_id] = (placed, ended)

    def end(self, dispatch_id: int, result: RunResult = RunResult.EXITED) -> None:
        _, ended = self.runs.pop(dispatch_id)
        ended(dispatch_id, RunReport(result))  # type: ignore[operator]

    def stop(self, dispatch_id: int) -> None:
        self.stopped.append(dispatch_id)
        asyncio.get_running_loop().call_soon(self.end, dispatch_id, RunResult.KILLED)

    async def close(self) -> None:
        self.closed = True


class Refusing:
    """A log that takes no fact any more once it is told so."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self.refuses = False

    async def publish(self, partition: Partition, records: Sequence[Outgoing]) -> list[int]:
        if self.refuses:
            raise Refused(partition, reason="for the test")
        return await self._log.publish(partition, records)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


# -- real processes ---------------------------------------------------------------------------------------------------------


async def test_a_queued_command_runs_and_its_end_is_seen(tmp_path: Path) -> None:
    executor = ProcessExecutor(SecretSource(None, {"HEADWAY_SECRET_TOKEN": "hush-hush"}), root=tmp_path / "root")
    async with scheduler() as log, serving(log, worker(), executor=executor), FactPublisher(log) as publisher:
        name = await publisher.queue(
            argv=["/bin/sh", "-c", 'echo "$A $TOKEN"; exit 3'],
            env={"A": "b", "TOKEN": Secret("TOKEN")},
            requirements={"cpu_millis": 1000, "memory_kib": 1024},
        )
        finished = await publisher.wait(name, timeout_s=20)
        assert (finished.outcome, finished.exit_code, finished.endpoint) == (Outcome.COMPLETED, 3, "w1")
        assert not finished.succeeded
        (event,) = events_in(log, e.OperationFinished)
        assert isinstance(event, e.OperationFinished)
        assert event.stdout_tail == b"b ***\n"
        assert event.usage.wall_us > 0
        assert len(events_in(log, e.OperationAccepted)) == 1
        everything = b"".join(record.value for record in log.records((FACTS, 0)))
        assert b"hush-hush" not in everything
    assert not (tmp_path / "root").exists()


async def test_a_cancelled_run_is_killed_and_its_room_given_back(tmp_path: Path) -> None:
    executor = ProcessExecutor(SecretSource(), root=tmp_path / "root")
    async with scheduler() as log, serving(log, worker(cores=1), executor=executor), FactPublisher(log) as publisher:
        started = tmp_path / "started"
        script = f"touch {started}; sleep 600"
        name = await publisher.queue(argv=["/bin/sh", "-c", script], requirements={"cpu_millis": 1000})
        after = await publisher.queue(argv=["/bin/true"], requirements={"cpu_millis": 1000})
        await until(started.exists)
        await publisher.cancel(name)
        assert (await publisher.wait(name, timeout_s=20)).outcome is Outcome.CANCELLED
        assert (await publisher.wait(after, timeout_s=20)).succeeded
        (settled,) = events_in(log, e.DispatchSettled)
        assert isinstance(settled, e.DispatchSettled)
        assert settled.result is RunResult.KILLED


async def test_a_timeout_and_a_missing_program_end_the_operation(tmp_path: Path) -> None:
    executor = ProcessExecutor(SecretSource(), root=tmp_path / "root")
    async with scheduler() as log, serving(log, worker(), executor=executor), FactPublisher(log) as publisher:
        slow = await publisher.queue(argv=["sleep", "600"], timeout_us=SECOND_US // 5)
        absent = await publisher.queue(argv=["no-such-program-here"])
        assert (await publisher.wait(slow, timeout_s=20)).outcome is Outcome.ACTION_TIMED_OUT
        finished = await publisher.wait(absent, timeout_s=20)
        assert finished.outcome is Outcome.FAILED_PRECONDITION
        assert "no-such-program-here" in finished.message


# -- the protocol over the log ----------------------------------------------------------------------------------------------


async def test_simulated_workers_run_a_crowd_exactly_once_within_their_capacity() -> None:
    workers = [worker(f"s-{number}", cores=2) for number in range(40)]
    async with scheduler() as log, serving(log, *workers, executor=SimulatedExecutor(0.01)) as runtime:
        async with FactPublisher(log) as publisher:
            facts_ = [
                facts.ActionQueued(
                    "main",
                    f"c{number}",
                    canonical_requirements([("cpu_millis", "1000")]),
                    expected_duration_us=SECOND_US,
                )
                for number in range(600)
            ]
            await publisher.publish_all(facts_)
            ends = await asyncio.gather(*[publisher.wait(f"c{number}", timeout_s=30) for number in range(600)])
        assert {end.outcome for end in ends} == {Outcome.COMPLETED}
        assert Counter(type(event) for event in events_in(log))[e.OperationFinished] == 600
        assert not events_in(log, e.OperationRequeued)
        assert runtime.stats.started == 600


async def test_one_read_serves_all_workers_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    followed: list[list[Partition]] = []
    follow = MemoryLog.follow

    async def counted(log: MemoryLog, partitions: object, **more: object) -> object:
        followed.append(list(partitions))  # type: ignore[call-overload]
        return await follow(log, partitions, **more)  # type: ignore[arg-type]

    async with scheduler() as log:
        monkeypatch.setattr(MemoryLog, "follow", counted)
        async with serving(log, *[worker(f"s-{number}") for number in range(300)]):
            of_workers = [partitions for partitions in followed if (WORKER_COMMANDS, 0) in partitions]
            assert of_workers == [[(PLACEMENTS, 0), (WORKER_COMMANDS, 0)]]


async def test_keepalives_hold_a_worker_for_longer_than_its_timeout() -> None:
    async with scheduler(worker_timeout_s=1) as log:
        one = worker()
        async with serving(log, one, available_kib=lambda: 4242) as runtime:
            begun = time.monotonic()
            await until(lambda: time.monotonic() - begun > 2.5, "two timeouts and a half")
            assert one.standing is Standing.SERVING
            assert runtime.stats.connects == 1
            assert 5 <= runtime.stats.keepalives <= 12
        reported = events_in(log, e.WorkerReported)
        assert {event.free_memory_kib for event in reported if isinstance(event, e.WorkerReported)} == {4242}
        gone = [event for event in events_in(log, e.WorkerDisconnected) if isinstance(event, e.WorkerDisconnected)]
        assert [event.reason for event in gone] == [DisconnectReason.GONE]


async def test_a_worker_is_admitted_once_a_decider_comes() -> None:
    log = MemoryLog()
    await provision(log, {"main": None}, shards=1)
    one = worker()
    runtime = WorkerRuntime(log, 0, [one], SimulatedExecutor(), Surroundings(lambda: 5))
    task = asyncio.create_task(runtime.run())
    await until(lambda: bool(runtime.stats.connects))
    assert not one.admitted
    async with deciding(log):
        await until(lambda: one.admitted)
        runtime.drain()
        assert await asyncio.wait_for(task, 10) == 0


async def test_a_takeover_of_the_decider_neither_doubles_nor_loses_a_run() -> None:
    async with scheduler() as log:
        held = Held()
        async with serving(log, worker(), executor=held), FactPublisher(log) as publisher:
            name = await publisher.queue(requirements={"cpu_millis": 1000})
            await until(lambda: len(held.runs) == 1)
            async with deciding(log) as second:  # fences the first and redelivers what is unsettled
                await until(lambda: second.stats.leader_epoch >= 2)
                held.end(held.started[0])
                assert (await publisher.wait(name, timeout_s=20)).succeeded
        assert len(held.started) == 1
        assert len(events_in(log, e.OperationDispatched)) == 1


async def test_a_worker_whose_words_nobody_knows_connects_again() -> None:
    async with scheduler(worker_timeout_s=1) as log:
        one, held = worker(), Held()
        async with serving(log, one, executor=held) as runtime, FactPublisher(log) as publisher:
            name = await publisher.queue(requirements={"cpu_millis": 1000})
            await until(lambda: len(held.runs) == 1)
            await log.publish((FACTS, 0), [record_of(facts.WorkerGone("main", "w1", one.connection_id))])
            await until(lambda: len(held.started) == 2, "the action runs again, on the new connection")
            assert held.stopped == held.started[:1]
            assert runtime.stats.connects == 2
            held.end(held.started[1])
            assert (await publisher.wait(name, timeout_s=20)).succeeded
        requeued = [event for event in events_in(log, e.OperationRequeued) if isinstance(event, e.OperationRequeued)]
        assert [event.cause for event in requeued] == [RequeueCause.WORKER_GONE]


async def test_a_restarted_worker_of_the_same_name_takes_over_at_once() -> None:
    async with scheduler() as log:
        first, second = Held(), Held()
        async with serving(log, worker(boot_epoch=1), executor=first) as former, FactPublisher(log) as publisher:
            name = await publisher.queue(requirements={"cpu_millis": 1000})
            await until(lambda: len(first.runs) == 1)
            async with serving(log, worker(boot_epoch=2), executor=second):
                await until(lambda: len(second.runs) == 1)
                second.end(second.started[0])
                assert (await publisher.wait(name, timeout_s=20)).succeeded
                await until(lambda: bool(former.stops))
            assert former.stops["w1"].exit_code == 1
            assert "another worker has connected as 'w1'" in former.stops["w1"].why
            assert first.stopped == first.started


async def test_a_drain_reports_what_runs_and_leaves_the_rest_to_others() -> None:
    async with scheduler() as log:
        held, other = Held(), Held()
        async with serving(log, worker("w1", cores=1), executor=held) as runtime, FactPublisher(log) as publisher:
            running = await publisher.queue(requirements={"cpu_millis": 1000})
            await until(lambda: len(held.runs) == 1)
            runtime.drain(60 * SECOND_US)
            waiting = await publisher.queue(requirements={"cpu_millis": 1000})
            async with serving(log, worker("w2"), executor=other):
                await until(lambda: len(other.runs) == 1)
                other.end(other.started[0])
                held.end(held.started[0])
                assert (await publisher.wait(running, timeout_s=20)).endpoint == "w1"
                assert (await publisher.wait(waiting, timeout_s=20)).endpoint == "w2"
                await until(lambda: "w1" in runtime.stops)
        assert runtime.stops["w1"].exit_code == 0
        assert not events_in(log, e.OperationRequeued)


async def test_abandoned_runs_are_a_worker_loss_and_run_elsewhere() -> None:
    async with scheduler() as log:
        held, other = Held(), Held()
        async with serving(log, worker("w1"), executor=held) as runtime, FactPublisher(log) as publisher:
            name = await publisher.queue(requirements={"cpu_millis": 1000})
            await until(lambda: len(held.runs) == 1)
            runtime.drain()
            runtime.abandon("a second signal")
            async with serving(log, worker("w2"), executor=other):
                await until(lambda: len(other.runs) == 1)
                other.end(other.started[0])
                assert (await publisher.wait(name, timeout_s=20)).succeeded
        (requeued,) = events_in(log, e.OperationRequeued)
        assert isinstance(requeued, e.OperationRequeued)
        assert (requeued.cause, requeued.job_failures, requeued.worker_losses) == (RequeueCause.WORKER_GONE, 0, 1)
        assert runtime.stops["w1"].exit_code == 1


async def test_a_worker_with_a_property_that_is_no_number_is_refused() -> None:
    config = {"supported_platform_properties": {"gpu_milli": "minimum"}}
    async with scheduler(**config) as log:
        async with serving(log, worker(gpu_milli="many")) as runtime:
            await until(lambda: bool(runtime.stops))
        assert runtime.stops["w1"].exit_code == 1
        assert "properties.gpu_milli='many'" in runtime.stops["w1"].why


async def test_a_place_in_the_log_that_was_trimmed_away_is_taken_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scheduler() as log:
        one, held = worker(), Held()
        async with serving(log, one, executor=held) as runtime, FactPublisher(log) as publisher:
            name = await publisher.queue(requirements={"cpu_millis": 1000})
            await until(lambda: len(held.runs) == 1)
            _lose_place_in(monkeypatch, (WORKER_COMMANDS, 0))
            await until(lambda: runtime.stats.connects == 2 and one.admitted)
            assert held.stopped == [], "what was listed goes on"
            held.end(held.started[0])
            assert (await publisher.wait(name, timeout_s=20)).succeeded
            assert len(held.started) == 1
            assert runtime.stats.connects == 2


def _lose_place_in(monkeypatch: pytest.MonkeyPatch, partition: Partition) -> None:
    """Let whoever follows `partition` find itself, once, where the log has nothing."""
    read = MemoryFollower.read
    lost = [False]

    async def losing(follower: MemoryFollower, **options: Any) -> dict[Partition, list[Record]]:
        if not lost[0] and partition in follower._positions:
            lost[0] = True
            follower.seek(partition, 10**6)
        return await read(follower, **options)

    monkeypatch.setattr(MemoryFollower, "read", losing)


async def test_a_log_that_was_away_is_read_on_where_it_had_been(monkeypatch: pytest.MonkeyPatch) -> None:
    read, end_offset, follow = MemoryFollower.read, MemoryFollower.end_offset, MemoryLog.follow
    followed: list[dict[Partition, int | None]] = []
    failures = {"read": 0, "end_offset": 0}

    def away(follower: MemoryFollower, what: str) -> None:
        if failures[what] and (WORKER_COMMANDS, 0) in follower._positions:
            failures[what] -= 1
            raise LogUnavailable(what, address="memory", waited_ms=1)

    async def reading(follower: MemoryFollower, **options: Any) -> dict[Partition, list[Record]]:
        away(follower, "read")
        return await read(follower, **options)

    async def asking(follower: MemoryFollower, partition: Partition) -> int:
        away(follower, "end_offset")
        return await end_offset(follower, partition)

    async def following(log: MemoryLog, partitions: dict[Partition, int | None], **more: bool) -> MemoryFollower:
        if (WORKER_COMMANDS, 0) in partitions:
            followed.append(dict(partitions))
        return await follow(log, partitions, **more)

    monkeypatch.setattr(MemoryFollower, "read", reading)
    monkeypatch.setattr(MemoryFollower, "end_offset", asking)
    monkeypatch.setattr(MemoryLog, "follow", following)
    async with scheduler() as log:
        one, held = worker(), Held()
        async with serving(log, one, executor=held) as runtime, FactPublisher(log) as publisher:
            failures["read"] = 2
            names = [await publisher.queue(requirements={"cpu_millis": 1000}) for _ in range(2)]
            await until(lambda: len(held.runs) == 2)
            assert failures["read"] == 0
            assert runtime.stats.connects == 1, "nothing was missed, so there is nothing to ask for"
            assert len(followed) == 3, "a follower that failed is given up"
            assert followed[2][(WORKER_COMMANDS, 0)] == log.records((WORKER_COMMANDS, 0))[-1].offset + 1
            failures["end_offset"] = 1
            _lose_place_in(monkeypatch, (WORKER_COMMANDS, 0))
            await until(lambda: runtime.stats.connects == 2 and one.admitted)
            assert failures["end_offset"] == 0
            for dispatch_id in held.started:
                held.end(dispatch_id)
            for name in names:
                assert (await publisher.wait(name, timeout_s=20)).succeeded


async def test_a_fault_in_what_a_run_brings_ends_the_worker_with_the_error() -> None:
    async def break_the_rules(log: MemoryLog) -> None:
        held = Held()
        async with serving(log, worker(), executor=held), FactPublisher(log) as publisher:
            await publisher.queue(requirements={"cpu_millis": 1000})
            await until(lambda: len(held.runs) == 1)
            _, ended = held.runs.pop(held.started[0])
            ended(held.started[0], RunReport(RunResult.EXITED, message="m" * 5_000))  # type: ignore[operator]
            await until(lambda: held.closed)

    async with scheduler() as log:
        with pytest.raises(InvalidFact, match="message"):
            await break_the_rules(log)


async def test_a_fact_that_the_log_never_takes_ends_the_worker_with_the_error() -> None:
    async def report_in_vain(log: MemoryLog) -> None:
        held, refusing = Held(), Refusing(log)
        async with serving(refusing, worker(), executor=held), FactPublisher(log) as publisher:
            await publisher.queue(requirements={"cpu_millis": 1000})
            await until(lambda: len(held.runs) == 1)
            refusing.refuses = True
            held.end(held.started[0])
            await until(lambda: held.closed)

    async with scheduler() as log:
        with pytest.raises(Refused, match="for the test"):
            await report_in_vain(log)


async def test_topics_that_were_not_made_are_an_error() -> None:
    runtime = WorkerRuntime(MemoryLog(), 0, [worker()], SimulatedExecutor(), Surroundings(lambda: 5))
    with pytest.raises(NoSuchTopic):
        await runtime.run()


async def test_the_outbox_sends_in_order_until_acknowledged() -> None:
    log = MemoryLog()
    await provision(log, {"main": None}, shards=1)
    before = len(log.records((FACTS, 0)))
    outbox = Outbox(log, (FACTS, 0))
    sending = asyncio.create_task(outbox.run())
    for committed in (False, True, False):
        log.fail_next_publish(committed=committed)
    said = [facts.WorkerReported("main", "w1", 1, number) for number in range(3)]
    for fact in said:
        outbox.put(fact)
    await asyncio.wait_for(outbox.emptied(), 10)
    sending.cancel()
    found = [record.value for record in log.records((FACTS, 0))][before:]
    expected = [record_of(fact).value for fact in said]
    assert found == expected + expected, "the batch whose answer was lost stands twice, each time in order"


async def test_a_command_that_cannot_be_read_stops_its_worker_and_no_other() -> None:
    async def poisoned(log: MemoryLog) -> None:
        one, held = worker(), Held()
        async with serving(log, one, executor=held) as runtime:
            await log.publish((WORKER_COMMANDS, 0), [Outgoing(b"\xff", b"other")])
            keepalives = runtime.stats.keepalives
            await until(lambda: runtime.stats.keepalives > keepalives)
            assert one.standing is Standing.SERVING
            await log.publish((WORKER_COMMANDS, 0), [Outgoing(b"\xff", b"w1")])
            await until(lambda: held.closed)

    async with scheduler(worker_timeout_s=1) as log:
        await log.publish((WORKER_COMMANDS, 0), [Outgoing(b"\xff", b"w1")])  # before it connects: not its business
        with pytest.raises(UnreadableCommand, match="offset 4"):
            await poisoned(log)


def test_memory_that_is_free_is_the_kernels_word_or_the_groups(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable:    5000 kB\n")
    assert available_kib(meminfo, tmp_path) == 5000
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("1\n")
    (tmp_path / "memory.stat").write_text("anon 5\ninactive_file 1048576\n")
    assert available_kib(meminfo, tmp_path) == 5000
    (tmp_path / "memory.max").write_text(f"{4 << 20}\n")
    (tmp_path / "memory.current").write_text(f"{3 << 20}\n")
    assert available_kib(meminfo, tmp_path) == 2048
    assert available_kib(tmp_path / "absent", tmp_path) is None
    if sys.platform == "linux":
        assert (available_kib() or 0) > 0


async def test_an_action_the_decider_refuses_is_said_to_who_waits() -> None:
    async with scheduler() as log, FactPublisher(log) as publisher:
        name = await publisher.queue(requirements={"cpu_millis": "many"})
        with pytest.raises(NotQueued, match=r"cpu_millis.*many"):
            await publisher.wait(name, timeout_s=20)
