"""`Store`: the scheduler state table on a disk. RocksDB through rocksdict; rows and position in one write batch.

The event log is its changelog: a store that cannot be read, or that was folded from another log, is dropped and made again. So
nothing here is precious, but nothing in it may ever be half an event either: `write` is one RocksDB batch, which a SIGKILL
leaves out or in as a whole. It is not synced to the platter; after a power loss RocksDB opens at an earlier batch and the
reader goes on from the position that stands in it.

    data directory/
      lock      held while a process has the store open, with its pid
      damaged   why the store is to be dropped at the next opening (a read failed)
      rows/     RocksDB
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, ClassVar, Final

import rocksdict
from google.protobuf.message import DecodeError

from projections.table import Table
from streams.errors import StreamError

FORMAT: Final = 5
"""Raised whenever rows.proto, the keys or the fold change: rows of another format are dropped and folded again."""

FILTER_BITS: Final = 10
"""Of each key's bloom filter: one lookup in a hundred of what is not there reads a block in vain. 12 MiB with 10 million pairs."""

BLOCK_CACHE_BYTES: Final = 64 << 20

_META: Final = b"\xff\xff\xff\xffmeta"
"""Behind every shard's rows, so that no scan of a shard meets it."""


class StoreLocked(StreamError):
    """Another process has this data directory open."""

    code: ClassVar[str] = "store-locked"
    runbook: ClassVar[str] = "Two processes on one data directory would take from each other what they fold into it."

    def __init__(self, path: Path, owner: str) -> None:
        self.path, self.owner = path, owner
        super().__init__(
            f"the store in {path} is open in another process (pid {owner or 'unknown'})",
            remedy="Stop that process, or give this one its own directory (`--data-dir`)",
        )


class NoStore(StreamError):
    """There is no state table at this place."""

    code: ClassVar[str] = "no-store"
    runbook: ClassVar[str] = "The read side never ran here: check HEADWAY_HOME and `--data-dir`."

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"no state table can be read in {path}: {why}",
            remedy="Start the read side with `headway state-table run`, which makes it from the log",
        )


class StoreDamaged(StreamError):
    """RocksDB could not read or write. The store is dropped at the next start and made again from the log."""

    code: ClassVar[str] = "store-damaged"
    runbook: ClassVar[str] = "Restart the read side; if it comes again, look at the disk."

    def __init__(self, path: Path, what: str, because: str) -> None:
        super().__init__(
            f"the store in {path} failed to {what}: {because}",
            remedy="Restart: the damaged store is dropped and made again from the log. If it comes again, check the disk",
        )


class RowSnapshot:
    """All rows as they were at one moment; implements the reading half of `Rows`. One scan at a time.

    It is a RocksDB iterator, which sees the rows of the moment it was made. rocksdict has snapshots by name, but in 0.3.29
    their iterators show later writes (a test watches).
    """

    def __init__(self, iterator: rocksdict.RdictIter, damage: Callable[[str, Exception], StoreDamaged]) -> None:
        self._iterator = iterator
        self._damage = damage

    def get(self, key: bytes) -> bytes | None:
        """See `Rows.get`. Raises StoreDamaged."""
        try:
            self._iterator.seek(key)
            if not self._iterator.valid():
                self._iterator.status()  # an iterator ends where it cannot read on, and only this says so
                return None
        except Exception as error:
            raise self._damage("read a row", error) from error
        value: bytes | None = self._iterator.value() if self._iterator.key() == key else None
        return value

    def first_from(self, key: bytes) -> tuple[bytes, bytes] | None:
        """The first row at or behind `key`; None when there is none. Ends a scan that goes on. Raises StoreDamaged."""
        try:
            self._iterator.seek(key)
        except Exception as error:
            raise self._damage("read a row", error) from error
        return self._here()

    def following(self) -> tuple[bytes, bytes] | None:
        """The row behind the one that was found last; None when there is none. Raises StoreDamaged."""
        try:
            self._iterator.next()
        except Exception as error:
            raise self._damage("read a row", error) from error
        return self._here()

    def _here(self) -> tuple[bytes, bytes] | None:
        iterator = self._iterator
        try:
            if iterator.valid():
                return iterator.key(), iterator.value()
            iterator.status()
        except Exception as error:
            raise self._damage("read a row", error) from error
        return None

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """See `Rows.scan`. Raises StoreDamaged."""
        try:
            self._iterator.seek(start)
            yield from _until(self._rest(), end)
        except Exception as error:
            raise self._damage("scan rows", error) from error

    def _rest(self) -> Iterator[tuple[bytes, bytes]]:
        while self._iterator.valid():
            yield self._iterator.key(), self._iterator.value()
            self._iterator.next()
        self._iterator.status()


