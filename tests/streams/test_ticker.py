"""Ticks: when they are due, and that a log that is away does not end the ticker."""

from __future__ import annotations

import asyncio

import pytest

from events.codec import decode_fact
from events.facts import Tick
from streams import ticker as ticker_module
from streams.ticker import TICK, Schedule, Ticker
from streams.topics import FACTS
from tests.streams.deciding import Cluster, until


def test_the_tick_that_is_published_is_a_tick() -> None:
    assert decode_fact(TICK) == Tick()


def test_ticks_are_half_a_second_apart() -> None:
    schedule = Schedule()
    at = [now for now in range(0, 3_000_000, 10_000) if schedule.due(now)]
    assert at == [0, 500_000, 1_000_000, 1_500_000, 2_000_000, 2_500_000]


def test_a_late_tick_does_not_move_those_after_it() -> None:
    schedule = Schedule()
    assert schedule.due(0)
    assert schedule.due(530_000)
    assert not schedule.due(999_999)
    assert schedule.due(1_000_000)


def test_missed_ticks_are_skipped() -> None:
    schedule = Schedule()
    assert schedule.due(0)
    assert schedule.due(10_000_000)
    assert not schedule.due(10_000_001)
    assert schedule.due(10_500_000)


async def test_it_looks_at_once_when_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ticker_module, "_LOOK_S", 3_600.0)
    cluster = await Cluster.start()
    stop, wanted = asyncio.Event(), []
    ticker = Ticker(
        cluster.log,
        0,
        wanted=lambda _: bool(wanted) and wanted.pop(),
        published=lambda _: None,
        monotonic_us=lambda: 42,
    )
    running = asyncio.create_task(ticker.run(stop))
    for count in (1, 2):
        wanted.append(True)
        ticker.look()
        await until(lambda count=count: ticker.ticks == count)
    stop.set()
    ticker.look()
    await asyncio.wait_for(running, 5)


async def test_it_ticks_when_wanted_and_goes_on_after_an_outage() -> None:
    cluster = await Cluster.start()
    stop, wanted, told = asyncio.Event(), [True], []

    def want(now_us: int) -> bool:
        return bool(wanted) and wanted.pop()

    ticker = Ticker(cluster.log, 0, wanted=want, published=told.append, monotonic_us=lambda: 42)
    running = asyncio.create_task(ticker.run(stop))
    await until(lambda: ticker.ticks == 1)
    assert [record.value for record in cluster.records(FACTS)] == [TICK]
    assert told == [42]
    cluster.log.cut()
    wanted.append(True)
    await until(lambda: ticker.failures == 1)
    cluster.log.mend()
    wanted.append(True)
    await until(lambda: ticker.ticks == 2)
    assert len(cluster.records(FACTS)) == 2
    stop.set()
    await asyncio.wait_for(running, 5)
