"""The events of one shard for its edges: committed, in order, from the first one on, of the kinds that matter to them.

Reading from the first event at every start is what makes an edge a fold: it has no file of its own that could be lost, or differ from
the log. A start takes some ten seconds for every million events (80,000 a second measured, two cores), during which nothing is
answered and nothing is lost.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Container
from typing import Final

from events.events import Event
from streams.errors import LogUnavailable
from streams.event_tail import EventOrder
from streams.log import Follower, Log, Partition
from streams.log_lines import say
from streams.topics import EVENTS

MOST_RECORDS: Final = 5_000
_PROGRESS_S: Final = 5.0

_log = logging.getLogger("headway.edges")


class EventFollower:
    """Reads on from where it is; after an error of the log, `read` goes on behind the last event that it returned.

    `caught_up` is False until everything that was committed at the start has been returned.
    """

    def __init__(self, log: Log, shard: int, kinds: Container[type]) -> None:
        self._log = log
        self._partition: Partition = (EVENTS, shard)
        self._order = EventOrder(self._partition, kinds, from_first=True)
        self._next: int | None = None  # None: the beginning
        self._end: int | None = None  # of what was committed at the start
        self._follower: Follower | None = None
        self._said_s = time.monotonic()
        self.caught_up = False

    @property
    def seq(self) -> int:
        """Of the last event that was read."""
        return self._order.seq

    async def read(self, *, timeout_ms: int = 200) -> list[Event]:
        """The next wanted events, [] when none came in time.

        Raises:
            DamagedLog: a record that does not follow from the one before it, or that this build cannot read.
            LogUnavailable: no answer in time; call again.
        """
        try:
            return await self._read(timeout_ms)
        except LogUnavailable:
            await self.close()
            raise

    async def _read(self, timeout_ms: int) -> list[Event]:
        partition = self._partition
        if self._follower is None:
            self._follower = await self._log.follow({partition: self._next})
            if self._end is None:
                self._end = await self._follower.end_offset(partition)
        found = await self._follower.read(max_records=MOST_RECORDS, timeout_ms=timeout_ms)
        events: list[Event] = []
        for record in found.get(partition, ()):
            event = self._order.next(record)
            self._next = record.offset + 1
            if event is not None:
                events.append(event)
        if not self.caught_up and self._end is not None:
            self.caught_up = await self._follower.position(partition) >= self._end
            if time.monotonic() - self._said_s > _PROGRESS_S:
                self._said_s = time.monotonic()
                say(_log, logging.INFO, "reading the log", shard=partition[1], seq=self.seq, to_offset=self._end)
        return events

    async def close(self) -> None:
        """Stop reading; `read` would start again."""
        if self._follower is not None:
            follower, self._follower = self._follower, None
            await follower.close()
