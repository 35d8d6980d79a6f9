"""How much memory is free on this machine, and how much each process group uses, in KiB."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")
PROC = Path("/proc")
SAMPLE_S = 0.25
"""How often a run whose memory is limited is looked at."""

_GROUP_FIELD, _RESIDENT_FIELD = 2, 21  # of /proc/<pid>/stat (proc(5)), counted from the field behind the name


def available_kib(meminfo: Path = MEMINFO, cgroup: Path = CGROUP) -> int | None:
    """What new work can use without swapping: the kernel's MemAvailable, or less where a control group (v2) allows less.

    None where the machine does not say (not Linux).
    """
    try:
        lines = meminfo.read_text().splitlines()
    except OSError:
        return None
    available = next((int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), None)
    if available is None:
        return None
    left = _left_in_group_kib(cgroup)
    return available if left is None else min(available, left)


def _left_in_group_kib(cgroup: Path) -> int | None:
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        used = int((cgroup / "memory.current").read_text())
        reclaimable = _inactive_file_bytes(cgroup)
    except (OSError, ValueError):
        return None  # no limit is set for this process, or the machine has no such groups
    return None if limit == "max" else max(0, int(limit) - used + reclaimable) // 1024


def _inactive_file_bytes(cgroup: Path) -> int:
    """Cached file pages that the kernel gives up first; they count as used, but are there for the asking."""
    for line in (cgroup / "memory.stat").read_text().splitlines():
        if line.startswith("inactive_file "):
            return int(line.split()[1])
    return 0


class GroupMemory:
    """What process groups use, from one look at /proc that all runs of a worker share: a look costs a system call or three a process.

    Args:
        proc: where the machine shows its processes (Linux).
        fresh_s: how old a look may be that is used again.
        monotonic_s: a clock that never goes back.
    """

    def __init__(
        self, proc: Path = PROC, *, fresh_s: float = 0.8 * SAMPLE_S, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._proc = proc
        self._fresh_s = fresh_s
        self._monotonic_s = monotonic_s
        self._page_kib = os.sysconf("SC_PAGE_SIZE") // 1024
        self._lock = threading.Lock()
        self._looked_at_s = float("-inf")
        self._groups: dict[int, dict[int, int]] = {}

    @staticmethod
    def is_possible(proc: Path = PROC) -> bool:
        """Whether this machine shows what its processes use."""
        return (proc / "self" / "stat").exists()

    def resident_kib(self, group: int) -> int:
        """Resident memory of the group's processes, pages that several of them share counted once for each."""
        return sum(self._members(group).values())

    def proportional_kib(self, group: int) -> int:
        """As `resident_kib`, but a shared page counts once: read from the kernel's page tables, so it costs milliseconds.

        A process that does not let itself be looked into counts with its resident memory.
        """
        return sum(self._proportional(pid, resident_kib) for pid, resident_kib in self._members(group).items())

    def _members(self, group: int) -> dict[int, int]:
        with self._lock:
            now_s = self._monotonic_s()
            if now_s - self._looked_at_s >= self._fresh_s:
                self._groups = self._look()
                self._looked_at_s = now_s
            return self._groups.get(group, {})

    def _look(self) -> dict[int, dict[int, int]]:
        """Resident KiB by group and process."""
        groups: dict[int, dict[int, int]] = {}
        for name in os.listdir(self._proc):
            if not name.isdigit():
                continue
            try:
                stat = (self._proc / name / "stat").read_bytes()
            except OSError:
                continue  # it has ended since it was listed
            # The name stands in parentheses and may hold anything, parentheses included.
            fields = stat[stat.rindex(b")") + 1 :].split()
            groups.setdefault(int(fields[_GROUP_FIELD]), {})[int(name)] = int(fields[_RESIDENT_FIELD]) * self._page_kib
        return groups

    def _proportional(self, pid: int, resident_kib: int) -> int:
        try:
            with open(self._proc / str(pid) / "smaps_rollup", encoding="ascii", errors="replace") as lines:
                return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), resident_kib)
        except OSError:
            return resident_kib
