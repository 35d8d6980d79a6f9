"""A read side for the commands: the real views over rows in memory, in a thread of its own, folded from a rehearsed shard."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import web
from click.testing import CliRunner, Result

from events.codec import GENESIS_CHAIN, encode_event
from events.facts import Configured, Fact
from projections.position import Taken, take
from projections.rows import MemoryRows
from projections.table import Table
from streams.cli import source
from streams.cli.main import main
from streams.log import Outgoing
from streams.memory_log import MemoryLog
from streams.provisioning import provision
from streams.readiness import Gate, Progress
from streams.rehearsal import Rehearsal
from streams.topics import EVENTS
from streams.web import Views

START_US = 1_700_000_000_000_000


def rehearsed(facts: list[Fact]) -> Rehearsal:
    """These facts decided, a millisecond apart."""
    rehearsal = Rehearsal(ticker=False)
    for number, fact in enumerate(facts):
        rehearsal.take(fact, START_US + number * 1_000)
    return rehearsal


def table_of(rehearsal: Rehearsal) -> tuple[MemoryRows, int]:
    """The rows that its events lead to, and the last one's time."""
    rows = MemoryRows()
    table = Table(rows, 0)
    chain = GENESIS_CHAIN
    for offset, event in enumerate(rehearsal.events):
        value, chain = encode_event(event, 1, chain)
        assert take(table, offset, value) is Taken.FOLDED
    table.flush()
    return rows, rehearsal.now_us or START_US


class ReadSideInMemory:
    """What the views are views of (`streams.read_side.ReadSide`)."""

    def __init__(self, rows: MemoryRows, *, waiting: bool = False, waited_s: float = 0.0) -> None:
        self.rows, self.now_s = rows, 0.0
        self.gate = Gate(lambda: self.now_s)
        self.now_s = waited_s
        self.gate.expect([0])
        if not waiting:
            self.gate.caught_up(0)

    def shards(self) -> list[int]:
        return self.gate.shards()

    def snapshot(self) -> MemoryRows:
        return self.rows

    def describe(self) -> dict[str, object]:
        return {}

    def describe_shards(self) -> dict[int, dict[str, object]]:
        return {0: {"caught_up": self.gate.is_open}}

    def progress(self) -> list[Progress]:
        return [Progress(shard, 3, 5, 9) for shard in self.gate.waiting()]

    def began_us(self) -> int:
        return START_US

    def not_ready(self) -> str:
        return "; ".join(map(str, self.progress()))


@dataclass
class ReadSide:
    """The address of running views, and the command line against them."""

    address: str

    def run(self, *arguments: str, code: int = 0) -> Result:
        """Runs `headway ARGUMENTS` and holds its exit code against `code`."""
        result = CliRunner(env={"HEADWAY_VIEWS_URL": self.address}).invoke(main, arguments)
        assert result.exit_code == code, (result.output, result.exception)
        return result

    def json(self, *arguments: str) -> dict[str, object]:
        """What `headway ARGUMENTS -o json` prints."""
        return json.loads(self.run(*arguments, "-o", "json").stdout)


def log_of(rehearsal: Rehearsal) -> Callable[..., AbstractAsyncContextManager[MemoryLog]]:
    """In place of a connection to a cluster: one whose events are those of the rehearsal."""

    @asynccontextmanager
    async def connected(settings: object, *, client_id: str) -> AsyncIterator[MemoryLog]:
        log = MemoryLog()
        await provision(log, {"main": 0})
        chain = GENESIS_CHAIN
        for event in rehearsal.events:
            value, chain = encode_event(event, 1, chain)
            await log.publish((EVENTS, 0), [Outgoing(value)])
        yield log

    return connected


@pytest.fixture
def read_side(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., ReadSide]]:
    """Makes a read side that holds what the given facts lead to, and the log it is folded from; instance `main` is configured first.

    With `waiting` its table is not complete, `waited_s` after its start.
    """
    monkeypatch.setenv("HEADWAY_HOME", str(tmp_path / "home"))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    runners = []

    async def serve(views: Views) -> str:
        application = web.Application()
        views.add_to(application)
        runner = web.AppRunner(application)
        await runner.setup()
        runners.append(runner)
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return "http://{}:{}".format(*runner.addresses[0][:2])

    def make(facts: list[Fact], *, waiting: bool = False, waited_s: float = 0.0) -> ReadSide:
        rehearsal = rehearsed([Configured("main", '{"kind":"simple"}'), *facts])
        monkeypatch.setattr(source, "connected", log_of(rehearsal))
        rows, now_us = table_of(rehearsal)
        views = Views(ReadSideInMemory(rows, waiting=waiting, waited_s=waited_s), clock_us=lambda: now_us + 250_000)
        return ReadSide(asyncio.run_coroutine_threadsafe(serve(views), loop).result(60))

    yield make
    for runner in runners:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(60)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(60)
    loop.close()
