"""Trimming facts: only up to what two folds agree on, never past who still needs them, and a decider starts as before."""

from __future__ import annotations

import asyncio

import pytest

from events import events as e
from streams.errors import OffsetTrimmed
from streams.log import bounds
from streams.shadow import Shadow
from streams.snapshots import verifying
from streams.snapshots.errors import TrimRefused
from streams.snapshots.recovering import start_of
from streams.snapshots.trimming import HEARD_US, Margin, plan_trim, trim_facts
from streams.snapshots.writing import take_back_at
from streams.topics import EVENTS, FACTS
from tests.streams.deciding import (
    DEADLINE_S,
    Cluster,
    configured,
    connected,
    decide_all,
    decided,
    decider,
    events_of,
    queued,
    running,
)
from tests.streams.snapshotting import forge, snapshot
from tests.streams.test_snapshot_follower import Wrong, follower, names

FACTS_0 = (FACTS, 0)


async def checkpointed(*, behind: int = 5) -> tuple[Cluster, e.Checkpointed]:
    """A cluster with a verified snapshot and some facts behind it."""
    cluster = await Cluster.start()
    await cluster.put(configured(), connected("w1"), *(queued(name) for name in names("a")))
    leader = decider(cluster.log)
    async with running(leader):
        await decided(leader, cluster)
        assert await follower(cluster.log).take(wait_s=DEADLINE_S)
        await cluster.put(*(queued(name) for name in names("b", behind)))
        await decided(leader, cluster)
    return cluster, events_of(cluster.events(), e.Checkpointed)[-1]


async def test_facts_go_up_to_the_verified_snapshot_and_a_decider_starts_as_before() -> None:
    cluster, verified = await checkpointed()
    events = cluster.records(EVENTS)
    planned = await plan_trim(cluster.log, 0, Margin())
    assert await bounds(cluster.log, FACTS_0) == (0, cluster.records(FACTS)[-1].offset + 1), "a plan changes nothing"
    trim = await trim_facts(cluster.log, 0, Margin())
    assert trim == planned
    assert (trim.first, trim.before, trim.seq) == (0, verified.next_fact_offset, verified.through_seq)
    assert trim.offsets == verified.next_fact_offset > 0
    assert (await bounds(cluster.log, FACTS_0))[0] == verified.next_fact_offset
    assert cluster.records(EVENTS) == events, "events are never trimmed"
    with pytest.raises(OffsetTrimmed):
        await (await cluster.log.follow({FACTS_0: 0})).read()

    await cluster.put(queued("after it"))
    one = await decide_all(cluster)
    assert one.stats.snapshot_seq == verified.through_seq
    assert [row.client_operation_id for row in cluster.fold().shard.operations.values()][-1] == "after it"
    again = await trim_facts(cluster.log, 0, Margin())
    assert (again.offsets, again.first) == (0, trim.before)


async def test_without_a_verified_snapshot_nothing_goes() -> None:
    cluster = await Cluster.start()
    await cluster.put(configured(), *(queued(name) for name in names("a")))
    await decide_all(cluster)
    await snapshot(cluster)
    with pytest.raises(TrimRefused, match="no snapshot that another fold verified") as caught:
        await trim_facts(cluster.log, 0, Margin())
    assert "headway snapshot take" in caught.value.remedy
    assert (await bounds(cluster.log, FACTS_0))[0] == 0


async def test_a_verified_snapshot_that_is_gone_or_damaged_does_not_count() -> None:
    cluster, verified = await checkpointed()
    await take_back_at(cluster.log, 0, verified.through_seq)
    with pytest.raises(TrimRefused, match=f"at event {verified.through_seq}, but it cannot be used"):
        await trim_facts(cluster.log, 0, Margin())

    cluster, verified = await checkpointed()
    fold = await start_of(cluster.log, 0)
    await forge(cluster, fold, slot=0, without=[1])
    with pytest.raises(TrimRefused, match="not all of its parts are there"):
        await trim_facts(cluster.log, 0, Margin())

    cluster, verified = await checkpointed()
    fold = await start_of(cluster.log, 0)
    fold.shard.now_us += 1
    await forge(cluster, fold, slot=0)
    with pytest.raises(TrimRefused, match="verified was"):
        await trim_facts(cluster.log, 0, Margin())
    assert (await bounds(cluster.log, FACTS_0))[0] == 0


