"""Rows that are changed but not written: what a transaction would make of them, until it is known to have happened."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from projections.rows import Rows


class UncommittedRows:
    """`Rows` over other rows: changes stay here, seen by whoever reads through this, until `commit` writes all of them in one step.

    Scans go through both in order; the keys that changed are kept sorted by merging what came since into what was sorted before.
    """

    def __init__(self, base: Rows) -> None:
        self._base = base
        self._changes: dict[bytes, bytes | None] = {}
        self._ordered: list[bytes] = []  # the keys of _changes; sorted when a scan asks
        self._sorted = True

    def __len__(self) -> int:
        """Rows that are changed and not written."""
        return len(self._changes)

    def get(self, key: bytes) -> bytes | None:
        """See `Rows.get`."""
        changes = self._changes
        return changes[key] if key in changes else self._base.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """See `Rows.get_many`."""
        changes = self._changes
        if changes.keys().isdisjoint(keys):
            return self._base.get_many(keys)
        unseen = [key for key in keys if key not in changes]
        stored = dict(zip(unseen, self._base.get_many(unseen), strict=True))
        return [changes[key] if key in changes else stored[key] for key in keys]

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """See `Rows.scan`."""
        own = self._changed_between(start, end)
        if not own:
            yield from self._base.scan(start, end)
            return
        changes, at = self._changes, 0
        for key, value in self._base.scan(start, end):
            while at < len(own) and own[at] < key:
                changed = changes[own[at]]
                if changed is not None:
                    yield own[at], changed
                at += 1
            if at < len(own) and own[at] == key:
                continue  # its change comes with the next key, or behind the last
            yield key, value
        for key in own[at:]:
            changed = changes[key]
            if changed is not None:
                yield key, changed

    def write(self, changes: Mapping[bytes, bytes | None]) -> None:
        """See `Rows.write`: kept here."""
        before = len(self._changes)
        new = [key for key in changes if key not in self._changes]
        self._changes.update(changes)
        if len(self._changes) != before:
            self._ordered += new
            self._sorted = False

    def commit(self) -> None:
        """Write every change to the rows below, in one step."""
        if self._changes:
            # In their order: a store takes keys faster that stand beside each other.
            self._base.write({key: self._changes[key] for key in self._changed_between(b"", b"")})
        self.discard()

    def discard(self) -> None:
        """Forget every change."""
        self._changes = {}
        self._ordered = []
        self._sorted = True

    def _changed_between(self, start: bytes, end: bytes) -> list[bytes]:
        if not self._sorted:
            self._ordered.sort()
            self._sorted = True
        first = bisect_left(self._ordered, start)
        return self._ordered[first : bisect_left(self._ordered, end) if end else len(self._ordered)]
