"""The blobs of an endpoint, page by page, so that nothing is missed though it moves between two pages.

A blob stands in the chunk that named it last, and moves only to one behind all there are: when a report names it again, and when its
chunk is cleaned away. A page is therefore continued at a place in the row of chunks, not behind a blob: what is not listed yet stands
at that place or behind it, whatever happens meanwhile. A blob that moves may come twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from events.payloads import digests_of
from events.values import Digest
from projections import keys
from projections.inventory import listed_in
from projections.rows import RowReader
from projections.shard_state import ShardState
from proto.gen.headway.v1.rows_pb2 import EndpointRow, InventoryRow

MARK_FORM: Final = "four whole numbers with '-' between them, as `next` of the page before had it"

_MARK = re.compile(r"(\d{1,10})-(\d{1,19})-(\d{1,6})-(\d{1,19})", re.ASCII)


class InvalidMark(ValueError):
    """A text that is not the mark of a page; says why."""


class MarkRefused(LookupError):
    """A mark that says nothing about this endpoint in this table; says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Where the next page begins. As text: `INVENTORY-CHUNK-POSITION-SEQ`."""

    inventory: int
    """Of which life of the endpoint."""
    chunk: int
    position: int
    """Among the different digests that the chunk lists."""
    seq: int
    """The event that the page before was as of: a table that has not come to it yet has blobs where they stood before."""

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Read one. Raises InvalidMark."""
        found = _MARK.fullmatch(text)
        if found is None:
            raise InvalidMark(f"{text[:160]!r} is not where a page ended: that is {MARK_FORM}")
        return cls(*map(int, found.groups()))

    def __str__(self) -> str:
        return f"{self.inventory}-{self.chunk}-{self.position}-{self.seq}"


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the blobs of an endpoint; within a page each once."""

    blobs: tuple[Digest, ...] = ()
    next: Mark | None = None
    """Where the rest begins; None: there is no more."""


def blobs_of(
    rows: RowReader, shard: int, instance: str, endpoint: str, limit: int = 1000, after: Mark | None = None
) -> Page:
    """What an endpoint holds: at most `limit` blobs, in the order of their naming, from `after` on (`next` of the page before).

    Following `next` to its end lists every blob that is held all the while at least once, whatever is evicted, reported and cleaned
    between the pages. Of an endpoint that was forgotten and is known again since, the list begins anew.

    Raises:
        MarkRefused: `after` is of another endpoint, or of a table that is ahead of this one.
    """
    prefix = keys.shard_prefix(shard)
    stored = rows.get(prefix + keys.of_endpoint(instance, endpoint))
    if stored is None:
        return Page()
    name = EndpointRow.FromString(stored).number
    inventory = _inventory(rows, shard, name)
    seq = ShardState.of_bytes(rows.get(prefix + keys.SHARD)).seq
    if after is not None:
        _check(rows, shard, after, seq, instance, endpoint, name, inventory)
        if after.inventory != name:
            after = None
    number = name.to_bytes(4, "big")
    first = max(inventory.floor, inventory.first_chunk, after.chunk if after else 0)
    chunks = prefix + keys.CHUNK + number
    found: dict[Digest, None] = {}
    for key, value in rows.scan(chunks + keys.number(first), keys.after_prefix(chunks)):
        named = key[-8:]
        chunk = int.from_bytes(named, "big")
        skipped = after.position if after and chunk == after.chunk else 0
        # A blob counts in the chunk that named it last only.
        for position, digest in enumerate(dict.fromkeys(digests_of(listed_in(value)[1]))):
            if position >= skipped and rows.get(prefix + keys.of_digest(digest) + number) == named:
                if len(found) >= limit:
                    return Page(tuple(found), Mark(name, chunk, position, seq))
                found[digest] = None
    return Page(tuple(found))


def _check(
    rows: RowReader, shard: int, mark: Mark, seq: int, instance: str, endpoint: str, name: int, inventory: InventoryRow
) -> None:
    whose = f"{mark} is not where a page of endpoint {endpoint} of instance {instance} ended"
    if mark.seq > seq:
        raise MarkRefused(
            f"{whose} that this table knows: it is as of event {mark.seq}, and the table stands at event {seq}; "
            "ask again when it has come that far, or begin again"
        )
    if mark.inventory > name or (mark.inventory == name and mark.chunk > inventory.next_chunk):
        raise MarkRefused(f"{whose}: there has been no such place; begin again")
    if mark.inventory < name:
        other = _inventory(rows, shard, mark.inventory)
        if other.instance and (other.instance, other.endpoint) != (instance, endpoint):
            raise MarkRefused(f"{whose}, but one of {other.endpoint} of instance {other.instance}; begin again")


def _inventory(rows: RowReader, shard: int, number: int) -> InventoryRow:
    """Empty where there is none; a number that cannot be one has none."""
    if number >= 1 << 32:
        return InventoryRow()
    stored = rows.get(keys.shard_prefix(shard) + keys.INVENTORY + number.to_bytes(4, "big"))
    return InventoryRow() if stored is None else InventoryRow.FromString(stored)
