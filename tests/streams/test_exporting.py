"""Exporting closed ranges of a log: whole facts, continued, checked as they are read."""

from __future__ import annotations

import pytest

from events import events as e
from events.codec import decode_event
from streams.export import BeginsLater, ExportLog, OutsideLog, UnlikeExport
from streams.export.exporting import export
from streams.log import Outgoing, Record
from streams.moments import Moment
from streams.recovery import DamagedLog
from streams.topics import EVENTS, FACTS
from tests.contract.reading import read_all
from tests.streams.deciding import Cluster, configured, connected, decide_all, queued

E0, F0 = (EVENTS, 0), (FACTS, 0)


async def recorded(*, shards: int = 1, actions: int = 30) -> Cluster:
    """A cluster in which each shard has decided some facts."""
    cluster = await Cluster.start(shards=shards, cluster_id="recorded")
    for shard in range(shards):
        await cluster.put(
            configured(), connected("w1", 100_000), *(queued(f"a{n}") for n in range(actions)), shard=shard
        )
        await decide_all(cluster, shard=shard)
    return cluster


def causes(records: list[Record]) -> list[int]:
    return [decode_event(record.value).cause_offset for record in records]


async def test_all_of_a_log_is_exported_with_its_facts(tmp_path):
    cluster = await recorded()
    manifest, added = await export(cluster.log, tmp_path, shards=[0])
    files = ExportLog(tmp_path)
    assert await read_all(files, E0) == cluster.records(EVENTS)
    assert await read_all(files, F0) == cluster.records(FACTS)
    assert [(one.topic, one.records) for one in added] == [
        (EVENTS, len(cluster.records(EVENTS))),
        (FACTS, len(cluster.records(FACTS))),
    ]
    assert (added[0].first_seq, added[0].last_seq) == (1, cluster.fold().shard.seq)
    assert manifest.segments[0].chain_after == cluster.fold().chain.hex()


async def test_an_export_is_continued_from_where_it_ended(tmp_path):
    cluster = await recorded()
    await export(cluster.log, tmp_path, shards=[0])
    _, nothing = await export(cluster.log, tmp_path, shards=[0])
    assert [one.records for one in nothing] == [0, 0]
    before = cluster.fold().shard.seq
    await cluster.put(*(queued(f"b{n}") for n in range(10)))
    await decide_all(cluster)
    _, added = await export(cluster.log, tmp_path, shards=[0])
    assert (added[0].first_seq, added[0].last_seq) == (before + 1, cluster.fold().shard.seq)
    files = ExportLog(tmp_path)
    assert await read_all(files, E0) == cluster.records(EVENTS)
    assert await read_all(files, F0) == cluster.records(FACTS)


async def test_what_no_transaction_has_committed_yet_is_not_exported(tmp_path):
    cluster = await recorded()
    stable = cluster.records(EVENTS)
    writer = await cluster.log.open("another")
    cluster.log.fail_next_append(committed=None)
    with pytest.raises(Exception, match="outcome-unknown"):
        await writer.append({E0: [Outgoing(b"never committed")]})
    await export(cluster.log, tmp_path, shards=[0])
    assert await read_all(ExportLog(tmp_path), E0) == stable


async def test_a_range_holds_facts_whole(tmp_path):
    """Each queued action causes two events; a cut between them takes both."""
    cluster = await recorded()
    records = cluster.records(EVENTS)
    whole = causes(records)
    split = next(
        n for n in range(20, len(records)) if whole[n] == whole[n - 1]
    )  # in the middle of what one fact caused
    later = next(n for n in range(split + 5, len(records)) if whole[n] == whole[n - 1])
    since, until = Moment(seq=split + 1), Moment(seq=later)  # event n stands at index n - 1
    await export(cluster.log, tmp_path, shards=[0], since=since, until=until)
    files = ExportLog(tmp_path)
    read = await read_all(files, E0)
    assert read == records[split - 1 : later + 1]
    assert [record.offset for record in await read_all(files, F0)] == list(range(whole[split], whole[later] + 1))
    with pytest.raises(BeginsLater):
        files.check_foldable(0)


