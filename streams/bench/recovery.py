"""How fast a shard is decided again after its decider died: by a warm standby under load, and by a start on a long history, on real Kafka.

A broker of its own (or the cluster in HEADWAY_BOOTSTRAP_SERVERS), two deciders and a load generator on this machine. Who leads is killed
again and again while actions are published at a fixed rate; afterwards each of them must have been placed and ended once, with no gap in
the events. Then a decider is started on a shard with a history, without a snapshot and with one.

Detection is counted from the signal to the standby's decision to open, a takeover from there on; both by the wall clock of one machine.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from streams.bench._restarts import Restart, restart, write_history, write_snapshot
from streams.bench._rows import BenchFailed, Row, at_most, reference
from streams.bench._takeovers import Killing, Takeover, Witness
from streams.broker import BrokerEndpoint
from streams.demo.deciders import Deciders
from streams.demo.stage import WEB_PORTS, environment_of, new_home, raise_broker, staged, strike
from streams.kafka_log import KafkaLog
from streams.load import Load
from streams.provisioning import provision
from streams.recovery import Fold
from streams.settings import load_settings
from streams.supervisor import Patience
from streams.topics import topic_table

INSTANCE: Final = "main"
RUN: Final = "takeover"
TAKEOVER_MS: Final = 300.0
INCLUDED_MS: Final = 3_000.0
DETECTED_MS: Final = INCLUDED_MS - TAKEOVER_MS
READY_ABSENT_S: Final = 15.0
READY_PRESENT_S: Final = 3.0
BEHIND: Final = 200_000
"""As many events as a snapshot may be old: what `headway snapshot follow` lets pass between two of them."""

LONGEST_S: Final = 3_600.0
SETTLE_S: Final = 30.0
PATIENCE: Final = Patience(first_back_off_s=0.2, longest_back_off_s=0.2)
"""Killed ones come back at once, to be the next standby."""

Progress = Callable[[str], Any]


def run(
    kills: int = 10,
    rate: int = 500,
    events: int = 1_000_000,
    restarts: int = 2,
    seed: int = 0,
    progress: Progress = lambda case: None,
) -> list[Row]:
    """Kill deciders that lead while `rate` actions a second arrive; start one on a history of `events`, so many times each way.

    No kills, or no events, leave that part out.

    Raises:
        BenchFailed: an action was lost or ran twice, or a part did not do what it was measured for.
    """
    home = new_home("bench-recovery")
    try:
        return asyncio.run(_measured(home, kills, rate, events, restarts, seed, progress))
    finally:
        strike(home, progress, keep=False)


async def _measured(
    home: Path, kills: int, rate: int, events: int, restarts: int, seed: int, progress: Progress
) -> list[Row]:
    broker = await asyncio.to_thread(raise_broker, home, load_settings(), lambda line: None)
    rows = await _takeovers(home, broker, kills, rate, seed, progress) if kills else []
    return rows + (await _restarts(home, broker, events, restarts, progress) if events else [])


# -- takeovers ------------------------------------------------------------------------------------------------------------------------


async def _takeovers(
    home: Path, broker: BrokerEndpoint, kills: int, rate: int, seed: int, progress: Progress
) -> list[Row]:
    deciders = Deciders.on_free_ports()
    async with staged(
        home,
        broker,
        {},
        lambda log: provision(log, {INSTANCE: 0}),
        lambda line: None,
        deciders=deciders.arguments(),
        patience=PATIENCE,
        called="bench-recovery",
        read_side=False,
    ) as stage:
        witness = Witness(Fold(0))
        watching = asyncio.create_task(witness.watch(stage.log))
        killing = Killing(stage, deciders, witness, random.Random(f"recovery {seed}"))
        try:
            async with Load(stage.log, instance=INSTANCE, run=RUN) as load:
                loading = asyncio.create_task(load.at_rate(rate, LONGEST_S))
                killed = []
                for number in range(kills):
                    progress(f"kill {number + 1} of {kills}")
                    killed.append(await killing.kill())
                progress("a leader that is stopped, and comes back")
                paused = await killing.pause()
                published = load.seen.published
                loading.cancel()
                await asyncio.wait([loading])
                await _settle(load, witness, published)
                progress("a kill with nothing to do")
                idle = await killing.kill()
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
    return [
        *_of(killed, f"{kills} kills at {rate}/s"),
        *_of([paused], "a leader stopped at that rate, fenced when it comes back"),
        *_of([idle], "a kill with nothing to do"),
        reference("actions published meanwhile, each placed and ended once", published, "actions"),
    ]


def _of(takeovers: Sequence[Takeover], when: str) -> list[Row]:
    """Rows of some takeovers: the median where it says something, and the longest, which is what is held to the limits."""
    figures = (
        ("detection", DETECTED_MS, [one.opens_ms for one in takeovers]),
        ("takeover, LeaderElected to be read", TAKEOVER_MS, [one.elected_ms - one.opens_ms for one in takeovers]),
        ("takeover, the first decision to be read", TAKEOVER_MS, [one.decides_ms - one.opens_ms for one in takeovers]),
        ("both together, the first decision to be read", INCLUDED_MS, [one.decides_ms for one in takeovers]),
    )
    rows = []
    for what, limit, values in figures:
        if len(values) > 1:
            rows.append(reference(f"{when}: {what}, p50", statistics.median(values), "ms"))
        rows.append(at_most(f"{when}: {what}, {'max' if len(values) > 1 else 'once'}", max(values), "ms", limit))
    return rows


async def _settle(load: Load, witness: Witness, published: int) -> None:
    """Wait until everything published has ended.

    Raises:
        BenchFailed: something has not, or ran twice.
    """
    names = [f"{RUN}-{number}" for number in range(1, published + 1)]
    deadline = time.monotonic() + SETTLE_S
    while (lost := len(witness.count().unfinished(names))) and time.monotonic() < deadline:
        await load.at_rate(5, 0.2)  # it answers what waits for an answer only while it publishes
    tally = witness.tally
    if lost or tally.doubled() or tally.seq_gaps:
        raise BenchFailed(
            f"of {published} actions {lost} did not end; {tally.doubled()} were doubled, and seq has {tally.seq_gaps} gaps"
        )


# -- restarts -------------------------------------------------------------------------------------------------------------------------


async def _restarts(home: Path, broker: BrokerEndpoint, events: int, restarts: int, progress: Progress) -> list[Row]:
    prefix = f"bench-past-{secrets.token_hex(3)}."  # a log of its own on the same broker
    environment = environment_of(home, broker, prefix, WEB_PORTS.start)
    log = KafkaLog(broker.bootstrap_servers, prefix=prefix, client_id="headway-bench-recovery")
    try:
        await log.ensure_topics(topic_table(1))
        progress(f"making {events:,} events")
        begun_s = time.monotonic()
        written = await write_history(log, 0, events)
        made_s = time.monotonic() - begun_s
        output = home / "log"
        output.mkdir(exist_ok=True)

        async def started(how: str) -> list[Restart]:
            found = []
            for number in range(restarts):
                progress(f"start {number + 1} of {restarts} {how}")
                found.append(await restart(environment, 0, output / f"restart-{how.replace(' ', '-')}-{number}.log"))
            return found

        absent = await started("without a snapshot")
        progress("writing snapshots")
        covered = await write_snapshot(log, 0, written - min(BEHIND, written // 5))
        behind = await started("with a snapshot")
        await write_snapshot(log, 0, written)
        present = await started("with a snapshot of all")
    finally:
        await log.close()
    rows = [reference("events of history", written, "events"), reference("which were made in", made_s, "s")]
    for how, found, limit in (
        ("without a snapshot", absent, READY_ABSENT_S),
        (f"with one, {written - covered:,} events behind it", behind, READY_PRESENT_S),
        ("with one at its end", present, READY_PRESENT_S),
    ):
        loaded = max(one.started_ms for one in found) / 1e3
        rows.append(reference(f"restart {how}: process started", loaded, "s"))
        rows.append(at_most(f"restart {how}: leads", max(one.leads_ms for one in found) / 1e3, "s", limit))
    return rows
