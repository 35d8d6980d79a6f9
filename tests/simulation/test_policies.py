"""What the policies do: the core's backfill is EASY job by job, a hold halves a build farm's longest wait, the scene plays as told."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from events.config import AllocationStrategy
from streams.simulate.figures import Figures, figures_of, ranges_of
from streams.simulate.made import FARM_SMALL_MEAN_S, farm, scene
from streams.simulate.policies import Policy, configuration
from streams.simulate.shaking import shaken
from streams.simulate.study import compare_farm, figures_over, ratios_of, scene_row
from streams.simulate.swf import load_swf
from streams.simulate.workload import Workload, first_jobs, from_swf, uniform_machines
from streams.simulate.world import Run, World
from tests.reference.easy import ReferenceJob, easy_starts

KTH = Path(__file__).parents[1] / "fixtures" / "kth" / "KTH-SP2-1996-2.1-cln.swf.gz"
PROCESSORS = 100


@pytest.fixture(scope="module")
def kth() -> Workload:
    jobs, skipped = load_swf(KTH)
    return from_swf(KTH, jobs, skipped, uniform_machines(1, PROCESSORS))


def run(policy: Policy, workload: Workload, **values) -> Run:
    return World(workload, configuration(policy, **values)).run()


def reference_starts(workload: Workload) -> list[int]:
    jobs = [ReferenceJob(job.arrival_us, job.run_us, job.expected_us, job.cpu_millis // 1_000) for job in workload.jobs]
    return easy_starts(jobs, PROCESSORS, together=False)


def differing(workload: Workload, found: Run) -> list[tuple[str, int, int]]:
    """Jobs that the core starts at another moment than the reference: (name, reference, core)."""
    pairs = zip(workload.jobs, reference_starts(workload), found.started_us, strict=True)
    return [(job.name, plain, ours) for job, plain, ours in pairs if plain != ours]


def test_the_cores_backfill_is_easy_job_by_job(kth):
    # The first months, in which runs beyond their estimates decide what fits beside the head.
    workload = first_jobs(kth, 4_000)
    found = run(Policy.EASY, workload)
    assert found.backfilled > 1_000
    assert differing(workload, found) == []


@pytest.mark.parametrize("seed", range(3))
def test_it_is_easy_job_by_job_on_shaken_inputs(kth, seed):
    workload = shaken(first_jobs(kth, 1_500), f"policies:{seed}")
    assert differing(workload, run(Policy.EASY, workload)) == []


@pytest.mark.slow
def test_on_the_whole_kth_trace_it_comes_to_what_papers_print(kth):
    """Tsafrir, Etsion and Feitelson print a mean wait of 114.2 minutes and a bounded slowdown of 89.9."""
    found = run(Policy.EASY, kth)
    figures = figures_of(found)
    assert 114 <= figures["mean_wait_min"] <= 116
    assert 89 <= figures["bounded_slowdown"] <= 93
    assert figures["jobs"] == 28_475
    assert differing(kth, found) == []


def assert_farm_gains(found: dict[str, object]) -> None:
    assert found["longest_wait_ratio"] <= 0.5
    assert 0 < found["held_idle_share"] <= 0.01
    assert found["hold"]["holds"]["low"] > 0
    assert found["none"]["holds"]["high"] == 0


def test_a_hold_halves_the_longest_wait_of_a_small_farm_and_idles_little():
    """Half the farm for an hour: the same kinds of actions at the same load."""
    workloads = [farm(seed, workers=4, span_s=3_600) for seed in (1, 2, 3)]
    assert_farm_gains(compare_farm(workloads, 60, AllocationStrategy.LEAST_RECENTLY_USED))


@pytest.mark.slow
def test_a_hold_halves_the_longest_wait_of_the_farm_and_idles_little():
    assert_farm_gains(compare_farm([farm(s) for s in (1, 2, 3)], 60, AllocationStrategy.LEAST_RECENTLY_USED))


def by_hold(seeds: Iterable[int], past: int, **size: int) -> dict[str, float]:
    """The farm's figures under a hold by drain time, which has learnt from the seed `past`, by those under the hold by shortfall."""
    runs, history = [farm(seed, **size) for seed in seeds], farm(past, **size)
    held = ranges_of(figures_over(runs, configuration(Policy.HOLD)))
    drained = ranges_of(figures_over(runs, configuration(Policy.DRAIN_TIME), history=history))
    assert held["holds"]["low"] > 0
    assert drained["holds"]["low"] > 0
    return ratios_of(drained, held)


