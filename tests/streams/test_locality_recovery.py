"""What endpoints hold, after a restart: from the log alone, whatever became of the local store; and a leader with facts to catch up.

The promises of a dump file, in a system that has none: its content is the event log, its file is the local store, which nothing depends on.
The same promises of snapshots of the state are a matter of their own, and of their own tests.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from events import events as e
from events import facts as f
from events.codec import GENESIS_CHAIN, encode_event
from events.payloads import digests_bytes
from events.values import Digest
from projections import keys, locality
from projections.blob_pages import blobs_of
from projections.rows import RowReader
from streams.catch_up import ShardReader
from streams.log import Outgoing
from streams.memory_log import MemoryLog
from streams.readiness import Gate
from streams.rehearsal import Rehearsal
from streams.store import Store, StoreDamaged
from streams.topics import EVENTS, FACTS, topic_table
from tests.streams.deciding import Cluster, configured, decide_all, decided, decider, running

START_US = 1_700_000_000_000_000
BLOBS = [Digest(number.to_bytes(32, "big"), 1000 + number) for number in range(2000)]


def history(*more: f.Fact) -> list[bytes]:
    """The event records of a fleet of two workers: w1 holds every blob and pins the first, w2 holds the last one; a restart; and more."""
    rehearsal = Rehearsal()
    pins = digests_bytes(BLOBS[:1])
    facts = [
        configured(),
        f.WorkerConnected("main", "w1", 1111, 1),
        f.WorkerConnected("main", "w2", 7, 2),
        f.BlobsAvailable("main", "w1", 1, 1, full=True, added=digests_bytes(BLOBS), ac_pins=pins),
        f.BlobsAvailable("main", "w2", 2, 1, full=True, added=digests_bytes(BLOBS[-1:])),
    ]
    for number, fact in enumerate(facts):
        rehearsal.take(fact, START_US + number * 1000)
    rehearsal.restart()
    for fact in more:
        rehearsal.take(fact, START_US + 10_000)
    chain, epoch, found = GENESIS_CHAIN, 0, []
    for event in rehearsal.events:
        if isinstance(event, e.LeaderElected):
            epoch = event.leader_epoch
        value, chain = encode_event(event, epoch, chain)
        found.append(value)
    return found


async def log_with(values: list[bytes]) -> MemoryLog:
    log = MemoryLog()
    await log.ensure_topics(topic_table(1))
    await (await log.open("decider-0")).append({(EVENTS, 0): [Outgoing(value) for value in values]})
    return log


def opened(path: Path) -> Store:
    return Store.open(path, cluster_id="c", topic_id="t")


def answers(rows: RowReader) -> dict[str, object]:
    """What can be asked of the map, with something of every kind in it."""
    return {
        "first": locality.holders(rows, 0, BLOBS[0]),
        "last": locality.holders(rows, 0, BLOBS[-1]),
        "w1": locality.endpoint(rows, 0, "main", "w1"),
        "w2": blobs_of(rows, 0, "main", "w2"),
        "pins": locality.pins_of(rows, 0, "main", "w1"),
        "stats": locality.stats(rows, 0),
    }


async def recover(store: Store, log: MemoryLog) -> dict[str, object]:
    """Read the log into the store until the gate of readiness opens; what is then answered."""
    gate = Gate(lambda: 0.0)
    gate.expect([0])
    await ShardReader(log, store.table(0)).catch_up()
    gate.caught_up(0)
    assert gate.is_open
    return answers(store)


async def filled(path: Path) -> tuple[MemoryLog, dict[str, object]]:
    """A store of the whole history, closed; the log, and what was answered from it."""
    log = await log_with(history())
    store = opened(path)
    found = await recover(store, log)
    store.close()
    assert [holder.endpoint for holder in found["last"]] == ["w1", "w2"]
    assert found["pins"] == BLOBS[:1]
    assert found["stats"].pairs == 2001
    return log, found


def store_rows(path: Path) -> dict[bytes, bytes]:
    """Every row of a store that nobody has open."""
    store = opened(path)
    rows = dict(store.scan(b"", b""))
    store.close()
    return rows


def why_a_scan_fails(rows: RowReader) -> str:
    """What a scan of everything says that it failed on. The snapshot goes with it: one that is kept keeps RocksDB open."""
    try:
        found = dict(rows.scan(b"", b""))
    except StoreDamaged as error:
        return str(error).partition("failed to scan rows: ")[2]
    return f"it does not: {len(found)} rows"


def flip(path: Path, offset: int) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 0x40
    path.write_bytes(bytes(content))


async def test_persist_format_round_trips(tmp_path: Path) -> None:
    """Of the local store; a snapshot of the state keeps the same promise by itself.

    What was written is read again as it was, and one flipped byte is refused, naming what failed and where.
    """
    log, before = await filled(tmp_path / "table")
    store = opened(tmp_path / "table")
    assert store.dropped == Counter()
    assert answers(store) == before, "as it was, with nothing read from the log"
    store.close()
    tables = sorted((tmp_path / "table" / "rows").glob("*.sst"))
    assert tables, "the rows were written out at the end"
    first = next(iter(store_rows(tmp_path / "table")))
    for table in tables:
        flip(table, 100)
    store = opened(tmp_path / "table")
    with pytest.raises(StoreDamaged, match=r"failed to read a row: .*checksum mismatch.*\.sst offset \d+"):
        store.get(first)
    with pytest.raises(StoreDamaged, match=r"failed to read a row: .*checksum mismatch.*\.sst offset \d+"):
        store.snapshot().get(first)
    store.close()
    store = opened(tmp_path / "table")
    assert store.dropped == Counter({"damaged": 1})
    assert await recover(store, log) == before, "and the log gives it back"
    store.close()


@pytest.mark.parametrize("offset", [100, 5000, 20_000])
async def test_a_scan_over_what_cannot_be_read_stops_and_never_answers_less(tmp_path: Path, offset: int) -> None:
    """RocksDB's iterators end at a block they cannot read as if there were no more: fewer holders would be answered than there are."""
    await filled(tmp_path / "table")
    for table in sorted((tmp_path / "table" / "rows").glob("*.sst")):
        assert table.stat().st_size > offset
        flip(table, offset)
    store = opened(tmp_path / "table")
    assert why_a_scan_fails(store).startswith("the rows end before their end")
    assert "checksum mismatch" in why_a_scan_fails(store.snapshot())
    store.close()
    store = opened(tmp_path / "table")
    assert store.dropped == Counter({"damaged": 1})
    store.close()


