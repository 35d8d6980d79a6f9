"""Tells the log that clients still wait for their operations, so that nothing runs on for a client that is gone (C1).

Only an operation queued as attached is watched by the scheduler: when none of its clients was heard for longer than
`client_action_timeout_s`, it is abandoned. So `ClientHeard` is published while somebody waits, and `ClientGone` by who stops waiting.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from events.facts import ClientGone, ClientHeard, Fact
from streams.errors import StreamError
from streams.log_lines import say

HEARD_EVERY_S: Final = 10.0
REMEMBERED: Final = 100_000

_log = logging.getLogger("headway.client")

Name = tuple[str, str]  # instance, client_operation_id


class Attendance:
    """The attached operations of one process, and which of them somebody waits for. For one event loop.

    Args:
        put: publishes facts in the background: the future of the last one.
        every_s: how often a client that waits is heard.
    """

    def __init__(
        self, put: Callable[[list[Fact]], list[asyncio.Future[int]]], *, every_s: float = HEARD_EVERY_S
    ) -> None:
        if every_s <= 0:
            raise ValueError(f"every_s is {every_s}; it must be above 0")
        self._put = put
        self._every_s = every_s
        self._heard_at_s: OrderedDict[Name, float] = (
            OrderedDict()
        )  # of attached operations, when the log last heard of them
        self._waiting: dict[Name, int] = {}  # to how many wait
        self._beating: asyncio.Task[None] | None = None

    def note_queued(self, instance: str, client_operation_id: str) -> None:
        """An operation is queued as attached: the log has heard of its client."""
        self._note_heard((instance, client_operation_id))

    def is_attached(self, instance: str, client_operation_id: str) -> bool:
        """Whether this process queued it as attached and has not seen it end; of the last REMEMBERED ones."""
        return (instance, client_operation_id) in self._heard_at_s

    def begin(self, instance: str, client_operation_id: str) -> None:
        """Somebody waits: the client is heard, at once where it was not within the interval, then in every interval."""
        name = (instance, client_operation_id)
        self._waiting[name] = self._waiting.get(name, 0) + 1
        if time.monotonic() - self._heard_at_s.get(name, float("-inf")) >= self._every_s:
            self._hear([name])
        if self._beating is None or self._beating.done():
            self._beating = asyncio.create_task(self._beat())

    def end(self, instance: str, client_operation_id: str, *, ended: bool = False, left: bool = False) -> None:
        """One who waited does not any more: the operation `ended`, or the client `left` it.

        Neither: the time to wait was up. The client may wait again, and counts as heard until the timeout.
        """
        name = (instance, client_operation_id)
        remaining = self._waiting.get(name, 0) - 1
        if remaining > 0:
            self._waiting[name] = remaining
        elif self._waiting.pop(name, None) is not None and left:
            self._send([ClientGone(*name)])
        if ended or (left and remaining <= 0):
            self._heard_at_s.pop(name, None)

    async def close(self) -> None:
        """Stop; who still waits has left."""
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.wait([self._beating])
        left = list(self._waiting)
        self._waiting.clear()
        if left:
            self._send([ClientGone(*name) for name in left])

    async def _beat(self) -> None:
        """While anybody waits. Whoever is nearly due is heard too, so that a thousand that wait cost a batch or two an interval."""
        look_s = self._every_s / 10
        while self._waiting:
            heard_before_s = time.monotonic() - self._every_s + look_s
            self._hear([name for name in self._waiting if self._heard_at_s.get(name, 0.0) <= heard_before_s])
            await asyncio.sleep(look_s)

    def _hear(self, names: list[Name]) -> None:
        for name in names:
            self._note_heard(name)
        if names:
            self._send([ClientHeard(*name) for name in names])

    def _note_heard(self, name: Name) -> None:
        self._heard_at_s[name] = time.monotonic()
        self._heard_at_s.move_to_end(name)
        if len(self._heard_at_s) > REMEMBERED:
            self._heard_at_s.popitem(last=False)

    def _send(self, facts: list[Fact]) -> None:
        for future in self._put(facts):
            future.add_done_callback(_say_failure)


def _say_failure(future: asyncio.Future[int]) -> None:
    """A keepalive that did not reach the log: the next one will, or the scheduler gives the client up, as it should."""
    if future.cancelled():
        return
    error = future.exception()
    if error is not None:
        said = str(error) if isinstance(error, StreamError) else f"{type(error).__name__}: {error}"
        say(_log, logging.WARNING, "a client's keepalive did not reach the log", error=said)
