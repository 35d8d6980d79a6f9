"""Shaken inputs: the same workload with small random changes, since one run of one trace may say more about the trace than the policy.

Each arrival moves by up to half the mean gap between arrivals, at most 30 s, either way, and each run time changes by up to 5 %, either
way; what its producer expects changes by the same factor, so an estimate stays as good or bad as it was. All drawn from the seed, evenly.

At most 30 s, because in a recorded trace half the mean gap may be many minutes, which would tear apart what one person submitted at once:
without bursts every policy looks better than it is.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from streams.simulate.workload import Workload
from streams.traces import SECOND_US

RUN_PERMILLE = 50
MOST_MOVED_US = 30 * SECOND_US
_PARTS = 1_000_000


def shaken(workload: Workload, seed: str) -> Workload:
    """The workload, shaken as `seed` says; the first arrival is at 0 again."""
    rng = random.Random(seed)
    jobs = workload.jobs
    span_us = jobs[-1].arrival_us - jobs[0].arrival_us if jobs else 0
    reach_us = min(span_us // max(len(jobs) - 1, 1) // 2, MOST_MOVED_US)
    spread = RUN_PERMILLE * _PARTS // 1_000
    moved = []
    for job in jobs:
        arrival_us = job.arrival_us + rng.randint(-reach_us, reach_us)
        parts = rng.randint(_PARTS - spread, _PARTS + spread)
        moved.append(
            replace(
                job,
                arrival_us=arrival_us,
                run_us=job.run_us * parts // _PARTS,
                expected_us=max(job.expected_us * parts // _PARTS, 1),
            )
        )
    moved.sort(key=lambda job: job.arrival_us)
    first_us = moved[0].arrival_us if moved else 0
    return replace(workload, jobs=tuple(replace(job, arrival_us=job.arrival_us - first_us) for job in moved))


def shakes(workload: Workload, count: int, seed: int) -> Iterator[Workload]:
    """`count` shaken versions; the first ones are the same whatever the count."""
    for number in range(count):
        yield shaken(workload, f"shake:{seed}:{number}")
