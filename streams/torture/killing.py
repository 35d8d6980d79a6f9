"""Kills a victim that is at work: one that has come back from its last death, so that every kill hits something.

A decider is at work when it leads; the state table when it holds more events than at its last death, whether it is still catching up or
not; a worker process when the log has admitted all its endpoints anew and, for as long as there is work to be had, one of them runs
something.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from aiohttp import ClientError, ClientSession, ClientTimeout

from streams.demo.deciders import Deciders
from streams.demo.stage import STATE_TABLE, Stage, part_of_worker, until
from streams.demo.watching import Live
from streams.health import LOOPBACK
from streams.torture.plan import FLEET, Kill, Victim, WorkerProcess

COME_BACK_S = 60.0
FIND_WORK_S = 5.0
POLL_S = 0.05
_ANSWER_S = 2.0


class NotBack(RuntimeError):
    """A part that was killed, or has just been started, is not at work in time: a finding of its own."""


@dataclass(slots=True)
class Executioner:
    """Kills parts of a stage. `kills` counts by the name of the part."""

    stage: Stage
    live: Live
    deciders: Deciders
    kills: Counter[str] = field(default_factory=Counter)
    _boot_epochs: dict[str, int] = field(default_factory=dict)  # of each endpoint, when its process was killed last
    _table_seq: int = 0  # that the state table told last
    _killed_table_seq: int = 0  # and that it had told when it was killed last

    async def kill(self, kill: Kill) -> tuple[str, int]:
        """Kill the victim as soon as it is at work; returns its part and process id, once the process is gone.

        Raises:
            NotBack: it was not at work within COME_BACK_S.
        """
        match kill.victim:
            case Victim.DECIDER:
                part = await self._wait("a decider that leads", self.deciders.leading_now)
            case Victim.STATE_TABLE:
                part = await self._wait("a state table that folds", self._table)
                self._killed_table_seq = self._table_seq
            case Victim.WORKER:
                process = next(process for process in FLEET if process.name == kill.process)
                part = await self._wait(
                    f"worker process {process.name!r} to be admitted", partial(self._worker, process)
                )
                await self._find_work(process)
                self._boot_epochs |= {name: self.live.workers.get(name, 0) for name in process.endpoints}
        pid = self.stage.kill(part)
        self.kills[part] += 1
        await self._gone(part, pid)
        return part, pid

    async def wait_for_all(self) -> None:
        """Wait until every part is at work. Raises NotBack."""
        await self._wait("a decider that leads", self.deciders.leading_now)
        for process in FLEET:
            await self._wait(f"worker process {process.name!r} to be admitted", partial(self._worker, process))
        await self._wait("a state table that folds", self._table)

    def unasked_ends(self) -> dict[str, int]:
        """How often each part ended that nobody had killed; parts that never did are left out."""
        return {
            part: ends - self.kills[part]
            for part, ends in self.stage.supervisor.restarts.items()
            if ends > self.kills[part]
        }

    async def _wait(self, what: str, find: Callable[[], Awaitable[str | None]]) -> str:
        deadline = time.monotonic() + COME_BACK_S
        while True:
            self.stage.check()
            part = await find()
            if part is not None and part in self.stage.supervisor.processes:
                return part
            if time.monotonic() > deadline:
                raise NotBack(
                    f"waited {COME_BACK_S:g} s in vain for {what}; the logs of all parts are in {self.stage.home / 'log'}"
                )
            await asyncio.sleep(POLL_S)

    async def _find_work(self, process: WorkerProcess) -> None:
        def is_at_work() -> bool:
            return any(name in process.endpoints for name in self.live.running.values())

        # Where everything has ended already there is none to be found.
        with suppress(TimeoutError):
            await until("work for the victim", is_at_work, self.stage, timeout_s=FIND_WORK_S)

    async def _gone(self, part: str, pid: int) -> None:
        """The dead process must not be taken for the one that follows it."""
        deadline = time.monotonic() + COME_BACK_S
        while (process := self.stage.supervisor.processes.get(part)) is not None and process.pid == pid:
            if time.monotonic() > deadline:
                raise NotBack(f"{part} (process {pid}) outlives SIGKILL by {COME_BACK_S:g} s")
            await asyncio.sleep(POLL_S)

    async def _table(self) -> str | None:
        status = await _ask(f"http://{LOOPBACK}:{self.stage.web_port}/v1/status")
        process = self.stage.supervisor.processes.get(STATE_TABLE)
        if status is None or process is None or status.get("process", {}).get("pid") != process.pid:
            return None
        self._table_seq = status.get("seq", 0)
        return STATE_TABLE if self._table_seq > self._killed_table_seq else None

    async def _worker(self, process: WorkerProcess) -> str | None:
        workers = self.live.workers
        back = all(name in workers and workers[name] != self._boot_epochs.get(name) for name in process.endpoints)
        return part_of_worker(process.name) if back else None


async def _ask(url: str) -> dict[str, Any] | None:
    """The JSON object at `url`, whatever its status; None where nobody answers."""
    try:
        async with ClientSession(timeout=ClientTimeout(total=_ANSWER_S)) as session, session.get(url) as response:
            answer = await response.json()
    except (ClientError, TimeoutError, OSError, ValueError):
        return None
    return answer if isinstance(answer, dict) else None
