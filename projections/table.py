"""One shard's rows as objects: read once, changed in place, written back together.

The fold works on messages and this class turns them into bytes only when a batch of events is done, so that an operation that
is queued, dispatched, accepted and finished within a batch is encoded once.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, cast

from projections import keys
from projections.rows import Rows
from projections.shard_state import ShardState
from proto.gen.headway.v1 import rows_pb2

Row: TypeAlias = (
    rows_pb2.OperationRow
    | rows_pb2.WorkerRow
    | rows_pb2.InstanceRow
    | rows_pb2.CounterRow
    | rows_pb2.ShareRow
    | rows_pb2.EndpointRow
    | rows_pb2.InventoryRow
    | rows_pb2.LocalityRow
    | rows_pb2.StableRow
    | bytes
)
MessageRow = TypeVar(
    "MessageRow",
    rows_pb2.OperationRow,
    rows_pb2.WorkerRow,
    rows_pb2.InstanceRow,
    rows_pb2.CounterRow,
    rows_pb2.ShareRow,
    rows_pb2.EndpointRow,
    rows_pb2.InventoryRow,
    rows_pb2.LocalityRow,
    rows_pb2.StableRow,
)

KEPT_ROWS = 50_000
"""How many rows stay decoded between batches. Above it all are let go and read again when they are needed."""

RENEWED_AFTER = 4
"""They are let go as well after so many times as many were written: a message keeps the memory of all that was ever added to it."""

FULL_ROWS = 32_768
"""So many rows that only pass through are worth a write batch: whoever folds many events at once writes when `full`."""


class MissingRow(LookupError):
    """An event speaks of something the table does not hold: the rows are not those of the log before it."""


class Table:
    """The rows of one shard.

    Changes are visible to `find` at once, and to the underlying `Rows` (so to every scan) after `flush`. After an exception
    in a fold call `discard`: half an event must never be written.

    For the hot folds, which do by hand what `put` does, also these are open: `cached`, the rows that are decoded, None where there is none;
    `dirty`, those to be written, and whether they are let go then; `beside`, what a hot fold keeps of a row, until somebody else
    puts or deletes it.
    """

    def __init__(self, rows: Rows, shard: int, *, kept_rows: int = KEPT_ROWS) -> None:
        self.rows, self.number = rows, shard
        self.prefix = keys.shard_prefix(shard)
        self._kept_rows = kept_rows
        self.cached: dict[bytes, Row | None] = {}
        self.dirty: dict[bytes, bool] = {}
        self.beside: dict[bytes, Any] = {}
        self._written = 0
        self._passing: dict[bytes, bytes | None] = {}
        self._shard_key = self.key(keys.SHARD)
        self.shard = self._read_shard()

    def key(self, letter: bytes, rest: bytes = b"") -> bytes:
        """The full key of a row of this shard."""
        return self.prefix + letter + rest

    def find(self, key: bytes, kind: type[MessageRow]) -> MessageRow | None:
        """The row at `key`, or None. Change it in place, then say so with `put`."""
        cached: Any = self.cached
        if key in cached:
            row: MessageRow | None = cached[key]
            return row
        stored = self.rows.get(key)
        row = cached[key] = None if stored is None else kind.FromString(stored)
        return row

    def row(self, key: bytes, kind: type[MessageRow]) -> MessageRow:
        """The row at `key`. Raises MissingRow when there is none."""
        cached: Any = self.cached
        found: MessageRow | None = cached.get(key)
        if found is not None:
            return found
        found = self.find(key, kind)
        if found is None:
            raise MissingRow(f"the state table has no row {keys.readable(key)}")
        return found

    def find_bytes(self, key: bytes) -> bytes | None:
        """The row at `key` where it is plain bytes (index rows and requirements), or None."""
        if key in self.cached:
            return cast("bytes | None", self.cached[key])
        if key in self._passing:
            return self._passing[key]
        return self.rows.get(key)

    def find_passing(self, sought: Sequence[bytes]) -> list[bytes | None]:
        """The rows of `pass_on` at these keys, in their order. Fastest where the keys are sorted."""
        passing = self._passing
        if passing.keys().isdisjoint(sought):
            return self.rows.get_many(sought)
        unseen = [key for key in sought if key not in passing]
        stored = dict(zip(unseen, self.rows.get_many(unseen), strict=True))
        return [passing[key] if key in passing else stored[key] for key in sought]

    def put(self, key: bytes, row: Row) -> None:
        """This is the row at `key` from now on."""
        self.cached[key] = row
        self.dirty[key] = isinstance(row, bytes)
        if key in self.beside:
            del self.beside[key]

    def put_last(self, key: bytes, row: Row) -> None:
        """As `put`, of a row that will hardly be asked for again: it is let go once it is written."""
        self.put(key, row)
        self.dirty[key] = True

    def delete(self, key: bytes) -> None:
        """There is no row at `key` from now on."""
        self.cached[key] = None
        self.dirty[key] = True
        if key in self.beside:
            del self.beside[key]

    def pass_on(self, changes: Mapping[bytes, bytes | None]) -> None:
        """These are the rows there from now on; None: no row. They go through to the store and are not kept here once written.

        For rows of plain bytes that come by the thousand (what endpoints hold). They never mix with keys of `put` and `delete`.
        """
        self._passing.update(changes)

    @property
    def changed(self) -> bool:
        """Whether rows have changed since the last `flush`; the position alone does not count."""
        return bool(self.dirty or self._passing)

    @property
    def full(self) -> bool:
        """Whether so many rows wait to be passed on that they should be written before the next event is folded."""
        return len(self._passing) >= FULL_ROWS

    def scan(self, prefix: bytes, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Rows whose key begins with `prefix`, those above `after` only, in key order.

        They are as of the last `flush`, so the fold flushes before it scans.
        """
        start = max(prefix, after + b"\x00") if after else prefix
        return self.rows.scan(start, keys.after_prefix(prefix))

    def flush(self) -> None:
        """Write every change since the last time, with the position, in one step."""
        cached = self.cached
        changes: dict[bytes, bytes | None] = {}
        for key, let_go in self.dirty.items():
            row = cached.pop(key) if let_go else cached[key]
            changes[key] = row if row is None or isinstance(row, bytes) else row.SerializeToString()
        passing = self._passing
        if passing:
            for key in sorted(passing):  # a store takes keys much faster that stand in order
                changes[key] = passing[key]
        changes[self._shard_key] = self.shard.to_bytes()
        self.rows.write(changes)
        self._written += len(changes)
        self.dirty.clear()
        self._passing.clear()
        if len(cached) > self._kept_rows or self._written > RENEWED_AFTER * self._kept_rows:
            self._written = 0
            cached.clear()
            self.beside.clear()

    def discard(self) -> None:
        """Forget every change since the last `flush`."""
        self.cached.clear()
        self.dirty.clear()
        self.beside.clear()
        self._passing.clear()
        self.shard = self._read_shard()

    def _read_shard(self) -> ShardState:
        return ShardState.of_bytes(self.rows.get(self._shard_key))
