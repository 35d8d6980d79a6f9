"""What a worker says of its blobs, the results it pins, and the mirror of small stable blobs with its limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from events.codec import decode_fact
from events.facts import BlobsAvailable
from events.payloads import MAX_DIGESTS, digests_of
from events.reasons import FetchFailure
from events.values import Digest
from streams.blobs.directory import BlobDirectory
from streams.blobs.errors import NoRoomForBlob
from streams.blobs.fetching import FetchFailed
from streams.blobs.naming import digest_of
from streams.blobs.tiers import SMALL_BYTES
from streams.effects import record_of
from streams.worker.action_results import ActionResults
from streams.worker.blob_reports import BlobReports, MirrorState
from streams.worker.mirror import BATCH_BYTES, MOST_BATCHES, Mirror
from tests.streams.blobbing import content
from tests.streams.scheduling import until


def made_up(number: int, size: int = 10) -> Digest:
    return Digest(number.to_bytes(4, "big") + bytes(28), size)


def many(number: int, size: int = 10) -> list[Digest]:
    return [made_up(each, size) for each in range(number)]


def named(chunks: list[BlobsAvailable], field: str) -> list[Digest]:
    return [digest for chunk in chunks for digest in digests_of(getattr(chunk, field))]


# -- reports ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("held", "pins", "chunks"),
    [(0, 0, 1), (1, 0, 1), (MAX_DIGESTS, 5, 1), (MAX_DIGESTS + 1, 5, 2), (3, 2 * MAX_DIGESTS + 1, 3)],
)
def test_a_full_report_names_everything_in_numbered_chunks(held: int, pins: int, chunks: int) -> None:
    found = BlobReports("main", "w1", 9).full(many(held), many(pins), MirrorState(1, 2, 3))
    assert [chunk.chunk for chunk in found] == list(range(chunks))
    assert [chunk.last for chunk in found] == [False] * (chunks - 1) + [True]
    assert (named(found, "added"), named(found, "ac_pins")) == (many(held), many(pins))
    for chunk in found:
        assert (chunk.instance, chunk.endpoint, chunk.connection_id) == ("main", "w1", 9)
        assert (chunk.report, chunk.full) == (1, True)
        assert (chunk.mirror_pending, chunk.mirror_pinned, chunk.mirror_pinned_bytes) == (1, 2, 3)
        record = record_of(chunk)  # what breaks a rule of the contract raises
        assert decode_fact(record.value, record.headers) == chunk


def test_reports_are_numbered_upwards_and_deltas_are_counted_from_the_full_one() -> None:
    reports = BlobReports("main", "w1", 9)
    numbers = [reports.full(many(1), [], MirrorState())[0].report]
    for _ in range(3):
        (delta,) = reports.delta(many(2), many(1), MirrorState())
        numbers.append(delta.report)
        assert (delta.full, delta.last, named([delta], "ac_pins")) == (False, True, many(1)), (
            "the whole set rides along"
        )
    assert (numbers, reports.deltas) == ([1, 2, 3, 4], 3)
    reports.full([], [], MirrorState())
    assert (reports.number, reports.deltas) == (5, 0)


def test_a_full_report_stands_in_the_order_of_its_digests() -> None:
    held = [made_up(number) for number in (3, 1, 2)]
    assert named(BlobReports("main", "w1", 7).full(held, [], MirrorState()), "added") == sorted(held)


def test_evictions_are_told_in_chunks_and_none_for_none() -> None:
    reports = BlobReports("main", "w1", 9)
    assert reports.evicted([]) == []
    found = reports.evicted(many(MAX_DIGESTS + 1))
    assert [len(digests_of(fact.digests)) for fact in found] == [MAX_DIGESTS, 1]
    for fact in found:
        record = record_of(fact)
        assert decode_fact(record.value, record.headers) == fact


# -- results of actions -----------------------------------------------------------------------------------------------------


def test_results_are_kept_bounded_and_over_a_restart(tmp_path: Path) -> None:
    results = ActionResults(tmp_path / "ac", most=3)
    actions = [digest_of(bytes([number])) for number in range(5)]
    for action in actions[:3]:
        results.record(action, 0, {"a/b": digest_of(b"out")})
    assert results.changed
    assert results.pins() == sorted(actions[:3])
    assert not results.changed
    results.record(actions[0], 0, {})  # the latest now
    results.record(actions[3], 0, {})
    assert results.pins() == sorted([actions[0], *actions[2:4]])
    assert results.result(actions[2]) == {"exit_code": 0, "outputs": {"a/b": str(digest_of(b"out")).replace("/", "-")}}
    assert results.result(actions[1]) is None
    (tmp_path / "ac" / "junk").write_text("x")
    half = next(path for path in (tmp_path / "ac").iterdir() if path.name.startswith(actions[3].hash.hex()))
    half.write_text("{")
    again = ActionResults(tmp_path / "ac", most=3)
    assert again.unreadable == 2
    assert again.pins() == sorted([actions[0], actions[2]])
    again.record(Digest(b"x" * 20, 5), 0, {})
    assert len(again) == 2, "an action named by another hash is not kept"


def test_results_that_are_stable_go_first(tmp_path: Path) -> None:
    results = ActionResults(tmp_path / "ac", most=2)
    actions = [digest_of(bytes([number])) for number in range(3)]
    for action in actions[:2]:
        results.record(action, 0, {})
    results.mark_stable([actions[1], actions[2]])
    results.record(actions[2], 0, {})
    assert results.pins() == sorted([actions[0], actions[2]])


# -- the mirror -------------------------------------------------------------------------------------------------------------


class Store:
    """A stable store that has what is in `blobs`; `fails` so many times, and holds every answer while `gate` is shut."""

    def __init__(self, directory: BlobDirectory) -> None:
        self.directory = directory
        self.blobs: dict[Digest, bytes] = {}
        self.asked: list[Digest] = []
        self.fails = 0
        self.disk_is_full = False
        self.gate = asyncio.Event()
        self.gate.set()

    def put(self, data: bytes) -> Digest:
        self.blobs[digest_of(data)] = data
        return digest_of(data)

    async def take(self, digest: Digest) -> None:
        self.asked.append(digest)
        await self.gate.wait()
        if self.fails:
            self.fails -= 1
            raise FetchFailed(FetchFailure.UNAVAILABLE, "for the test")
        if self.disk_is_full:
            raise OSError(28, "No space left on device")
        if digest not in self.blobs:
            raise FetchFailed(FetchFailure.NOT_FOUND, "for the test")
        if not self.directory.holds(digest):
            incoming = self.directory.begin(digest, only_for_stable=True)
            assert incoming is not None
            incoming.write(self.blobs[digest])
            self.directory.finish(incoming)


@asynccontextmanager
async def mirroring(tmp_path: Path, budget_bytes: int = 64 << 20, **more: int) -> AsyncIterator[tuple[Mirror, Store]]:
    directory = BlobDirectory(tmp_path, budget_bytes)
    store = Store(directory)
    mirror = Mirror(directory, store.take, **more)
    task = asyncio.create_task(mirror.run())
    try:
        yield mirror, store
    finally:
        task.cancel()
        await asyncio.wait([task])
        directory.close()


async def test_small_blobs_are_taken_pinned_and_free_once_they_were_advertised(tmp_path: Path) -> None:
    async with mirroring(tmp_path) as (mirror, store):
        digests = [store.put(content(number)) for number in range(3)]
        mirror.offer(digests)
        assert (mirror.state, store.asked) == (MirrorState(), []), "off until the scheduler says so"
        mirror.turn(True)
        mirror.offer([*digests, Digest(b"x" * 32, SMALL_BYTES + 1), Digest(b"x" * 20, 5)])
        assert mirror.state == MirrorState(pending=3)
        await until(lambda: mirror.counts.taken == 3)
        assert mirror.state == MirrorState(0, 3, 300)
        mirror.offer(digests)
        assert mirror.state.pending == 0, "what is here is not taken again"
        mirror.advertised(mirror.pins())
        assert mirror.state == MirrorState()
        assert sorted(store.asked) == sorted(digests)
        pin = store.directory.pin(digests[0])
        assert pin is not None
        assert pin.blob.pins == 1


async def test_batches_are_bounded_in_bytes_and_number_and_more_is_dropped_and_counted(tmp_path: Path) -> None:
    async with mirroring(tmp_path) as (mirror, store):
        mirror.turn(True)
        store.gate.clear()
        in_batch = BATCH_BYTES // SMALL_BYTES
        mirror.offer(many((MOST_BATCHES + 2) * in_batch, SMALL_BYTES))
        assert mirror.state.pending == MOST_BATCHES * in_batch
        assert mirror.counts.dropped == 2 * in_batch
        await until(lambda: bool(store.asked))
        assert len(store.asked) == in_batch, "one batch at a time"
        mirror.turn(False)
        assert mirror.state == MirrorState()
        assert mirror.counts.dropped == (MOST_BATCHES + 2) * in_batch
        store.gate.set()


async def test_pins_are_bounded_until_they_are_advertised(tmp_path: Path) -> None:
    async with mirroring(tmp_path, pin_bytes=250) as (mirror, store):
        mirror.turn(True)
        mirror.offer([store.put(content(number)) for number in range(2)])
        await until(lambda: mirror.counts.taken == 2)
        third = store.put(content(3))
        mirror.offer([third])
        await until(lambda: mirror.counts.dropped == 1)
        mirror.advertised(mirror.pins())
        mirror.offer([third])
        await until(lambda: mirror.counts.taken == 3)
        assert mirror.state == MirrorState(0, 1, 100)


async def test_a_store_that_is_away_is_asked_again_and_what_it_lacks_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.worker.mirror.FIRST_BACK_OFF_S", 0.01)
    async with mirroring(tmp_path) as (mirror, store):
        mirror.turn(True)
        store.fails = 3
        digests = [store.put(content(number)) for number in range(2)]
        mirror.offer([*digests, made_up(7)])
        await until(lambda: mirror.state.pending == 0)
        assert (mirror.counts.taken, mirror.counts.missing, mirror.counts.dropped) == (2, 1, 0)
        assert len(store.asked) == 6


async def test_nothing_that_only_this_worker_may_have_is_given_up_for_the_mirror(tmp_path: Path) -> None:
    async with mirroring(tmp_path, budget_bytes=200) as (mirror, store):
        mirror.turn(True)
        own = content(8, 150)
        store.directory.write(digest_of(own), own)
        with pytest.raises(NoRoomForBlob):
            await store.take(store.put(content(1)))
        mirror.offer([store.put(content(1))])
        await until(lambda: mirror.counts.dropped == 1)
        assert store.directory.holds(digest_of(own))


async def test_a_full_disk_costs_the_mirror_a_blob_and_no_more(tmp_path: Path) -> None:
    async with mirroring(tmp_path) as (mirror, store):
        mirror.turn(True)
        store.disk_is_full = True
        mirror.offer([store.put(content(1))])
        await until(lambda: mirror.counts.dropped == 1)
        store.disk_is_full = False
        mirror.offer([store.put(content(2))])
        await until(lambda: mirror.counts.taken == 1)
