"""What every follower promises."""

from __future__ import annotations

import asyncio
import time

import pytest

from streams.errors import Closed, NoSuchPartition, NoSuchTopic, OffsetPastEnd, OffsetTrimmed
from streams.log import Log, Outgoing
from streams.topics import EVENTS, FACTS, PLACEMENTS
from tests.contract.reading import read_all, read_some, read_to_end, values

F0, F1, E0, P0 = (FACTS, 0), (FACTS, 1), (EVENTS, 0), (PLACEMENTS, 0)


def numbered(count: int) -> list[Outgoing]:
    return [Outgoing(b"%d" % number) for number in range(count)]


async def test_records_come_in_order_with_the_offsets_that_publish_returned(log: Log) -> None:
    offsets = await log.publish(F0, numbered(5)) + await log.publish(F0, numbered(40))
    read = await read_all(log, F0)
    assert offsets == list(range(45))
    assert [record.offset for record in read] == offsets
    assert values(read) == values_of(5) + values_of(40)


def values_of(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


async def test_keys_headers_and_empty_values_are_kept(log: Log) -> None:
    written = [
        Outgoing(b"", key=b"k"),
        Outgoing(b""),
        Outgoing(b"v", key=b""),
        Outgoing(b"\x00\xff", key=b"\x00", headers=(("a", b"1"), ("a", b""), ("ä", b"2"))),
    ]
    await log.publish(F0, written)
    writer = await log.open("headers")
    await writer.append({E0: written})
    await writer.close()
    for partition in (F0, E0):
        read = await read_all(log, partition)
        assert [Outgoing(record.value, record.key, record.headers) for record in read] == written


async def test_append_time_is_the_logs_and_never_before_the_write(log: Log) -> None:
    before_us = time.time_ns() // 1_000_000 * 1000  # Kafka keeps milliseconds
    await log.publish(F0, numbered(1))
    (record,) = await read_all(log, F0)
    assert before_us <= record.at_us <= time.time_ns() // 1000 + 1000


async def test_partitions_are_apart_and_read_together(log: Log) -> None:
    await log.publish(F0, [Outgoing(b"a")])
    await log.publish(F1, [Outgoing(b"b"), Outgoing(b"c")])
    follower = await log.follow({F0: None, F1: 1})
    found: dict[tuple[str, int], list[bytes]] = {}
    async with asyncio.timeout(20):
        while sum(map(len, found.values())) < 2:
            for partition, records in (await follower.read(timeout_ms=100)).items():
                assert records
                found.setdefault(partition, []).extend(values(records))
    assert found == {F0: [b"a"], F1: [b"c"]}
    await follower.close()


async def test_read_waits_for_the_first_record_and_gives_up_in_time(log: Log) -> None:
    follower = await log.follow({F0: None})
    started = time.monotonic()
    assert await follower.read(timeout_ms=150) == {}
    assert 0.1 < time.monotonic() - started < 5
    reading = asyncio.create_task(read_some(follower, F0, 1))
    await log.publish(F0, [Outgoing(b"late")])
    assert values(await reading) == [b"late"]
    await follower.close()


async def test_read_takes_no_more_than_asked_and_loses_nothing(log: Log) -> None:
    await log.publish(F0, numbered(100))
    follower = await log.follow({F0: None})
    found = []
    async with asyncio.timeout(20):
        while len(found) < 100:
            records = (await follower.read(max_records=7, timeout_ms=100, drain=True)).get(F0, [])
            assert len(records) <= 7
            found.extend(values(records))
            if records:
                assert await follower.position(F0) == records[-1].offset + 1
    assert found == values_of(100)
    await follower.close()


async def test_seek_goes_back_and_forth(log: Log) -> None:
    await log.publish(F0, numbered(10))
    follower = await log.follow({F0: 8})
    assert values(await read_to_end(follower, F0)) == [b"8", b"9"]
    follower.seek(F0, 3)
    assert await follower.position(F0) == 3
    assert values(await read_to_end(follower, F0)) == values_of(10)[3:]
    follower.seek(F0, 9)
    assert values(await read_to_end(follower, F0)) == [b"9"]
    await follower.close()


async def test_position_reaches_the_end_over_transaction_ends_and_aborted_records(log: Log) -> None:
    writer = await log.open("position")
    await writer.append({E0: numbered(3)})
    await writer.append({E0: numbered(2)})
    follower = await log.follow({E0: None})
    read = await read_to_end(follower, E0)
    assert values(read) == values_of(3) + values_of(2)
    # Each transaction's end takes an offset: 3 records, end, 2 records, end.
    assert [record.offset for record in read] == [0, 1, 2, 4, 5]
    assert await follower.position(E0) == await follower.end_offset(E0) == 7
    assert await follower.beginning_offset(E0) == 0
    await follower.close()
    await writer.close()


async def test_a_paused_partition_keeps_its_position_and_comes_back_whole(log: Log) -> None:
    await log.publish(F0, numbered(4))
    await log.publish(F1, numbered(4))
    follower = await log.follow({F0: None, F1: None})
    follower.pause(F0)
    assert values(await read_some(follower, F1, 4)) == values_of(4)
    assert await follower.read(timeout_ms=50) == {}
    assert await follower.position(F0) == 0
    follower.resume(F0)
    assert values(await read_some(follower, F0, 4)) == values_of(4)
    await follower.close()


async def test_a_standby_waits_paused_then_seeks_and_resumes(log: Log) -> None:
    await log.publish(F0, numbered(10))
    follower = await log.follow({F0: None})
    follower.pause(F0)
    assert await follower.read(timeout_ms=50) == {}
    follower.seek(F0, 6)
    follower.resume(F0)
    assert values(await read_some(follower, F0, 4)) == values_of(10)[6:]
    await follower.close()


async def test_a_trimmed_offset_is_an_error_with_numbers_until_a_seek(log: Log) -> None:
    await log.publish(F0, numbered(10))
    await log.trim(F0, 6)
    follower = await log.follow({F0: 2})
    for _ in range(2):
        with pytest.raises(OffsetTrimmed) as caught:
            await read_some(follower, F0, 1)
        assert (caught.value.partition, caught.value.asked, caught.value.first) == (F0, 2, 6)
        assert "headway.facts.v1[0]" in str(caught.value)
    assert await follower.beginning_offset(F0) == 6
    follower.seek(F0, 6)
    assert values(await read_some(follower, F0, 4)) == values_of(10)[6:]
    await follower.close()
    assert values(await read_all(log, F0)) == values_of(10)[6:]


async def test_a_trimmed_partition_does_not_stop_the_others_records(log: Log) -> None:
    await log.publish(F0, numbered(3))
    await log.publish(F1, numbered(3))
    await log.trim(F0, 2)
    follower = await log.follow({F0: 0, F1: 0})
    found: list[bytes] = []
    trimmed = 0
    async with asyncio.timeout(20):
        while len(found) < 3 or not trimmed:
            try:
                found.extend(values((await follower.read(timeout_ms=100)).get(F1, [])))
            except OffsetTrimmed:
                trimmed += 1
    assert found == values_of(3)
    await follower.close()


async def test_an_offset_past_the_end_is_an_error_and_the_end_itself_is_not(log: Log) -> None:
    await log.publish(F0, numbered(2))
    follower = await log.follow({F0: 2})
    assert await follower.read(timeout_ms=100) == {}
    follower.seek(F0, 9)
    with pytest.raises(OffsetPastEnd) as caught:
        await read_some(follower, F0, 1)
    assert (caught.value.asked, caught.value.end) == (9, 2)
    await follower.close()
    with pytest.raises(OffsetPastEnd):
        await log.trim(F0, 5)


async def test_what_does_not_exist_is_named(log: Log) -> None:
    with pytest.raises(NoSuchTopic, match=r"headway\.placements\.v1"):
        await log.follow({("headway.nothing.v1", 0): None})
    with pytest.raises(NoSuchPartition, match="2 partition"):
        await log.follow({(FACTS, 2): None})
    with pytest.raises(NoSuchTopic):
        await log.topic_id("headway.nothing.v1")


async def test_a_closed_follower_says_so_and_closes_twice(log: Log) -> None:
    follower = await log.follow({F0: None})
    await follower.close()
    await follower.close()
    with pytest.raises(Closed):
        await follower.read()
    with pytest.raises(Closed):
        follower.seek(F0, 0)


async def test_a_partition_that_is_not_followed_is_a_mistake(log: Log) -> None:
    follower = await log.follow({F0: None})
    with pytest.raises(ValueError, match="not followed"):
        follower.seek(F1, 0)
    with pytest.raises(ValueError, match="negative"):
        follower.seek(F0, -1)
    await follower.close()
