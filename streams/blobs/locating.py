"""Who has a blob: the locality map of the read side, asked over HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

import aiohttp
from yarl import URL

from events.values import Digest
from projections.locality import Holder
from streams.blobs.errors import MapUnavailable, UnreadableDigest
from streams.blobs.naming import digest_named, name_of
from streams.url_parts import url_part

PAGE = 4_096


class LocalityMap:
    """The map at an address, the base URL of the read side's views. The session stays the caller's."""

    def __init__(self, address: str, session: aiohttp.ClientSession, *, timeout_s: float = 5.0) -> None:
        self.address = address.rstrip("/")
        self._session = session
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)

    async def holders(self, digest: Digest, instance: str) -> list[Holder]:
        """The endpoints of an instance that hold the blob. Raises MapUnavailable."""
        answer = await self._get(f"/locality/holders/{name_of(digest)}", instance=instance)
        try:
            return [
                Holder(
                    str(row["instance"]),
                    str(row["endpoint"]),
                    _number(row["boot_epoch"]),
                    str(row["blobs_url"] or ""),
                    bool(row["confirmed"]),
                    bool(row["connected"]),
                )
                for row in answer["holders"]
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise MapUnavailable(self.address, f"its answer is not understood: {error!r}", answered=True) from error

    async def endpoints(self, instance: str) -> list[str]:
        """The endpoints of an instance that are connected: nobody else can be asked for blobs. Raises MapUnavailable."""
        answer = await self._get("/v1/workers", instance=instance)
        try:
            return [str(row["endpoint"]) for row in answer["workers"]]
        except (KeyError, TypeError) as error:
            raise MapUnavailable(self.address, f"its answer is not understood: {error!r}", answered=True) from error

    async def blobs_of(self, instance: str, endpoint: str) -> AsyncGenerator[Digest, None]:
        """The blobs of an endpoint, page by page: all that it holds throughout, some of them twice. Raises MapUnavailable."""
        path = f"/locality/endpoints/{url_part(instance)}/{url_part(endpoint)}"
        after = ""
        while True:
            answer = await self._get(path, blobs=PAGE, after=after)
            names = answer.get("blobs")
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise MapUnavailable(self.address, f"its answer is not understood: blobs={names!r:.100}", answered=True)
            for name in names:
                try:
                    yield digest_named(name)
                except UnreadableDigest:
                    continue  # named by another hash than SHA-256: nobody here can verify it
            following = answer.get("next")
            if following is None and not answer.get("more"):
                return
            if not isinstance(following, str) or following in ("", after):
                raise MapUnavailable(
                    self.address, f"its answer is not understood: next={following!r:.100}", answered=True
                )
            after = following

    async def _get(self, path: str, **parameters: object) -> dict[str, Any]:
        given = {name: str(value) for name, value in parameters.items() if value != ""}
        try:
            # As it is: `%2E%2E` is a name here, and no place in the path.
            url = URL(self.address + path, encoded=True).update_query(given)
            async with self._session.get(url, timeout=self._timeout, allow_redirects=False) as response:
                text = await response.text()
                status = response.status
        except TimeoutError as error:
            raise MapUnavailable(self.address, "it did not answer in time") from error
        except (aiohttp.ClientError, ValueError) as error:  # ValueError: no address, or no text
            raise MapUnavailable(self.address, str(error) or type(error).__name__) from error
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        if status == 404 and isinstance(answer, dict) and "error" in answer:
            return {"holders": [], "workers": [], "blobs": []}  # nobody of that name: nothing to be had there
        if status != 200 or not isinstance(answer, dict):
            why = f"{path} answered {status}: {text.strip()[:200] or 'nothing'}"
            raise MapUnavailable(self.address, why, answered=True)
        return answer


def _number(value: object) -> int:
    """A boot epoch; as text where a reader of JSON would lose its last digits."""
    return int(str(value))
