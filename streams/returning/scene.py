"""The scene: load, kill, look, one comes back the same, one as another process, one never; then the local state is deleted.

three endpoints, all blobs reported ──▶ SIGKILL of decider and read side; the workers are silent from here on
  ──▶ the read side answers as before, all unconfirmed ──▶ SAME: confirmed, kept   OTHER: wiped   NEVER: swept, in its time
  ──▶ SIGKILL again, and every local directory deleted ──▶ the same answers, from the log alone
"""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import psutil

from events.config import LocalityConfig, SimpleScheduler, canonical_config
from events.events import EndpointSwept, LeaderElected, LocalityWiped, RecoveryCompleted
from events.facts import Configured, Fact
from events.reasons import SweepCause, WipeCause
from streams.broker import BrokerEndpoint
from streams.demo.checking import table_equals_replay
from streams.demo.stage import DECIDER, STATE_TABLE, Stage, staged
from streams.effects import publish_and_see, record_of
from streams.event_tail import tail
from streams.locality import LocalityReader
from streams.provisioning import provision
from streams.returning.asking import POLL_S, Lookups, NotSo, everything, look_up, until
from streams.returning.population import INSTANCE, NEVER, OTHER, PINS, SAME, SHARD, Resident, residents
from streams.returning.verdict import Findings
from streams.supervisor import Patience
from streams.topics import FACTS

READY_S, LOAD_S, BACK_S = 60.0, 300.0, 120.0
DELETE_S: Final = 3.0
"""A part that was killed is started again after so long: in between its directory can be deleted."""

KEEP_ALIVE_S: Final = 0.5
FACTS_AT_ONCE: Final = 8
FIRST_ANSWER: Final = "first_right_answer_s"
"""Reports are 180 KiB each."""

PATIENCE = Patience(first_back_off_s=DELETE_S, longest_back_off_s=DELETE_S, grace_s=5.0)


