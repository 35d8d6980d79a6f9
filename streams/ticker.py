"""The ticker: time enters the log as `Tick` facts, so that timers fire when nothing else happens.

Every decider process runs one for each of its shards. The leader ticks every 500 ms; a standby only when it has seen no tick
for a second, which is how a shard whose leader died shows it even when nobody publishes a fact.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from events.codec import encode_fact
from events.facts import Tick
from streams.errors import StreamError
from streams.log import Log, Outgoing
from streams.log_lines import say
from streams.topics import FACTS

TICK: Final = encode_fact(Tick())
"""The value of a tick's record; a standby knows ticks by it without decoding every fact."""

INTERVAL_US: Final = 500_000
_LOOK_S: Final = 0.1  # how often it is asked whether a tick is due; bounds how late one is

_log = logging.getLogger("headway.ticker")


@dataclass(slots=True)
class Schedule:
    """When the next tick is due. Ticks that were missed are skipped: two at once say no more than one."""

    interval_us: int = INTERVAL_US
    _next_at_us: int = 0

    def due(self, now_us: int) -> bool:
        """Whether a tick is due; when it is, the next one is due one interval later."""
        if now_us < self._next_at_us:
            return False
        late_us = now_us - self._next_at_us
        self._next_at_us = now_us + self.interval_us - (late_us if late_us < self.interval_us else 0)
        return True


class Ticker:
    """Publishes the ticks of one shard.

    Args:
        wanted: asked with the monotonic time in microseconds whether this process has to tick now.
        published: told the same time after each tick that is in the log.
    """

    def __init__(
        self,
        log: Log,
        shard: int,
        *,
        wanted: Callable[[int], bool],
        published: Callable[[int], None],
        monotonic_us: Callable[[], int],
    ) -> None:
        self._log, self._shard = log, shard
        self._wanted, self._published, self._monotonic_us = wanted, published, monotonic_us
        self.ticks = 0
        self.failures = 0
        self._asked = asyncio.Event()

    def look(self) -> None:
        """Ask at once whether a tick is wanted."""
        self._asked.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Ticks until `stop`. A tick that cannot be published is counted and said once, and the next one is tried."""
        failing = False
        while not stop.is_set():
            now_us = self._monotonic_us()
            if self._wanted(now_us):
                try:
                    await self._log.publish((FACTS, self._shard), [Outgoing(TICK)])
                except StreamError as error:
                    # Not fatal: when the log is away nobody's time passes, and LogSilent makes up for the gap.
                    self.failures += 1
                    if not failing:
                        say(_log, logging.WARNING, "cannot tick", shard=self._shard, error=str(error))
                    failing = True
                else:
                    self.ticks += 1
                    self._published(now_us)
                    if failing:
                        say(_log, logging.INFO, "ticks again", shard=self._shard, failures=self.failures)
                    failing = False
            await pause(self._asked, _LOOK_S)
            self._asked.clear()


async def pause(stop: asyncio.Event, seconds: float) -> bool:
    """Waits until `stop` is set, at most `seconds`; returns whether it is."""
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return False
    return True
