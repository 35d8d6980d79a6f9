"""A long history in a shard's log, and how long a decider that is started for it takes until it leads.

The history is made by the core in this process, as a leader would have written it: whole life cycles on a fleet that has room, a window of
them in flight at any time, and a queue that is left waiting at its end. Its facts stand in the facts topic, so that a decider that comes
finds its place. A restart is measured from the start of the process to its own line that says that it leads.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from events.codec import GENESIS_CHAIN, EventEncoder, canonical_requirements, encode_fact
from events.config import SimpleScheduler, canonical_config
from events.decide import decide, elect
from events.events import Event, OperationDispatched
from events.facts import ActionFinished, ActionQueued, Configured, DispatchAccepted, Fact, Tick, WorkerConnected
from events.indexing import build_indexes
from events.reasons import RunResult
from events.state import Shard
from streams.bench._rows import BenchFailed
from streams.bench._said import LEADS, STARTED, last_words, moments
from streams.leadership import transactional_id
from streams.log import Log, Outgoing, Writer
from streams.recovery import fold_to_seq, without_collection
from streams.snapshots.reading import identity
from streams.snapshots.recovering import start_of
from streams.snapshots.taking import take
from streams.supervisor import HEADWAY
from streams.ticker import INTERVAL_US
from streams.topics import EVENTS, FACTS

INSTANCE: Final = "past"
WORKERS: Final = 64
SLOTS: Final = 64
IN_FLIGHT: Final = 600
LEFT_QUEUED: Final = 2_000
FACT_US: Final = 333
"""Between two facts: three of them are a life cycle, of which there are then a thousand a second. Finished operations stay in the state for
a minute (`retain_completed_for_s`), so that it holds 60,000 of them."""

AT_ONCE: Final = 20_000
"""Event records in one transaction of the history."""

READY_WITHIN_S: Final = 120.0


class History:
    """A shard that is decided on in memory, with the records that are not written yet."""

    def __init__(self, ids: Mapping[str, Any], began_at_us: int) -> None:
        self.shard = Shard()
        self.facts: list[Outgoing] = []
        self.events: list[Outgoing] = []
        self._chain = GENESIS_CHAIN
        self._encode = EventEncoder().encode
        self._requirements = canonical_requirements([("cpu_millis", "1000")])
        self._running: deque[OperationDispatched] = deque()
        self._now_us = self._tick_at_us = began_at_us
        build_indexes(self.shard)
        self._add(elect(self.shard, leader_epoch=1, build="bench", **ids))
        self._take(Configured(INSTANCE, canonical_config(SimpleScheduler(kind="simple"))))
        properties = (("cpu_millis", str(1000 * SLOTS)),)
        for number in range(WORKERS):
            self._take(WorkerConnected(INSTANCE, f"w{number}", 1, number + 1, properties))

    def run(self) -> None:
        """One action more in flight, or one life cycle more when there are enough of them."""
        if len(self._running) >= IN_FLIGHT:
            placed = self._running.popleft()
            answer = (INSTANCE, placed.endpoint, placed.connection_id, placed.dispatch_id)
            self._take(DispatchAccepted(*answer))
            self._take(ActionFinished(*answer, RunResult.EXITED))
        self.queue()

    def queue(self) -> None:
        """One action more, and a tick when one is due."""
        if self._now_us >= self._tick_at_us:
            self._tick_at_us = self._now_us + INTERVAL_US
            self._take(Tick())
        self._take(ActionQueued(INSTANCE, f"past-{self.shard.position}", self._requirements))

    def _take(self, fact: Fact) -> None:
        self._now_us += FACT_US
        self.facts.append(Outgoing(encode_fact(fact)))
        self._add(decide(self.shard, fact, offset=self.shard.position + 1, append_us=self._now_us))

    def _add(self, events: list[Event]) -> None:
        for event in events:
            value, self._chain = self._encode(event, self.shard.leader_epoch, self._chain)
            self.events.append(Outgoing(value))
            if type(event) is OperationDispatched:
                self._running.append(event)


async def write_history(log: Log, shard: int, events: int) -> int:
    """Fill an empty shard with at least so many events; returns how many they are."""
    with without_collection():
        # It ends about now: a decider that comes does not wait for its clock to be reached.
        history = History(await identity(log), time.time_ns() // 1000 - events * FACT_US)
        writer = await log.open(transactional_id(shard))
        try:
            while history.shard.seq < events:
                while len(history.events) < AT_ONCE and history.shard.seq < events:
                    history.run()
                await _write(log, writer, shard, history)
            for _ in range(WORKERS * SLOTS - IN_FLIGHT + LEFT_QUEUED):
                history.queue()
            await _write(log, writer, shard, history)
        finally:
            await writer.close()
        return history.shard.seq


async def _write(log: Log, writer: Writer, shard: int, history: History) -> None:
    await log.publish((FACTS, shard), history.facts)
    await writer.append({(EVENTS, shard): history.events})
    history.facts.clear()
    history.events.clear()


async def write_snapshot(log: Log, shard: int, seq: int) -> int:
    """Write a snapshot of a shard as it was at event `seq` or a few thousand behind it; returns the seq that it covers."""
    fold = await start_of(log, shard)
    events = await log.follow({fold.partition: fold.next_offset or None})
    try:
        with without_collection():
            await fold_to_seq(fold, events, seq, monotonic_us=lambda: time.monotonic_ns() // 1000)
    finally:
        await events.close()
    _, manifest = await take(log, fold, await identity(log), build="bench", written_by="bench")
    return manifest.seq


@dataclass(frozen=True, slots=True)
class Restart:
    """One start of a decider, in milliseconds from the start of its process: until it had loaded what it needs, and until it led."""

    started_ms: float
    leads_ms: float


async def restart(environment: Mapping[str, str], shard: int, output: Path) -> Restart:
    """Start a decider for a shard that nobody decides for, and kill it when it leads. Its lines go to a new file `output`.

    Raises:
        BenchFailed: it ended, or did not lead within READY_WITHIN_S.
    """
    with output.open("xb") as sink:
        began_s = time.time()
        process = await asyncio.create_subprocess_exec(
            *HEADWAY,
            "decider",
            "run",
            "--shard",
            str(shard),
            "--claim",
            stdout=sink,
            stderr=sink,
            env=dict(environment),
        )
    try:
        deadline = time.monotonic() + READY_WITHIN_S
        while not (leads := moments(output, LEADS)):
            if process.returncode is not None or time.monotonic() > deadline:
                raise BenchFailed(f"a decider was started and does not lead; its last words: {last_words(output)}")
            await asyncio.sleep(0.02)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
    return Restart(*(1e3 * (at_s - began_s) for at_s in (moments(output, STARTED)[0], leads[0])))