class Store:
    """The rows of every shard this process holds. Use `Store.open`; one process at a time per directory.

    `dropped` counts why a store was thrown away since this process started.
    """

    def __init__(self, path: Path, lock: IO[str] | None, db: rocksdict.Rdict, dropped: Counter[str]) -> None:
        self.path = path
        self.dropped = dropped
        self._lock = lock
        self._db = db
        self._tables: dict[int, Table] = {}

    @classmethod
    def open(
        cls, path: Path, *, cluster_id: str, topic_id: str, row_format: int | None = None, compressed: bool = False
    ) -> Store:
        """Open or make the store at `path` for the event log with this identity.

        A store that is unreadable, of another format or of another log is dropped first; `dropped` says why.

        Args:
            row_format: of what is kept, where that is not the state table.
            compressed: whether blocks are; for rows that repeat each other, and are read seldom.
        Raises:
            StoreLocked: another process has it open.
        """
        path.mkdir(parents=True, exist_ok=True)
        lock = _locked(path)
        dropped: Counter[str] = Counter()
        wanted = {
            "format": FORMAT if row_format is None else row_format,
            "cluster_id": cluster_id,
            "topic_id": topic_id,
        }
        db, reason = _usable(path, wanted, compressed)
        if reason:
            dropped[reason] += 1
            shutil.rmtree(path / "rows", ignore_errors=True)
            (path / "damaged").unlink(missing_ok=True)
        if db is None:
            db = rocksdict.Rdict(str(path / "rows"), options=_options(compressed))
            db.put(_META, json.dumps(wanted, sort_keys=True).encode())
        return cls(path, lock, db, dropped)

    @classmethod
    def read_only(cls, path: Path) -> Store:
        """Open an existing store for reading, as it was when its process ended.

        Raises:
            NoStore: there is none, or it is of another format.
            StoreLocked: a process has it open; ask its views instead.
        """
        if not (path / "rows").is_dir():
            raise NoStore(path, "the directory does not exist")
        lock = _locked(path)
        try:
            db = rocksdict.Rdict(str(path / "rows"), options=_options(), access_type=rocksdict.AccessType.read_only())
            meta = db.get(_META)
        except Exception as error:
            lock.close()
            raise NoStore(path, f"it is damaged: {error}") from error
        if meta is None or json.loads(meta)["format"] != FORMAT:
            db.close()
            lock.close()
            raise NoStore(path, "it was written by another release")
        return cls(path, lock, db, Counter())

    def table(self, shard: int) -> Table:
        """The rows of a shard as objects; the same one every time, since it caches what it has read.

        Raises StoreDamaged when its position cannot be read.
        """
        table = self._tables.get(shard)
        if table is None:
            try:
                table = self._tables[shard] = Table(self, shard)
            except DecodeError as error:
                raise self.damage("read the position", error) from error
        return table

    def get(self, key: bytes) -> bytes | None:
        """See `Rows.get`. Raises StoreDamaged."""
        try:
            found: bytes | None = self._db.get(key)
        except Exception as error:
            raise self.damage("read a row", error) from error
        return found

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """See `Rows.get_many`. Raises StoreDamaged."""
        try:
            found: list[bytes | None] = self._db.get(list(keys))
        except Exception as error:
            raise self.damage("read rows", error) from error
        return found

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """See `Rows.scan`. Raises StoreDamaged."""
        try:
            yield from _until(self._db.items(from_key=start), end)
        except Exception as error:
            raise self.damage("scan rows", error) from error

    def write(self, changes: Mapping[bytes, bytes | None]) -> None:
        """See `Rows.write`: one RocksDB write batch. Raises StoreDamaged."""
        batch = rocksdict.WriteBatch(raw_mode=True)
        for key, value in changes.items():
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        try:
            self._db.write(batch)
        except Exception as error:
            raise self.damage("write a batch", error) from error

    def snapshot(self) -> RowSnapshot:
        """All rows as they are now; reading it is not disturbed by what is folded meanwhile. Let it go when done."""
        return RowSnapshot(self._db.iter(), self.damage)

    def close(self) -> None:
        """Write nothing more; free the directory. May be called twice."""
        if self._lock is not None:
            self._db.close()
            self._lock.close()
            self._lock = None

    def damage(self, what: str, error: Exception) -> StoreDamaged:
        """Mark the store, so that the next start drops it, and give the error to raise."""
        (self.path / "damaged").write_text(f"{what}: {error}\n")
        return StoreDamaged(self.path, what, str(error))


