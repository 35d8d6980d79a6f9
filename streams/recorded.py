"""Reads the event log of a shard into memory, as the history that stories are told from."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from events.codec import GENESIS_CHAIN, check_chain, decode_event, envelope_of
from events.errors import HeadwayError, SequenceBroken
from projections.story.history import Told
from projections.story.recorded import Recorded
from streams.errors import LogUnavailable
from streams.log import Log, Partition
from streams.recovery import DamagedLog, without_collection
from streams.topics import EVENTS

BATCH_RECORDS: Final = 5_000
PATIENCE_S: Final = 30.0


async def read_recorded(
    log: Log, shard: int, progress: Callable[[int], None] = lambda count: None
) -> tuple[Recorded, DamagedLog | None]:
    """The history up to what is the end of the log now, or up to the first record that does not follow: the damage.

    Raises:
        LogUnavailable: the log does not answer, or stopped bringing records before its end.
        NoSuchTopic, NoSuchPartition: there is no such shard.
    """
    partition: Partition = (EVENTS, shard)
    told: list[Told] = []
    damage: DamagedLog | None = None
    chain, epoch = GENESIS_CHAIN, 0
    follower = await log.follow({partition: None})
    heard_s = time.monotonic()
    try:
        end = await follower.end_offset(partition)
        with without_collection():
            while damage is None and await follower.position(partition) < end:
                records = (await follower.read(max_records=BATCH_RECORDS, timeout_ms=200)).get(partition, ())
                for record in records:
                    heard_s = time.monotonic()
                    if record.offset >= end:
                        break
                    try:
                        written_by = envelope_of(record.value).leader_epoch
                        if written_by < epoch:
                            continue  # a replaced leader wrote it, and no reader takes it
                        event = decode_event(record.value)
                        if event.seq != len(told) + 1:
                            raise SequenceBroken(f"event {event.seq} follows event {len(told)}")
                        chain = check_chain(record.value, chain)
                    except (HeadwayError, ValueError) as error:
                        damage = DamagedLog(partition, record.offset, len(told), error)
                        break
                    epoch = written_by
                    told.append(Told(record.offset, event))
                progress(len(records))
                if time.monotonic() - heard_s > PATIENCE_S:
                    raise LogUnavailable(
                        f"reading {partition[0]}[{partition[1]}] up to offset {end}",
                        address=f"event {len(told)}",
                        waited_ms=round(PATIENCE_S * 1000),
                    )
            return Recorded(shard, told), damage
    finally:
        await follower.close()
