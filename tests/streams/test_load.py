"""A load's life cycles are whole, its queue never ends while it is to, and every slot that it frees is filled again."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from events import events as e
from events.codec import decode_event
from streams import load as load_module
from streams.load import Load, Stalled
from streams.log import Log, records_between
from streams.memory_log import MemoryLog
from streams.provisioning import provision
from streams.topics import EVENTS
from tests.streams.scheduling import scheduler

AT = (EVENTS, 0)


async def events_of(log: Log) -> list[e.Event]:
    follower = await log.follow({AT: None})
    end = await follower.end_offset(AT)
    await follower.close()
    return [decode_event(record.value) async for batch in records_between(log, AT, None, end) for record in batch]


async def counted(log: Log) -> Counter[type]:
    return Counter(type(event) for event in await events_of(log))


async def test_at_a_rate_every_action_runs_through_its_life_cycle_once():
    async with scheduler() as log:
        async with Load(log, workers=4, slots=8) as load:
            seen = await load.at_rate(200, 0.3)
        kinds = await counted(log)
    assert seen.published == seen.placed == seen.finished == len(seen.waits_ns) == 60
    assert all(wait > 0 for wait in seen.waits_ns)
    for kind in (e.OperationQueued, e.OperationDispatched, e.OperationAccepted, e.OperationFinished):
        assert kinds[kind] == 60, kind


async def test_in_flight_goes_on_as_long_as_it_is_open_and_leaves_nothing():
    async with scheduler() as log:
        async with Load(log, workers=2, slots=4) as load, load.in_flight(5) as measure:
            first, took_s = await measure(0.3)
            second, _ = await measure(0.3)
        kinds = await counted(log)
    assert first > 5
    assert second > 5
    assert took_s >= 0.3
    assert kinds[e.OperationQueued] == kinds[e.OperationFinished] == load.seen.finished >= first + second


async def test_more_in_flight_than_the_fleet_takes_is_a_queue_that_never_ends():
    async with scheduler() as log:
        async with Load(log, workers=2, slots=4) as load, load.in_flight(2 * load.capacity + 50) as measure:
            for _ in range(100):
                await measure(0.1)
                if load.seen.finished > 300:
                    break
        events = await events_of(log)
    assert load.seen.finished > 300
    waiting, least, begun = 0, 1_000, False
    finished = [index for index, event in enumerate(events) if isinstance(event, e.OperationFinished)]
    for event in events[: finished[-60]]:  # what comes after is its end: it no longer queues what ended
        waiting += isinstance(event, e.OperationQueued) - isinstance(event, e.OperationDispatched)
        begun = begun or waiting >= 50
        if begun:
            least = min(least, waiting)
    assert begun
    assert least >= 50 - load.capacity


async def test_each_slot_that_is_freed_is_filled_again():
    async with scheduler() as log:
        async with Load(log, workers=3, slots=1) as load:
            waits = await load.freed(20, 7)
        kinds = await counted(log)
    assert len(waits) == 7
    assert all(wait > 0 for wait in waits)
    assert kinds[e.OperationQueued] == 23
    assert kinds[e.OperationFinished] == 7
    assert kinds[e.OperationDispatched] == 3 + 7


async def test_the_fleet_goes_when_the_load_ends():
    async with scheduler() as log:
        async with Load(log, workers=3):
            pass
        kinds = await counted(log)
        while kinds[e.WorkerDisconnected] < 3:
            await asyncio.sleep(0.01)
            kinds = await counted(log)
    assert kinds[e.WorkerAdmitted] == 3


async def test_a_load_that_nobody_decides_for_says_so(monkeypatch):
    monkeypatch.setattr(load_module, "_QUIET_S", 0.2)
    log = MemoryLog()
    await provision(log, {"main": 0})
    async with Load(log, workers=1) as load:
        with pytest.raises(Stalled, match="0 of 3 actions were placed"):
            await load.at_rate(100, 0.03)
        with pytest.raises(Stalled, match="0 of 64 runs"):
            await load.freed(1, 1)
