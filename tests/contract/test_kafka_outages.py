"""What the Kafka log says when the broker does not answer: always within its deadline, and never more than it knows."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from streams.errors import Closed, Fenced, LogUnavailable, OutcomeUnknown
from streams.kafka_log import KafkaLog
from streams.log import Outgoing
from streams.topics import EVENTS, FACTS, PLACEMENTS
from tests.contract.backends import SPECS, KafkaBackend
from tests.contract.cuttable import Wire, wire_to
from tests.contract.reading import read_all, read_some, values

pytestmark = pytest.mark.kafka

F0, E0, P0 = (FACTS, 0), (EVENTS, 0), (PLACEMENTS, 0)
_numbers = itertools.count()


@pytest.fixture
async def near(kafka: str) -> AsyncIterator[KafkaBackend]:
    """Topics, seen over a wire that is never cut."""
    backend = KafkaBackend(kafka, f"o{os.getpid()}-{next(_numbers)}-")
    await backend.log.ensure_topics(SPECS)
    try:
        yield backend
    finally:
        await backend.close()


@pytest.fixture
async def wire(kafka: str) -> AsyncIterator[Wire]:
    async with wire_to(kafka) as made:
        yield made


@pytest.fixture
async def far(near: KafkaBackend, wire: Wire) -> AsyncIterator[KafkaLog]:
    """The same topics over the wire that can be cut."""
    log = KafkaLog(wire.address, prefix=near.prefix, timeout_ms=1500)
    try:
        yield log
    finally:
        async with asyncio.timeout(30):
            await log.close()


@pytest.fixture(autouse=True)
async def nothing_is_left_behind() -> AsyncIterator[None]:
    """Fails a test whose log left tasks running, or exceptions in futures that nobody looked at."""
    seen: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: seen.append(context))
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    if left:
        _, left = await asyncio.wait(left, timeout=5)
    gc.collect()
    assert [context["message"] for context in seen] == []
    assert [task.get_coro().__qualname__ for task in left] == []


def one(value: bytes) -> list[Outgoing]:
    return [Outgoing(value)]


async def test_a_broker_that_was_never_there_is_unavailable_in_time() -> None:
    log = KafkaLog("127.0.0.1:1", timeout_ms=1000)
    started = time.monotonic()
    with pytest.raises(LogUnavailable, match=r"127\.0\.0\.1:1"):
        await log.open("shard-0", timeout_ms=1000)
    with pytest.raises(LogUnavailable):
        await log.follow({F0: None})
    with pytest.raises(LogUnavailable):
        await log.cluster_id()
    await log.close()
    assert time.monotonic() - started < 10


async def test_what_was_prepared_is_dropped_when_the_broker_is_away_and_the_next_open_connects_anew(
    near: KafkaBackend, far: KafkaLog, wire: Wire
) -> None:
    await far.prepare("shard-0", [E0], timeout_ms=1500)
    await far.prepare("never opened", [E0], timeout_ms=1500)
    wire.cut()
    started = time.monotonic()
    with pytest.raises(LogUnavailable, match="open 'shard-0'"):
        await far.open("shard-0", timeout_ms=1500)
    with pytest.raises(LogUnavailable, match="prepare to open 'shard-1'"):
        await far.prepare("shard-1", [E0], timeout_ms=1500)
    assert 1 < time.monotonic() - started < 20
    wire.mend()
    writer = await far.open("shard-0", timeout_ms=10_000)
    await writer.append({E0: one(b"e")})
    reader = await near.log.follow({E0: None})
    assert values(await read_some(reader, E0, 1)) == [b"e"]
    await reader.close()
    await writer.close()


async def test_what_was_prepared_survives_a_broker_that_restarts(near: KafkaBackend, far: KafkaLog, wire: Wire) -> None:
    await far.prepare("shard-0", [E0], timeout_ms=10_000)
    wire.drop()
    writer = await far.open("shard-0", timeout_ms=10_000)
    await writer.append({E0: one(b"e")})
    reader = await near.log.follow({E0: None})
    assert values(await read_some(reader, E0, 1)) == [b"e"]
    await reader.close()
    await writer.close()


async def test_records_that_never_reached_the_broker_are_in_doubt_and_then_aborted(
    near: KafkaBackend, far: KafkaLog, wire: Wire
) -> None:
    writer = await far.open("shard-0", timeout_ms=1500)
    await writer.append({E0: one(b"e1"), P0: one(b"p1")})
    wire.cut()
    started = time.monotonic()
    with pytest.raises(OutcomeUnknown) as caught:
        await writer.append({E0: one(b"e2"), P0: one(b"p2")})
    assert 1 < time.monotonic() - started < 10
    assert (caught.value.phase, caught.value.waited_ms) == ("send", 1500)
    with pytest.raises(Closed, match="outcome-unknown"):
        await writer.append({E0: one(b"e3")})
    async with asyncio.timeout(15):
        await writer.close()

    owner = await near.log.open("shard-0")
    await owner.append({E0: one(b"e4")})
    assert values(await read_all(near.log, E0)) == [b"e1", b"e4"]
    assert values(await read_all(near.log, P0)) == [b"p1"]
    await owner.close()


async def test_a_commit_without_an_answer_is_in_doubt_and_the_log_knows(
    near: KafkaBackend, far: KafkaLog, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = await far.open("shard-0", timeout_ms=1500)
    commit = writer._producer.commit_transaction

    async def commit_unheard() -> None:
        wire.cut_answers()
        await commit()

    monkeypatch.setattr(writer._producer, "commit_transaction", commit_unheard)
    with pytest.raises(OutcomeUnknown) as caught:
        await writer.append({E0: one(b"e"), P0: one(b"p")})
    assert caught.value.phase == "commit"
    await writer.close()

    # Opening again decides it for everyone; here the request had arrived, so all of it is there.
    owner = await near.log.open("shard-0")
    assert values(await read_all(near.log, E0)) == [b"e"]
    assert values(await read_all(near.log, P0)) == [b"p"]
    await owner.close()


async def test_a_publish_without_an_answer_is_in_doubt_and_the_next_one_works(
    near: KafkaBackend, far: KafkaLog, wire: Wire
) -> None:
    assert await far.publish(F0, one(b"f1")) == [0]
    wire.cut_answers()
    with pytest.raises(OutcomeUnknown) as caught:
        await far.publish(F0, one(b"f2"))
    assert caught.value.phase == "publish"
    wire.mend()
    assert await far.publish(F0, one(b"f3")) == [2]
    assert values(await read_all(near.log, F0)) == [b"f1", b"f2", b"f3"]


async def test_a_publish_given_up_before_it_was_sent_never_arrives_later(
    near: KafkaBackend, far: KafkaLog, wire: Wire
) -> None:
    await far.publish(F0, one(b"f1"))
    wire.cut()
    on_the_wire = asyncio.create_task(far.publish(F0, [Outgoing(b"on the wire")] * 100))
    queued = asyncio.create_task(far.publish(F0, [Outgoing(b"queued behind it")] * 100))
    for publishing in (on_the_wire, queued):
        with pytest.raises(OutcomeUnknown):
            await publishing
    wire.mend()
    await far.publish(F0, one(b"f2"))
    read = values(await read_all(near.log, F0))
    assert b"queued behind it" not in read
    assert set(read) >= {b"f1", b"f2"}


async def test_a_takeover_is_no_noise(near: KafkaBackend) -> None:
    first = await near.log.open("shard-0")
    await first.append({E0: one(b"e1")})
    second = await near.log.open("shard-0")
    with pytest.raises(Fenced):
        await first.append({E0: one(b"e2"), P0: one(b"p2")})
    await first.close()
    await second.close()


async def test_dropped_connections_are_made_again_and_nothing_is_lost_or_doubled(
    near: KafkaBackend, far: KafkaLog, wire: Wire
) -> None:
    writer = await far.open("shard-0", timeout_ms=10_000)
    follower = await far.follow({E0: None})
    expected = [b"%d" % number for number in range(6)]
    for value in expected:
        await writer.append({E0: one(value)})
        await far.publish(F0, one(value))
        assert await far.cluster_id()
        assert await follower.end_offset(E0) == 2 * int(value) + 2
        wire.drop()
    assert values(await read_some(follower, E0, 6)) == expected
    assert values(await read_all(near.log, E0)) == expected
    assert values(await read_all(near.log, F0)) == expected
    await follower.close()
    await writer.close()


async def test_a_follower_waits_out_an_outage_and_goes_on_where_it_was(
    near: KafkaBackend, far: KafkaLog, wire: Wire
) -> None:
    await near.log.publish(F0, one(b"f1"))
    follower = await far.follow({F0: None})
    assert values(await read_some(follower, F0, 1)) == [b"f1"]
    wire.cut()
    await near.log.publish(F0, one(b"f2"))
    assert await follower.read(timeout_ms=300) == {}
    with pytest.raises(LogUnavailable):
        await follower.end_offset(F0)
    wire.mend()
    assert values(await read_some(follower, F0, 1)) == [b"f2"]
    assert await follower.end_offset(F0) == 2
    await follower.close()


async def test_an_append_cancelled_half_way_kills_the_writer_and_stays_invisible(
    near: KafkaBackend, far: KafkaLog, wire: Wire
) -> None:
    writer = await far.open("shard-0", timeout_ms=5000)
    await writer.append({E0: one(b"e1")})
    wire.cut()
    appending = asyncio.create_task(writer.append({E0: one(b"e2")}))
    done, _ = await asyncio.wait([appending], timeout=0.3)
    assert not done
    appending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await appending
    with pytest.raises(Closed, match="cancelled"):
        await writer.append({E0: one(b"e3")})
    async with asyncio.timeout(15):
        await writer.close()
    owner = await near.log.open("shard-0")
    assert values(await read_all(near.log, E0)) == [b"e1"]
    await owner.close()


async def test_two_appends_at_once_are_a_mistake(near: KafkaBackend) -> None:
    writer = await near.log.open("shard-0")
    first = asyncio.create_task(writer.append({E0: one(b"a")}))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="belongs to one task"):
        await writer.append({E0: one(b"b")})
    await first
    await writer.close()