class Scene:
    """One performance.

    Args:
        home: its directory.
        pairs: of endpoint and blob, in all.
        never_reconnect_s: after which the one that stays away is swept.
        answer_within_s: from the start of the read side's process to its first right answer.
        sample: how many blobs are looked up each time.
        tell: told the story, a line at a time.
    """

    def __init__(
        self,
        home: Path,
        *,
        pairs: int,
        never_reconnect_s: int,
        answer_within_s: float,
        sample: int,
        tell: Callable[[str], None],
    ) -> None:
        self.found = Findings()
        self._from_seq = 1  # of the events since the kill
        self._home, self._tell = home, tell
        self._pairs, self._never_s, self._within_s = pairs, never_reconnect_s, answer_within_s
        self._population = residents(pairs)
        last = max(one.first + one.count for one in self._population.values())
        # A fixed draw: the same blobs before and after. A few are held by nobody.
        self._sample = random.Random(5).sample(range(last + last // 20 + 1), min(sample, last))
        self._alive: dict[str, Resident] = {}

    async def perform(self, broker: BrokerEndpoint) -> Findings:
        """The whole scene, on this cluster. Raises NotSo when something that all else needs does not come to be."""
        begun_s = time.monotonic()
        parts = {DECIDER: ["decider", "run", "--shard", str(SHARD), "--claim"]}
        async with (
            staged(
                *(self._home, broker, {}, lambda log: provision(log, {INSTANCE: SHARD}), self._overhear),
                deciders=parts,
                patience=PATIENCE,
                called="locality",
            ) as stage,
            LocalityReader(stage.views_address, timeout_s=30.0) as reader,
        ):
            await self._load(stage, reader)
            await self._restart(stage, reader)
            async with self._kept_alive(stage):
                await self._return(stage, reader)
                await self._sweep(stage, reader)
                await self._forget_local_state(stage, reader)
            self.found.equal("table_equals_replay", await table_equals_replay(stage, self._tell), True)
        self.found.measured["wall_s"] = round(time.monotonic() - begun_s, 1)
        return self.found

    def _overhear(self, line: str) -> None:
        with (self._home / "supervisor.log").open("a") as file:
            file.write(line + "\n")

    # -- the acts -------------------------------------------------------------------------------------------------------------

    async def _load(self, stage: Stage, reader: LocalityReader) -> None:
        locality = LocalityConfig(never_reconnect_s=self._never_s)
        config = SimpleScheduler(kind="simple", worker_timeout_s=self._worker_timeout_s, locality=locality)
        await self._take(stage, Configured(INSTANCE, canonical_config(config)))
        self._tell(f"loading {self._pairs} pairs of three endpoints")
        begun_s = time.monotonic()
        for one in self._population.values():
            await self._connect(stage, one)
        async with self._kept_alive(stage):
            batch = []
            for one in self._population.values():
                for fact in one.report():
                    batch.append(record_of(fact))
                    if len(batch) == FACTS_AT_ONCE:
                        await stage.log.publish((FACTS, SHARD), batch)
                        batch = []
            await stage.log.publish((FACTS, SHARD), batch)
            await until(
                "all pairs in the table",
                reader.stats,
                lambda found: found[0].pairs == self._pairs,
                stage,
                timeout_s=LOAD_S,
            )
            self.found.measured["load_s"] = round(time.monotonic() - begun_s, 2)
            lookups = await look_up(reader, self._population, self._sample)
            stats, _ = await reader.stats()
        self._judge("before_the_kill", lookups)
        self.found.equal(
            "loaded_endpoints_pairs_pins", [stats.endpoints, stats.pairs, stats.pins], [3, self._pairs, 3 * PINS]
        )

    async def _restart(self, stage: Stage, reader: LocalityReader) -> None:
        self._alive.clear()  # the workers are gone too: nobody is heard from here on
        _, before = await reader.stats()
        self._tell("SIGKILL to decider and read side")
        await self._kill(stage)
        begun_s = await self._started(stage)
        first = self._sample[:1]
        await until(
            "a right answer after the restart",
            lambda: look_up(reader, self._population, first),
            lambda found: found.right == 1,
            stage,
            timeout_s=BACK_S,
        )
        took_s = round(time.monotonic() - begun_s, 2)
        process = psutil.Process(stage.supervisor.processes[STATE_TABLE].pid)
        used_s = round(sum(process.cpu_times()[:2]), 2)
        self.found.measured["first_right_answer_cpu_s"] = used_s
        self._tell(
            f"first right answer {took_s:g} s after the start of the process, which took {used_s:g} s of processor"
        )
        self.found.at_most(FIRST_ANSWER, took_s, self._within_s)
        self._judge("after_the_restart_before_anyone_returned", await look_up(reader, self._population, self._sample))
        await until("a new leader", reader.stats, lambda found: found[0].unconfirmed == 3, stage, timeout_s=BACK_S)
        lookups = await look_up(reader, self._population, self._sample)
        self._judge("under_the_new_leader_before_anyone_returned", lookups)
        self.found.equal("confirmed_before_anyone_returned", lookups.confirmed, 0)
        self._from_seq = before.seq + 1

    async def _return(self, stage: Stage, reader: LocalityReader) -> None:
        same, other, never = (self._population[name] for name in (SAME, OTHER, NEVER))
        await self._connect(stage, same.again())
        view = await self._endpoint(reader, stage, SAME, lambda view: view.confirmed and view.connected)
        self.found.equal("same_epoch_keeps", [view.blobs, view.pins, view.wipes], [same.count, PINS, 0])

        another = other.again(boot_epoch=other.boot_epoch + 1_000, count=min(other.count, 100))
        await self._connect(stage, another)
        view = await self._endpoint(reader, stage, OTHER, lambda view: view.boot_epoch == another.boot_epoch)
        seen = [view.blobs, view.pins, view.wipes, view.wiped.name, view.wiped_epoch]
        self.found.equal("another_epoch_wipes", seen, [0, 0, 1, WipeCause.EPOCH_CHANGED.name, other.boot_epoch])
        self._judge("after_two_returned", await look_up(reader, {SAME: same, NEVER: never}, self._sample))

        await stage.log.publish((FACTS, SHARD), [record_of(fact) for fact in another.report()])
        view = await self._endpoint(reader, stage, OTHER, lambda view: view.blobs == another.count)
        self.found.equal("another_epoch_reports_anew", [view.blobs, view.pins], [another.count, PINS])
        self._population = {SAME: same, OTHER: another, NEVER: never}

        view = await self._endpoint(reader, stage, NEVER, lambda view: not view.connected)
        seen = [view.blobs, view.confirmed, view.wipes]
        self.found.equal("unconfirmed_keeps_its_blobs_when_its_worker_times_out", seen, [never.count, False, 0])
        self._judge("before_the_sweep", await look_up(reader, self._population, self._sample))

    async def _sweep(self, stage: Stage, reader: LocalityReader) -> None:
        self._tell(f"waiting for the sweep, {self._never_s} s after the recovery")
        await until(
            "the sweep of the one that stays away",
            lambda: reader.endpoint(INSTANCE, NEVER),
            lambda found: found is None,
            stage,
            timeout_s=self._never_s + BACK_S,
        )
        del self._population[NEVER]
        self._judge("after_the_sweep", await look_up(reader, self._population, self._sample))
        stats, _ = await reader.stats()
        wanted = [2, sum(one.count for one in self._population.values()), 2 * PINS]
        self.found.equal("endpoints_pairs_pins_after_the_sweep", [stats.endpoints, stats.pairs, stats.pins], wanted)
        await self._judge_the_log(stage)

    async def _judge_the_log(self, stage: Stage) -> None:
        """What the events since the kill say: one wipe, one sweep, and that in its time."""
        recovered_us = elected = 0
        wiped, swept = [], []
        async for tailed in tail(stage.log, SHARD, from_seq=self._from_seq):
            match tailed.event:
                case LeaderElected():
                    elected += 1
                case RecoveryCompleted() as event:
                    recovered_us = event.at_us
                    self.found.equal("unconfirmed_when_recovered", event.unconfirmed, 3)
                case LocalityWiped() as event:
                    wiped.append([event.endpoint, event.cause.name, event.boot_epoch])
                case EndpointSwept() as event:
                    swept.append([event.endpoint, event.cause.name])
                    waited_s = (event.at_us - recovered_us) / 1e6
                    self.found.at_least("swept_after_the_recovery_s", round(waited_s, 3), self._never_s)
        self.found.equal("leaders_since_the_kill", elected, 1)
        self.found.equal(
            "wiped", wiped, [[OTHER, WipeCause.EPOCH_CHANGED.name, residents(self._pairs)[OTHER].boot_epoch]]
        )
        self.found.equal("swept", swept, [[NEVER, SweepCause.NEVER_RECONNECTED.name]])

    async def _forget_local_state(self, stage: Stage, reader: LocalityReader) -> None:
        before = await everything(reader, self._population, self._sample)
        self._tell("SIGKILL again, and every local directory is deleted")
        await self._kill(stage)
        for part in (STATE_TABLE, DECIDER):
            shutil.rmtree(self._home / part, ignore_errors=True)
        if stage.supervisor.processes:
            raise NotSo(f"{', '.join(stage.supervisor.processes)} came back while the directories were deleted")
        begun_s = await self._started(stage)
        await until(
            "complete answers from the log alone",
            reader.stats,
            lambda found: found[1].complete and found[0].endpoints == 2,
            stage,
            timeout_s=LOAD_S,
        )
        self.found.measured["rebuilt_from_the_log_s"] = round(time.monotonic() - begun_s, 2)
        after = await everything(reader, self._population, self._sample)
        different = [name for name in before if before[name] != after.get(name)]
        self.found.equal("answers_that_differ_once_made_from_the_log_alone", different[:5], [])

    # -- what the acts do -----------------------------------------------------------------------------------------------------

    @property
    def _worker_timeout_s(self) -> int:
        """Before the sweep, so that both are seen."""
        return max(3, self._never_s // 2)

    def _judge(self, when: str, lookups: Lookups) -> None:
        wanted = f"{len(self._sample)} of {len(self._sample)}"
        seen = f"{lookups.right} of {len(self._sample)}"
        self.found.equal(f"lookups_{when}", seen + (f"; {lookups.wrong}" if lookups.wrong else ""), wanted)
        self.found.measured[f"lookup_{when}_ms"] = {"p50": lookups.p50_ms, "p99": lookups.p99_ms}

    async def _take(self, stage: Stage, fact: Fact) -> None:
        """Publish a fact that must be taken. Raises NotSo when it is not."""
        (effect,) = await publish_and_see(stage.log, SHARD, [fact], timeout_s=READY_S)
        if effect.said:
            raise NotSo(f"{type(fact).__name__} was not taken: {effect.said}")

    async def _connect(self, stage: Stage, one: Resident) -> None:
        await self._take(stage, one.connect())
        self._alive[one.name] = one

    @asynccontextmanager
    async def _kept_alive(self, stage: Stage) -> AsyncIterator[None]:
        """Those that have connected are heard meanwhile."""

        async def speak() -> None:
            while True:
                records = [record_of(one.keep_alive()) for one in self._alive.values()]
                if records:
                    await stage.log.publish((FACTS, SHARD), records)
                await asyncio.sleep(KEEP_ALIVE_S)

        speaking = asyncio.create_task(speak())
        try:
            yield
            if speaking.done():
                speaking.result()
        finally:
            speaking.cancel()
            await asyncio.wait([speaking])

    async def _kill(self, stage: Stage) -> None:
        """SIGKILL to decider and read side; returns when both are gone."""
        pids = {part: stage.kill(part) for part in (DECIDER, STATE_TABLE)}
        deadline_s = time.monotonic() + DELETE_S
        while any(
            part in stage.supervisor.processes and stage.supervisor.processes[part].pid == pid
            for part, pid in pids.items()
        ):
            if time.monotonic() > deadline_s:
                raise NotSo(f"processes {pids} outlive SIGKILL by {DELETE_S:g} s")
            await asyncio.sleep(POLL_S)

    async def _started(self, stage: Stage) -> float:
        """When the supervisor has started the read side again, on the monotonic clock. Raises NotSo."""
        deadline_s = time.monotonic() + BACK_S
        while STATE_TABLE not in stage.supervisor.processes:
            stage.check()
            if time.monotonic() > deadline_s:
                raise NotSo(f"the read side was not started again within {BACK_S:g} s")
            await asyncio.sleep(POLL_S)
        return time.monotonic()

    async def _endpoint(self, reader: LocalityReader, stage: Stage, name: str, holds: Callable[[Any], bool]) -> Any:
        found = await until(
            f"endpoint {name} as it should be",
            lambda: reader.endpoint(INSTANCE, name),
            lambda found: found is not None and holds(found.endpoint),
            stage,
            timeout_s=BACK_S,
        )
        assert found is not None
        return found.endpoint