async def test_a_range_of_times_ends_with_the_last_event_at_or_before_it(tmp_path):
    cluster = await recorded()
    events = cluster.events()
    first, last = events[len(events) // 2], events[len(events) // 2 + 8]
    await export(cluster.log, tmp_path, shards=[0], since=Moment(at_us=first.at_us), until=Moment(at_us=last.at_us))
    read = [decode_event(record.value) for record in await read_all(ExportLog(tmp_path), E0)]
    due = [event for event in events if first.at_us <= event.at_us <= last.at_us]
    assert read == due
    assert len(due) < len(events)


async def test_a_range_that_the_log_does_not_reach_is_refused_with_what_it_has(tmp_path):
    cluster = await recorded()
    last = cluster.fold().shard.seq
    with pytest.raises(OutsideLog, match=f"its last stable event is {last}"):
        await export(cluster.log, tmp_path, shards=[0], until=Moment(seq=last + 1))
    with pytest.raises(OutsideLog):
        await export(cluster.log, tmp_path, shards=[0], since=Moment(seq=last + 1))
    assert not (tmp_path / "manifest.json").exists()


async def test_a_damaged_log_is_not_exported(tmp_path):
    cluster = await recorded()
    writer = await cluster.log.open("forger")
    await writer.append({E0: [Outgoing(cluster.records(EVENTS)[3].value)]})
    with pytest.raises(DamagedLog):
        await export(cluster.log, tmp_path, shards=[0])
    assert not (tmp_path / "manifest.json").exists()


async def test_a_continued_export_finds_that_the_log_does_not_follow_on_it(tmp_path):
    cluster = await recorded()
    await export(cluster.log, tmp_path, shards=[0])
    writer = await cluster.log.open("forger")
    await writer.append({E0: [Outgoing(cluster.records(EVENTS)[3].value)]})
    with pytest.raises(DamagedLog):
        await export(cluster.log, tmp_path, shards=[0])


async def test_facts_that_retention_took_between_two_exports_are_named(tmp_path):
    cluster = await recorded()
    await export(cluster.log, tmp_path, shards=[0])
    had = len(cluster.records(FACTS))
    await cluster.put(*(queued(f"b{n}") for n in range(10)))
    await decide_all(cluster)
    await cluster.log.trim(F0, had + 4)
    manifest, _ = await export(cluster.log, tmp_path, shards=[0])
    assert manifest.span(F0).missing == ((had, had + 4),)
    assert [record.offset for record in await read_all(ExportLog(tmp_path), F0)] == [
        *range(had),
        *range(had + 4, had + 10),
    ]


async def test_facts_left_out_read_as_if_retention_had_taken_them(tmp_path):
    cluster = await recorded()
    await export(cluster.log, tmp_path, shards=[0], topics=(EVENTS,))
    follower = await ExportLog(tmp_path).follow({F0: None})
    decided = cluster.fold().shard.position + 1
    assert (await follower.beginning_offset(F0), await follower.end_offset(F0)) == (decided, decided)


async def test_one_shard_of_several_and_then_another(tmp_path):
    cluster = await recorded(shards=3)
    await export(cluster.log, tmp_path, shards=[1])
    assert ExportLog(tmp_path).shards == (1,)
    await export(cluster.log, tmp_path, shards=[2])
    files = ExportLog(tmp_path)
    assert files.shards == (1, 2)
    for shard in files.shards:
        assert await read_all(files, (EVENTS, shard)) == cluster.records(EVENTS, shard)
    with pytest.raises(UnlikeExport, match="since"):
        await export(cluster.log, tmp_path, shards=[1], since=Moment(seq=3))


async def test_an_empty_shard_is_exported_as_what_it_is(tmp_path):
    cluster = await Cluster.start(cluster_id="recorded")
    await export(cluster.log, tmp_path, shards=[0])
    files = ExportLog(tmp_path)
    files.check_foldable(0)
    assert await read_all(files, E0) == []
    assert files.shards == (0,)
    await cluster.put(configured())
    await decide_all(cluster)
    await export(cluster.log, tmp_path, shards=[0])
    assert await read_all(ExportLog(tmp_path), E0) == cluster.records(EVENTS)


async def test_the_last_event_before_a_cut_is_followed_by_what_is_exported_next(tmp_path):
    """Cut at an event, then continued: every event is there once."""
    cluster = await recorded()
    await export(cluster.log, tmp_path, shards=[0], until=Moment(seq=20))
    await export(cluster.log, tmp_path, shards=[0])
    files = ExportLog(tmp_path)
    assert await read_all(files, E0) == cluster.records(EVENTS)
    assert await read_all(files, F0) == cluster.records(FACTS)
    assert [type(event) for event in cluster.events()].count(e.OperationQueued) == 30


@pytest.mark.parametrize("topics", [(EVENTS, FACTS), (FACTS,)], ids=["all", "facts"])
async def test_facts_end_where_the_events_of_the_range_end(tmp_path, topics):
    cluster = await recorded()
    events = cluster.events()
    first, last = events[20], events[40]
    due = list(range(first.cause_offset, last.cause_offset + 1))
    await export(cluster.log, tmp_path / "seq", shards=[0], topics=topics, since=Moment(seq=21), until=Moment(seq=41))
    assert [record.offset for record in await read_all(ExportLog(tmp_path / "seq"), F0)] == due
    times = Moment(at_us=first.at_us), Moment(at_us=last.at_us)
    await export(cluster.log, tmp_path / "time", shards=[0], topics=topics, since=times[0], until=times[1])
    assert [record.offset for record in await read_all(ExportLog(tmp_path / "time"), F0)] == due


async def test_a_continued_export_takes_no_facts_behind_its_events(tmp_path):
    cluster = await recorded()
    await export(cluster.log, tmp_path, shards=[0], until=Moment(seq=20))
    had = await read_all(ExportLog(tmp_path), F0)
    _, added = await export(cluster.log, tmp_path, shards=[0], until=Moment(seq=10))
    assert [one.records for one in added] == [0, 0]
    assert await read_all(ExportLog(tmp_path), F0) == had


async def test_facts_alone_are_continued_and_not_begun_again(tmp_path):
    cluster = await recorded()
    await export(cluster.log, tmp_path, shards=[0], topics=(FACTS,), until=Moment(seq=20))
    with pytest.raises(UnlikeExport, match="since"):
        await export(cluster.log, tmp_path, shards=[0], topics=(FACTS,), since=Moment(seq=3))
    await export(cluster.log, tmp_path, shards=[0], topics=(FACTS,))
    assert ExportLog(tmp_path).shards == ()
    follower = await ExportLog(tmp_path).follow({F0: None})
    assert await follower.end_offset(F0) == len(cluster.records(FACTS))
