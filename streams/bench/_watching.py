"""What a stage does while something is measured on it: the processor time of its parts, and how far its state table is behind the log."""

from __future__ import annotations

import asyncio
import json
import os
import time
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import psutil

from streams.demo.stage import Stage

BROKER: Final = "broker"
GENERATOR: Final = "load generator"
"""This process: the load, and the supervisor of the parts, which sleeps."""

_LOOK_S, _READY_S, _ANSWER_S = 0.25, 60.0, 5.0


@dataclass(slots=True)
class Watch:
    """What was seen: `used_s` are the processor seconds of each part, `behind_s` the most that the state table was behind."""

    took_s: float = 0.0
    used_s: dict[str, float] = field(default_factory=dict)
    behind_s: float = 0.0

    @property
    def cores(self) -> float:
        """How many processors all parts but the load generator kept busy."""
        return sum(used for name, used in self.used_s.items() if name != GENERATOR) / self.took_s


@asynccontextmanager
async def watched(stage: Stage, *, lag: bool = False) -> AsyncIterator[Watch]:
    """Watches until this is left; only then the figures are there. `lag`: the state table is asked, which costs it some of its time."""
    watch = Watch()
    before, began_s = _cpu_s(stage), time.monotonic()
    looking = asyncio.create_task(_look(stage, watch)) if lag else None
    try:
        yield watch
        watch.took_s = time.monotonic() - began_s
        watch.used_s = {name: used - before[name] for name, used in _cpu_s(stage).items()}
    finally:
        if looking is not None:
            looking.cancel()
            await asyncio.wait([looking])
    if looking is not None and not looking.cancelled():
        looking.result()


async def until_ready(stage: Stage) -> None:
    """Wait until the state table answers. Raises what ended the stage, and OSError after a minute."""
    deadline_s = time.monotonic() + _READY_S
    while True:
        stage.check()
        try:
            await asyncio.to_thread(_behind_s, stage)
        except OSError:
            if time.monotonic() > deadline_s:
                raise
            await asyncio.sleep(0.1)
        else:
            return


async def _look(stage: Stage, watch: Watch) -> None:
    while True:
        await asyncio.sleep(_LOOK_S)
        watch.behind_s = max(watch.behind_s, await asyncio.to_thread(_behind_s, stage))


def _behind_s(stage: Stage) -> float:
    with urllib.request.urlopen(f"{stage.views_address}/v1/status", timeout=_ANSWER_S) as answer:
        status: dict[str, Any] = json.load(answer)
        return float(status["age_ms"]) / 1e3


def _cpu_s(stage: Stage) -> dict[str, float]:
    """Processor seconds of each part so far, user and system. Without the broker where it is not a process of ours."""
    processes = {name: process.pid for name, process in stage.supervisor.processes.items()}
    if stage.broker.pid is not None:
        processes[BROKER] = stage.broker.pid
    processes[GENERATOR] = os.getpid()
    used = {}
    for name, pid in processes.items():
        times = psutil.Process(pid).cpu_times()
        used[name] = times.user + times.system
    return used
