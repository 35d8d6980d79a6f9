"""The past of a shard for commands: its timeline, brought up to the end of the log with a bar, and what is to be said of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from streams.cli.output import note, progress
from streams.cli.source import check_foldable
from streams.log import Log, bounds
from streams.settings import Settings
from streams.timeline import Timeline
from streams.timeline.place import timeline_place
from streams.topics import EVENTS

WAIT_S: Final = 10.0
"""Another command that has the timeline open is waited for: most are done within a second."""

REBUILT: Final = {
    "other_log": "the index was of another log",
    "other_format": "the index was of another release",
    "damaged": "the index was damaged",
    "unreadable": "the index could not be read",
}


@asynccontextmanager
async def timeline_of(settings: Settings, log: Log, shard: int) -> AsyncIterator[Timeline]:
    """The timeline of a shard, up to the log's end of now; the first time, or after a rebuild, that takes some 30 s per million events.

    Raises:
        StoreLocked: another process has it open, for longer than one waits.
        BeginsLater, NotExported: a fold cannot start in this directory.
        LogUnavailable, NoSuchTopic, NoSuchPartition: as everywhere.
    """
    check_foldable(log, shard)
    place = await timeline_place(settings, log, shard)
    _, end = await bounds(log, (EVENTS, shard))
    with progress(f"indexing shard {shard}", end) as advance:
        timeline = await Timeline.open(
            log, shard, place.directory, progress=advance, wait_s=WAIT_S, log_state=place.log_state
        )
    try:
        if timeline.rebuilt:
            note(f"shard {shard}: {REBUILT.get(timeline.rebuilt, timeline.rebuilt)}; it is made anew from the log")
        if timeline.damage is not None:
            note(f"shard {shard} is known up to seq {timeline.last_seq} only: {timeline.damage}")
        yield timeline
    finally:
        timeline.close()
