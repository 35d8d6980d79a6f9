"""What the views are views of: the seam between HTTP and whoever keeps the rows, and what is said of it in every answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from projections.rows import Rows
from projections.table import Table
from streams.answering import Answer, Refused
from streams.readiness import Gate, Progress


class Reading(Protocol):
    """The reading half of `Rows`."""

    def get(self, key: bytes) -> bytes | None:
        """See `Rows.get`."""
        ...

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """See `Rows.scan`."""
        ...


class ReadSide(Protocol):
    """What the views are views of: a running state table."""

    @property
    def rows(self) -> Rows:
        """All rows of this process."""
        ...

    def shards(self) -> Sequence[int]:
        """The shards this process answers for: read up to the end that their log had when the reading began."""
        ...

    def snapshot(self) -> Reading:
        """The rows as they are now."""
        ...

    def describe(self) -> Answer:
        """The process: for `/v1/status`."""
        ...

    def describe_shards(self) -> dict[int, Answer]:
        """How each shard of this process is read: for `/v1/status`."""
        ...

    @property
    def gate(self) -> Gate:
        """Whether it may be answered yet."""
        ...

    def not_ready(self) -> str:
        """Why the gate is not open yet, with how far each shard is; empty when it is."""
        ...

    def progress(self) -> Sequence[Progress]:
        """How far the shards are that are not complete yet."""
        ...

    def began_us(self) -> int:
        """When the process started, microseconds since 1970."""
        ...


def not_ready(read_side: ReadSide) -> Refused:
    """The answer of a view that may not answer yet: 503 with how far the table is."""
    return Refused(
        503,
        "not-ready",
        read_side.not_ready() or "; ".join(map(str, read_side.progress())) or "no shard is assigned to this process",
        "Wait: `headway status --wait` returns when the table is complete; its log lines say how far it is",
        since_us=read_side.began_us(),
        progress=[progress.as_dict() for progress in read_side.progress()],
        locality_in_ms=round(read_side.gate.locality_in_s * 1000),
    )


def stamp_of(tables: Sequence[Table], now_us: int) -> Answer:
    """From which position, and how old at `now_us`, an answer from these tables is."""
    stamps = [{"shard": table.number, "seq": table.shard.seq, "age_ms": age_ms(table, now_us)} for table in tables]
    return {
        "seq": max((stamp["seq"] for stamp in stamps), default=0),
        "age_ms": max((stamp["age_ms"] for stamp in stamps), default=0),
        "shards": stamps,
    }


def age_ms(table: Table, now_us: int) -> int:
    """The wall clock less the scheduler's now, in milliseconds; 0 before the first event."""
    return max(0, now_us - table.shard.now_us) // 1000 if table.shard.seq else 0