async def test_while_two_folds_differ_nothing_goes_and_a_later_agreement_ends_that(monkeypatch) -> None:
    cluster, verified = await checkpointed()
    leader = decider(cluster.log)
    async with running(leader):
        await decided(leader, cluster)
        with monkeypatch.context() as wrong:
            wrong.setattr(verifying, "fold_at", wrongly(verifying.fold_at))
            assert not await follower(cluster.log, name="two").take(wait_s=DEADLINE_S)
        with pytest.raises(TrimRefused, match=r"two folds differ at event \d+ \(two/verifier against two/writer\)"):
            await trim_facts(cluster.log, 0, Margin())
        assert await follower(cluster.log, name="three").take(wait_s=DEADLINE_S)
        trim = await trim_facts(cluster.log, 0, Margin())
    assert trim.seq > verified.through_seq


def wrongly(fold_at):
    def wrong(*arguments, **named):
        right = fold_at(*arguments, **named)
        fold = Wrong(right.number)
        fold.shard, fold.chain, fold.next_offset = right.shard, right.chain, right.next_offset
        return fold

    return wrong


async def test_margins_keep_the_newest_and_the_youngest_facts() -> None:
    cluster, verified = await checkpointed(behind=4)
    _, end = await bounds(cluster.log, FACTS_0)
    by_count = await plan_trim(cluster.log, 0, Margin(facts=10))
    assert (by_count.before, by_count.held_by) == (end - 10, "the newest 10 offsets stay")
    records = cluster.records(FACTS)
    for kept in (6, 9, 14):
        # Facts stand a millisecond apart; the reports of the snapshot have the time of the fact before them.
        us = records[-1].at_us - records[-kept].at_us
        by_age = await plan_trim(cluster.log, 0, Margin(us=us))
        youngest = next(record.offset for record in records if records[-1].at_us - record.at_us <= us)
        assert by_age.before == min(youngest, verified.next_fact_offset)
    assert (await plan_trim(cluster.log, 0, Margin(facts=10**6))).offsets == 0
    assert (await plan_trim(cluster.log, 0, Margin(us=10**12))).offsets == 0


async def test_what_a_shadow_has_not_judged_stays_unless_it_was_not_heard_for_a_day() -> None:
    cluster = await Cluster.start()
    await cluster.put(configured(), connected("w1"), *(queued(name) for name in names("a", 3)))
    await decide_all(cluster)
    await Shadow(cluster.log, 0, auditor="candidate").run(asyncio.Event(), until_caught_up=True)
    judged = cluster.fold().shard.position + 1
    heard_us = cluster.now_us
    leader = decider(cluster.log)
    async with running(leader):
        await cluster.put(*(queued(name) for name in names("b")))
        await decided(leader, cluster)
        assert await follower(cluster.log).take(wait_s=DEADLINE_S)
    waited = await plan_trim(cluster.log, 0, Margin(), now_us=heard_us + HEARD_US)
    assert (waited.before, waited.held_by) == (judged, "candidate has not judged further")
    forgotten = await plan_trim(cluster.log, 0, Margin(), now_us=heard_us + HEARD_US + 1)
    assert forgotten.before > judged


async def test_a_shadow_that_starts_after_a_trim_follows_what_it_cannot_judge() -> None:
    cluster, _ = await checkpointed()
    trim = await trim_facts(cluster.log, 0, Margin())
    one = Shadow(cluster.log, 0, auditor="candidate")
    await one.run(asyncio.Event(), until_caught_up=True)
    assert one.stats.judged.divergences == 0
    assert one.stats.judged.not_judged >= trim.before - 1
    assert one.stats.judged.facts == len(cluster.records(FACTS))
