"""Follows the event log: live, for the progress line, and once more from the beginning, for the summary."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field

from events.codec import GENESIS_CHAIN, check_chain, decode_event, envelope_of
from events.events import (
    Event,
    LeaderElected,
    OperationDispatched,
    OperationFinished,
    OperationQueued,
    OperationRequeued,
    WorkerAdmitted,
    WorkerDisconnected,
)
from projections.story.history import Told
from streams.demo.tally import Tally
from streams.log import Log, Partition, Record
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

    told: list[Told] = field(default_factory=list)  # every event, with the offset of its record
    tally: Tally = field(default_factory=Tally)
    offsets: int = 0  # of the events partition
    takeovers: list[Takeover] = field(default_factory=list)
    stale: int = 0  # written by a deposed leader; every reader leaves them out

    @property
    def events(self) -> list[Event]:
        """The events alone."""
        return [told.event for told in self.told]


@dataclass(slots=True)
class Live:
    """What the progress line shows; folded as the events come."""

    tally: Tally = field(default_factory=Tally)
    workers: dict[str, int] = field(default_factory=dict)  # endpoint to the boot epoch it was admitted with
    running: dict[int, str] = field(default_factory=dict)  # current dispatch to endpoint

    async def follow(self, log: Log) -> None:
        """Fold events until cancelled."""
        follower = await log.follow({PARTITION: None})
        leader_epoch = 0
        try:
            while True:
                for record in (await follower.read(timeout_ms=200)).get(PARTITION, ()):
                    written_by = envelope_of(record.value).leader_epoch
                    if written_by >= leader_epoch:  # else a deposed leader wrote it, and no reader takes it
                        leader_epoch = written_by
                        self.add(decode_event(record.value))
        finally:
            await follower.close()

    def add(self, event: Event) -> None:
        """Take the next event."""
        self.tally.add(event)
        match event:
            case WorkerAdmitted():
                self.workers[event.endpoint] = event.boot_epoch
            case WorkerDisconnected():
                self.workers.pop(event.endpoint, None)
            case OperationDispatched():
                self.running[event.dispatch_id] = event.endpoint
            case OperationRequeued() | OperationFinished():
                self.running.pop(event.dispatch_id, None)


def of_instance(events: Iterable[Event], instance: str) -> Iterator[Event]:
    """The events that concern one instance, and those that concern the whole shard, in their order."""
    owners: dict[int, str] = {}
    for event in events:
        if isinstance(event, OperationQueued):
            owners[event.operation_id] = event.instance
        owner = getattr(event, "instance", "") or owners.get(getattr(event, "operation_id", -1), "")
        if owner in ("", instance):
            yield event


def tally_of(events: Iterable[Event]) -> Tally:
    """The fold of events; of a part of them, gaps in `seq` say nothing."""
    tally = Tally()
    for event in events:
        tally.add(event)
    return tally


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
        leader_epoch = 0
        async for record in committed(log, PARTITION):
            history.offsets = record.offset + 1
            written_by = envelope_of(record.value).leader_epoch
            if written_by < leader_epoch:
                history.stale += 1
                continue
            leader_epoch = written_by
            chain = check_chain(record.value, chain)
            event = decode_event(record.value)
            if isinstance(event, LeaderElected) and before is not None:
                history.takeovers.append(Takeover(event.leader_epoch, record.at_us - before.at_us))
            history.told.append(Told(record.offset, event))
            history.tally.add(event)
            before = record
    return history


async def committed(log: Log, partition: Partition) -> AsyncIterator[Record]:
    """The committed records of a partition, from the first to what is the last stable offset at the beginning."""
    follower = await log.follow({partition: None})
    try:
        end = await follower.end_offset(partition)
        while await follower.position(partition) < end:
            for record in (await follower.read(timeout_ms=500)).get(partition, ()):
                if record.offset >= end:
                    return
                yield record
    finally:
        await follower.close()
