"""Several runs of a workload under one or several policies, and what is said of them: one run as numbers, several as ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from events.config import AllocationStrategy, SimpleScheduler
from streams.simulate.figures import Figures, figures_of, median, ranges_of
from streams.simulate.made import SCENE_STREAM_S
from streams.simulate.policies import Policy, configuration
from streams.simulate.workload import Workload
from streams.simulate.world import Run, World

SECOND_US = 1_000_000
Told = Callable[[int], None]
Answer = dict[str, Any]


def silent(count: int) -> None:
    """Told of finished runs, says nothing."""


def runs_of(workloads: Iterable[Workload], config: SimpleScheduler, told: Told = silent) -> list[Run]:
    """Each workload simulated once under `config`; `told` is called with 1 after each."""
    runs = []
    for workload in workloads:
        runs.append(World(workload, config).run())
        told(1)
    return runs


def answer_of(runs: Sequence[Run], *, shaken: bool) -> Answer:
    """The figures of one run as numbers, or of several as median, low and high."""
    found: list[Figures] = [figures_of(run) for run in runs]
    return dict(ranges_of(found)) if shaken else dict(found[0])


def compare_farm(
    workloads: Sequence[Workload], after_s: int, strategy: AllocationStrategy, told: Told = silent
) -> Answer:
    """The build farm without and with a hold, over several seeds.

    `longest_wait_ratio` is the median longest wait with the hold by the one without, `held_idle_share` the median share of
    all core-seconds that the hold kept idle.
    """
    found: dict[str, list[Figures]] = {}
    for policy in (Policy.NONE, Policy.HOLD):
        runs = runs_of(workloads, configuration(policy, after_s=after_s, strategy=strategy), told)
        found[policy.value] = [figures_of(run) for run in runs]
    longest = {name: median(sorted(figures["longest_wait_h"] for figures in each)) for name, each in found.items()}
    without = longest[Policy.NONE.value]
    return {
        **{name: dict(ranges_of(each)) for name, each in found.items()},
        "longest_wait_ratio": round(longest[Policy.HOLD.value] / without, 6) if without else 0.0,
        "held_idle_share": median(sorted(figures["held_idle_share"] for figures in found[Policy.HOLD.value])),
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
