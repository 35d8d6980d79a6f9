"""What every writer promises: all or nothing, one owner, and a clear answer or none."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from streams.errors import Closed, Fenced, NoSuchPartition, NoSuchTopic, Refused
from streams.log import Log, Outgoing, batch_of_one_bytes
from streams.topics import DEAD_LETTERS, EVENTS, FACTS, PLACEMENTS, SHARDS
from tests.contract.backends import SPECS, Backend
from tests.contract.reading import read_all, read_some, read_to_end, values

F0, E0, E1, P0, S0 = (FACTS, 0), (EVENTS, 0), (EVENTS, 1), (PLACEMENTS, 0), (SHARDS, 0)
MIB = 1 << 20


def one(value: bytes) -> list[Outgoing]:
    return [Outgoing(value)]


def of_batch_bytes(size: int) -> Outgoing:
    """A record that fills a batch of its own to `size` bytes."""
    record = Outgoing(b"x" * (size - 80))
    while batch_of_one_bytes(record) < size:
        record = Outgoing(record.value + b"x")
    assert batch_of_one_bytes(record) == size
    return record


async def test_all_partitions_of_an_append_appear(log: Log) -> None:
    writer = await log.open("shard-0")
    await writer.append({E0: one(b"e1") + one(b"e2"), P0: one(b"p"), E1: one(b"other shard")})
    assert values(await read_all(log, E0)) == [b"e1", b"e2"]
    assert values(await read_all(log, P0)) == [b"p"]
    assert values(await read_all(log, E1)) == [b"other shard"]
    await writer.close()


async def test_appends_follow_each_other_in_order(log: Log) -> None:
    writer = await log.open("shard-0")
    for number in range(50):
        await writer.append({E0: one(b"%d" % number)})
    read = await read_all(log, E0)
    assert values(read) == [b"%d" % number for number in range(50)]
    assert [record.offset for record in read] == [2 * number for number in range(50)]
    await writer.close()


async def test_an_append_of_nothing_leaves_no_trace(log: Log) -> None:
    writer = await log.open("shard-0")
    await writer.append({})
    await writer.append({E0: [], P0: []})
    await writer.append({E0: one(b"e"), P0: []})
    assert [record.offset for record in await read_all(log, E0)] == [0]
    assert await read_all(log, P0) == []
    await writer.close()


async def test_a_large_append_spans_batches_and_stays_one_transaction(log: Log) -> None:
    records = [Outgoing(b"%06d" % number + b"." * 994) for number in range(3000)]
    writer = await log.open("shard-0")
    await writer.append({E0: records})
    read = await read_all(log, E0)
    assert values(read) == [record.value for record in records]
    assert [record.offset for record in read] == list(range(3000))
    await writer.close()


async def test_an_open_transaction_hides_what_is_behind_it_until_it_ends(backend: Backend, log: Log) -> None:
    await log.publish(F0, one(b"before"))
    follower = await log.follow({F0: None})
    await backend.leave_open("crashed", {F0: one(b"in doubt")})
    await log.publish(F0, one(b"behind"))
    assert values(await read_some(follower, F0, 1)) == [b"before"]
    assert await follower.read(timeout_ms=200) == {}
    assert await follower.end_offset(F0) == 1
    assert values(await read_all(log, F0, committed=False)) == [b"before", b"in doubt", b"behind"]

    owner = await log.open("crashed")
    assert values(await read_some(follower, F0, 1)) == [b"behind"]
    # before, in doubt, behind, and the abort's end
    await read_to_end(follower, F0)
    assert await follower.position(F0) == await follower.end_offset(F0) == 4
    await owner.close()
    await follower.close()


async def test_aborted_records_are_never_seen_by_a_reader_of_committed_ones(backend: Backend, log: Log) -> None:
    await backend.leave_open("shard-0", {E0: one(b"aborted 1") + one(b"aborted 2"), P0: one(b"aborted")})
    writer = await log.open("shard-0")
    await writer.append({E0: one(b"committed")})
    assert values(await read_all(log, E0)) == [b"committed"]
    assert await read_all(log, P0) == []
    assert values(await read_all(log, E0, committed=False)) == [b"aborted 1", b"aborted 2", b"committed"]
    follower = await log.follow({E0: 1})  # from inside the aborted transaction
    assert values(await read_to_end(follower, E0)) == [b"committed"]
    await follower.close()
    await writer.close()


async def test_a_second_owner_fences_the_first(backend: Backend, log: Log) -> None:
    first = await log.open("shard-0")
    await first.append({E0: one(b"first")})
    second = await (await backend.second_client()).open("shard-0")
    with pytest.raises(Fenced, match="shard-0"):
        await first.append({E0: one(b"too late"), P0: one(b"too late")})
    await second.append({E0: one(b"second")})
    with pytest.raises(Closed, match="fenced"):
        await first.append({E0: one(b"still")})
    await first.close()
    await second.append({E0: one(b"second again")})
    assert values(await read_all(log, E0)) == [b"first", b"second", b"second again"]
    assert await read_all(log, P0) == []
    await second.close()


async def test_who_prepares_to_open_an_id_leaves_it_with_its_owner_until_then(backend: Backend, log: Log) -> None:
    standby = await backend.second_client()
    first = await log.open("shard-0")
    await first.append({E0: one(b"first")})
    for _ in range(2):
        await standby.prepare("shard-0", [E0, P0])
    await first.append({E0: one(b"first again")})
    await backend.leave_open("shard-0", {E0: one(b"aborted"), P0: one(b"aborted")})
    second = await standby.open("shard-0")
    with pytest.raises(Fenced, match="shard-0"):
        await first.append({E0: one(b"too late")})
    await second.append({E0: one(b"second"), P0: one(b"p")})
    third = await standby.open("shard-0")  # what was prepared is used up: another owner like any other
    with pytest.raises(Fenced, match="shard-0"):
        await second.append({E0: one(b"too late")})
    await third.append({E0: one(b"third")})
    reader = await log.follow({E0: None, P0: None})
    assert values(await read_some(reader, E0, 4)) == [b"first", b"first again", b"second", b"third"]
    assert values(await read_all(log, P0)) == [b"p"]
    await reader.close()
    for writer in (first, second, third):
        await writer.close()


async def test_preparing_to_write_where_no_partition_is_says_so(log: Log) -> None:
    with pytest.raises(NoSuchTopic):
        await log.prepare("shard-0", [("headway.nothing.v1", 0)])
    with pytest.raises(NoSuchPartition):
        await log.prepare("shard-0", [(EVENTS, 9)])


async def test_owners_of_different_ids_do_not_disturb_each_other(log: Log) -> None:
    first, second = await log.open("shard-0"), await log.open("shard-1")
    await asyncio.gather(first.append({E0: one(b"a")}), second.append({E1: one(b"b")}))
    await first.append({E0: one(b"c")})
    assert values(await read_all(log, E0)) == [b"a", b"c"]
    assert values(await read_all(log, E1)) == [b"b"]
    await first.close()
    await second.close()


async def test_a_closed_writer_says_so_and_closes_twice(log: Log) -> None:
    writer = await log.open("shard-0")
    await writer.close()
    await writer.close()
    with pytest.raises(Closed, match="shard-0"):
        await writer.append({E0: one(b"e")})


async def test_closing_a_fenced_writer_does_not_disturb_the_owner(log: Log) -> None:
    first = await log.open("shard-0")
    second = await log.open("shard-0")
    await first.close()
    await second.append({E0: one(b"e")})
    assert values(await read_all(log, E0)) == [b"e"]
    await second.close()


@pytest.mark.parametrize("topic", [FACTS, EVENTS], ids=["facts", "events"])
async def test_the_limit_is_exact_to_the_byte(log: Log, topic: str) -> None:
    limit = (await log.describe_topics())[topic].max_message_bytes
    fits, over = of_batch_bytes(limit), of_batch_bytes(limit + 1)
    await log.publish((topic, 0), [fits])
    writer = await log.open("shard-0")
    await writer.append({(topic, 0): [fits]})
    with pytest.raises(Refused):
        await log.publish((topic, 0), [over])
    with pytest.raises(Refused):
        await writer.append({(topic, 0): [over]})
    assert len(await read_all(log, (topic, 0))) == 2
    await writer.close()


async def test_an_oversize_fact_is_refused_with_numbers_and_none_of_its_company_is_sent(log: Log) -> None:
    with pytest.raises(Refused) as caught:
        await log.publish(F0, [Outgoing(b"small"), Outgoing(b"x" * MIB), Outgoing(b"small")])
    assert caught.value.topic == FACTS
    assert caught.value.limit_bytes == MIB
    assert caught.value.size_bytes == batch_of_one_bytes(Outgoing(b"x" * MIB))
    assert str(MIB) in str(caught.value)
    assert await log.publish(F0, one(b"next")) == [0]


async def test_a_refused_placement_never_leaves_its_event_behind(log: Log) -> None:
    writer = await log.open("shard-0")
    await writer.append({E0: one(b"e1"), P0: one(b"p1")})
    with pytest.raises(Refused) as caught:
        await writer.append({E0: one(b"e2"), P0: [Outgoing(b"x" * (4 * MIB))]})
    assert (caught.value.topic, caught.value.limit_bytes) == (PLACEMENTS, 4 * MIB)
    await writer.append({E0: one(b"e3"), P0: one(b"p3")})
    assert values(await read_all(log, E0)) == [b"e1", b"e3"]
    assert values(await read_all(log, P0)) == [b"p1", b"p3"]
    await writer.close()


async def test_a_limit_lowered_behind_the_writers_back_still_never_splits_an_append(backend: Backend, log: Log) -> None:
    """The refusal comes from the broker here, after the event was accepted: the trap that commits half a transaction."""
    writer = await log.open("shard-0")
    await writer.append({E0: one(b"e1"), P0: one(b"p1")})
    (spec,) = (spec for spec in SPECS if spec.name == PLACEMENTS)
    await (await backend.second_client()).ensure_topics([replace(spec, max_message_bytes=20_000)])
    with pytest.raises(Refused) as caught:
        await writer.append({E0: one(b"e2"), P0: [Outgoing(b"x" * 30_000)]})
    assert (caught.value.topic, caught.value.limit_bytes) == (PLACEMENTS, 20_000)
    for number in (3, 4):  # the writer is whole: its batches are numbered on from the last accepted one
        await writer.append({E0: one(b"e%d" % number), P0: one(b"p%d" % number)})
    assert values(await read_all(log, E0)) == [b"e1", b"e3", b"e4"]
    assert values(await read_all(log, P0)) == [b"p1", b"p3", b"p4"]
    # Under a limit smaller than a full batch, many small records still all fit.
    await writer.append({P0: [Outgoing(b"y" * 5_000)] * 20})
    assert len(await read_all(log, P0)) == 23
    await writer.close()


async def test_a_raised_limit_is_noticed(backend: Backend, log: Log) -> None:
    writer = await log.open("shard-0")
    large = Outgoing(b"x" * (MIB + 1000))
    with pytest.raises(Refused):
        await writer.append({F0: [large]})
    (spec,) = (spec for spec in SPECS if spec.name == FACTS)
    await (await backend.second_client()).ensure_topics([replace(spec, max_message_bytes=2 * MIB)])
    await writer.append({F0: [large]})
    await log.publish(F0, [large])
    assert len(await read_all(log, F0)) == 2
    await writer.close()


async def test_a_poison_fact_at_the_limit_fits_into_its_dead_letter(log: Log) -> None:
    limit = (await log.describe_topics())[FACTS].max_message_bytes
    poison = of_batch_bytes(limit)
    await log.publish(F0, [poison])
    writer = await log.open("shard-0")
    letter = Outgoing(poison.value, headers=(("reason", b"undecodable"),))
    await writer.append({E0: one(b"FactRejected"), (DEAD_LETTERS, 0): [letter]})
    (read,) = await read_all(log, (DEAD_LETTERS, 0))
    assert read.value == poison.value
    await writer.close()


async def test_a_compacted_topic_takes_no_record_without_a_key(log: Log) -> None:
    writer = await log.open("shard-0")
    with pytest.raises(Refused, match="without a key"):
        await log.publish(S0, one(b"v"))
    with pytest.raises(Refused, match="without a key"):
        await writer.append({E0: one(b"e"), S0: one(b"v")})
    assert await read_all(log, E0) == []
    await writer.append({E0: one(b"e")})
    await writer.close()


async def test_writing_to_what_does_not_exist_is_refused_and_harmless(log: Log) -> None:
    writer = await log.open("shard-0")
    with pytest.raises(NoSuchTopic):
        await writer.append({E0: one(b"e"), ("headway.nothing.v1", 0): one(b"v")})
    with pytest.raises(NoSuchPartition):
        await writer.append({E0: one(b"e"), (PLACEMENTS, 7): one(b"v")})
    with pytest.raises(NoSuchTopic):
        await log.publish(("headway.nothing.v1", 0), one(b"v"))
    with pytest.raises(NoSuchPartition):
        await log.publish((FACTS, 7), one(b"v"))
    await writer.append({E0: one(b"after")})
    assert values(await read_all(log, E0)) == [b"after"]
    await writer.close()


async def test_concurrent_publishers_get_their_own_offsets(log: Log) -> None:
    async def publish(name: bytes) -> dict[int, bytes]:
        placed: dict[int, bytes] = {}
        for number in range(20):
            records = [Outgoing(b"%s-%d-%d" % (name, number, part)) for part in range(1 if number % 2 else 30)]
            for record, offset in zip(records, await log.publish(F0, records), strict=True):
                placed[offset] = record.value
        return placed

    told: dict[int, bytes] = {}
    for placed in await asyncio.gather(*(publish(b"p%d" % number) for number in range(5))):
        assert not placed.keys() & told.keys()
        told.update(placed)
    assert told == {record.offset: record.value for record in await read_all(log, F0)}
