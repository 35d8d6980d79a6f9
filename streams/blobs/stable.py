"""Says which blobs are stable, by facts, and stops in the order that loses none.

A broadcast is one list of digests in chunks of at most 4,096, under one number that is drawn for it (S-1), with one store tag on every
chunk (S-8). A digest stands in it only if the durable tier has confirmed it: what is merely present may be in the fast tier, and a worker
that gave up its own copy for that would have given up the only one that lasts (PF1).

The stop (PF2): stop the intake, flush, pull what only workers hold, **flush again**, publish, close. Without the second flush, what was
pulled would end with the fast tier.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Protocol

from events.facts import BlobsStable, Fact
from events.payloads import digest_chunks
from events.values import Digest
from streams.blobs.errors import MapUnavailable, WrongContent
from streams.blobs.fetching import BlobClient, FetchFailed
from streams.blobs.locating import LocalityMap
from streams.blobs.naming import name_of
from streams.blobs.tiers import TieredStore
from streams.errors import StreamError
from streams.log_lines import say

ANNOUNCE_EVERY_S = 1.0
MOST_SILENT = 3
"""So many endpoints in a row of which the map said nothing at all, and the rest of their instance is not asked for."""

_log = logging.getLogger("headway.blobs")


class Facts(Protocol):
    """Where facts go: a `FactPublisher`."""

    async def publish_all(self, facts: Sequence[Fact]) -> list[int]:
        """Publish facts in order. Raises OutcomeUnknown, LogUnavailable."""
        ...


class Peers(Protocol):
    """Where blobs are that only workers hold."""

    async def pull_into(self, store: TieredStore) -> int:
        """Take what the store lacks; returns how many blobs came. What cannot be had is said, not raised."""
        ...


class StableBlobPublisher:
    """Announces the durable blobs of a store to the workers of instances.

    Args:
        store: whose blobs.
        facts: where announcements go.
        instances: whose workers are told.
        draw: 64 random bits for each broadcast.
        tag: what the blobs are: "" content, "ac" results of the action cache.
        peers: asked at the stop; None: nothing is pulled.
    """

    def __init__(
        self,
        store: TieredStore,
        facts: Facts,
        instances: Sequence[str],
        *,
        draw: Callable[[], int],
        tag: str = "",
        peers: Peers | None = None,
    ) -> None:
        self._store = store
        self._facts = facts
        self._instances = tuple(instances)
        self._draw = draw
        self._tag = tag
        self._peers = peers
        self.announced = 0
        self.pulled = 0

    async def announce(self) -> int:
        """Publish what has become durable since the last time; returns how many digests.

        Raises what publishing raises; the digests are then announced again, in a broadcast of another number.
        """
        durable = await asyncio.to_thread(self._durable_ones)
        if not durable:
            return 0
        chunks = digest_chunks(durable)
        for instance in self._instances:
            broadcast = self._draw()
            await self._facts.publish_all(
                [
                    BlobsStable(instance, broadcast, number, number == len(chunks) - 1, self._tag, chunk)
                    for number, chunk in enumerate(chunks)
                ]
            )
        await asyncio.to_thread(self._store.announced, durable)
        self.announced += len(durable)
        return len(durable)

    def _durable_ones(self) -> list[Digest]:
        return [digest for digest in self._store.to_announce() if self._store.is_durable(digest)]

    async def run(self, every_s: float = ANNOUNCE_EVERY_S) -> None:
        """Flush and announce for ever; an announcement that does not reach the log is made again."""
        flushing = asyncio.create_task(self._store.flush_behind())
        try:
            while True:
                await asyncio.wait([flushing], timeout=every_s)
                if flushing.done():
                    flushing.result()
                try:
                    await self.announce()
                except StreamError as error:
                    say(_log, logging.WARNING, "stable blobs wait for the log", error=str(error))
        finally:
            flushing.cancel()
            await asyncio.wait([flushing])

    async def stop(self) -> None:
        """Make everything durable, announce it, and take nothing new; call it once `run` has ended. Repeating it does no harm.

        Raises what publishing raises, after the blobs are durable: they are announced by the next process.
        """
        self._store.stop_intake()
        await self._store.flush_until_done()
        if self._peers is not None:
            self.pulled += await self._peers.pull_into(self._store)
        await self._store.flush_until_done()
        await self.announce()


class WorkersAsPeers:
    """Pulls from workers what the locality map says they hold and a store lacks."""

    def __init__(self, locality: LocalityMap, client: BlobClient, instances: Sequence[str]) -> None:
        self._locality = locality
        self._client = client
        self._instances = tuple(instances)

    async def pull_into(self, store: TieredStore) -> int:
        """See `Peers.pull_into`."""
        pulled = 0
        for instance in self._instances:
            what = "what only workers hold is not pulled; they keep it"
            try:
                endpoints = await self._locality.endpoints(instance)
            except MapUnavailable as error:
                say(_log, logging.WARNING, what, instance=instance, error=str(error))
                continue
            silent = 0
            for endpoint in endpoints:
                try:
                    async with aclosing(self._locality.blobs_of(instance, endpoint)) as digests:
                        async for digest in digests:
                            if not store.holds(digest):
                                pulled += await self._pull(instance, digest, store)
                    silent = 0
                except MapUnavailable as error:
                    say(_log, logging.WARNING, what, instance=instance, endpoint=endpoint, error=str(error))
                    silent = 0 if error.answered else silent + 1
                    if silent == MOST_SILENT:  # it is away: every other endpoint would wait for it as long
                        break
        return pulled

    async def _pull(self, instance: str, digest: Digest, store: TieredStore) -> int:
        why = "nobody serves it"
        try:
            holders = await self._locality.holders(digest, instance)
        except MapUnavailable as error:
            if not error.answered:
                raise
            holders, why = [], str(error)
        for holder in holders:
            if not holder.blobs_url:
                continue
            try:
                async with aclosing(self._client.pieces(holder.blobs_url, digest)) as pieces:
                    return int(await store.pull(digest, pieces))
            except (FetchFailed, WrongContent) as error:
                why = f"{holder.endpoint}: {error}"
            except (StreamError, OSError) as error:  # the store's own: no other worker can help
                why = str(error)
                break
        say(_log, logging.WARNING, "a blob that only workers hold is not pulled", blob=name_of(digest), error=why)
        return 0
