"""The HTTP client of the read side: asks the scheduler state table's views and says so plainly when they do not answer."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from http.client import HTTPException
from typing import Any, ClassVar
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, Request, build_opener

from streams.errors import StreamError
from streams.url_parts import url_part

Answer = dict[str, Any]

PAGE = 10_000
"""Rows asked for at once; the views give no more."""

POLL_S = 0.05
"""How often the table's position is asked for while it is waited for."""


class ViewsUnreachable(StreamError):
    """The read side does not answer."""

    code: ClassVar[str] = "read-side-unreachable"
    runbook: ClassVar[str] = (
        "Is `headway state-table run` up, and on the port in HEADWAY_WEB_PORT? Look at its log lines."
    )

    def __init__(self, address: str, why: str) -> None:
        self.address = address
        super().__init__(
            f"the read side at {address} does not answer: {why}",
            remedy="Start it with `headway state-table run` (or everything with `headway up`), or set HEADWAY_WEB_PORT",
        )


class ViewRefused(StreamError):
    """The read side answered with an error."""

    code: ClassVar[str] = "view-refused"
    runbook: ClassVar[str] = "The message is the read side's own."

    def __init__(self, url: str, status: int, said: str, remedy: str) -> None:
        self.url, self.status = url, status
        super().__init__(
            f"{url} answered {status}: {said}", remedy=remedy or "Is it Headway's read side that answers there?"
        )


class NotReady(ViewRefused):
    """The read side has not read the log to its end since its start, and says how far it is."""

    code: ClassVar[str] = "not-ready"
    runbook: ClassVar[str] = (
        "It catches up after a start. Where it makes no progress, its log lines say what it waits for."
    )

    def __init__(self, url: str, said: str, remedy: str) -> None:
        super().__init__(url, 503, said, remedy)
        self.message = f"not ready yet: {said}"


class NotInTable(StreamError):
    """What was asked for is not in the table."""

    code: ClassVar[str] = "not-found"
    runbook: ClassVar[str] = (
        "A finished operation is forgotten after retain_completed_for_s; its events stay in the log."
    )


class TableBehind(StreamError):
    """The state table has not reached an event in time."""

    code: ClassVar[str] = "table-behind"
    runbook: ClassVar[str] = (
        "`headway status` shows the table's lag; a growing one means that the read side is stuck or slow."
    )

    def __init__(self, shard: int, seq: int, reached: int, waited_s: float) -> None:
        super().__init__(
            f"the state table stands at seq {reached} of shard {shard} after {waited_s:g} s; seq {seq} is waited for",
            remedy="The change itself is in the log; look at the read side, or use --no-wait",
        )


