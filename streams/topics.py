"""The topic table as data, the plan to bring a cluster to it, and the shard map."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

FACTS: Final = "headway.facts.v1"
EVENTS: Final = "headway.events.v1"
PLACEMENTS: Final = "headway.placements.v1"
WORKER_COMMANDS: Final = "headway.worker-commands.v1"
DEAD_LETTERS: Final = "headway.dead-letters.v1"
SNAPSHOTS: Final = "headway.snapshots.v1"
SHARDS: Final = "headway.shards.v1"

CleanupPolicy = Literal["delete", "compact"]
TimestampType = Literal["CreateTime", "LogAppendTime"]


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """How a topic shall be. `retention_ms` None means kept for ever; `key` says what records are keyed by."""

    name: str
    key: str
    partitions: int
    retention_ms: int | None
    cleanup_policy: CleanupPolicy
    max_message_bytes: int
    timestamp_type: TimestampType
    segment_ms: int | None = None


@dataclass(frozen=True, slots=True)
class TopicState:
    """How a topic is. `topic_id` changes when it is deleted and made again."""

    name: str
    topic_id: str
    partitions: int
    retention_ms: int | None
    cleanup_policy: str
    max_message_bytes: int
    timestamp_type: str
    segment_ms: int | None = None


_MIB: Final = 1 << 20
_DAY_MS: Final = 86_400_000

TOPICS: Final[tuple[TopicSpec, ...]] = (
    TopicSpec(FACTS, "client_operation_id or endpoint", 1, 7 * _DAY_MS, "delete", _MIB, "LogAppendTime"),
    TopicSpec(EVENTS, "none", 1, None, "delete", 4 * _MIB, "CreateTime"),
    TopicSpec(PLACEMENTS, "endpoint", 1, 7 * _DAY_MS, "delete", 4 * _MIB, "CreateTime"),
    TopicSpec(WORKER_COMMANDS, "endpoint", 1, 7 * _DAY_MS, "delete", _MIB, "CreateTime"),
    TopicSpec(DEAD_LETTERS, "none", 1, 30 * _DAY_MS, "delete", 4 * _MIB, "CreateTime"),
    TopicSpec(SNAPSHOTS, "shard/part", 1, None, "compact", 4 * _MIB, "CreateTime"),
    TopicSpec(SHARDS, "instance", 1, None, "compact", _MIB, "CreateTime"),
)


def topic_table(shards: int) -> tuple[TopicSpec, ...]:
    """The topics of a log with `shards` shards: one partition per shard, but the shard map has one."""
    return tuple(spec if spec.name == SHARDS else replace(spec, partitions=shards) for spec in TOPICS)