@pytest.mark.slow
def test_on_the_farm_a_hold_by_drain_time_makes_the_longest_wait_and_what_is_held_idle_much_shorter_than_by_shortfall():
    """Three of the ten seeds that `headway simulate farm` prints, for which the same bounds hold."""
    found = by_hold((1, 2, 3), past=0)
    assert 0 < found["longest_wait"] <= 0.7
    assert 0 < found["mean_wait"] <= 1
    assert 0 < found["held_idle"] <= 0.7


def test_a_hold_by_drain_time_keeps_less_of_a_small_farm_idle():
    found = by_hold((1, 2, 3), past=0, workers=4, span_s=3_600)
    assert found["held_idle"] < 0.8
    assert found["longest_wait"] < 1


def test_a_history_is_learnt_from_and_not_counted():
    """What runs before leaves durations in the log and nothing else: the same waits from any history, where nobody asks for durations."""
    workload, history = farm(1, workers=2, span_s=600), farm(2, workers=2, span_s=600)
    alone, after = (World(workload, configuration(Policy.HOLD, after_s=5), past).run() for past in (None, history))
    assert (alone.started_us, alone.holds, alone.held_us) == (after.started_us, after.holds, after.held_us)
    assert alone.holds > 0
    learnt = World(workload, configuration(Policy.DRAIN_TIME, after_s=5), history)
    learnt.run()
    small, large = (sum(job.large is size for job in history.jobs) for size in (False, True))
    counts = {len(steps) for _, steps in learnt.shard.instances["main"].durations.rows()}
    own = {size: sum(job.large is size for job in workload.jobs) for size in (False, True)}
    assert counts == {min(1_000, small + own[False]), large + own[True]}


@pytest.fixture(scope="module", params=range(1, 4))
def scenes(request) -> dict[str, dict[str, object]]:
    """The scene without a hold, packed, and with a hold, from one seed."""
    workload = scene(request.param)
    return {
        "without": scene_row(run(Policy.NONE, workload)),
        "best_fit": scene_row(run(Policy.NONE, workload, strategy=AllocationStrategy.BEST_FIT)),
        "hold": scene_row(run(Policy.HOLD, workload)),
    }


def test_without_a_hold_no_large_action_is_placed_while_the_stream_lasts(scenes):
    assert scenes["without"]["placed_in_stream"] == 0
    assert min(scenes["without"]["placed_at_min"]) >= 60


def test_with_a_hold_all_large_actions_are_placed_while_it_lasts(scenes):
    assert scenes["hold"]["placed_in_stream"] == scenes["hold"]["large"] == 4


def test_best_fit_places_each_of_them_later_than_the_hold(scenes):
    pairs = zip(scenes["best_fit"]["placed_at_min"], scenes["hold"]["placed_at_min"], strict=True)
    assert all(packed > held for packed, held in pairs)


def test_a_hold_costs_what_drains_and_no_more(scenes):
    """At most the action's size for as long as the longest run that was there: four holds of 8 cores for 90 s."""
    held: Figures = scenes["hold"]
    assert held["holds"] == 4
    assert 0 < held["held_idle_core_s"] <= 4 * 8 * 90


def test_without_a_hold_configured_nothing_is_held(kth):
    assert run(Policy.NONE, first_jobs(kth, 500)).holds == 0
    assert configuration(Policy.NONE, after_s=5).hold is None
    assert FARM_SMALL_MEAN_S < 60, "after_s lies above what an action usually waits"