class Views:
    """The views at one address. Blocking, one request at a time; for the command line and scripts."""

    def __init__(self, address: str, *, timeout_s: float = 10.0) -> None:
        self.address = address.rstrip("/")
        self._timeout_s = timeout_s
        # Loopback is no business of a proxy that the environment may name.
        self._open = build_opener(ProxyHandler({})).open

    def get(self, path: str, **parameters: object) -> Answer:
        """The JSON object that a view answers; parameters that are None or empty are left out.

        Raises ViewsUnreachable; NotReady while the table is read; ViewRefused when the answer is another error, with the read side's
        own words.
        """
        given = {name: value for name, value in parameters.items() if value is not None and value != ""}
        url = self.address + path + (f"?{urlencode(given)}" if given else "")
        try:
            with self._open(Request(url, headers={"Accept": "application/json"}), timeout=self._timeout_s) as response:
                body = response.read()
        except HTTPError as error:
            raise refusal_of(url, error.code, error.read()) from error
        except (URLError, HTTPException, OSError) as error:
            reason = getattr(error, "reason", None) or error
            why = getattr(reason, "strerror", None) or str(reason) or type(error).__name__
            raise ViewsUnreachable(self.address, why) from error
        try:
            answer = json.loads(body)
        except ValueError as error:
            raise ViewsUnreachable(
                self.address, f"{path} gave no JSON: {body[:80]!r}; is it Headway's port?"
            ) from error
        if not isinstance(answer, dict):
            raise ViewsUnreachable(self.address, f"{path} gave a {type(answer).__name__}; is it Headway's port?")
        return answer

    def status(self) -> Answer:
        """Positions, leaders and counts of every shard."""
        return self.get("/v1/status")

    def queue(self, *, instance: str | None = None, limit: int = PAGE) -> Answer:
        """What waits, in dispatch order."""
        return self.get("/v1/queue", instance=instance, limit=limit)

    def workers(self, *, instance: str | None = None) -> Answer:
        """Connected workers and their ledger."""
        return self.get("/v1/workers", instance=instance)

    def instances(self, *, instance: str | None = None) -> Answer:
        """Instances, their configuration and counts. Raises NotInTable for one that is not there."""
        return self.get("/v1/instances", instance=instance)

    def holds(self, *, instance: str | None = None) -> Answer:
        """Who is held for whom."""
        return self.get("/v1/holds", instance=instance)

    def explain_operation(self, name: str, *, instance: str | None = None) -> Answer:
        """Why an operation is where it is, by any of its names. Raises NotInTable."""
        return self.get(f"/v1/explain/operation/{url_part(name)}", instance=instance)

    def explain_hold(self, name: str | None = None, *, instance: str | None = None) -> Answer:
        """The hold that an operation, a held worker or an instance names, or why there is none. Raises NotInTable."""
        return self.get("/v1/explain/hold", name=name, instance=instance)

    def operation(self, name: str, *, instance: str | None = None) -> Answer:
        """One operation with command and output, by INSTANCE/op-N, op-N, N or client operation id. Raises NotInTable."""
        return self.get(f"/v1/operations/{url_part(name)}", instance=instance)

    def operations(
        self,
        *,
        stage: str | None = None,
        instance: str | None = None,
        client: str | None = None,
        mnemonic: str | None = None,
        after: int | None = None,
        limit: int = PAGE,
    ) -> Answer:
        """Operations that match, at most `limit`; without a stage in the order of their ids, only those above `after`."""
        return self.get(
            "/v1/operations",
            stage=stage,
            instance=instance,
            client_id=client,
            mnemonic=mnemonic,
            after=after,
            limit=limit,
        )

    def every_operation(
        self, instance: str, *, client: str | None = None, mnemonic: str | None = None
    ) -> Iterator[Answer]:
        """All operations of an instance that match, page by page, in the order of their ids."""
        after: int | None = None
        more = True
        while more:
            answer = self.operations(instance=instance, client=client, mnemonic=mnemonic, after=after)
            yield from answer["operations"]
            more = answer["more"]
            if more:
                after = answer["operations"][-1]["operation_id"]

    def locality_holders(self, digest: str, *, instance: str | None = None) -> Answer:
        """Who has this blob, named by HASH/SIZE."""
        return self.get(f"/locality/holders/{url_part(digest.replace('/', '-'))}", instance=instance)

    def locality_endpoint(
        self, instance: str, endpoint: str, *, blobs: int | None = None, after: str | None = None
    ) -> Answer:
        """What is known of an endpoint, with so many of its blobs, from `after` on: `next` of the answer before. Raises NotInTable."""
        path = f"/locality/endpoints/{url_part(instance)}/{url_part(endpoint)}"
        return self.get(path, blobs=blobs, after=after)

    def locality_stats(self) -> Answer:
        """Endpoints, pairs and pins of every shard."""
        return self.get("/locality/stats")

    def position(self, shard: int) -> int:
        """The seq that the table has reached in a shard; 0 when it holds none of it."""
        return next((int(row["seq"]) for row in self.status()["shards"] if row["shard"] == shard), 0)

    def wait_until_ready(self, *, timeout_s: float) -> None:
        """Wait until the table is complete. Raises what the read side said last: NotReady, or ViewsUnreachable where it is not there."""
        begun = time.monotonic()
        while True:
            try:
                self.get("/healthz")
                return
            except (NotReady, ViewsUnreachable):
                if time.monotonic() - begun > timeout_s:
                    raise
            time.sleep(POLL_S)

    def wait_for(self, shard: int, seq: int, *, timeout_s: float) -> None:
        """Wait until the table holds event `seq` of a shard. Raises TableBehind; ViewsUnreachable."""
        begun = time.monotonic()
        while (reached := self.position(shard)) < seq:
            if time.monotonic() - begun > timeout_s:
                raise TableBehind(shard, seq, reached, timeout_s)
            time.sleep(POLL_S)


def refusal_of(url: str, status: int, body: bytes) -> StreamError:
    """What an answer with an error status says: NotInTable, NotReady or ViewRefused."""
    code, said, remedy = _said(body)
    if status == 404 and code:  # without a code it is no answer of Headway's
        return NotInTable(said, remedy=remedy)
    if status == 503 and code == NotReady.code:
        return NotReady(url, said, remedy)
    return ViewRefused(url, status, said, remedy)


def _said(body: bytes) -> tuple[str, str, str]:
    """Code, message and remedy of an error answer; the text itself as the message when it is not one of Headway's."""
    text = body.decode(errors="replace").strip()
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    if isinstance(answer, dict) and "error" in answer and "message" in answer:
        return str(answer["error"]), str(answer["message"]), str(answer.get("remedy", ""))
    return "", text[:300] or "nothing", ""
