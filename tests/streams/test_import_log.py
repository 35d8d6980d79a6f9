"""A new generation of a log from an export: its chain goes on, nothing is decided twice, and only an empty cluster takes one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from events import events as e
from streams.crashing_log import Crash, CrashingLog, ProcessDied
from streams.export import DamagedExport, ExportLog, NotEmpty
from streams.export.exporting import export
from streams.export.generation import import_log
from streams.log import Outgoing
from streams.moments import Moment
from streams.provisioning import provision
from streams.recovery import DamagedLog, OtherLog
from streams.shard_map import read_shard_map, write_shard_map
from streams.ticker import TICK
from streams.topics import EVENTS, FACTS
from tests.streams.deciding import (
    DEADLINE_S,
    Cluster,
    configured,
    connected,
    decide_all,
    decider,
    events_of,
    queued,
)
from tests.streams.exported import write_directory

E0, F0 = (EVENTS, 0), (FACTS, 0)


async def recorded(directory: Path, *, undecided: int = 0, shards: int = 1) -> Cluster:
    """A cluster with a decided log, exported; some facts came after the decider had stopped."""
    cluster = await Cluster.start(shards=shards, cluster_id="first")
    await write_shard_map(cluster.log, {"main": 0})
    await cluster.put(configured(), connected("w1"), *(queued(f"a{n}") for n in range(30)))
    await decide_all(cluster)
    await cluster.put(*(queued(f"late{n}") for n in range(undecided)))
    await export(cluster.log, directory, shards=range(shards))
    return cluster


async def test_seq_and_chain_go_on_and_another_decider_decides_on(tmp_path):
    before = await recorded(tmp_path)
    after = Cluster(cluster_id="second")
    (imported,) = await import_log(ExportLog(tmp_path), after.log, build="import")
    old, new = before.records(EVENTS), after.records(EVENTS)
    assert [record.value for record in new[:-1]] == [record.value for record in old]
    elected = after.events()[-1]
    assert (elected.seq, elected.cluster_id, elected.build) == (len(old) + 1, "second", "import")
    assert (imported.written, imported.seq) == (len(old), elected.seq)
    assert (await read_shard_map(after.log)).shards == {"main": 0}

    after.now_us = before.now_us
    (offset,) = await after.put(queued("new"))
    await decide_all(after)
    (operation,) = events_of(after.events()[elected.seq :], e.OperationQueued)
    # Operations are named by the offsets of their facts, so a new one must never take the place of an old one.
    assert operation.cause_offset == offset == before.fold().shard.position + 1


async def test_facts_that_nobody_had_decided_are_decided_in_the_new_log(tmp_path):
    await recorded(tmp_path, undecided=3)
    after = Cluster(cluster_id="second")
    after.now_us += 1_000_000_000
    (imported,) = await import_log(ExportLog(tmp_path), after.log)
    assert imported.facts == 3
    await decide_all(after)
    names = [event.client_operation_id for event in events_of(after.events(), e.OperationQueued)]
    assert names == [*(f"a{n}" for n in range(30)), "late0", "late1", "late2"]


async def test_an_exported_generation_reads_like_any_log_and_is_imported_again(tmp_path):
    await recorded(tmp_path / "first")
    second = Cluster(cluster_id="second")
    await import_log(ExportLog(tmp_path / "first"), second.log)
    await export(second.log, tmp_path / "second", shards=[0])
    third = Cluster(cluster_id="third")
    await import_log(ExportLog(tmp_path / "second"), third.log)
    chains = [event.cluster_id for event in events_of(third.events(), e.LeaderElected)]
    assert chains == ["first", "second", "third"]


async def test_a_log_that_is_there_already_is_left_alone(tmp_path):
    await recorded(tmp_path)
    after = Cluster(cluster_id="second")
    await import_log(ExportLog(tmp_path), after.log)
    await decide_all(after)
    once = after.records(EVENTS)
    (again,) = await import_log(ExportLog(tmp_path), after.log)
    assert again.before
    assert after.records(EVENTS) == once


async def test_a_cluster_with_another_log_is_refused_and_left_as_it_is(tmp_path):
    await recorded(tmp_path)
    other = await Cluster.start(cluster_id="second")
    await other.put(configured(), queued("mine"))
    await decide_all(other)
    await other.log.trim(F0, 2)  # as retention does: then only the events tell
    once = other.records(EVENTS), other.records(FACTS)
    with pytest.raises(NotEmpty, match=r"events\.v1\[0\] is not empty: its record at offset \d+ is none of the export"):
        await import_log(ExportLog(tmp_path), other.log)
    assert (other.records(EVENTS), other.records(FACTS)) == once


async def test_a_cluster_that_was_provisioned_has_a_fact_and_is_refused(tmp_path):
    await recorded(tmp_path)
    other = Cluster(cluster_id="second")
    await provision(other.log, {"main": 0})
    with pytest.raises(NotEmpty, match="a fact at offset 0"):
        await import_log(ExportLog(tmp_path), other.log)
    assert other.records(EVENTS) == []


async def test_the_same_cluster_is_refused(tmp_path):
    """The log is the export's own and goes on behind it: there is nothing to import, and a second LeaderElected would be wrong."""
    before = await recorded(tmp_path)
    await before.put(queued("more"))
    await decide_all(before)
    once = before.records(EVENTS)
    (found,) = await import_log(ExportLog(tmp_path), before.log)
    assert found.before
    assert before.records(EVENTS) == once


