"""Several runs of a workload under one or several policies, and what is said of them: one run as numbers, several as ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from events.config import AllocationStrategy, SimpleScheduler
from streams.simulate.figures import DIGITS, Figures, Range, figures_of, ranges_of
from streams.simulate.made import SCENE_STREAM_S
from streams.simulate.policies import Policy, configuration
from streams.simulate.recording import Recording
from streams.simulate.workload import Workload
from streams.simulate.world import Run, World

SECOND_US = 1_000_000
Told = Callable[[int], None]
Answer = dict[str, Any]

FARM_POLICIES = (Policy.NONE, Policy.HOLD, Policy.DRAIN_TIME)

COMPARED = {
    "longest_wait": "longest_wait_h",
    "mean_wait": "mean_wait_min",
    "held_idle": "held_idle_core_s",
}
"""What is said of one hold by another, by the figure it is the median of."""


def silent(count: int) -> None:
    """Told of finished runs, says nothing."""


def figures_over(
    workloads: Iterable[Workload],
    config: SimpleScheduler,
    told: Told = silent,
    history: Workload | None = None,
    recording: Recording | None = None,
) -> list[Figures]:
    """The figures of each workload under `config`, in order; `told` is called with 1 after each. One workload at a time is kept.

    Before each, `history` stands in its log. A `recording` goes with a single workload.
    """
    found = []
    for workload in workloads:
        found.append(figures_of(World(workload, config, history, recording=recording).run()))
        told(1)
    return found


def answer_of(found: Sequence[Figures], *, shaken: bool) -> Answer:
    """The figures of one run as numbers, or of several as median, low and high."""
    return dict(ranges_of(found)) if shaken else dict(found[0])


def compare_farm(
    workloads: Iterable[Workload],
    after_s: int,
    strategy: AllocationStrategy,
    told: Told = silent,
    history: Workload | None = None,
) -> Answer:
    """The build farm without a hold and with one by shortfall, and with a history with one by drain time: each seed under all of them.

    `longest_wait_ratio` is the median longest wait with the hold by the one without, `held_idle_share` the median share of
    all core-seconds that the hold kept idle; `drain_time_by_hold` (`ratios_of`) sets one hold against the other.
    """
    policies = FARM_POLICIES if history is not None else FARM_POLICIES[:2]
    configs = {policy: configuration(policy, after_s=after_s, strategy=strategy) for policy in policies}
    found: dict[Policy, list[Figures]] = {policy: [] for policy in policies}
    for workload in workloads:
        for policy, config in configs.items():
            past = history if policy is Policy.DRAIN_TIME else None
            found[policy] += figures_over([workload], config, told, past)
    ranges = {policy.value: ranges_of(figures) for policy, figures in found.items()}
    without, held = ranges[Policy.NONE.value], ranges[Policy.HOLD.value]
    answer: Answer = {
        **ranges,
        "longest_wait_ratio": _by_median(held, without, "longest_wait_h"),
        "held_idle_share": held["held_idle_share"]["median"],
    }
    if history is not None:
        answer["drain_time_by_hold"] = ratios_of(ranges[Policy.DRAIN_TIME.value], held)
    return answer


def ratios_of(these: dict[str, Range], those: dict[str, Range]) -> dict[str, float]:
    """The medians of one policy by those of another: longest wait, mean wait, core-seconds held idle."""
    return {name: _by_median(these, those, figure) for name, figure in COMPARED.items()}


def _by_median(these: dict[str, Range], those: dict[str, Range], figure: str) -> float:
    """The median of the one by that of the other; 0 where that is 0."""
    return round(these[figure]["median"] / those[figure]["median"], DIGITS) if those[figure]["median"] else 0.0


def scene_row(run: Run) -> Answer:
    """Of one run of the scene: how many of the large actions were placed while the stream lasted, and when each was, in minutes."""
    large = sorted(started for job, started in zip(run.workload.jobs, run.started_us, strict=True) if job.large)
    return {
        "large": len(large),
        "placed_in_stream": sum(started < SCENE_STREAM_S * SECOND_US for started in large),
        "placed_at_min": [round(started / SECOND_US / 60, 3) for started in large],
        **figures_of(run),
    }
