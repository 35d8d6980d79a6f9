"""The follower of a shard: writes, has another fold verify, takes back what two folds differ in, and can die anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from events import events as e
from streams.crashing_log import Crash, CrashingLog, ProcessDied
from streams.log import Log, Record
from streams.recovery import Fold, OtherLog
from streams.snapshots import following, verifying
from streams.snapshots.errors import HistoryTrimmed, NotRecorded, SnapshotUnusable, Unusable
from streams.snapshots.following import STOPPED, Cadence, SnapshotFollower
from streams.snapshots.recovering import start_of
from streams.snapshots.verifying import snapshot_at, verify, verify_and_report
from streams.topics import EVENTS
from tests.streams.deciding import (
    DEADLINE_S,
    Cluster,
    configured,
    connected,
    decide_all,
    decided,
    decider,
    events_of,
    leading,
    queued,
    running,
    until,
)
from tests.streams.snapshotting import forge, same_state, seqs, snapshot
from tests.streams.test_decider import STORY

OFTEN = Cadence(every_events=10, every_us=10**12, worth_events=1, gap_us=0, rest=0)


def follower(log: Log, **more: object) -> SnapshotFollower:
    return SnapshotFollower(log, 0, **{"name": "one", "cadence": OFTEN, **more})


@asynccontextmanager
async def at_work(*followers: SnapshotFollower) -> AsyncIterator[None]:
    """Run followers until the block ends, then stop them; their errors are raised."""
    stop = asyncio.Event()
    tasks = [asyncio.create_task(one.run(stop)) for one in followers]
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait_for(asyncio.gather(*tasks), DEADLINE_S)


async def put_and_decide(cluster: Cluster, one, *names: str) -> None:
    await cluster.put(*(queued(name) for name in names))
    await decided(one, cluster)


def names(prefix: str, count: int = 12) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def judged(cluster: Cluster) -> list[tuple[str, int]]:
    """What the log says of snapshots, in order."""
    return [
        (type(event).__name__, event.through_seq)
        for event in events_of(cluster.events(), e.Checkpointed, e.CheckpointDiverged)
    ]


@pytest.mark.parametrize(
    ("events", "since_s", "due"),
    [
        (200_000, 11, True),
        (200_000, 9, False),
        (199_999, 599, False),
        (5_000, 600, True),
        (4_999, 600, False),
        (0, 10**6, False),
    ],
)
def test_a_snapshot_is_due_after_many_events_or_after_a_while_in_which_some_came(events, since_s, due) -> None:
    assert Cadence().due(events, since_s * 1_000_000) is due


def test_between_two_snapshots_there_is_ten_times_what_the_last_one_took() -> None:
    assert not Cadence().due(10**9, 59_999_999, took_us=6_000_000)
    assert Cadence().due(10**9, 60_000_000, took_us=6_000_000)


async def test_what_verifying_takes_counts_towards_the_rest() -> None:
    cluster, leader = await with_history()
    now_us = 0

    async def slow(log: Log, shard: int, seq: int, by: str) -> None:
        nonlocal now_us
        await verify_and_report(log, shard, seq, by=by)
        now_us += 1_000

    one = follower(cluster.log, cadence=replace(OFTEN, rest=10), verifier=slow, monotonic_us=lambda: now_us)
    async with running(leader), at_work(one):
        await leading(leader)
        await put_and_decide(cluster, leader, *names("a"))
        await until(lambda: one.stats.checkpoint_seq > 0)
        await put_and_decide(cluster, leader, *names("b"))
        await until(lambda: one.stats.seq == leader.stats.seq)
        assert (one.stats.written, one.took_us) == (1, 1_000)
        now_us = 11_000
        await until(lambda: one.stats.written == 2)


async def test_snapshots_are_written_as_events_come_and_the_log_says_that_another_fold_agrees() -> None:
    cluster = await Cluster.start()
    await cluster.put(configured(), connected("w1"))
    leader, one = decider(cluster.log), follower(cluster.log)
    async with running(leader), at_work(one):
        for batch in "abc":
            before = one.stats.checkpoint_seq
            await put_and_decide(cluster, leader, *names(batch))
            await until(lambda before=before: one.stats.checkpoint_seq > before, "the log says that it is verified")
        await until(lambda: one.stats.seq == cluster.events()[-1].seq)
        assert one.stats.written >= 3
        assert (one.stats.diverged, one.stats.unverified, one.stats.well) == (0, 0, True)
    assert one.stats.role == STOPPED
    assert {kind for kind, _ in judged(cluster)} == {"Checkpointed"}
    checkpoints = events_of(cluster.events(), e.Checkpointed)
    assert {(event.written_by, event.verified_by) for event in checkpoints} == {("one/writer", "one/verifier")}
    assert checkpoints[-1].through_seq in await seqs(cluster.log)
    assert (await start_of(cluster.log, 0)).shard.seq == one.stats.snapshot_seq


async def test_a_follower_that_starts_again_goes_on_from_its_snapshot() -> None:
    cluster = await Cluster.start()
    leader = decider(cluster.log)
    async with running(leader):
        await put_and_decide(cluster, leader, *names("a"))
        async with at_work(one := follower(cluster.log)):
            await until(lambda: one.stats.checkpoint_seq > 0)
        _, manifest = await snapshot_at(cluster.log, 0)
        await cluster.log.trim((EVENTS, 0), manifest.next_event_offset)
        async with at_work(again := follower(cluster.log, name="two")):
            await put_and_decide(cluster, leader, *names("b"))
            await until(lambda: again.stats.checkpoint_seq > manifest.seq)


async def test_one_snapshot_is_taken_and_waited_for() -> None:
    cluster = await Cluster.start()
    await cluster.put(*STORY)
    leader = decider(cluster.log)
    async with running(leader):
        await decided(leader, cluster)
        seq = cluster.events()[-1].seq
        one = follower(cluster.log)
        assert await one.take(wait_s=DEADLINE_S)
    assert one.stats.snapshot_seq == seq
    assert judged(cluster) == [("Checkpointed", seq)]


async def test_a_snapshot_that_no_decider_records_is_said_to_be_written_but_not_more() -> None:
    cluster = await Cluster.start()
    await cluster.put(*STORY)
    await decide_all(cluster)
    with pytest.raises(NotRecorded, match="no decider has recorded"):
        await follower(cluster.log).take(wait_s=0.1)
    assert len(await seqs(cluster.log)) == 1


async def calls_until_checkpointed() -> list[str]:
    cluster, leader = await with_history()
    log = CrashingLog(cluster.log)
    async with running(leader):
        await leading(leader)
        assert await follower(log).take(wait_s=DEADLINE_S)
    return log.calls


async def with_history():
    cluster = await Cluster.start()
    await cluster.put(*STORY)
    await decide_all(cluster)
    await snapshot(cluster)
    await cluster.put(queued("behind it"))
    await decide_all(cluster)
    return cluster, decider(cluster.log)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_follower_that_dies_at_any_call_harms_nothing_and_the_next_one_has_its_snapshot_verified(when) -> None:
    calls = await calls_until_checkpointed()
    last = len(calls) - 1 - calls[::-1].index("publish")
    assert calls.count("publish") == 2  # both reports
    for at_call in [number for number in range(last + 1) if calls[number] in ("open", "read", "append", "publish")]:
        cluster, leader = await with_history()
        log = CrashingLog(cluster.log, Crash(at_call, when))
        async with running(leader):
            await leading(leader)
            with pytest.raises(ProcessDied):
                await follower(log).take(wait_s=DEADLINE_S)
            fold = await start_of(cluster.log, 0)
            assert fold.shard.seq in await seqs(cluster.log)
            fold.apply([record for record in cluster.records(EVENTS) if record.offset >= fold.next_offset])
            assert same_state(fold, cluster.fold()), f"after a death {when} call {at_call}, {calls[at_call]}"
            assert await follower(cluster.log, name="two").take(wait_s=DEADLINE_S)
        assert {kind for kind, _ in judged(cluster)} == {"Checkpointed"}


class Wrong(Fold):
    """A fold that gets one thing wrong."""

    def apply(self, records):
        folded = super().apply(records)
        for operation in self.shard.operations.values():
            operation.priority = 77
        return folded


@pytest.fixture
def wrong_follower(monkeypatch):
    """Let what followers fold from now on be wrong; gives what ends that."""
    real = following.start_of

    async def start(log, shard, **named):
        fold = await real(log, shard, **named)
        wrong = Wrong(shard)
        wrong.shard, wrong.chain, wrong.next_offset = fold.shard, fold.chain, fold.next_offset
        return wrong

    monkeypatch.setattr(following, "start_of", start)
    return lambda: monkeypatch.setattr(following, "start_of", real)


async def test_a_snapshot_of_a_wrong_fold_is_recorded_as_diverged_taken_back_and_never_used(wrong_follower) -> None:
    cluster, leader = await with_history()
    good = await seqs(cluster.log)
    async with running(leader):
        await leading(leader)
        one = follower(cluster.log)
        assert not await one.take(wait_s=DEADLINE_S)
        assert one.stats.diverged == 1
        assert await seqs(cluster.log) == good
        wrong_follower()
        assert await follower(cluster.log, name="two").take(wait_s=DEADLINE_S)
    (first, at), (then, seq) = judged(cluster)
    assert (first, then) == ("CheckpointDiverged", "Checkpointed")
    assert seq > at > good[0]


async def test_a_decider_does_not_stay_at_a_snapshot_that_the_events_behind_it_contradict(wrong_follower) -> None:
    cluster, leader = await with_history()
    good = await seqs(cluster.log)
    dying = CrashingLog(cluster.log, Crash(1, "before", of="open"))  # it writes, then dies before it takes back
    async with running(leader):
        await leading(leader)
        with pytest.raises(ProcessDied):
            await follower(dying).take(wait_s=DEADLINE_S)
    (wrong, *_) = await seqs(cluster.log)
    assert judged(cluster) == [("CheckpointDiverged", wrong)]
    assert wrong > good[0]
    one = await decide_all(cluster)
    assert one.stats.snapshots_dropped == {Unusable.DIVERGED.value: 1}
    assert one.stats.snapshot_seq == good[0]
    cluster.events()


async def test_a_follower_that_is_contradicted_is_not_well_and_begins_again_with_another_state(
    wrong_follower, caplog
) -> None:
    cluster, leader = await with_history()
    async with running(leader):
        await leading(leader)
        one = follower(cluster.log)
        async with at_work(one):
            await until(lambda: one.stats.seq > 0)
            wrong_follower()  # what it folds after this life is right
            await put_and_decide(cluster, leader, *names("a"))
            await until(lambda: one.stats.diverged == 1)
            assert not one.stats.well
            await put_and_decide(cluster, leader, *names("b"))
            await until(lambda: one.stats.checkpoint_seq > 0)
            assert not one.stats.well, "an alarm is not taken back by what comes after it"
    assert judged(cluster)[0][0] == "CheckpointDiverged"
    assert "two folds of the same events differ" in caplog.text


async def test_a_verifier_that_is_wrong_is_found_as_well(monkeypatch) -> None:
    cluster, leader = await with_history()
    async with running(leader):
        await leading(leader)
        monkeypatch.setattr(verifying, "Fold", Wrong)
        one = follower(cluster.log)
        assert not await one.take(wait_s=DEADLINE_S)
    assert [kind for kind, _ in judged(cluster)] == ["CheckpointDiverged"]


async def test_a_snapshot_that_cannot_be_read_back_is_taken_back(caplog) -> None:
    cluster, leader = await with_history()
    good = await seqs(cluster.log)

    async def damage_and_verify(log: Log, shard: int, seq: int, by: str) -> None:
        found, _ = await snapshot_at(log, shard, seq)
        fold = Fold(0)
        fold.apply(cluster.records(EVENTS)[:seq])
        await forge(cluster, fold, slot=found.slot, state_digest=bytes(16))
        await verify_and_report(log, shard, seq, by=by)

    async with running(leader):
        await leading(leader)
        one = follower(cluster.log, verifier=damage_and_verify)
        async with at_work(one):
            await put_and_decide(cluster, leader, *names("a"))
            await until(lambda: one.stats.unverified == 1)
            assert one.stats.dropped == {Unusable.DAMAGED.value: 1}
            assert await seqs(cluster.log) == good
    assert judged(cluster) == []
    assert "cannot be read back" in caplog.text


async def test_it_goes_on_folding_while_another_fold_verifies_and_writes_no_second_snapshot() -> None:
    cluster, leader = await with_history()
    go = asyncio.Event()

    async def late(log: Log, shard: int, seq: int, by: str) -> None:
        await go.wait()
        await verify_and_report(log, shard, seq, by=by)

    one = follower(cluster.log, verifier=late)
    async with running(leader), at_work(one):
        await leading(leader)
        await put_and_decide(cluster, leader, *names("a"))
        await until(lambda: one.stats.written == 1)
        for batch in "bcd":
            await put_and_decide(cluster, leader, *names(batch))
            await until(lambda: one.stats.seq == leader.stats.seq)
        assert (one.stats.written, one.stats.checkpoint_seq) == (1, 0)
        go.set()
        await until(lambda: one.stats.checkpoint_seq > 0)
        await until(lambda: one.stats.written > 1)


async def test_it_stops_while_another_fold_verifies() -> None:
    cluster, leader = await with_history()

    async def never(log: Log, shard: int, seq: int, by: str) -> None:
        await asyncio.Event().wait()

    one = follower(cluster.log, verifier=never)
    async with running(leader):
        await leading(leader)
        async with at_work(one):
            await put_and_decide(cluster, leader, *names("a"))
            await until(lambda: one.stats.written == 1)
    assert one.stats.role == STOPPED


async def test_a_log_that_is_away_is_waited_for() -> None:
    cluster, leader = await with_history()

    def cut(name: str, count: int) -> None:
        if (name, count) == ("open", 0):
            cluster.log.cut()

    one = follower(CrashingLog(cluster.log, on_call=cut))
    async with running(leader):
        await leading(leader)
        async with at_work(one):
            await put_and_decide(cluster, leader, *names("a"))
            await until(lambda: one.stats.unavailable > 0)
            assert one.stats.written == 0
            cluster.log.mend()
            await until(lambda: one.stats.checkpoint_seq > 0)


async def test_events_of_another_cluster_are_refused() -> None:
    cluster = await Cluster.start()
    await cluster.put(*STORY)
    await decide_all(cluster)
    cluster.log._cluster_id = "another"
    with pytest.raises(OtherLog):
        await follower(cluster.log).run(asyncio.Event())


# -- the other fold -----------------------------------------------------------------------------------------------------------


async def test_the_other_fold_begins_at_the_last_verified_snapshot_and_needs_no_event_before_it() -> None:
    cluster, leader = await with_history()
    async with running(leader):
        await leading(leader)
        assert await follower(cluster.log).take(wait_s=DEADLINE_S)
        _, trusted = await snapshot_at(cluster.log, 0)
        await put_and_decide(cluster, leader, *names("a"))
    covered: list[Record] = [record for record in cluster.records(EVENTS) if record.offset < trusted.next_event_offset]
    await cluster.log.trim((EVENTS, 0), trusted.next_event_offset)
    fold = Fold(0)
    fold.apply([*covered, *cluster.records(EVENTS)])
    found, manifest = await snapshot(cluster, fold)
    verdict = await verify(cluster.log, found, manifest)
    assert (verdict.agrees, verdict.from_seq, verdict.seq) == (True, trusted.seq, fold.shard.seq)
    assert verdict.next_fact_offset == fold.shard.position + 1


async def test_without_first_events_and_without_a_verified_snapshot_nothing_can_be_verified() -> None:
    cluster, _ = await with_history()
    found, manifest = await snapshot(cluster)
    await cluster.log.trim((EVENTS, 0), 3)
    with pytest.raises(HistoryTrimmed):
        await verify(cluster.log, found, manifest)


async def test_a_snapshot_that_differs_from_its_own_bytes_when_digested_anew_is_unusable(monkeypatch) -> None:
    cluster, _ = await with_history()
    found, manifest = await snapshot(cluster)
    monkeypatch.setattr(verifying, "state_digest", lambda shard: bytes(16))
    with pytest.raises(SnapshotUnusable) as caught:
        await verify(cluster.log, found, manifest)
    assert caught.value.reason is Unusable.WRONG_DIGEST
