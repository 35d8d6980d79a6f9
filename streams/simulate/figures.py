"""What a simulated run comes to: waits, slowdown, use, and what the hold cost."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from streams.simulate.workload import MILLIS_PER_CORE
from streams.simulate.world import Run

SECOND_US = 1_000_000
BOUND_US = 10 * SECOND_US
"""Bounded slowdown takes no job for shorter than this, or a job of a second that waited a minute would count as sixty."""

DIGITS = 6

Figures = dict[str, float | int]
Range = dict[str, float | int]


def figures_of(run: Run) -> Figures:
    """The figures of one run, by name:

    * `mean_wait_min`, `longest_wait_h`: from arrival to the start of the run, over all jobs.
    * `bounded_slowdown`: the mean over all jobs of (wait + run) / max(run, 10 s), at least 1.
    * `utilisation`: busy core-seconds by the core-seconds of all machines from the first arrival to the last end.
    * `holds`, `hold_moves`: how often a worker was held, and how often a hold went to another worker.
    * `held_idle_core_s`, `held_idle_share`: the integral of what held workers kept free, and its share of all core-seconds.
    * `backfilled`: jobs that were placed on a held worker behind the job it was held for.
    * `large_mean_wait_min`, `large_longest_wait_h`: as above, over jobs of more than one core; 0 without any.
    * `jobs`, `makespan_h`.
    """
    jobs = run.workload.jobs
    waits_us = [started - job.arrival_us for job, started in zip(jobs, run.started_us, strict=True)]
    large_us = [wait for job, wait in zip(jobs, waits_us, strict=True) if job.large]
    makespan_us = max(run.ended_us) - min(job.arrival_us for job in jobs)
    all_millis_us = run.workload.cpu_millis * makespan_us
    busy_millis_us = sum(job.cpu_millis * job.run_us for job in jobs)
    slowdowns = (
        max(1.0, (wait + job.run_us) / max(job.run_us, BOUND_US)) for job, wait in zip(jobs, waits_us, strict=True)
    )
    figures: Figures = {
        "mean_wait_min": sum(waits_us) / len(jobs) / SECOND_US / 60,
        "bounded_slowdown": fsum(slowdowns) / len(jobs),
        "longest_wait_h": max(waits_us) / SECOND_US / 3_600,
        "utilisation": busy_millis_us / all_millis_us if all_millis_us else 0.0,
        "holds": run.holds,
        "held_idle_core_s": run.held_idle_millis_us / MILLIS_PER_CORE / SECOND_US,
        "held_idle_share": run.held_idle_millis_us / all_millis_us if all_millis_us else 0.0,
        "hold_moves": run.moves,
        "backfilled": run.backfilled,
        "large_mean_wait_min": sum(large_us) / len(large_us) / SECOND_US / 60 if large_us else 0.0,
        "large_longest_wait_h": max(large_us, default=0) / SECOND_US / 3_600,
        "makespan_h": makespan_us / SECOND_US / 3_600,
        "jobs": len(jobs),
    }
    return {name: round(value, DIGITS) for name, value in figures.items()}


def ranges_of(runs: Sequence[Figures]) -> dict[str, Range]:
    """Median, lowest and highest of each figure over several runs. Raises ValueError when there is none."""
    if not runs:
        raise ValueError("no run, so no range")
    return {name: _range([figures[name] for figures in runs]) for name in runs[0]}


def _range(values: list[float | int]) -> Range:
    ordered = sorted(values)
    return {"median": median(ordered), "low": ordered[0], "high": ordered[-1]}


def median(ordered: Sequence[float | int]) -> float | int:
    """The middle of ascending values; of an even number of them the mean of the middle two."""
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return round((ordered[middle - 1] + ordered[middle]) / 2, DIGITS)
