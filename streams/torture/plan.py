"""Draws a torture from its seed: the actions, the cancels, the repeated facts, and who is killed when.

The same seed and numbers give the same plan. What follows from it does not repeat exactly: processes, broker and network have clocks of
their own. The durations are scaled so that the fleet is nearly full while actions arrive, however many there are.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import Final

from events.config import DEFAULT_CONFIG, PropertyKind, SchedulerConfig
from events.facts import ActionQueued, CancelRequested
from events.payloads import canonical_requirements, command_bytes
from streams.settings import DEFAULT_INSTANCE

INSTANCE: Final = DEFAULT_INSTANCE
MIB_KIB: Final = 1 << 10
GIB_KIB: Final = 1 << 20

SECONDS_PER_ACTION: Final = 0.03
SECONDS_PER_KILL: Final = 3.0
LOAD: Final = 0.9
"""Share of the fleet's processors that the actions would keep busy during the arrivals, if nothing were killed."""

HELD_SHARE: Final = 0.1
"""The last actions are published after the last kill, so that every kill hits a system at work."""

RUNNER: Final = "runner"
REAL_PREFIX: Final = "command-"
REAL_EVERY, CANCEL_EVERY, REPEAT_EVERY = 40, 40, 50
CANCEL_WITHIN_US: Final = 5_000_000

CONFIG: SchedulerConfig = DEFAULT_CONFIG.model_copy(
    update={
        "supported_platform_properties": {RUNNER: PropertyKind.EXACT},
        # No operation may be forgotten before it is judged, and a repeated fact must meet the operation it repeats.
        "retain_completed_for_s": 3_600,
    }
)
"""The configuration of the tortured instance."""


class Victim(Enum):
    """What is killed."""

    DECIDER = "decider"  # whichever leads
    STATE_TABLE = "state_table"
    WORKER = "worker"


