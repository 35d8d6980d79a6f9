"""A worker with blobs on the log: what it reports and when, stable chunks, restarts; and two of them with a real decider and map."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest
from aiohttp import web

from events import events as e
from events import facts
from events.codec import decode_fact
from events.payloads import digests_bytes, digests_of
from events.reasons import Outcome
from events.values import Digest
from projections.locality import Holder
from projections.position import take
from projections.rows import MemoryRows
from projections.table import Table
from proto.gen.headway.v1 import commands_pb2
from streams.blobs.directory import Changes
from streams.blobs.fetching import BlobClient
from streams.blobs.locating import LocalityMap
from streams.blobs.naming import digest_of, name_of
from streams.blobs.serving import BlobServer
from streams.blobs.stable import StableBlobPublisher
from streams.blobs.tiers import DurableTier, MemoryTier, TieredStore
from streams.client import FactPublisher
from streams.effects import record_of
from streams.log import Outgoing, Partition
from streams.memory_log import MemoryLog
from streams.provisioning import provision
from streams.readiness import Gate, Progress
from streams.topics import EVENTS, FACTS, WORKER_COMMANDS
from streams.web import Views
from streams.worker.blobs import BlobOptions, WorkerBlobs
from streams.worker.commands import Admitted, StableChunk, command_in
from streams.worker.executors import ProcessExecutor, SimulatedExecutor
from streams.worker.outbox import Outbox
from streams.worker.protocol import ApplyStable, Publish, WorkerProtocol
from streams.worker.runtime import Surroundings, WorkerRuntime
from streams.worker.secret_source import SecretSource
from tests.streams.blobbing import content, peer, pieces
from tests.streams.scheduling import events_in, scheduler, until, worker

SMALL, LARGE = content(1), content(2, 50_000)
SMALL_DIGEST, LARGE_DIGEST = digest_of(SMALL), digest_of(LARGE)
C1, C2 = 11, 22


# -- the state machine ------------------------------------------------------------------------------------------------------


def admitted(seq: int = 50) -> WorkerProtocol:
    one = worker()
    one.connect(C1, 0)
    one.command(Admitted(C1, (), 10_000_000, True, seq), 0)
    return one


def chunk(seq: int, connection_id: int = 0, instance: str = "main") -> StableChunk:
    return StableChunk(connection_id, instance, seq, seq, (SMALL_DIGEST,))


def test_a_chunk_is_applied_and_then_acknowledged_each_time_it_comes() -> None:
    one = admitted()
    assert one.small_blob_mirror
    for connection_id in (0, C1, C1):
        applied, taken = one.command(chunk(60, connection_id), 0)
        assert applied == ApplyStable(chunk(60, connection_id), mirror=True)
        assert taken == Publish(facts.BlobsStableAcknowledged("main", "w1", C1, 60))


def test_a_chunk_for_all_that_is_older_than_the_admission_is_left_to_be_sent_again() -> None:
    one = admitted(seq=50)
    assert one.command(chunk(49), 0) == []
    assert len(one.command(chunk(49, C1), 0)) == 2, "sent again, it is addressed to the connection"
    assert one.command(chunk(60, instance="other"), 0) == []
    assert one.command(chunk(60, connection_id=99), 0) == []


def test_nothing_is_acknowledged_on_a_connection_that_does_not_stand() -> None:
    one = admitted()
    one.connect(C2, 0)
    assert one.command(chunk(60), 0) == one.command(chunk(60, C1), 0) == one.command(chunk(60, C2), 0) == []


def test_the_command_is_read_as_it_is_written() -> None:
    message = commands_pb2.WorkerCommand(instance="main", connection_id=C1, seq=9)
    stable = message.blobs_stable
    stable.chunk_seq, stable.store = 7, "ac"
    stable.digests.items.add(hash=SMALL_DIGEST.hash, size_bytes=SMALL_DIGEST.size_bytes)
    assert command_in(message.SerializeToString(), 0, 0) == StableChunk(C1, "main", 9, 7, (SMALL_DIGEST,), "ac")


# -- on the log, the test being the scheduler ---------------------------------------------------------------------------------


class Log:
    """A log, what workers said on it, and what the test says to them."""

    def __init__(self, log: MemoryLog) -> None:
        self.log = log
        self.seq = count(100)

    def said(self, *kinds: type) -> list[facts.Fact]:
        found = [decode_fact(record.value, record.headers) for record in self.log.records((FACTS, 0))]
        return [fact for fact in found if type(fact) in kinds]

    def reports(self) -> list[facts.BlobsAvailable]:
        return self.said(facts.BlobsAvailable)  # type: ignore[return-value]

    def evicted(self) -> list[Digest]:
        found: list[facts.BlobsEvicted] = self.said(facts.BlobsEvicted)  # type: ignore[assignment]
        return [digest for fact in found for digest in digests_of(fact.digests)]

    async def tell(self, message: commands_pb2.WorkerCommand, key: bytes | None = b"w1") -> int:
        message.instance, message.seq = "main", next(self.seq)
        if message.HasField("blobs_stable"):
            message.blobs_stable.chunk_seq = message.seq
        await self.log.publish((WORKER_COMMANDS, 0), [Outgoing(message.SerializeToString(), key)])
        return message.seq

    async def admit(self, one: WorkerProtocol, *, mirror: bool = False) -> None:
        message = commands_pb2.WorkerCommand(connection_id=one.connection_id)
        message.admitted.small_blob_mirror = mirror
        await self.tell(message)
        await until(lambda: one.admitted)

    async def announce(self, *digests: Digest, store: str = "") -> int:
        message = commands_pb2.WorkerCommand()
        message.blobs_stable.store = store
        for digest in digests:
            message.blobs_stable.digests.items.add(hash=digest.hash, size_bytes=digest.size_bytes)
        return await self.tell(message, key=None)


@asynccontextmanager
async def provisioned() -> AsyncIterator[Log]:
    log = MemoryLog()
    await provision(log, {"main": None}, shards=1)
    yield Log(log)


@asynccontextmanager
async def running(
    log: Log, folder: Path, one: WorkerProtocol, budget_bytes: int = 64 << 20, store_url: str = ""
) -> AsyncIterator[WorkerBlobs]:
    """A worker with blobs, connecting."""
    numbers = count(one.identity.boot_epoch * 1_000)
    options = BlobOptions("127.0.0.1", store_url=store_url)
    async with WorkerBlobs.at(
        folder, budget_bytes, "main", "w1", options, draw=lambda: next(numbers), report_every_s=0.05
    ) as blobs:
        one.identity = one.identity._replace(blobs_url=blobs.url)
        runtime = WorkerRuntime(
            log.log, 0, [one], SimulatedExecutor(), Surroundings(lambda: next(numbers)), blobs=blobs
        )
        task = asyncio.create_task(runtime.run())
        try:
            await until(lambda: task.done() or bool(one.connection_id))
            yield blobs
        finally:
            runtime.abandon("the test is over")
            await asyncio.wait_for(task, 20)


def keep(blobs: WorkerBlobs, *contents: bytes) -> list[Digest]:
    for data in contents:
        blobs.directory.write(digest_of(data), data)
    return [digest_of(data) for data in contents]


async def test_everything_is_reported_after_the_admission_and_not_before(tmp_path: Path) -> None:
    async with provisioned() as log, running(log, tmp_path, one := worker()) as blobs:
        keep(blobs, SMALL, LARGE)
        await until(lambda: bool(log.said(facts.WorkerConnected)))
        (connected,) = log.said(facts.WorkerConnected)
        assert isinstance(connected, facts.WorkerConnected)
        assert connected.blobs_url == blobs.url
        assert log.reports() == []
        await log.admit(one)
        await until(lambda: bool(log.reports()))
        (report,) = log.reports()
        assert (report.report, report.full, report.last, report.connection_id) == (1, True, True, one.connection_id)
        assert sorted(digests_of(report.added)) == sorted([SMALL_DIGEST, LARGE_DIGEST])


async def test_then_only_what_changes_with_the_whole_set_of_pins(tmp_path: Path) -> None:
    async with provisioned() as log, running(log, tmp_path, one := worker(), budget_bytes=50_050) as blobs:
        await log.admit(one)
        await until(lambda: len(log.reports()) == 1)
        keep(blobs, SMALL)
        await until(lambda: len(log.reports()) == 2)
        blobs.results.record(digest_of(b"action"), 0, {})
        await until(lambda: len(log.reports()) == 3)
        keep(blobs, LARGE)  # SMALL goes for it
        await until(lambda: len(log.reports()) == 4)
        _, first, pins, second = log.reports()
        assert [report.report for report in (first, pins, second)] == [2, 3, 4]
        assert [report.full for report in (first, pins, second)] == [False, False, False]
        assert (digests_of(first.added), digests_of(first.ac_pins)) == ([SMALL_DIGEST], [])
        assert (digests_of(pins.added), digests_of(pins.ac_pins)) == ([], [digest_of(b"action")])
        assert (digests_of(second.added), digests_of(second.ac_pins)) == ([LARGE_DIGEST], [digest_of(b"action")])
        assert log.evicted() == [SMALL_DIGEST]


async def test_a_new_connection_and_so_many_deltas_bring_everything_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.worker.blobs.DELTAS_UNTIL_FULL", 2)
    async with provisioned() as log, running(log, tmp_path, one := worker()) as blobs:
        await log.admit(one)
        for number in range(3):
            await until(lambda number=number: len(log.reports()) == number + 1)  # type: ignore[misc]
            keep(blobs, content(number))
        await until(lambda: len(log.reports()) == 4)
        assert [report.full for report in log.reports()] == [True, False, False, True]
        former = one.connection_id
        message = commands_pb2.WorkerCommand(connection_id=former)
        message.evicted.reason = 1
        await log.tell(message)
        await until(lambda: one.connection_id != former)
        await log.admit(one)
        await until(lambda: len(log.reports()) == 5)
        last = log.reports()[-1]
        assert (last.report, last.full, last.connection_id) == (1, True, one.connection_id)
        assert len(digests_of(last.added)) == 3


async def test_a_restarted_worker_keeps_its_blobs_and_reports_them_under_its_new_epoch(tmp_path: Path) -> None:
    async with provisioned() as log:
        async with running(log, tmp_path, worker(boot_epoch=1)) as blobs:
            keep(blobs, SMALL, LARGE)
            blobs.results.record(digest_of(b"action"), 0, {})
        async with running(log, tmp_path, one := worker(boot_epoch=2)) as blobs:
            await log.admit(one)
            await until(lambda: bool(log.reports()))
            (report,) = log.reports()
            assert sorted(digests_of(report.added)) == sorted([SMALL_DIGEST, LARGE_DIGEST])
            assert digests_of(report.ac_pins) == [digest_of(b"action")]
        connected = log.said(facts.WorkerConnected)
        assert [fact.boot_epoch for fact in connected if isinstance(fact, facts.WorkerConnected)] == [1, 2]


async def test_stable_chunks_are_applied_and_acknowledged_and_what_they_name_goes_first(tmp_path: Path) -> None:
    async with provisioned() as log, running(log, tmp_path, one := worker(), budget_bytes=250) as blobs:
        digests = keep(blobs, content(1), content(2))
        await log.announce(digests[1])  # before its admission: it will be sent again
        await log.admit(one)
        seqs = [await log.announce(digests[1], digest_of(b"unknown")) for _ in range(2)]
        await until(lambda: len(log.said(facts.BlobsStableAcknowledged)) == 2)
        acknowledged = log.said(facts.BlobsStableAcknowledged)
        assert acknowledged == [facts.BlobsStableAcknowledged("main", "w1", one.connection_id, seq) for seq in seqs]
        keep(blobs, content(3))
        assert [blobs.directory.holds(digest) for digest in digests] == [True, False]


async def test_stable_results_of_the_action_cache_are_no_content(tmp_path: Path) -> None:
    async with provisioned() as log, running(log, tmp_path, one := worker(), budget_bytes=250) as blobs:
        digests = keep(blobs, content(1), content(2))
        await log.admit(one)
        await log.announce(digests[1], store="ac")
        await until(lambda: bool(log.said(facts.BlobsStableAcknowledged)))
        keep(blobs, content(3))
        assert [blobs.directory.holds(digest) for digest in digests] == [False, True], "the oldest went, not the named"


async def test_the_mirror_takes_small_stable_blobs_and_says_so_until_it_has_advertised_them(tmp_path: Path) -> None:
    async with (
        peer(tmp_path / "store", SMALL, LARGE) as (url, _),
        provisioned() as log,
        running(log, tmp_path / "w1", one := worker(), store_url=url) as blobs,
    ):
        await log.admit(one)
        await log.announce(SMALL_DIGEST, LARGE_DIGEST)
        await until(lambda: bool(log.said(facts.BlobsStableAcknowledged)))
        assert blobs.mirror is not None
        assert blobs.mirror.state.pending == 0, "off by default"
        message = commands_pb2.WorkerCommand(connection_id=one.connection_id)
        message.evicted.reason = 1
        await log.tell(message)
        await until(lambda: not one.admitted)
        await log.admit(one, mirror=True)
        await until(lambda: blobs.mirror is not None and blobs.mirror.is_on)
        await log.announce(SMALL_DIGEST, LARGE_DIGEST)
        named = [SMALL_DIGEST]
        await until(lambda: any(digests_of(report.added) == named for report in log.reports()))
        await until(lambda: log.reports()[-1].mirror_pinned == 0 and log.reports()[-1].report > 2)
        pinned = [report for report in log.reports() if report.mirror_pinned]
        assert [(report.mirror_pinned, report.mirror_pinned_bytes) for report in pinned] == [(1, len(SMALL))]
        assert not blobs.directory.holds(LARGE_DIGEST)


async def test_blobs_belong_to_one_worker(tmp_path: Path) -> None:
    async with provisioned() as log, running(log, tmp_path, worker()) as blobs:
        two = [worker("a"), worker("b")]
        with pytest.raises(ValueError, match="there are 2"):
            WorkerRuntime(log.log, 0, two, SimulatedExecutor(), Surroundings(lambda: 5), blobs=blobs)


async def test_a_long_report_is_sent_in_batches_that_the_log_takes_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.worker.outbox.AT_ONCE_BYTES", 200)
    batches: list[int] = []
    publish = MemoryLog.publish

    async def counted(log: MemoryLog, partition: Partition, records: Sequence[Outgoing]) -> list[int]:
        batches.append(len(records))
        return await publish(log, partition, records)

    async with provisioned() as log:
        monkeypatch.setattr(MemoryLog, "publish", counted)
        outbox = Outbox(log.log, (FACTS, 0))
        said = [facts.BlobsEvicted("main", "w1", C1, digests_bytes([digest_of(bytes([n]))] * 3)) for n in range(4)]
        for fact in [*said, facts.WorkerReported("main", "w1", C1), facts.WorkerReported("main", "w1", C1)]:
            outbox.put(fact)
        sending = asyncio.create_task(outbox.run())
        await asyncio.wait_for(outbox.emptied(), 10)
        sending.cancel()
        assert batches == [1, 1, 1, 3]
        assert log.said(facts.BlobsEvicted) == said


# -- with the real decider and the real map -----------------------------------------------------------------------------------


class ReadSide:
    """What the views are views of: the rows of a log's events, folded whenever they are asked."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self._rows = MemoryRows()
        self._table = Table(self._rows, 0)
        self._next = 0
        self.gate = Gate(lambda: 0.0)
        self.gate.expect([0])
        self.gate.caught_up(0)

    @property
    def rows(self) -> MemoryRows:
        for record in self._log.records((EVENTS, 0)):
            if record.offset >= self._next:
                take(self._table, record.offset, record.value)
                self._next = record.offset + 1
        self._table.flush()
        return self._rows

    def shards(self) -> list[int]:
        return [0]

    def snapshot(self) -> MemoryRows:
        return self.rows

    def describe(self) -> dict[str, object]:
        return {}

    def describe_shards(self) -> dict[int, dict[str, object]]:
        return {}

    def progress(self) -> list[Progress]:
        return []

    def began_us(self) -> int:
        return 0

    def not_ready(self) -> str:
        return ""


