"""The virtual world: what it tells the core, when jobs start, and what a hold keeps idle."""

import pytest

from events.config import AllocationStrategy
from events.reasons import HoldEnd
from events.state import Stage
from streams.simulate.figures import figures_of
from streams.simulate.made import farm
from streams.simulate.policies import Policy, configuration
from streams.simulate.workload import Job, Workload, core_job, uniform_machines
from streams.simulate.world import INSTANCE, Run, SimulationStuck, World

S = 1_000_000


def workload(*jobs: tuple[int, int, int], workers: int = 1, cores: int = 4) -> Workload:
    """Jobs as (arrival, run, cores) in seconds; expected to run as long as they do."""
    made = (core_job(f"j{n}", at * S, run * S, asked, run * S) for n, (at, run, asked) in enumerate(jobs))
    return Workload("w", tuple(made), uniform_machines(workers, cores))


def run(policy: Policy, load: Workload, after_s: int | None = None, **values) -> Run:
    return World(load, configuration(policy, after_s=after_s, **values)).run()


def starts_s(found: Run) -> list[float]:
    return [started / S for started in found.started_us]


OVERTAKEN = workload((0, 100, 2), (0, 50, 2), (10, 30, 4), (20, 60, 2), (40, 60, 2), (60, 60, 2), (95, 60, 1))
"""A job for all four cores, from 10 s on, that smaller ones overtake."""


def test_without_a_hold_whatever_fits_goes_first():
    assert starts_s(run(Policy.NONE, OVERTAKEN)) == [0, 0, 220, 50, 100, 110, 160]


def test_with_a_hold_one_may_overtake_and_then_the_worker_drains_to_the_large_job():
    found = run(Policy.HOLD, OVERTAKEN, after_s=0)
    # The job of 20 s overtakes at 50 s, which makes the hold; the worker is empty at 110 s.
    assert starts_s(found) == [0, 0, 110, 50, 140, 140, 200]
    assert (found.holds, found.hold_ends) == (1, {HoldEnd.PLACED: 1})
    # Two cores from 100 s to 110 s.
    assert found.held_us == 60 * S
    assert figures_of(found)["held_idle_core_s"] == 20.0


def test_a_hold_waits_as_long_as_it_is_told_to():
    # At 50 s the large job has waited for 40 s, at 100 s for 90 s.
    assert starts_s(run(Policy.HOLD, OVERTAKEN, after_s=41))[2] == 160
    assert starts_s(run(Policy.HOLD, OVERTAKEN, after_s=40))[2] == 110


def test_easy_reserves_at_once_and_backfills_what_ends_in_time():
    load = workload((0, 100, 2), (10, 30, 4), (20, 80, 2), (20, 81, 1), (30, 70, 1), (40, 10, 1))
    found = run(Policy.EASY, load)
    assert starts_s(found) == [0, 100, 20, 130, 130, 130]
    assert found.backfilled == 1
    found = run(Policy.EASY, workload((0, 100, 2), (10, 30, 4), (20, 81, 2), (20, 79, 1), (30, 70, 1)))
    assert starts_s(found) == [0, 100, 130, 20, 30]


def test_a_run_beyond_its_estimate_delays_the_head_and_stops_backfill():
    slow = Job("slow", 0, 100 * S, 10 * S, (("cpu_millis", "2000"),), 2_000)
    rest = workload((0, 100, 2), (5, 30, 4), (6, 4, 2), (20, 3, 2))
    found = run(Policy.EASY, Workload("w", (slow, *rest.jobs[1:]), rest.machines))
    assert starts_s(found) == [0, 100, 6, 130]


def test_of_one_moment_ends_come_before_arrivals():
    assert starts_s(run(Policy.NONE, workload((0, 50, 4), (50, 10, 4), (50, 10, 1)))) == [0, 50, 60]


def test_several_workers_are_taken_by_the_strategy():
    load = workload((0, 100, 1), (1, 100, 1), (2, 100, 1), workers=3)
    assert run(Policy.NONE, load).workers == ["worker-0", "worker-1", "worker-2"]
    newest = run(Policy.NONE, load, strategy=AllocationStrategy.MOST_RECENTLY_USED)
    assert newest.workers == ["worker-2"] * 3


def test_a_year_without_keepalives_loses_no_worker_and_what_finished_is_forgotten():
    year_s = 365 * 24 * 3_600
    world = World(
        workload(*((n * year_s // 2_000, 60, 1) for n in range(2_000)), workers=2), configuration(Policy.NONE)
    )
    found = world.run()
    assert max(found.started_us) > 0.99 * year_s * S
    instance = world.shard.instances[INSTANCE]
    assert len(instance.workers) == 2
    assert len(world.shard.operations) < 1_000
    assert all(operation.stage is Stage.FINISHED for operation in world.shard.operations.values())


def test_the_same_workload_runs_the_same_way():
    load = farm(3, span_s=300)
    for policy in Policy:
        assert run(policy, load) == run(policy, load)


def test_every_job_runs_once_for_as_long_as_it_takes_and_no_machine_beyond_its_cores():
    load = farm(4, span_s=300)
    for policy in Policy:
        found = run(policy, load, after_s=5)
        jobs = load.jobs
        assert [ended - started for started, ended in zip(found.started_us, found.ended_us, strict=True)] == [
            job.run_us for job in jobs
        ]
        for machine in load.machines:
            changes = []
            for number, job in enumerate(jobs):
                if found.workers[number] == machine.name:
                    changes.append((found.started_us[number], 1, job.cpu_millis))
                    changes.append((found.ended_us[number], 0, -job.cpu_millis))
            used = 0
            for _, _, change in sorted(changes):
                used += change
                assert used <= machine.cpu_millis
            assert used == 0


def test_a_job_that_nothing_can_run_ends_the_simulation_with_its_name():
    with pytest.raises(SimulationStuck, match=r"1 of 2 jobs were never placed.*the first is j1"):
        run(Policy.NONE, workload((0, 1, 1), (0, 1, 5)))
