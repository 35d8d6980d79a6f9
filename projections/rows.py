"""The seam to where rows are kept, and its plain implementation: a dictionary."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Protocol


class Rows(Protocol):
    """Rows as bytes by key. RocksDB and a dictionary both serve."""

    def get(self, key: bytes) -> bytes | None:
        """The row at `key`; None when there is none."""
        ...

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Rows with start <= key < end in key order; an empty `end` means up to the last. No row may change meanwhile."""
        ...

    def write(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Put (or, where None, delete) rows: all of them or none, whatever happens to the process."""
        ...


class MemoryRows:
    """`Rows` in a dictionary: for a replay, for tests, and for a log that is itself in memory."""

    def __init__(self) -> None:
        self.by_key: dict[bytes, bytes] = {}
        self._ordered: list[bytes] | None = None

    def get(self, key: bytes) -> bytes | None:
        """See `Rows.get`."""
        return self.by_key.get(key)

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """See `Rows.scan`. The order is made at the first scan after a key has come or gone."""
        if self._ordered is None:
            self._ordered = sorted(self.by_key)
        ordered = self._ordered
        for index in range(bisect_left(ordered, start), len(ordered)):
            key = ordered[index]
            if end and key >= end:
                return
            yield key, self.by_key[key]

    def write(self, changes: Mapping[bytes, bytes | None]) -> None:
        """See `Rows.write`."""
        by_key, before = self.by_key, len(self.by_key)
        removed = 0
        for key, value in changes.items():
            if value is None:
                removed += by_key.pop(key, None) is not None
            else:
                by_key[key] = value
        if removed or len(by_key) != before:
            self._ordered = None
