"""Fenced owners, commits without an answer, outages: after any doubt the log decides what happened."""

from __future__ import annotations

import asyncio

import pytest

from events import events as e
from events import facts as f
from streams import leadership
from streams.crashing_log import CrashingLog
from streams.errors import OutcomeUnknown
from streams.ownership import Role
from streams.topics import FACTS
from tests.streams.deciding import (
    Clock,
    assert_exactly_once,
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
    without_elections,
)
from tests.streams.test_decider import STORY, cluster_with


async def test_a_fenced_owner_becomes_a_follower_and_what_it_had_not_committed_is_not_in_the_log() -> None:
    cluster = await cluster_with(*STORY[:6])
    first = decider(cluster.log)
    async with running(first):
        await decided(first, cluster)
        second = decider(cluster.log)
        async with running(second):
            await leading(second)
            await cluster.put(*STORY[6:])
            await decided(second, cluster)
            await until(lambda: first.role is Role.FOLLOWING, "the first one follows")
            assert first.stats.fencings == 1
            assert second.role is Role.LEADING
            await until(lambda: first.stats.seq == second.stats.seq, "it folds what the second one writes")
    assert_exactly_once(cluster)
    reference = await cluster_with(*STORY)
    await decide_all(reference)
    assert without_elections(cluster.events()) == without_elections(reference.events())


async def test_two_deciders_of_one_shard_never_both_append() -> None:
    cluster = await cluster_with(configured(), connected("w1", 1_000_000))
    deciders = [decider(cluster.log, most_facts=3) for _ in range(4)]  # each claims the shard at its start
    async with running(*deciders):
        for number in range(120):
            await cluster.put(queued(f"a{number}"))
            await asyncio.sleep(0)
        await until(lambda: cluster.fold().shard.position == cluster.records(FACTS)[-1].offset)
        assert sum(one.role is Role.LEADING for one in deciders) <= 1 + sum(one.stats.fencings == 0 for one in deciders)
    assert_exactly_once(cluster)
    epochs = [event.leader_epoch for event in events_of(cluster.events(), e.LeaderElected)]
    assert epochs == list(range(1, len(epochs) + 1))


@pytest.mark.parametrize("committed", [True, False, None], ids=["committed", "aborted", "left open"])
@pytest.mark.parametrize("transactions_before", [0, 1, 3])
async def test_an_unknown_outcome_is_settled_by_the_log(committed: bool | None, transactions_before: int) -> None:
    cluster = await cluster_with(*STORY)

    def lose_the_answer(name: str, count: int) -> None:
        if (name, count) == ("append", transactions_before):
            cluster.log.fail_next_append(OutcomeUnknown, committed=committed)

    one = decider(CrashingLog(cluster.log, on_call=lose_the_answer), most_facts=4)
    async with running(one):
        await decided(one, cluster)
    assert one.stats.unknown_outcomes == 1
    assert len(events_of(cluster.events(), e.LeaderElected)) == (
        1 if committed is not True and not transactions_before else 2
    )
    assert_exactly_once(cluster)
    reference = await cluster_with(*STORY)
    await decide_all(reference)
    assert without_elections(cluster.events()) == without_elections(reference.events())


async def test_an_outage_while_leading_is_waited_for_and_nothing_is_decided_twice() -> None:
    cluster = await cluster_with(*STORY[:8])
    one = decider(cluster.log, most_facts=2)
    async with running(one):
        await decided(one, cluster)
        await cluster.put(*STORY[8:])
        cluster.log.cut()  # the facts are in the log, the leader's next read or commit meets the outage
        await until(lambda: one.role is not Role.LEADING or one.stats.position < cluster.records(FACTS)[-1].offset)
        cluster.log.mend()
        await until(lambda: cluster.fold().shard.position == cluster.records(FACTS)[-1].offset)
    assert_exactly_once(cluster)


async def test_a_commit_into_an_outage_is_an_unknown_outcome_and_the_owner_comes_back() -> None:
    cluster = await cluster_with(*STORY[:8])
    clock = Clock()
    one = decider(cluster.log, monotonic_us=clock)
    async with running(one):
        await decided(one, cluster)
        append = one._writer.append

        async def into_the_outage(batches):
            cluster.log.cut()
            await append(batches)

        one._writer.append = into_the_outage
        await cluster.put(STORY[8])
        await until(lambda: one.role is Role.FOLLOWING, "it lost the log in a commit, and then could not open")
        assert one.stats.unknown_outcomes == 1
        cluster.log.mend()
        await cluster.put(*STORY[9:])

        def back() -> bool:
            clock.now_us += 10_000
            return one.role is Role.LEADING

        await until(back)
        await decided(one, cluster)
    assert_exactly_once(cluster)


async def test_a_decider_started_before_its_log_answers_waits_for_it(caplog: pytest.LogCaptureFixture) -> None:
    cluster = await cluster_with(*STORY)
    cluster.log.cut()
    one = decider(cluster.log)
    async with running(one):
        await until(lambda: one.stats.unavailable >= 1)
        assert one.role is Role.FOLLOWING
        cluster.log.mend()
        await decided(one, cluster)
    assert "the log is away" in caplog.messages
    assert_exactly_once(cluster)


async def test_a_commit_that_hangs_is_said(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(leadership, "_SAY_WAITING_AFTER_S", 0.01)
    cluster = await cluster_with(configured())
    one = decider(cluster.log)
    async with running(one):
        await decided(one, cluster)
        released = asyncio.Event()
        writer = one._leadership.writer
        append = writer.append

        async def hanging(batches):
            await released.wait()
            await append(batches)

        one._leadership.writer = type("Hanging", (), {"append": staticmethod(hanging)})()
        await cluster.put(f.Tick())
        await until(lambda: any(message.startswith("waiting for the log since") for message in caplog.messages))
        released.set()
        await decided(one, cluster)
    assert_exactly_once(cluster)
