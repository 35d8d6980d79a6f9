"""Latency, throughput and processor time of whole life cycles through real Kafka, exactly once, with everything on this machine.

A broker of its own (or the cluster in HEADWAY_BOOTSTRAP_SERVERS), the decider, the Faust read side and a load generator run as they do in
production. Beside them stand, from the same run, the log's own rates and the echo loop: the same loop with nothing to decide.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Final

from streams.bench import _echo, _raw
from streams.bench._rows import Row, at_least, at_most, not_measured, percentile, reference
from streams.bench._watching import BROKER, GENERATOR, Watch, until_ready, watched
from streams.demo.stage import DECIDER, Stage, new_home, raise_broker, staged, strike
from streams.load import Load, Seen
from streams.provisioning import provision
from streams.settings import load_settings

INSTANCE: Final = "main"
LATENCY_MS: Final = {500: (20, 80), 5_000: (30, 90)}
"""By rate: what p50 and p99 from queue to placement may be."""

LIFE_CYCLES_PER_S: Final = 10_000
LIFE_CYCLES_PER_S_QUEUED: Final = 8_000
DECIDER_US: Final = 45
TABLE_BEHIND_S: Final = 2
SLOW_RATE: Final = 100
SLOW_CORES: Final = 0.8
SLOW_P50_MS: Final = 30
IDLE_CORES: Final = 0.15
RIVAL_PER_S: Final = 16_000
"""The least of what NativeLink 1.6.6 does on the same kind of machine, in memory and with nothing durable (16,000 to 25,000)."""

QUEUED: Final = 10_000
FREED_WORKERS, FREED_TIMES = 1_000, 100
FREED_MS: Final = 7.4
"""A hundredth of NativeLink's time from a slot that is freed to the next dispatch, with as many workers and actions."""

_WARM_S: Final = 3.0


def run(seconds: int = 60, queued_seconds: int = 20, rate_seconds: int = 10) -> list[Row]:
    """Queue-to-placement latency at fixed rates, life cycles a second, and processor time, through real Kafka."""
    home = new_home("live")
    try:
        return asyncio.run(_measured(home, seconds, queued_seconds, rate_seconds))
    finally:
        strike(home, _say, keep=False)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


async def _measured(home: Path, seconds: int, queued_seconds: int, rate_seconds: int) -> list[Row]:
    broker = await asyncio.to_thread(raise_broker, home, load_settings(), _say)
    rows: list[Row] = []
    async with staged(home, broker, {}, lambda log: provision(log, {INSTANCE: 0}), _say, called="live") as stage:
        await until_ready(stage)
        # First of all: they warm the broker, and nothing else is at work.
        limits = await _raw.rows(stage.log)
        async with _echo.own_topics(broker.bootstrap_servers) as log:
            limits += await _echo.rows(log)
        async with Load(stage.log, instance=INSTANCE, run="l") as load:
            # Otherwise the first figures would hold the start of the parts.
            await load.at_rate(max(LATENCY_MS), _WARM_S)
            rows.append(await _idle(stage, rate_seconds))
            rows += await _slow(stage, load, rate_seconds)
            for rate in LATENCY_MS:
                rows += await _at_rate(stage, load, rate, rate_seconds)
            rows += await _in_flight(stage, load, 2_000, seconds)
            rows.append(await _always_queued(load, queued_seconds))
        rows.append(await _freed(stage))
    return rows + limits


async def _idle(stage: Stage, seconds: int) -> Row:
    async with watched(stage) as watch:
        await asyncio.sleep(seconds)
    return _cores(watch, "whole system, idle, 64 workers connected", IDLE_CORES)


async def _slow(stage: Stage, load: Load, seconds: int) -> list[Row]:
    async with watched(stage) as watch:
        seen = await load.at_rate(SLOW_RATE, float(seconds))
    return [
        _cores(watch, f"whole system at {SLOW_RATE} life cycles/s", SLOW_CORES),
        *(
            reference(f"of it the {name}", used / watch.took_s, "cores")
            for name, used in watch.used_s.items()
            if name != GENERATOR
        ),
        reference("beside it the load generator", watch.used_s[GENERATOR] / watch.took_s, "cores"),
        at_most(f"queue to placement p50 at {SLOW_RATE}/s", _ms(seen, 0.50), "ms", SLOW_P50_MS),
    ]


async def _at_rate(stage: Stage, load: Load, rate: int, seconds: int) -> list[Row]:
    async with watched(stage, lag=rate == max(LATENCY_MS)) as watch:
        seen = await load.at_rate(rate, float(seconds))
    p50_ms, p99_ms = LATENCY_MS[rate]
    rows = [
        at_most(f"queue to placement p50 at {rate:,}/s", _ms(seen, 0.50), "ms", p50_ms),
        at_most(f"queue to placement p99 at {rate:,}/s", _ms(seen, 0.99), "ms", p99_ms),
    ]
    if rate == max(LATENCY_MS):
        rows.append(at_most(f"state table behind the log at {rate:,}/s, at most", watch.behind_s, "s", TABLE_BEHIND_S))
    return rows


async def _in_flight(stage: Stage, load: Load, number: int, seconds: int) -> list[Row]:
    async with load.in_flight(number) as measure:
        await measure(_WARM_S)
        async with watched(stage, lag=True) as watch:
            ended, took_s = await measure(float(seconds))
    used_us = {name: 1e6 * used / max(1, ended) for name, used in watch.used_s.items()}
    case = f"whole life cycles, exactly once, {number:,} in flight, {seconds} s"
    return [
        at_least(case, ended / took_s, "1/s", LIFE_CYCLES_PER_S),
        reference(
            "the same beside the least of NativeLink's in memory, 16,000/s", ended / took_s, "1/s", per=RIVAL_PER_S
        ),
        at_most(f"CPU of the {DECIDER} a life cycle", used_us.pop(DECIDER), "us", DECIDER_US),
        *(reference(f"CPU of the {name} a life cycle", used, "us") for name, used in used_us.items()),
        reference("state table behind the log meanwhile, at most", watch.behind_s, "s"),
    ]


async def _always_queued(load: Load, seconds: int) -> Row:
    # Of them the fleet has its capacity at most, and fewer than that have ended and are not replaced yet: the others wait.
    async with load.in_flight(2 * load.capacity + QUEUED) as measure:
        await measure(_WARM_S)
        ended, took_s = await measure(float(seconds))
    case = f"the same with {QUEUED:,} always queued, {seconds} s"
    return at_least(case, ended / took_s, "1/s", LIFE_CYCLES_PER_S_QUEUED)


async def _freed(stage: Stage) -> Row:
    async with Load(stage.log, instance=INSTANCE, workers=FREED_WORKERS, slots=1, run="f") as load:
        waits = sorted(await load.freed(QUEUED, FREED_TIMES))
    case = f"one slot freed, {FREED_WORKERS:,} workers, {QUEUED:,} queued: finished to next placement, p50"
    return at_most(case, percentile(waits, 0.50) / 1e6, "ms", FREED_MS)


def _ms(seen: Seen, share: float) -> float:
    return percentile(sorted(seen.waits_ns), share) / 1e6


def _cores(watch: Watch, case: str, limit: float) -> Row:
    if BROKER not in watch.used_s:
        return not_measured(f"CPU of the {case}", "cores", "the broker is not a process of this machine's")
    return at_most(f"CPU of the {case}", watch.cores, "cores", limit)
