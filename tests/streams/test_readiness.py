"""When the read side may answer: the gate itself, and a whole process behind it on a log in memory, held up at any point."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import aiohttp
import pytest

from streams.broker.ports import free_ports
from streams.catch_up import take_records
from streams.cli.state_table import run_until_told
from streams.local_tables import LocalTables
from streams.log import Follower, Outgoing, Partition, Record
from streams.memory_log import MemoryLog
from streams.place import Place
from streams.readiness import LOCALITY_AFTER_S
from streams.store import Store
from streams.topics import EVENTS, topic_table
from tests.projections.histories import History

DEADLINE_S = 60.0
CLOSED = ("/v1/queue", "/v1/operations", "/v1/operations/op-1", "/v1/workers", "/v1/instances", "/v1/holds", "/v1/rows")
LOCALITY = ("/locality/stats", "/locality/holders/" + "ab" * 32 + "-7")


class HeldLog(MemoryLog):
    """A log whose event reads bring at most `allowed` records in all, then wait for more to be allowed."""

    def __init__(self, allowed: int) -> None:
        super().__init__()
        self.allowed = allowed

    async def follow(self, partitions: Mapping[Partition, int | None], *, committed: bool = True) -> Any:
        return _Held(await super().follow(partitions, committed=committed), self)


class _Held:
    def __init__(self, follower: Follower, log: HeldLog) -> None:
        self._follower, self._log = follower, log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._follower, name)

    async def read(self, *, max_records: int = 2000, timeout_ms: int = 200) -> dict[Partition, list[Record]]:
        if self._log.allowed <= 0:
            await asyncio.sleep(0.001)
            return {}
        found = await self._follower.read(max_records=min(max_records, self._log.allowed), timeout_ms=timeout_ms)
        self._log.allowed -= sum(map(len, found.values()))
        return found


def fail() -> NoReturn:
    """In place of the end of the process, which would be the test's."""
    raise RuntimeError("the read side gave up; its log lines say why")


class Process:
    """A read side without Faust, whose log is held up and whose clock stands."""

    def __init__(self, log: HeldLog, data_dir: Path) -> None:
        self.log, self.now_s = log, 0.0
        place = Place("memory", data_dir, 0)
        self.tables = LocalTables(place, log, clock_s=lambda: self.now_s, end=fail)
        self.port = 0

    async def listen(self) -> None:
        self.port = await self.tables.listen()

    async def ask(self, path: str) -> tuple[int, dict[str, Any]]:
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"http://127.0.0.1:{self.port}{path}") as answer,
        ):
            return answer.status, await answer.json()

    async def reaches(self, seq: int) -> None:
        until_s = time.monotonic() + DEADLINE_S
        while self.tables.store.table(0).shard.seq < seq:
            assert time.monotonic() < until_s, f"not at event {seq}"
            await asyncio.sleep(0.005)


@pytest.fixture
async def values() -> list[bytes]:
    return list(History(3).run(150).values())


@pytest.fixture
async def process(tmp_path: Path, values: list[bytes]) -> AsyncIterator[Process]:
    """A log of many events, of which the reader gets the first ten."""
    log = HeldLog(allowed=10)
    await log.ensure_topics(topic_table(1))
    await log.publish((EVENTS, 0), [Outgoing(value) for value in values])
    made = Process(log, tmp_path / "table")
    yield made
    await made.tables.close()


async def test_public_api_listens_but_does_not_answer_before_recovery(process: Process, values: list[bytes]) -> None:
    await process.listen()
    for path in (*CLOSED, *LOCALITY, "/healthz"):
        status, answer = await process.ask(path)
        assert (status, answer["error"]) == (503, "not-ready"), path
        assert answer["remedy"]
    assert "has not answered yet" in answer["message"]

    await process.tables.recover()
    process.tables.read_alone([0])  # as the group's assignment would: the store is empty
    await process.reaches(10)
    for path in (*CLOSED, *LOCALITY, "/healthz"):
        status, answer = await process.ask(path)
        assert status == 503, f"{path} is answered from a table that stands at event 10 of {len(values)}"
        left = len(values) - 10
        assert answer["progress"] == [{"shard": 0, "seq": 10, "position": 10, "end": len(values), "left": left}]
        assert f"event 10, offset 10 of {len(values)}, {left} left" in answer["message"]
        assert answer["since_us"] > 0
    status, answer = await process.ask("/v1/status")
    assert (status, answer["ready"], answer["shards"][0]["seq"]) == (200, False, 10)
    assert {answer["shards"][0][name] for name in ("queued", "executing", "workers")} == {None}

    process.log.allowed = len(values)
    await process.reaches(len(values))
    assert await process.tables.wait_until_open(DEADLINE_S)
    for path in (*CLOSED, "/healthz"):
        status, answer = await process.ask(path)
        assert status == (404 if "op-1" in path else 200), (path, answer)
    assert (await process.ask("/v1/status"))[1]["shards"][0]["queued"] is not None