@asynccontextmanager
async def views_of(log: MemoryLog) -> AsyncIterator[str]:
    application = web.Application()
    Views(ReadSide(log), clock_us=lambda: 0).add_to(application)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def working(
    log: MemoryLog, name: str, folder: Path, views: str = "", store_url: str = ""
) -> AsyncIterator[WorkerBlobs]:
    """A worker that runs real processes, admitted."""
    numbers = count(1 + sum(name.encode()) * 1_000)
    one = worker(name, boot_epoch=next(numbers))
    options = BlobOptions("127.0.0.1", store_url=store_url, locality_url=views)
    async with WorkerBlobs.at(
        folder / name, 64 << 20, "main", name, options, draw=lambda: next(numbers), report_every_s=0.05
    ) as blobs:
        one.identity = one.identity._replace(blobs_url=blobs.url)
        executor = blobs.executor(ProcessExecutor(SecretSource(), root=folder / f"{name}-runs"))
        runtime = WorkerRuntime(log, 0, [one], executor, Surroundings(lambda: next(numbers)), blobs=blobs)
        task = asyncio.create_task(runtime.run())
        try:
            await until(lambda: task.done() or one.admitted, "admitted")
            yield blobs
        finally:
            runtime.abandon("the test is over")
            await asyncio.wait_for(task, 20)


