"""Blobs from peers and from the stable store, by HTTP. Content is verified on its way in; what went wrong is told by kind.

The kinds matter: only NOT_FOUND and DATA_LOSS prove that a peer does not hold what it was said to hold (PM11).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import aiohttp

from events.reasons import FetchFailure
from events.values import Digest
from streams.blobs.directory import BlobDirectory
from streams.blobs.errors import StoreFailed, WrongContent
from streams.blobs.naming import READ_BYTES, digest_of_file, name_of

CONNECT_S, SILENCE_S = 5.0, 15.0
SLOWEST_BYTES_PER_S = 256 << 10
"""A fetch gets 30 s and the time its size takes at this rate: a peer that trickles must not hold up a run."""
LEAST_FETCH_S = 30.0

_FAILURE_OF_STATUS = {
    404: FetchFailure.NOT_FOUND,
    429: FetchFailure.RESOURCE_EXHAUSTED,
    507: FetchFailure.RESOURCE_EXHAUSTED,
    502: FetchFailure.UNAVAILABLE,
    503: FetchFailure.UNAVAILABLE,
    504: FetchFailure.DEADLINE_EXCEEDED,
}


class FetchFailed(Exception):
    """A blob did not come: how it failed, and in words."""

    def __init__(self, failure: FetchFailure, why: str) -> None:
        super().__init__(why)
        self.failure, self.why = failure, why


class BlobClient:
    """Talks to blob servers. An async context manager; for many tasks of one event loop. No proxy is asked: peers are near."""

    def __init__(self, *, connect_s: float = CONNECT_S, silence_s: float = SILENCE_S) -> None:
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_s, sock_read=silence_s)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            timeout=self._timeout, trust_env=False, auto_decompress=False, headers={"Accept-Encoding": "identity"}
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None
        await self._session.close()

    @property
    def session(self) -> aiohttp.ClientSession:
        """The connections, for others that ask the same machines."""
        assert self._session is not None, "enter it with `async with` first"
        return self._session

    async def pieces(self, url: str, digest: Digest) -> AsyncGenerator[bytes, None]:
        """The content that the server at `url` gives for a blob, unverified. Close it (`aclosing`). Raises FetchFailed."""
        loop = asyncio.get_running_loop()
        until = loop.time() + LEAST_FETCH_S + digest.size_bytes / SLOWEST_BYTES_PER_S
        try:
            async with asyncio.timeout_at(until):  # a peer may trickle its headers, too
                response = await self.session.get(_at(url, digest), allow_redirects=False)
            async with response:
                if response.status != 200:
                    failure = _FAILURE_OF_STATUS.get(response.status, FetchFailure.INTERNAL)
                    raise FetchFailed(failure, f"it answered {response.status}")
                if response.content_length is not None and response.content_length != digest.size_bytes:
                    why = f"it has {response.content_length} bytes instead of {digest.size_bytes}"
                    raise FetchFailed(FetchFailure.DATA_LOSS, why)
                async for piece in response.content.iter_chunked(READ_BYTES):
                    if loop.time() > until:
                        raise FetchFailed(FetchFailure.DEADLINE_EXCEEDED, "it sends too slowly")
                    yield piece
        except TimeoutError as error:  # aiohttp's own are TimeoutErrors too
            raise FetchFailed(FetchFailure.DEADLINE_EXCEEDED, "it did not answer in time") from error
        except aiohttp.InvalidURL as error:
            raise FetchFailed(FetchFailure.INTERNAL, f"{url!r} is no address") from error
        except aiohttp.ClientError as error:
            raise FetchFailed(FetchFailure.UNAVAILABLE, str(error) or type(error).__name__) from error

    async def receive(self, url: str, digest: Digest, into: BlobDirectory, *, only_for_stable: bool = False) -> None:
        """Take the blob into a directory from the server at `url`. Nothing is asked where it is there already.

        Raises:
            FetchFailed: the server does not have it, does not answer, or what it has is something else.
            BlobTooLarge, NoRoomForBlob, OSError: the directory does not take it; the server is not to blame.
        """
        incoming = into.begin(digest, only_for_stable=only_for_stable)
        if incoming is None:
            return
        try:
            async with aclosing(self.pieces(url, digest)) as pieces:
                async for piece in pieces:
                    await asyncio.to_thread(incoming.write, piece)
            await asyncio.to_thread(into.finish, incoming)
        except WrongContent as error:
            into.give_up(incoming)
            raise FetchFailed(FetchFailure.DATA_LOSS, error.message) from error
        except BaseException:
            into.give_up(incoming)
            raise

    async def put_file(self, url: str, path: Path) -> Digest:
        """Put a file into the store at `url`, if it is not there yet. Raises StoreFailed; OSError of the file."""
        digest = await asyncio.to_thread(digest_of_file, path)
        try:
            async with self.session.head(_at(url, digest), allow_redirects=False) as response:
                if response.status == 200:
                    return digest
            with await asyncio.to_thread(open, path, "rb") as file:
                headers = {"Content-Length": str(digest.size_bytes)}
                async with self.session.put(_at(url, digest), data=_pieces(file), headers=headers) as response:
                    if response.status not in (200, 201):
                        raise StoreFailed(url, _said(response.status, await response.text()))
        except TimeoutError as error:
            raise StoreFailed(url, "it did not answer in time") from error
        except aiohttp.ClientError as error:
            raise StoreFailed(url, str(error) or type(error).__name__) from error
        return digest


async def _pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    while data := await asyncio.to_thread(file.read, READ_BYTES):
        yield data


def _at(url: str, digest: Digest) -> str:
    return f"{url.rstrip('/')}/blobs/{name_of(digest)}"


def _said(status: int, text: str) -> str:
    """An error answer in words: the server's own where it is one of ours."""
    try:
        answer = json.loads(text)
        return f"{answer['message']} [{answer['error']}]. {answer['remedy']}"
    except (ValueError, KeyError, TypeError):
        return f"it answered {status}: {text.strip()[:200] or 'nothing'}"
