"""Reading in tests: until something is there, with a deadline instead of a sleep."""

from __future__ import annotations

import time

from streams.log import Follower, Log, Partition, Record

DEADLINE_S = 60.0


async def read_all(log: Log, partition: Partition, *, committed: bool = True) -> list[Record]:
    """Everything from the beginning to the end that the isolation allows now."""
    follower = await log.follow({partition: None}, committed=committed)
    try:
        return await read_to_end(follower, partition)
    finally:
        await follower.close()


async def read_to_end(follower: Follower, partition: Partition) -> list[Record]:
    found: list[Record] = []
    end = await follower.end_offset(partition)
    deadline = time.monotonic() + DEADLINE_S
    while await follower.position(partition) < end:
        assert time.monotonic() < deadline, f"stuck at {await follower.position(partition)} of {end}"
        found.extend((await follower.read(timeout_ms=100)).get(partition, []))
    return found


async def read_some(follower: Follower, partition: Partition, count: int, **options: bool) -> list[Record]:
    """The next `count` records or more of one partition."""
    found: list[Record] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records came"
        found.extend((await follower.read(timeout_ms=100, **options)).get(partition, []))
    return found


def values(records: list[Record]) -> list[bytes]:
    return [record.value for record in records]
