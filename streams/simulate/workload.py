"""What a simulation runs: jobs with the moment they arrive and how long they take, and the machines that run them.

Everything is whole microseconds and the pools of the core (`cpu_millis`, `memory_kib`, ...), so that a simulated job is exactly what a
producer would queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from events.config import PropertyKind
from events.values import Properties
from streams.errors import StreamError
from streams.simulate.swf import SwfJob
from streams.traces import TraceNode, TraceTask

CPU = "cpu_millis"
MILLIS_PER_CORE = 1_000


class NothingToSimulate(StreamError):
    """What is to be simulated holds no job that these machines could run, or no machine."""

    code: ClassVar[str] = "nothing-to-simulate"
    runbook: ClassVar[str] = "Compare the largest job of the trace with the machines; the message has both numbers."


@dataclass(frozen=True, slots=True)
class Job:
    """One action: when it arrives after the first one, how long it runs, how long its producer expects it to (0: unknown)."""

    name: str
    arrival_us: int
    run_us: int
    expected_us: int
    requirements: Properties  # sorted by name
    cpu_millis: int

    @property
    def large(self) -> bool:
        """Whether it asks for more than one core."""
        return self.cpu_millis > MILLIS_PER_CORE


@dataclass(frozen=True, slots=True)
class Machine:
    """One worker."""

    name: str
    properties: Properties  # sorted by name
    cpu_millis: int


@dataclass(frozen=True, slots=True)
class Workload:
    """Jobs in order of arrival, machines in order of connecting, and the property kinds both are typed by.

    `skipped` are records of the source that are no jobs (no processors, or no run time); `left_out` are jobs that no machine could run.
    """

    name: str
    jobs: tuple[Job, ...]
    machines: tuple[Machine, ...]
    kinds: Mapping[str, PropertyKind] = field(default_factory=dict)
    skipped: int = 0
    left_out: int = 0

    @property
    def cpu_millis(self) -> int:
        """What all machines have together."""
        return sum(machine.cpu_millis for machine in self.machines)


@lru_cache(maxsize=4_096)
def _cores(millis: int) -> Properties:
    """One tuple for all that ask the same: a trace has many jobs and few sizes."""
    return ((CPU, str(millis)),)


def uniform_machines(workers: int, cores: int) -> tuple[Machine, ...]:
    """`workers` machines of `cores` cores each."""
    millis = cores * MILLIS_PER_CORE
    return tuple(Machine(f"worker-{number}", _cores(millis), millis) for number in range(workers))


def core_job(name: str, arrival_us: int, run_us: int, cores: int, expected_us: int) -> Job:
    """A job that asks for cores and nothing else. One that is expected to take no time takes a microsecond: 0 would be unknown."""
    millis = cores * MILLIS_PER_CORE
    return Job(name, arrival_us, run_us, max(expected_us, 1), _cores(millis), millis)


def from_swf(
    path: Path, jobs: Sequence[SwfJob], skipped: int, machines: tuple[Machine, ...], *, leave_out: bool = False
) -> Workload:
    """The jobs of an SWF file on uniform machines; each runs on one of them.

    Raises NothingToSimulate when a job asks for more processors than a machine has, unless such jobs are to be left out.
    """
    largest = max((machine.cpu_millis for machine in machines), default=0)
    fitting = [job for job in jobs if job.processors * MILLIS_PER_CORE <= largest]
    most = max(job.processors for job in jobs)
    _check_fit(
        path, len(jobs) - len(fitting), len(jobs), f"{most} processors", f"{largest // MILLIS_PER_CORE}", leave_out
    )
    made = tuple(
        core_job(f"job-{job.number}", job.arrival_us, job.run_us, job.processors, job.estimate_us) for job in fitting
    )
    return Workload(path.name, made, machines, {}, skipped, len(jobs) - len(fitting))


def from_openb(
    path: Path, tasks: Sequence[TraceTask], nodes: Sequence[TraceNode], *, leave_out: bool = False
) -> Workload:
    """The tasks of an openb trace on its own machines. A task expects to run as long as it did: the trace has no estimates.

    Raises NothingToSimulate when a task fits on none of the machines, unless such tasks are to be left out.
    """
    machines = tuple(Machine(node.name, node.properties(), node.cpu_millis) for node in nodes)
    shapes: dict[Properties, bool] = {}
    fitting = []
    largest = ""
    for task in tasks:
        asked = task.requirements()
        fits = shapes.get(asked)
        if fits is None:
            fits = shapes[asked] = any(node.could_run(task) for node in nodes)
        if fits:
            fitting.append(task)
        else:
            largest = largest or ", ".join(f"{name}={value}" for name, value in asked)
    _check_fit(path, len(tasks) - len(fitting), len(tasks), largest, f"{len(nodes)} machine(s)", leave_out)
    jobs = tuple(
        Job(
            task.name, task.arrival_us, task.duration_us, max(task.duration_us, 1), task.requirements(), task.cpu_millis
        )
        for task in fitting
    )
    kinds = {"gpu_milli": PropertyKind.MINIMUM, "gpu_model": PropertyKind.EXACT}
    return Workload(path.name, jobs, machines, kinds, 0, len(tasks) - len(fitting))


def first_jobs(workload: Workload, count: int) -> Workload:
    """The same workload cut to its first jobs."""
    return replace(workload, jobs=workload.jobs[:count])


def _check_fit(path: Path, unfit: int, jobs: int, asked: str, offered: str, leave_out: bool) -> None:
    if unfit == jobs:
        raise NothingToSimulate(
            f"{path}: none of the {jobs} jobs fits a machine: asked for {asked}, offered by {offered}",
            remedy="Simulate larger machines (--cores N) or, of an openb trace, more of them (--workers N)",
        )
    if unfit and not leave_out:
        raise NothingToSimulate(
            f"{path}: {unfit} of {jobs} jobs fit no machine and would wait for ever: asked for {asked}, offered by {offered}",
            remedy="Simulate larger machines (--cores N) or, of an openb trace, more of them (--workers N); "
            "or leave such jobs out (--leave-out-unfit)",
        )
