"""Deciders as processes on real Kafka: killed in the middle of a burst, taken over from, restarted; and what the log holds then."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from events import events as e
from events import facts as f
from events.codec import command_bytes, encode_fact
from streams import leadership
from streams.decider import Decider
from streams.kafka_log import KafkaLog
from streams.log import Outgoing, Record
from streams.ownership import Role
from streams.recovery import Fold
from streams.topics import EVENTS, FACTS, PLACEMENTS, topic_table
from tests.streams.deciding import (
    CHECKED,
    check_exactly_once,
    configured,
    connected,
    decider,
    events_of,
    leading,
    queued,
    running,
    until,
)

DEADLINE_S = 120.0


class Site:
    """One log of its own on the shared broker, and decider processes on it."""

    def __init__(self, bootstrap: str, prefix: str, directory: Path) -> None:
        self.bootstrap, self.prefix, self._directory = bootstrap, prefix, directory
        self.log = KafkaLog(bootstrap, prefix=prefix)
        self.processes: list[asyncio.subprocess.Process] = []

    async def put(self, *facts: object, shard: int = 0) -> None:
        keyed = [(getattr(fact, "client_operation_id", "") or getattr(fact, "endpoint", ""), fact) for fact in facts]
        await self.log.publish(
            (FACTS, shard), [Outgoing(encode_fact(fact), key.encode() or None) for key, fact in keyed]
        )

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        """A `headway decider run` process; its lines go to a file named by its number."""
        output = (self._directory / f"decider-{len(self.processes)}.log").open("wb")
        with output:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "streams.cli.main", "decider", "run", *arguments),
                stderr=output,
                env=self.environment(),
            )
        self.processes.append(process)
        return process

    def environment(self) -> dict[str, str]:
        """That of a command which works on this log."""
        return {
            **os.environ,
            "HEADWAY_BOOTSTRAP_SERVERS": self.bootstrap,
            "HEADWAY_TOPIC_PREFIX": self.prefix,
            "HEADWAY_HOME": str(self._directory),
        }

    def lines(self, number: int) -> str:
        return (self._directory / f"decider-{number}.log").read_text()

    async def said(self, number: int, what: str) -> None:
        await until(
            lambda: what in self.lines(number), f"decider {number} says {what!r}; it said\n{self.lines(number)}"
        )

    async def records(self, topic: str, shard: int = 0) -> list[Record]:
        """Every committed record of one partition."""
        partition = (topic, shard)
        follower = await self.log.follow({partition: None})
        found: list[Record] = []
        try:
            end = await follower.end_offset(partition)
            while await follower.position(partition) < end:
                found += (await follower.read(max_records=5000)).get(partition, [])
        finally:
            await follower.close()
        return found

    async def check(self, shard: int = 0) -> list[e.Event]:
        """`check_exactly_once` of what stands in the log."""
        return check_exactly_once(**{name: await self.records(topic, shard) for name, topic in CHECKED.items()})

    async def all_decided(self, shard: int = 0) -> None:
        """Wait until the log holds an event of its last fact; ticks go on, so it is the last one that is there now."""
        last = (await self.records(FACTS, shard))[-1].offset
        follower = await self.log.follow({(EVENTS, shard): None})
        fold = Fold(shard)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DEADLINE_S
        try:
            while fold.shard.position < last:
                assert loop.time() < deadline, f"decided up to {fold.shard.position} of {last}"
                fold.apply((await follower.read(max_records=5000)).get((EVENTS, shard), []))
        finally:
            await follower.close()

    async def stop(self) -> None:
        """End every process in good order, so that no fact is in the log without an event."""
        for process in self.processes:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes:
            await asyncio.wait_for(process.wait(), DEADLINE_S)


@pytest.fixture
async def site(kafka: str, tmp_path: Path) -> AsyncIterator[Site]:
    made = Site(kafka, f"d{uuid.uuid4().hex[:8]}-", tmp_path)
    try:
        await made.log.ensure_topics(topic_table(2))
        yield made
    finally:
        for process in made.processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        await made.log.close()


async def test_a_kill_in_a_burst_is_taken_over_without_a_gap_a_loss_or_a_double(site: Site) -> None:
    await site.put(configured(), connected("w1", 2_000_000_000))
    first = await site.start("--shard", "0", "--claim")
    await site.said(0, "opening to leading")
    await site.start("--shard", "0", "--rank", "1")
    await site.said(1, "started")

    async def burst() -> None:
        for batch in range(60):
            await site.put(*(queued(f"a{batch}-{number}") for number in range(100)))
            published.append(batch)

    published: list[int] = []
    bursting = asyncio.create_task(burst())
    await until(lambda: len(published) > 15)
    first.send_signal(signal.SIGKILL)
    await site.said(1, "opening to leading")
    await bursting
    await site.all_decided()
    await site.start("--shard", "0", "--rank", "2")  # the restarted one stands by and leaves the leader alone
    await site.said(2, "started")
    await site.stop()
    events = await site.check()
    assert [event.leader_epoch for event in events_of(events, e.LeaderElected)] == [1, 2]
    assert len(events_of(events, e.OperationQueued)) == len(events_of(events, e.OperationDispatched)) == 6000
    assert "following to stopped" in site.lines(2)
    assert [process.returncode for process in site.processes] == [-signal.SIGKILL, 0, 0]


async def test_a_leader_that_was_stopped_in_a_burst_is_fenced_when_it_comes_back_and_takes_over_in_its_turn(
    site: Site,
) -> None:
    await site.put(configured(), connected("w1", 2_000_000_000))
    first = await site.start("--shard", "0", "--claim")
    await site.said(0, "opening to leading")
    second = await site.start("--shard", "0", "--rank", "1")
    await site.said(1, "started")

    async def burst(name: str) -> None:
        for batch in range(20):
            await site.put(*(queued(f"{name}{batch}-{number}") for number in range(50)))
            published.append(batch)

    published: list[int] = []
    bursting = asyncio.create_task(burst("a"))
    await until(lambda: len(published) > 5)
    first.send_signal(signal.SIGSTOP)
    await site.said(1, "opening to leading")
    await bursting
    await site.all_decided()
    first.send_signal(signal.SIGCONT)
    await site.said(0, "fenced to following")
    bursting = asyncio.create_task(burst("b"))
    await until(lambda: len(published) > 25)
    second.send_signal(signal.SIGKILL)
    await until(lambda: site.lines(0).count("opening to leading") == 2, "the one that was stopped leads again")
    await bursting
    await site.all_decided()
    await site.stop()
    events = await site.check()
    assert [event.leader_epoch for event in events_of(events, e.LeaderElected)] == [1, 2, 3]
    assert len(events_of(events, e.OperationQueued)) == len(events_of(events, e.OperationDispatched)) == 2000


async def test_a_lone_decider_that_is_killed_and_restarted_goes_on_where_it_was(site: Site) -> None:
    await site.put(configured(), connected("w1", 2_000_000_000))
    for number in range(3):
        process = await site.start("--shard", "0")
        await site.said(number, "opening to leading")
        await site.put(*(queued(f"a{number}-{count}") for count in range(200)))
        await site.all_decided()
        if number < 2:
            process.send_signal(signal.SIGKILL)
            await process.wait()
            await site.put(*(queued(f"b{number}-{count}") for count in range(50)))
    await site.stop()
    events = await site.check()
    assert len(events_of(events, e.OperationDispatched)) == 700
    assert not events_of(events, e.OperationRequeued)


async def test_two_deciders_that_both_claim_never_both_append(site: Site) -> None:
    await site.put(configured(), connected("w1", 2_000_000_000))
    deciders = [decider(KafkaLog(site.bootstrap, prefix=site.prefix), most_facts=20) for _ in range(2)]
    try:
        async with running(deciders[0]):
            await leading(deciders[0])
            putting = asyncio.create_task(site.put(*(queued(f"a{number}") for number in range(500))))
            async with running(deciders[1]):
                # A commit that the claim cuts short may be answered with an error of the broker instead of a fence: its decider cannot
                # know what became of it, opens the id again, and it is the other one that is fenced. One of the two leads either way.
                await until(
                    lambda: (
                        sum(one.stats.fencings for one in deciders) > 0
                        and {one.role for one in deciders} == {Role.LEADING, Role.FOLLOWING}
                    )
                )
                await putting
                await site.all_decided()
        assert len(events_of(await site.check(), e.LeaderElected)) >= 2
    finally:
        for one in deciders:
            await one._log.close()


async def decided_here(site: Site, one: Decider) -> None:
    last = (await site.records(FACTS))[-1].offset
    await until(lambda: one.stats.position >= last)


async def test_a_fact_that_cannot_be_decided_is_parked_and_the_rest_goes_on(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = leadership.decide

    def decide(shard, fact, **where):
        events = real(shard, fact, **where)
        if getattr(fact, "client_operation_id", "") == "a7" and type(events[-1]) is not e.FactIgnored:
            raise ZeroDivisionError("a fault in a rule")
        return events

    monkeypatch.setattr(leadership, "decide", decide)
    await site.put(configured(), connected("w1", 2_000_000_000), *(queued(f"a{number}") for number in range(20)))
    one = decider(site.log)
    async with running(one):
        await decided_here(site, one)
        await site.put(queued("a7"), queued("a20"))
        await decided_here(site, one)
    events = await site.check()
    assert (one.stats.rebuilds, one.stats.takeovers) == (1, 1)
    assert [event.key for event in events_of(events, e.KeyParked)] == ["a7"]
    assert len(events_of(events, e.OperationDispatched)) == 20


async def test_a_fact_whose_outcome_the_broker_refuses_is_rejected_with_size_and_limit(site: Site) -> None:
    narrow = [replace(spec, max_message_bytes=2_000) if spec.name == PLACEMENTS else spec for spec in topic_table(2)]
    await site.log.ensure_topics(narrow)
    large = [
        f.ActionQueued("main", f"large{number}", command=command_bytes(["sh", "-c", ": " + "x" * 3_000]))
        for number in range(2)
    ]
    facts = [queued("a"), large[0], queued("b"), queued("c"), large[1], queued("d")]
    await site.put(configured(), connected("w1", 2_000_000_000), *facts)
    one = decider(site.log)
    async with running(one):
        await decided_here(site, one)
    events = await site.check()
    rejected = events_of(events, e.FactRejected)
    assert [event.key for event in rejected] == ["large0", "large1"]
    assert all("the limit is 2000" in event.value for event in rejected)
    assert len(events_of(events, e.OperationDispatched)) == 4
    assert one.stats.takeovers == 1


async def test_one_process_owns_several_shards_and_shows_its_counters(site: Site) -> None:
    for shard in range(2):
        await site.put(configured(f"i{shard}"), connected("w1", instance=f"i{shard}"), shard=shard)
        await site.put(queued("a", instance=f"i{shard}"), shard=shard)
    await site.start("--health-port", "0")
    for shard in range(2):
        await site.all_decided(shard)
    await site.said(0, "health=")
    address = site.lines(0).split("health=")[1].split()[0]
    async with aiohttp.ClientSession() as http:
        async with http.get(f"{address}/healthz") as answer:
            assert (answer.status, await answer.json()) == (
                200,
                {"ok": True, "roles": {"0": "leading", "1": "leading"}},
            )
        async with http.get(f"{address}/stats") as answer:
            assert [shard["leader_epoch"] for shard in (await answer.json())["shards"]] == [1, 1]
    await site.stop()
    for shard in range(2):
        assert len(events_of(await site.check(shard), e.OperationDispatched)) == 1


async def test_a_shard_that_does_not_exist_is_an_error_with_its_remedy(site: Site) -> None:
    process = await site.start("--shard", "7")
    assert await asyncio.wait_for(process.wait(), DEADLINE_S) == 1
    assert "no-such-partition" in site.lines(0)
    assert "headway topics apply --shards N" in site.lines(0)
