"""What the hold costs where it is off, and where it is on and not due: one whole decision cycle of the core, with and without.

A cycle is two facts, an action that ends and one that arrives, on a full fleet with a queue behind it: the rules, the events, the folds
and the pass, as `decide` runs them. The variants take turns on one machine, and each counts its least time, in this thread's
processor time.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import thread_time_ns
from typing import Any

from events import facts as f
from events.codec import canonical_requirements
from events.config import SimpleScheduler, canonical_config
from events.config.hold import ShortfallHold
from events.decide import RULES, decide
from events.deciding.placing import place
from events.deciding.step import Step
from events.events import OperationDispatched
from events.indexing import build_indexes
from events.state import Shard, Stage
from streams.bench._rows import Row, at_most, reference

WORKERS = 100
CORES = 16
QUEUED = 1_000
CYCLES = 200
REPETITIONS = 40
NEVER_DUE_S = 10 * 365 * 24 * 3600
MOST = 1.05
"""A cycle with the hold off may cost so many times one of a pass that knows no hold: what the clock cannot tell apart."""

Pass = Callable[[Step], None]


def plain_pass(step: Step) -> None:
    """The pass of a scheduler that knows no hold."""
    for instance in step.shard.instances.values():
        if instance.paused:
            continue
        matcher = instance.matcher
        while (match := matcher.next_match()) is not None:
            worker = match.worker
            operation_id = match.operation.operation_id
            step.emit(
                OperationDispatched,
                operation_id,
                worker.endpoint,
                worker.connection_id,
                match.overtook,
                match.backfilled,
            )


class Cycle:
    """A shard with a full fleet, and the facts that keep it busy."""

    def __init__(self, hold: ShortfallHold | None, pass_: Pass) -> None:
        self._pass = pass_
        self._shard = Shard()
        self._offset = 0
        self._now_us = 1_000_000
        build_indexes(self._shard)
        config = canonical_config(SimpleScheduler(kind="simple", hold=hold))
        self._decide(f.Configured("main", config))
        declared = (("cpu_millis", str(CORES * 1000)),)
        for number in range(WORKERS):
            self._decide(f.WorkerConnected("main", f"w{number}", 1, number + 1, declared))
        self._small = canonical_requirements({"cpu_millis": "1000"}.items())
        for _ in range(WORKERS * CORES + QUEUED):
            self._arrive(decide)
        self._running = [
            (operation.dispatch.dispatch_id, operation.dispatch.worker)
            for operation in self._shard.operations.values()
            if operation.stage is Stage.EXECUTING and operation.dispatch is not None
        ]

    def _decide(self, fact: f.Fact) -> None:
        decide(self._shard, fact, offset=self._offset, append_us=self._now_us)
        self._offset += 1

    def _arrive(self, by: Callable[..., Any]) -> None:
        self._now_us += 10
        fact = f.ActionQueued("main", f"c{self._offset}", self._small)
        by(self._shard, fact, offset=self._offset, append_us=self._now_us)
        self._offset += 1

    def _step(self, shard: Shard, fact: f.Fact, *, offset: int, append_us: int) -> Step:
        step = Step(shard, offset, append_us, append_us, type(fact).__name__, "")
        RULES[type(fact)](step, fact)
        self._pass(step)
        return step

    def run(self, count: int) -> float:
        """Microseconds a cycle, of processor time, over `count` cycles."""
        running = self._running
        started = thread_time_ns()
        for _ in range(count):
            dispatch_id, worker = running.pop(0)
            self._now_us += 10
            ended = f.ActionFinished("main", worker.endpoint, worker.connection_id, dispatch_id)
            step = self._step(self._shard, ended, offset=self._offset, append_us=self._now_us)
            self._offset += 1
            for event in step.events:
                if type(event) is OperationDispatched:
                    running.append((event.dispatch_id, self._shard.instances["main"].workers[event.endpoint]))
            self._arrive(self._step)
        return (thread_time_ns() - started) / count / 1_000


def run(progress: Callable[[str], Any] = lambda case: None) -> list[Row]:
    """Measure the variants; a few seconds. `progress` is told before."""
    progress("the hold")
    variants = {
        "no hold in the pass": Cycle(None, plain_pass),
        "hold off": Cycle(None, place),
        "hold on, not due": Cycle(ShortfallHold(kind="shortfall", after_s=NEVER_DUE_S), place),
    }
    least = dict.fromkeys(variants, float("inf"))
    gc.disable()
    try:
        for repetition in range(REPETITIONS + 1):
            for name, cycle in variants.items():
                taken_us = cycle.run(CYCLES)
                if repetition:  # the first one warms
                    least[name] = min(least[name], taken_us)
    finally:
        gc.enable()
    plain_us, off_us, on_us = least.values()
    size = f"workers={WORKERS} queued={QUEUED:,}"
    return [
        reference(f"decide, pass without a hold in it, {size}", plain_us, "us"),
        at_most(f"decide, hold off, {size}", off_us, "us", plain_us * MOST),
        reference(f"decide, hold on and not due (ratio: to hold off), {size}", on_us, "us", per=off_us),
    ]
