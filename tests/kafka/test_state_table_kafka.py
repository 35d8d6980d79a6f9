"""The read side on a real Kafka: whatever is killed, wiped, aborted or skipped, the table is the clean replay of the log."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import shutil
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from events.codec import chain_of, encode_event
from events.events import Ticked
from projections import keys
from projections.position import take
from projections.rows import MemoryRows
from projections.table import Table
from streams.log import Outgoing
from streams.store import Store
from streams.topics import EVENTS
from streams.views import ViewsUnreachable
from tests.kafka.read_side import DEADLINE_S, ReadSideProcess, Shards

_numbers = itertools.count()


@pytest.fixture
async def make_shards(kafka: str) -> AsyncIterator[Callable[..., object]]:
    made: list[Shards] = []

    async def make(*, shards: int = 1, seed: int = 1) -> Shards:
        found = Shards(kafka, f"r{os.getpid()}-{next(_numbers)}-", shards=shards, seed=seed)
        made.append(found)
        await found.start()
        return found

    yield make
    for shards in made:
        await shards.close()


@pytest.fixture
def read_side(tmp_path: Path) -> Iterator[Callable[..., ReadSideProcess]]:
    made: list[ReadSideProcess] = []

    def make(shards: Shards, home: str = "home", **options: object) -> ReadSideProcess:
        process = ReadSideProcess(shards, tmp_path / home, **options)  # type: ignore[arg-type]
        made.append(process)
        process.start()
        return process

    yield make
    for process in made:
        process.end()


async def reached(process: ReadSideProcess, shards: Shards, shard: int = 0) -> dict[str, object]:
    return await asyncio.to_thread(process.reaches, shards.seq(shard), shard)


async def equals_replay(process: ReadSideProcess, shards: Shards) -> None:
    for shard in range(len(shards.histories)):
        await reached(process, shards, shard)
        assert await asyncio.to_thread(process.rows, shard) == await shards.replayed(shard), f"shard {shard}"


async def committed(shards: Shards, group: str, shard: int = 0) -> int | None:
    consumer = AIOKafkaConsumer(bootstrap_servers=shards.bootstrap, group_id=group, enable_auto_commit=False)
    await consumer.start()
    try:
        return await consumer.committed(TopicPartition(shards.prefix + EVENTS, shard))  # type: ignore[no-any-return]
    finally:
        await consumer.stop()


async def test_records_of_an_aborted_transaction_never_reach_the_table(make_shards, read_side) -> None:
    shards = await make_shards()
    await shards.write(50)
    process = read_side(shards)
    await reached(process, shards)
    # A valid continuation of the log: whoever reads uncommitted records folds it, and stops at the real one.
    tick, _ = encode_event(Ticked(shards.seq() + 1, 5, 5), 1, chain_of(shards.written[0][-1]))
    producer = AIOKafkaProducer(bootstrap_servers=shards.bootstrap, transactional_id=shards.prefix + "aborting")
    await producer.start()
    try:
        for _ in range(20):
            await producer.begin_transaction()
            await producer.send_and_wait(shards.prefix + EVENTS, tick, partition=0)
            await producer.abort_transaction()
        await producer.begin_transaction()
        await producer.send_and_wait(shards.prefix + EVENTS, tick, partition=0)
        await asyncio.to_thread(process.reaches, shards.seq())
        assert (await asyncio.to_thread(process.views.status))["shards"][0]["seq"] == shards.seq()
        await producer.abort_transaction()
    finally:
        await producer.stop()
    await shards.write(50)
    await equals_replay(process, shards)


async def test_the_committed_offset_follows_on_a_transactional_topic(make_shards, read_side) -> None:
    shards = await make_shards()
    process = read_side(shards)
    group = shards.prefix + "headway-state-table"
    for _ in range(3):
        await shards.write(300, records=7)
        state = await reached(process, shards)
        until_s = time.monotonic() + DEADLINE_S
        while (found := await committed(shards, group)) != state["next_offset"]:
            assert time.monotonic() < until_s, f"committed {found}, the table stands at {state['next_offset']}"


async def test_kills_in_a_burst_and_restarts_give_the_clean_replay(make_shards, read_side) -> None:
    """The named proof: SIGKILL of the Faust process while events pour in, several times, two shards."""
    shards = await make_shards(shards=2, seed=7)
    rng = random.Random(7)
    process = read_side(shards)
    done = asyncio.Event()

    async def burst(shard: int) -> None:
        while not done.is_set():
            await shards.write(10, shard=shard, records=rng.choice((3, 50)))
            await asyncio.sleep(0)

    writing = [asyncio.ensure_future(burst(shard)) for shard in range(2)]
    try:
        for _ in range(4):
            await reached(process, shards, rng.randrange(2))
            await asyncio.to_thread(process.kill)
            process.start()
            if rng.random() < 0.4:  # in the middle of starting, too
                await asyncio.to_thread(process.kill)
                process.start()
    finally:
        done.set()
        await asyncio.gather(*writing)
    await equals_replay(process, shards)
    assert process.stop() == 0


async def test_a_killed_process_holds_nothing_but_whole_events(make_shards, read_side) -> None:
    """What lies on the disk after SIGKILL is the replay up to the position that lies there."""
    shards = await make_shards()
    process = read_side(shards)
    await shards.write(200)
    await reached(process, shards)
    writing = asyncio.ensure_future(shards.write(600, records=20))
    await asyncio.to_thread(process.reaches, shards.seq() + 50)
    await asyncio.to_thread(process.kill)
    await writing
    store = Store.read_only(process.home / "state-table" / shards.prefix)
    try:
        row = store.table(0).shard
        held = dict(store.scan(keys.shard_prefix(0), keys.after_prefix(keys.shard_prefix(0))))
    finally:
        store.close()
    follower = await shards.log.follow({(EVENTS, 0): None})
    table = Table(MemoryRows(), 0)
    while table.shard.next_offset < row.next_offset:
        for record in (await follower.read()).get((EVENTS, 0), []):
            if record.offset < row.next_offset:
                take(table, record.offset, record.value)
    await follower.close()
    table.flush()
    assert row.seq >= 250
    assert isinstance(table.rows, MemoryRows)
    assert held == table.rows.by_key


async def test_wiped_local_state_is_made_again_from_the_log(make_shards, read_side) -> None:
    shards = await make_shards()
    await shards.write(500)
    process = read_side(shards)
    await reached(process, shards)
    assert process.stop() == 0
    shutil.rmtree(process.home / "state-table")
    await shards.write(100)
    process.start()
    await equals_replay(process, shards)


async def test_an_unreadable_store_is_dropped_with_a_reason_and_made_again(make_shards, read_side) -> None:
    shards = await make_shards()
    await shards.write(200)
    process = read_side(shards)
    await reached(process, shards)
    assert process.stop() == 0
    for manifest in (process.home / "state-table" / shards.prefix / "rows").glob("MANIFEST-*"):
        manifest.write_bytes(b"not a manifest")
    process.start()
    await equals_replay(process, shards)
    assert (await asyncio.to_thread(process.views.status))["process"]["dropped"] == {"unreadable": 1}
    assert "reason=unreadable" in process.log_text()


async def test_a_tail_faster_than_the_agent_is_led_by_the_reader_and_handed_back(make_shards, read_side) -> None:
    shards = await make_shards()
    await shards.write(10)
    process = read_side(shards)
    await reached(process, shards)
    for _ in range(4):
        await shards.write(1_500, records=5_000)
    state = await reached(process, shards)
    assert int(str(state["led"])) + int(str(state["events_by_catch_up"])) >= 1
    until_s = time.monotonic() + DEADLINE_S
    while (await asyncio.to_thread(process.reaches, shards.seq()))["read_by"] != "agent":
        assert time.monotonic() < until_s
    before = int(str((await reached(process, shards))["events_by_agent"]))
    # Faust takes up a resumed partition within its own second; what comes before that, the reader still folds.
    while int(str(state["events_by_agent"])) <= before:
        assert time.monotonic() < until_s, state
        await shards.write(2)
        state = await reached(process, shards)
    await equals_replay(process, shards)


async def test_a_gap_in_the_log_stops_the_process_with_its_position_and_nothing_is_folded_past_it(
    make_shards, read_side
) -> None:
    shards = await make_shards()
    await shards.write(100)
    process = read_side(shards)
    await reached(process, shards)
    seq = shards.seq()
    values = list(shards.histories[0].run(20).values())
    writer = await shards.log.open("decider-0")
    await writer.append({(EVENTS, 0): [Outgoing(value) for value in values[1:]]})
    await writer.close()
    assert await asyncio.to_thread(process.wait) == 1
    assert "code=HW-204" in process.log_text()
    assert f"after event {seq}" in process.log_text()


async def test_two_processes_on_one_directory_are_refused(make_shards, read_side) -> None:
    shards = await make_shards()
    await shards.write(20)
    process = read_side(shards)
    await reached(process, shards)
    other = ReadSideProcess(shards, process.home)
    other.log_file = process.home / "other.log"
    other.start()
    assert await asyncio.to_thread(other.wait) == 1
    assert "store-locked" in other.log_text()
    await equals_replay(process, shards)


async def test_a_port_that_is_taken_is_one_error_with_a_remedy(make_shards, read_side) -> None:
    shards = await make_shards()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = read_side(shards, port=taken.getsockname()[1])
        assert await asyncio.to_thread(process.wait) == 1
    assert "port-taken" in process.log_text()
    assert "Choose another port" in process.log_text()
    assert "Traceback" not in process.log_text()


async def test_two_processes_of_one_group_share_the_shards(make_shards, read_side) -> None:
    shards = await make_shards(shards=2)
    for shard in range(2):
        await shards.write(100, shard=shard)
    first = read_side(shards, "one")
    for shard in range(2):
        await reached(first, shards, shard)
    second = read_side(shards, "two")
    until_s = time.monotonic() + DEADLINE_S
    while True:
        assert time.monotonic() < until_s, second.log_text()
        held = [[], []]
        for number, process in enumerate((first, second)):
            with contextlib.suppress(ViewsUnreachable):
                held[number] = [s["shard"] for s in (await asyncio.to_thread(process.views.status))["shards"]]
        if sorted(held[0] + held[1]) == [0, 1] and all(held):
            break
    for shard in range(2):
        await shards.write(100, shard=shard)
        owner = (first, second)[next(number for number in range(2) if shard in held[number])]
        await reached(owner, shards, shard)
        assert await asyncio.to_thread(owner.rows, shard) == await shards.replayed(shard)


async def test_faust_starts_it_too(make_shards, read_side) -> None:
    shards = await make_shards()
    await shards.write(100)
    command = [sys.executable, "-m", "faust", "-A", "streams.state_table", "worker", "-l", "error"]
    process = read_side(shards, command=command)
    await equals_replay(process, shards)
    assert await asyncio.to_thread(process.stop) == 0, process.log_text()


async def test_without_topics_it_says_so_and_ends(kafka: str, tmp_path: Path, read_side) -> None:
    shards = Shards(kafka, f"r{os.getpid()}-{next(_numbers)}-")
    try:
        process = read_side(shards)
        assert await asyncio.to_thread(process.wait) == 1
        assert "headway topics apply" in process.log_text()
    finally:
        await shards.close()