async def test_what_one_worker_made_another_one_reads_from_it_by_the_locality_map(tmp_path: Path) -> None:
    out = digest_of(b"made here")
    make = ["/bin/sh", "-c", 'printf "made here" > "$HEADWAY_OUTPUTS/it"']
    use = ["/bin/sh", "-c", f'grep -q "made here" "$HEADWAY_INPUTS/{out.hash.hex()}"']
    asked = {"cpu_millis": 1000}
    async with scheduler() as log, views_of(log) as views, FactPublisher(log) as publisher, BlobClient() as client:
        locality = LocalityMap(views, client.session)
        async with working(log, "w1", tmp_path, views) as made:
            name = await publisher.queue(argv=make, requirements=asked)
            finished = await publisher.wait(name, timeout_s=20)
            assert finished.succeeded
            assert name_of(out) in finished.message
            (holder,) = await held_by(locality, out)
            assert (holder.endpoint, holder.blobs_url, holder.connected) == ("w1", made.url, True)
            await log.publish((FACTS, 0), [record_of(facts.WorkerDrained("main", "w1"))])
            async with working(log, "w2", tmp_path, views) as used:
                name = await publisher.queue(argv=use, inputs=[out], requirements=asked)
                finished = await publisher.wait(name, timeout_s=20)
                assert (finished.endpoint, finished.succeeded) == ("w2", True), finished
                assert used.inputs.counts.from_peers == 1
                assert {each.endpoint for each in await held_by(locality, out, 2)} == {"w1", "w2"}


