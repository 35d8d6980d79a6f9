"""Snapshots on both logs: what is written is found, read back and gone on from; what was taken back or cut is not."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace

import pytest

from events.snapshot import Manifest, parts_of, state_digest
from streams.log import Log, Outgoing, bounds, records_between
from streams.recovery import Fold
from streams.snapshots.errors import HistoryTrimmed, SlotTaken
from streams.snapshots.layout import Found, manifest_key, part_record, place, taken_back
from streams.snapshots.reading import manifest_of, newest_first, parts_in, state_in
from streams.snapshots.recovering import start_of
from streams.snapshots.writing import take_back_at, transactional_id, write
from streams.topics import EVENTS, SNAPSHOT_SLOTS, SNAPSHOTS, TOPICS
from tests.contract.backends import Backend
from tests.contract.reading import read_all
from tests.streams.deciding import Cluster, decide_all
from tests.streams.snapshotting import PART_BYTES, manifest_for
from tests.streams.test_decider import STORY

EVENTS_1 = (EVENTS, 1)


@pytest.fixture
async def history(log: Log) -> Fold:
    """A history in shard 1 of the log, folded up to its end."""
    await log.ensure_topics([replace(spec, partitions=2) for spec in TOPICS if spec.name == SNAPSHOTS])
    cluster = await Cluster.start()
    await cluster.put(*STORY)
    await decide_all(cluster)
    await log.publish(EVENTS_1, [Outgoing(record.value) for record in cluster.records(EVENTS)])
    return await folded(log, 10**9)


async def folded(log: Log, events: int) -> Fold:
    """The fold of the first events of shard 1."""
    fold = Fold(1)
    first, end = await bounds(log, EVENTS_1)
    async with aclosing(records_between(log, EVENTS_1, first, end)) as batches:
        async for records in batches:
            fold.apply(records[: max(0, events - fold.events)])
    return fold


async def put(log: Log, fold: Fold) -> tuple[Found, Manifest]:
    return await write(log, await manifest_for(log, fold), parts_of(fold.shard, PART_BYTES))


async def there(log: Log) -> list[int]:
    return [manifest_of(found).seq async for found in newest_first(log, 1)]


async def test_what_is_written_is_found_and_read_back(log: Log, history: Fold) -> None:
    assert (await start_of(log, 1)).shard.seq == 0
    found, manifest = await put(log, history)
    assert manifest.parts > 3
    assert manifest.state_digest == state_digest(history.shard)
    state = state_in(found, manifest, await parts_in(log, found, manifest))
    assert state_digest(state) == manifest.state_digest
    fold = await start_of(log, 1)
    assert (fold.shard.seq, fold.chain, fold.next_offset) == (history.shard.seq, history.chain, history.next_offset)
    assert [found async for found in newest_first(log, 0)] == [], "another shard has none"


async def test_the_newest_is_found_first_and_slots_are_used_again(log: Log, history: Fold) -> None:
    seqs = []
    for events in range(history.shard.seq - SNAPSHOT_SLOTS, history.shard.seq + 1):
        seqs.append((await put(log, await folded(log, events)))[1].seq)
    assert await there(log) == seqs[: -SNAPSHOT_SLOTS - 1 : -1]
    assert await take_back_at(log, 1, seqs[-1]) == 1
    assert await there(log) == seqs[-2 : -SNAPSHOT_SLOTS - 1 : -1]
    assert (await start_of(log, 1)).shard.seq == seqs[-2]


async def test_events_that_a_snapshot_covers_are_not_needed_to_go_on(log: Log, history: Fold) -> None:
    half = await folded(log, history.shard.seq // 2)
    await put(log, half)
    await log.trim(EVENTS_1, half.next_offset)
    fold = await start_of(log, 1)
    fold.apply(await read_all(log, EVENTS_1))
    assert (fold.chain, state_digest(fold.shard)) == (history.chain, state_digest(history.shard))
    await take_back_at(log, 1, half.shard.seq)
    with pytest.raises(HistoryTrimmed):
        await start_of(log, 1)


async def test_parts_without_a_manifest_are_no_snapshot(backend: Backend, log: Log, history: Fold) -> None:
    half = await folded(log, history.shard.seq // 2)
    await put(log, half)
    other = await backend.second_client()
    writer = await other.open(transactional_id(1))
    await writer.append({place(1): [taken_back(manifest_key(1, 1)), Outgoing(b"part", b"1/1/000000")]})
    assert await there(log) == [half.shard.seq]

    class Overtaken:
        """The log of a writer that another one overtakes while it writes."""

        def __getattr__(self, name: str) -> object:
            return getattr(log, name)

        async def open(self, name: str, *, timeout_ms: int) -> object:
            mine = await log.open(name, timeout_ms=timeout_ms)
            await (await other.open(name)).close()
            return mine

    with pytest.raises(SlotTaken):
        await put(Overtaken(), history)
    assert await there(log) == [half.shard.seq]
    await writer.close()


async def test_parts_of_another_snapshot_in_the_slot_are_not_taken(log: Log, history: Fold) -> None:
    other = part_record(1, 0, 0, b"another", b"part of another")

    class Mixing:
        """The log of a writer behind whose parts somebody writes one of another snapshot."""

        def __getattr__(self, name: str) -> object:
            return getattr(log, name)

        async def open(self, name: str, *, timeout_ms: int) -> object:
            writer = await log.open(name, timeout_ms=timeout_ms)

            async def append(batches: dict) -> None:
                await real(batches)
                await log.publish(place(1), [other])

            real, writer.append = writer.append, append
            return writer

    found, manifest = await put(Mixing(), history)
    assert found.slot == 0
    assert state_digest(state_in(found, manifest, await parts_in(log, found, manifest))) == manifest.state_digest
