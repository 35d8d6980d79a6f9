"""The stable store: what lasts, what may be announced, and a stop that loses nothing."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest
from aiohttp import web

from events import facts
from events.payloads import MAX_DIGESTS, digests_of
from events.values import Digest
from streams.blobs.errors import (
    BlobDirectoryInUse,
    BlobTooLarge,
    IntakeStopped,
    NoRoomForBlob,
    TierFailed,
    WrongContent,
)
from streams.blobs.fetching import BlobClient
from streams.blobs.locating import LocalityMap
from streams.blobs.naming import digest_of, name_of
from streams.blobs.serving import BlobServer
from streams.blobs.stable import StableBlobPublisher, WorkersAsPeers
from streams.blobs.tiers import SMALL_BYTES, DurableTier, FastTier, FolderTier, MemoryTier, TieredStore
from streams.errors import OutcomeUnknown
from tests.streams.blobbing import answering, content, peer, pieces
from tests.streams.scheduling import until

LARGE, OTHER_LARGE = content(1, SMALL_BYTES + 1), content(2, 3 * SMALL_BYTES)
SMALL = content(3, SMALL_BYTES)
LARGE_DIGEST, SMALL_DIGEST = digest_of(LARGE), digest_of(SMALL)


class Slow(DurableTier):
    """A durable tier that takes nothing while `gate` is shut, and fails while `full`."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.gate = threading.Event()
        self.gate.set()
        self.full = 0
        self.entered = 0
        self.written: list[Digest] = []

    def write(self, digest: Digest, pieces: Iterable[bytes]) -> None:
        self.entered += 1
        assert self.gate.wait(20)
        if self.full:
            self.full -= 1
            raise OSError(28, "No space left on device")
        super().write(digest, pieces)
        self.written.append(digest)


class Said:
    """Takes facts as a publisher does; `loses` so many answers."""

    def __init__(self) -> None:
        self.facts: list[facts.BlobsStable] = []
        self.loses = 0

    async def publish_all(self, given: Sequence[facts.Fact]) -> list[int]:
        assert all(isinstance(fact, facts.BlobsStable) for fact in given)
        self.facts += given  # type: ignore[arg-type]
        if self.loses:
            self.loses -= 1
            raise OutcomeUnknown("facts", phase="publish", waited_ms=1, because="for the test")
        return list(range(len(given)))

    def digests(self) -> list[Digest]:
        return [digest for fact in self.facts for digest in digests_of(fact.digests)]


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Slow]:
    tier = Slow(tmp_path / "durable")
    yield tier
    tier.gate.set()


@pytest.fixture
def store(slow: Slow) -> TieredStore:
    return TieredStore(MemoryTier(1 << 20), slow)


def publisher(store: TieredStore, said: Said, *instances: str, **more: object) -> StableBlobPublisher:
    numbers = count(100)
    return StableBlobPublisher(store, said, instances or ("main",), draw=lambda: next(numbers), **more)  # type: ignore[arg-type]


async def put(store: TieredStore, data: bytes) -> bool:
    return await store.put(digest_of(data), pieces(data))


# -- tiers ------------------------------------------------------------------------------------------------------------------


async def test_a_large_blob_is_taken_by_the_fast_tier_and_a_small_one_waits_for_the_durable(
    store: TieredStore, slow: Slow
) -> None:
    slow.gate.clear()
    assert await asyncio.wait_for(put(store, LARGE), 10)
    assert (store.holds(LARGE_DIGEST), store.is_durable(LARGE_DIGEST), store.pending) == (True, False, 1)
    small = asyncio.create_task(put(store, SMALL))
    await until(lambda: slow.entered == 1)
    assert not small.done(), "no answer before the durable tier has it"
    assert not store.is_durable(SMALL_DIGEST)
    slow.gate.set()
    assert await asyncio.wait_for(small, 10)
    assert store.is_durable(SMALL_DIGEST)


async def test_a_flush_drains_the_fast_tier_and_may_be_repeated(store: TieredStore, slow: Slow) -> None:
    for data in (LARGE, OTHER_LARGE):
        await put(store, data)
    assert await store.flush() == 2
    assert await store.flush() == 0
    assert slow.written == [digest_of(LARGE), digest_of(OTHER_LARGE)]
    assert store.pending == 0
    for data in (LARGE, OTHER_LARGE):
        found = store.open(digest_of(data))
        assert found is not None
        with found:
            assert found.read() == data


