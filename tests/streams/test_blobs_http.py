"""Blobs over HTTP: what is served and refused, what a fetch makes of servers that lie, break off or dawdle, and asking the map."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from events.reasons import FetchFailure
from events.values import Digest
from projections.locality import Holder
from streams.blobs.directory import BlobDirectory
from streams.blobs.errors import BlobTooLarge, MapUnavailable, StoreFailed
from streams.blobs.fetching import BlobClient, FetchFailed
from streams.blobs.locating import LocalityMap
from streams.blobs.naming import digest_of, name_of
from streams.blobs.serving import AddressTaken, BlobServer
from tests.streams.blobbing import Answering, answering, content, peer

DATA = content(1, 300_000)
DIGEST = digest_of(DATA)


@pytest.fixture
async def client() -> AsyncIterator[BlobClient]:
    async with BlobClient(silence_s=0.3) as one:
        yield one


@pytest.fixture
def directory(tmp_path: Path) -> BlobDirectory:
    return BlobDirectory(tmp_path / "own", 64 << 20)


async def read(client: BlobClient, url: str, digest: Digest) -> bytes:
    async with aclosing(client.pieces(url, digest)) as found:
        return b"".join([piece async for piece in found])


async def test_a_blob_goes_from_one_directory_to_another(
    client: BlobClient, directory: BlobDirectory, tmp_path: Path
) -> None:
    empty = b""
    async with peer(tmp_path / "peer", DATA, empty) as (url, _):
        for data in (DATA, empty):
            await client.receive(url, digest_of(data), directory)
            file = directory.open(digest_of(data))
            assert file is not None
            with file:
                assert file.read() == data


async def test_what_is_not_there_or_no_digest_is_said_in_json(client: BlobClient, tmp_path: Path) -> None:
    async with peer(tmp_path / "peer", DATA) as (url, _):
        for method, path, status, code in (
            ("GET", f"/blobs/{name_of(digest_of(b'other'))}", 404, "blob-missing"),
            ("GET", "/blobs/nonsense", 400, "unreadable-digest"),
            ("PUT", f"/blobs/{name_of(DIGEST)}", 405, None),
        ):
            async with client.session.request(method, url + path) as response:
                assert response.status == status
                assert code is None or (await response.json())["error"] == code
        async with client.session.head(f"{url}/blobs/{name_of(DIGEST)}") as response:
            assert (response.status, response.headers["Content-Length"]) == (200, str(len(DATA)))
        async with client.session.head(f"{url}/blobs/{name_of(digest_of(b'other'))}") as response:
            assert response.status == 404


async def test_a_blob_that_is_wrong_on_disk_is_never_sent_whole_and_goes(client: BlobClient, tmp_path: Path) -> None:
    async with peer(tmp_path / "peer", DATA) as (url, held):
        path = next(path for path in (tmp_path / "peer" / "blobs").rglob("*") if path.is_file())
        path.chmod(0o644)
        path.write_bytes(content(2, len(DATA)))
        with pytest.raises(FetchFailed) as failed:
            await read(client, url, DIGEST)
        assert failed.value.failure is FetchFailure.UNAVAILABLE, "it broke off: that proves nothing to the reader"
        assert not held.holds(DIGEST)
        assert held.changes().evicted == [DIGEST], "but it is reported"
        with pytest.raises(FetchFailed) as failed:
            await read(client, url, DIGEST)
        assert failed.value.failure is FetchFailure.NOT_FOUND


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (lambda request: web.Response(status=404), FetchFailure.NOT_FOUND),
        (lambda request: web.Response(status=429), FetchFailure.RESOURCE_EXHAUSTED),
        (lambda request: web.Response(status=500), FetchFailure.INTERNAL),
        (lambda request: web.Response(status=503), FetchFailure.UNAVAILABLE),
        (lambda request: web.Response(status=302, headers={"Location": "/elsewhere"}), FetchFailure.INTERNAL),
        (lambda request: content(2, len(DATA)), FetchFailure.DATA_LOSS),
        (lambda request: DATA[:-1], FetchFailure.DATA_LOSS),
        (lambda request: DATA + b"x", FetchFailure.DATA_LOSS),
        (lambda request: None, FetchFailure.UNAVAILABLE),
    ],
)
async def test_how_a_fetch_failed_is_told_and_nothing_of_it_stays(
    client: BlobClient, directory: BlobDirectory, answer: Answering, failure: FetchFailure, tmp_path: Path
) -> None:
    async with answering(answer) as url:
        with pytest.raises(FetchFailed) as failed:
            await client.receive(url, DIGEST, directory)
    assert failed.value.failure is failure
    assert not directory.holds(DIGEST)
    assert [path for path in (tmp_path / "own").rglob("*") if path.is_file()] == [tmp_path / "own" / "lock"]


async def test_a_peer_that_is_gone_or_silent(client: BlobClient, directory: BlobDirectory) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it takes the connection and says nothing
        with pytest.raises(FetchFailed) as failed:
            await client.receive(f"http://127.0.0.1:{silent.getsockname()[1]}", DIGEST, directory)
        assert failed.value.failure is FetchFailure.DEADLINE_EXCEEDED
        port = silent.getsockname()[1]
    with pytest.raises(FetchFailed) as failed:
        await client.receive(f"http://127.0.0.1:{port}", DIGEST, directory)
    assert failed.value.failure is FetchFailure.UNAVAILABLE


async def test_no_room_here_is_not_the_peers_fault(client: BlobClient, tmp_path: Path) -> None:
    small = BlobDirectory(tmp_path / "small", 100)
    async with peer(tmp_path / "peer", DATA) as (url, _):
        with pytest.raises(BlobTooLarge):
            await client.receive(url, DIGEST, small)


async def test_an_address_that_is_taken_is_said(tmp_path: Path) -> None:
    async with peer(tmp_path / "peer") as (url, held):
        port = int(url.rpartition(":")[2])
        with pytest.raises(AddressTaken, match=f"127.0.0.1:{port}"):
            await BlobServer(held, host="127.0.0.1", port=port).start()


async def test_putting_into_what_is_no_store_says_what_it_said(client: BlobClient, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"abc")

    def answer(request: web.Request) -> web.StreamResponse:
        if request.method == "HEAD":
            return web.Response(status=404)
        said = {"error": "intake-stopped", "message": "it stops", "remedy": "Wait"}
        return web.json_response(said, status=503)

    async with answering(answer) as url:
        with pytest.raises(StoreFailed, match=r"it stops \[intake-stopped\]"):
            await client.put_file(url, file)
    with pytest.raises(StoreFailed, match=r"refused|Cannot connect"):
        await client.put_file(url, file)


# -- the map ----------------------------------------------------------------------------------------------------------------


async def test_holders_are_read_from_the_map(client: BlobClient) -> None:
    row = {"instance": "main", "endpoint": "w 1", "boot_epoch": 2**64 - 1, "blobs_url": "http://h:1"}
    asked: list[str] = []

    def answer(request: web.Request) -> web.StreamResponse:
        asked.append(str(request.rel_url))
        return web.json_response({"holders": [{**row, "confirmed": False, "connected": True}], "seq": 5})

    async with answering(answer) as url:
        found = await LocalityMap(url + "/", client.session).holders(DIGEST, "main")
    assert found == [Holder("main", "w 1", 2**64 - 1, "http://h:1", False, True)]
    assert asked == [f"/locality/holders/{name_of(DIGEST)}?instance=main"]


async def test_the_blobs_of_an_endpoint_come_page_by_page(client: BlobClient) -> None:
    first, second = sorted([digest_of(b"1"), digest_of(b"2")])

    def answer(request: web.Request) -> web.StreamResponse:
        assert request.raw_path.startswith("/locality/endpoints/main/w%2F1?")
        if "after" in request.query:
            assert request.query["after"] == "1-2-3-4"
            return web.json_response({"blobs": [str(second)], "more": False, "next": None})
        return web.json_response({"blobs": ["ab" * 20 + "/5", str(first)], "more": True, "next": "1-2-3-4"})

    async with answering(answer) as url, aclosing(LocalityMap(url, client.session).blobs_of("main", "w/1")) as found:
        assert [digest async for digest in found] == [first, second], "one that is no SHA-256 is left out"


@pytest.mark.parametrize(
    "answer",
    [
        lambda request: web.Response(status=503, text=json.dumps({"error": "not-ready", "message": "", "remedy": ""})),
        lambda request: web.Response(status=404, text="not a view of ours"),
        lambda request: b"no json",
        lambda request: web.json_response({"holders": [{"endpoint": "w1"}]}),
        lambda request: web.json_response({"holders": 5}),
        lambda request: None,
    ],
)
async def test_a_map_that_does_not_answer_is_an_error(client: BlobClient, answer: Answering) -> None:
    async with answering(answer) as url:
        with pytest.raises(MapUnavailable, match=url):
            await LocalityMap(url, client.session).holders(DIGEST, "main")


@pytest.mark.parametrize("following", [{}, {"next": None}, {"next": ""}, {"next": 5}, {"next": "again"}])
async def test_a_map_that_has_more_and_does_not_say_where_is_an_error(
    client: BlobClient, following: dict[str, object]
) -> None:
    page = {"blobs": [str(DIGEST)], "more": True, **following}
    async with (
        answering(lambda request: web.json_response(page)) as url,
        aclosing(LocalityMap(url, client.session).blobs_of("main", "w1")) as found,
    ):
        with pytest.raises(MapUnavailable, match="next=") as caught:
            assert [digest async for digest in found] == []
    assert caught.value.answered


@pytest.mark.parametrize("address", ["http://127.0.0.1:port", "http://127.0.0.1:1", "nowhere"])
async def test_an_address_that_is_none_and_one_where_nobody_is_are_no_answer(client: BlobClient, address: str) -> None:
    with pytest.raises(MapUnavailable, match="does not answer") as caught:
        await LocalityMap(address, client.session).holders(DIGEST, "main")
    assert not caught.value.answered


@pytest.mark.parametrize("name", [".", "..", "w/1", "a b?#%", "%2E"])
async def test_a_name_goes_as_it_is_whatever_it_is_in_a_path(client: BlobClient, name: str) -> None:
    asked: list[tuple[str, str]] = []

    async def view(request: web.Request) -> web.Response:
        asked.append((request.match_info["instance"], request.match_info["endpoint"]))
        return web.json_response({"blobs": [], "more": False, "next": None})

    application = web.Application()
    application.router.add_get("/locality/endpoints/{instance}/{endpoint:.+}", view)
    async with TestServer(application) as server:
        address = str(server.make_url("")).rstrip("/")
        async with aclosing(LocalityMap(address, client.session).blobs_of(name, name)) as found:
            assert [digest async for digest in found] == []
    assert asked == [(name, name)]


async def test_a_name_the_map_does_not_know_holds_nothing(client: BlobClient) -> None:
    missing = {"error": "not-found", "message": "endpoint 'w1' is not there", "remedy": ""}
    async with (
        answering(lambda request: web.json_response(missing, status=404)) as url,
        aclosing(LocalityMap(url, client.session).blobs_of("main", "w1")) as found,
    ):
        assert [digest async for digest in found] == []


def test_the_session_is_of_the_client() -> None:
    with pytest.raises(AssertionError, match="enter it"):
        assert isinstance(BlobClient().session, aiohttp.ClientSession)
