"""Made workloads: a build farm's stream, and the scene that head-of-line holds were invented for. All drawn from a seed."""

from __future__ import annotations

import math
import random

from streams.simulate.workload import Job, Workload, core_job, uniform_machines

SECOND_US = 1_000_000

FARM_WORKERS, FARM_CORES = 8, 16
FARM_SPAN_S = 3 * 3_600
FARM_LOAD = 0.97
FARM_SMALL_MEAN_S, FARM_SMALL_SIGMA = 20.0, 1.0
FARM_LARGE_CORES, FARM_LARGE_EVERY_S = 8, 120.0
FARM_LARGE_S = (30.0, 90.0)

SCENE_WORKERS, SCENE_CORES = 2, 16
SCENE_STREAM_S = 3_600
SCENE_SMALL_S = (30.0, 90.0)
SCENE_LARGE, SCENE_LARGE_CORES = 4, 8
SCENE_LARGE_AT_S, SCENE_LARGE_RUN_S = 60, 300


def farm(
    seed: int,
    *,
    workers: int = FARM_WORKERS,
    cores: int = FARM_CORES,
    span_s: int = FARM_SPAN_S,
    load: float = FARM_LOAD,
) -> Workload:
    """A build farm: many actions of one core among a few of eight.

    Both kinds arrive as Poisson streams for `span_s`. One-core actions run lognormally, mean 20 s, sigma 1; eight-core ones arrive every
    120 s in the mean and run 30 to 90 s, evenly. One-core actions are so many that both together ask for `load` of all cores. Expected
    durations are the true ones.
    """
    rng = random.Random(f"farm:{seed}")
    large_load = FARM_LARGE_CORES * sum(FARM_LARGE_S) / 2 / FARM_LARGE_EVERY_S
    small_per_s = (load * workers * cores - large_load) / FARM_SMALL_MEAN_S
    if small_per_s <= 0:
        raise ValueError(
            f"{workers} x {cores} cores at load {load} are less than the {large_load} cores of the large actions"
        )
    mu = math.log(FARM_SMALL_MEAN_S) - FARM_SMALL_SIGMA**2 / 2
    jobs: list[Job] = []
    for number, arrival_us in enumerate(_poisson(rng, 1 / small_per_s, span_s)):
        run_us = _us(rng.lognormvariate(mu, FARM_SMALL_SIGMA))
        jobs.append(core_job(f"small-{number}", arrival_us, run_us, 1, run_us))
    for number, arrival_us in enumerate(_poisson(rng, FARM_LARGE_EVERY_S, span_s)):
        run_us = _us(rng.uniform(*FARM_LARGE_S))
        jobs.append(core_job(f"large-{number}", arrival_us, run_us, FARM_LARGE_CORES, run_us))
    return _workload(f"farm-{seed}", jobs, workers, cores)


def scene(seed: int) -> Workload:
    """Two workers of 16 cores full of one-core actions that stream for an hour, and four eight-core actions queued a minute into it.

    The stream asks for exactly all cores: it starts with a full fleet and a quarter more that waits, and one action arrives for each that
    ends in the mean (30 to 90 s, evenly). So every core that frees finds a one-core action that can use it.
    """
    rng = random.Random(f"scene:{seed}")
    all_cores = SCENE_WORKERS * SCENE_CORES
    every_us = _us(sum(SCENE_SMALL_S) / 2 / all_cores)
    arrivals_us = [0] * (all_cores * 5 // 4) + list(range(every_us, SCENE_STREAM_S * SECOND_US, every_us))
    jobs = []
    for number, arrival_us in enumerate(arrivals_us):
        run_us = _us(rng.uniform(*SCENE_SMALL_S))
        jobs.append(core_job(f"small-{number}", arrival_us, run_us, 1, run_us))
    run_us = SCENE_LARGE_RUN_S * SECOND_US
    for number in range(SCENE_LARGE):
        jobs.append(core_job(f"large-{number}", SCENE_LARGE_AT_S * SECOND_US, run_us, SCENE_LARGE_CORES, run_us))
    return _workload(f"scene-{seed}", jobs, SCENE_WORKERS, SCENE_CORES)


def _workload(name: str, jobs: list[Job], workers: int, cores: int) -> Workload:
    jobs.sort(key=lambda job: (job.arrival_us, job.large))
    return Workload(name, tuple(jobs), uniform_machines(workers, cores))


def _poisson(rng: random.Random, every_s: float, span_s: int) -> list[int]:
    arrivals_us = []
    at_s = rng.expovariate(1 / every_s)
    while at_s < span_s:
        arrivals_us.append(_us(at_s))
        at_s += rng.expovariate(1 / every_s)
    return arrivals_us


def _us(seconds: float) -> int:
    return max(1, round(seconds * SECOND_US))
