"""How much memory is free on this machine, in KiB."""

from __future__ import annotations

from pathlib import Path

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


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
