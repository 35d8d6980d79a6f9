"""Recorded workloads as typed rows: tasks that must fit on one machine, and the machines.

The format read here is that of the Alibaba GPU cluster trace of 2023 ("openb", github.com/alibaba/clusterdata,
cluster-trace-gpu-v2023). Columns used:

* tasks: `name`, `cpu_milli`, `memory_mib`, `num_gpu`, `gpu_milli` (per GPU), `gpu_spec`, `qos`, `creation_time` and
  `deletion_time` (seconds since the trace began). The duration is deletion minus creation: the trace has no end of the run.
* machines: `sn`, `cpu_milli`, `memory_mib`, `gpu` (how many), `model`.

GPUs become one pool per machine, `gpu_milli` = number of GPUs x 1000, and a task with GPUs asks for `num_gpu x gpu_milli` of it.
A task without GPUs does not ask, so it may run anywhere; a machine without GPUs does not declare the pool, so it never gets
a task with GPUs. How a task's share falls onto single GPUs is lost: two halves of different GPUs count as a whole one. A `gpu_spec` with
one model is the requirement `gpu_model` (kind exact); one with alternatives (`A|B`) is kept in the row but cannot be said in
requirements, so it is not asked for.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from events.values import Properties
from streams.errors import StreamError

SECOND_US = 1_000_000
KIB_PER_MIB = 1024
MILLI_PER_GPU = 1000

TASK_COLUMNS = (
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "qos",
    "creation_time",
    "deletion_time",
)
NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")


class UnreadableTrace(StreamError):
    """A trace file is missing, lacks a column, or holds a value that its column does not allow."""

    code: ClassVar[str] = "unreadable-trace"
    runbook: ClassVar[str] = (
        "Compare the file with the original named in the fixture's README; its sha256 stands there."
    )

    def __init__(self, path: Path, line: int, column: str, value: str, rule: str) -> None:
        self.path, self.line, self.column, self.value, self.rule = path, line, column, value, rule
        where = f"{path}:{line}" if line else str(path)
        said = f" column {column!r}: {value!r} is refused:" if column else ":"
        super().__init__(f"{where}{said} {rule}", remedy="Correct the file or take an unedited copy")


@dataclass(frozen=True, slots=True)
class TraceTask:
    """One task: when it arrives after the first one of the file, how long it runs, what it asks for."""

    name: str
    arrival_us: int
    duration_us: int
    cpu_millis: int
    memory_kib: int
    gpu_milli: int = 0  # all its GPUs together; 0: it asks for none
    gpu_models: tuple[str, ...] = ()  # any of these; empty: any model
    qos: str = ""

    def requirements(self) -> Properties:
        """What it asks of a worker, sorted by name."""
        pairs = [("cpu_millis", str(self.cpu_millis)), ("memory_kib", str(self.memory_kib))]
        if self.gpu_milli:
            pairs.append(("gpu_milli", str(self.gpu_milli)))
        if len(self.gpu_models) == 1:
            pairs.append(("gpu_model", self.gpu_models[0]))
        return tuple(sorted(pairs))


@dataclass(frozen=True, slots=True)
class TraceNode:
    """One machine and what it offers."""

    name: str
    cpu_millis: int
    memory_kib: int
    gpu_milli: int = 0
    gpu_model: str = ""

    def properties(self) -> Properties:
        """What a worker on it declares, sorted by name."""
        pairs = [("cpu_millis", str(self.cpu_millis)), ("memory_kib", str(self.memory_kib))]
        if self.gpu_milli:
            pairs.append(("gpu_milli", str(self.gpu_milli)))
        if self.gpu_model:
            pairs.append(("gpu_model", self.gpu_model))
        return tuple(sorted(pairs))

    def could_run(self, task: TraceTask) -> bool:
        """Whether the machine, empty, has room for the task."""
        return (
            self.cpu_millis >= task.cpu_millis
            and self.memory_kib >= task.memory_kib
            and self.gpu_milli >= task.gpu_milli
            and (len(task.gpu_models) != 1 or self.gpu_model == task.gpu_models[0])
        )


def load_openb(pods: Path, nodes: Path) -> tuple[list[TraceTask], list[TraceNode]]:
    """The tasks in order of arrival, the first one at 0, and the machines in the file's order.

    Raises UnreadableTrace with line, column, value and rule.
    """
    return load_tasks(pods), load_nodes(nodes)


def load_tasks(path: Path) -> list[TraceTask]:
    """The tasks of an openb pod list. Raises UnreadableTrace."""
    tasks = []
    for line, row in _rows(path, TASK_COLUMNS):
        created_s = _whole(path, line, row, "creation_time")
        deleted_s = _whole(path, line, row, "deletion_time")
        if deleted_s < created_s:
            raise UnreadableTrace(
                path, line, "deletion_time", str(deleted_s), f"it lies before creation_time {created_s}"
            )
        gpus = _whole(path, line, row, "num_gpu")
        tasks.append(
            TraceTask(
                name=row["name"],
                arrival_us=created_s * SECOND_US,
                duration_us=(deleted_s - created_s) * SECOND_US,
                cpu_millis=_whole(path, line, row, "cpu_milli"),
                memory_kib=_whole(path, line, row, "memory_mib") * KIB_PER_MIB,
                gpu_milli=gpus * _whole(path, line, row, "gpu_milli") if gpus else 0,
                gpu_models=tuple(model for model in row["gpu_spec"].split("|") if model),
                qos=row["qos"],
            )
        )
    if not tasks:
        raise UnreadableTrace(path, 0, "", "", "it holds no task")
    tasks.sort(key=lambda task: task.arrival_us)
    first_us = tasks[0].arrival_us
    return [replace(task, arrival_us=task.arrival_us - first_us) for task in tasks]


def load_nodes(path: Path) -> list[TraceNode]:
    """The machines of an openb node list. Raises UnreadableTrace."""
    return [
        TraceNode(
            name=row["sn"],
            cpu_millis=_whole(path, line, row, "cpu_milli"),
            memory_kib=_whole(path, line, row, "memory_mib") * KIB_PER_MIB,
            gpu_milli=_whole(path, line, row, "gpu") * MILLI_PER_GPU,
            gpu_model=row["model"],
        )
        for line, row in _rows(path, NODE_COLUMNS)
    ]


def compress(tasks: Sequence[TraceTask], span_us: int) -> list[TraceTask]:
    """The same tasks with all arrivals within `span_us`, durations shortened by the same factor (at least 1 ms each).

    Load and contention stay as recorded: both scale together. Raises ValueError when `span_us` is not positive.
    """
    if span_us <= 0:
        raise ValueError(f"the span to compress into must be positive, not {span_us} us")
    recorded_us = max((task.arrival_us for task in tasks), default=0)
    if recorded_us == 0:
        return list(tasks)
    return [
        replace(
            task,
            arrival_us=task.arrival_us * span_us // recorded_us,
            duration_us=max(1_000, task.duration_us * span_us // recorded_us),
        )
        for task in tasks
    ]


def _rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, Mapping[str, str]]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = [column for column in columns if column not in (reader.fieldnames or ())]
            if missing:
                raise UnreadableTrace(
                    path, 1, missing[0], "", f"the column is missing; needed are {', '.join(columns)}"
                )
            for row in reader:
                short = [column for column in columns if row[column] is None]
                if short:
                    raise UnreadableTrace(path, reader.line_num, short[0], "", "the line ends before this column")
                yield reader.line_num, row
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableTrace(path, 0, "", "", f"it cannot be read: {error}") from error


def _whole(path: Path, line: int, row: Mapping[str, str], column: str) -> int:
    text = row[column]
    if not (text.isascii() and text.isdigit()):
        raise UnreadableTrace(path, line, column, text, "a whole number of 0 or more is wanted")
    return int(text)
