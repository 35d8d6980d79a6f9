"""Facts on their way to the log: in the order they were put, sent again until the log has acknowledged them.

Sending again may double a fact whose acknowledgement was lost. That is safe for everything a worker says: a repeated connect,
acceptance or report is ignored by the decider, with a counted reason.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from events.facts import Fact
from streams.effects import record_of
from streams.errors import LogUnavailable, OutcomeUnknown
from streams.log import Log, Outgoing, Partition
from streams.log_lines import say

FIRST_BACK_OFF_S, LONGEST_BACK_OFF_S = 0.1, 5.0
AT_ONCE = 500
AT_ONCE_BYTES = 4 << 20
"""A full report is many records of some 200 KiB: sent all at once, it might not be through before the log's deadline."""

_log = logging.getLogger("headway.worker")


class Outbox:
    """The facts that this process still owes the log. `run` sends them; it belongs to one task."""

    def __init__(self, log: Log, partition: Partition) -> None:
        self._target = log
        self._partition = partition
        self._owed: deque[Outgoing] = deque()
        self._filled = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self.acknowledged = 0

    def put(self, fact: Fact) -> None:
        """Owe a fact. Raises InvalidFact: a worker never makes one, so nobody catches it."""
        self._owed.append(record_of(fact))
        self._empty.clear()
        self._filled.set()

    async def emptied(self) -> None:
        """Returns once everything put before is acknowledged."""
        await self._empty.wait()

    async def run(self) -> None:
        """Send for ever.

        Raises Refused, NoSuchTopic, NoSuchPartition: the log will never take a fact; going on would lose it.
        """
        back_off_s = FIRST_BACK_OFF_S
        while True:
            await self._filled.wait()
            batch = self._next_batch()
            try:
                await self._target.publish(self._partition, batch)
            except (OutcomeUnknown, LogUnavailable) as error:
                say(_log, logging.WARNING, "facts wait for the log", owed=len(self._owed), error=str(error))
                await asyncio.sleep(back_off_s)
                back_off_s = min(2 * back_off_s, LONGEST_BACK_OFF_S)
                continue
            back_off_s = FIRST_BACK_OFF_S
            for _ in batch:
                self._owed.popleft()
            self.acknowledged += len(batch)
            if not self._owed:
                self._filled.clear()
                self._empty.set()

    def _next_batch(self) -> list[Outgoing]:
        batch: list[Outgoing] = []
        size_bytes = 0
        for number in range(min(AT_ONCE, len(self._owed))):
            record = self._owed[number]
            size_bytes += len(record.value)
            if batch and size_bytes > AT_ONCE_BYTES:
                break
            batch.append(record)
        return batch
