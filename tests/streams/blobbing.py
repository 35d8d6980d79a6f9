"""Blobs for tests: content, servers that behave or do not, a locality map that says what a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from events.values import Digest
from projections.locality import Holder
from streams.blobs.directory import BlobDirectory
from streams.blobs.errors import MapUnavailable
from streams.blobs.naming import digest_of, name_of
from streams.blobs.serving import BlobServer


def content(number: int, size: int = 100) -> bytes:
    """Bytes that differ by `number`, `size` of them."""
    return f"{number}:".encode().ljust(size, b"#")


async def pieces(data: bytes, size: int = 4_096) -> AsyncIterator[bytes]:
    """Content as it comes over a connection."""
    for start in range(0, len(data), size):
        yield data[start : start + size]
        await asyncio.sleep(0)


@asynccontextmanager
async def peer(folder: Path, *held: bytes, budget_bytes: int = 64 << 20) -> AsyncIterator[tuple[str, BlobDirectory]]:
    """A server of blobs, as a worker runs one: its address and its directory."""
    directory = BlobDirectory(folder, budget_bytes)
    for data in held:
        directory.write(digest_of(data), data)
    server = BlobServer(directory, host="127.0.0.1")
    try:
        yield await server.start(), directory
    finally:
        await server.close()
        directory.close()


Answering = Callable[[web.Request], web.StreamResponse | bytes | None]


@asynccontextmanager
async def answering(answer: Answering) -> AsyncIterator[str]:
    """A server that gives what `answer` says to every request: a response, the bytes of one, or None: it breaks the connection off."""

    async def view(request: web.Request) -> web.StreamResponse:
        given = answer(request)
        if given is None:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        return web.Response(body=given) if isinstance(given, bytes) else given

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", view)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class Known:
    """A locality map: holders by digest; `away` makes it answer nothing."""

    def __init__(self) -> None:
        self.holders_of: dict[Digest, list[Holder]] = {}
        self.asked: list[str] = []
        self.away = False

    def says(self, data: bytes, endpoint: str, url: str, boot_epoch: int = 7, *, confirmed: bool = True) -> None:
        """`endpoint` holds `data`."""
        holder = Holder("main", endpoint, boot_epoch, url, confirmed, True)
        self.holders_of.setdefault(digest_of(data), []).append(holder)

    async def holders(self, digest: Digest, instance: str) -> list[Holder]:
        """See `Locating.holders`."""
        self.asked.append(name_of(digest))
        if self.away:
            raise MapUnavailable("http://map", "for the test")
        return self.holders_of.get(digest, [])
