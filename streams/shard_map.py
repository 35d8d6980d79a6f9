"""The shard map: which instance lives in which shard, as the compacted topic `headway.shards.v1`.

Key: the instance's name in UTF-8. Value: `{"shard": N}`. The last record of a key wins. Clients read it at start and set
the partition of what they publish from it, never by a hash, so an instance moves only when someone decides that it does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from streams.errors import InvalidInstance, LogUnavailable, UnknownInstance, UnreadableShardMap
from streams.log import Outgoing, Partition, Record
from streams.topics import FACTS, SHARDS

if TYPE_CHECKING:
    from streams.log import Log

SHARD_MAP: Final[Partition] = (SHARDS, 0)
LONGEST_INSTANCE_BYTES: Final = 255


@dataclass(frozen=True, slots=True)
class ShardMap:
    """Instances and their shards, as they were when the map was read."""

    shards: Mapping[str, int]

    def shard_of(self, instance: str) -> int:
        """The shard of an instance.

        Raises:
            UnknownInstance: it is not in the map; the error lists those that are.
        """
        shard = self.shards.get(instance)
        if shard is None:
            raise UnknownInstance(instance, self.shards)
        return shard


async def read_shard_map(log: Log) -> ShardMap:
    """Reads the whole map.

    Raises:
        NoSuchTopic: the topics were never made.
        UnreadableShardMap: a record is not what this module writes.
        LogUnavailable: no answer in time.
    """
    shards: dict[str, int] = {}
    follower = await log.follow({SHARD_MAP: None})
    try:
        end = await follower.end_offset(SHARD_MAP)
        idle = 0
        while await follower.position(SHARD_MAP) < end:
            found = await follower.read(timeout_ms=500)
            for record in found.get(SHARD_MAP, ()):
                instance, shard = _decoded(record)
                shards[instance] = shard
            idle = 0 if found else idle + 1
            if idle == 20:
                raise LogUnavailable("read the shard map", address=SHARDS, waited_ms=10_000)
    finally:
        await follower.close()
    return ShardMap(dict(sorted(shards.items())))


async def write_shard_map(log: Log, assignments: Mapping[str, int], *, allow_moves: bool = False) -> ShardMap:
    """Registers instances; writes only what differs, and returns the map as it is afterwards.

    An instance's queue and history stay in the shard they were written to, so giving a known instance another shard
    takes `allow_moves`.

    Raises:
        InvalidInstance: a name is too long or not text, a shard does not exist, or a move was not allowed.
    """
    topics = await log.describe_topics()
    present = (await read_shard_map(log)).shards
    count = topics[FACTS].partitions if FACTS in topics else 0
    for instance, shard in assignments.items():
        check_assignment(instance, shard, count, present.get(instance), allow_moves=allow_moves)
    differing = {instance: shard for instance, shard in assignments.items() if present.get(instance) != shard}
    if differing:
        records = [
            Outgoing(json.dumps({"shard": shard}).encode(), key=instance.encode())
            for instance, shard in differing.items()
        ]
        await log.publish(SHARD_MAP, records)
    return ShardMap(dict(sorted({**present, **differing}.items())))


def check_assignment(instance: str, shard: int, count: int, present: int | None, *, allow_moves: bool) -> None:
    """Whether an instance, now in shard `present` (None: new), can be registered in one of `count` shards.

    Raises:
        InvalidInstance: with the rule it breaks.
    """
    try:
        size = len(instance.encode())
    except UnicodeEncodeError as error:
        raise InvalidInstance(instance, f"it is not valid text ({error.reason})", remedy="Use plain text") from error
    if size > LONGEST_INSTANCE_BYTES:
        raise InvalidInstance(
            instance,
            f"its name has {size} bytes, at most {LONGEST_INSTANCE_BYTES} are allowed",
            remedy="Use a shorter name",
        )
    if not 0 <= shard < count:
        raise InvalidInstance(
            instance,
            f"shard {shard} does not exist: there are {count} shard(s)",
            remedy="Use a shard below that number, or add shards first with `headway topics apply --shards N`",
        )
    if present is not None and present != shard and not allow_moves:
        raise InvalidInstance(
            instance,
            f"it lives in shard {present}, and shard {shard} was asked for; its queue and history would stay behind",
            remedy="Keep the shard, or drain the instance and move it on purpose (`--move`)",
        )


def _decoded(record: Record) -> tuple[str, int]:
    try:
        if record.key is None:
            raise ValueError("it has no key")
        content = json.loads(record.value)
        shard = content["shard"] if isinstance(content, dict) else None
        if type(shard) is not int or shard < 0:
            raise ValueError(f'its value is {record.value[:80]!r}, not {{"shard": N}}')
        return record.key.decode(), shard
    except (ValueError, KeyError) as error:
        raise UnreadableShardMap(SHARD_MAP, record.offset, f"unreadable record: {error}") from error
