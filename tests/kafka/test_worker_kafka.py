"""Workers and clients as their users start them, against a real broker and a real decider."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from events import events as e
from events.codec import decode_event
from events.facts import ActionQueued, Configured
from events.payloads import canonical_requirements
from events.reasons import Outcome, RequeueCause
from streams.client import FactPublisher, PlacementEnded, PlacementReader
from streams.effects import record_of
from streams.kafka_log import KafkaLog
from streams.provisioning import provision
from streams.topics import EVENTS, FACTS
from tests.contract.cuttable import wire_to
from tests.streams.scheduling import deciding, serving, until, worker
from tests.streams.test_worker import Held
from tests.streams.test_worker_process import alive

ROOT = Path(__file__).parents[2]
DEADLINE_S = 60.0
Kind = TypeVar("Kind")


class Site:
    """A log of its own on the shared broker, decided by this process."""

    def __init__(self, bootstrap: str, prefix: str, log: KafkaLog) -> None:
        self.bootstrap, self.prefix, self.log = bootstrap, prefix, log

    def start(self, *arguments: str, log_to: Path, **variables: str) -> subprocess.Popen[bytes]:
        """`headway ARGUMENTS` as a process."""
        environment = {
            **os.environ,
            "HEADWAY_BOOTSTRAP_SERVERS": self.bootstrap,
            "HEADWAY_TOPIC_PREFIX": self.prefix,
            **variables,
        }
        with log_to.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "streams.cli.main", *arguments],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )

    def publisher(self) -> FactPublisher:
        return FactPublisher(self.bootstrap, prefix=self.prefix)

    async def event(self, kind: type[Kind]) -> Kind:
        """The first event of a kind, once it is there."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                for event in await self.events():
                    if isinstance(event, kind):
                        return event

    async def events(self) -> list[e.Event]:
        """Every committed event so far."""
        partition = (EVENTS, 0)
        follower = await self.log.follow({partition: None})
        try:
            end = await follower.end_offset(partition)
            found: list[e.Event] = []
            while await follower.position(partition) < end:
                records = (await follower.read(timeout_ms=1_000)).get(partition, [])
                found += [decode_event(record.value) for record in records]
            return found
        finally:
            await follower.close()


@asynccontextmanager
async def site(bootstrap: str, **config: object) -> AsyncIterator[Site]:
    """A decided log with the instance `main`."""
    prefix = f"w{uuid.uuid4().hex[:8]}-"
    log = KafkaLog(bootstrap, prefix=prefix)
    try:
        await provision(log, {"main": None}, shards=1)
        await log.publish((FACTS, 0), [record_of(Configured("main", json.dumps({"kind": "simple", **config})))])
        async with deciding(log):
            yield Site(bootstrap, prefix, log)
    finally:
        await log.close()


