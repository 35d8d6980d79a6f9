"""Standbys: who takes over, when, and who ticks meanwhile."""

from __future__ import annotations

import pytest

from events import events as e
from events import facts as f
from events.codec import decode_event
from events.indexing import build_indexes
from streams import decider as deciders
from streams import leadership
from streams.crashing_log import CrashingLog
from streams.ownership import Role
from streams.topics import EVENTS, FACTS
from tests.streams.deciding import (
    Clock,
    Cluster,
    assert_exactly_once,
    configured,
    connected,
    decide_all,
    decided,
    decider,
    leading,
    queued,
    running,
    until,
    without_elections,
)
from tests.streams.test_decider import STORY, cluster_with


async def test_a_standby_takes_over_when_a_fact_gets_no_event_for_a_second() -> None:
    cluster = await cluster_with(*STORY[:8])
    await decide_all(cluster)
    clock = Clock()
    standby = decider(cluster.log, claim=False, monotonic_us=clock)
    async with running(standby):
        await until(lambda: standby.stats.seq == cluster.fold().shard.seq)
        await cluster.put(*STORY[8:])
        await until(lambda: standby._watch is not None and len(standby._watch._undecided) > 0)
        clock.now_us += 900_000
        await still_following(standby)
        clock.now_us += 100_000
        await leading(standby)
        await decided(standby, cluster)
    assert_exactly_once(cluster)
    reference = await cluster_with(*STORY)
    await decide_all(reference)
    assert without_elections(cluster.events()) == without_elections(reference.events())


async def test_a_takeover_asks_nothing_of_the_log_that_could_have_been_asked_before() -> None:
    """Counted: each call is a round trip of a shard for which nobody decides. What they take `headway bench recovery` says."""
    cluster = await cluster_with(*STORY[:8])
    await decide_all(cluster)
    clock, log = Clock(), CrashingLog(cluster.log)
    standby = decider(log, claim=False, monotonic_us=clock)
    async with running(standby):
        await until(lambda: standby._watch is not None)
        assert log.calls.count("prepare") == 1
        await cluster.put(*STORY[8:])
        await until(lambda: bool(standby._watch._undecided))
        clock.now_us += 1_000_000
        await leading(standby)
        await decided(standby, cluster)
    opened = log.calls.index("open")
    first, second = [number for number, name in enumerate(log.calls) if name == "append"][:2]
    assert log.calls[opened:first] == ["open", "end_offset", "cluster_id", "topic_id", "topic_id", "end_offset"]
    assert log.calls[first + 1 : second] == ["read", "beginning_offset", "read"]


async def test_a_standby_keeps_its_indexes_up_so_that_a_takeover_does_not_build_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built: list[int] = []
    for module in (deciders, leadership):
        monkeypatch.setattr(module, "build_indexes", lambda shard: (built.append(shard.seq), build_indexes(shard)))
    cluster = await cluster_with(*STORY[:4])
    await decide_all(cluster)
    built.clear()
    clock = Clock()
    standby = decider(cluster.log, claim=False, monotonic_us=clock)
    async with running(standby):
        await until(lambda: standby._fold is not None and standby._fold.shard.live)
        assert built == [standby.stats.seq]
        await cluster.put(*STORY[4:8])
        await decide_all(cluster)
        await until(lambda: standby.stats.seq == cluster.fold().shard.seq)
        await cluster.put(*STORY[8:])
        await until(lambda: bool(standby._watch._undecided))
        clock.now_us += 1_000_000
        await decided(standby, cluster)
    assert len(built) == 2  # its own, and that of the leader meanwhile
    assert_exactly_once(cluster)
    reference = await cluster_with(*STORY)
    await decide_all(reference)
    assert without_elections(cluster.events()) == without_elections(reference.events())


