"""What a figure depends on: the machine, its load, and how fast this Python adds on it."""

from __future__ import annotations

import os
import platform
import sysconfig
from importlib import metadata
from pathlib import Path
from time import thread_time_ns
from typing import Any, Final

import psutil

ADDITIONS: Final = 200_000
REPETITIONS: Final = 9


def machine() -> dict[str, Any]:
    """Processors, memory, Python and its build, system, release of Headway, load before the measurement, and `addition_ns`.

    `load` are the means of runnable processes over 1, 5 and 15 minutes. `addition_ns` is the processor time of one step of a plain loop
    that adds: 28 ns on an undisturbed core of the kind that the recorded figures were taken on. Where it is twice that, so is every figure.
    """
    return {
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "cpu": _cpu_model(),
        "memory_mib": psutil.virtual_memory().total >> 20,
        "python": platform.python_version(),
        "python_build": f"{platform.python_compiler()}, {'with' if _profiled() else 'without'} PGO",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "headway": metadata.version("headway"),
        "load": [round(mean, 2) for mean in os.getloadavg()],
        "addition_ns": round(addition_ns(), 1),
    }


def addition_ns() -> float:
    """Processor time of one step of a loop that adds, the least of a few repetitions."""
    least_ns = float("inf")
    for _ in range(REPETITIONS):
        begun_ns, total = thread_time_ns(), 0
        for number in range(ADDITIONS):
            total += number
        least_ns = min(least_ns, (thread_time_ns() - begun_ns) / ADDITIONS)
    return least_ns


def _profiled() -> bool:
    """Whether this interpreter was built with profile-guided optimisation: it is up to a third faster."""
    return "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()
