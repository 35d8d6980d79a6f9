"""Blobs when things go wrong in the middle: kills, full tables of open files, stalled stores, two clients with one blob."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest

from events.reasons import FetchFailure
from events.values import Digest
from streams.blobs import incoming as incoming_module
from streams.blobs import tiers as tiers_module
from streams.blobs.directory import BlobDirectory
from streams.blobs.errors import IntakeStopped, TierFailed
from streams.blobs.fetching import BlobClient, FetchFailed
from streams.blobs.naming import digest_of, name_of
from streams.blobs.stable import StableBlobPublisher
from streams.blobs.tiers import SMALL_BYTES, DurableTier, MemoryTier, TieredStore
from streams.worker.action_results import ActionResults
from streams.worker.mirror import AT_ONCE, Mirror
from tests.streams.blobbing import content, pieces
from tests.streams.scheduling import until
from tests.streams.test_blobs_stable import Said

SMALL, LARGE = content(1), content(2, SMALL_BYTES + 1)
SMALL_DIGEST, LARGE_DIGEST = digest_of(SMALL), digest_of(LARGE)


@pytest.fixture
def durable(tmp_path: Path) -> DurableTier:
    return DurableTier(tmp_path / "durable")


@pytest.fixture
def store(durable: DurableTier) -> TieredStore:
    return TieredStore(MemoryTier(1 << 20), durable)


def publisher(store: TieredStore, said: Said) -> StableBlobPublisher:
    numbers = count(1)
    return StableBlobPublisher(store, said, ("main",), draw=lambda: next(numbers))


async def put_and_flush(store: TieredStore, data: bytes) -> None:
    await store.put(digest_of(data), pieces(data))
    await store.flush()


class Client:
    """Brings half a blob, waits for `go`, and brings the rest, or breaks off."""

    def __init__(self, data: bytes, *, breaks_off: bool = False) -> None:
        self.go, self.begun = asyncio.Event(), asyncio.Event()
        self._data, self._breaks_off = data, breaks_off

    async def pieces(self) -> AsyncIterator[bytes]:
        half = len(self._data) // 2
        yield self._data[:half]
        self.begun.set()
        await self.go.wait()
        if self._breaks_off:
            raise ConnectionResetError("the client is gone")
        yield self._data[half:]


# -- the stable store -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [SMALL, LARGE])
async def test_a_client_that_breaks_off_does_not_keep_anothers_blob_from_being_announced(
    store: TieredStore, durable: DurableTier, data: bytes
) -> None:
    gone, stays = Client(data, breaks_off=True), Client(data)
    first = asyncio.create_task(store.put(digest_of(data), gone.pieces()))
    second = asyncio.create_task(store.put(digest_of(data), stays.pieces()))
    await gone.begun.wait()
    await stays.begun.wait()
    gone.go.set()
    with pytest.raises(ConnectionResetError):
        await first
    stays.go.set()
    assert await second
    await store.flush()
    said = Said()
    assert await publisher(store, said).announce() == 1, "what was put is durable, and nobody is told"
    assert durable.unannounced() == []


async def test_when_all_who_bring_a_blob_break_off_nothing_is_left_to_announce(
    store: TieredStore, durable: DurableTier
) -> None:
    both = [Client(SMALL, breaks_off=True) for _ in range(2)]
    puts = [asyncio.create_task(store.put(SMALL_DIGEST, each.pieces())) for each in both]
    for each in both:
        await each.begun.wait()
        each.go.set()
    found = await asyncio.gather(*puts, return_exceptions=True)
    assert [type(each) for each in found] == [ConnectionResetError, ConnectionResetError]
    assert (store.to_announce(), durable.unannounced()) == ([], [])


@pytest.mark.parametrize("data", [SMALL, LARGE])
async def test_a_blob_that_is_not_whole_when_the_store_stops_is_refused(store: TieredStore, data: bytes) -> None:
    client, said = Client(data), Said()
    putting = asyncio.create_task(store.put(digest_of(data), client.pieces()))
    await client.begun.wait()
    await asyncio.wait_for(publisher(store, said).stop(), 8)  # a client that stalls holds up no stop
    client.go.set()
    with pytest.raises(IntakeStopped):
        await putting
    assert (store.pending, store.holds(digest_of(data)), said.facts) == (0, False, [])


async def test_a_blob_that_was_whole_when_the_store_stopped_lasts_and_is_announced(
    store: TieredStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, go, said = threading.Event(), threading.Event(), Said()
    finish = MemoryTier.finish

    def slowly(tier: MemoryTier, receiving: tiers_module.Receiving) -> None:
        reached.set()
        assert go.wait(20)
        finish(tier, receiving)

    monkeypatch.setattr(MemoryTier, "finish", slowly)
    putting = asyncio.create_task(store.put(LARGE_DIGEST, pieces(LARGE)))
    assert await asyncio.to_thread(reached.wait, 20)
    stopping = asyncio.create_task(publisher(store, said).stop())
    await asyncio.sleep(0)
    go.set()
    await stopping
    assert await putting
    assert said.digests() == [LARGE_DIGEST], "a client was told that its blob is taken, and it ends with the fast tier"


async def test_nothing_is_announced_before_its_name_is_on_the_disk(
    store: TieredStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, go, sync = threading.Event(), threading.Event(), incoming_module.sync_folder

    def slowly(folder: Path) -> None:
        reached.set()
        assert go.wait(20)
        sync(folder)

    monkeypatch.setattr(incoming_module, "sync_folder", slowly)
    putting = asyncio.create_task(store.put(SMALL_DIGEST, pieces(SMALL)))
    assert await asyncio.to_thread(reached.wait, 20)
    said = Said()
    try:
        assert await publisher(store, said).announce() == 0, "a power failure now would take the blob away again"
    finally:
        go.set()
    assert await putting
    assert await publisher(store, said).announce() == 1


@pytest.mark.parametrize("data", [SMALL, LARGE])
async def test_a_blob_whose_name_could_not_be_synced_is_written_again(
    store: TieredStore, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    def fails(folder: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    digest, said = digest_of(data), Said()
    with monkeypatch.context() as patch:
        patch.setattr(incoming_module, "sync_folder", fails)
        with pytest.raises(TierFailed, match="Input/output error"):
            await put_and_flush(store, data)
    assert await publisher(store, said).announce() == 0
    if data is SMALL:
        assert await store.put(digest, pieces(data)), "it was refused before, and is not here for good"
    assert await store.flush() == (data is LARGE)
    assert await publisher(store, said).announce() == 1


def test_a_name_that_a_killed_process_left_unsynced_is_synced_before_it_may_be_announced(
    durable: DurableTier, monkeypatch: pytest.MonkeyPatch
) -> None:
    durable.note_unannounced(SMALL_DIGEST)
    durable.write(SMALL_DIGEST, [SMALL])
    synced: list[Path] = []
    monkeypatch.setattr(tiers_module, "sync_folder", synced.append)
    assert TieredStore(MemoryTier(1 << 20), durable).to_announce() == [SMALL_DIGEST]
    assert [folder.name for folder in synced] == [name_of(SMALL_DIGEST)[:2]]


async def test_a_wrong_copy_of_a_durable_blob_leaves_it_durable(store: TieredStore, durable: DurableTier) -> None:
    durable.write(SMALL_DIGEST, [SMALL])
    receiving = durable.begin(SMALL_DIGEST)
    with pytest.raises(Exception, match="0 bytes instead of 100"):
        durable.finish(receiving)
    durable.give_up(receiving)
    assert store.is_durable(SMALL_DIGEST)


@pytest.mark.parametrize("first_asked", ["_fast", "_durable"])
@pytest.mark.parametrize("asked", ["open", "holds"])
async def test_a_blob_that_is_flushed_while_somebody_asks_is_found(
    store: TieredStore, asked: str, first_asked: str
) -> None:
    await store.put(LARGE_DIGEST, pieces(LARGE))
    loop, tier = asyncio.get_running_loop(), getattr(store, first_asked)
    ask = getattr(tier, asked)

    def ask_and_flush(digest: Digest) -> object:
        found = ask(digest)
        delattr(tier, asked)  # the flush itself asks, too
        asyncio.run_coroutine_threadsafe(store.flush(), loop).result(20)
        return found

    setattr(tier, asked, ask_and_flush)
    assert await asyncio.to_thread(getattr(store, asked), LARGE_DIGEST)


# -- a worker's directory ---------------------------------------------------------------------------------------------------


def test_a_lack_of_open_files_removes_no_blob(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = BlobDirectory(tmp_path, 1_000)
    before.write(SMALL_DIGEST, SMALL)
    before.close()
    directory = BlobDirectory(tmp_path, 1_000)  # its content was not looked at by this process

    def none_left(path: Path) -> Digest:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr("streams.blobs.directory.digest_of_file", none_left)
        with pytest.raises(OSError, match="Too many open files"):
            directory.check(SMALL_DIGEST)
        assert directory.holds(SMALL_DIGEST), "it was right, and is gone"
    assert directory.check(SMALL_DIGEST)
    pin = directory.pin(SMALL_DIGEST)
    assert pin is not None
    pin.path.chmod(0o644)
    pin.path.write_bytes(b"!" * len(SMALL))
    with monkeypatch.context() as patch:
        patch.setattr("streams.blobs.directory.digest_of_file", none_left)
        directory.unpin(pin)
    assert directory.is_unchecked(SMALL_DIGEST), "a changed blob counts as right because it could not be looked at"
    directory.close()


def test_what_is_not_ours_is_left_alone_at_the_start(tmp_path: Path) -> None:
    BlobDirectory(tmp_path, 1_000).close()
    (tmp_path / "blobs" / ".DS_Store").write_text("x")
    (tmp_path / "blobs" / "ab" / ("ab" * 32 + "-4096")).mkdir(parents=True)
    (tmp_path / "incoming" / "folder").mkdir()
    directory = BlobDirectory(tmp_path, 1_000)
    assert (len(directory), directory.counts.foreign) == (0, 3)
    directory.close()
    (tmp_path / "ac" / "folder").mkdir(parents=True)
    assert len(ActionResults(tmp_path / "ac")) == 0


# -- peers, the store, the mirror -------------------------------------------------------------------------------------------


async def test_a_peer_that_trickles_its_headers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.blobs.fetching.LEAST_FETCH_S", 0.5)

    async def trickle(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(b"HTTP/1.1 200 OK\r\nX-Header: ")
            while not writer.is_closing():
                writer.write(b"a")
                await writer.drain()
                await asyncio.sleep(0.02)
        except ConnectionError:
            return

    server = await asyncio.start_server(trickle, "127.0.0.1", 0)
    directory = BlobDirectory(tmp_path, 1_000)
    async with server, BlobClient(silence_s=5) as client:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(FetchFailed) as failed:
            await asyncio.wait_for(client.receive(url, SMALL_DIGEST, directory), 8)
        assert failed.value.failure is FetchFailure.DEADLINE_EXCEEDED
    directory.close()


async def test_the_mirror_takes_few_blobs_at_once(tmp_path: Path) -> None:
    directory = BlobDirectory(tmp_path, 1 << 20)
    under_way, go = 0, asyncio.Event()

    async def take(digest: Digest) -> None:
        nonlocal under_way
        under_way += 1
        await go.wait()
        under_way -= 1

    mirror = Mirror(directory, take)
    mirror.turn(True)
    mirror.offer([digest_of(content(number, 10)) for number in range(200)])
    running = asyncio.create_task(mirror.run())
    await until(lambda: under_way >= AT_ONCE)
    for _ in range(20):
        await asyncio.sleep(0)
    assert under_way == AT_ONCE, "each has a file open and a connection, which inputs of runs need"
    go.set()
    await until(lambda: mirror.counts.taken == 200)
    running.cancel()
    await asyncio.wait([running])
    directory.close()
