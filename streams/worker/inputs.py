"""Makes the inputs of a run present: from the worker's own directory, else from a peer that the locality map names, else from the store.

A peer is a hint, never a promise. Each that fails is reported (`PeerFetchFailed`, with how it failed and the boot epoch that was told for
it), so that the map forgets what is not there (PM11), and the next one is asked, then the stable store. Only when nobody has the blob is
the run over, and it says what was tried.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from events.facts import Fact, PeerFetchFailed
from events.values import Digest
from projections.locality import Holder
from streams.blobs.directory import BlobDirectory, Pin
from streams.blobs.errors import MapUnavailable
from streams.blobs.fetching import BlobClient, FetchFailed
from streams.blobs.naming import HASH_BYTES, name_of
from streams.log_lines import say

AT_ONCE = 16
MOST_FETCHES = 3
MOST_PEERS = 4
"""Peers that are asked for one blob before the stable store is."""

_log = logging.getLogger("headway.worker")


class InputMissing(Exception):
    """An input cannot be had: which, and what was tried."""

    def __init__(self, digest: Digest, why: str) -> None:
        self.digest = digest
        super().__init__(
            f"input {name_of(digest)} is missing: {why}. Put it into the stable store: headway blobs put FILE"
        )


class Locating(Protocol):
    """Who has a blob."""

    async def holders(self, digest: Digest, instance: str) -> list[Holder]:
        """The endpoints of an instance that hold it. Raises MapUnavailable."""
        ...


@dataclass(slots=True)
class InputCounts:
    """Where inputs came from."""

    present: int = 0
    from_peers: int = 0
    from_store: int = 0
    peers_failed: int = 0


class InputSource:
    """The inputs of one worker's runs.

    Args:
        directory: where they are kept.
        client: fetches them.
        instance, endpoint: whose worker asks; it is not asked itself.
        locality: who has a blob; None: nobody is asked.
        store_url: the stable store; empty: there is none.
        draw: a number to order equal peers by, so that not every worker asks the same one.
        publish: where facts go.
    """

    def __init__(
        self,
        directory: BlobDirectory,
        client: BlobClient,
        instance: str,
        endpoint: str,
        *,
        locality: Locating | None,
        store_url: str = "",
        draw: Callable[[], int],
        publish: Callable[[Fact], None],
    ) -> None:
        self.counts = InputCounts()
        self._directory = directory
        self._client = client
        self._instance, self._endpoint = instance, endpoint
        self._locality = locality
        self._store_url = store_url
        self._draw = draw
        self._publish = publish
        self._fetching: dict[Digest, asyncio.Lock] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def take(self, digests: Sequence[Digest]) -> list[Pin]:
        """Make all of them present and pin them; unpin them once they are not used any more.

        Raises:
            InputMissing: nobody has one of them.
            BlobTooLarge, NoRoomForBlob, OSError: this worker has no room for one.
        """
        tasks = [asyncio.create_task(self._take_one(digest)) for digest in dict.fromkeys(digests)]
        try:
            return list(await asyncio.gather(*tasks))
        except BaseException:
            for task in tasks:
                task.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(result, Pin):
                    self._directory.unpin(result)
            raise

    async def take_from_store(self, digest: Digest) -> None:
        """Take a small blob for the mirror. Raises FetchFailed; NoRoomForBlob; BlobTooLarge."""
        await self._client.receive(self._store_url, digest, self._directory, only_for_stable=True)

    async def _take_one(self, digest: Digest) -> Pin:
        if len(digest.hash) != HASH_BYTES:
            raise InputMissing(digest, f"its hash has {len(digest.hash)} bytes; workers hold blobs by SHA-256")
        lock = self._fetching.setdefault(digest, asyncio.Lock())
        try:
            async with lock, self._slots:
                pin = await self._pin(digest)
                if pin is not None:
                    self.counts.present += 1
                for _ in range(MOST_FETCHES):
                    if pin is not None:
                        return pin
                    await self._fetch(digest)
                    pin = await self._pin(digest)  # None where it was given up for another one in between
                if pin is None:
                    raise InputMissing(digest, f"it was given up again before it could be used, {MOST_FETCHES} times")
                return pin
        finally:
            if not lock.locked():
                self._fetching.pop(digest, None)

    async def _pin(self, digest: Digest) -> Pin | None:
        if self._directory.is_unchecked(digest):
            await asyncio.to_thread(self._directory.check, digest)
        return self._directory.pin(digest)

    async def _fetch(self, digest: Digest) -> None:
        tried: list[str] = []
        for peer in await self._peers(digest, tried):
            try:
                await self._client.receive(peer.blobs_url, digest, self._directory)
            except FetchFailed as error:
                tried.append(f"{peer.endpoint} {error.failure.name.lower()}: {error.why}")
                self._note_failed(peer, digest, error)
            else:
                self.counts.from_peers += 1
                return
        if not self._store_url:
            tried.append("no stable store is named (--blobs-url)")
        else:
            try:
                await self._client.receive(self._store_url, digest, self._directory)
            except FetchFailed as error:
                tried.append(f"the store {self._store_url}: {error.why}")
            else:
                self.counts.from_store += 1
                return
        raise InputMissing(digest, "; ".join(tried))

    async def _peers(self, digest: Digest, tried: list[str]) -> list[Holder]:
        if self._locality is None:
            return []
        try:
            found = await self._locality.holders(digest, self._instance)
        except MapUnavailable as error:
            say(_log, logging.WARNING, "peers are not known", because=str(error))
            tried.append(f"the locality map: {error.message}")
            return []
        others = [each for each in found if each.endpoint != self._endpoint and each.blobs_url]
        others.sort(key=lambda each: (not each.connected, not each.confirmed, self._draw()))
        return others[:MOST_PEERS]

    def _note_failed(self, peer: Holder, digest: Digest, error: FetchFailed) -> None:
        self.counts.peers_failed += 1
        say(
            _log,
            logging.WARNING,
            "a peer did not give what it was said to hold",
            peer=peer.endpoint,
            blob=name_of(digest),
            failure=error.failure.name,
            because=error.why,
        )
        self._publish(
            PeerFetchFailed(
                peer.instance, peer.endpoint, digest, error.failure, peer.boot_epoch, reporter=self._endpoint
            )
        )
