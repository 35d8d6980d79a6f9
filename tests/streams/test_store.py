"""The store: rows and position in one batch, one process per directory, and what cannot be read is dropped with a reason."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from projections import keys, locality
from projections.blob_pages import blobs_of
from projections.position import take
from projections.rows import MemoryRows
from projections.table import Table
from streams.store import NoStore, Store, StoreDamaged, StoreLocked
from tests.projections.histories import History, records
from tests.properties.blob_facts import BLOBS


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "table"


def opened(path: Path, cluster_id: str = "c", topic_id: str = "t") -> Store:
    return Store.open(path, cluster_id=cluster_id, topic_id=topic_id)


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    made = opened(path)
    yield made
    made.close()


def rows_of(store: Store) -> dict[bytes, bytes]:
    return dict(store.scan(b"", b""))


def test_rows_are_those_of_a_dictionary(store: Store) -> None:
    log = records(History(1).run(300))
    plain = Table(MemoryRows(), 0)
    for table in (plain, store.table(0)):
        for number, (offset, value) in enumerate(log):
            take(table, offset, value)
            if number % 17 == 0:
                table.flush()
        table.flush()
    assert isinstance(plain.rows, MemoryRows)
    assert rows_of(store) == plain.rows.by_key


def test_many_rows_are_got_at_once_in_the_order_asked_for(store: Store) -> None:
    plain = MemoryRows()
    for rows in (plain, store):
        rows.write({b"\0\0\0\0ka": b"1", b"\0\0\0\0kb": b"", b"\0\0\0\0D": b"3"})
        rows.write({b"\0\0\0\0D": None})
    for asked in ([], [b"\0\0\0\0kb", b"\0\0\0\0kc", b"\0\0\0\0D", b"\0\0\0\0ka"]):
        assert store.get_many(asked) == plain.get_many(asked) == [plain.get(key) for key in asked]


def test_what_endpoints_hold_is_the_same_in_a_store_and_in_a_dictionary(store: Store) -> None:
    pairs = 0
    for seed in range(3):
        plain = MemoryRows()
        for rows in (plain, store):
            table = Table(rows, seed)
            for number, (offset, value) in enumerate(records(History(seed).run(400))):
                take(table, offset, value)
                if number % 7 == 0:
                    table.flush()
            table.flush()
        assert dict(store.scan(keys.shard_prefix(seed), keys.shard_prefix(seed + 1))) == plain.by_key
        assert locality.stats(store, seed) == locality.stats(plain, seed)
        pairs += locality.stats(store, seed).pairs
        for blob in BLOBS:
            assert locality.holders(store, seed, blob) == locality.holders(plain, seed, blob)
        for view in locality.endpoints(plain, seed):
            name = (view.instance, view.endpoint)
            assert blobs_of(store, seed, *name) == blobs_of(plain, seed, *name)
            assert locality.pins_of(store, seed, *name) == locality.pins_of(plain, seed, *name)
    assert pairs > 0


def test_position_and_rows_are_there_again_after_reopening(path: Path) -> None:
    log = records(History(1).run(200))
    store = opened(path)
    for offset, value in log[:100]:
        take(store.table(0), offset, value)
    store.table(0).flush()
    before = rows_of(store)
    store.close()
    store = opened(path)
    assert store.dropped == Counter()
    assert rows_of(store) == before
    assert store.table(0).shard.seq == 100
    assert store.table(0).shard.next_offset == log[99][0] + 1
    store.close()


def test_shards_do_not_meet_in_a_store(store: Store) -> None:
    for shard in (0, 1, 255, 256):
        for offset, value in records(History(shard).run(50)):
            take(store.table(shard), offset, value)
        store.table(shard).flush()
    for shard in (0, 1, 255, 256):
        alone = Table(MemoryRows(), shard)
        for offset, value in records(History(shard).run(50)):
            take(alone, offset, value)
        alone.flush()
        assert isinstance(alone.rows, MemoryRows)
        assert dict(store.table(shard).scan(alone.key(b""))) == alone.rows.by_key


def test_a_snapshot_does_not_change(store: Store) -> None:
    table = store.table(0)
    table.put(table.key(b"k", b"a"), b"1")
    table.flush()
    snapshot = store.snapshot()
    before = list(snapshot.scan(b"", b""))
    table.put(table.key(b"k", b"a"), b"2")
    table.put(table.key(b"k", b"b"), b"3")
    table.flush()
    assert list(snapshot.scan(b"", b"")) == before
    assert snapshot.get(table.key(b"k", b"a")) == b"1"
    assert snapshot.get(table.key(b"k", b"b")) is None
    assert store.get(table.key(b"k", b"b")) == b"3"


def test_a_second_opener_is_refused_and_told_who_has_it(path: Path, store: Store) -> None:
    with pytest.raises(StoreLocked, match=str(path)):
        opened(path)
    with pytest.raises(StoreLocked):
        Store.read_only(path)


def test_a_store_of_a_killed_process_is_free(path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from streams.store import Store\n"
        f"s = Store.open(Path({str(path)!r}), cluster_id='c', topic_id='t'); t = s.table(0)\n"
        "t.put(t.key(b'k', b'a'), b'1'); t.shard.seq = 9; t.flush(); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == -9
    store = opened(path)
    assert store.table(0).shard.seq == 9
    assert store.dropped == Counter()
    store.close()


def filled(path: Path) -> None:
    store = opened(path)
    store.table(0).shard.seq = 5
    store.table(0).flush()
    store.close()


@pytest.mark.parametrize(
    ("reason", "spoil"),
    [
        ("unreadable", lambda path: [f.write_bytes(b"x") for f in (path / "rows").glob("MANIFEST-*")]),
        ("unreadable", lambda path: (path / "rows" / "CURRENT").unlink()),
        ("damaged", lambda path: (path / "damaged").write_text("read a row: checksum\n")),
    ],
)
def test_what_cannot_be_read_is_dropped_and_counted(path: Path, reason: str, spoil) -> None:
    filled(path)
    spoil(path)
    for again in (False, True):
        store = opened(path)
        assert store.dropped == (Counter() if again else Counter({reason: 1}))
        assert store.table(0).shard.seq == 0
        store.close()


def test_a_store_of_another_log_is_dropped(path: Path) -> None:
    for cluster_id, topic_id in (("c", "made again"), ("c2", "made again")):
        filled(path) if (cluster_id, topic_id) == ("c", "made again") else None
        store = opened(path, cluster_id, topic_id)
        assert store.dropped == Counter({"other_log": 1})
        assert store.table(0).shard.seq == 0
        store.close()


def test_a_store_of_another_format_is_dropped(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(path)
    monkeypatch.setattr("streams.store.FORMAT", 99)
    with pytest.raises(NoStore, match="another release"):
        Store.read_only(path)
    store = opened(path)
    assert store.dropped == Counter({"other_format": 1})
    store.close()


def test_reading_only_changes_nothing_and_needs_a_store(path: Path) -> None:
    with pytest.raises(NoStore, match="state-table run"):
        Store.read_only(path)
    filled(path)
    store = Store.read_only(path)
    assert store.table(0).shard.seq == 5
    store.close()


def test_a_position_that_is_no_row_marks_the_store_to_be_dropped(path: Path) -> None:
    store = opened(path)
    store.write({b"\0\0\0\0!": b"\xff\xff"})
    with pytest.raises(StoreDamaged, match="read the position"):
        store.table(0)
    store.close()
    store = opened(path)
    assert store.dropped == Counter({"damaged": 1})
    assert store.table(0).shard.seq == 0
    store.close()
