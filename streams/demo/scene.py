"""The scene of the hold: one large action among a stream of small ones, on two small machines; the same twice, without and with a hold.

The stream asks for a little more than the machines have, so each core that frees is taken by the next small action. Without a hold the
large one waits until the stream ends. Both runs are instances of their own and take place at the same time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

from events.config import DEFAULT_CONFIG, SchedulerConfig
from events.config.hold import ShortfallHold
from events.facts import ActionQueued
from events.payloads import canonical_requirements
from streams.cli.explaining import operation_in_words
from streams.demo.stage import Stage
from streams.demo.workload import Due
from streams.effects import record_of
from streams.topics import FACTS
from streams.views import Views

WITHOUT: Final = "without-hold"
WITH: Final = "with-hold"
AFTER_S: Final = 2
MACHINES: Final = 2
CORES: Final = 4
LARGE_CORES: Final = 3
STREAM_S: Final = 14.0
LARGE_AT_S: Final = 2.0
ASKED_AT_S: Final = 9.0
"""When the scheduler is asked why the large action waits, in the run without a hold."""
SMALL_EVERY_US: Final = 90_000
SMALL_DURATIONS_US: Final = (500_000, 1_100_000, 800_000, 700_000, 900_000)
LARGE_DURATION_US: Final = 1_500_000
MEMORY_KIB: Final = 1 << 20
DRAIN_S: Final = 60.0

CONFIGS: Final[dict[str, SchedulerConfig]] = {
    WITHOUT: DEFAULT_CONFIG.model_copy(update={"retain_completed_for_s": 3_600}),
    WITH: DEFAULT_CONFIG.model_copy(
        update={"retain_completed_for_s": 3_600, "hold": ShortfallHold(kind="shortfall", after_s=AFTER_S)}
    ),
}
"""What the two instances are configured as: they differ in the hold alone."""


def large(instance: str) -> str:
    """The client operation id of the large action of a run."""
    return f"large-{instance}"


def scene_workers() -> dict[str, list[str]]:
    """`headway worker run` arguments: one process for the machines of each run, by its name."""
    return {
        instance: [
            *("worker", "run", "--simulate", "--instance", instance, "--name", f"machine-{instance}"),
            *("--cores", str(CORES), "--memory-kib", str(MEMORY_KIB), "--count", str(MACHINES)),
        ]
        for instance in CONFIGS
    }


def scene() -> list[Due]:
    """The facts of both runs, in the order in which they are published; the runs ask for the same at the same moments."""
    due = []
    for instance in CONFIGS:
        for number in range(round(STREAM_S * 1_000_000) // SMALL_EVERY_US):
            duration_us = SMALL_DURATIONS_US[number % len(SMALL_DURATIONS_US)]
            due.append(
                Due(number * SMALL_EVERY_US, _asked(instance, f"small-{number}-{instance}", 1, duration_us, "Small"))
            )
        asked = _asked(instance, large(instance), LARGE_CORES, LARGE_DURATION_US, "Large")
        due.append(Due(round(LARGE_AT_S * 1_000_000), asked))
    return sorted(due, key=lambda item: item.at_us)


def _asked(instance: str, name: str, cores: int, duration_us: int, mnemonic: str) -> ActionQueued:
    return ActionQueued(
        instance=instance,
        client_operation_id=name,
        requirements=canonical_requirements([("cpu_millis", str(1_000 * cores))]),
        expected_duration_us=duration_us,
        client_id="scene",
        mnemonic=mnemonic,
    )


async def play(
    stage: Stage,
    due: Sequence[Due],
    *,
    ended: Callable[[], int],
    check: Callable[[], None],
    show: Callable[[str], None],
    say: Callable[[str], None],
) -> list[str]:
    """Publish what is due when it is due, ask in between why the large action waits, and wait for the end of all.

    Args:
        due: the facts.
        ended: how many operations have ended since the scene began.
        check: raises what has ended the stage, if something did.
        show: takes the progress line.
        say: takes a line of the story.

    Returns the client operation ids that were published; those that have not ended within `DRAIN_S` are among them.
    """
    published: list[str] = []
    asked = False
    start = time.monotonic()
    while len(published) < len(due):
        check()
        elapsed_s = time.monotonic() - start
        ready = [item for item in due[len(published) :] if item.at_us <= elapsed_s * 1_000_000]
        if ready:
            await stage.log.publish((FACTS, 0), [record_of(item.fact) for item in ready])
            published += [item.fact.client_operation_id for item in ready]
        if not asked and elapsed_s > ASKED_AT_S:
            asked = True
            for line in await asyncio.to_thread(_why, stage):
                say(line)
        show(f"published {len(published)}/{len(due)}  ended {ended()}")
        await asyncio.sleep(0.03)
    deadline = time.monotonic() + DRAIN_S
    while ended() < len(published) and time.monotonic() < deadline:
        check()
        show(f"published {len(published)}/{len(due)}  ended {ended()}")
        await asyncio.sleep(0.1)
    return published


def _why(stage: Stage) -> list[str]:
    """What `headway explain operation` says of the large action that no worker is held for."""
    name = large(WITHOUT)
    answer = Views(stage.views_address).explain_operation(name, instance=WITHOUT)
    return [f"headway explain operation {name}", *(f"  | {line}" for line in operation_in_words(answer))]
