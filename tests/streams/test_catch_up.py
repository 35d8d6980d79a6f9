"""The direct reader, over the log in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from events.codec import encode_event
from events.events import OperationDispatched
from projections.rows import MemoryRows
from projections.table import Table
from streams import catch_up
from streams.catch_up import ShardReader, take_records
from streams.errors import OffsetTrimmed
from streams.log import Outgoing, Record
from streams.memory_log import MemoryLog
from streams.recovery import DamagedLog
from streams.replay import compare, replay
from streams.topics import EVENTS, topic_table
from tests.projections.histories import History, records


class Written:
    """A log in memory with the events of one history."""

    def __init__(self, seed: int) -> None:
        self.log = MemoryLog()
        self.history = History(seed)
        self.table = Table(MemoryRows(), 0)
        self.reader = ShardReader(self.log, self.table)

    @classmethod
    async def start(cls, seed: int = 1) -> Written:
        made = cls(seed)
        await made.log.ensure_topics(topic_table(1))
        return made

    async def write(self, facts: int, *, leave_out: int | None = None) -> list[bytes]:
        values = list(self.history.run(facts).values())
        writer = await self.log.open("decider-0")
        kept = [value for number, value in enumerate(values) if number != leave_out]
        for begin in range(0, len(kept), 7):
            await writer.append({(EVENTS, 0): [Outgoing(value) for value in kept[begin : begin + 7]]})
        return values

    def rows(self) -> dict[bytes, bytes]:
        assert isinstance(self.table.rows, MemoryRows)
        return dict(self.table.rows.by_key)

    async def clean(self) -> dict[bytes, bytes]:
        rows = (await replay(self.log, 0)).table.rows
        assert isinstance(rows, MemoryRows)
        return rows.by_key


async def test_catching_up_gives_the_clean_replay_and_ends_at_the_last_stable_offset() -> None:
    written = await Written.start()
    for facts in (100, 0, 1, 50):
        await written.write(facts)
        before = written.table.shard.seq
        assert await written.reader.catch_up() == written.history.shard.seq - before
        assert written.rows() == await written.clean()
        assert await written.reader.behind() == 0


async def test_behind_counts_what_is_not_folded_yet() -> None:
    written = await Written.start()
    assert await written.reader.behind() == 0
    await written.write(100)
    assert await written.reader.behind() >= written.history.shard.seq
    await written.reader.catch_up()
    assert await written.reader.behind() == 0


async def test_agent_and_reader_may_interleave() -> None:
    written = await Written.start()
    await written.write(200)
    log = written.log.records((EVENTS, 0))
    catching = asyncio.ensure_future(written.reader.catch_up())
    for begin in range(0, len(log), 5):
        take_records(written.table, log[begin : begin + 5])
        await asyncio.sleep(0)
    await catching
    assert written.rows() == await written.clean()


async def test_a_gap_that_an_agent_sees_is_healed_from_the_log() -> None:
    written = await Written.start()
    await written.write(200)
    log = written.log.records((EVENTS, 0))
    take_records(written.table, log[:50])
    taking = take_records(written.table, log[80:])
    assert (taking.folded, taking.gap_before_seq) == (0, 51)
    assert await written.reader.heal(81) >= 31
    assert written.table.shard.seq >= 81
    assert written.reader.heals == 1
    take_records(written.table, log)
    assert written.rows() == await written.clean()


async def test_a_gap_in_the_log_itself_stops_the_reader_right_before_it() -> None:
    written = await Written.start()
    await written.write(100)
    seq = written.history.shard.seq
    values = await written.write(50, leave_out=10)
    for _ in range(2):
        with pytest.raises(DamagedLog, match=f"event {seq + 11} is missing") as raised:
            await written.reader.catch_up()
        assert raised.value.seq == seq + 10
        assert written.table.shard.seq == seq + 10
    found = await replay(written.log, 0)
    assert found.damage is not None
    assert (found.seq, found.gaps) == (seq + 10, 1)
    assert written.rows() == await written.clean()
    assert values


async def test_a_changed_record_stops_the_reader_and_what_was_before_it_is_kept() -> None:
    written = await Written.start()
    values = list(written.history.run(60).values())
    values[40] = values[40][:-1] + bytes([values[40][-1] ^ 1])
    await written.log.publish((EVENTS, 0), [Outgoing(value) for value in values])
    with pytest.raises(DamagedLog, match="chain"):
        await written.reader.catch_up()
    assert written.table.shard.seq == 40
    assert written.rows() == await written.clean()


def test_an_event_that_has_no_place_leaves_no_half_of_itself() -> None:
    history = History(1).run(60)
    log = records(history)
    table, clean = Table(MemoryRows(), 0), Table(MemoryRows(), 0)
    seq = history.shard.seq
    # It frees a place in the queue before it looks for the worker, who is not there.
    queued = next(o for o in history.shard.operations.values() if o.dispatch is None and not o.outcome)
    bad, _ = encode_event(
        OperationDispatched(seq + 1, 0, 0, queued.operation_id, "nobody", 1), history._epoch, log[-1][1][-16:]
    )
    batch = [Record(offset, 0, None, value) for offset, value in [*log, (log[-1][0] + 1, bad)]]
    with pytest.raises(DamagedLog, match="no row"):
        take_records(table, batch)
    take_records(clean, batch[:-1])
    assert isinstance(table.rows, MemoryRows)
    assert isinstance(clean.rows, MemoryRows)
    assert table.rows.by_key == clean.rows.by_key
    assert table.shard.seq == seq


def test_many_rows_that_pass_through_are_written_before_the_batch_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counting(MemoryRows):
        writes = 0

        def write(self, changes: Mapping[bytes, bytes | None]) -> None:
            self.writes += 1
            super().write(changes)

    batch = [Record(offset, 0, None, value) for offset, value in records(History(1).run(200))]
    clean, table = Table(MemoryRows(), 0), Table(Counting(), 0)
    take_records(clean, batch)
    monkeypatch.setattr("projections.table.FULL_ROWS", 8)
    taking = take_records(table, batch)
    assert taking.folded == len(batch)
    assert isinstance(table.rows, Counting)
    assert table.rows.writes > 3
    assert isinstance(clean.rows, MemoryRows)
    assert table.rows.by_key == clean.rows.by_key
    with pytest.raises(DamagedLog, match="no protobuf Event"):
        take_records(table, [*batch, Record(batch[-1].offset + 1, 0, None, b"\xff")])
    assert table.rows.by_key == clean.rows.by_key


async def test_a_trimmed_log_is_an_error_with_a_remedy_not_a_jump() -> None:
    written = await Written.start()
    await written.write(50)
    await written.log.trim((EVENTS, 0), 20)
    with pytest.raises(OffsetTrimmed):
        await written.reader.catch_up()
    assert written.table.shard.seq == 0


async def test_leading_follows_what_comes_meanwhile() -> None:
    written = await Written.start()
    await written.write(20)
    leading = asyncio.ensure_future(written.reader.lead(0.3))
    await asyncio.sleep(0)
    await written.write(30)
    assert await leading == written.history.shard.seq
    assert written.reader.led_events == written.history.shard.seq


async def test_a_comparison_names_the_rows_that_differ() -> None:
    written = await Written.start()
    await written.write(100)
    await written.reader.catch_up()
    clean, rows = await written.clean(), written.rows()
    assert compare(clean, rows).equal
    changed, missing = sorted(rows)[3], sorted(rows)[5]
    rows[changed] += b"\x00"
    del rows[missing]
    rows[b"\0\0\0\0zextra"] = b"1"
    found = compare(clean, rows)
    assert not found.equal
    assert found.differing == 3
    assert [key for key, _, _ in found.first] == [changed, missing, b"\0\0\0\0zextra"]
    assert found.first[1][2] is None
    assert found.first[2][1] is None


async def test_views_are_answered_between_events_that_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tick may clean thousands of pairs: a hundred of them at once would keep every request waiting for seconds."""
    monkeypatch.setattr(catch_up, "SLICE_S", 0.0)
    monkeypatch.setattr(catch_up, "LOOKED_AFTER", 1)
    written = await Written.start()
    await written.write(100)
    answered: list[int] = []

    async def ask() -> None:
        while True:
            answered.append(written.table.shard.seq)
            await asyncio.sleep(0)

    asking = asyncio.ensure_future(ask())
    await written.reader.catch_up()
    asking.cancel()
    assert set(answered) >= set(range(1, written.history.shard.seq)), "events were folded without anyone getting a turn"
    assert written.rows() == await written.clean()
