"""Where `headway explain` has its stories from: the history of the shard that the question is about."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from streams.cli.past import timeline_of
from streams.cli.source import opened
from streams.moments import Moment
from streams.settings import DEFAULT_INSTANCE, Settings
from streams.shard_map import read_shard_map
from streams.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Asked:
    """Of what and as of when a story is asked for: an instance, and a moment; None for each where it was not said."""

    instance: str | None = None
    at: Moment | None = None
    file: Path | None = None


@asynccontextmanager
async def history_for(settings: Settings, asked: Asked) -> AsyncIterator[Timeline]:
    """The history of the shard that carries the instance (none named: of the only shard, else of the default instance's): its timeline,
    brought up to the end of the log.

    Raises:
        NoBroker: without a directory, where no cluster is named and none runs.
        UnknownInstance: no shard carries it.
        BeginsLater: the directory has not the first events.
        StoreLocked: another process has the timeline open.
    """
    async with opened(settings, asked.file, client_id="headway-explain") as log:
        known = await read_shard_map(log)
        only = set(known.shards.values())
        shard = (
            only.pop()
            if asked.instance is None and len(only) == 1
            else known.shard_of(asked.instance or DEFAULT_INSTANCE)
        )
        async with timeline_of(settings, log, shard) as timeline:
            yield timeline