async def test_a_decider_refuses_a_log_whose_import_was_interrupted(tmp_path):
    await recorded(tmp_path)
    after = Cluster(cluster_id="second")
    log = CrashingLog(after.log, Crash(0, "after", of="append"))
    with pytest.raises(ProcessDied):
        await import_log(ExportLog(tmp_path), log)
    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(OtherLog, match="headway import"):
            await decider(after.log).run(asyncio.Event())


@pytest.mark.parametrize("when", ["before", "after"])
async def test_an_import_that_dies_anywhere_is_taken_up_again(tmp_path, when):
    before = await recorded(tmp_path, undecided=2)
    whole = Cluster(cluster_id="second")
    counting = CrashingLog(whole.log)
    await import_log(ExportLog(tmp_path), counting)
    written = [name for name in counting.calls if name in ("append", "publish", "trim", "ensure_topics")]
    assert written.count("append") == 2
    for call in range(len(counting.calls)):
        after = Cluster(cluster_id="second")
        with pytest.raises(ProcessDied):
            await import_log(ExportLog(tmp_path), CrashingLog(after.log, Crash(call, when)))
        if FACTS in await after.log.describe_topics():
            await after.log.publish(F0, [Outgoing(TICK)])  # of a standby that came up too early
        await import_log(ExportLog(tmp_path), after.log)
        assert [r.value for r in after.records(EVENTS)][:-1] == [r.value for r in before.records(EVENTS)], call
        kinds = [record.value for record in after.records(FACTS) if record.value != TICK]
        assert kinds == [record.value for record in before.records(FACTS)[-2:]], call
        after.now_us = before.now_us + 1_000_000
        await decide_all(after)
        assert after.fold().shard.seq > before.fold().shard.seq, call


async def test_nothing_is_written_where_the_export_is_damaged(tmp_path):
    await recorded(tmp_path)
    path = next((tmp_path / f"{EVENTS}-0").glob("*.zst"))
    path.write_bytes(path.read_bytes()[:-1])
    after = Cluster(cluster_id="second")
    with pytest.raises(DamagedExport):
        await import_log(ExportLog(tmp_path), after.log)
    assert after.records(EVENTS) == []


async def test_nothing_is_written_where_an_event_is_missing_although_every_digest_holds(tmp_path):
    before = await recorded(tmp_path / "whole")
    records = before.records(EVENTS)
    await write_directory(before.log, tmp_path / "forged", {E0: [*records[:10], *records[11:]]})
    after = Cluster(cluster_id="second")
    with pytest.raises(DamagedLog, match="after event 10"):
        await import_log(ExportLog(tmp_path / "forged"), after.log)
    assert after.records(EVENTS) == []


async def test_a_part_of_a_log_is_no_generation(tmp_path):
    cluster = await recorded(tmp_path / "whole")
    await export(cluster.log, tmp_path / "part", shards=[0], since=Moment(seq=5))
    with pytest.raises(Exception, match="begins-later"):
        await import_log(ExportLog(tmp_path / "part"), Cluster(cluster_id="second").log)


async def test_one_shard_of_several_is_imported_with_its_instances_only(tmp_path):
    cluster = await Cluster.start(shards=2, cluster_id="first")
    await write_shard_map(cluster.log, {"main": 0, "night": 1})
    await cluster.put(configured("night"), shard=1)
    await decide_all(cluster, shard=1)
    await export(cluster.log, tmp_path, shards=[1])
    after = Cluster(cluster_id="second")
    await import_log(ExportLog(tmp_path), after.log)
    assert (await read_shard_map(after.log)).shards == {"night": 1}
    assert after.records(EVENTS, 0) == []
    assert after.fold(1).shard.seq == cluster.fold(1).shard.seq + 1
