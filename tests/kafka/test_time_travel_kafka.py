"""The past on a real Kafka: the views of a read side and `headway replay`, each with an index of its own, answer as of a moment alike."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from events.codec import decode_event
from projections import answers
from projections.position import take
from projections.rows import MemoryRows
from projections.table import Table
from streams.moments import time_of
from streams.views import NotReady
from tests.kafka.read_side import DEADLINE_S, ReadSideProcess, Shards

pytestmark = pytest.mark.kafka


@pytest.fixture
async def shards(kafka: str) -> AsyncIterator[Shards]:
    made = Shards(kafka, f"past{os.getpid()}-")
    await made.start()
    await made.write(400)
    yield made
    await made.close()


@pytest.fixture
def process(shards: Shards, tmp_path: Path) -> Iterator[ReadSideProcess]:
    made = ReadSideProcess(shards, tmp_path / "home")
    made.start()
    yield made
    made.end()


def queue_at(shards: Shards, seq: int) -> list[dict[str, Any]]:
    table = Table(MemoryRows(), 0)
    for offset, value in enumerate(shards.written[0][:seq]):
        take(table, offset, value)
    table.flush()
    return list(answers.queue(table))


def queue_then(process: ReadSideProcess, at: int | str) -> dict[str, Any]:
    """The view of the queue as of a moment; asked again while the past is being indexed."""
    until_s = time.monotonic() + DEADLINE_S
    while True:
        try:
            return process.views.get("/v1/queue", at=at, limit=10_000)
        except NotReady:
            assert time.monotonic() < until_s
            time.sleep(0.2)


def replay(process: ReadSideProcess, *arguments: object) -> dict[str, Any]:
    command = [sys.executable, "-m", "streams.cli.main", "replay", *map(str, arguments), "-o", "json"]
    done = subprocess.run(
        command, env=process._environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["shards"][0]
    return found


async def test_views_and_replay_answer_as_of_a_moment_also_of_what_came_since_and_after_a_kill(shards, process) -> None:
    await asyncio.to_thread(process.reaches, shards.seq())
    for seq in (120, shards.seq()):
        expected = queue_at(shards, seq)
        answer = await asyncio.to_thread(queue_then, process, seq)
        assert answer["operations"] == expected
        assert (await asyncio.to_thread(replay, process, "--at", seq, "--queue"))["queue"] == expected
    await shards.write(100)
    process.kill()
    process.start()
    await asyncio.to_thread(process.reaches, shards.seq())
    at_us = decode_event(shards.written[0][-20]).at_us
    seq = max(decode_event(value).seq for value in shards.written[0] if decode_event(value).at_us <= at_us)
    answer = await asyncio.to_thread(queue_then, process, time_of(at_us))
    assert answer["as_of"] == [{"shard": 0, "seq": seq, "at_us": at_us}]
    assert answer["operations"] == queue_at(shards, seq)
    report = await asyncio.to_thread(replay, process, "--from", 200, "--to", time_of(at_us))
    assert (report["from_seq"], report["to_seq"], report["gaps"], report["damage"]) == (200, seq, 0, None)
