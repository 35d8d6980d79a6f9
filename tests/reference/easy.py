"""EASY backfilling, written plainly and on its own: what the core's backfill is held against, and the figures papers print.

One pool of processors. The queue is first come, first served; the head that does not fit gets the earliest moment at which it will, by
the estimates of what runs (a run beyond its estimate is expected to end now); a later job may start if it ends before that moment by its
own estimate, or fits into what the head leaves free then.
"""

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple


class ReferenceJob(NamedTuple):
    """Arrival, run time and estimate in one unit of time; processors."""

    arrival: int
    run: int
    estimate: int
    processors: int


def easy_starts(jobs: Sequence[ReferenceJob], processors: int, *, together: bool = True) -> list[int]:
    """When each job starts, in the order of `jobs`, which is by arrival.

    `together`: all that happens at one moment is seen before anything is placed, as simulators of papers do. Otherwise what is placed
    is looked at after each single event, ends before arrivals, as a scheduler that reads a log does.
    """
    starts = [-1] * len(jobs)
    events: list[tuple[int, int, int]] = [(job.arrival, 1, number) for number, job in enumerate(jobs)]
    events.sort()
    ends: list[tuple[int, int, int]] = []  # (end, serial, number)
    queue: list[int] = []
    running: dict[int, int] = {}  # number to expected end
    free = processors
    at = 0
    serial = 0
    while at < len(events) or ends:
        now = min(events[at][0] if at < len(events) else ends[0][0], ends[0][0] if ends else events[at][0])
        while True:
            if ends and ends[0][0] == now:
                number = heappop(ends)[2]
                del running[number]
                free += jobs[number].processors
            elif at < len(events) and events[at][0] == now:
                queue.append(events[at][2])
                at += 1
            else:
                break
            if not together or not ((ends and ends[0][0] == now) or (at < len(events) and events[at][0] == now)):
                for number in _placed(jobs, queue, running, free, now):
                    starts[number] = now
                    free -= jobs[number].processors
                    serial += 1
                    heappush(ends, (now + jobs[number].run, serial, number))
    return starts


def _placed(jobs: Sequence[ReferenceJob], queue: list[int], running: dict[int, int], free: int, now: int) -> list[int]:
    """What starts now; takes it from the queue and adds it to what runs."""
    placed = []
    while queue and jobs[queue[0]].processors <= free:
        placed.append(_start(jobs, queue, 0, running, now))
        free -= jobs[placed[-1]].processors
    if not queue or not free:
        return placed
    head = jobs[queue[0]].processors
    shadow, available = now, free
    for end, asked in sorted((max(end, now), jobs[number].processors) for number, end in running.items()):
        if available >= head and end > shadow:
            break
        shadow, available = end, available + asked
    extra = available - head
    at = 1
    while at < len(queue) and free:
        job = jobs[queue[at]]
        ends_before = now + job.estimate <= shadow
        if job.processors <= free and (ends_before or job.processors <= extra):
            placed.append(_start(jobs, queue, at, running, now))
            free -= job.processors
            if not ends_before:
                extra -= job.processors
        else:
            at += 1
    return placed


def _start(jobs: Sequence[ReferenceJob], queue: list[int], at: int, running: dict[int, int], now: int) -> int:
    number = queue.pop(at)
    running[number] = now + jobs[number].estimate
    return number


def mean_wait_min(jobs: Sequence[ReferenceJob], starts: Sequence[int]) -> float:
    """The mean wait in minutes; times in seconds."""
    return sum(start - job.arrival for job, start in zip(jobs, starts, strict=True)) / len(jobs) / 60


def bounded_slowdown(jobs: Sequence[ReferenceJob], starts: Sequence[int], bound: int = 10) -> float:
    """The mean over all jobs of (wait + run) / max(run, bound), at least 1; times in seconds."""
    slowdowns = (
        max(1.0, (start - job.arrival + job.run) / max(job.run, bound)) for job, start in zip(jobs, starts, strict=True)
    )
    return sum(slowdowns) / len(jobs)