async def test_a_flush_skips_what_is_durable_already(store: TieredStore, slow: Slow) -> None:
    await put(store, LARGE)
    slow.write(LARGE_DIGEST, [LARGE])
    assert await store.flush() == 0
    assert slow.written == [LARGE_DIGEST]


async def test_what_is_here_is_not_taken_again(store: TieredStore, slow: Slow) -> None:
    for data in (LARGE, SMALL):
        assert await put(store, data)
        assert not await put(store, data)
    await store.flush()
    assert not await put(store, LARGE)
    assert sorted(slow.written) == sorted([LARGE_DIGEST, SMALL_DIGEST])


@pytest.mark.parametrize("size", [100, SMALL_BYTES + 1])
@pytest.mark.parametrize("fast", ["memory", "folder"])
async def test_content_that_is_wrong_is_not_taken_and_not_announced(
    slow: Slow, tmp_path: Path, size: int, fast: str
) -> None:
    tier: FastTier = MemoryTier(1 << 20) if fast == "memory" else FolderTier(tmp_path / "fast")
    store = TieredStore(tier, slow)
    right = digest_of(content(1, size))
    for wrong in (content(2, size), content(1, size)[:-1], content(1, size) + b"x"):
        with pytest.raises(WrongContent, match=name_of(right)):
            await store.put(right, pieces(wrong))
        assert not store.holds(right)
    assert store.to_announce() == slow.unannounced() == []
    assert await put(store, content(1, size))


async def test_a_full_fast_tier_makes_room_by_flushing(slow: Slow) -> None:
    store = TieredStore(MemoryTier(len(OTHER_LARGE) + 10), slow)
    await put(store, OTHER_LARGE)
    await put(store, LARGE)
    assert slow.written == [digest_of(OTHER_LARGE)]
    with pytest.raises(BlobTooLarge, match=str(len(OTHER_LARGE) + 10)):
        await put(store, content(4, len(OTHER_LARGE) + 11))


def test_a_memory_tier_counts_what_is_on_its_way() -> None:
    tier = MemoryTier(100)
    first = tier.begin(digest_of(content(1, 60)))
    with pytest.raises(NoRoomForBlob, match="60 of 100 bytes"):
        tier.begin(digest_of(content(2, 60)))
    tier.give_up(first)
    second = tier.begin(digest_of(content(2, 60)))
    second.write(content(2, 60))
    tier.finish(second)
    tier.remove(digest_of(content(2, 60)))
    tier.begin(digest_of(content(3, 100)))


