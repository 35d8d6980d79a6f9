"""Where a command that reads takes its log from: an exported directory that `--file` names, else the cluster of the settings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from streams.cli.reading import file_option
from streams.connection import connected
from streams.errors import NoSuchTopic
from streams.export import ExportLog
from streams.log import Log
from streams.settings import Settings
from streams.topics import EVENTS

__all__ = ["check_foldable", "file_option", "opened", "shards_in"]


@asynccontextmanager
async def opened(
    settings: Settings, file: Path | None, *, client_id: str = "headway", read_damaged: bool = False
) -> AsyncIterator[Log]:
    """The log that a command reads, closed at the end.

    Args:
        file: an exported directory; None connects to the cluster of the settings.
        read_damaged: read on where a segment of the directory is damaged; the log (an `ExportLog`) then has them in `damage`.
    Raises:
        NotAnExport: the directory holds none.
        NoBroker: without `file`, where no cluster is named and none runs.
    """
    if file is None:
        async with connected(settings, client_id=client_id) as cluster:
            yield cluster
        return
    log = ExportLog(file, read_damaged=read_damaged)
    try:
        yield log
    finally:
        await log.close()


async def shards_in(log: Log) -> tuple[int, ...]:
    """The shards whose events a log has: every one of a cluster, those that were exported of a directory.

    Raises NoSuchTopic when the topics were never made.
    """
    if isinstance(log, ExportLog):
        return log.shards
    topics = await log.describe_topics()
    if EVENTS not in topics:
        raise NoSuchTopic(EVENTS, topics)
    return tuple(range(topics[EVENTS].partitions))


def check_foldable(log: Log, shard: int) -> None:
    """Whether a fold of a shard can start in this log. Raises BeginsLater, NotExported of a directory where it cannot."""
    if isinstance(log, ExportLog):
        log.check_foldable(shard)
