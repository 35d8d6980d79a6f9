"""Several runs of a workload under one or several policies, and what is said of them: one run as numbers, several as ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from events.config import AllocationStrategy, SimpleScheduler
from streams.simulate.figures import DIGITS, Figures, figures_of, ranges_of
from streams.simulate.made import SCENE_STREAM_S
from streams.simulate.policies import Policy, configuration
from streams.simulate.recording import Recording
from streams.simulate.workload import Workload
from streams.simulate.world import Run, World

SECOND_US = 1_000_000
Told = Callable[[int], None]
Answer = dict[str, Any]


def silent(count: int) -> None:
    """Told of finished runs, says nothing."""


def figures_over(
    workloads: Iterable[Workload], config: SimpleScheduler, told: Told = silent, recording: Recording | None = None
) -> list[Figures]:
    """The figures of each workload under `config`, in order; `told` is called with 1 after each. One workload at a time is kept.

    A `recording` goes with a single workload.
    """
    found = []
    for workload in workloads:
        found.append(figures_of(World(workload, config, recording=recording).run()))
        told(1)
    return found


def answer_of(found: Sequence[Figures], *, shaken: bool) -> Answer:
    """The figures of one run as numbers, or of several as median, low and high."""
    return dict(ranges_of(found)) if shaken else dict(found[0])


def compare_farm(
    workloads: Iterable[Workload], after_s: int, strategy: AllocationStrategy, told: Told = silent
) -> Answer:
    """The build farm without and with a hold, each seed under both.

    `longest_wait_ratio` is the median longest wait with the hold by the one without, `held_idle_share` the median share of
    all core-seconds that the hold kept idle.
    """
    policies = (Policy.NONE, Policy.HOLD)
    configs = [configuration(policy, after_s=after_s, strategy=strategy) for policy in policies]
    pairs = []
    for workload in workloads:
        pairs.append([figures_over([workload], config, told)[0] for config in configs])
    without, held = (ranges_of([pair[number] for pair in pairs]) for number in range(len(policies)))
    longest_h = without["longest_wait_h"]["median"]
    return {
        Policy.NONE.value: without,
        Policy.HOLD.value: held,
        "longest_wait_ratio": round(held["longest_wait_h"]["median"] / longest_h, DIGITS) if longest_h else 0.0,
        "held_idle_share": held["held_idle_share"]["median"],
    }


def scene_row(run: Run) -> Answer:
    """Of one run of the scene: how many of the large actions were placed while the stream lasted, and when each was, in minutes."""
    large = sorted(started for job, started in zip(run.workload.jobs, run.started_us, strict=True) if job.large)
    return {
        "large": len(large),
        "placed_in_stream": sum(started < SCENE_STREAM_S * SECOND_US for started in large),
        "placed_at_min": [round(started / SECOND_US / 60, 3) for started in large],
        **figures_of(run),
    }