async def test_a_peer_whose_file_is_gone_is_reported_and_forgotten_and_the_run_says_what_is_missing(
    tmp_path: Path,
) -> None:
    async with scheduler() as log, views_of(log) as views, FactPublisher(log) as publisher, BlobClient() as client:
        locality = LocalityMap(views, client.session)
        async with working(log, "w1", tmp_path, views) as liar:
            keep(liar, SMALL)
            await held_by(locality, SMALL_DIGEST)
            liar.directory.changes = lambda: Changes([], [])  # type: ignore[method-assign]  # it never says what is gone
            liar.directory.remove_wrong(SMALL_DIGEST)
            await log.publish((FACTS, 0), [record_of(facts.WorkerDrained("main", "w1"))])
            async with working(log, "w2", tmp_path, views):
                name = await publisher.queue(argv=["true"], inputs=[SMALL_DIGEST], requirements={"cpu_millis": 1000})
                finished = await publisher.wait(name, timeout_s=20)
                assert finished.outcome is Outcome.FAILED_PRECONDITION
                assert f"{name_of(SMALL_DIGEST)} is missing: w1 not_found" in finished.message
                await until(lambda: bool(events_in(log, e.PeerFetchFailed)))
                assert await locality.holders(SMALL_DIGEST, "main") == []


