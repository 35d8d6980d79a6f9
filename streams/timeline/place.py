"""Where timelines stand: below the home, one directory for each shard of each log. All of them may be deleted at any time.

<home>/timeline/<cluster id>/<topic prefix, or default>/shard-<shard>
<home>/timeline/exports/<digest of the directory's path>/shard-<shard>      of an exported directory, which is never written to
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from streams.export import ExportLog
from streams.export.manifest import MANIFEST
from streams.log import Log
from streams.settings import Settings
from streams.url_parts import url_part


class TimelinePlace(NamedTuple):
    """A directory, and what else tells that the log is the one that was indexed there (see `Timeline.open`)."""

    directory: Path
    log_state: str


async def timeline_place(settings: Settings, log: Log, shard: int) -> TimelinePlace:
    """Where the timeline of a shard of this log stands. Raises LogUnavailable."""
    below, of_shard = settings.home / "timeline", f"shard-{shard}"
    if isinstance(log, ExportLog):
        name = hashlib.blake2b(str(log.directory.resolve()).encode(), digest_size=12).hexdigest()
        return TimelinePlace(below / "exports" / name / of_shard, _state_of(log))
    cluster = url_part(await log.cluster_id())
    return TimelinePlace(below / cluster / (settings.topic_prefix or "default") / of_shard, "")


def _state_of(log: ExportLog) -> str:
    """Differs once a file of the export does: a segment's digest is checked only where it is read, and an index reads none of them."""
    digest = hashlib.sha256((log.directory / MANIFEST).read_bytes())
    for segment in log.manifest.segments:
        try:
            found = (log.directory / segment.file).stat()
            said = f"{segment.file} {found.st_size} {found.st_mtime_ns}"
        except OSError as error:
            said = f"{segment.file} {error.errno}"
        digest.update(said.encode())
    return " " + digest.hexdigest()
