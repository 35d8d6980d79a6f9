"""Makes a timeline from a shard's event log, a boundary after every so many events, each in one write batch with the position.

Between two boundaries the fold changes rows in memory; at a boundary those that changed are written as versions of that `seq`, beside the
records since the last one and the index entries of their events. So a process may die at any moment: what is there ends at a boundary.

Versions are of an *epoch*. Once as much has been written in one as it began with, all rows there are then are copied into the next one:
a scan of the queue would otherwise walk over whatever stood in it since the first event. The copies cost as much again as the versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from google.protobuf.message import DecodeError

from events.errors import SequenceBroken
from events.events import Event
from projections import keys
from projections.keys import number
from projections.position import Taken, take
from projections.table import Table
from streams.log import Partition, Record
from streams.recovery import DamagedLog
from streams.store import Store, StoreDamaged
from streams.timeline import layout
from streams.timeline.layout import Position
from streams.timeline.rows_then import RowsThen
from streams.timeline.subjects import Entries, subjects_of
from streams.topics import EVENTS
from streams.uncommitted import UncommittedRows

BOUNDARY_EVENTS: Final = 1_000
"""Events from one boundary to the next: a moment in between is reached by folding half as many in the mean, some 10 ms."""

EPOCH_BYTES: Final = 16 << 20
"""An epoch writes at least so much before the next one begins, however little it began with."""

KEPT_ROWS: Final = 100_000
COPIED_AT_ONCE: Final = 10_000


class Builder:
    """Takes a shard's records in order and writes them into the timeline's store.

    Belongs to who has the store open. `position` is what is written; `table` is ahead of it by what was taken since.
    """

    def __init__(
        self, store: Store, shard: int, *, boundary_events: int = BOUNDARY_EVENTS, epoch_bytes: int = EPOCH_BYTES
    ) -> None:
        self._store = store
        self._shard = shard
        self._partition: Partition = (EVENTS, shard)
        self._boundary_events = boundary_events
        self._epoch_bytes = epoch_bytes
        self.position = Position.of_bytes(store.get(layout.POSITION))
        self._then = RowsThen(store, self.position.epoch, self.position.seq)
        self._changed = UncommittedRows(self)
        self._since: list[Record] = []  # taken and not written
        self._last_offset = self.position.last_offset
        self._entries: dict[bytes, bytes] = {}  # of those
        self._staged: Entries = []
        try:
            self.table = Table(self._changed, shard, kept_rows=KEPT_ROWS)
        except DecodeError as error:
            raise store.damage("read the position", error) from error
        self._facts_position = self.table.shard.facts_position  # at the last boundary

    def take(self, records: Sequence[Record]) -> int:
        """Fold `records`, in order, and write at each boundary; returns how many were folded. `finish` writes the rest.

        Raises:
            DamagedLog: one does not follow from those before it, or cannot be read. Everything before it is written.
            StoreDamaged: a row cannot be read or written.
        """
        begun_seq = self.table.shard.seq
        for record in records:
            self._keep(record, self._folded(record))
        return self.table.shard.seq - begun_seq

    @property
    def chain(self) -> bytes:
        """The chain digest of the last event that is written, where nothing was taken since."""
        return self.table.shard.chain

    def finish(self) -> None:
        """Write what was taken since the last boundary. Raises StoreDamaged."""
        if self._since:
            self.table.flush()
            self._changed.commit()

    def close(self) -> None:
        """Let go of the store. What was taken since the last boundary is forgotten."""
        self._then.close()

    def _folded(self, record: Record) -> Taken:
        """Fold a record. Raises as `take`."""
        table = self.table
        try:
            taken = take(table, record.offset, record.value, self._stage)
            if taken is Taken.GAP:
                raise SequenceBroken(
                    f"event {table.shard.seq + 1} is missing from the log; nothing is folded past a gap"
                )
        except StoreDamaged:
            raise
        except DecodeError as error:
            raise self._store.damage("decode a row", error) from error
        except Exception as error:
            self._back()
            raise DamagedLog(self._partition, record.offset, self.position.seq, error) from error
        return taken

    def _keep(self, record: Record, taken: Taken) -> None:
        """Keep what is to be written of a record; write where that is enough."""
        if taken is Taken.FOLDED:
            self._since.append(record)
            self._last_offset = record.offset
            self._entries[layout.RECORD + number(self.table.shard.seq)] = number(record.offset) + record.value
            self._entries.update(self._staged)
            if len(self._since) >= self._boundary_events or self.table.full:
                self.finish()
        elif taken is Taken.STALE:
            self._since.append(record)
            self._entries[layout.LEFT_OUT + number(record.offset)] = b""

    def _stage(self, table: Table, event: Event) -> None:
        self._staged = subjects_of(table, event)

    def _back(self) -> None:
        """Write what stood right before an event that could not be folded: half of it may be in the rows."""
        before = self._since
        self._changed.discard()
        self.table.discard()
        self._since, self._entries = [], {}
        for record in before:
            self._keep(record, take(self.table, record.offset, record.value, self._stage))
        self.finish()

    # -- the rows at the last boundary, for the fold ----------------------------------------------------------------------------

    def get(self, key: bytes) -> bytes | None:
        """See `Rows.get`."""
        return self._then.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """See `Rows.get_many`."""
        return self._then.get_many(keys)

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """See `Rows.scan`."""
        return self._then.scan(start, end)

    def write(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Write a boundary: these rows have changed since the last one."""
        shard, position = self.table.shard, self.position
        then = layout.inverted(shard.seq)
        prefix = layout.of_epoch(position.epoch)
        batch: dict[bytes, bytes | None] = dict(self._entries)
        written = 0
        for key, row in changes.items():
            if row is None and key[4:5] == keys.QUEUED and not self._waited(key):
                continue  # came and went since the last boundary, as most do that wait
            value = layout.NO_ROW if row is None else layout.ROW + row
            version = prefix + layout.escaped(key) + layout.END + then
            batch[version] = value
            written += len(version) + len(value)
        batch[layout.BOUNDARY + number(shard.seq)] = layout.BOUNDARY_VALUE.pack(shard.now_us, position.epoch)
        self.position = replace(
            position, seq=shard.seq, last_offset=self._last_offset, written=position.written + written
        )
        batch[layout.POSITION] = self.position.to_bytes()
        self._store.write(batch)
        self._facts_position = shard.facts_position
        self._since, self._entries = [], {}
        self._then.close()
        self._then = RowsThen(self._store, self.position.epoch, shard.seq)
        if self.position.written >= max(self._epoch_bytes, self.position.kept):
            self._begin_epoch()

    def _waited(self, key: bytes) -> bool:
        """Whether a place in the queue was taken at the last boundary. Most are of operations that came since, and need no look-up."""
        return keys.operation_in(key) <= self._facts_position and self._then.get(key) is not None

    def _begin_epoch(self) -> None:
        """Copy every row into the next epoch. It begins with the position that says so; a copy that was cut off is made again."""
        seq, epoch = self.position.seq, self.position.epoch + 1
        prefix, then = layout.of_epoch(epoch), layout.inverted(seq)
        self._write_in_parts((key, None) for key, _ in self._store.scan(prefix, layout.of_epoch(epoch + 1)))
        kept = 0

        def copies() -> Iterator[tuple[bytes, bytes]]:
            nonlocal kept
            for key, row in self._then.scan(b"", b""):
                version = prefix + layout.escaped(key) + layout.END + then
                kept += len(version) + 1 + len(row)
                yield version, layout.ROW + row

        self._write_in_parts(copies())
        self.position = replace(self.position, epoch=epoch, written=0, kept=kept)
        self._store.write({layout.POSITION: self.position.to_bytes()})
        self._then.close()
        self._then = RowsThen(self._store, epoch, seq)

    def _write_in_parts(self, changes: Iterator[tuple[bytes, bytes | None]]) -> None:
        part: dict[bytes, bytes | None] = {}
        for key, value in changes:
            part[key] = value
            if len(part) >= COPIED_AT_ONCE:
                self._store.write(part)
                part = {}
        self._store.write(part)
