"""What Faust's Kafka transport lacks for a fold of a transactional topic: committed records only, and commits that follow.

Measured on faust-streaming 0.15.3 (the versions allowed are in pyproject.toml; a test fails when one of these private methods is gone):

* An agent is handed records of aborted and of open transactions, since Faust asks for read committed only where it runs
  transactions itself. `_CommittedThread` asks for it under at-least-once.
* The committed offset crawls, because the end of each transaction is taken for a gap. The position in our own store rules, so
  the consumer commits that one; acknowledgements are only cleared away.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import faust
from faust.exceptions import ConsumerNotStarted
from faust.transport.drivers import aiokafka as driver

Position = Callable[[str, int], int | None]
"""Topic and partition to the next offset to be read, or None while the partition is not ours."""

OVERRIDDEN = {
    driver.AIOKafkaConsumerThread: ("_create_worker_consumer",),
    driver.Consumer: ("_new_consumer_thread", "_add_gap", "_new_offset", "_filter_tps_with_pending_acks"),
    faust.App: ("_new_transport",),
}
"""Private methods that are replaced here."""


class _CommittedThread(driver.AIOKafkaConsumerThread):
    """Makes a consumer that reads committed records only."""

    def _create_worker_consumer(self, transport: Any) -> Any:
        # The flag means "in a transaction of Faust's own"; the isolation level is all that is read from it here.
        before, self.consumer.in_transaction = self.consumer.in_transaction, True
        try:
            return super()._create_worker_consumer(transport)
        finally:
            self.consumer.in_transaction = before


class _PositionConsumer(driver.Consumer):
    """Commits the position of our own store."""

    def _new_consumer_thread(self) -> Any:
        return _CommittedThread(self, loop=self.loop, beacon=self.beacon)

    async def _add_gap(self, tp: Any, offset_from: int, offset_to: int) -> None:
        """Ends of transactions and aborted records are no gaps."""

    def _filter_tps_with_pending_acks(self, topics: Any = None) -> Iterator[Any]:
        # Every partition, not only those with acknowledgements: where the reader leads, the agent acknowledges nothing.
        try:
            assigned = list(self.assignment())
        except ConsumerNotStarted:  # it is stopped before its start had come so far: there is nothing to commit
            return
        yield from (tp for tp in assigned if topics is None or tp in topics or tp.topic in topics)

    def _new_offset(self, tp: Any) -> int | None:
        acked = self._acked.get(tp)
        if acked:
            acked.clear()
            self._acked_index[tp].clear()
        return self.app.position(tp.topic, tp.partition)


class _Transport(driver.Transport):
    Consumer = _PositionConsumer


class CommittedApp(faust.App):
    """A Faust app whose agents see committed records only.

    Args:
        position: gives the offset to commit for a partition.
        opening: awaited before anything of Faust starts; an exception of it is one of `start`.
    """

    def __init__(
        self, *arguments: Any, position: Position, opening: Callable[[], Awaitable[None]], **settings: Any
    ) -> None:
        self.position = position
        self._opening = opening
        super().__init__(*arguments, **settings)

    async def on_first_start(self) -> None:
        """Open what the agents write to, then start."""
        await self._opening()
        await super().on_first_start()

    def _new_transport(self) -> Any:
        return _Transport(self.conf.broker_consumer, self)
