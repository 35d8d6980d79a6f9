"""Topics, shard map and first configurations, on the in-memory log."""

from __future__ import annotations

import pytest

from events.codec import decode_fact
from events.config import DEFAULT_CONFIG, canonical_config
from events.facts import Configured
from streams.errors import InvalidInstance, TopicConflict
from streams.memory_log import MemoryLog
from streams.provisioning import parse_assignment, provision
from streams.shard_map import read_shard_map
from streams.topics import FACTS, TOPICS


def configured(log: MemoryLog, shard: int) -> list[str]:
    facts = [decode_fact(record.value) for record in log.records((FACTS, shard))]
    assert all(isinstance(fact, Configured) for fact in facts)
    assert all(fact.config_json == canonical_config(DEFAULT_CONFIG) for fact in facts)
    return [fact.instance for fact in facts]


async def test_an_empty_cluster_gets_all_topics_and_the_instance_main():
    log = MemoryLog()
    made = await provision(log, {})
    assert {*await log.describe_topics()} == {spec.name for spec in TOPICS}
    assert made.shard_map.shards == {"main": 0}
    assert configured(log, 0) == ["main"]
    assert any("configure main" in line for line in made.done)


async def test_a_second_run_does_nothing():
    log = MemoryLog()
    await provision(log, {"a": None})
    made = await provision(log, {"a": None})
    assert made.done == ()
    assert configured(log, 0) == ["a"]
    assert (await provision(log, {})).done == ()


async def test_a_run_that_died_before_the_map_was_written_is_made_good():
    log = MemoryLog()
    await provision(log, {"a": None})

    class Dies(Exception):
        pass

    publish = log.publish

    async def dying(partition, records):
        if partition[0] != FACTS:
            raise Dies
        return await publish(partition, records)

    log.publish = dying
    with pytest.raises(Dies):
        await provision(log, {"b": None})
    log.publish = publish
    assert (await read_shard_map(log)).shards == {"a": 0}
    assert (await provision(log, {"b": None})).shard_map.shards == {"a": 0, "b": 0}
    assert configured(log, 0) == ["a", "b", "b"]


async def test_shards_come_from_the_assignments_and_instances_spread_over_them():
    log = MemoryLog()
    made = await provision(log, {"a": 2, "b": None, "c": None})
    assert made.shard_map.shards == {"a": 2, "b": 0, "c": 1}
    assert (await log.describe_topics())[FACTS].partitions == 3
    assert [configured(log, shard) for shard in range(3)] == [["b"], ["c"], ["a"]]
    assert (await provision(log, {"d": None})).shard_map.shards["d"] == 0


async def test_an_instance_moves_only_when_it_is_allowed():
    log = MemoryLog()
    await provision(log, {"a": 0}, shards=2)
    with pytest.raises(InvalidInstance, match="lives in shard 0"):
        await provision(log, {"a": 1})
    assert configured(log, 1) == []
    assert (await provision(log, {"a": 1}, allow_moves=True)).shard_map.shards == {"a": 1}
    assert configured(log, 1) == ["a"]


async def test_what_cannot_be_is_refused_before_anything_is_published():
    log = MemoryLog()
    with pytest.raises(InvalidInstance, match="shard 3 does not exist: there are 2"):
        await provision(log, {"ok": 0, "a": 3}, shards=2)
    with pytest.raises(InvalidInstance, match="at most 255"):
        await provision(log, {"x" * 256: 0})
    assert log.records((FACTS, 0)) == []
    with pytest.raises(TopicConflict):
        await provision(log, {}, shards=1)


def test_assignments_are_read_from_text():
    assert parse_assignment("main") == ("main", None)
    assert parse_assignment("team=a=3") == ("team=a", 3)
    for text in ("=1", "", "a=b", "a=-1", "a="):
        with pytest.raises(InvalidInstance):
            parse_assignment(text)
