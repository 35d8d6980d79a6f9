"""Latency and throughput of whole life cycles through real Kafka, exactly once, with everything on this machine.

A broker of its own (or the cluster in HEADWAY_BOOTSTRAP_SERVERS), the decider, the Faust read side and a load generator run as they do in
production; the references are the log's own rates in the same run.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import urllib.request
from typing import Any

import psutil

from streams.bench._rows import Row, at_least, at_most, percentile, reference
from streams.demo.stage import DECIDER, STATE_TABLE, Stage, new_home, raise_broker, staged, strike
from streams.load import Load
from streams.log import Log, Outgoing
from streams.provisioning import provision
from streams.settings import load_settings
from streams.topics import WORKER_COMMANDS

INSTANCE = "main"
RAW_RECORDS, RAW_BYTES, RAW_BATCH, RAW_AT_ONCE = 200_000, 160, 5_000, 4


def run(seconds: int = 20, latency_seconds: int = 15, rate: int = 500, in_flight: int = 2000) -> list[Row]:
    """Queue-to-placement latency at a fixed rate and whole life cycles a second, through real Kafka."""
    home = new_home()
    try:
        return asyncio.run(_measure(home, seconds, latency_seconds, rate, in_flight))
    finally:
        strike(home, _say, keep=False)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


async def _measure(home: Any, seconds: int, latency_seconds: int, rate: int, in_flight: int) -> list[Row]:
    broker = await asyncio.to_thread(raise_broker, home, load_settings(), _say)
    rows: list[Row] = []
    async with staged(home, broker, {}, lambda log: provision(log, {INSTANCE: 0}), _say) as stage:
        await _until_ready(stage)
        # Otherwise the first figures would hold the start of the parts.
        warm = Load(stage.log, instance=INSTANCE, run="warm")
        await warm.connect()
        await warm.at_rate(rate, 3.0)

        seen = await warm.at_rate(rate, float(latency_seconds))
        waits = sorted(seen.waits_ns)
        rows.append(at_most(f"queue to placement p50 at {rate}/s", percentile(waits, 0.50) / 1e6, "ms", 20))
        rows.append(at_most(f"queue to placement p99 at {rate}/s", percentile(waits, 0.99) / 1e6, "ms", 80))

        before = _cpu_s(stage)
        cycles, took_s = await warm.in_flight(in_flight, float(seconds))
        lag = await asyncio.to_thread(_table_lag, stage)
        after = _cpu_s(stage)
        await warm.close()
        rows.append(at_least("whole life cycles, exactly once", cycles.finished / took_s, "1/s", 5000))
        for part in (DECIDER, STATE_TABLE):
            used = 1e6 * (after[part] - before[part]) / max(1, cycles.finished)
            rows.append(reference(f"CPU of the {part} a life cycle", used, "us"))
        rows.append(reference("state table behind the log", lag, "s"))
        rows += await _raw_rates(stage.log)
    return rows


async def _until_ready(stage: Stage) -> None:
    deadline = time.monotonic() + 60
    while True:
        stage.check()
        try:
            if await asyncio.to_thread(_status, stage) is not None:
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(0.1)


def _status(stage: Stage) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://127.0.0.1:{stage.web_port}/v1/status", timeout=5) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def _table_lag(stage: Stage) -> float:
    return _status(stage)["age_ms"] / 1e3


def _cpu_s(stage: Stage) -> dict[str, float]:
    """CPU seconds of each part so far, its children included."""
    used = {}
    for name, process in stage.supervisor.processes.items():
        times = psutil.Process(process.pid).cpu_times()
        used[name] = times.user + times.system
    return used


async def _raw_rates(log: Log) -> list[Row]:
    """What the log itself does with small records: the floor every figure above stands on."""
    partition = (WORKER_COMMANDS, 0)
    records = [Outgoing(bytes(RAW_BYTES), b"raw")] * RAW_BATCH
    begun = time.monotonic()
    for _ in range(RAW_RECORDS // RAW_BATCH // RAW_AT_ONCE):
        await asyncio.gather(*(log.publish(partition, records) for _ in range(RAW_AT_ONCE)))
    produced = RAW_RECORDS / (time.monotonic() - begun)
    follower = await log.follow({partition: None})
    end, count = await follower.end_offset(partition), 0
    begun = time.monotonic()
    while await follower.position(partition) < end:
        found = await follower.read(max_records=5000, timeout_ms=500)
        count += len(found.get(partition, ()))
    consumed = count / (time.monotonic() - begun)
    await follower.close()
    return [
        reference(f"raw produce of {RAW_BYTES}-byte records", produced, "records/s"),
        reference(f"raw consume of {RAW_BYTES}-byte records", consumed, "records/s"),
    ]