@pytest.mark.parametrize("missing", ["the whole directory", "the rows", "CURRENT"])
async def test_reload_missing_file_fails_open(tmp_path: Path, missing: str) -> None:
    """Of the local store; a snapshot of the state keeps the same promise by itself."""
    path = tmp_path / "table"
    log, before = await filled(path)
    if missing == "CURRENT":
        (path / "rows" / "CURRENT").unlink()
    else:
        (path / "rows").rename(tmp_path / "away")
        if missing == "the whole directory":
            (path / "lock").unlink()
            path.rmdir()
    store = opened(path)
    assert store.dropped == (Counter({"unreadable": 1}) if missing == "CURRENT" else Counter())
    assert store.table(0).shard.seq == 0
    assert await recover(store, log) == before
    store.close()


def torn(rows: Path) -> None:
    for path in [*rows.glob("*.sst"), *rows.glob("MANIFEST-*")]:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flipped(rows: Path) -> None:
    for path in rows.glob("MANIFEST-*"):
        flip(path, path.stat().st_size // 2)


def foreign(rows: Path) -> None:
    for path in rows.glob("MANIFEST-*"):
        path.write_bytes(b"NLLM\x01\x00 something else")


@pytest.mark.parametrize("spoil", [torn, flipped, foreign])
async def test_reload_corrupt_file_fails_open(tmp_path: Path, spoil) -> None:
    """Of the local store; a snapshot of the state keeps the same promise by itself."""
    path = tmp_path / "table"
    log, before = await filled(path)
    spoil(path / "rows")
    store = opened(path)
    assert store.dropped == Counter({"unreadable": 1}), "dropped, with a counted reason"
    assert store.table(0).shard.seq == 0
    assert await recover(store, log) == before, "rebuilt from the log, and ready"
    store.close()


HOSTILE = b"\x0a\xff\xff\xff\xff\x0f"
"""A field that declares 4 GiB, and ends."""


@pytest.mark.parametrize(
    "key",
    [
        keys.SHARD,
        keys.LOCALITY,
        keys.of_endpoint("main", "w1"),
        keys.INVENTORY + (1).to_bytes(4, "big"),
    ],
    ids=["position", "sums", "endpoint", "inventory"],
)
async def test_reload_valid_frame_hostile_body_fails_open(tmp_path: Path, key: bytes) -> None:
    """Of the local store; a snapshot of the state keeps the same promise by itself.

    A row that RocksDB reads without complaint, and that declares more than it could ever hold: the store is marked and dropped at the
    next start, never believed, and the log gives everything back.
    """
    path = tmp_path / "table"
    _, before = await filled(path)
    evicted = f.BlobsEvicted("main", "w1", 1, digests_bytes(BLOBS[:1]))
    longer = await log_with(history(evicted))
    store = opened(path)
    place = keys.shard_prefix(0) + key
    assert store.get(place) is not None, "a row that is there"
    store.write({place: HOSTILE})
    with pytest.raises(StoreDamaged, match=r"failed to (read the position|decode a row)"):
        await recover(store, longer)
    store.close()
    store = opened(path)
    assert store.dropped == Counter({"damaged": 1}), "dropped, with a counted reason"
    after = await recover(store, longer)
    assert [holder.endpoint for holder in after["first"]] == []
    assert (
        [holder.endpoint for holder in after["last"]] == [holder.endpoint for holder in before["last"]] == ["w1", "w2"]
    )
    store.close()


async def test_a_store_that_is_deleted_gives_the_same_answers_from_the_log_alone(tmp_path: Path) -> None:
    _, before = await filled(tmp_path / "table")
    store = opened(tmp_path / "another")
    assert await recover(store, await log_with(history())) == before
    store.close()


async def test_a_leader_says_where_the_facts_that_waited_for_it_end_and_when_it_has_decided_them() -> None:
    cluster = await Cluster.start()
    await cluster.put(
        configured(worker_timeout_s=10),
        f.WorkerConnected("main", "w1", 1111, 7),
        f.BlobsAvailable("main", "w1", 7, 1, full=True, added=digests_bytes(BLOBS[:3])),
    )
    await decide_all(cluster)
    for _ in range(30):  # a minute and a half in which nobody decides; the worker is heard all the same
        cluster.now_us += 3_000_000
        await cluster.put(f.WorkerReported("main", "w1", 7))
    waited = len(cluster.records(FACTS))
    second = decider(cluster.log)
    async with running(second):
        await decided(second, cluster)
        assert [type(event) for event in cluster.events() if isinstance(event, e.RecoveryCompleted)] == []
        await cluster.put(f.WorkerReported("main", "w1", 7))
        await decided(second, cluster)
    events = cluster.events()
    elected = [event for event in events if isinstance(event, e.LeaderElected)][-1]
    completed = [event for event in events if isinstance(event, e.RecoveryCompleted)]
    assert elected.facts_end == waited
    assert [(event.cause_offset, event.elected_seq, event.unconfirmed) for event in completed] == [
        (waited, elected.seq, 0)
    ]
    assert not [
        event for event in events if isinstance(event, e.WorkerDisconnected | e.LocalityWiped | e.EndpointSwept)
    ]
    assert [event.endpoint for event in events if isinstance(event, e.EndpointConfirmed)] == ["w1"], (
        "by a keepalive that waited"
    )
