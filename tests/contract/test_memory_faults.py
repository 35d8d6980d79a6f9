"""What only a log in memory can do: faults and time as data, compaction on demand, records without a reader."""

from __future__ import annotations

import asyncio

import pytest

from streams.errors import Closed, Fenced, LogUnavailable, NoSuchTopic, OutcomeUnknown, Refused
from streams.log import Outgoing
from streams.memory_log import MemoryLog
from streams.shard_map import read_shard_map, write_shard_map
from streams.topics import EVENTS, FACTS, PLACEMENTS, SHARDS, topic_table
from tests.contract.reading import read_all, read_some, read_to_end, values

F0, E0, P0, S0 = (FACTS, 0), (EVENTS, 0), (PLACEMENTS, 0), (SHARDS, 0)


class Clock:
    """Microseconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now_us = 1_000_000

    def __call__(self) -> int:
        return self.now_us


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def log(clock: Clock) -> MemoryLog:
    made = MemoryLog(clock_us=clock)
    await made.ensure_topics(topic_table(2))
    return made


def one(value: bytes, key: bytes | None = None) -> list[Outgoing]:
    return [Outgoing(value, key)]


async def test_append_time_is_the_injected_clocks(log: MemoryLog, clock: Clock) -> None:
    await log.publish(F0, one(b"a"))
    clock.now_us = 2_000_007
    await log.publish(F0, one(b"b"))
    assert [record.at_us for record in log.records(F0)] == [1_000_000, 2_000_007]


@pytest.mark.parametrize(
    ("committed", "seen", "end"), [(True, [b"e1", b"e2"], 4), (False, [b"e1"], 4), (None, [b"e1"], 2)]
)
async def test_an_unknown_outcome_leaves_what_was_ordered(
    log: MemoryLog, committed: bool | None, seen: list[bytes], end: int
) -> None:
    writer = await log.open("shard-0")
    await writer.append({E0: one(b"e1")})
    log.fail_next_append(OutcomeUnknown, committed=committed)
    with pytest.raises(OutcomeUnknown, match="shard-0"):
        await writer.append({E0: one(b"e2"), P0: one(b"p2")})
    with pytest.raises(Closed):
        await writer.append({E0: one(b"e3")})
    follower = await log.follow({E0: None})
    assert await follower.end_offset(E0) == end
    assert values(await read_to_end(follower, E0)) == seen
    owner = await log.open("shard-0")
    await owner.append({E0: one(b"e4")})
    assert values(log.records(E0)) == [*seen, b"e4"]
    assert values(log.records(P0)) == ([b"p2"] if committed else [])


async def test_faults_queue_up_and_wait_for_their_writer(log: MemoryLog) -> None:
    first, second = await log.open("shard-0"), await log.open("shard-1")
    log.fail_next_append(Refused, transactional_id="shard-1")
    log.fail_next_append(Fenced, transactional_id="shard-1")
    await first.append({E0: one(b"a")})
    with pytest.raises(Refused):
        await second.append({E0: one(b"b")})
    with pytest.raises(Fenced):
        await second.append({E0: one(b"c")})
    with pytest.raises(Closed):
        await second.append({E0: one(b"d")})
    await first.append({E0: one(b"e")})
    assert values(log.records(E0)) == [b"a", b"e"]


def test_a_fault_that_cannot_be_is_refused(log: MemoryLog) -> None:
    with pytest.raises(ValueError, match="never leaves a committed"):
        log.fail_next_append(Fenced, committed=True)


async def test_a_publish_fault_leaves_what_was_ordered(log: MemoryLog) -> None:
    log.fail_next_publish(committed=True)
    log.fail_next_publish(committed=False)
    for value in (b"there", b"not there"):
        with pytest.raises(OutcomeUnknown) as caught:
            await log.publish(F0, one(value))
        assert caught.value.phase == "publish"
    assert await log.publish(F0, one(b"next")) == [1]
    assert values(log.records(F0)) == [b"there", b"next"]


async def test_an_open_transaction_ends_by_its_timeout_and_its_writer_is_fenced(log: MemoryLog, clock: Clock) -> None:
    writer = await log.open("shard-0", timeout_ms=10_000)
    log.fail_next_append(OutcomeUnknown, committed=None)
    with pytest.raises(OutcomeUnknown):
        await writer.append({E0: one(b"in doubt")})
    await log.publish(E0, one(b"behind"))
    clock.now_us += 9_999_999
    assert log.records(E0) == []
    clock.now_us += 1
    assert values(log.records(E0)) == [b"behind"]


async def test_a_cut_log_answers_nothing_and_takes_nothing_until_mended(log: MemoryLog) -> None:
    await log.publish(F0, one(b"f1"))
    writer = await log.open("shard-0")
    follower = await log.follow({F0: None})
    log.cut()
    assert await follower.read(timeout_ms=10) == {}
    for question in (log.cluster_id(), log.open("other"), follower.end_offset(F0), log.follow({F0: None})):
        with pytest.raises(LogUnavailable, match="cut off"):
            await question
    with pytest.raises(OutcomeUnknown):
        await log.publish(F0, one(b"f2"))
    with pytest.raises(OutcomeUnknown):
        await writer.append({E0: one(b"e")})
    reading = asyncio.create_task(follower.read(timeout_ms=20_000))
    await asyncio.sleep(0)
    log.mend()
    assert values((await reading)[F0]) == [b"f1"]
    assert values(log.records(F0)) == [b"f1"]
    assert log.records(E0) == []


async def test_compaction_keeps_the_last_committed_record_of_each_key_at_its_offset(log: MemoryLog) -> None:
    for number in range(3):
        await log.publish(S0, one(b"a%d" % number, b"a") + one(b"b%d" % number, b"b"))
    crashed = await log.open("crashed")
    log.fail_next_append(OutcomeUnknown, committed=False)
    with pytest.raises(OutcomeUnknown):
        await crashed.append({S0: one(b"aborted", b"a")})
    hanging = await log.open("hanging")
    log.fail_next_append(OutcomeUnknown, committed=None)
    with pytest.raises(OutcomeUnknown):
        await hanging.append({S0: one(b"open", b"b")})

    log.compact(SHARDS)
    assert [(record.offset, record.value) for record in log.records(S0)] == [(4, b"a2"), (5, b"b2")]
    assert values(await read_all(log, S0)) == [b"a2", b"b2"]
    follower = await log.follow({S0: 1})  # inside the hole: the next record that is left comes
    assert values(await read_some(follower, S0, 2)) == [b"a2", b"b2"]
    await log.open("hanging")
    assert await follower.end_offset(S0) == 10  # 6 records, aborted and its end, aborted and its end


async def test_the_shard_map_reads_the_same_before_and_after_compaction(log: MemoryLog) -> None:
    await write_shard_map(log, {"main": 0, "ci": 1})
    await write_shard_map(log, {"main": 1}, allow_moves=True)
    before = await read_shard_map(log)
    log.compact(SHARDS)
    assert await read_shard_map(log) == before
    assert before.shards == {"ci": 1, "main": 1}
    assert len(log.records(S0)) == 2


def test_only_compacted_topics_are_compacted(log: MemoryLog) -> None:
    with pytest.raises(ValueError, match=r"cleanup\.policy=delete"):
        log.compact(EVENTS)
    with pytest.raises(NoSuchTopic):
        log.compact("headway.nothing.v1")


async def test_a_trim_forgets_aborted_transactions_but_not_the_offsets_after_them(log: MemoryLog) -> None:
    writer = await log.open("shard-0")
    log.fail_next_append(Refused)
    with pytest.raises(Refused):
        await writer.append({E0: one(b"aborted")})
    await writer.append({E0: one(b"kept")})
    await log.trim(E0, 1)
    assert [(record.offset, record.value) for record in log.records(E0)] == [(2, b"kept")]
    assert [(record.offset, record.value) for record in log.records(E0, committed=False)] == [(2, b"kept")]


async def test_two_runs_of_the_same_steps_give_the_same_log(clock: Clock) -> None:
    async def run() -> list[object]:
        made = MemoryLog(clock_us=clock)
        await made.ensure_topics(topic_table(2))
        writer = await made.open("shard-0")
        log_id = await made.topic_id(EVENTS)
        made.fail_next_append(OutcomeUnknown, committed=False)
        with pytest.raises(OutcomeUnknown):
            await writer.append({E0: one(b"x"), P0: one(b"y", b"k")})
        writer = await made.open("shard-0")
        await writer.append({E0: one(b"x"), P0: one(b"y", b"k")})
        return [log_id, await made.cluster_id(), made.records(E0), made.records(P0), made.records(E0, committed=False)]

    assert await run() == await run()


async def test_a_closed_log_says_so_to_everyone(log: MemoryLog) -> None:
    writer, follower = await log.open("shard-0"), await log.follow({F0: None})
    waiting = asyncio.create_task(follower.read(timeout_ms=20_000))
    await asyncio.sleep(0)
    await log.close()
    await log.close()
    with pytest.raises(Closed):
        await waiting
    with pytest.raises(Closed):
        await writer.append({E0: one(b"e")})
    with pytest.raises(Closed):
        await log.publish(F0, one(b"f"))
    with pytest.raises(Closed):
        await follower.read()


async def test_a_busy_partition_does_not_starve_the_others(log: MemoryLog) -> None:
    await log.publish((FACTS, 0), [Outgoing(b"busy")] * 100)
    await log.publish((FACTS, 1), one(b"quiet"))
    follower = await log.follow({(FACTS, 0): None, (FACTS, 1): None})
    first, second = await follower.read(max_records=10), await follower.read(max_records=10)
    assert (FACTS, 1) in {**first, **second}
