"""Follows the event log: live, for the progress line, and once more from the beginning, for the summary."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from events.codec import GENESIS_CHAIN, check_chain, decode_event
from events.events import Event, LeaderElected, WorkerAdmitted, WorkerDisconnected
from streams.demo.tally import Tally
from streams.log import Log, Record
from streams.topics import EVENTS

PARTITION = (EVENTS, 0)


@dataclass(slots=True)
class Takeover:
    """A later leader: its epoch, and how long no event was written before it."""

    leader_epoch: int
    silent_us: int


@dataclass(slots=True)
class History:
    """The whole log of a run."""

    events: list[Event] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    offsets: int = 0  # of the events partition
    takeovers: list[Takeover] = field(default_factory=list)


@dataclass(slots=True)
class Live:
    """What the progress line shows; folded as the events come."""

    tally: Tally = field(default_factory=Tally)
    workers: dict[str, None] = field(default_factory=dict)

    async def follow(self, log: Log) -> None:
        """Fold events until cancelled."""
        follower = await log.follow({PARTITION: None})
        try:
            while True:
                for record in (await follower.read(timeout_ms=200)).get(PARTITION, ()):
                    self.add(decode_event(record.value))
        finally:
            await follower.close()

    def add(self, event: Event) -> None:
        """Take the next event."""
        self.tally.add(event)
        match event:
            case WorkerAdmitted():
                self.workers[event.endpoint] = None
            case WorkerDisconnected():
                self.workers.pop(event.endpoint, None)


async def read_history(log: Log, *, timeout_s: float = 60.0) -> History:
    """Every committed event from the first one on, its chain checked.

    Raises:
        ChainBroken: a record does not follow from the one before it.
        TimeoutError: the end was not reached in time.
    """
    history = History()
    chain = GENESIS_CHAIN
    before: Record | None = None
    async with asyncio.timeout(timeout_s):
        async for record in _committed(log):
            chain = check_chain(record.value, chain)
            event = decode_event(record.value)
            if isinstance(event, LeaderElected) and before is not None:
                history.takeovers.append(Takeover(event.leader_epoch, record.at_us - before.at_us))
            history.events.append(event)
            history.tally.add(event)
            history.offsets = record.offset + 1
            before = record
    return history


async def _committed(log: Log) -> AsyncIterator[Record]:
    follower = await log.follow({PARTITION: None})
    try:
        end = await follower.end_offset(PARTITION)
        while await follower.position(PARTITION) < end:
            for record in (await follower.read(timeout_ms=500)).get(PARTITION, ()):
                yield record
    finally:
        await follower.close()
