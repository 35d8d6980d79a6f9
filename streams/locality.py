"""Who has this blob, for services: the locality views over HTTP, typed and asynchronous.

    async with LocalityReader("http://127.0.0.1:8087") as reader:
        found = await reader.holders(digest)
        for holder in found.holders:      # fetch from holder.blobs_url, where it has one
            ...

It is an index: a holder may have lost the blob since (say so with a `PeerFetchFailed` fact), and one that is not named may have it.
Every answer says from which event it is, how old, and whether the index was complete.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self, TypeVar

import aiohttp
from yarl import URL

from events.reasons import WipeCause
from events.values import Digest
from projections.locality import EndpointView, Holder, Stats
from streams.blobs.naming import name_of
from streams.digests import digest_named
from streams.url_parts import url_part
from streams.views import NotInTable, ViewRefused, ViewsUnreachable, refusal_of

__all__ = ["EndpointView", "Found", "Holder", "Inventory", "LocalityReader", "Position", "Stats"]

Value = TypeVar("Value", Holder, EndpointView, Stats)


@dataclass(frozen=True, slots=True)
class Position:
    """What an answer is from: the highest event, its age in milliseconds, and whether the index was complete (else it has gaps)."""

    seq: int
    age_ms: int
    complete: bool


@dataclass(frozen=True, slots=True)
class Found:
    """Who has a blob."""

    holders: tuple[Holder, ...]
    position: Position


@dataclass(frozen=True, slots=True)
class Inventory:
    """An endpoint, and as many of its blobs as were asked for; `next` says where the rest begins, None that there is no more."""

    endpoint: EndpointView
    blobs: tuple[Digest, ...]
    next: str | None
    position: Position


class LocalityReader:
    """Asks one read side.

    Args:
        address: of its views, such as `http://127.0.0.1:8087`.
        timeout_s: how long an answer may take.
    """

    def __init__(self, address: str, *, timeout_s: float = 10.0) -> None:
        self._address = address.rstrip("/")
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession(timeout=self._timeout)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._http is not None:
            await self._http.close()
            self._http = None

    async def holders(self, digest: Digest, *, instance: str | None = None) -> Found:
        """Who has this blob, in one instance or in all.

        Raises:
            ViewsUnreachable: the read side does not answer.
            NotReady: it has just started; after 30 s at the latest it answers, complete or not.
            NotInTable: no such instance.
        """
        answer = await self._get(f"/locality/holders/{name_of(digest)}", instance=instance)
        return Found(tuple(_parsed(Holder, holder) for holder in answer["holders"]), _position(answer))

    async def endpoint(
        self, instance: str, endpoint: str, *, blobs: int = 0, after: str | None = None
    ) -> Inventory | None:
        """What is known of an endpoint, with at most `blobs` (0 to 10,000) of what it holds; None: it is not known.

        `after` is `next` of the page before. Following it to the end lists every blob that is held all the while; one may come twice.

        Raises ViewsUnreachable, NotReady as `holders`; ViewRefused when `after` is of another endpoint, or of a read side that is ahead of
        this one.
        """
        path = f"/locality/endpoints/{url_part(instance)}/{url_part(endpoint)}"
        try:
            answer = await self._get(path, blobs=blobs or None, after=after)
        except NotInTable:
            return None
        found = tuple(map(digest_named, answer.get("blobs", ())))
        return Inventory(_parsed(EndpointView, answer["endpoint"]), found, answer.get("next"), _position(answer))

    async def stats(self) -> tuple[Stats, Position]:
        """Sums over all shards of the read side. Raises ViewsUnreachable, NotReady."""
        answer = await self._get("/locality/stats")
        return _parsed(Stats, answer["stats"]), _position(answer)

    async def _get(self, path: str, **parameters: object) -> dict[str, Any]:
        if self._http is None:
            raise RuntimeError("LocalityReader is used outside of `async with`")
        query = {name: str(value) for name, value in parameters.items() if value is not None}
        url = URL(self._address + path, encoded=True).update_query(query)
        try:
            async with self._http.get(url) as response:
                status, body = response.status, await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ViewsUnreachable(self._address, str(error) or type(error).__name__) from error
        if status != 200:
            raise refusal_of(str(url), status, body)
        try:
            answer = json.loads(body)
        except ValueError as error:
            raise ViewsUnreachable(self._address, f"{path} gave no JSON: {body[:80]!r}") from error
        if not isinstance(answer, dict) or "complete" not in answer:
            raise ViewRefused(str(url), status, "an answer without `complete`", "")
        return answer


def _parsed(kind: type[Value], row: Mapping[str, Any]) -> Value:
    """The row as a value. What a newer read side says besides is left out."""
    given = {part.name: row[part.name] for part in fields(kind)}
    if kind is EndpointView:
        given["wiped"] = WipeCause[(given["wiped"] or "unspecified").upper()]
    return kind(**given)


def _position(answer: Mapping[str, Any]) -> Position:
    return Position(answer["seq"], answer["age_ms"], answer["complete"])
