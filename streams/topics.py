"""The topic table as data, what a cluster lacks against it, and what it will cost in disk.

Everything here is arithmetic on data. `Log.ensure_topics` carries it out, `headway topics plan` prints it; the shard map,
which says which instance lives in which shard, is in `streams.shard_map`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from streams.errors import TopicConflict

FACTS: Final = "headway.facts.v1"
EVENTS: Final = "headway.events.v1"
PLACEMENTS: Final = "headway.placements.v1"
WORKER_COMMANDS: Final = "headway.worker-commands.v1"
DEAD_LETTERS: Final = "headway.dead-letters.v1"
AUDIT: Final = "headway.audit.v1"
SNAPSHOTS: Final = "headway.snapshots.v1"
SHARDS: Final = "headway.shards.v1"

SNAPSHOT_SLOTS: Final = 3
"""Snapshots of one shard that are kept: the newest verified one, the newest one, and room for the next."""

CleanupPolicy = Literal["delete", "compact"]
TimestampType = Literal["CreateTime", "LogAppendTime"]

_MIB: Final = 1 << 20
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
_DAY_S: Final = 86_400


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """How a topic shall be.

    Args:
        name: the topic's name without any prefix.
        key: what its records are keyed by, in words.
        partitions: how many there are; all topics but the shard map have one per shard.
        retention_ms: how long records stay at least; None, for ever.
        cleanup_policy: "delete" by age, or "compact" to the last record of each key.
        max_message_bytes: the largest batch, so also the largest record with its overheads.
        timestamp_type: "LogAppendTime" where the broker's clock is part of the meaning (facts), else the writer's.
        segment_ms: a segment is closed after this time. Retention and compaction work on closed segments only, and the
            broker's own default of seven days would double a retention of seven days.
    """

    name: str
    key: str
    partitions: int
    retention_ms: int | None
    cleanup_policy: CleanupPolicy
    max_message_bytes: int
    timestamp_type: TimestampType
    segment_ms: int


@dataclass(frozen=True, slots=True)
class TopicState:
    """How a topic is. `topic_id` changes when it is deleted and made again; `settings` are Kafka's, as strings."""

    name: str
    topic_id: str
    partitions: int
    settings: Mapping[str, str]

    @property
    def max_message_bytes(self) -> int:
        """The largest batch the topic takes, in bytes."""
        return int(self.settings["max.message.bytes"])

    @property
    def cleanup_policy(self) -> str:
        """ "delete", "compact", or both, joined by a comma."""
        return self.settings["cleanup.policy"]


# Facts are 1 MiB at most and everything that may have to carry a fact whole is 4 MiB, so that a poison fact at the limit
# still fits into its dead letter and its event. Events are kept: they are the truth, everything else can be made again.
TOPICS: Final[tuple[TopicSpec, ...]] = (
    TopicSpec(FACTS, "client_operation_id or endpoint", 1, 7 * _DAY_MS, "delete", _MIB, "LogAppendTime", _DAY_MS),
    TopicSpec(EVENTS, "none", 1, None, "delete", 4 * _MIB, "CreateTime", 7 * _DAY_MS),
    TopicSpec(PLACEMENTS, "endpoint", 1, 7 * _DAY_MS, "delete", 4 * _MIB, "CreateTime", _DAY_MS),
    TopicSpec(WORKER_COMMANDS, "endpoint", 1, 7 * _DAY_MS, "delete", _MIB, "CreateTime", _DAY_MS),
    TopicSpec(DEAD_LETTERS, "none", 1, 30 * _DAY_MS, "delete", 4 * _MIB, "CreateTime", _DAY_MS),
    TopicSpec(AUDIT, "none", 1, 30 * _DAY_MS, "delete", 4 * _MIB, "CreateTime", _DAY_MS),
    TopicSpec(SNAPSHOTS, "shard/part", 1, None, "compact", 4 * _MIB, "CreateTime", _HOUR_MS),
    TopicSpec(SHARDS, "instance", 1, None, "compact", _MIB, "CreateTime", _DAY_MS),
)


def topic_table(shards: int) -> tuple[TopicSpec, ...]:
    """The topics of a log with `shards` shards: one partition a shard everywhere, but one in all for the shard map."""
    if shards < 1:
        raise ValueError(f"a log has at least one shard, not {shards}")
    return tuple(spec if spec.name == SHARDS else replace(spec, partitions=shards) for spec in TOPICS)


def topic_settings(spec: TopicSpec) -> dict[str, str]:
    """A spec in Kafka's own words (topic configuration reference)."""
    return {
        "cleanup.policy": spec.cleanup_policy,
        "max.message.bytes": str(spec.max_message_bytes),
        "message.timestamp.type": spec.timestamp_type,
        "retention.ms": str(-1 if spec.retention_ms is None else spec.retention_ms),
        "segment.ms": str(spec.segment_ms),
    }


@dataclass(frozen=True, slots=True)
class TopicChange:
    """What brings one topic from how it is to its spec. `settings` holds only those that differ, as (from, to)."""

    spec: TopicSpec
    action: Literal["create", "alter", "keep"]
    partitions: tuple[int, int] | None = None
    settings: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """The change in words, a line each; [] when there is nothing to do."""
        name, spec = self.spec.name, self.spec
        if self.action == "create":
            said = ", ".join(f"{setting}={value}" for setting, value in topic_settings(spec).items())
            return [f"create {name}: {spec.partitions} partition(s), {said}"]
        lines = [] if self.partitions is None else [f"alter {name}: partitions {_to(self.partitions)}"]
        return lines + [f"alter {name}: {setting} {_to(change)}" for setting, change in self.settings.items()]


def _to(change: tuple[object, object]) -> str:
    return f"{change[0]} -> {change[1]}"


