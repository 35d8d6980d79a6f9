"""Kills of a leading decider under load with a warm standby beside it, each measured from the outside: by the log and the clock.

A kill is a SIGKILL of the process that leads, at a moment drawn from a seed while the load publishes, so mostly with a transaction open.
Three moments are told apart: when the standby said that it opens (its own log line, in milliseconds), when its LeaderElected and when
its first decision could be read by a committed reader. Two processes take turns: the killed one comes back, folds the log, and is the
standby of the next kill.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp

from events.codec import decode_event
from streams.bench._rows import BenchFailed
from streams.bench._said import OPENS, moments, said_so_far
from streams.demo.deciders import Deciders
from streams.demo.stage import Stage
from streams.demo.tally import Tally
from streams.health import LOOPBACK
from streams.log import Log, Partition, Record
from streams.ownership import Role
from streams.recovery import Fold

WAIT_S: Final = 60.0
"""How long a killed decider may take to be a warm standby again, and a standby to take over."""

NEARLY_EVENTS: Final = 2_000
"""A standby that lacks no more of what the leader has committed counts as warm."""

_POLL_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class Takeover:
    """One change of leaders, in milliseconds from the signal: until the standby opened, and until its LeaderElected and its first decision
    could be read."""

    opens_ms: float
    elected_ms: float
    decides_ms: float


@dataclass(slots=True)
class Witness:
    """Reads the events as they come, folds them, so that a gap or a break is found, and notes when leaders were elected and decided.

    `elected_s` and `decided_s` are wall clock seconds by leader epoch. `tally` counts what was decided, once `count` was called.
    """

    fold: Fold
    tally: Tally = field(default_factory=Tally)
    elected_s: dict[int, float] = field(default_factory=dict)
    decided_s: dict[int, float] = field(default_factory=dict)
    _uncounted: list[bytes] = field(
        default_factory=list
    )  # decoding them at once would take its share of the machine from the load

    async def watch(self, log: Log) -> None:
        """Read until cancelled.

        Raises:
            DamagedLog: the log does not follow on itself.
        """
        at: Partition = self.fold.partition
        follower = await log.follow({at: None})
        try:
            while True:
                records = (await follower.read(max_records=5_000, timeout_ms=500)).get(at, [])
                now_s = time.time()
                # A new leader's first record comes after a silence, so it is the first of what is read together.
                for some in (records[:1], records[1:]):
                    self.take(some, now_s)
        finally:
            await follower.close()

    def take(self, records: list[Record], now_s: float) -> None:
        shard = self.fold.shard
        epoch = shard.leader_epoch
        self.fold.apply(records)
        self._uncounted += [record.value for record in records]
        if shard.leader_epoch != epoch:
            self.elected_s[shard.leader_epoch] = now_s
        elif records:
            self.decided_s.setdefault(epoch, now_s)

    def count(self) -> Tally:
        """The tally of all that was read."""
        for value in self._uncounted:
            self.tally.add(decode_event(value))
        self._uncounted.clear()
        return self.tally


@dataclass(slots=True)
class Killing:
    """Kills and stops the leaders of a stage with two deciders."""

    stage: Stage
    deciders: Deciders
    witness: Witness
    rng: random.Random

    async def kill(self) -> Takeover:
        """SIGKILL the leader as soon as the other one is warm, at a random moment of the next second.

        Raises:
            BenchFailed: there was no warm standby, or it did not take over.
        """
        leader, standby = await self._warm_pair()
        await asyncio.sleep(self.rng.random())
        epoch, said = self.witness.fold.shard.leader_epoch, said_so_far(self._log(standby))
        killed_s = time.time()
        self.stage.kill(leader)
        return await self._taken_over(standby, said, epoch, killed_s)

    async def pause(self) -> Takeover:
        """SIGSTOP the leader, let the other one take over, SIGCONT: the one that was away must find itself fenced, and follow.

        Raises:
            BenchFailed: it did not.
        """
        leader, standby = await self._warm_pair()
        epoch, said = self.witness.fold.shard.leader_epoch, said_so_far(self._log(standby))
        fencings = (await self._stats(leader) or {}).get("fencings", 0)
        pid = self.stage.supervisor.processes[leader].pid
        stopped_s = time.time()
        os.kill(pid, signal.SIGSTOP)
        try:
            found = await self._taken_over(standby, said, epoch, stopped_s)
        finally:
            os.kill(pid, signal.SIGCONT)

        async def fenced() -> bool:
            stats = await self._stats(leader)
            return stats is not None and stats["fencings"] > fencings and stats["role"] == Role.FOLLOWING.value

        await self._until(fenced, f"{leader} was away while {standby} took over, and is to be fenced and to follow")
        return found

    async def _taken_over(self, standby: str, said: int, epoch: int, killed_s: float) -> Takeover:
        witness = self.witness

        async def decided() -> bool:
            return any(later > epoch for later in witness.decided_s)

        await self._until(decided, f"{standby} is to take over")
        later = min(later for later in witness.decided_s if later > epoch)
        opens = moments(self._log(standby), OPENS, behind=said)
        if not opens:
            raise BenchFailed(f"{standby} has decided, but its log does not say when it opened: {self._log(standby)}")
        return Takeover(
            *(1e3 * (at - killed_s) for at in (opens[0], witness.elected_s[later], witness.decided_s[later]))
        )

    async def _warm_pair(self) -> tuple[str, str]:
        """The part that leads, and the other one once it has folded nearly all that the leader has committed."""
        names = tuple(self.deciders.ports)
        pair: list[str] = []

        async def warm() -> bool:
            found = [(name, await self._stats(name)) for name in names]
            leading = [name for name, stats in found if stats is not None and stats["role"] == Role.LEADING.value]
            following = [
                (name, stats["seq"])
                for name, stats in found
                if stats is not None and stats["role"] == Role.FOLLOWING.value
            ]
            pair[:] = [
                *leading,
                *(name for name, seq in following if seq >= self.witness.fold.shard.seq - NEARLY_EVENTS),
            ]
            return len(leading) == 1 and len(pair) == len(names)

        await self._until(warm, "one decider is to lead and the other to be warm")
        return pair[0], pair[1]

    async def _until(self, holds: Callable[[], Awaitable[bool]], what: str) -> None:
        deadline = time.monotonic() + WAIT_S
        while not await holds():
            self.stage.check()
            if time.monotonic() > deadline:
                raise BenchFailed(f"waited {WAIT_S:g} s in vain: {what}; the logs are in {self.stage.home / 'log'}")
            await asyncio.sleep(_POLL_S)

    async def _stats(self, name: str) -> dict[str, Any] | None:
        """The counters of a decider; None while it does not answer."""
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2)) as session,
                session.get(f"http://{LOOPBACK}:{self.deciders.ports[name]}/stats") as answer,
            ):
                found: dict[str, Any] = (await answer.json())["shards"][0]
                return found
        except (aiohttp.ClientError, TimeoutError):
            return None

    def _log(self, name: str) -> Path:
        return self.stage.home / "log" / f"{name}.log"
