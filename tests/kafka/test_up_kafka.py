"""`headway up` on real Kafka: it gets ready, restarts what is killed, and leaves nothing behind however it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import psutil
import pytest

from tests.streams.deciding import until

DEADLINE_S = 120.0


class Up:
    """A `headway up` process, what it said, and its children."""

    def __init__(self, process: asyncio.subprocess.Process, said: Path, port: int) -> None:
        self.process, self._said, self.port = process, said, port

    @property
    def said(self) -> str:
        return self._said.read_text()

    def child(self, noun: str) -> psutil.Process | None:
        children = psutil.Process(self.process.pid).children()
        return next((child for child in children if noun in child.cmdline()), None)

    async def says(self, what: str) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DEADLINE_S
        while what not in self.said:
            assert loop.time() < deadline, self.said
            assert self.process.returncode is None, self.said
            await asyncio.sleep(0.02)


@pytest.fixture
async def up(kafka: str, tmp_path: Path) -> AsyncIterator[Up]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    said = tmp_path / "said"
    with said.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "streams.cli.main", "up", "--instance", "main", "--web-port", str(port)),
            stdout=output,
            stderr=output,
            env={
                **os.environ,
                "HEADWAY_HOME": str(tmp_path / "home"),
                "HEADWAY_BOOTSTRAP_SERVERS": kafka,
                "HEADWAY_TOPIC_PREFIX": f"u{uuid.uuid4().hex[:8]}-",
            },
        )
    yield Up(process, said, port)
    if process.returncode is None:
        process.kill()
    await process.wait()


async def test_it_gets_ready_restarts_a_killed_part_and_stops_clean(up: Up) -> None:
    await up.says("\nready")
    decider = up.child("decider")
    assert decider is not None
    decider.kill()
    await up.says("decider was ended by SIGKILL")

    def another() -> bool:
        child = up.child("decider")
        return child is not None and child.pid != decider.pid

    await until(another, "it is started again")
    async with aiohttp.ClientSession() as http:

        async def elected() -> int:
            async with http.get(f"http://127.0.0.1:{up.port}/v1/status") as answer:
                return (await answer.json())["shards"][0]["leader_epoch"]

        loop = asyncio.get_running_loop()
        deadline = loop.time() + DEADLINE_S
        while await elected() < 2:
            assert loop.time() < deadline
            await asyncio.sleep(0.05)
    children = psutil.Process(up.process.pid).children()
    up.process.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(up.process.wait(), DEADLINE_S) == 0
    assert "decider, edges, read side and snapshots stopped" in up.said
    assert not [child for child in children if child.is_running()]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills the children of a killed process")
async def test_even_when_killed_it_leaves_no_child(up: Up) -> None:
    await up.says("read side ")
    await until(lambda: up.child("decider") is not None and up.child("state-table") is not None)
    children = psutil.Process(up.process.pid).children()
    up.process.kill()
    _, alive = psutil.wait_procs(children, timeout=20)
    assert not alive
