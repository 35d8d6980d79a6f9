"""The views of what endpoints hold, as JSON: `headway locality` asks them, and so may any service (`streams/locality.py`).

    GET /locality/holders/HASH-SIZE             ?instance=              who has this blob
    GET /locality/endpoints/INSTANCE/ENDPOINT   ?blobs=&after=          one endpoint: its epoch, what it has said, what waits for it
    GET /locality/stats                                                 endpoints, pairs, pins of every shard

HASH is in hex; HASH/SIZE is read as well. `blobs` lists so many digests of the endpoint in the order of their naming; where there are
more, `next` is the value of `after` that goes on there. What is held while one page after the other is read is listed, perhaps twice,
whatever else changes meanwhile.

Every answer carries `seq`, `age_ms` and `shards` as all views do, and `complete`: false while it is answered from an index that has not
been read to its end after a start (`streams/readiness.py`), and then `progress`. What an incomplete index does not name may be there
all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from enum import IntEnum
from typing import Any

from aiohttp import web

from events.values import Digest
from projections import fleet, locality
from projections.blob_pages import InvalidMark, Mark, MarkRefused, Page, blobs_of
from projections.table import Table
from streams.answering import Answer, Refused, View, answering, limit_of, text_of
from streams.digests import InvalidDigest, digest_named
from streams.read_side import ReadSide, not_ready, stamp_of


class LocalityViews:
    """The views of locality of one read side. `clock_us` is the wall clock, microseconds since 1970."""

    def __init__(self, read_side: ReadSide, *, clock_us: Callable[[], int]) -> None:
        self._read_side = read_side
        self._clock_us = clock_us

    def add_to(self, application: web.Application) -> None:
        """Serve the views from an aiohttp application."""
        for path, view in (
            ("/locality/holders/{digest:.+}", self._holders),
            ("/locality/endpoints/{instance}/{endpoint:.+}", self._endpoint),
            ("/locality/stats", self._stats),
        ):
            application.router.add_get(path, answering(self._when_open(view)))

    def _when_open(self, view: View) -> View:
        """The view behind the gate, which opens for locality after a while however little is known (PM4)."""

        def answer(request: web.Request) -> Answer:
            if not self._read_side.gate.locality_is_open:
                raise not_ready(self._read_side)
            return view(request)

        return answer

    # -- one view each --------------------------------------------------------------------------------------------------------

    def _holders(self, request: web.Request) -> Answer:
        digest, instance = _digest(request.match_info["digest"]), text_of(request, "instance")
        tables = self._tables(instance)
        found = [
            plain(holder)
            for table in tables
            for holder in locality.holders(table.rows, table.number, digest, instance or "")
        ]
        return {"digest": str(digest), "holders": found, **self._stamp(tables)}

    def _endpoint(self, request: web.Request) -> Answer:
        instance, endpoint = request.match_info["instance"], request.match_info["endpoint"]
        blobs = limit_of(request, "blobs", default=0, least=0)
        after = text_of(request, "after")
        mark = _mark(after) if after else None
        tables = self._tables(instance)
        for table in tables:
            found = locality.endpoint(table.rows, table.number, instance, endpoint)
            if found is None:
                continue
            answer: Answer = {"endpoint": plain(found), **self._stamp(tables)}
            if blobs:
                page = _page(table, instance, endpoint, blobs, mark)
                answer |= {"blobs": [str(digest) for digest in page.blobs], "more": page.next is not None}
                answer["next"] = None if page.next is None else str(page.next)
            return answer
        remedy = "An endpoint is forgotten never_reconnect_s after its last connection; `headway worker list` shows who is connected"
        if self._read_side.progress() or not tables:
            remedy = "The index has not been read to its end yet: ask again when `/healthz` says that it has"
        raise Refused(
            404,
            "not-found",
            f"endpoint {endpoint!r} of instance {instance!r} is not in the state table",
            remedy,
            **self._stamp(tables),
        )

    def _stats(self, request: web.Request) -> Answer:
        tables = self._tables()
        each = [{"shard": table.number, **plain(locality.stats(table.rows, table.number))} for table in tables]
        sums: dict[str, int] = {}
        for part in each:
            for name, value in part.items():
                if name != "shard" and isinstance(value, int):
                    sums[name] = sums.get(name, 0) + value
        return {"stats": sums, "by_shard": each, **self._stamp(tables)}

    # -- what they share ------------------------------------------------------------------------------------------------------

    def _tables(self, instance: str | None = None) -> list[Table]:
        """Those that may know the instance. Raises Refused for one that none knows, where all are complete."""
        waiting = [progress.shard for progress in self._read_side.progress()]
        shards = sorted({*self._read_side.shards(), *waiting})
        tables = [Table(self._read_side.rows, shard) for shard in shards]
        if instance is None or waiting or not tables:
            return tables
        holding = [table for table in tables if any(fleet.instance_rows(table, instance))]
        if not holding:
            known = sorted(row.name for table in tables for row in fleet.instance_rows(table))
            raise Refused(
                404,
                "unknown-instance",
                f"unknown instance {instance!r}; known instances: {', '.join(known) or 'none'}",
                "Use a known one",
            )
        return holding

    def _stamp(self, tables: Sequence[Table]) -> Answer:
        stamp = stamp_of(tables, self._clock_us())
        progress = [part.as_dict() for part in self._read_side.progress()]
        if self._read_side.not_ready() or progress:
            return {"complete": False, "progress": progress, **stamp}
        return {"complete": True, **stamp}


def _page(table: Table, instance: str, endpoint: str, limit: int, after: Mark | None) -> Page:
    try:
        return blobs_of(table.rows, table.number, instance, endpoint, limit, after)
    except MarkRefused as error:
        raise Refused(400, "bad-request", str(error), "Leave `after` out, and begin again") from error


def _mark(text: str) -> Mark:
    try:
        return Mark.of_text(text)
    except InvalidMark as error:
        raise Refused(400, "bad-request", f"after={error}", "Leave `after` out to begin, then pass `next`") from error


def plain(value: Any) -> Any:
    """A value of the projection as JSON has it: an object by field, an enum by name (null: none)."""
    if isinstance(value, IntEnum):
        return value.name.lower() if value else None
    if is_dataclass(value) and not isinstance(value, type):
        return {part.name: plain(getattr(value, part.name)) for part in fields(value)}
    return value


def _digest(text: str) -> Digest:
    try:
        return digest_named(text)
    except InvalidDigest as error:
        remedy = "Give the whole digest, as `headway operation show` lists inputs"
        raise Refused(400, "bad-request", str(error), remedy) from error
