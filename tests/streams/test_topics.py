"""The topic table, what a cluster lacks against it, and the arithmetic of disk."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streams.errors import TopicConflict
from streams.topics import (
    AUDIT,
    DEAD_LETTERS,
    DEFAULT_TRAFFIC,
    EVENTS,
    FACTS,
    PLACEMENTS,
    SHARDS,
    SNAPSHOTS,
    TOPICS,
    TRANSACTION_BYTES,
    WORKER_COMMANDS,
    Load,
    TopicSpec,
    TopicState,
    Traffic,
    plan,
    topic_change,
    topic_settings,
    topic_table,
)

MIB = 1 << 20
DAY_MS = 86_400_000


def spec(name: str, shards: int = 1) -> TopicSpec:
    return next(spec for spec in topic_table(shards) if spec.name == name)


def made(spec: TopicSpec, **settings: str) -> TopicState:
    return TopicState(
        spec.name, "id", spec.partitions, {**topic_settings(spec), "compression.type": "producer", **settings}
    )


def test_the_table_holds_every_topic_once() -> None:
    names = [spec.name for spec in TOPICS]
    assert names == [FACTS, EVENTS, PLACEMENTS, WORKER_COMMANDS, DEAD_LETTERS, AUDIT, SNAPSHOTS, SHARDS]


@pytest.mark.parametrize(
    ("name", "retention_days", "cleanup", "limit"),
    [
        (FACTS, 7, "delete", MIB),
        (EVENTS, None, "delete", 4 * MIB),
        (PLACEMENTS, 7, "delete", 4 * MIB),
        (WORKER_COMMANDS, 7, "delete", MIB),
        (DEAD_LETTERS, 30, "delete", 4 * MIB),
        (AUDIT, 30, "delete", 4 * MIB),
        (SNAPSHOTS, None, "compact", 4 * MIB),
        (SHARDS, None, "compact", MIB),
    ],
)
def test_retention_cleanup_and_limits(name: str, retention_days: int | None, cleanup: str, limit: int) -> None:
    found = spec(name)
    assert found.retention_ms == (None if retention_days is None else retention_days * DAY_MS)
    assert (found.cleanup_policy, found.max_message_bytes) == (cleanup, limit)


def test_the_brokers_clock_stamps_facts_and_nothing_else() -> None:
    assert [spec.name for spec in TOPICS if spec.timestamp_type == "LogAppendTime"] == [FACTS]


def test_a_partition_per_shard_and_one_shard_map() -> None:
    assert {spec.name: spec.partitions for spec in topic_table(5)} == {
        spec.name: 1 if spec.name == SHARDS else 5 for spec in TOPICS
    }
    with pytest.raises(ValueError, match="at least one"):
        topic_table(0)


def test_settings_are_kafkas() -> None:
    assert topic_settings(spec(EVENTS))["retention.ms"] == "-1"
    assert topic_settings(spec(FACTS)) == {
        "cleanup.policy": "delete",
        "max.message.bytes": "1048576",
        "message.timestamp.type": "LogAppendTime",
        "retention.ms": "604800000",
        "segment.ms": "86400000",
    }


def test_a_missing_topic_is_created_and_a_right_one_kept() -> None:
    assert topic_change(spec(FACTS, 3), None).lines() == [
        "create headway.facts.v1: 3 partition(s), cleanup.policy=delete, max.message.bytes=1048576, "
        "message.timestamp.type=LogAppendTime, retention.ms=604800000, segment.ms=86400000"
    ]
    kept = topic_change(spec(FACTS, 3), made(spec(FACTS, 3)))
    assert (kept.action, kept.lines()) == ("keep", [])


def test_only_what_differs_is_altered() -> None:
    state = replace(made(spec(FACTS), **{"retention.ms": "1000"}), partitions=1)
    change = topic_change(spec(FACTS, 2), state)
    assert change.action == "alter"
    assert change.settings == {"retention.ms": ("1000", "604800000")}
    assert change.lines() == [
        "alter headway.facts.v1: partitions 1 -> 2",
        "alter headway.facts.v1: retention.ms 1000 -> 604800000",
    ]


def test_partitions_are_never_taken_away() -> None:
    with pytest.raises(TopicConflict, match="is 4, 2 is wanted") as caught:
        topic_change(spec(FACTS, 2), made(spec(FACTS, 4)))
    assert "HEADWAY_TOPIC_PREFIX" in caught.value.remedy


def test_bytes_a_day_are_records_times_size_times_replicas() -> None:
    load = Load(
        cycles_per_s=10,
        workers=20,
        report_interval_s=4,
        ticks_per_s=2,
        replicas=3,
        traffic={FACTS: Traffic(per_cycle=3, per_report=1, per_tick=1, record_bytes=100)},
    )
    (facts,) = plan([spec(FACTS, 2)], {}, load).topics
    # 10 cycles * 3 + 20 workers / 4 s + 2 ticks * 2 shards = 39 records/s
    assert facts.bytes_per_day == 39 * 100 * 86_400 * 3
    # seven days, and up to one more until the oldest segment is closed
    assert facts.disk_bytes == facts.bytes_per_day * 8


def test_transactions_cost_their_ends_up_to_as_many_as_a_shard_can_do() -> None:
    traffic = {EVENTS: Traffic(per_cycle=4, per_report=0, per_tick=0, record_bytes=100)}
    slow = plan([spec(EVENTS)], {}, Load(10, ticks_per_s=0, traffic=traffic))
    assert slow.bytes_per_day == 86_400 * 40 * (100 + TRANSACTION_BYTES)
    fast = plan([spec(EVENTS)], {}, Load(10_000, ticks_per_s=0, traffic=traffic))
    assert fast.bytes_per_day == 86_400 * (40_000 * 100 + 300 * TRANSACTION_BYTES)


def test_sums_keep_what_settles_apart_from_what_grows() -> None:
    made_plan = plan(topic_table(2), {}, Load(100, workers=50, snapshot_bytes=MIB))
    by_name = {topic.change.spec.name: topic for topic in made_plan.topics}
    assert by_name[EVENTS].disk_bytes is None
    assert made_plan.growth_bytes_per_day == by_name[EVENTS].bytes_per_day > 0
    assert by_name[SNAPSHOTS].disk_bytes == 3 * 2 * 2 * MIB
    assert by_name[PLACEMENTS].disk_bytes == 8 * by_name[PLACEMENTS].bytes_per_day
    assert made_plan.settled_bytes == sum(topic.disk_bytes or 0 for topic in made_plan.topics)
    assert made_plan.bytes_per_day == sum(topic.bytes_per_day for topic in made_plan.topics)
    assert len(made_plan.lines()) == len(TOPICS)


def test_every_topic_that_is_not_compacted_has_an_estimate() -> None:
    assert set(DEFAULT_TRAFFIC) == {spec.name for spec in TOPICS if spec.cleanup_policy == "delete"}
