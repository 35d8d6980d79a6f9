"""Single facts are decided at once, a trickle shares transactions, a stream is never kept waiting."""

from __future__ import annotations

import asyncio

import pytest

from streams.pacing import BURST, ENOUGH_FACTS, Pacing
from streams.topics import EVENTS
from tests.streams.deciding import Cluster, configured, connected, decided, decider, queued, running

GATHER_US = 30_000


def transactions(pacing: Pacing, per_s: int, *, seconds: int = 10, takes_us: int = 0) -> tuple[int, int]:
    """Facts at a steady rate through a leader: how many transactions, and the longest that a fact waited to be read, in microseconds."""
    now_us, taken, count, longest_us = 0, 0, 0, 0
    apart_us = 1_000_000 // per_s
    while now_us < seconds * 1_000_000:
        now_us += pacing.wait_us(now_us)
        due = now_us // apart_us + 1
        if due > taken:
            longest_us = max(longest_us, now_us - taken * apart_us)
            pacing.spent(due - taken)
            count, taken = count + 1, due
            now_us += takes_us
        else:
            now_us = taken * apart_us
    return count, longest_us


def test_a_leader_at_rest_decides_at_once():
    pacing = Pacing(GATHER_US, 0)
    assert pacing.wait_us(0) == 0
    assert pacing.rested
    pacing.spent(1)
    assert pacing.wait_us(10) == 0


def test_a_short_burst_is_not_kept_waiting_and_a_longer_one_is():
    pacing = Pacing(GATHER_US, 0)
    waits = []
    for _ in range(BURST + 3):
        waits.append(pacing.wait_us(0))
        pacing.spent(1)
    assert waits[: BURST + 1] == [0] * (BURST + 1)
    assert waits[-1] > 0
    assert not pacing.rested


@pytest.mark.parametrize("per_s", [1, 5, 20])
def test_single_facts_now_and_then_have_transactions_of_their_own(per_s):
    count, longest_us = transactions(Pacing(GATHER_US, 0), per_s)
    assert count == 10 * per_s
    assert longest_us == 0


def test_a_trickle_shares_transactions_and_none_of_it_waits_longer_than_is_gathered():
    count, longest_us = transactions(Pacing(GATHER_US, 0), 300)
    assert 500 < count < 800, "63 a second instead of 300"
    assert 0 < longest_us <= GATHER_US


def test_a_stream_waits_less_than_a_transaction_takes():
    unpaced, _ = transactions(Pacing(0, 0), 15_000, takes_us=5_000)
    paced, longest_us = transactions(Pacing(GATHER_US, 0), 15_000, takes_us=5_000)
    assert paced == unpaced
    assert longest_us <= 5_100


def test_a_full_transaction_costs_no_credit():
    pacing = Pacing(GATHER_US, 0)
    for _ in range(100):
        pacing.spent(ENOUGH_FACTS)
    assert pacing.wait_us(0) == 0
    assert pacing.rested


def test_without_gathering_nothing_ever_waits_and_what_follows_is_taken_along():
    pacing = Pacing(0, 0)
    for _ in range(100):
        assert pacing.wait_us(0) == 0
        assert not pacing.rested
        pacing.spent(1)


def test_credit_does_not_grow_without_bound():
    pacing = Pacing(GATHER_US, 0)
    pacing.wait_us(10**9)
    for _ in range(BURST + 2):
        pacing.spent(1)
    assert pacing.wait_us(10**9) > 0


# -- in a decider ---------------------------------------------------------------------------------------------------------


async def test_a_leader_takes_what_trickles_together_and_decides_it_as_it_would_one_by_one():
    facts = [queued(f"a{number}") for number in range(40)]
    histories = []
    for gather_us in (0, 200_000):
        cluster = await Cluster.start()
        await cluster.put(configured(), connected("w1", 8000))
        one = decider(cluster.log, gather_us=gather_us)
        async with running(one):
            await decided(one, cluster)
            before = one.stats.batches
            for fact in facts:
                await cluster.put(fact)
                if gather_us:
                    await asyncio.sleep(0.001)
                else:
                    await decided(one, cluster)
            await decided(one, cluster)
            batches = one.stats.batches - before
        assert batches == 40 if not gather_us else batches <= 10
        histories.append([record.value for record in cluster.records(EVENTS)])
    assert histories[0] == histories[1]


async def test_a_fact_that_comes_alone_is_decided_before_anything_is_gathered():
    cluster = await Cluster.start()
    await cluster.put(configured(), connected("w1", 8000))
    one = decider(cluster.log, gather_us=60_000_000)
    async with running(one):
        await cluster.put(queued("a"))
        await decided(one, cluster)
    assert cluster.placed_ids()