def topic_change(spec: TopicSpec, state: TopicState | None) -> TopicChange:
    """Compares one topic with its spec; None stands for a topic that does not exist.

    Raises:
        TopicConflict: it has more partitions than asked for; Kafka cannot take partitions away.
    """
    if state is None:
        return TopicChange(spec, "create")
    if state.partitions > spec.partitions:
        raise TopicConflict(spec.name, "the number of partitions", has=state.partitions, wanted=spec.partitions)
    differing = {
        name: (state.settings.get(name, "unset"), value)
        for name, value in topic_settings(spec).items()
        if state.settings.get(name) != value
    }
    added = (state.partitions, spec.partitions) if state.partitions < spec.partitions else None
    return TopicChange(spec, "alter" if added or differing else "keep", added, differing)


# -- what it costs --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Traffic:
    """How many records a topic gets from a life cycle, a worker's report and a tick, and their mean size on disk."""

    per_cycle: float
    per_report: float
    per_tick: float
    record_bytes: int


# A life cycle is three facts (queued, accepted, finished), four events and two placements (placed, ended). Sizes are those
# of actions with a short command line and a handful of requirements, record overhead included; long argv and env go to
# facts, events and placements alike, so pass measured sizes where they matter (`headway topics plan --record-bytes`).
DEFAULT_TRAFFIC: Final[Mapping[str, Traffic]] = {
    FACTS: Traffic(3, 1, 1, 220),
    EVENTS: Traffic(4, 1, 1, 180),
    PLACEMENTS: Traffic(2, 0, 0, 400),
    WORKER_COMMANDS: Traffic(0, 0, 0, 120),
    DEAD_LETTERS: Traffic(0, 0, 0, 400),
    AUDIT: Traffic(0, 0, 0.05, 150),  # of one shadow without divergences
}

# A batch header in each of the two topics every transaction writes to, and the control batch that ends it (61 + 17 bytes).
TRANSACTION_BYTES: Final = 61 + 78
MOST_TRANSACTIONS_PER_S: Final = 300  # measured with batches of one; larger batches make it fewer


@dataclass(frozen=True, slots=True)
class Load:
    """What a log is expected to carry.

    Args:
        cycles_per_s: whole life cycles a second, all shards together, averaged over a day.
        workers: connected workers; each reports every `report_interval_s`.
        ticks_per_s: ticks a second in each shard.
        replicas: copies of each record in the cluster.
        snapshot_bytes: one shard's snapshot.
        traffic: records and sizes per topic.
    """

    cycles_per_s: float
    workers: int = 0
    report_interval_s: float = 5.0
    ticks_per_s: float = 2.0
    replicas: int = 1
    snapshot_bytes: int = 32 * _MIB
    traffic: Mapping[str, Traffic] = field(default_factory=lambda: DEFAULT_TRAFFIC)


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """One topic: its change, bytes a day, and the disk it settles at (None: it is kept, so it grows for ever)."""

    change: TopicChange
    bytes_per_day: int
    disk_bytes: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    """All topics, and their sums: `settled_bytes` of those that stop growing, `growth_bytes_per_day` of those that do not."""

    topics: tuple[TopicPlan, ...]
    bytes_per_day: int
    settled_bytes: int
    growth_bytes_per_day: int

    def lines(self) -> list[str]:
        """Every change in words; [] when the cluster is as it should be."""
        return [line for topic in self.topics for line in topic.change.lines()]


def plan(specs: Sequence[TopicSpec], existing: Mapping[str, TopicState], load: Load) -> Plan:
    """What would be created or altered, and what the topics will need under `load`. Changes nothing.

    Raises:
        TopicConflict: as `topic_change`.
    """
    topics = tuple(_topic_plan(spec, existing.get(spec.name), load) for spec in specs)
    return Plan(
        topics,
        bytes_per_day=sum(topic.bytes_per_day for topic in topics),
        settled_bytes=sum(topic.disk_bytes or 0 for topic in topics),
        growth_bytes_per_day=sum(topic.bytes_per_day for topic in topics if topic.disk_bytes is None),
    )


def _topic_plan(spec: TopicSpec, state: TopicState | None, load: Load) -> TopicPlan:
    change = topic_change(spec, state)
    if spec.cleanup_policy == "compact":
        # Up to half of a compacted topic is what compaction has not removed yet (min.cleanable.dirty.ratio = 0.5).
        kept = SNAPSHOT_SLOTS * load.snapshot_bytes * spec.partitions if spec.name == SNAPSHOTS else _MIB
        return TopicPlan(change, 0, 2 * kept * load.replicas)
    daily = round(_bytes_per_s(spec, load) * _DAY_S) * load.replicas
    if spec.retention_ms is None:
        return TopicPlan(change, daily, None)
    # A segment goes when its newest record is old enough, so the oldest stays up to one segment longer.
    days = (spec.retention_ms + spec.segment_ms) / _DAY_MS
    return TopicPlan(change, daily, round(daily * days))


def _bytes_per_s(spec: TopicSpec, load: Load) -> float:
    traffic = load.traffic.get(spec.name)
    if traffic is None:
        return 0.0
    reports_per_s = load.workers / load.report_interval_s
    ticks_per_s = load.ticks_per_s * spec.partitions
    records_per_s = (
        traffic.per_cycle * load.cycles_per_s + traffic.per_report * reports_per_s + traffic.per_tick * ticks_per_s
    )
    transactions_per_s = 0.0
    if spec.name in (EVENTS, PLACEMENTS):
        transactions_per_s = min(records_per_s, MOST_TRANSACTIONS_PER_S * spec.partitions)
    return records_per_s * traffic.record_bytes + transactions_per_s * TRANSACTION_BYTES
