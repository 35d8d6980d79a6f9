"""The past for the views: timelines of a read side's shards, opened when they are first asked for, and brought up to date as needed.

What is slow is done in one thread of its own, so the agents and the views of the present go on. A first request about a long log starts
the index and is told how far it is; it is asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Protocol, TypeVar

from projections.story.history import History
from projections.table import Table
from streams.answering import Answer, Refused
from streams.errors import StreamError
from streams.log import Log
from streams.moments import Moment, NoSuchMoment
from streams.timeline import Timeline

WAIT_S: Final = 3.0
"""A request waits so long for an index that is being made, then is told to come again."""

Result = TypeVar("Result")


class Past(Protocol):
    """Who answers about the past."""

    async def answered(self, shards: Sequence[int], moment: Moment, view: Callable[[list[Table]], Answer]) -> Answer:
        """What `view` makes of the rows of these shards as of a moment, with `as_of`: the event and time of each that it is from.

        Raises Refused: the log does not reach that far, does not answer, or is not indexed yet.
        """
        ...

    async def told(self, shard: int, moment: Moment | None, story: Callable[[History, int], Answer]) -> Answer:
        """What `story` makes of the history of a shard and the event that a moment stands for; None: the log's last one of now.

        Raises Refused as `answered` does.
        """
        ...


class TimeTravel:
    """Implements `Past` over a log. One request at a time; `close` frees the directories.

    Args:
        log: where the events are.
        directory: one directory for each shard is made in it.
    """

    def __init__(self, log: Log, directory: Path) -> None:
        self._log = log
        self._directory = directory
        self._timelines: dict[int, Timeline] = {}
        self._readings: dict[int, asyncio.Task[None]] = {}
        self._indexed: dict[int, int] = {}  # events, by those readings
        self._turn = asyncio.Lock()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="headway-past")

    async def answered(self, shards: Sequence[int], moment: Moment, view: Callable[[list[Table]], Answer]) -> Answer:
        """See `Past.answered`."""
        async with self._turn:
            try:
                timelines = [await self._reaching(shard, moment) for shard in shards]
                return await self._in_thread(lambda: _answered(timelines, moment, view))
            except StreamError as error:
                self._let_go(shards)  # opened anew next time: what is damaged is then made again
                raise Refused(503, error.code, error.message, error.remedy) from error

    async def told(self, shard: int, moment: Moment | None, story: Callable[[History, int], Answer]) -> Answer:
        """See `Past.told`."""
        async with self._turn:
            try:
                timeline = await self._reaching(shard, moment)
                return await self._in_thread(lambda: _told(timeline, moment, story))
            except StreamError as error:
                self._let_go([shard])
                raise Refused(503, error.code, error.message, error.remedy) from error

    async def close(self) -> None:
        """End what is being read and free the directories. May be called twice."""
        readings = list(self._readings.values())
        for reading in readings:
            reading.cancel()
        if readings:
            await asyncio.wait(readings)
        async with self._turn:
            self._thread.shutdown(wait=True)
            for timeline in self._timelines.values():
                timeline.close()
            self._timelines.clear()

    def _let_go(self, shards: Sequence[int]) -> None:
        for shard in shards:
            timeline = self._timelines.pop(shard, None)
            if timeline is not None:
                timeline.close()

    async def _reaching(self, shard: int, moment: Moment | None) -> Timeline:
        """The timeline of a shard, gone on to the log's end of now if the moment lies behind what it knows or is now. Raises Refused."""
        reading = self._readings.get(shard)
        if reading is None:
            timeline = self._timelines.get(shard)
            if timeline is not None and moment and await self._in_thread(lambda: _reaches(timeline, moment)):
                return timeline
            self._indexed[shard] = 0
            reading = self._readings[shard] = asyncio.create_task(self._read(shard))
        await asyncio.wait({reading}, timeout=WAIT_S)
        if not reading.done():
            raise Refused(
                503,
                "not-ready",
                f"the past of shard {shard} is being indexed; {self._indexed[shard]} events are since this began",
                "Ask again: it goes on meanwhile, at some ten thousand events a second, and is kept",
            )
        del self._readings[shard]
        await reading
        return self._timelines[shard]

    async def _read(self, shard: int) -> None:
        def count(events: int) -> None:
            self._indexed[shard] += events

        timeline = self._timelines.get(shard)
        if timeline is not None:
            await timeline.update(count)
            return
        self._timelines[shard] = await Timeline.open(
            self._log, shard, self._directory / f"shard-{shard}", progress=count, executor=self._thread
        )

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _reaches(timeline: Timeline, moment: Moment) -> bool:
    if moment.at_us is None:
        return (moment.seq or 0) <= timeline.last_seq
    return timeline.seq_at(moment.at_us) < timeline.last_seq


def _told(timeline: Timeline, moment: Moment | None, story: Callable[[History, int], Answer]) -> Answer:
    try:
        seq = timeline.last_seq if moment is None else timeline.seq_of(moment)
    except NoSuchMoment as error:
        raise Refused(404, error.code, error.message, error.remedy) from error
    return story(timeline, seq)


def _answered(timelines: Sequence[Timeline], moment: Moment, view: Callable[[list[Table]], Answer]) -> Answer:
    try:
        tables = [timeline.table_at(timeline.seq_of(moment)) for timeline in timelines]
    except NoSuchMoment as error:
        raise Refused(404, error.code, error.message, error.remedy) from error
    as_of = [{"shard": table.number, "seq": table.shard.seq, "at_us": table.shard.now_us} for table in tables]
    return {**view(tables), "as_of": as_of}
