"""The plain EASY: by hand on small queues, and on the trace that papers print figures of."""

from pathlib import Path

import pytest

from streams.simulate.swf import load_swf
from tests.reference.easy import ReferenceJob, bounded_slowdown, easy_starts, mean_wait_min

KTH = Path(__file__).parents[1] / "fixtures" / "kth" / "KTH-SP2-1996-2.1-cln.swf.gz"


def starts(*jobs: tuple[int, int, int, int], processors: int = 10) -> list[int]:
    return easy_starts([ReferenceJob(*job) for job in jobs], processors)


def test_the_head_is_not_delayed_and_what_ends_before_its_turn_goes_first():
    #  6 of 10 run until 100; the head wants 8; 4 for 100 end just in time, 4 for 101 would not.
    assert starts((0, 100, 100, 6), (0, 50, 50, 8), (0, 100, 100, 4)) == [0, 100, 0]
    assert starts((0, 100, 100, 6), (0, 50, 50, 8), (0, 101, 101, 4)) == [0, 100, 150]


def test_what_the_head_leaves_free_at_its_turn_may_be_used_for_any_time():
    assert starts((0, 100, 100, 6), (0, 50, 50, 8), (0, 999, 999, 2)) == [0, 100, 0]
    assert starts((0, 100, 100, 6), (0, 50, 50, 8), (0, 999, 999, 2), (0, 999, 999, 1)) == [0, 100, 0, 150]


def test_a_run_beyond_its_estimate_is_expected_to_end_now():
    # The first should have ended at 10 and runs until 100; from 10 on nothing may go before the head.
    assert starts((0, 100, 10, 6), (0, 50, 50, 8), (5, 3, 3, 4), (20, 3, 3, 4)) == [0, 100, 5, 150]


def test_runs_that_end_sooner_than_estimated_bring_the_head_forward():
    assert starts((0, 30, 100, 6), (0, 50, 50, 8), (31, 5, 5, 2)) == [0, 30, 31]


@pytest.mark.parametrize("together", [True, False])
def test_on_the_kth_trace_it_comes_to_what_papers_print(together):
    """Tsafrir, Etsion and Feitelson print 114.2 minutes and 89.9."""
    jobs = [
        ReferenceJob(job.arrival_us // 10**6, job.run_us // 10**6, job.estimate_us // 10**6, job.processors)
        for job in load_swf(KTH).jobs
    ]
    started = easy_starts(jobs, 100, together=together)
    assert mean_wait_min(jobs, started) == pytest.approx(115.0, abs=0.05)
    assert bounded_slowdown(jobs, started) == pytest.approx(91.6, abs=0.05)
