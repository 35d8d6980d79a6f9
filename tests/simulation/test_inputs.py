"""What is simulated: made workloads, shaken ones, and traces on machines."""

from pathlib import Path

import pytest

from streams.simulate.made import farm, scene
from streams.simulate.openb import load_folder
from streams.simulate.shaking import shaken, shakes
from streams.simulate.swf import SwfJob
from streams.simulate.workload import NothingToSimulate, Workload, core_job, from_openb, from_swf, uniform_machines
from streams.traces import UnreadableTrace

S = 1_000_000
OPENB = Path(__file__).parents[1] / "fixtures" / "openb"


def core_seconds(workload: Workload, large: bool) -> float:
    return sum(job.cpu_millis * job.run_us for job in workload.jobs if job.large is large) / 1_000 / S


def test_the_farm_asks_for_97_percent_of_its_cores_and_a_thirtieth_of_that_is_large():
    workloads = [farm(seed) for seed in range(3)]
    asked = sum(core_seconds(w, True) + core_seconds(w, False) for w in workloads) / 3
    assert asked / (128 * 3 * 3_600) == pytest.approx(0.97, abs=0.02)
    large = [job for w in workloads for job in w.jobs if job.large]
    assert len(large) == pytest.approx(3 * 90, abs=50)
    assert all(30 * S <= job.run_us <= 90 * S and job.cpu_millis == 8_000 for job in large)
    assert all(job.arrival_us < 3 * 3_600 * S for w in workloads for job in w.jobs)
    assert [machine.cpu_millis for machine in workloads[0].machines] == [16_000] * 8


def test_the_same_seed_makes_the_same_farm_and_another_one_another():
    assert farm(1, span_s=600) == farm(1, span_s=600)
    assert farm(1, span_s=600).jobs != farm(2, span_s=600).jobs
    with pytest.raises(ValueError, match=r"1 x 2 cores at load 0.97 are less than the 4.0 cores"):
        farm(1, workers=1, cores=2)


def test_the_scene_streams_all_cores_for_an_hour_and_queues_four_large_actions_a_minute_into_it():
    workload = scene(1)
    assert [job.arrival_us for job in workload.jobs if job.large] == [60 * S] * 4
    assert core_seconds(workload, False) == pytest.approx(32 * 3_600, rel=0.05)
    small = [job for job in workload.jobs if not job.large]
    assert small[-1].arrival_us > 3_590 * S


def test_jobs_are_in_order_of_arrival():
    for workload in (farm(1, span_s=600), scene(1), shaken(farm(1, span_s=600), "x")):
        arrivals = [job.arrival_us for job in workload.jobs]
        assert arrivals == sorted(arrivals)
        assert arrivals[0] >= 0


@pytest.mark.parametrize(("gap_s", "reach_s"), [(40, 20), (60, 30), (1_000, 30)])
def test_shaking_moves_arrivals_by_half_a_gap_or_30_s_and_run_times_by_five_percent(gap_s, reach_s):
    jobs = tuple(core_job(f"j{n}", n * gap_s * S, 1_000 * S, 1, 2_000 * S) for n in range(200))
    workload = Workload("w", jobs, uniform_machines(1, 4))
    moved = shaken(workload, "seed")
    before = {job.name: job for job in jobs}
    changed = 0
    for job in moved.jobs:
        # Its own move and the first one's.
        assert abs(job.arrival_us - before[job.name].arrival_us) <= 2 * reach_s * S
        assert 950 * S <= job.run_us <= 1_050 * S
        assert job.expected_us == pytest.approx(2 * job.run_us, abs=2)
        changed += job.run_us != 1_000 * S
    assert changed > 190
    assert moved.jobs[0].arrival_us == 0


def test_shakes_come_from_the_seed_and_more_of_them_begin_with_the_same():
    workload = farm(1, span_s=60)
    three, five = list(shakes(workload, 3, 7)), list(shakes(workload, 5, 7))
    assert five[:3] == three
    assert len({w.jobs for w in five}) == 5
    assert next(iter(shakes(workload, 1, 8))) != three[0]


def test_an_swf_job_larger_than_a_worker_is_refused_with_the_numbers_or_left_out():
    jobs = [SwfJob(1, 0, S, S, 4), SwfJob(2, 0, S, S, 9)]
    with pytest.raises(NothingToSimulate, match=r"1 of 2 jobs fit no machine.*asked for 9 processors, offered by 8"):
        from_swf(Path("t"), jobs, 0, uniform_machines(2, 8))
    kept = from_swf(Path("t"), jobs, 0, uniform_machines(2, 8), leave_out=True)
    assert (len(kept.jobs), kept.left_out) == (1, 1)
    with pytest.raises(NothingToSimulate, match="none of the 2 jobs fits"):
        from_swf(Path("t"), jobs, 0, uniform_machines(2, 3), leave_out=True)


def test_a_job_of_no_time_is_still_expected_to_take_some():
    """0 would tell the core that nobody knows."""
    (job,) = from_swf(Path("t"), [SwfJob(1, 0, 0, 0, 1)], 0, uniform_machines(1, 1)).jobs
    assert (job.run_us, job.expected_us) == (0, 1)


def test_an_openb_folder_brings_its_own_machines(tmp_path):
    tasks, nodes = load_folder(OPENB)
    workload = from_openb(OPENB, tasks, nodes)
    assert (len(workload.jobs), len(workload.machines)) == (700, 4)
    with pytest.raises(NothingToSimulate, match=r"2 of 700 jobs fit no machine.*gpu_milli=8000"):
        from_openb(OPENB, tasks, nodes[:3])
    assert from_openb(OPENB, tasks, nodes[:3], leave_out=True).left_out == 2
    (tmp_path / "pods.csv").write_text("")
    (tmp_path / "pods2.csv").write_text("")
    with pytest.raises(UnreadableTrace, match=r"exactly one \*pod\*.csv; here: pods.csv, pods2.csv"):
        load_folder(tmp_path)
