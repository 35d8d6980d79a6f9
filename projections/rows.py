"""The seam to where rows are kept, and its plain implementation: a dictionary."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol


class RowReader(Protocol):
    """The reading half of `Rows`: what answers need."""

    def get(self, key: bytes) -> bytes | None:
        """The row at `key`; None when there is none."""
        ...

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Rows with start <= key < end in key order; an empty `end` means up to the last. No row may change meanwhile."""
        ...


class Rows(RowReader, Protocol):
    """Rows as bytes by key. RocksDB and a dictionary both serve."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The rows at `keys`, in their order; None where there is none. Fastest where the keys are sorted."""
        ...

    def write(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Put (or, where None, delete) rows: all of them or none, whatever happens to the process."""
        ...


GROUP_BYTES = 5
"""Rows whose keys begin alike are of one shard and kind. Scans stay within a kind, so that each is kept in order by itself."""


class MemoryRows:
    """`Rows` in a dictionary: for a replay, for tests, and for a log that is itself in memory."""

    def __init__(self) -> None:
        self.by_key: dict[bytes, bytes] = {}
        self._groups: dict[bytes, dict[bytes, None]] = {}
        self._ordered: dict[bytes, list[bytes]] = {}

    def get(self, key: bytes) -> bytes | None:
        """See `RowReader.get`."""
        return self.by_key.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """See `Rows.get_many`."""
        return list(map(self.by_key.get, keys))

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """See `RowReader.scan`. The order of a kind is made at the first scan after one of its keys has come or gone."""
        for group in sorted(self._groups):
            if (end and group >= end) or group < start[:GROUP_BYTES]:
                continue
            ordered = self._ordered.get(group)
            if ordered is None:
                ordered = self._ordered[group] = sorted(self._groups[group])
            for index in range(bisect_left(ordered, start), len(ordered)):
                key = ordered[index]
                if end and key >= end:
                    return
                yield key, self.by_key[key]

    def write(self, changes: Mapping[bytes, bytes | None]) -> None:
        """See `Rows.write`."""
        by_key, groups = self.by_key, self._groups
        for key, value in changes.items():
            if value is not None:
                if key not in by_key:
                    group = key[:GROUP_BYTES]
                    groups.setdefault(group, {})[key] = None
                    self._ordered.pop(group, None)
                by_key[key] = value
            elif by_key.pop(key, None) is not None:
                group = key[:GROUP_BYTES]
                del groups[group][key]
                self._ordered.pop(group, None)
