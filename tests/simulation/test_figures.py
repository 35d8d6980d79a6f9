"""The figures of a run, by hand on a few jobs, and ranges over several."""

import pytest

from streams.simulate.figures import figures_of, ranges_of
from streams.simulate.workload import Workload, core_job, uniform_machines
from streams.simulate.world import Run

S = 1_000_000


def run_of(*jobs: tuple[int, int, int, int], workers: int = 1, cores: int = 4, **values) -> Run:
    """Jobs as (arrival, start, run, cores) in seconds."""
    made = tuple(core_job(f"j{n}", at * S, run * S, asked, run * S) for n, (at, _, run, asked) in enumerate(jobs))
    run = Run(
        Workload("w", made, uniform_machines(workers, cores)),
        [start * S for _, start, _, _ in jobs],
        [(start + took) * S for _, start, took, _ in jobs],
        ["worker-0"] * len(jobs),
    )
    for name, value in values.items():
        setattr(run, name, value)
    return run


def test_waits_are_from_arrival_to_start():
    figures = figures_of(run_of((0, 60, 10, 1), (100, 280, 10, 1)))
    assert figures["mean_wait_min"] == 2.0
    assert figures["longest_wait_h"] == 0.05


def test_bounded_slowdown_takes_no_job_for_shorter_than_ten_seconds_and_none_for_faster_than_it_ran():
    # (30+10)/10 = 4; (30+1)/10 = 3.1; no wait and 1 s: 0.1, so 1.
    assert figures_of(run_of((0, 30, 10, 1), (0, 30, 1, 1), (0, 0, 1, 1)))["bounded_slowdown"] == pytest.approx(2.7)


def test_utilisation_is_by_all_machines_from_the_first_arrival_to_the_last_end():
    figures = figures_of(run_of((0, 0, 10, 4), (0, 10, 10, 2), workers=2))
    assert figures["utilisation"] == pytest.approx(60 / (8 * 20))
    assert figures["makespan_h"] == pytest.approx(20 / 3_600, abs=1e-6)


def test_what_a_hold_kept_idle_is_in_core_seconds_and_as_a_share():
    figures = figures_of(run_of((0, 0, 100, 4), held_idle_millis_us=2_000 * 30 * S, holds=3, moves=1))
    assert (figures["held_idle_core_s"], figures["held_idle_share"]) == (60.0, 0.15)
    assert (figures["holds"], figures["hold_moves"]) == (3, 1)


def test_large_jobs_have_figures_of_their_own():
    figures = figures_of(run_of((0, 60, 10, 1), (0, 120, 10, 2), (0, 360, 10, 2)))
    assert (figures["large_mean_wait_min"], figures["large_longest_wait_h"]) == (4.0, 0.1)
    assert figures_of(run_of((0, 60, 10, 1)))["large_mean_wait_min"] == 0.0


def test_over_several_runs_each_figure_has_median_low_and_high():
    ranges = ranges_of([{"a": 3, "b": 1.5}, {"a": 1, "b": 0.5}, {"a": 9, "b": 2.5}, {"a": 2, "b": 3.5}])
    assert ranges == {"a": {"median": 2.5, "low": 1, "high": 9}, "b": {"median": 2.0, "low": 0.5, "high": 3.5}}
    assert ranges_of([{"a": 3}, {"a": 1}, {"a": 9}])["a"]["median"] == 3
    with pytest.raises(ValueError, match="no run"):
        ranges_of([])
