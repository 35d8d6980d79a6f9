"""Views with `at`: what they answer of a moment is what a read side that had stopped there would answer of the present."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from events.codec import decode_event
from projections import answers
from projections.position import take
from projections.table import Table
from streams import time_travel
from streams.log import Outgoing
from streams.memory_log import MemoryLog
from streams.moments import time_of
from streams.time_travel import TimeTravel
from streams.topics import EVENTS, topic_table
from streams.web import Views
from tests.projections.histories import History, records
from tests.streams.deciding import DEADLINE_S
from tests.streams.test_web import NOW_US, Asker, ReadSide

Log = list[tuple[int, bytes]]
PATHS = ("/v1/queue", "/v1/operations", "/v1/workers", "/v1/instances", "/v1/holds")


class Stage:
    """Two shards: a log of each, a read side at its end, and views of both."""

    def __init__(self, directory: Path) -> None:
        self.read_side = ReadSide()
        self.log = MemoryLog(clock_us=lambda: 0)
        # The same histories once more: the read side has taken its records.
        self.records: list[Log] = [
            records(History(11).run(300)),
            records(History(12, configure=False)),
        ]
        self.past = TimeTravel(self.log, directory)
        self.views = Views(self.read_side, clock_us=lambda: NOW_US, past=self.past)

    async def write(self) -> None:
        await self.log.ensure_topics(topic_table(2))
        for shard, of_shard in enumerate(self.records):
            # Offsets in the log in memory are dense; those in the rows of the read side are not, and no answer of these views shows one.
            await self.log.publish((EVENTS, shard), [Outgoing(value) for _, value in of_shard])

    def stopped_at(self, *seqs: int) -> ReadSide:
        """A read side that has folded so many events of each shard."""
        read_side = ReadSide()
        read_side.rows.by_key.clear()
        read_side.rows = type(read_side.rows)()
        for shard, seq in enumerate(seqs):
            table = Table(read_side.rows, shard)
            for offset, value in self.records[shard][:seq]:
                take(table, offset, value)
            table.flush()
        return read_side


@pytest.fixture
async def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    # A busy machine changes no answer; the test of not waiting sets its own.
    monkeypatch.setattr(time_travel, "WAIT_S", DEADLINE_S)
    made = Stage(tmp_path)
    await made.write()
    yield made
    await made.past.close()


@pytest.fixture
async def ask(stage: Stage) -> AsyncIterator[Asker]:
    application = web.Application()
    stage.views.add_to(application)
    async with TestClient(TestServer(application)) as client:
        yield Asker(client, stage.read_side, [NOW_US])


async def stopped(stage: Stage, path: str, *seqs: int, **parameters: object) -> dict[str, Any]:
    application = web.Application()
    read_side = stage.stopped_at(*seqs)
    Views(read_side, clock_us=lambda: NOW_US).add_to(application)
    async with TestClient(TestServer(application)) as client:
        return await Asker(client, read_side, [NOW_US])(path, **parameters)


@pytest.mark.parametrize("seq", [10, 150, 400])
async def test_a_view_of_an_event_is_that_of_a_read_side_that_stopped_there(stage: Stage, ask: Asker, seq: int) -> None:
    for path in PATHS:
        then = await ask(path, at=seq, instance="main")
        (as_of,) = then.pop("as_of")
        assert then == await stopped(stage, path, seq, 0, instance="main"), path
        assert (as_of["shard"], as_of["seq"]) == (0, seq)
        assert as_of["at_us"] == decode_event(stage.records[0][seq - 1][1]).at_us


async def test_operations_and_holds_are_explained_as_of_a_moment(stage: Stage, ask: Asker) -> None:
    seq = 400
    queued = next(answers.queue(Table(stage.stopped_at(seq, 0).rows, 0), "main"))
    asked = {
        f"/v1/explain/operation/{queued['client_operation_id']}": {"instance": "main"},
        f"/v1/operations/{queued['operation_id']}": {"instance": "main"},
        "/v1/explain/hold": {"instance": "main"},
    }
    for path, parameters in asked.items():
        then = await ask(path, at=seq, **parameters)
        del then["as_of"]
        assert then == await stopped(stage, path, seq, 0, **parameters), path
    # It was not there before it was queued.
    path = f"/v1/operations/{queued['operation_id']}"
    assert (await ask(path, at=2, shard=0, status=404))["error"] == "not-found"


async def test_a_time_is_of_every_shard(stage: Stage, ask: Asker) -> None:
    at_us = decode_event(stage.records[0][199][1]).at_us
    seqs = [sum(decode_event(value).at_us <= at_us for _, value in of_shard) for of_shard in stage.records]
    then = await ask("/v1/operations", at=time_of(at_us), limit=10_000)
    assert [part["seq"] for part in then.pop("as_of")] == seqs
    assert then == await stopped(stage, "/v1/operations", *seqs, limit=10_000)


async def test_a_seq_is_of_one_shard(stage: Stage, ask: Asker) -> None:
    refused = await ask("/v1/queue", at=5, status=400)
    assert "at=5 is of one shard; shards here: 0, 1" in refused["message"]
    assert (await ask("/v1/queue", at=1, shard=1))["as_of"][0]["shard"] == 1


async def test_what_is_no_moment_and_one_that_is_not_there_are_refused(stage: Stage, ask: Asker) -> None:
    assert (await ask("/v1/queue", at="yesterday", status=400))["error"] == "bad-moment"
    last = len(stage.records[0])
    refused = await ask("/v1/queue", at=last + 1, shard=0, status=404)
    assert refused["error"] == "no-such-moment"
    assert f"its last event is seq {last}" in refused["message"]


async def test_what_was_written_since_is_known_when_it_is_asked_for(stage: Stage, ask: Asker) -> None:
    last = len(stage.records[0])
    assert (await ask("/v1/queue", at=last, shard=0))["seq"] == last
    more = History(11).run(340)
    await stage.log.publish((EVENTS, 0), [Outgoing(value) for value in list(more.values())[last:]])
    assert len(more.events) > last
    assert (await ask("/v1/queue", at=len(more.events), shard=0))["seq"] == len(more.events)


async def test_a_long_index_is_not_waited_for_and_the_present_is_answered_meanwhile(
    stage: Stage, ask: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_travel, "WAIT_S", 0.05)
    going_on, opened = asyncio.Event(), time_travel.Timeline.open

    async def slow(*arguments: Any, **named: Any) -> time_travel.Timeline:
        await going_on.wait()
        return await opened(*arguments, **named)

    monkeypatch.setattr(time_travel.Timeline, "open", slow)
    refused = await ask("/v1/queue", at=5, shard=0, status=503)
    assert refused["error"] == "not-ready"
    assert "being indexed" in refused["message"]
    assert (await ask("/v1/queue"))["operations"]
    going_on.set()
    monkeypatch.setattr(time_travel, "WAIT_S", DEADLINE_S)
    assert (await ask("/v1/queue", at=5, shard=0))["seq"] == 5


async def test_a_log_that_does_not_answer_is_said_and_asked_again(stage: Stage, ask: Asker) -> None:
    stage.log.cut()
    assert (await ask("/v1/queue", at=5, shard=0, status=503))["error"] == "log-unavailable"
    stage.log.mend()
    assert (await ask("/v1/queue", at=5, shard=0))["seq"] == 5


async def test_a_read_side_that_keeps_no_past_says_so(stage: Stage) -> None:
    application = web.Application()
    Views(stage.read_side, clock_us=lambda: NOW_US).add_to(application)
    async with TestClient(TestServer(application)) as client:
        refused = await Asker(client, stage.read_side, [NOW_US])("/v1/queue", at=5, status=501)
        assert refused["error"] == "no-past"


async def test_closing_ends_what_is_read_and_frees_the_directories(stage: Stage, tmp_path: Path) -> None:
    async def asked() -> None:
        await stage.past.answered([0, 1], time_travel.Moment(seq=1), lambda tables: {})

    asking = asyncio.create_task(asked())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await stage.past.close()
    await asyncio.wait({asking})
    again = TimeTravel(stage.log, tmp_path)
    assert (await again.answered([1], time_travel.Moment(seq=1), lambda tables: {}))["as_of"][0]["seq"] == 1
    await again.close()
