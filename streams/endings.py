"""How operations end, read from one shard's placements and dead letters for whoever waits for one."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping
from typing import ClassVar, Final, NamedTuple

from events.reasons import Outcome, PlacementEnd, RejectReason, sentence
from streams.errors import LogUnavailable, StreamError
from streams.log import Log, Partition, Record
from streams.log_lines import say
from streams.placements import PlacementEnded, placement_message, placement_of
from streams.topics import PLACEMENTS

REMEMBERED: Final = 100_000
FOLLOW_AGAIN_S: Final = 0.5

_log = logging.getLogger("headway.client")

_Name = tuple[str, str]  # instance, client_operation_id


class Finished(NamedTuple):
    """How an operation ended. `exit_code` is the action's own where `outcome` is COMPLETED or COMPLETED_FROM_CACHE."""

    client_operation_id: str
    operation_id: int
    outcome: Outcome
    exit_code: int
    message: str
    endpoint: str  # the worker of its last run; empty: it never had one
    ended_at_us: int

    @property
    def succeeded(self) -> bool:
        """Whether it ran to its end with exit code 0, now or when its result came into the action cache."""
        return self.outcome in (Outcome.COMPLETED, Outcome.COMPLETED_FROM_CACHE) and self.exit_code == 0


class StillWaiting(StreamError):
    """The operation had not ended when the time was up. It goes on."""

    code: ClassVar[str] = "still-waiting"
    runbook: ClassVar[str] = "Is it queued, or does it run? `headway operation show` says; is a decider running?"

    def __init__(self, client_operation_id: str, waited_s: float) -> None:
        self.client_operation_id, self.waited_s = client_operation_id, waited_s
        super().__init__(
            f"operation {client_operation_id!r} has not been seen to end within {waited_s:g} s",
            remedy="Wait again, look with `headway operation show`, or cancel it",
        )


class NotQueued(StreamError):
    """The decider refused the action: there is no such operation, and there will be none."""

    code: ClassVar[str] = "not-queued"
    runbook: ClassVar[str] = "The fact stands in the dead letters with the rule it breaks: correct its producer."

    def __init__(self, client_operation_id: str, reason: str, details: Mapping[str, str]) -> None:
        self.client_operation_id, self.reason, self.details = client_operation_id, reason, dict(details)
        known = RejectReason.__members__.get(reason)
        why = sentence(known) if known is not None else "A fact with this key is parked; an operator has to release it."
        said = ", ".join(f"{name} {text!r}" for name, text in details.items())
        super().__init__(
            f"action {client_operation_id!r} was not queued: {why}" + (f" ({said})" if said else ""),
            remedy="Correct the action and queue it again, under the same client_operation_id if you like",
        )


class Endings:
    """Follows one shard from given offsets on, from the first `wait` until `close`; keeps the last REMEMBERED endings."""

    def __init__(self, log: Log, shard: int, since: Mapping[Partition, int]) -> None:
        self._log = log
        self._shard = shard
        self._since = dict(since)
        self._ended: OrderedDict[_Name, Finished | NotQueued] = OrderedDict()
        self._waiters: dict[_Name, list[asyncio.Future[Finished]]] = {}
        self._following: asyncio.Task[None] | None = None

    def knows(self, instance: str, client_operation_id: str) -> bool:
        """Whether the operation was seen to end: `wait` then answers at once."""
        return (instance, client_operation_id) in self._ended

    async def wait(self, instance: str, client_operation_id: str, timeout_s: float | None) -> Finished:
        """See `FactPublisher.wait`."""
        name = (instance, client_operation_id)
        known = self._ended.get(name)
        if isinstance(known, Finished):
            return known
        if known is not None:
            raise known
        if self._following is None or self._following.done():
            self._following = asyncio.create_task(self._follow())
        future: asyncio.Future[Finished] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(name, []).append(future)
        try:
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError as error:
            raise StillWaiting(client_operation_id, timeout_s or 0) from error
        finally:
            waiting = self._waiters.get(name)
            if waiting is not None and future in waiting:
                waiting.remove(future)
                if not waiting:
                    del self._waiters[name]

    async def close(self) -> None:
        """Stop following. Whoever still waits gets a CancelledError."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait([self._following])
        for waiting in list(self._waiters.values()):
            for future in waiting:
                future.cancel()

    async def _follow(self) -> None:
        try:
            while True:
                try:
                    await self._read_on()
                except LogUnavailable as error:
                    # How long to bear it is for those who wait to say, by their timeouts.
                    say(_log, logging.WARNING, "the log is away", shard=self._shard, error=str(error))
                    await asyncio.sleep(FOLLOW_AGAIN_S)
        except Exception as error:
            # Everyone who waits hears of it; the next `wait` begins again where this one came to.
            for waiting in list(self._waiters.values()):
                for future in waiting:
                    if not future.done():
                        future.set_exception(error)

    async def _read_on(self) -> None:
        follower = await self._log.follow(self._since)
        try:
            while True:
                found = await follower.read(timeout_ms=1_000)
                for partition, records in found.items():
                    take = self._take_placement if partition[0] == PLACEMENTS else self._take_dead_letter
                    for record in records:
                        take(record)
                        self._since[partition] = record.offset + 1
        finally:
            await follower.close()

    def _take_placement(self, record: Record) -> None:
        placement = placement_of(
            placement_message(record.value, self._shard, record.offset), self._shard, record.offset
        )
        if not isinstance(placement, PlacementEnded) or placement.end is PlacementEnd.REQUEUED:
            return
        finished = Finished(
            placement.client_operation_id,
            placement.operation_id,
            placement.outcome,
            placement.exit_code,
            placement.message,
            placement.endpoint,
            placement.ended_at_us,
        )
        self._end((placement.instance, placement.client_operation_id), finished)

    def _take_dead_letter(self, record: Record) -> None:
        refused = refusal_in(record)
        if refused is not None:
            instance, why = refused
            self._end((instance, why.client_operation_id), why)

    def _end(self, name: _Name, ending: Finished | NotQueued) -> None:
        self._ended[name] = ending
        self._ended.move_to_end(name)
        if len(self._ended) > REMEMBERED:
            self._ended.popitem(last=False)
        for future in self._waiters.get(name, ()):
            if future.done():
                continue
            if isinstance(ending, Finished):
                future.set_result(ending)
            else:
                future.set_exception(ending)


def refusal_in(record: Record) -> tuple[str, NotQueued] | None:
    """The instance and the refusal of an action that a dead letter holds; None where it holds another fact."""
    headers = {name: content.decode("utf-8", "replace") for name, content in record.headers}
    if headers.get("headway_fact_kind") != "ActionQueued" or record.key is None:
        return None
    instance = headers.get("ce_source", "").removeprefix("/headway/")
    details = {name: headers[f"headway_{name}"] for name in ("field", "value", "rule") if f"headway_{name}" in headers}
    return instance, NotQueued(record.key.decode("utf-8", "replace"), headers.get("headway_reason", ""), details)