def _locked(path: Path) -> IO[str]:
    lock = open(path / "lock", "a+")  # noqa: SIM115 (it is held as long as the store is)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.seek(0)
        owner = lock.read().strip()
        lock.close()
        raise StoreLocked(path, owner) from error
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock


def _usable(path: Path, wanted: dict[str, Any], compressed: bool) -> tuple[rocksdict.Rdict | None, str]:
    """The open rows at `path`, or why they cannot be used: damaged, unreadable, other_format, other_log; neither where there are none.

    Opened once: after a SIGKILL that replays what was not written to tables yet, which takes tenths of a second of a start.
    """
    if not (path / "rows").exists():
        return None, ""
    if (path / "damaged").exists():
        return None, "damaged"
    db: rocksdict.Rdict | None = None
    try:
        db = rocksdict.Rdict(str(path / "rows"), options=_options(compressed))
        stored = db.get(_META)
        found = None if stored is None else json.loads(stored)
        reason = _unlike(found, wanted)
    except Exception:  # whatever RocksDB or the bytes say: they are made again from the log
        reason = "unreadable"
    if reason and db is not None:
        db.close()
    return (None, reason) if reason else (db, "")


def _unlike(found: dict[str, Any] | None, wanted: dict[str, Any]) -> str:
    if found is None:
        return "unreadable"
    if found.get("format") != wanted["format"]:
        return "other_format"
    return "" if found == wanted else "other_log"


class _RowsCut(Exception):
    """Rows that end before the last one, at which every scan without an end ends."""


def _until(items: Iterable[tuple[bytes, bytes]], end: bytes) -> Iterator[tuple[bytes, bytes]]:
    for key, value in items:
        if (end and key >= end) or key == _META:
            return
        yield key, value
    # An iterator of RocksDB stops at a block it cannot read as if there were no more: fewer holders would be answered than there are.
    raise _RowsCut("the rows end before their end; a part of them cannot be read")


def _options(compressed: bool = False) -> rocksdict.Options:
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    # Small enough for a laptop's memory, large enough that a catch-up does not write level 0 files all the time.
    options.set_write_buffer_size(32 << 20)
    options.set_max_total_wal_size(128 << 20)
    options.set_max_background_jobs(2)
    options.set_keep_log_file_num(2)
    # Most rows are of digests, which do not compress; unpacking a block is a fifth of what reading a pair costs (measured).
    options.set_compression_type(
        rocksdict.DBCompressionType.zstd() if compressed else rocksdict.DBCompressionType.none()
    )
    # Each blob that is named is looked up first, and most are new: the filters answer that without looking for it (measured: a third).
    options.set_memtable_whole_key_filtering(True)
    options.set_memtable_prefix_bloom_ratio(0.1)
    blocks = rocksdict.BlockBasedOptions()
    blocks.set_bloom_filter(FILTER_BITS, False)
    blocks.set_block_cache(rocksdict.Cache(BLOCK_CACHE_BYTES))
    options.set_block_based_table_factory(blocks)
    return options
