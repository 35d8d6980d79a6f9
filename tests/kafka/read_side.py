"""The read side as its users start it: a process over a log that the test writes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from projections.position import take
from projections.rows import MemoryRows
from projections.table import Table
from streams.broker.ports import free_ports
from streams.errors import StreamError
from streams.kafka_log import KafkaLog
from streams.log import Outgoing
from streams.topics import EVENTS, topic_table
from streams.views import Views
from tests.projections.histories import History

DEADLINE_S = 120.0


class Shards:
    """A log with one random history per shard, written as a decider writes: in transactions."""

    def __init__(self, bootstrap: str, prefix: str, *, shards: int = 1, seed: int = 1) -> None:
        self.bootstrap, self.prefix = bootstrap, prefix
        self.log = KafkaLog(bootstrap, prefix=prefix)
        self.histories = [History(seed * 100 + shard) for shard in range(shards)]
        self.written: list[list[bytes]] = [[] for _ in range(shards)]
        self._writers: list[Any] = []

    async def start(self) -> None:
        await self.log.ensure_topics(topic_table(len(self.histories)))
        self._writers = [await self.log.open(f"decider-{shard}") for shard in range(len(self.histories))]

    async def write(self, facts: int, *, shard: int = 0, records: int = 50) -> None:
        """Decide so many facts and append their events, so many a transaction."""
        values = list(self.histories[shard].run(facts).values())
        for begin in range(0, len(values), records):
            batch = [Outgoing(value) for value in values[begin : begin + records]]
            await self._writers[shard].append({(EVENTS, shard): batch})
        self.written[shard] += values

    def seq(self, shard: int = 0) -> int:
        return len(self.written[shard])

    async def close(self) -> None:
        for writer in self._writers:
            await writer.close()
        await self.log.close()

    async def replayed(self, shard: int = 0) -> dict[str, str]:
        """The rows that a clean replay of the topic gives, as hex: from the log, not from what the test remembers."""
        follower = await self.log.follow({(EVENTS, shard): None})
        table = Table(MemoryRows(), shard)
        end = await follower.end_offset((EVENTS, shard))
        until_s = time.monotonic() + DEADLINE_S
        while await follower.position((EVENTS, shard)) < end:
            assert time.monotonic() < until_s
            for record in (await follower.read()).get((EVENTS, shard), []):
                take(table, record.offset, record.value)
        await follower.close()
        table.flush()
        assert isinstance(table.rows, MemoryRows)
        return {key.hex(): value.hex() for key, value in table.rows.by_key.items()}


class ReadSideProcess:
    """`headway state-table run` with its own data directory and port."""

    def __init__(self, shards: Shards, home: Path, *, command: Sequence[str] = (), port: int = 0) -> None:
        self.home, self.port = home, port or next(free_ports(random.randrange(20_000, 32_000)))
        self.views = Views(f"http://127.0.0.1:{self.port}")
        self._command = list(command) or [sys.executable, "-m", "streams.cli.main", "state-table", "run"]
        self._environment = {
            **os.environ,
            "HEADWAY_HOME": str(home),
            "HEADWAY_BOOTSTRAP_SERVERS": shards.bootstrap,
            "HEADWAY_TOPIC_PREFIX": shards.prefix,
            "HEADWAY_WEB_PORT": str(self.port),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self.log_file = home / "read-side.log"

    def start(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        with open(self.log_file, "ab") as log:
            self._process = subprocess.Popen(self._command, env=self._environment, stdout=log, stderr=log)

    def kill(self) -> None:
        """SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(DEADLINE_S)

    def wait(self) -> int:
        """Until it ends by itself; the exit code."""
        assert self._process is not None
        return self._process.wait(DEADLINE_S)

    def end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def reaches(self, seq: int, shard: int = 0, *, within_s: float = DEADLINE_S) -> dict[str, Any]:
        """Wait until the table stands at `seq`, caught up; its status of the shard."""
        until_s, last = time.monotonic() + within_s, "nothing"
        while time.monotonic() < until_s:
            assert self._process is not None
            assert self._process.poll() is None, f"it ended:\n{self.log_text()}"
            try:
                for state in self.views.status()["shards"]:
                    last = f"shard {state['shard']} at {state['seq']}, {state['read_by']}"
                    if state["shard"] == shard and state["seq"] >= seq and state["caught_up"]:
                        return dict(state)
            except StreamError as error:
                last = str(error)
            time.sleep(0.05)
        raise AssertionError(f"not at {seq} in {within_s} s: {last}\n{self.log_text()}")

    def rows(self, shard: int = 0) -> dict[str, str]:
        """All rows of a shard, page by page."""
        found: dict[str, str] = {}
        after = snapshot = ""
        while True:
            page = self.views.get("/v1/rows", shard=shard, after=after, snapshot=snapshot, limit=500)
            found.update(dict(page["rows"]))
            if not page["more"]:
                return found
            after, snapshot = page["rows"][-1][0], page["snapshot"]

    def log_text(self) -> str:
        return self.log_file.read_text()[-4000:] if self.log_file.exists() else ""
