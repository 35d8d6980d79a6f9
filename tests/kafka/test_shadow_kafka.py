"""Shadows as processes on real Kafka, beside a decider that leads: killed in the middle, started again, and what the log holds then."""

from __future__ import annotations

import asyncio
import json
import signal
import sys

import pytest

from events import events as e
from proto.gen.headway.v1 import audit_pb2
from streams.topics import AUDIT, TOPICS
from tests.kafka.test_decider_kafka import DEADLINE_S, Site, site  # noqa: F401 - the fixture
from tests.streams.deciding import configured, connected, events_of, queued

pytestmark = pytest.mark.kafka

OTHERS = [spec.name for spec in TOPICS if spec.name != AUDIT]

# Another build: it queues every tenth action a priority higher than the one that leads, and is told apart by its name.
CANDIDATE = """
from dataclasses import replace
from events.events import OperationQueued
from projections import redeciding
from streams import shadow
from streams.cli import shadow as command
from streams.cli.main import main

decide = redeciding.decide

def otherwise(*arguments, **named):
    return [
        replace(event, priority=event.priority + 1)
        if isinstance(event, OperationQueued) and event.client_operation_id.endswith("7")
        else event
        for event in decide(*arguments, **named)
    ]

redeciding.decide = otherwise
shadow.READ_AT_ONCE = 200
shadow.CLOSE_AT_BYTES = 1_000
command.this_auditor = lambda: "candidate"
main()
"""


async def start(site: Site, *arguments: str, code: str = CANDIDATE) -> asyncio.subprocess.Process:  # noqa: F811
    """A `headway shadow run` of the candidate."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", code, "shadow", "run", "--shard", "0", "--log-level", "error", *arguments),
        env=site.environment(),
        stdout=asyncio.subprocess.DEVNULL,
    )
    site.processes.append(process)
    return process


async def headway(site: Site, *arguments: str) -> tuple[int, str]:  # noqa: F811
    """A `headway` command of this build to its end: exit code and standard output."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "streams.cli.main", *arguments),
        env=site.environment(),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    return process.returncode or 0, output.decode()


async def diverged(site: Site) -> list[int]:  # noqa: F811
    """Facts that the candidate said it decides otherwise, in the order in which it said so."""
    messages = [audit_pb2.Audit.FromString(record.value) for record in await site.records(AUDIT)]
    return [message.shadow_diverged.cause_offset for message in messages if message.HasField("shadow_diverged")]


async def found(site: Site, floor: int) -> None:  # noqa: F811
    """Wait until the candidate has said so many divergences."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + DEADLINE_S
    while len(await diverged(site)) < floor:
        assert loop.time() < deadline, f"{floor} divergences are not reached"
        await asyncio.sleep(0.1)


async def test_a_shadow_killed_in_between_says_everything_once_and_writes_nothing_else(site: Site) -> None:  # noqa: F811
    await site.put(configured(), connected("w1", 2_000_000_000))
    await site.start("--shard", "0")
    await site.said(0, "opening to leading")
    shadow = await start(site)

    async def burst() -> None:
        for batch in range(30):
            await site.put(*(queued(f"a{batch}-{number}") for number in range(100)))

    bursting = asyncio.create_task(burst())
    for floor in (30, 120):
        await found(site, floor)
        shadow.send_signal(signal.SIGKILL)
        assert await shadow.wait() == -signal.SIGKILL
        shadow = await start(site)
    await bursting
    await site.all_decided()
    await found(site, 300)
    shadow.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(shadow.wait(), DEADLINE_S) == 0
    await site.stop()
    before = {topic: await site.records(topic) for topic in OTHERS}

    again = await start(site, "--until-caught-up")
    assert await asyncio.wait_for(again.wait(), DEADLINE_S) == 3
    events = await site.check()
    wanted = [
        event.operation_id for event in events_of(events, e.OperationQueued) if event.client_operation_id[-1] == "7"
    ]
    assert await diverged(site) == wanted
    assert len(wanted) == 300

    code, _ = await headway(site, "shadow", "run", "--shard", "0", "--until-caught-up", "--log-level", "error")
    assert code == 0, "the build that leads decides the same again"
    assert {topic: await site.records(topic) for topic in OTHERS} == before
    code, output = await headway(site, "shadow", "status", "--shard", "0", "-o", "json")
    assert code == 0
    rows = {row["auditor"]: row for row in json.loads(output)}
    assert [row["divergences"] for row in rows.values()] == [300, 0]
    assert {row["behind"] for row in rows.values()} == {0}
    assert rows["candidate"]["facts"] == len(await site.records("headway.facts.v1"))
    _, output = await headway(site, "shadow", "list", "--shard", "0", "--auditor", "candidate", "-o", "json")
    listed = [json.loads(line) for line in output.splitlines()]
    assert [one["cause_offset"] for one in listed] == wanted
    assert (listed[0]["difference"], listed[0]["fields"]) == ("fields", ["priority"])
