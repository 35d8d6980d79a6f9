"""Verifying in a process of its own: another interpreter, with another hash seed, and memory that is given back when it ends."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from typing import Final

from streams.log import Log
from streams.snapshots.errors import NotVerified
from streams.supervisor import HEADWAY, die_with

CHECK_FAILED: Final = 3
"""The exit code of `headway snapshot verify` where it found something: that is reported or taken back already."""

NICE: Final = 10
"""Deciders go first: nobody waits for a verification."""


class VerifyingApart:
    """A `Verifier` that runs `headway snapshot verify` as a child, at a lower priority; it dies with this process.

    Args:
        environment: of the child, in full; it names the cluster.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)

    async def __call__(self, log: Log, shard: int, seq: int, by: str) -> None:
        """Verify and report. `log` is not used: the child connects by itself.

        Raises:
            NotVerified: it ended otherwise than with a verdict.
        """
        asked = ("snapshot", "verify", "--shard", str(shard), "--seq", str(seq), "--report-as", by)
        process = await asyncio.create_subprocess_exec(
            *HEADWAY,
            *asked,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            env=self._environment,
            preexec_fn=_gently(os.getpid()),
        )
        try:
            code = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if code not in (0, CHECK_FAILED):
            raise NotVerified(shard, seq, code)


def _gently(parent_pid: int) -> Callable[[], None]:
    dies = die_with(parent_pid) if sys.platform == "linux" else None

    def before_it_runs() -> None:
        os.nice(NICE)
        if dies is not None:
            dies()

    return before_it_runs
