"""Exported directories for tests: a drawn history in a log in memory, and the same as files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from streams.export import ExportWriter, Manifest
from streams.log import Log, Outgoing, Partition, Record
from streams.memory_log import MemoryLog
from streams.shard_map import write_shard_map
from streams.topics import EVENTS, topic_table
from tests.projections.histories import History

SMALL_BYTES = 4_000  # so that a short history has several segments


async def log_of(history: History, *, shards: int = 1, shard: int = 0, batch: int = 50) -> MemoryLog:
    """A log with the history's events in one shard, `batch` to a transaction: offsets have holes, as they have in Kafka."""
    log = MemoryLog(cluster_id="recorded")
    await log.ensure_topics(topic_table(shards))
    await write_shard_map(log, {"main": shard})
    writer = await log.open("decider")
    outgoing = [Outgoing(value) for value in history.values()]
    for start in range(0, len(outgoing), batch):
        await writer.append({(EVENTS, shard): outgoing[start : start + batch]})
    return log


async def write_directory(
    log: Log,
    directory: Path,
    records: Mapping[Partition, Sequence[Record]],
    *,
    spans: Mapping[Partition, tuple[int, int]] | None = None,
    segment_bytes: int = SMALL_BYTES,
) -> Manifest:
    """An export with exactly these records, whether they follow on each other or not."""
    topics = {name: (state.topic_id, state.partitions) for name, state in (await log.describe_topics()).items()}
    writer = ExportWriter(
        directory,
        cluster_id=await log.cluster_id(),
        topics=topics,
        shards={"main": 0},
        segment_bytes=segment_bytes,
    )
    for at, some in records.items():
        start, end = (spans or {}).get(at, (some[0].offset, some[-1].offset + 2) if some else (0, 0))
        writer.add(at, some)
        writer.cover(at, start, end)
    return writer.finish()
