"""Snapshots on real Kafka: followers and deciders as processes, killed in between; then facts are trimmed and everything starts again."""

from __future__ import annotations

import asyncio
import json
import signal
import sys

import pytest

from events import events as e
from events.codec import decode_event
from streams.log import bounds
from streams.snapshots.recovering import start_of
from streams.topics import EVENTS, FACTS
from tests.kafka.test_decider_kafka import DEADLINE_S, Site, site  # noqa: F401 - the fixture
from tests.kafka.test_shadow_kafka import headway
from tests.streams.deciding import configured, connected, events_of, queued
from tests.streams.snapshotting import same_state

pytestmark = pytest.mark.kafka


async def follow(site: Site) -> asyncio.subprocess.Process:  # noqa: F811
    """A `headway snapshot follow` that writes often."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "streams.cli.main", "snapshot", "follow", "--shard", "0", "--every-events", "300", "--every-s", "0.5"),
        env=site.environment(),
    )
    site.processes.append(process)
    return process


async def lead(site: Site) -> int:  # noqa: F811
    """A decider that leads; its number among the processes."""
    number = len(site.processes)
    await site.start("--shard", "0")
    await site.said(number, "opening to leading")
    return number


async def listed(site: Site) -> list[dict]:  # noqa: F811
    code, output = await headway(site, "snapshot", "list", "--shard", "0", "-o", "json")
    assert code == 0
    return json.loads(output)


async def checkpoints(site: Site, floor: int) -> list[e.Checkpointed]:  # noqa: F811
    """Wait until so many snapshots are verified."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + DEADLINE_S
    while True:
        found = events_of(await events(site), e.Checkpointed)
        if len(found) >= floor:
            return found
        assert loop.time() < deadline, f"{len(found)} of {floor} snapshots are verified"
        await asyncio.sleep(0.2)


async def events(site: Site) -> list[e.Event]:  # noqa: F811
    return [decode_event(record.value) for record in await site.records(EVENTS)]


async def test_killed_followers_and_deciders_leave_snapshots_that_are_right_and_facts_that_may_go(site: Site) -> None:  # noqa: F811
    await site.put(configured(), connected("w1", 2_000_000_000))
    leader = site.processes[await lead(site)]
    follower = await follow(site)

    async def burst() -> None:
        for batch in range(40):
            await site.put(*(queued(f"a{batch}-{number}") for number in range(50)))
            await asyncio.sleep(0.05)

    bursting = asyncio.create_task(burst())
    await checkpoints(site, 1)
    follower.send_signal(signal.SIGKILL)
    await follower.wait()
    follower = await follow(site)
    leader.send_signal(signal.SIGKILL)
    await leader.wait()
    assert "beginning at a snapshot" in site.lines(await lead(site))
    await bursting
    await site.all_decided()
    before = len(await checkpoints(site, 1))
    await checkpoints(site, before + 1)
    follower.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(follower.wait(), DEADLINE_S) == 0
    code, output = await headway(site, "snapshot", "take", "--shard", "0")
    assert (code, "verified" in output) == (0, True), output
    await site.stop()

    found = await site.check()
    assert len(events_of(found, e.OperationDispatched)) == 2000
    assert not events_of(found, e.CheckpointDiverged)
    newest = (await listed(site))[0]
    assert newest["standing"] == "verified"
    fold = await start_of(site.log, 0)
    fold.apply([record for record in await site.records(EVENTS) if record.offset >= fold.next_offset])
    whole = type(fold)(0)
    whole.apply(await site.records(EVENTS))
    assert same_state(fold, whole)

    code, output = await headway(site, "snapshot", "trim", "--shard", "0", "--keep-facts-s", "0")
    assert code == 0, output
    assert "are removed; verified at event" in output
    first, _ = await bounds(site.log, (FACTS, 0))
    assert first == newest["next_fact_offset"] > 2000
    assert f"shard=0 seq={newest['seq']} " in site.lines(await lead(site))
    await site.put(queued("after the trim"))
    await site.all_decided()
    await site.stop()
    assert [event.client_operation_id for event in events_of(await events(site), e.OperationQueued)][
        -1
    ] == "after the trim"
    code, output = await headway(site, "verify", "--shard", "0")
    assert code == 0, output
    code, output = await headway(site, "shadow", "run", "--shard", "0", "--until-caught-up", "--log-level", "error")
    assert code == 0
    assert "older facts are gone and were followed" in output
    code, _ = await headway(site, "replay", "--shard", "0")
    assert code == 0
