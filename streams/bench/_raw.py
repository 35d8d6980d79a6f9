"""What the log itself does with small records: the limit that every other figure of the same run stands under."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from streams.bench._rows import Row, reference
from streams.log import BATCH_RECORDS, Log, Outgoing, records_between
from streams.topics import WORKER_COMMANDS

RECORDS: Final = 200_000
RECORD_BYTES: Final = 160
_BATCH, _AT_ONCE = 5_000, 4
_KEY: Final = b"raw"


async def rows(log: Log, *, count: int = RECORDS) -> list[Row]:
    """Publish `count` records to the commands of shard 0, which no decider reads, and read them back, by the clock. The topic must exist.

    Raises:
        LogUnavailable, OutcomeUnknown: the log does not answer.
    """
    at = (WORKER_COMMANDS, 0)
    batch = [Outgoing(bytes(RECORD_BYTES), _KEY)] * _BATCH
    first: int | None = None
    begun_s = time.monotonic()
    for _ in range(max(1, count // _BATCH // _AT_ONCE)):
        offsets = await asyncio.gather(*(log.publish(at, batch) for _ in range(_AT_ONCE)))
        if first is None:
            first = min(offset for some in offsets for offset in some)
        last = max(some[-1] for some in offsets)
    written = max(1, count // _BATCH // _AT_ONCE) * _AT_ONCE * _BATCH
    produced = written / (time.monotonic() - begun_s)
    begun_s, read = time.monotonic(), 0
    async for records in records_between(log, at, first, last + 1):
        read += len(records)
    consumed = read / (time.monotonic() - begun_s)
    return [
        reference(f"raw produce of {RECORD_BYTES}-byte records", produced, "records/s"),
        reference(f"raw consume of {RECORD_BYTES}-byte records, {BATCH_RECORDS:,} at a time", consumed, "records/s"),
    ]
