"""Where `headway explain` has its stories from: the history of the shard that the question is about, and the moment it is asked as of."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from projections.story.history import History
from streams.cli.main import NOT_FOUND, Failure
from streams.cli.past import timeline_of
from streams.cli.source import opened
from streams.moments import Moment
from streams.settings import DEFAULT_INSTANCE, Settings
from streams.shard_map import read_shard_map


@dataclass(frozen=True, slots=True)
class Asked:
    """Of what and as of when a story is asked for: an instance, and a moment; None for each where it was not said."""

    instance: str | None = None
    at: Moment | None = None
    file: Path | None = None


@asynccontextmanager
async def history_for(settings: Settings, asked: Asked) -> AsyncIterator[History]:
    """The history of the shard that carries the instance: its timeline, brought up to the end of the log.

    Raises:
        NoBroker: without a directory, where no cluster is named and none runs.
        UnknownInstance: no shard carries it.
        BeginsLater: the directory has not the first events.
        StoreLocked: another process has the timeline open.
    """
    async with opened(settings, asked.file, client_id="headway-explain") as log:
        shard = (await read_shard_map(log)).shard_of(asked.instance or DEFAULT_INSTANCE)
        async with timeline_of(settings, log, shard) as timeline:
            yield timeline


def moment_in(history: History, at: Moment | None) -> int | None:
    """The event that a moment stands for; None for no moment. Raises Failure when the history does not reach it or has not begun."""
    if at is None:
        return None
    seq = at.seq if at.seq is not None else history.seq_at(at.at_us or 0)
    if seq > history.last_seq:
        said = f"shard {history.shard} has no seq {seq}; its last event is {history.last_seq}"
    elif seq < 1:
        said = f"shard {history.shard} has no event at or before {at}"
    else:
        return seq
    raise Failure(said, code="not-found", exit_code=NOT_FOUND, remedy="`headway events tail` shows what there is")
