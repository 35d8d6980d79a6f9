"""Topics are made on purpose, once; clusters and topics have identities that tell a log from another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streams.errors import Closed, InvalidInstance, TopicConflict, UnknownInstance, UnreadableShardMap
from streams.log import Log, Outgoing
from streams.shard_map import SHARD_MAP, read_shard_map, write_shard_map
from streams.topics import EVENTS, FACTS, SHARDS, topic_settings
from tests.contract.backends import SPECS, Backend
from tests.contract.reading import read_all, values


async def test_ensuring_topics_twice_does_nothing_the_second_time(log: Log) -> None:
    assert await log.ensure_topics(SPECS) == []
    states = await log.describe_topics()
    assert set(states) == {spec.name for spec in SPECS}
    for spec in SPECS:
        state = states[spec.name]
        assert (state.name, state.partitions) == (spec.name, spec.partitions)
        assert topic_settings(spec).items() <= dict(state.settings).items()


async def test_settings_and_partitions_are_altered_and_records_stay(log: Log) -> None:
    await log.publish((FACTS, 0), [Outgoing(b"kept")])
    before = await log.topic_id(FACTS)
    (spec,) = (spec for spec in SPECS if spec.name == FACTS)
    wanted = replace(spec, partitions=3, retention_ms=3_600_000, max_message_bytes=500_000)
    done = await log.ensure_topics([wanted])
    assert done == [
        "alter headway.facts.v1: partitions 2 -> 3",
        "alter headway.facts.v1: max.message.bytes 1048576 -> 500000",
        "alter headway.facts.v1: retention.ms 604800000 -> 3600000",
    ]
    assert await log.ensure_topics([wanted]) == []
    state = (await log.describe_topics())[FACTS]
    assert (state.partitions, state.max_message_bytes, state.settings["segment.ms"]) == (3, 500_000, "86400000")
    assert await log.topic_id(FACTS) == before
    assert await log.publish((FACTS, 2), [Outgoing(b"new partition")]) == [0]
    assert values(await read_all(log, (FACTS, 0))) == [b"kept"]


async def test_fewer_partitions_are_a_conflict_that_changes_nothing_else(log: Log) -> None:
    wanted = [
        replace(spec, partitions=1, retention_ms=1000) if spec.name == EVENTS else replace(spec, retention_ms=2000)
        for spec in SPECS
    ]
    with pytest.raises(TopicConflict, match=r"headway\.events\.v1.* is 2, 1 is wanted"):
        await log.ensure_topics(wanted)
    assert await log.ensure_topics(SPECS) == []


async def test_identities_stay_and_differ(backend: Backend, log: Log) -> None:
    other = await backend.second_client()
    assert await log.cluster_id() == await other.cluster_id() != ""
    ids = {await log.topic_id(spec.name) for spec in SPECS}
    assert len(ids) == len(SPECS)
    assert ids == {await other.topic_id(spec.name) for spec in SPECS}


async def test_the_last_registration_of_an_instance_wins(log: Log) -> None:
    assert (await read_shard_map(log)).shards == {}
    await write_shard_map(log, {"main": 0, "": 1})
    await write_shard_map(log, {"main": 1, "ci": 0}, allow_moves=True)
    read = await read_shard_map(log)
    assert read.shards == {"": 1, "ci": 0, "main": 1}
    assert read.shard_of("main") == 1


async def test_registering_the_same_again_writes_nothing(log: Log) -> None:
    await write_shard_map(log, {"main": 0})
    await write_shard_map(log, {"main": 0})
    assert len(await read_all(log, SHARD_MAP)) == 1


async def test_an_unknown_instance_lists_the_known_ones(log: Log) -> None:
    await write_shard_map(log, {"main": 0, "ci": 1})
    with pytest.raises(UnknownInstance, match=r"'mian'; known instances: 'ci', 'main'") as caught:
        (await read_shard_map(log)).shard_of("mian")
    assert caught.value.known == ("ci", "main")


@pytest.mark.parametrize(
    ("instance", "shard", "why"),
    [("main", 2, "there are 2 shard"), ("main", -1, "shard -1"), ("x" * 256, 0, "256 bytes"), ("\ud800", 0, "text")],
    ids=["no such shard", "negative shard", "long name", "not text"],
)
async def test_what_cannot_be_registered_is_refused_with_the_rule(
    log: Log, instance: str, shard: int, why: str
) -> None:
    with pytest.raises(InvalidInstance, match=why):
        await write_shard_map(log, {"fine": 0, instance: shard})
    assert (await read_shard_map(log)).shards == {}


async def test_moving_an_instance_takes_saying_so(log: Log) -> None:
    await write_shard_map(log, {"main": 0})
    with pytest.raises(InvalidInstance, match="lives in shard 0, and shard 1"):
        await write_shard_map(log, {"main": 1})
    assert (await read_shard_map(log)).shard_of("main") == 0


@pytest.mark.parametrize("value", [b"", b"3", b"{}", b'{"shard": -1}', b'{"shard": "1"}', b'{"shard": true}', b"\xff"])
async def test_a_foreign_record_in_the_shard_map_is_named_by_its_offset(log: Log, value: bytes) -> None:
    await log.publish(SHARD_MAP, [Outgoing(b'{"shard": 0}', key=b"main"), Outgoing(value, key=b"odd")])
    with pytest.raises(UnreadableShardMap, match=r"headway\.shards\.v1\[0\] offset 1"):
        await read_shard_map(log)


async def test_a_closed_log_says_so_and_closes_twice(backend: Backend) -> None:
    client = await backend.second_client()
    if client is backend.log:
        pytest.skip("closing the only object of a log in memory is tested with that log")
    await client.close()
    await client.close()
    with pytest.raises(Closed):
        await client.cluster_id()
    with pytest.raises(Closed):
        await client.publish((SHARDS, 0), [Outgoing(b"{}", key=b"k")])
