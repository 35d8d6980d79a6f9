"""Blobs over HTTP: a worker's for its peers, or the stable store's for everybody.

    GET  /blobs/<hex>-<size>      the content; 404 where it is not here
    HEAD /blobs/<hex>-<size>      whether it is here
    PUT  /blobs/<hex>-<size>      201 taken, 200 it was here before; the stable store alone

What is sent is hashed on its way. A blob that turns out to be wrong is removed and its connection broken off before the last byte, so that
nobody takes it for the content. Errors are JSON: `{"error": code, "message": ..., "remedy": ...}`.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import BinaryIO, ClassVar, Protocol

from aiohttp import web

from events.values import Digest
from streams.blobs.errors import (
    BlobMissing,
    BlobTooLarge,
    IntakeStopped,
    NoRoomForBlob,
    TierFailed,
    UnreadableDigest,
    UploadStalled,
    WrongContent,
)
from streams.blobs.naming import READ_BYTES, digest_named, name_of
from streams.errors import StreamError
from streams.log_lines import say

STATUS: dict[type[StreamError], int] = {
    UnreadableDigest: 400,
    WrongContent: 400,
    BlobMissing: 404,
    UploadStalled: 408,
    BlobTooLarge: 413,
    IntakeStopped: 503,
    TierFailed: 507,
    NoRoomForBlob: 507,
}

UPLOAD_SILENCE_S = 30.0

_log = logging.getLogger("headway.blobs")


class Source(Protocol):
    """Where blobs are read from. Called from threads."""

    def open(self, digest: Digest) -> BinaryIO | None:
        """The content for reading; None where it is not here."""
        ...

    def holds(self, digest: Digest) -> bool:
        """Whether the blob is here."""
        ...

    def remove_wrong(self, digest: Digest) -> None:
        """The content is not what the digest says."""
        ...


class Sink(Protocol):
    """What takes blobs. Belongs to the event loop."""

    async def put(self, digest: Digest, content: AsyncIterator[bytes]) -> bool:
        """Take a blob; False where it was here before. Raises the errors of `STATUS`."""
        ...


class AddressTaken(StreamError):
    """The address cannot be listened on."""

    code: ClassVar[str] = "blobs-address-taken"
    runbook: ClassVar[str] = (
        "Another process listens there, or the machine has no such address; port 0 takes any free one."
    )

    def __init__(self, host: str, port: int, why: str) -> None:
        super().__init__(f"blobs cannot be served on {host}:{port}: {why}", remedy="Choose another address or port")


class BlobServer:
    """Serves the blobs of `source`, and takes them for `sink` where there is one.

    Args:
        source: what is served.
        host: one address of this machine.
        port: 0 for any.
        sink: what takes blobs; None: nothing does.
        upload_silence_s: an upload of which nothing comes for so long is given up, with the room that is reserved for it.
    """

    def __init__(
        self,
        source: Source,
        *,
        host: str,
        port: int = 0,
        sink: Sink | None = None,
        upload_silence_s: float = UPLOAD_SILENCE_S,
    ) -> None:
        self._source = source
        self._sink = sink
        self._host, self._port = host, port
        self._upload_silence_s = upload_silence_s
        self._runner: web.AppRunner | None = None
        self.served = 0

    async def start(self) -> str:
        """Listen; returns the address as `http://host:port`. Raises AddressTaken."""
        application = web.Application()
        application.router.add_get("/blobs/{name}", self._get)  # HEAD as well
        if self._sink is not None:
            application.router.add_put("/blobs/{name}", self._put)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=5.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        try:
            await site.start()
        except OSError as error:
            await self.close()
            raise AddressTaken(self._host, self._port, error.strerror or str(error)) from error
        host, port = self._runner.addresses[0][:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def close(self) -> None:
        """Stop listening; requests under way get 5 s."""
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    async def _get(self, request: web.Request) -> web.StreamResponse:
        try:
            digest = digest_named(request.match_info["name"])
            if request.method == "HEAD":
                if not await asyncio.to_thread(self._source.holds, digest):
                    raise BlobMissing(name_of(digest), "this store")
                return web.Response(headers={"Content-Length": str(digest.size_bytes)})
            file = await asyncio.to_thread(self._source.open, digest)
            if file is None:
                raise BlobMissing(name_of(digest), "this store")
        except StreamError as error:
            return refusal_of(error)
        try:
            return await self._send(request, digest, file)
        finally:
            file.close()

    async def _send(self, request: web.Request, digest: Digest, file: BinaryIO) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
        response.content_length = digest.size_bytes
        sha, left = hashlib.sha256(), digest.size_bytes
        # The last piece is kept back until the hash of all is known.
        piece = await asyncio.to_thread(file.read, READ_BYTES)
        await response.prepare(request)
        while piece:
            left -= len(piece)
            sha.update(piece)
            following = await asyncio.to_thread(file.read, READ_BYTES)
            if not following and (left or sha.digest() != digest.hash):
                break
            if left < 0:
                break
            await response.write(piece)
            piece = following
        if left or sha.digest() != digest.hash:
            await asyncio.to_thread(self._source.remove_wrong, digest)
            say(_log, logging.ERROR, "a blob was wrong and is removed", blob=name_of(digest))
            if request.transport is not None:
                request.transport.abort()
            return response
        await response.write_eof()
        self.served += 1
        return response

    async def _put(self, request: web.Request) -> web.StreamResponse:
        assert self._sink is not None
        try:
            digest = digest_named(request.match_info["name"])
            if request.content_length is not None and request.content_length != digest.size_bytes:
                why = f"the request has {request.content_length} bytes"
                raise WrongContent(name_of(digest), why)
            async with aclosing(self._received(request, digest)) as pieces:
                is_new = await self._sink.put(digest, pieces)
        except StreamError as error:
            return refusal_of(error)
        except OSError as error:
            say(_log, logging.ERROR, "a blob could not be stored", error=str(error))
            return refusal_of(TierFailed(request.match_info["name"], 1, error.strerror or str(error)))
        return web.Response(status=201 if is_new else 200)

    async def _received(self, request: web.Request, digest: Digest) -> AsyncGenerator[bytes, None]:
        """The content as it comes. Raises UploadStalled."""
        pieces = request.content.iter_chunked(READ_BYTES)
        while True:
            try:
                # Only the wait for the client counts, not what the store does with a piece.
                async with asyncio.timeout(self._upload_silence_s):
                    piece = await anext(pieces, b"")
            except TimeoutError as error:
                raise UploadStalled(name_of(digest), self._upload_silence_s) from error
            if not piece:
                return
            yield piece


def refusal_of(error: StreamError) -> web.Response:
    """The answer that says an error."""
    body = {"error": error.code, "message": error.message, "remedy": error.remedy}
    return web.json_response(body, status=STATUS.get(type(error), 500))
