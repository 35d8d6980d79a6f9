"""How the demonstration ends: the hold in five lines, and the one command that shows what another setting would have done.

The command needs the log after the broker is gone, so the log is exported; the directory stays behind and is named in the command.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from streams.cli.telling.hold import hold_in_five_lines
from streams.demo.scene import WITH, large
from streams.export.exporting import export
from streams.log import Log


async def leave_behind(log: Log) -> Path:
    """Export the log of shard 0 into a directory of its own among the temporary ones, and return that.

    Raises: as `streams.export.exporting.export`.
    """
    directory = Path(tempfile.mkdtemp(prefix="headway-export-of-the-demo-"))
    await export(log, directory, shards=[0], made_by="infra/demo")
    return directory


def closing_lines(stories: Sequence[dict[str, Any]], directory: Path) -> list[str]:
    """What is said last. `stories` are those of the holds for the large action; of several, the last is told."""
    what_if = f"headway what-if --file {directory} --instance {WITH} --operation {large(WITH)} --set hold=off"
    told = hold_in_five_lines(stories[-1]) if stories else ["No hold was made: nothing went past the large action."]
    return [
        "The hold, in five lines:",
        *(f"  {line}" for line in told),
        "",
        "What it would have waited without the hold, decided again from the log of this run:",
        f"  {what_if}",
    ]