WEIGHTS: Final = {Victim.DECIDER: 4, Victim.STATE_TABLE: 3, Victim.WORKER: 5}


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """One worker process: `count` endpoints of the same size; `real` runs commands, otherwise it simulates."""

    name: str
    cores: int
    memory_kib: int
    count: int
    max_inflight: int = 0
    real: bool = False

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The endpoints it connects as."""
        return (self.name,) if self.real else tuple(f"{self.name}-{number}" for number in range(self.count))

    def arguments(self) -> list[str]:
        """Of the `headway` command."""
        options = [
            "worker",
            "run",
            "--name",
            self.name,
            "--cores",
            str(self.cores),
            "--memory-kib",
            str(self.memory_kib),
        ]
        options += ["--max-inflight", str(self.max_inflight)]
        if self.real:
            return [*options, "--property", f"{RUNNER}=process"]
        return [*options, "--property", f"{RUNNER}=simulated", "--simulate", "--count", str(self.count)]


FLEET: Final = (
    WorkerProcess("small", cores=2, memory_kib=4 * GIB_KIB, count=4, max_inflight=5),
    WorkerProcess("medium", cores=4, memory_kib=8 * GIB_KIB, count=4),
    WorkerProcess("large", cores=8, memory_kib=32 * GIB_KIB, count=2),
    WorkerProcess("real", cores=2, memory_kib=GIB_KIB, count=1, real=True),
)
"""Every process holds several runs, so that its death loses some."""


@dataclass(frozen=True, slots=True)
class Kill:
    """One SIGKILL: when, in microseconds after the start, and of what; `process` names the worker process."""

    at_us: int
    victim: Victim
    process: str = ""


@dataclass(frozen=True, slots=True)
class Due:
    """A fact and when it is published, in microseconds after the start."""

    at_us: int
    fact: ActionQueued | CancelRequested


@dataclass(frozen=True, slots=True)
class Plan:
    """One torture.

    Args:
        names: the client operation ids, in the order of their actions.
        due: all facts by time; cancels and repeated actions among them.
        held_from_us: what is due from here on waits for the last kill.
        kills: by time; every kind at least once.
    """

    seed: int
    span_us: int
    names: tuple[str, ...]
    due: tuple[Due, ...]
    held_from_us: int
    kills: tuple[Kill, ...]

    def kills_by_victim(self) -> dict[str, int]:
        """How often each kind is killed."""
        counted = Counter(kill.victim for kill in self.kills)
        return {victim.value: counted[victim] for victim in Victim}


def draw_plan(seed: int, *, actions: int, kills: int) -> Plan:
    """The plan of a seed.

    Raises:
        ValueError: fewer kills than kinds of victims, or no action.
    """
    if kills < len(Victim):
        raise ValueError(f"{kills} kills cannot hit each of the {len(Victim)} kinds of victims")
    if actions < 1:
        raise ValueError(f"{actions} actions; there must be one at least")
    span_us = round(max(actions * SECONDS_PER_ACTION, kills * SECONDS_PER_KILL) * 1e6)
    # Streams of their own, so that another number of kills leaves the workload as it is.
    due = _workload(random.Random(f"{seed}/workload"), actions, span_us)
    names = tuple(dict.fromkeys(item.fact.client_operation_id for item in due))
    held_from_us = round(span_us * (1 - HELD_SHARE))
    drawn = _kills(random.Random(f"{seed}/kills"), kills, held_from_us)
    return Plan(seed, span_us, names, tuple(due), held_from_us, tuple(drawn))


def expected_output(name: str) -> bytes:
    """What a real command prints."""
    return f"{name} ran\n".encode()


def _kills(rng: random.Random, number: int, until_us: int) -> list[Kill]:
    victims = list(Victim)
    victims += rng.choices(list(WEIGHTS), weights=list(WEIGHTS.values()), k=number - len(victims))
    rng.shuffle(victims)
    times = sorted(rng.randrange(until_us // 20, until_us) for _ in victims)
    processes = [process.name for process in FLEET]
    return [
        Kill(at_us, victim, rng.choice(processes) if victim is Victim.WORKER else "")
        for at_us, victim in zip(times, victims, strict=True)
    ]


def _workload(rng: random.Random, actions: int, span_us: int) -> list[Due]:
    times = sorted(rng.randrange(span_us) for _ in range(actions))
    sizes = [_size(rng) for _ in times]
    shares = [min(4.0, max(0.05, rng.expovariate(1.0))) for _ in times]
    cores_us = LOAD * span_us * sum(process.cores * process.count for process in FLEET if not process.real)
    asked = sum(cpu_millis / 1_000 * share for (cpu_millis, _), share in zip(sizes, shares, strict=True))
    due: list[Due] = []
    for number, (at_us, size, share) in enumerate(zip(times, sizes, shares, strict=True)):
        if number % REAL_EVERY == 0:
            due.append(Due(at_us, _command(f"{REAL_PREFIX}{number}")))
            continue
        # No action takes longer than a quarter of the arrivals, or few of them would wait for one.
        duration_us = round(min(share * cores_us / asked, span_us / 4))
        fact = _simulated(f"action-{number}", *size, duration_us=duration_us, priority=rng.choice((0, 0, 0, 5)))
        due.append(Due(at_us, fact))
        if number % CANCEL_EVERY == 1:
            cancel = CancelRequested(INSTANCE, client_operation_id=fact.client_operation_id)
            due.append(Due(at_us + rng.randrange(1, CANCEL_WITHIN_US), cancel))
        if number % REPEAT_EVERY == 2:
            due.append(Due(at_us + rng.randrange(1, span_us // 4), fact))
    return sorted(due, key=lambda item: item.at_us)


def _size(rng: random.Random) -> tuple[int, int]:
    """Processors in thousandths and memory in KiB; the largest fit one process of the fleet only."""
    cpu_millis = rng.choices((250, 500, 1_000, 2_000, 3_000, 6_000), weights=(20, 30, 40, 20, 10, 1))[0]
    memory_kib = rng.choices(
        (64 * MIB_KIB, 512 * MIB_KIB, GIB_KIB, 2 * GIB_KIB, 6 * GIB_KIB), weights=(20, 30, 40, 20, 3)
    )[0]
    return cpu_millis, memory_kib


def _requirements(runner: str, cpu_millis: int, memory_kib: int) -> bytes:
    return canonical_requirements([(RUNNER, runner), ("cpu_millis", str(cpu_millis)), ("memory_kib", str(memory_kib))])


def _simulated(name: str, cpu_millis: int, memory_kib: int, *, duration_us: int, priority: int) -> ActionQueued:
    return ActionQueued(
        instance=INSTANCE,
        client_operation_id=name,
        requirements=_requirements("simulated", cpu_millis, memory_kib),
        priority=priority,
        expected_duration_us=duration_us,
        client_id="torture",
        mnemonic="Simulated",
    )


def _command(name: str) -> ActionQueued:
    return ActionQueued(
        instance=INSTANCE,
        client_operation_id=name,
        requirements=_requirements("process", 500, 64 * MIB_KIB),
        client_id="torture",
        mnemonic="Command",
        command=command_bytes(["sh", "-c", 'sleep 0.5; echo "$NAME ran"'], env=[("NAME", name)]),
    )
