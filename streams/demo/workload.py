"""What the demonstration asks for: the tasks of a trace, compressed in time, and a few commands that really run.

Trace tasks go to simulated workers, which take the recorded duration (compressed by the same factor as the arrivals) and run nothing.
The commands ask for `runner=process`, which only the real worker declares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from events.config import DEFAULT_CONFIG, PropertyKind, SchedulerConfig
from events.facts import ActionQueued
from events.payloads import canonical_requirements, command_bytes
from streams.traces import TraceNode, TraceTask

RUNNER = "runner"
REAL_WORKER = "real-worker"
REAL_CORES = 2
REAL_MEMORY_KIB = 1 << 20
REAL_PREFIX = "command-"

CONFIG: SchedulerConfig = DEFAULT_CONFIG.model_copy(
    update={
        "supported_platform_properties": {
            "gpu_milli": PropertyKind.MINIMUM,
            "gpu_model": PropertyKind.EXACT,
            RUNNER: PropertyKind.EXACT,
        },
        # Long enough that everything is still answerable at the end.
        "retain_completed_for_s": 3_600,
    }
)
"""The configuration of the demonstration's instance."""


@dataclass(frozen=True, slots=True)
class Due:
    """A fact and when it is published, in microseconds after the start."""

    at_us: int
    fact: ActionQueued


def schedule(tasks: Sequence[TraceTask], *, instance: str, commands: int) -> list[Due]:
    """All facts in the order in which they are published.

    Args:
        tasks: already compressed.
        commands: how many real commands, evenly spread over the arrivals of the tasks.
    """
    span_us = max((task.arrival_us for task in tasks), default=0)
    due = [Due(task.arrival_us, _traced(task, instance)) for task in tasks]
    due += [Due(span_us * number // max(1, commands), _command(number, instance)) for number in range(commands)]
    return sorted(due, key=lambda item: item.at_us)


def _traced(task: TraceTask, instance: str) -> ActionQueued:
    return ActionQueued(
        instance=instance,
        client_operation_id=task.name,
        requirements=canonical_requirements(task.requirements()),
        expected_duration_us=task.duration_us,
        client_id="trace",
        mnemonic=task.qos,
        target_id=task.name,
    )


def _command(number: int, instance: str) -> ActionQueued:
    script = 'echo "$GREETING $NUMBER"; seq 1 20000 | cksum; sleep 0.1'
    return ActionQueued(
        instance=instance,
        client_operation_id=f"{REAL_PREFIX}{number}",
        requirements=canonical_requirements(
            [("cpu_millis", "500"), ("memory_kib", str(64 * 1024)), (RUNNER, "process")]
        ),
        client_id="commands",
        mnemonic="Shell",
        timeout_us=30_000_000,
        command=command_bytes(["sh", "-c", script], env=[("GREETING", "command"), ("NUMBER", str(number))]),
    )


def expected_output(number: int) -> bytes:
    """How the output of a command begins, when it ran with its own environment."""
    return f"command {number}\n".encode()


def worker_arguments(nodes: Sequence[TraceNode]) -> dict[str, list[str]]:
    """`headway worker run` arguments, one process for all machines of a kind, by the name of its first machine."""
    kinds: dict[tuple[object, ...], list[TraceNode]] = {}
    for node in nodes:
        kinds.setdefault((node.cpu_millis, node.memory_kib, node.gpu_milli, node.gpu_model), []).append(node)
    arguments = {}
    for alike in kinds.values():
        first = alike[0]
        options = ["worker", "run", "--simulate", "--name", first.name]
        options += ["--cores", f"{first.cpu_millis / 1000:g}", "--memory-kib", str(first.memory_kib)]
        if first.gpu_milli:
            options += ["--property", f"gpu_milli={first.gpu_milli}"]
        if first.gpu_model:
            options += ["--property", f"gpu_model={first.gpu_model}"]
        if len(alike) > 1:
            options += ["--count", str(len(alike))]
        arguments[first.name] = options
    arguments[REAL_WORKER] = [
        *("worker", "run", "--name", REAL_WORKER, "--cores", str(REAL_CORES)),
        *("--memory-kib", str(REAL_MEMORY_KIB), "--property", f"{RUNNER}=process"),
    ]
    return arguments
