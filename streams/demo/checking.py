"""Holds the state table of a stage against a replay of its log, with the command that operators use."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

from streams.cli.main import CHECK_FAILED, OK
from streams.demo.stage import Stage

CHECK_S = 120.0


async def table_equals_replay(stage: Stage, say: Callable[[str], None]) -> bool:
    """What `headway replay --check` says: 0 equal, 3 different. Raises RuntimeError when it could not compare."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "streams.cli.main", "replay", "--check", "-o", "json"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=stage.environment(),
    )
    try:
        async with asyncio.timeout(CHECK_S):
            output, errors = await process.communicate()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    if process.returncode not in (OK, CHECK_FAILED):
        raise RuntimeError(
            f"headway replay --check ended with {process.returncode}: {errors.decode(errors='replace').strip()}"
        )
    if process.returncode == CHECK_FAILED:
        say((output + errors).decode(errors="replace").strip())
    return process.returncode == OK