async def test_what_the_store_announces_reaches_the_workers_by_the_log_and_the_mirror_takes_it(tmp_path: Path) -> None:
    store = TieredStore(MemoryTier(1 << 20), DurableTier(tmp_path / "durable"))
    server = BlobServer(store, host="127.0.0.1", sink=store)
    url = await server.start()
    async with scheduler(locality={"small_blob_mirror": True}) as log, FactPublisher(log) as publisher:
        stable = StableBlobPublisher(store, publisher, ["main"], draw=count(7).__next__)
        async with working(log, "w1", tmp_path, store_url=url) as blobs:
            (large,) = keep(blobs, LARGE)
            for data in (SMALL, LARGE):
                assert await store.put(digest_of(data), pieces(data))
            assert await stable.announce() == 1, "the large one is only in the fast tier"
            await until(lambda: len(events_in(log, e.BlobsStableAcknowledged)) == 1)
            await until(lambda: blobs.directory.holds(SMALL_DIGEST), "mirrored")
            await stable.stop()
            await until(lambda: len(events_in(log, e.BlobsStableAcknowledged)) == 2)
            assert [event.digests for event in events_in(log, e.BlobsStable) if isinstance(event, e.BlobsStable)] == [
                digests_bytes([SMALL_DIGEST]),
                digests_bytes([large]),
            ]
            assert events_in(log, e.FactIgnored, e.FactRejected) == []
    await server.close()
    store.close()


async def held_by(locality: LocalityMap, digest: Digest, least: int = 1) -> list[Holder]:
    """The holders of a blob, once there are `least`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + 20
    while len(found := await locality.holders(digest, "main")) < least:
        assert loop.time() < deadline, f"held by {found}"
        await asyncio.sleep(0.02)
    return found
