"""The edges as their users start them, against a real broker: a cache hit, another scheduler on another log, hints, a kill."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from events import events as e
from events.codec import decode_event
from events.facts import ActionQueued, CancelRequested, Configured
from events.payloads import canonical_requirements
from events.reasons import Outcome
from events.values import Digest, ResourceHint
from streams.client import FactPublisher
from streams.effects import record_of
from streams.kafka_log import KafkaLog
from streams.provisioning import provision
from streams.topics import EVENTS, FACTS
from streams.worker.executors import SimulatedExecutor
from tests.streams.scheduling import deciding, serving, worker

ROOT = Path(__file__).parents[2]
DEADLINE_S = 60.0


class Site:
    """A log of its own on the shared broker, decided by this process."""

    def __init__(self, bootstrap: str, prefix: str, log: KafkaLog) -> None:
        self.bootstrap, self.prefix, self.log = bootstrap, prefix, log

    def start(self, *arguments: str, log_to: Path) -> subprocess.Popen[bytes]:
        """`headway ARGUMENTS` as a process."""
        environment = {
            **os.environ,
            "HEADWAY_BOOTSTRAP_SERVERS": self.bootstrap,
            "HEADWAY_TOPIC_PREFIX": self.prefix,
        }
        with log_to.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "streams.cli.main", *arguments],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    async def events(self, *kinds: type) -> list[e.Event]:
        """Every committed event of the given kinds so far."""
        partition = (EVENTS, 0)
        follower = await self.log.follow({partition: None})
        try:
            end = await follower.end_offset(partition)
            found: list[e.Event] = []
            while await follower.position(partition) < end:
                records = (await follower.read(timeout_ms=1_000)).get(partition, [])
                found += [decode_event(record.value) for record in records]
            return [event for event in found if type(event) in kinds]
        finally:
            await follower.close()

    async def until_events(self, kind: type, count: int) -> list[e.Event]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DEADLINE_S
        while len(found := await self.events(kind)) < count:
            assert loop.time() < deadline, f"{len(found)} of {count} {kind.__name__}"
        return found


@asynccontextmanager
async def site(bootstrap: str, **configs: dict[str, object]) -> AsyncIterator[Site]:
    """A decided log with these instances."""
    prefix = f"e{uuid.uuid4().hex[:8]}-"
    log = KafkaLog(bootstrap, prefix=prefix)
    try:
        await provision(log, dict.fromkeys(configs), shards=1)
        facts = [Configured(instance, json.dumps(config)) for instance, config in configs.items()]
        await log.publish((FACTS, 0), [record_of(fact) for fact in facts])
        async with deciding(log):
            yield Site(bootstrap, prefix, log)
    finally:
        await log.close()


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that the test starts; killed at the end where they are left."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


def cacheable(name: str, instance: str, number: int) -> ActionQueued:
    asked = canonical_requirements([("cpu_millis", "1000")])
    digest = Digest(number.to_bytes(32, "big"), 1)
    return ActionQueued(instance, name, asked, action_digest=digest, cacheable=True)


@pytest.mark.kafka
async def test_edges_that_are_killed_again_and_again_lose_and_double_nothing(
    kafka: str, tmp_path: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    main: dict[str, object] = {"kind": "simple"}
    async with site(kafka, main=main) as there:
        front: dict[str, object] = {
            "kind": "cache_lookup",
            "scheduler": {
                "kind": "upstream",
                "instance": "main",
                "bootstrap_servers": kafka,
                "topic_prefix": there.prefix,
            },
        }
        async with (
            site(kafka, front=front) as here,
            serving(there.log, worker(cores=8), executor=SimulatedExecutor()),
            FactPublisher(here.log, instance="front") as publisher,
        ):
            log_to = tmp_path / "edges.log"
            names = [f"c{number}" for number in range(60)]
            ends: list[asyncio.Task[object]] = []
            for begin in range(0, 60, 20):
                processes.append(here.start("edges", "run", log_to=log_to))
                batch = names[begin : begin + 20]
                await publisher.publish_all(
                    [cacheable(name, "front", begin + number) for number, name in enumerate(batch)]
                )
                waits = [asyncio.create_task(publisher.wait(name, timeout_s=DEADLINE_S)) for name in batch]
                ends += waits  # type: ignore[arg-type]
                # The first one is back: the others are anywhere on their way.
                done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                assert done
                processes[-1].kill()
            processes.append(here.start("edges", "run", log_to=log_to))
            assert all(end.succeeded for end in await asyncio.gather(*ends)), log_to.read_text()  # type: ignore[attr-defined]
            queued = [event.client_operation_id for event in await there.events(e.OperationQueued)]  # type: ignore[attr-defined]
            assert len(queued) == len({*queued}) == 60

            await publisher.publish(cacheable("again", "front", 7))
            assert (await publisher.wait("again", timeout_s=DEADLINE_S)).outcome is Outcome.COMPLETED_FROM_CACHE
            processes[-1].send_signal(signal.SIGTERM)
            code = await asyncio.wait_for(asyncio.to_thread(processes[-1].wait), DEADLINE_S)
            assert code == 0, log_to.read_text()


@pytest.mark.kafka
async def test_a_cancel_reaches_the_other_log_and_hints_are_loaded_by_command(
    kafka: str, tmp_path: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    hinted: dict[str, object] = {"kind": "historical_resource", "scheduler": {"kind": "simple"}}
    async with site(kafka, front={"kind": "upstream", "instance": "main"}, main=hinted) as here:
        processes.append(here.start("edges", "run", "--shard", "0", log_to=tmp_path / "edges.log"))
        hints = tmp_path / "hints.csv"
        hints.write_text("mnemonic,cpu_millis\nLink,2000\n")
        load = here.start("hints", "load", str(hints), "--every", "0.1", log_to=tmp_path / "hints.log")
        processes.append(load)
        (loaded,) = await here.until_events(e.HintsLoaded, 1)
        assert loaded.hints == (ResourceHint("", "Link", 2_000, 0),)  # type: ignore[attr-defined]
        hints.write_text("mnemonic,cpu_millis\nLink,4000\n")
        assert len(await here.until_events(e.HintsLoaded, 2)) == 2
        load.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(asyncio.to_thread(load.wait), DEADLINE_S) == 0, (
            tmp_path / "hints.log"
        ).read_text()

        async with FactPublisher(here.log) as publisher:
            await publisher.queue(instance="front", client_operation_id="mine", mnemonic="Link")
            await here.until_events(e.OperationQueued, 2)
            await publisher.publish(CancelRequested("front", client_operation_id="mine"))
            ends = await here.until_events(e.OperationFinished, 2)
            assert [end.outcome for end in ends] == [Outcome.CANCELLED] * 2  # type: ignore[attr-defined]
