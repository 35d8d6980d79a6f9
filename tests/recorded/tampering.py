"""The recorded run as a directory, and the same with something wrong in its events: what an auditor has to find.

All but `flip_a_byte_of_the_file` leave every segment's digest right, as someone would who exports what was tampered with. A forged
decision is chained on correctly: every record after it carries the chain that follows from it, so that only the rules can tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from events.codec import chain_of, decode_event, encode_event, envelope_of
from streams.export import ExportWriter
from streams.log import Record
from streams.shard_map import read_shard_map
from streams.topics import EVENTS, FACTS
from tests.recorded.run import SHARD, RecordedRun


def write_directory(run: RecordedRun, directory: Path, events: Sequence[Record] | None = None) -> Path:
    """The run's facts and events as an exported directory; `events` in place of its own."""
    return asyncio.run(_written(run, directory, own_events(run) if events is None else events))


def own_events(run: RecordedRun) -> list[Record]:
    """The records of the run's events."""
    return run.log.records((EVENTS, SHARD))


async def _written(run: RecordedRun, directory: Path, events: Sequence[Record]) -> Path:
    log = run.log
    writer = ExportWriter(
        directory,
        cluster_id=await log.cluster_id(),
        topics={name: (topic.topic_id, topic.partitions) for name, topic in (await log.describe_topics()).items()},
        shards=(await read_shard_map(log)).shards,
    )
    for at, records in (((EVENTS, SHARD), events), ((FACTS, SHARD), log.records((FACTS, SHARD)))):
        writer.add(at, records)
        writer.cover(at, records[0].offset, records[-1].offset + 1)
    writer.finish()
    return directory


def index_of(records: Sequence[Record], seq: int) -> int:
    """Where event `seq` stands."""
    return next(place for place, record in enumerate(records) if envelope_of(record.value).seq == seq)


def change_a_byte(records: list[Record], seq: int) -> list[Record]:
    """One byte in the middle of an event's record is another one."""
    place = index_of(records, seq)
    value = bytearray(records[place].value)
    value[len(value) // 2] ^= 0x01
    return [*records[:place], records[place]._replace(value=bytes(value)), *records[place + 1 :]]


def leave_out(records: list[Record], seq: int) -> list[Record]:
    """The event is not there; its offset is a hole, of which a log may have any number."""
    place = index_of(records, seq)
    return records[:place] + records[place + 1 :]


def swap(records: list[Record], seq: int) -> list[Record]:
    """The event and the one behind it stand at each other's offset."""
    place = index_of(records, seq)
    first, second = records[place], records[place + 1]
    return [
        *records[:place],
        first._replace(value=second.value),
        second._replace(value=first.value),
        *records[place + 2 :],
    ]


def forge(records: list[Record], seq: int, **changed: object) -> list[Record]:
    """Event `seq` says something else, and every chain from there on follows from it."""
    place = index_of(records, seq)
    chain = chain_of(records[place - 1].value)
    found = records[:place]
    for record in records[place:]:
        event, epoch = decode_event(record.value), envelope_of(record.value).leader_epoch
        if event.seq == seq:
            event = replace(event, **changed)
        value, chain = encode_event(event, epoch, chain)
        found.append(record._replace(value=value))
    return found


def flip_a_byte_of_the_file(directory: Path) -> None:
    """One byte in the middle of the events' only segment is another one."""
    (segment,) = directory.glob(f"{EVENTS}-{SHARD}/*.zst")
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 0x01
    segment.write_bytes(bytes(data))