async def test_what_comes_after_the_start_is_lag_and_closes_nothing(process: Process, values: list[bytes]) -> None:
    await process.listen()
    await process.tables.recover()
    process.tables.read_alone([0])
    process.log.allowed = len(values)  # no more than that
    assert await process.tables.wait_until_open(DEADLINE_S)
    await process.log.publish((EVENTS, 0), [Outgoing(b"held back: not read before the test ends")])
    status, answer = await process.ask("/v1/queue")
    assert (status, answer["seq"]) == (200, len(values))


async def test_readiness_opens_after_30_s_for_locality_only(process: Process, values: list[bytes]) -> None:
    await process.listen()
    await process.tables.recover()
    process.tables.read_alone([0])
    await process.reaches(10)
    process.now_s = LOCALITY_AFTER_S - 0.001
    for path in LOCALITY:
        assert (await process.ask(path))[0] == 503, f"{path} is answered before its time"
    process.now_s = LOCALITY_AFTER_S
    for path in CLOSED:
        status, answer = await process.ask(path)
        assert (status, answer["error"]) == (503, "not-ready"), f"{path} is answered from half a table"
    for path in LOCALITY:
        status, answer = await process.ask(path)
        assert (status, answer["complete"]) == (200, False), path
        assert answer["seq"] == 10
        assert answer["progress"][0]["left"] == len(values) - 10
    process.log.allowed = len(values)
    await process.reaches(len(values))
    assert await process.tables.wait_until_open(DEADLINE_S)
    for path in LOCALITY:
        status, answer = await process.ask(path)
        assert (status, answer["complete"]) == (200, True), path


async def test_locality_opens_after_30_s_even_where_the_log_does_not_answer(
    process: Process, values: list[bytes]
) -> None:
    """Nothing is known then, and the answer says so: an index fails open. The log is waited for, and read when it answers."""
    process.log.cut()
    await process.listen()
    recovering = asyncio.create_task(process.tables.recover())
    process.now_s = LOCALITY_AFTER_S
    status, answer = await process.ask(LOCALITY[1])
    assert (status, answer["holders"], answer["complete"]) == (200, [], False)
    status, answer = await process.ask("/v1/workers")
    assert status == 503
    assert "has not answered yet" in answer["message"]
    assert not recovering.done()
    process.log.mend()
    await asyncio.wait_for(recovering, DEADLINE_S)
    process.tables.read_alone([0])
    process.log.allowed = len(values)
    assert await process.tables.wait_until_open(DEADLINE_S)
    assert (await process.ask("/v1/workers"))[0] == 200


async def test_stop_during_recovery_exits_cleanly(process: Process, values: list[bytes]) -> None:
    """The gate of the start is closed; SIGTERM ends the process all the same, at a whole event, and frees port and directory."""
    data_dir, port = process.tables.place.data_dir, next(free_ports(23_000))
    ids = {"cluster_id": await process.log.cluster_id(), "topic_id": await process.log.topic_id(EVENTS)}
    with closing(Store.open(data_dir, **ids)) as store:
        take_records(store.table(0), process.log.records((EVENTS, 0))[:2])
    tables = LocalTables(Place("memory", data_dir, port), process.log, end=fail)
    running = asyncio.create_task(run_until_told(tables.place, tables))
    until_s = time.monotonic() + DEADLINE_S
    while tables.progress() == [] or tables.store.table(0).shard.seq < 12:
        assert not running.done(), running.exception()
        assert time.monotonic() < until_s, "recovery does not begin"
        await asyncio.sleep(0.005)
    assert not tables.gate.is_open
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(running, DEADLINE_S)
    assert not tables.gate.is_open
    with closing(Store.open(data_dir, **ids)) as store:
        assert store.dropped == {}
        assert store.table(0).shard.seq == 12
    process.port = port
    with pytest.raises(aiohttp.ClientConnectorError):
        await process.ask("/healthz")
