"""Snapshots in the log: written so that a death destroys nothing, read so that nothing wrong is used, and deciders that begin at one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from events import facts as f
from events.codec import decode_event
from events.snapshot import parts_of
from streams import leadership
from streams.crashing_log import Crash, CrashingLog, ProcessDied
from streams.errors import OutcomeUnknown
from streams.log import Outgoing
from streams.recovery import Fold
from streams.snapshots.errors import HistoryTrimmed, SlotTaken, SnapshotUnusable, Unusable
from streams.snapshots.layout import id_of, slot_and_part
from streams.snapshots.reading import parts_in, state_in
from streams.snapshots.recovering import start_of
from streams.snapshots.writing import take_back_at
from streams.topics import EVENTS, SNAPSHOT_SLOTS, SNAPSHOTS, topic_table
from tests.streams.deciding import (
    Cluster,
    configured,
    connected,
    decide_all,
    queued,
    without_elections,
)
from tests.streams.snapshotting import PART_BYTES, forge, same_state, seqs, snapshot
from tests.streams.test_decider import STORY


async def decided(*facts: f.Fact) -> Cluster:
    cluster = await Cluster.start()
    await cluster.put(*facts)
    await decide_all(cluster)
    return cluster


async def more(cluster: Cluster, name: str) -> None:
    """One more action, decided."""
    await cluster.put(queued(name))
    await decide_all(cluster)


async def test_a_fold_begins_at_the_newest_snapshot_with_the_state_of_a_fold_from_the_first_event() -> None:
    cluster = await decided(*STORY)
    assert same_state(await start_of(cluster.log, 0), Fold(0))
    await snapshot(cluster)
    await more(cluster, "behind it")
    await snapshot(cluster)
    whole = cluster.fold()
    dropped: Counter[str] = Counter()
    assert same_state(await start_of(cluster.log, 0, dropped=dropped), whole)
    assert not dropped


async def test_a_decider_that_begins_at_a_snapshot_decides_as_one_that_read_everything() -> None:
    reference = await decided(*STORY)
    cluster = await decided(*STORY[:10])
    _, manifest = await snapshot(cluster)
    covered = cluster.records(EVENTS)
    await cluster.put(*STORY[10:])
    # What the snapshot covers is gone: a decider that asked for it would fail.
    await cluster.log.trim((EVENTS, 0), manifest.next_event_offset)
    one = await decide_all(cluster)
    assert one.stats.snapshot_seq == manifest.seq
    events = [decode_event(record.value) for record in [*covered, *cluster.records(EVENTS)]]
    assert without_elections(events) == without_elections(reference.events())


async def test_a_leader_that_writes_a_fact_off_rebuilds_its_state_from_the_snapshot(monkeypatch) -> None:
    cluster = await decided(configured(), connected("w1"))
    _, manifest = await snapshot(cluster)
    await cluster.log.trim(
        (EVENTS, 0), manifest.next_event_offset - 2
    )  # events that are there and must not be folded again
    real = leadership.decide

    def decide(shard, fact, **named):
        if getattr(fact, "client_operation_id", "") == "bad":
            raise ValueError("no rule for this")
        return real(shard, fact, **named)

    monkeypatch.setattr(leadership, "decide", decide)
    await cluster.put(queued("good"), queued("bad"), queued("fine"))
    one = await decide_all(cluster)
    assert (one.stats.rebuilds, one.stats.undecidable) == (1, 1)
    fold = await start_of(cluster.log, 0)
    fold.apply([record for record in cluster.records(EVENTS) if record.offset >= fold.next_offset])
    assert [row.client_operation_id for row in fold.shard.operations.values()] == ["good", "fine"]


async def test_without_the_topic_a_fold_begins_at_the_first_event() -> None:
    cluster = Cluster()
    await cluster.log.ensure_topics([spec for spec in topic_table(1) if spec.name != SNAPSHOTS])
    assert (await start_of(cluster.log, 0)).shard.seq == 0


async def test_a_death_at_any_call_of_writing_leaves_the_last_good_snapshot_and_room_for_the_next() -> None:
    async def with_one() -> Cluster:
        cluster = await decided(*STORY)
        await snapshot(cluster)
        await more(cluster, "behind it")
        return cluster

    cluster = await with_one()
    log = CrashingLog(cluster.log)
    await snapshot(cluster, log=log)
    calls = log.calls
    assert calls.count("append") == 2
    for at_call in range(len(calls)):
        for when in ("before", "after"):
            await dies_at(await with_one(), Crash(at_call, when), calls)


async def dies_at(cluster: Cluster, crash: Crash, calls: list[str]) -> None:
    before = await seqs(cluster.log)
    with pytest.raises(ProcessDied):
        await snapshot(cluster, log=CrashingLog(cluster.log, crash))
    dropped: Counter[str] = Counter()
    fold = await start_of(cluster.log, 0, dropped=dropped)
    whole = cluster.fold()
    # The last append is the manifest's: from then on the new one is there.
    there = crash.at_call > last_append(calls) or (crash.at_call == last_append(calls) and crash.when == "after")
    assert fold.shard.seq == (whole.shard.seq if there else before[0]), f"{crash} of {calls}"
    assert not dropped
    _, manifest = await snapshot(cluster)
    assert (await seqs(cluster.log))[0] == manifest.seq
    assert same_state(await start_of(cluster.log, 0), whole)


def last_append(calls: list[str]) -> int:
    return len(calls) - 1 - calls[::-1].index("append")


@pytest.mark.parametrize("committed", [False, None], ids=["aborted", "left open"])
@pytest.mark.parametrize("nth", [0, 1])
async def test_a_commit_that_is_cut_leaves_the_last_good_snapshot(committed: bool | None, nth: int) -> None:
    cluster = await decided(*STORY)
    await snapshot(cluster)
    good = await seqs(cluster.log)
    await more(cluster, "behind it")

    def fail(name: str, count: int) -> None:
        if (name, count) == ("append", nth):
            cluster.log.fail_next_append(OutcomeUnknown, committed=committed)

    with pytest.raises(OutcomeUnknown):
        await snapshot(cluster, log=CrashingLog(cluster.log, on_call=fail))
    assert (await start_of(cluster.log, 0)).shard.seq == good[0]
    await snapshot(cluster)
    assert same_state(await start_of(cluster.log, 0), cluster.fold())


async def test_who_is_overtaken_while_it_writes_leaves_its_snapshot_unfinished() -> None:
    cluster = await decided(*STORY)
    _, good = await snapshot(cluster)
    await more(cluster, "behind it")

    class Overtaken(CrashingLog):
        async def open(self, transactional_id: str, *, timeout_ms: int = 10_000):
            writer = await super().open(transactional_id, timeout_ms=timeout_ms)
            await cluster.log.open(transactional_id)
            return writer

    with pytest.raises(SlotTaken):
        await snapshot(cluster, log=Overtaken(cluster.log))
    assert await seqs(cluster.log) == [good.seq]


async def test_the_newest_and_the_verified_snapshot_stay_whatever_is_written() -> None:
    cluster = await decided(*STORY)
    _, verified = await snapshot(cluster)
    newest = verified
    for number in range(2 * SNAPSHOT_SLOTS):
        await more(cluster, f"more-{number}")
        _, manifest = await snapshot(cluster, keep=[verified.seq])
        there = await seqs(cluster.log)
        assert there[:2] == [manifest.seq, newest.seq]
        assert verified.seq in there
        assert len(there) <= SNAPSHOT_SLOTS
        newest = manifest
    cluster.log.compact(SNAPSHOTS)
    assert (await seqs(cluster.log))[-1] == verified.seq
    assert same_state(await start_of(cluster.log, 0), cluster.fold())


async def test_compaction_keeps_of_a_slot_what_its_last_snapshot_needs() -> None:
    cluster = await decided(configured(), *(queued(f"a{number}") for number in range(40)))
    _, large = await snapshot(cluster)
    small = Fold(0)
    small.apply(cluster.records(EVENTS)[:3])
    for _ in range(SNAPSHOT_SLOTS):
        _, written = await snapshot(cluster, small)
        assert written.parts < large.parts
    cluster.log.compact(SNAPSHOTS)
    left = cluster.records(SNAPSHOTS)
    assert len({record.key for record in left}) == len(left)
    parts = [record for record in left if id_of(record) and (slot_and_part(record.key) or (0, None))[1] is not None]
    assert len(parts) == SNAPSHOT_SLOTS * written.parts
    assert same_state(await start_of(cluster.log, 0), small)


async def test_a_slot_that_is_written_over_while_it_is_read_is_not_taken_for_the_old_snapshot() -> None:
    cluster = await decided(*STORY)
    found, manifest = await snapshot(cluster)
    for number in range(SNAPSHOT_SLOTS + 1):
        await more(cluster, f"more-{number}")
        await snapshot(cluster)
    # Not compacted yet, every part of the old one is still there.
    assert state_in(found, manifest, await parts_in(cluster.log, found, manifest)).seq == manifest.seq
    cluster.log.compact(SNAPSHOTS)
    with pytest.raises(SnapshotUnusable) as caught:
        await parts_in(cluster.log, found, manifest)
    assert caught.value.reason is Unusable.MISSING_PART


async def test_snapshots_with_many_parts_are_found_from_the_end() -> None:
    cluster = await decided(configured(), *(queued(f"a{number}") for number in range(200)))
    _, manifest = await snapshot(cluster)
    assert manifest.parts > 20
    await more(cluster, "behind it")
    _, newer = await snapshot(cluster)
    await forge(cluster, slot=2, value=b"")  # parts of one that was begun and taken back
    assert await seqs(cluster.log) == [newer.seq, manifest.seq]


async def damaged_manifest(cluster: Cluster) -> None:
    await forge(cluster, value=b"\xff\xff no manifest")


async def other_format(cluster: Cluster) -> None:
    await forge(cluster, format=999)


async def other_cluster(cluster: Cluster) -> None:
    await forge(cluster, cluster_id="another")


async def other_topic(cluster: Cluster) -> None:
    await forge(cluster, facts_topic_id="made anew")


async def missing_part(cluster: Cluster) -> None:
    await forge(cluster, without=[1])


async def missing_last_part(cluster: Cluster) -> None:
    await forge(cluster, without=[len([*parts_of(cluster.fold().shard, PART_BYTES)]) - 1])


async def parts_of_another_snapshot(cluster: Cluster) -> None:
    await forge(cluster, snapshot_id=b"before", value=b"")
    await forge(cluster, without=range(1_000))


async def changed_byte(cluster: Cluster) -> None:
    parts = [*parts_of(cluster.fold().shard, PART_BYTES)]
    parts[1] = parts[1][:-1] + bytes([parts[1][-1] ^ 1])
    await forge(cluster, parts=parts)


async def cut_part(cluster: Cluster) -> None:
    parts = [*parts_of(cluster.fold().shard, PART_BYTES)]
    await forge(cluster, parts=[parts[0], parts[1][:-3], *parts[2:]])


async def wrong_digest(cluster: Cluster) -> None:
    await forge(cluster, state_digest=bytes(16))


async def ahead_of_the_log(cluster: Cluster) -> None:
    await forge(cluster, next_event_offset=cluster.fold().next_offset + 1000)


async def another_chain(cluster: Cluster) -> None:
    await forge(cluster, chain=bytes(16))


async def of_an_older_event(cluster: Cluster) -> None:
    older = Fold(0)
    older.apply(cluster.records(EVENTS)[:-2])
    await forge(cluster, parts=[*parts_of(older.shard, PART_BYTES)])


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (damaged_manifest, Unusable.UNREADABLE_MANIFEST),
        (other_format, Unusable.UNREADABLE_MANIFEST),
        (other_cluster, Unusable.OTHER_LOG),
        (other_topic, Unusable.OTHER_LOG),
        (missing_part, Unusable.MISSING_PART),
        (missing_last_part, Unusable.MISSING_PART),
        (parts_of_another_snapshot, Unusable.MISSING_PART),
        (changed_byte, Unusable.DAMAGED),
        (cut_part, Unusable.DAMAGED),
        (wrong_digest, Unusable.DAMAGED),
        (of_an_older_event, Unusable.DAMAGED),
        (ahead_of_the_log, Unusable.AHEAD_OF_LOG),
        (another_chain, Unusable.OTHER_CHAIN),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_snapshot_that_is_of_no_use_is_dropped_with_its_reason_and_the_next_older_one_is_taken(
    damage: Callable[[Cluster], Awaitable[None]], reason: Unusable
) -> None:
    cluster = await decided(*STORY)
    await damage(cluster)
    one = await decide_all(cluster)
    assert one.stats.snapshots_dropped == {reason.value: 1}, "with none behind it the log is folded"
    assert one.stats.snapshot_seq == 0

    cluster = await decided(*STORY)
    _, good = await snapshot(cluster)
    await more(cluster, "behind it")
    await damage(cluster)
    one = await decide_all(cluster)
    assert one.stats.snapshots_dropped == {reason.value: 1}
    assert one.stats.snapshot_seq == good.seq
    cluster.events()


async def test_a_log_whose_first_events_are_gone_is_refused_where_no_snapshot_covers_them() -> None:
    cluster = await decided(*STORY)
    await forge(cluster, chain=bytes(16))
    await cluster.log.trim((EVENTS, 0), 5)
    with pytest.raises(HistoryTrimmed, match=r"begin at offset 5.*1 other-chain") as caught:
        await start_of(cluster.log, 0)
    assert "headway import" in caught.value.remedy


async def test_a_snapshot_that_was_taken_back_is_not_found_again() -> None:
    cluster = await decided(*STORY)
    _, good = await snapshot(cluster)
    await more(cluster, "behind it")
    _, wrong = await snapshot(cluster)
    assert await take_back_at(cluster.log, 0, wrong.seq) == 1
    assert await take_back_at(cluster.log, 0, wrong.seq) == 0
    assert await seqs(cluster.log) == [good.seq]
    assert (await start_of(cluster.log, 0)).shard.seq == good.seq


async def test_records_of_replaced_leaders_behind_its_last_event_are_no_other_chain() -> None:
    cluster = await decided(*STORY)
    stale = cluster.records(EVENTS)[0].value
    await decide_all(cluster)  # a second leader
    await cluster.log.publish((EVENTS, 0), [Outgoing(stale)])
    fold = Fold(0)
    fold.apply(cluster.records(EVENTS))
    assert fold.stale == 1
    await snapshot(cluster, fold)
    assert (await start_of(cluster.log, 0)).shard.seq == fold.shard.seq