async def test_a_durable_tier_that_fails_keeps_the_blobs_waiting_and_is_tried_again(
    store: TieredStore, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(store, LARGE)
    slow.full = 1
    with pytest.raises(TierFailed, match=r"1 blob.*No space left"):
        await store.flush()
    assert store.pending == 1
    slow.full = 2
    monkeypatch.setattr("streams.blobs.tiers.FIRST_BACK_OFF_S", 0.01)
    await asyncio.wait_for(store.flush_until_done(), 10)
    assert store.is_durable(LARGE_DIGEST)
    slow.full = 1
    with pytest.raises(TierFailed):
        await put(store, SMALL)
    assert not store.holds(SMALL_DIGEST)
    assert SMALL_DIGEST not in store.to_announce()


async def test_a_fast_tier_on_disk_is_flushed_by_the_next_process(tmp_path: Path) -> None:
    first = TieredStore(FolderTier(tmp_path / "fast"), DurableTier(tmp_path / "durable"))
    await put(first, LARGE)
    with pytest.raises(BlobDirectoryInUse):
        FolderTier(tmp_path / "fast")
    first.close()
    second = TieredStore(FolderTier(tmp_path / "fast"), DurableTier(tmp_path / "durable"))
    assert (second.holds(LARGE_DIGEST), second.is_durable(LARGE_DIGEST)) == (True, False)
    said = Said()
    await second.flush()
    assert await publisher(second, said).announce() == 1
    assert said.digests() == [LARGE_DIGEST]
    second.close()


async def test_what_a_memory_tier_lost_is_not_announced_by_the_next_process(tmp_path: Path) -> None:
    first = TieredStore(MemoryTier(1 << 20), DurableTier(tmp_path))
    await put(first, LARGE)
    await put(first, SMALL)
    first.close()
    second = TieredStore(MemoryTier(1 << 20), DurableTier(tmp_path))
    assert second.to_announce() == [SMALL_DIGEST], "the announcement that was not made is made late, not forgotten"
    assert await put(second, LARGE)


async def test_a_damaged_durable_blob_is_set_aside_and_can_be_put_again(store: TieredStore, tmp_path: Path) -> None:
    await put(store, SMALL)
    path = next(path for path in (tmp_path / "durable" / "blobs").rglob("*") if path.is_file())
    path.chmod(0o644)
    path.write_bytes(content(9, SMALL_BYTES))
    server = BlobServer(store, host="127.0.0.1", sink=store)
    url = await server.start()
    async with BlobClient() as client:
        async with client.session.get(f"{url}/blobs/{name_of(SMALL_DIGEST)}") as response:
            with pytest.raises(Exception, match=r"payload|closed|Connection"):
                await response.read()
        assert (tmp_path / "durable" / "wrong" / name_of(SMALL_DIGEST)).exists()
        file = tmp_path / "small"
        file.write_bytes(SMALL)
        assert await client.put_file(url, file) == SMALL_DIGEST
    assert store.is_durable(SMALL_DIGEST)
    await server.close()


async def test_the_store_over_http_takes_keeps_and_gives(store: TieredStore, tmp_path: Path) -> None:
    server = BlobServer(store, host="127.0.0.1", sink=store)
    url = await server.start()
    file = tmp_path / "large"
    file.write_bytes(OTHER_LARGE)
    digest = digest_of(OTHER_LARGE)
    async with BlobClient() as client:
        for _ in range(2):
            assert await client.put_file(url, file) == digest
        assert b"".join([piece async for piece in client.pieces(url, digest)]) == OTHER_LARGE
        async with client.session.put(f"{url}/blobs/{name_of(digest_of(b'abc'))}", data=b"abd") as response:
            assert (response.status, (await response.json())["error"]) == (400, "wrong-content")
        async with client.session.put(f"{url}/blobs/{name_of(digest_of(b'abc'))}", data=b"ab") as response:
            assert (response.status, (await response.json())["error"]) == (400, "wrong-content")
        store.stop_intake()
        async with client.session.put(f"{url}/blobs/{name_of(digest_of(b'abc'))}", data=b"abc") as response:
            assert (response.status, (await response.json())["error"]) == (503, "intake-stopped")
    await server.close()


# -- announcing -------------------------------------------------------------------------------------------------------------


async def test_only_what_the_durable_tier_confirmed_is_announced(store: TieredStore, slow: Slow) -> None:
    said = Said()
    one = publisher(store, said)
    await put(store, LARGE)
    assert await one.announce() == 0
    assert said.facts == [], "the fast tier has it, which is not durable"
    await store.flush()
    assert await one.announce() == 1
    assert said.digests() == [LARGE_DIGEST]
    assert await one.announce() == 0, "once is enough"
    assert slow.unannounced() == []


@pytest.mark.parametrize("number", [1, MAX_DIGESTS, MAX_DIGESTS + 1])
async def test_a_broadcast_is_cut_into_chunks_under_one_number_and_one_tag(store: TieredStore, number: int) -> None:
    durable = [Digest(bytes([n % 256, n // 256]) + bytes(30), n) for n in range(number)]
    said = Said()
    one = publisher(store, said, "main", "other", tag="ac")
    store._to_announce.update(dict.fromkeys(durable))
    store.is_durable = lambda digest: True  # type: ignore[method-assign]
    assert await one.announce() == number
    chunks = -(-number // MAX_DIGESTS)
    for instance, broadcast in (("main", 100), ("other", 101)):
        told = [fact for fact in said.facts if fact.instance == instance]
        assert [fact.sequence for fact in told] == list(range(chunks))
        assert [fact.last for fact in told] == [False] * (chunks - 1) + [True]
        assert {(fact.broadcast, fact.store) for fact in told} == {(broadcast, "ac")}
        assert [digest for fact in told for digest in digests_of(fact.digests)] == durable


async def test_an_announcement_whose_answer_was_lost_is_made_again_under_another_number(store: TieredStore) -> None:
    said = Said()
    said.loses = 1
    one = publisher(store, said)
    await put(store, SMALL)
    with pytest.raises(OutcomeUnknown):
        await one.announce()
    assert await one.announce() == 1
    assert [fact.broadcast for fact in said.facts] == [100, 101]
    assert said.digests() == [SMALL_DIGEST] * 2


async def test_what_is_put_is_flushed_and_announced_behind(store: TieredStore) -> None:
    said = Said()
    said.loses = 1
    one = publisher(store, said)
    running = asyncio.create_task(one.run(every_s=0.01))
    await put(store, LARGE)
    await put(store, SMALL)
    await until(lambda: one.announced == 2)
    assert set(said.digests()) == {LARGE_DIGEST, SMALL_DIGEST}
    running.cancel()
    await asyncio.wait([running])


# -- the stop ---------------------------------------------------------------------------------------------------------------


class Pulling:
    """Peers that hold one large blob; notes what the store was like when they were asked."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.pending: list[int] = []
        self.refused = 0

    async def pull_into(self, store: TieredStore) -> int:
        self.pending.append(store.pending)
        try:
            await put(store, SMALL)
        except IntakeStopped:
            self.refused += 1
        return int(await store.pull(digest_of(self.data), pieces(self.data)))


async def test_post_pull_flush_makes_pulled_blob_durable_on_slow_tier(store: TieredStore, slow: Slow) -> None:
    said, peers = Said(), Pulling(OTHER_LARGE)
    one = publisher(store, said, peers=peers)
    await put(store, LARGE)
    await one.stop()
    pulled = digest_of(OTHER_LARGE)
    assert slow.holds(pulled), "the slow tier does not hold the pulled blob: it would end with the fast one"
    assert said.digests() == [LARGE_DIGEST, pulled]
    assert (peers.refused, peers.pending) == (1, [0]), "the intake stops and everything is flushed before the pull"
    assert one.pulled == 1


async def test_a_pulled_blob_is_not_announced_while_only_the_fast_tier_has_it(store: TieredStore, slow: Slow) -> None:
    said = Said()
    one = publisher(store, said)
    assert await store.pull(digest_of(OTHER_LARGE), pieces(OTHER_LARGE))
    assert await one.announce() == 0
    assert said.digests() == []
    await one.stop()
    await one.stop()
    assert said.digests() == [digest_of(OTHER_LARGE)], "once, however often it is stopped"
    assert slow.written == [digest_of(OTHER_LARGE)]


async def test_what_only_workers_hold_is_fetched_from_them_by_the_map(store: TieredStore, tmp_path: Path) -> None:
    lost, in_other_hash = content(8, 50), "ab" * 20 + "/5"
    await put(store, SMALL)
    async with BlobClient() as client, peer(tmp_path / "w1", LARGE, SMALL) as (url, _):

        def answer(request: web.Request) -> web.StreamResponse:
            if request.path == "/v1/workers":
                return web.json_response({"workers": [{"endpoint": "w1"}]})
            if request.path.startswith("/locality/endpoints/main/w1"):
                names = [str(digest_of(data)) for data in (LARGE, SMALL, lost)]
                return web.json_response({"blobs": [in_other_hash, *names], "more": False})
            holder = {
                "instance": "main",
                "endpoint": "w1",
                "boot_epoch": 1,
                "blobs_url": url,
                "confirmed": True,
                "connected": True,
            }
            gone = {**holder, "endpoint": "w0", "blobs_url": "http://127.0.0.1:9"}
            return web.json_response({"holders": [gone, holder]})

        async with answering(answer) as views:
            peers = WorkersAsPeers(LocalityMap(views, client.session), client, ["main"])
            assert await peers.pull_into(store) == 1, "what nobody has any more is said and left"
            assert await peers.pull_into(store) == 0
        assert store.holds(LARGE_DIGEST)
        assert await peers.pull_into(store) == 0, "a map that is away takes nothing from the stop"


async def test_an_upload_that_stands_still_is_answered_408_and_its_room_is_free_again(slow: Slow) -> None:
    size = len(OTHER_LARGE)
    store = TieredStore(MemoryTier(size), slow)
    server = BlobServer(store, host="127.0.0.1", sink=store, upload_silence_s=0.05)
    port = int((await server.start()).rsplit(":", 1)[1])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    name = name_of(digest_of(content(7, size)))
    head = f"PUT /blobs/{name} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n"
    writer.write(head.encode() + content(7, size)[:1000])
    answer = (await asyncio.wait_for(reader.readuntil(b"}"), 20)).decode()
    assert answer.startswith("HTTP/1.1 408 ")
    assert '"upload-stalled"' in answer
    assert "for 0.05 s" in answer
    assert await put(store, OTHER_LARGE), "all of the fast tier is free"
    assert store.to_announce() == [digest_of(OTHER_LARGE)]
    writer.close()
    await server.close()


def test_a_memory_tier_opens_what_it_holds() -> None:
    tier = MemoryTier(100)
    receiving = tier.begin(digest_of(b"abc"))
    receiving.write(b"abc")
    tier.finish(receiving)
    found = tier.open(digest_of(b"abc"))
    assert isinstance(found, io.BytesIO)
    assert found.read() == b"abc"
    assert tier.digests() == [digest_of(b"abc")]
    assert tier.open(digest_of(b"x")) is None
