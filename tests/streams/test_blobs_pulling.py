"""The pull at the stop of a store, against the map as it really pages: what moves or fails meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from aiohttp import web

from events import events as e
from events.payloads import digests_bytes
from events.values import Digest
from projections.blob_pages import Mark, blobs_of
from streams.blobs.fetching import BlobClient
from streams.blobs.locating import LocalityMap
from streams.blobs.naming import digest_of
from streams.blobs.stable import MOST_SILENT, WorkersAsPeers
from streams.blobs.tiers import SMALL_BYTES, DurableTier, MemoryTier, TieredStore
from tests.projections.endpoints import Endpoints
from tests.streams.blobbing import answering, content, peer


@pytest.fixture
def store(tmp_path: Path) -> TieredStore:
    return TieredStore(MemoryTier(1 << 20), DurableTier(tmp_path / "durable"))


class Map:
    """The views of a locality map over the rows of endpoints; `meanwhile` is called after each page."""

    def __init__(self, *endpoints: str, blobs_url: str) -> None:
        self.endpoints = endpoints
        self.ends = Endpoints()
        self.asked: list[str] = []
        self.broken: dict[str, web.Response | None] = {}
        self.meanwhile: Callable[[list[Digest]], None] = lambda listed: None
        self._blobs_url = blobs_url
        for number, name in enumerate(endpoints):
            self.ends.connect(name, connection=number + 1)

    def report(self, name: str, report: int, digests: Iterable[Digest]) -> None:
        place = {"instance": "main", "endpoint": name, "connection_id": 1}
        self.ends.fold(e.BlobsAvailable, **place, report=report, full=True, last=True, added=digests_bytes(digests))

    def evict(self, name: str, *digests: Digest) -> None:
        place = {"instance": "main", "endpoint": name, "connection_id": 1}
        self.ends.fold(e.BlobsEvicted, **place, digests=digests_bytes(digests))

    def __call__(self, request: web.Request) -> web.StreamResponse | None:
        if request.path == "/v1/workers":
            return web.json_response({"workers": [{"endpoint": name} for name in self.endpoints]})
        name = request.path.rsplit("/", 1)[1]
        if request.path.startswith("/locality/holders"):
            holder = {"instance": "main", "endpoint": "w", "boot_epoch": 1, "blobs_url": self._blobs_url}
            return web.json_response({"holders": [{**holder, "confirmed": True, "connected": True}]})
        self.asked.append(name)
        if name in self.broken:
            return self.broken[name]
        mark = Mark.of_text(request.query["after"]) if "after" in request.query else None
        page = blobs_of(self.ends.flushed(), 0, "main", name, int(request.query["blobs"]), mark)
        self.meanwhile(list(page.blobs))
        following = None if page.next is None else str(page.next)
        return web.json_response(
            {"blobs": list(map(str, page.blobs)), "more": page.next is not None, "next": following}
        )


async def test_what_moves_or_goes_while_it_is_read_stops_neither_its_endpoint_nor_the_others(
    store: TieredStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.blobs.locating.PAGE", 2)
    held = [content(number, SMALL_BYTES + 1) for number in range(9)]
    digests = list(map(digest_of, held))
    async with BlobClient() as client, peer(tmp_path / "peer", *held) as (url, _):
        views = Map("ill", "w1", "away", "w2", blobs_url=url)
        views.broken = {"ill": web.json_response({"error": "x", "message": "", "remedy": ""}, status=500), "away": None}
        views.report("w1", 1, digests[:7])
        views.report("w2", 1, digests[7:])
        pages: list[list[Digest]] = []

        def moves(listed: list[Digest]) -> None:
            pages.append(listed)
            if len(pages) == 1:  # the one it stands behind goes, and the rest is named anew, the other way round
                views.evict("w1", *listed)
                views.report("w1", 2, reversed(digests[2:7]))

        views.meanwhile = moves
        async with answering(views) as address:
            peers = WorkersAsPeers(LocalityMap(address, client.session), client, ["main"])
            assert await peers.pull_into(store) == 9
        assert len(pages) > 3
    assert views.asked[0] == "ill"
    assert all(map(store.holds, digests))


async def test_a_map_that_went_away_is_not_asked_for_every_endpoint(store: TieredStore) -> None:
    names = [f"w{number}" for number in range(10)]
    views = Map(*names, blobs_url="")
    views.broken = dict.fromkeys(names)
    async with BlobClient() as client, answering(views) as address:
        assert await WorkersAsPeers(LocalityMap(address, client.session), client, ["main"]).pull_into(store) == 0
    assert list(dict.fromkeys(views.asked)) == names[:MOST_SILENT]  # a client may ask twice over a broken connection