async def test_the_first_transaction_after_a_takeover_is_a_small_one() -> None:
    cluster = await cluster_with(configured(), connected("w1", 9_000), *(queued(f"a{number}") for number in range(30)))
    one = decider(cluster.log, first_facts=10)
    async with running(one):
        await decided(one, cluster)
    assert facts_by_transaction(cluster) == [0, 10, 22]
    assert_exactly_once(cluster)


def facts_by_transaction(cluster: Cluster) -> list[int]:
    """How many facts each transaction of the events holds; the end of one takes an offset, by which they are told apart."""
    records = cluster.records(EVENTS)
    facts: list[set[int]] = []
    for before, record in zip([None, *records], records, strict=False):
        if before is None or record.offset > before.offset + 1:
            facts.append(set())
        event = decode_event(record.value)
        if type(event) is not e.LeaderElected:
            facts[-1].add(event.cause_offset)
    return [len(causes) for causes in facts]


async def still_following(one) -> None:
    """Let the decider go round its loop a few times and see that it stays what it is."""
    for _ in range(3):
        events, read, calls = one._events, one._events.read, []

        async def counting(read=read, calls=calls, **how):
            calls.append(how)
            return await read(**how)

        events.read = counting
        await until(lambda calls=calls: len(calls) >= 2)
        events.read = read
    assert one.role is Role.FOLLOWING


async def test_the_lower_rank_takes_over_and_the_higher_goes_on_following() -> None:
    cluster = await cluster_with(*STORY[:8])
    await decide_all(cluster)
    clock = Clock()
    first, second = (decider(cluster.log, claim=False, rank=rank, monotonic_us=clock) for rank in (1, 2))
    async with running(first, second):
        await until(lambda: first._watch is not None and second._watch is not None)
        await cluster.put(f.Tick())
        await until(lambda: bool(first._watch._undecided and second._watch._undecided))
        clock.now_us += 1_300_000  # the turn of rank 1; that of rank 2 is at 1.6 s
        await leading(first)
        await decided(first, cluster)
        await still_following(second)
        clock.now_us += 10_000_000
        await still_following(second)  # no fact waits, so no time makes a silence
    assert (first.stats.takeovers, second.stats.takeovers) == (1, 0)
    assert_exactly_once(cluster)


async def test_a_standby_of_a_new_log_waits_for_the_first_in_line() -> None:
    cluster = await cluster_with(*STORY)
    clock = Clock()
    second = decider(cluster.log, claim=False, rank=1, monotonic_us=clock)
    first = decider(cluster.log, claim=False, rank=0, monotonic_us=clock)
    async with running(second):
        await until(lambda: second._watch is not None)
        await still_following(second)
        async with running(first):
            await decided(first, cluster)
    assert cluster.events()[0].build == "test"
    assert (first.stats.takeovers, second.stats.takeovers) == (1, 0)


async def test_a_standby_ticks_when_nobody_does_so_an_idle_shard_is_taken_over_too() -> None:
    cluster = await cluster_with(*STORY)
    await decide_all(cluster)
    clock = Clock()
    standby = decider(cluster.log, claim=False, ticks=True, monotonic_us=clock)
    async with running(standby):
        await until(lambda: standby._watch is not None)
        before = len(cluster.records(FACTS))
        clock.now_us += 1_000_000
        await until(lambda: len(cluster.records(FACTS)) == before + 1)
        await until(lambda: bool(standby._watch._undecided))
        clock.now_us += 1_000_000
        await leading(standby)
        await until(lambda: standby.stats.position >= before)
    assert_exactly_once(cluster)


async def test_a_leader_ticks_every_half_second_of_its_clock() -> None:
    cluster = await cluster_with(configured())
    clock = Clock()
    one = decider(cluster.log, ticks=True, monotonic_us=clock)
    async with running(one):
        await leading(one)
        for count in range(1, 5):
            await until(lambda count=count: one._ticker.ticks >= count)
            assert one._ticker.ticks == count
            clock.now_us += 500_000
    assert one.stats.seq == cluster.fold().shard.seq
