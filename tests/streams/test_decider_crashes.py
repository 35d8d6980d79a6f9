"""The decider dies at every single call it makes to the log, before and after it took effect; another one goes on.

The calls are counted in one run without a crash, so the commit steps listed in streams/README.md are all among them, and a
step that is added later is tried without a change here.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from events import events as e
from events import facts as f
from events.reasons import RunResult
from streams.crashing_log import Crash, CrashingLog, ProcessDied, When
from streams.errors import OutcomeUnknown
from streams.log import Outgoing
from streams.ownership import Role
from streams.recovery import DamagedLog
from streams.topics import EVENTS, FACTS
from tests.streams.deciding import (
    DEADLINE_S,
    Cluster,
    assert_exactly_once,
    configured,
    connected,
    decide_all,
    decider,
    events_of,
    queued,
    running,
    until,
    without_elections,
)
from tests.streams.test_decider import STORY

MOST_FACTS = 6


async def cluster_with_story() -> Cluster:
    cluster = await Cluster.start()
    await cluster.put(*STORY[:10])
    await cluster.put_raw(b"\xff poison", b"k")
    await cluster.put(*STORY[10:])
    return cluster


async def calls_of_a_whole_run() -> tuple[list[str], list[e.Event]]:
    cluster = await cluster_with_story()
    log = CrashingLog(cluster.log)
    await decide_all(cluster, log, most_facts=MOST_FACTS)
    return log.calls, without_elections(cluster.events())


async def die(cluster: Cluster, crash: Crash) -> CrashingLog:
    """Run a decider until it dies at `crash`."""
    log = CrashingLog(cluster.log, crash)
    with pytest.raises(ProcessDied):
        async with running(decider(log, most_facts=MOST_FACTS)):
            await until(log.is_dead)
    return log


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_death_at_any_call_loses_and_doubles_nothing(when: When) -> None:
    calls, reference = await calls_of_a_whole_run()
    appends = [number for number, name in enumerate(calls) if name == "append"]
    assert len(appends) >= 4  # LeaderElected and the facts in several transactions
    tried = range(appends[-1] + 2)
    for at_call in tried:
        cluster = await cluster_with_story()
        log = await die(cluster, Crash(at_call, when))
        assert log.calls == calls[: at_call + 1]
        await decide_all(cluster, most_facts=MOST_FACTS)
        assert_exactly_once(cluster)
        assert without_elections(cluster.events()) == reference, (
            f"after a death {when} call {at_call}, {calls[at_call]}"
        )


@pytest.mark.parametrize("committed", [False, None, True], ids=["aborted", "left open", "committed, answer lost"])
async def test_a_death_inside_any_commit_loses_and_doubles_nothing(committed: bool | None) -> None:
    calls, reference = await calls_of_a_whole_run()
    appends = [number for number, name in enumerate(calls) if name == "append"]
    for nth, at_call in enumerate(appends):
        cluster = await cluster_with_story()
        log = dying_in_append(cluster, nth, committed)
        with pytest.raises(ProcessDied):
            await asyncio.wait_for(decider(log, most_facts=MOST_FACTS).run(asyncio.Event()), DEADLINE_S)
        assert len(log.calls) == at_call + 1
        await decide_all(cluster, most_facts=MOST_FACTS)
        assert_exactly_once(cluster)
        assert without_elections(cluster.events()) == reference


def dying_in_append(cluster: Cluster, nth: int, committed: bool | None) -> CrashingLog:
    """A log whose user dies while it waits for the answer to its `nth` commit."""

    def die_in_it(name: str, count: int) -> None:
        if (name, count) == ("append", nth):
            cluster.log.fail_next_append(OutcomeUnknown, committed=committed)
            log.dead = True

    log = CrashingLog(cluster.log, on_call=die_in_it)
    return log


async def test_deaths_in_a_row_in_the_middle_of_opening_leave_a_whole_log() -> None:
    _, reference = await calls_of_a_whole_run()
    cluster = await cluster_with_story()
    for _ in range(5):
        await die(cluster, Crash(0, "after", of="append"))
    await decide_all(cluster, most_facts=MOST_FACTS)
    assert len(events_of(cluster.events(), e.LeaderElected)) == 6
    assert without_elections(cluster.events()) == reference


class Fleet:
    """Workers that run what they are given at once and report it; they live on while deciders die."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._answered: set[int] = set()

    async def work(self) -> None:
        for placement in self._cluster.placements():
            placed = placement.action_placed
            if placement.WhichOneof("kind") == "action_placed" and placed.dispatch_id not in self._answered:
                self._answered.add(placed.dispatch_id)
                where = ("main", placed.endpoint, placed.connection_id, placed.dispatch_id)
                await self._cluster.put(f.DispatchAccepted(*where), f.ActionFinished(*where, RunResult.EXITED, 0))


@pytest.mark.parametrize("seed", range(6))
async def test_a_run_with_random_deaths_ends_every_action_exactly_once(seed: int) -> None:
    print(f"seed {seed}")  # shown when it fails; the parameter reruns it
    chance = random.Random(seed)
    cluster = await Cluster.start()
    await cluster.put(configured(), *(connected(f"w{number}", 3000, connection_id=number + 1) for number in range(3)))
    await cluster.put(*(queued(f"a{number}", chance.choice([500, 1000, 3000])) for number in range(40)))
    fleet = Fleet(cluster)

    def finished() -> int:
        return len(events_of(cluster.events(), e.OperationFinished))

    deaths = 0
    while finished() < 40:
        when: When = chance.choice(["before", "after"])
        log = CrashingLog(cluster.log, Crash(chance.randrange(3, 40), when))
        one = decider(log, most_facts=chance.choice([1, 3, 2000]))
        try:
            async with running(one):
                while not log.dead and finished() < 40:
                    await fleet.work()
                    await until(lambda one=one, log=log: log.dead or is_level(one, cluster))
        except ProcessDied:
            deaths += 1
    await decide_all(cluster)
    assert deaths > 0
    assert_exactly_once(cluster)
    ended = [event.operation_id for event in events_of(cluster.events(), e.OperationFinished)]
    assert len(ended) == len(set(ended)) == 40
    assert not events_of(cluster.events(), e.OperationRequeued)


def is_level(one, cluster: Cluster) -> bool:
    return one.role is Role.LEADING and one.stats.position >= cluster.records(FACTS)[-1].offset


async def test_a_decider_that_guessed_would_be_found_out() -> None:
    """The mutation that must turn the tests above red: taking a lost answer for a failure and appending the same again."""
    cluster = await cluster_with_story()
    await die(cluster, Crash(1, "after", of="append"))
    guessed = cluster.records(EVENTS)[1:]
    writer = await cluster.log.open("headway-decider-0")
    await writer.append({(EVENTS, 0): [Outgoing(record.value) for record in guessed]})
    with pytest.raises(DamagedLog, match="HW-202"):
        cluster.events()
