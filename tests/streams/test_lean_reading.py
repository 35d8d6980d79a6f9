"""Fetched bytes become the records that aiokafka itself would hand out, and leave it at the same position, however they are asked for."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.producer.message_accumulator import BatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from streams.aiokafka_internals import _LeanResults
from streams.log import Record

AT = TopicPartition("t", 0)
TRANSACTIONAL, CONTROL = 0x10, 0x20
COMMIT, ABORT = 1, 0
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


@dataclass
class Position:
    """What a fetch is checked against, and tells how far it was consumed."""

    position: int
    active: bool = True
    paused: bool = False

    def state_value(self, _partition: TopicPartition) -> Position:
        return self

    def consumed_to(self, offset: int) -> None:
        self.position = offset


@dataclass
class Written:
    """Batches as they stand in a log."""

    data: bytearray = field(default_factory=bytearray)
    end: int = 0
    aborted: list[tuple[int, int]] = field(default_factory=list)
    begun: dict[int, int] = field(default_factory=dict)

    def batch(self, records: list[tuple[bytes | None, bytes, list]], producer: int, attributes: int) -> None:
        builder = BatchBuilder(1 << 20, 0, is_transactional=0)
        for key, value, headers in records:
            builder.append(timestamp=7, key=key, value=value, headers=headers)
        raw = bytearray(builder._build())
        struct.pack_into(">q", raw, 0, self.end)
        struct.pack_into(">h", raw, 21, attributes)
        struct.pack_into(">q", raw, 43, producer)
        self.data += raw
        self.end += len(records)

    def add(self, producer: int, records: list[tuple[bytes | None, bytes, list]]) -> None:
        self.begun.setdefault(producer, self.end)
        self.batch(records, producer, TRANSACTIONAL)

    def finish(self, producer: int, how: int) -> None:
        began = self.begun.pop(producer, None)
        if how == ABORT and began is not None:
            self.aborted.append((producer, began))
        self.batch([(struct.pack(">hh", 0, how), b"", [])], producer, TRANSACTIONAL | CONTROL)


records = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=8),
        st.binary(max_size=20),
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2),
    ),
    min_size=1,
    max_size=6,
)
steps = st.lists(
    st.tuples(st.just("add"), st.integers(1, 2), records)
    | st.tuples(st.just("finish"), st.integers(1, 2), st.sampled_from([COMMIT, ABORT])),
    min_size=1,
    max_size=12,
)


def written(done: list[tuple[str, int, Any]]) -> Written:
    log = Written()
    for what, producer, content in done:
        getattr(log, what)(producer, content)
    return log


def fetch(
    log: Written, start: int, isolation: int, *, check_crcs: bool = False
) -> tuple[fetcher.FetchResult, Position]:
    position = Position(start)
    unpacked = fetcher.PartitionRecords(
        AT, fetcher.MemoryRecords(bytes(log.data)), list(log.aborted), start, None, None, check_crcs, isolation
    )
    return fetcher.FetchResult(AT, assignment=position, partition_records=unpacked, backoff=0), position


def lean(log: Written, start: int, isolation: int, **options: bool) -> tuple[fetcher.FetchResult, Position]:
    result, position = fetch(log, start, isolation, **options)
    table = _LeanResults()
    table[AT] = result
    return table[AT], position


def as_record(seen: Any) -> Record:
    headers = tuple((name, content or b"") for name, content in seen.headers)
    return Record(seen.offset, seen.timestamp * 1000, seen.key, seen.value or b"", headers)


@given(steps, st.sampled_from([READ_UNCOMMITTED, READ_COMMITTED]), st.data())
def test_every_read_gives_what_aiokafka_gives_and_goes_as_far(done, isolation, data) -> None:
    log = written(done)
    start = data.draw(st.integers(0, log.end - 1), "start")
    (theirs, their_position), (ours, our_position) = fetch(log, start, isolation), lean(log, start, isolation)
    while theirs.has_more():
        most = data.draw(st.none() | st.integers(1, 9), "at most")
        assert ours.getall(most) == [as_record(seen) for seen in theirs.getall(most)]
        assert our_position == their_position
        assert ours.has_more() == theirs.has_more()


def test_a_fetch_of_a_partition_that_was_sought_elsewhere_or_paused_gives_nothing() -> None:
    log = written([("add", 1, [(None, b"v", [])] * 4)])
    for change in ({"position": 3}, {"paused": True}, {"active": False}):
        result, position = lean(log, 0, READ_COMMITTED)
        assert [record.offset for record in result.getall(2)] == [0, 1]
        for name, value in change.items():
            setattr(position, name, value)
        assert result.getall() == []
        assert not result.has_more()


def test_records_before_a_damaged_batch_are_read_and_then_it_is_said() -> None:
    log = Written()
    log.batch([(None, b"a", []), (None, b"b", [])], -1, 0)
    sound = len(log.data)
    log.batch([(None, b"c", [])], -1, 0)
    raw = BatchBuilder(1 << 20, 0, is_transactional=0)
    for value in (b"a", b"b"):
        raw.append(timestamp=7, key=None, value=value)
    log.data[:sound] = raw._build()  # with the checksum that belongs to it
    log.data[-2] ^= 1
    result, position = lean(log, 0, READ_UNCOMMITTED, check_crcs=True)
    assert [record.value for record in result.getall(100)] == [b"a", b"b"]
    assert position.position == 2
    for _ in range(2):
        with pytest.raises(CorruptRecordException):
            result.getall(100)
    assert position.position == 2