async def ended(process: subprocess.Popen[bytes]) -> int:
    """The exit code of a process that is about to end."""
    return await asyncio.wait_for(asyncio.to_thread(process.wait), DEADLINE_S)


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that the test starts; killed at the end where they are left."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.mark.kafka
async def test_a_worker_process_runs_commands_and_drains_on_sigterm(
    kafka: str, tmp_path: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    async with site(kafka) as here, here.publisher() as publisher:
        process = here.start(
            *("worker", "run", "--cores", "2", "--memory-kib", "100000", "--name", "real-1"),
            *("--property", "os=linux"),
            log_to=tmp_path / "worker.log",
            HEADWAY_SECRET_TOKEN="not-for-the-log",
        )
        processes.append(process)
        quick = await publisher.queue(
            argv=["/bin/sh", "-c", "echo here; exit 7"], requirements={"cpu_millis": 1000, "os": "linux"}
        )
        finished = await publisher.wait(quick, timeout_s=DEADLINE_S)
        assert (finished.outcome, finished.exit_code, finished.endpoint) == (Outcome.COMPLETED, 7, "real-1")

        started, go_on = tmp_path / "started", tmp_path / "go-on"
        script = f"touch {started}; while [ ! -e {go_on} ]; do sleep 0.05; done; echo drained"
        slow = await publisher.queue(argv=["/bin/sh", "-c", script], requirements={"cpu_millis": 1000})
        await until(started.exists, deadline_s=DEADLINE_S)
        process.send_signal(signal.SIGTERM)
        left = await publisher.queue(argv=["/bin/true"], requirements={"cpu_millis": 1000})
        go_on.touch()
        assert (await publisher.wait(slow, timeout_s=DEADLINE_S)).succeeded
        assert await ended(process) == 0, (tmp_path / "worker.log").read_text()

        events = await here.events()
        tails = [event.stdout_tail for event in events if isinstance(event, e.OperationFinished)]
        assert tails == [b"here\n", b"drained\n"]
        accepted = [event.operation_id for event in events if isinstance(event, e.OperationAccepted)]
        queued = [event for event in events if isinstance(event, e.OperationQueued)]
        assert accepted == [event.operation_id for event in queued if event.client_operation_id in (quick, slow)]
        assert [event.client_operation_id for event in queued][2] == left


@pytest.mark.kafka
async def test_a_worker_that_is_killed_leaves_no_process_and_its_action_runs_elsewhere(
    kafka: str, tmp_path: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    async with site(kafka, worker_timeout_s=2) as here, here.publisher() as publisher:
        pids = tmp_path / "pids"
        # The first run waits for ever in a child of its own; the second finds the mark of the first and ends.
        script = f"echo $$ >> {pids}; [ $(wc -l < {pids}) -gt 1 ] && exit 0; sh -c 'echo $$ >> {pids}; sleep 600'; true"
        options = ("--cores", "1", "--memory-kib", "100000")
        first = here.start("worker", "run", *options, "--name", "a", log_to=tmp_path / "a.log")
        processes.append(first)
        name = await publisher.queue(argv=["/bin/sh", "-c", script], requirements={"cpu_millis": 1000})
        await until(lambda: pids.exists() and len(pids.read_text().split()) == 2, deadline_s=DEADLINE_S)
        left = [int(pid) for pid in pids.read_text().split()]
        assert all(alive(pid) for pid in left)
        first.kill()
        await until(lambda: not any(alive(pid) for pid in left), "its runs end with it", deadline_s=DEADLINE_S)
        second = here.start("worker", "run", *options, "--name", "b", log_to=tmp_path / "b.log")
        processes.append(second)
        finished = await publisher.wait(name, timeout_s=DEADLINE_S)
        assert finished.succeeded
        assert finished.endpoint == "b"
        requeued = [event for event in await here.events() if isinstance(event, e.OperationRequeued)]
        assert [event.cause for event in requeued] == [RequeueCause.WORKER_TIMEOUT]


@pytest.mark.kafka
async def test_a_second_sigterm_kills_what_runs_and_the_worker_says_that_it_left(
    kafka: str, tmp_path: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    async with site(kafka) as here, here.publisher() as publisher:
        said = tmp_path / "worker.log"
        process = here.start("worker", "run", "--cores", "1", "--memory-kib", "1000", "--name", "a", log_to=said)
        processes.append(process)
        pid = tmp_path / "pid"
        await publisher.queue(argv=["/bin/sh", "-c", f"trap '' TERM; echo $$ > {pid}; while :; do sleep 0.1; done"])
        await until(lambda: pid.exists() and bool(pid.read_text()), deadline_s=DEADLINE_S)
        process.send_signal(signal.SIGTERM)
        await here.event(e.WorkerDrained)
        process.send_signal(signal.SIGTERM)
        assert await ended(process) == 1
        assert "error [worker-stopped]: a: stopped by a second signal" in said.read_text()
        assert not alive(int(pid.read_text()))
        requeued = await here.event(e.OperationRequeued)
        assert requeued.cause is RequeueCause.WORKER_GONE


@pytest.mark.kafka
async def test_a_simulated_fleet_runs_everything_once(
    kafka: str, tmp_path: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    async with site(kafka) as here, here.publisher() as publisher:
        fleet = here.start(
            *("worker", "run", "--cores", "2", "--memory-kib", "4096", "--name", "s"),
            *("--simulate", "--scale", "0.01", "--count", "50"),
            log_to=tmp_path / "fleet.log",
        )
        processes.append(fleet)
        asked = canonical_requirements([("cpu_millis", "1000"), ("memory_kib", "1024")])
        names = [f"c{number}" for number in range(1_000)]
        await publisher.publish_all(
            [ActionQueued("main", name, asked, expected_duration_us=1_000_000) for name in names]
        )
        ends = await asyncio.gather(*[publisher.wait(name, timeout_s=DEADLINE_S) for name in names])
        assert all(end.succeeded for end in ends)
        assert {end.endpoint for end in ends} == {f"s-{number}" for number in range(50)}
        fleet.terminate()
        assert await ended(fleet) == 0, (tmp_path / "fleet.log").read_text()
        events = await here.events()
        counted = Counter(type(event) for event in events)
        assert counted[e.OperationFinished] == counted[e.OperationDispatched] == 1_000
        assert counted[e.WorkerDisconnected] == 50
        assert not counted[e.OperationRequeued]


@pytest.mark.kafka
async def test_the_commands_publish_and_follow(
    kafka: str, tmp_path: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    async with site(kafka) as here:
        fleet = here.start(
            *("worker", "run", "--cores", "2", "--memory-kib", "4096", "--name", "s", "--simulate"),
            log_to=tmp_path / "fleet.log",
        )
        follower = here.start(
            *("placements", "--follow", "--from", "earliest", "--limit", "4", "-o", "json"),
            log_to=tmp_path / "placements.log",
        )
        processes += [fleet, follower]
        lines = tmp_path / "facts.jsonl"
        actions = [{"kind": "ActionQueued", "client_operation_id": f"c{number}"} for number in range(2)]
        lines.write_text("".join(json.dumps(action) + "\n" for action in actions) + "oops\n")
        publish = here.start("publish", str(lines), "-o", "json", log_to=tmp_path / "publish.log")
        processes.append(publish)
        said, _ = await asyncio.to_thread(publish.communicate, timeout=DEADLINE_S)
        assert publish.returncode == 1
        assert [json.loads(line)["line"] for line in said.splitlines()] == [1, 2]
        assert json.loads((tmp_path / "publish.log").read_text())["line"] == 3
        said, _ = await asyncio.to_thread(follower.communicate, timeout=DEADLINE_S)
        rows = [json.loads(line) for line in said.splitlines()]
        assert Counter((row["kind"], row["client_operation_id"]) for row in rows) == Counter(
            (kind, f"c{number}") for kind in ("ActionPlaced", "PlacementEnded") for number in range(2)
        )
        async with PlacementReader(here.log, start={0: rows[1]["offset"] + 1}) as reader:
            assert [placement.offset for placement in await reader.read(timeout_ms=5_000)] == [
                row["offset"] for row in rows[2:]
            ]


@pytest.mark.slow
@pytest.mark.kafka
async def test_a_worker_cut_off_for_less_than_its_timeout_goes_on_and_for_longer_starts_over(kafka: str) -> None:
    async with site(kafka, worker_timeout_s=4) as here, here.publisher() as publisher, wire_to(kafka) as wire:
        log = KafkaLog(wire.address, prefix=here.prefix, timeout_ms=2_000)
        one, held = worker("cut-off"), Held()
        try:
            async with serving(log, one, executor=held) as runtime:
                first = await publisher.queue(requirements={"cpu_millis": 1000})
                await until(lambda: len(held.runs) == 1)
                wire.cut()
                held.end(held.started[0])  # its report has to wait
                second = await publisher.queue(requirements={"cpu_millis": 1000})
                wire.mend()
                assert (await publisher.wait(first, timeout_s=DEADLINE_S)).succeeded
                await until(lambda: len(held.started) == 2, deadline_s=DEADLINE_S)
                assert runtime.stats.connects == 1

                wire.cut()
                async with PlacementReader(here.log) as reader:
                    async with asyncio.timeout(DEADLINE_S):
                        requeued = await anext(aiter(reader))
                assert isinstance(requeued, PlacementEnded)
                assert requeued.cause is RequeueCause.WORKER_TIMEOUT
                wire.mend()
                await until(
                    lambda: len(held.started) == 3, "it runs again, under a new connection", deadline_s=DEADLINE_S
                )
                assert held.stopped == held.started[1:2]
                assert runtime.stats.connects == 2
                held.end(held.started[2])
                assert (await publisher.wait(second, timeout_s=DEADLINE_S)).succeeded
        finally:
            await log.close()
