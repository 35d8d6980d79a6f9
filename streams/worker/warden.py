"""A small process that outlives its worker by a moment, to leave nothing behind when the worker is killed.

The worker writes `+<group>` before a run's process group matters and `-<group>` once it is gone. At the end of input (the worker has
left, whichever way) the warden kills the groups that are left, then every process that has its working directory below the root
(Linux only: runs that moved to another process group, and one that was killed before it was told), and removes the root.

Run as a script with the standard library alone, so that it starts in milliseconds and stays small. It ignores the signals a terminal
sends to everything in it: it ends when its worker does, not before.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterable
from pathlib import Path


def watch(lines: Iterable[str], root: Path) -> None:
    """Follow what the worker says until it is gone, then clean up."""
    groups: dict[int, None] = {}
    for line in lines:
        group = int(line[1:])
        if line[0] == "+":
            groups[group] = None
        else:
            groups.pop(group, None)
    for group in groups:
        kill_group(group)
    for pid in processes_below(root):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue  # it has ended by itself since it was listed
    shutil.rmtree(root, ignore_errors=True)


def kill_group(group: int) -> None:
    """SIGKILL to a process group, if there still is one."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return
    except PermissionError:
        return  # only processes of another user are left in it, which a run made with a privilege the worker lacks


def processes_below(root: Path, proc: Path = Path("/proc")) -> list[int]:
    """Processes with a working directory in `root` or below; [] where the machine has no /proc."""
    own, found = os.getpid(), []
    names = os.listdir(proc) if proc.is_dir() else []
    for name in names:
        if not name.isdigit() or int(name) == own:
            continue
        try:
            directory = Path(os.readlink(proc / name / "cwd").removesuffix(" (deleted)"))
        except OSError:
            continue  # it has ended, or belongs to another user
        if directory == root or root in directory.parents:
            found.append(int(name))
    return sorted(found)


def main() -> None:
    """`python warden.py ROOT`, its input the worker's pipe."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    watch(sys.stdin, Path(sys.argv[1]).resolve())


if __name__ == "__main__":
    main()
