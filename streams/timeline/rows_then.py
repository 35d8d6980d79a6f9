"""The rows of a shard as they were at a boundary: the newest version of each that is not younger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from streams.store import RowSnapshot, Store
from streams.timeline import layout


class RowsThen:
    """The reading half of `Rows`, as of event `seq`, a boundary of `epoch`. Nothing in it changes: versions are never written again."""

    def __init__(self, store: Store, epoch: int, seq: int) -> None:
        self._store = store
        self._prefix = layout.of_epoch(epoch)
        self._then = layout.inverted(seq)
        self._cursor: RowSnapshot | None = store.snapshot()

    def close(self) -> None:
        """Let go of the store, which stays open as long as anything reads it."""
        self._cursor = None

    def get(self, key: bytes) -> bytes | None:
        """See `Rows.get`. Raises StoreDamaged."""
        if self._cursor is None:
            raise ValueError("these rows are closed")
        sought = self._prefix + layout.escaped(key) + layout.END
        found = self._cursor.first_from(sought + self._then)
        if found is None or not found[0].startswith(sought) or found[1] == layout.NO_ROW:
            return None
        return found[1][1:]

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """See `Rows.get_many`. Raises StoreDamaged."""
        return list(map(self.get, keys))

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """See `Rows.scan`. Raises StoreDamaged."""
        prefix, then = self._prefix, self._then
        cursor = self._store.snapshot()  # of its own: rows may be got while a scan goes on
        found = cursor.first_from(prefix + layout.escaped(start))
        while found is not None and found[0].startswith(prefix):
            version, value = found
            key = layout.row_key_in(version)
            if end and key >= end:
                return
            versions = version[:-8]
            if version[-8:] < then:  # younger: the one wanted stands behind it, or none does
                found = cursor.first_from(versions + then)
                if found is None or not found[0].startswith(versions):
                    continue
                value = found[1]
            if value != layout.NO_ROW:
                yield key, value[1:]
            found = cursor.following()
            if found is not None and found[0].startswith(versions):  # older ones, as many as there may be
                found = cursor.first_from(versions + layout.BEHIND_VERSIONS)

    def write(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Never: what was is not changed."""
        raise TypeError("rows of the past cannot be written")
