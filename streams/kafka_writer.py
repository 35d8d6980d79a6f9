"""The transactional writer: one `append` is one transaction, and it says exactly what is known afterwards.

Steps of an append, and what is in the log if the process dies, or the broker is lost, right after each:

    1. build batches, check sizes        nothing
    2. begin, send all batches           an open transaction, invisible; the next `open` of the id, or the timeout, aborts it
    3. await every acknowledgement       the same
    4. ask for the commit                either everything or nothing; who opens the id next finds it decided
    5. the commit is answered            everything

    ready --append--> sending --all acknowledged--> committing --answered--> ready
                        |  \\--refused--> aborting --> ready      |
                        |--fenced / no answer--> dead <----------|
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, ProducerFenced

from streams.aiokafka_internals import (
    abandon,
    forget_failures,
    know_partition,
    sequence_numbers,
    set_sequence_numbers,
    stop,
)
from streams.errors import Closed, Fenced, OutcomeUnknown, Refused
from streams.kafka_batches import REFUSALS, build_batches, refused
from streams.kafka_topics import KafkaTopics
from streams.log import Outgoing, Partition


class _Sent(NamedTuple):
    """A batch on its way. `size_bytes` is what the broker weighs."""

    partition: Partition
    target: TopicPartition
    records: int
    size_bytes: int
    future: asyncio.Future[Any]


class KafkaWriter:
    """A `Writer` of a `KafkaLog`; made by `KafkaLog.open`."""

    def __init__(
        self, producer: AIOKafkaProducer, transactional_id: str, topics: KafkaTopics, prefix: str, timeout_ms: int
    ) -> None:
        self._producer = producer
        self._transactional_id = transactional_id
        self._topics = topics
        self._prefix = prefix
        self._timeout_ms = timeout_ms
        self._ended = ""
        self._phase = "send"
        self._appending = False

    async def append(self, batches: Mapping[Partition, Sequence[Outgoing]]) -> None:
        """See `Writer.append`."""
        if self._ended:
            raise Closed(f"the writer of {self._transactional_id!r}", self._ended)
        if self._appending:
            raise RuntimeError(
                f"two appends at once by the writer of {self._transactional_id!r}; it belongs to one task"
            )
        self._appending = True
        try:
            await self._append(batches)
        finally:
            self._appending = False

    async def _append(self, batches: Mapping[Partition, Sequence[Outgoing]]) -> None:
        built = await self._build(batches)
        if not built:
            return
        self._phase = "send"
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                await self._transact(built)
        except Refused:
            raise
        except ProducerFenced as error:
            self._ended = Fenced.code
            forget_failures(self._producer)
            raise Fenced(self._transactional_id) from error
        except TimeoutError as error:
            raise await self._lost("the deadline passed") from error
        except (KafkaError, AssertionError) as error:
            # aiokafka says with an assertion that its transaction is in another state than we think.
            raise await self._lost(str(error) or type(error).__name__) from error
        except asyncio.CancelledError:
            self._ended = "an append was cancelled half-way"
            raise

    async def _build(self, batches: Mapping[Partition, Sequence[Outgoing]]) -> list[tuple[Partition, list[Any]]]:
        timestamp_ms = time.time_ns() // 1_000_000
        built = []
        for partition, records in batches.items():
            if not records:
                continue
            await self._topics.check([partition])
            state, create = await self._topics.state(partition[0]), self._producer.create_batch
            try:
                closed = build_batches(create, partition, state, records, timestamp_ms)
            except Refused:
                # The limit may have been raised since it was read; that is worth one question in this rare case.
                state = await self._topics.state(partition[0], fresh=True)
                closed = build_batches(create, partition, state, records, timestamp_ms)
            built.append((partition, closed))
        return built

    async def _transact(self, built: list[tuple[Partition, list[Any]]]) -> None:
        producer = self._producer
        targets = [self._target(partition) for partition, _ in built]
        for target in targets:
            await know_partition(producer, target)
        await producer.begin_transaction()
        before = sequence_numbers(producer, targets)
        sent: list[_Sent] = []
        error: BaseException | None = None
        try:
            for (partition, closed), target in zip(built, targets, strict=True):
                for batch in closed:
                    size = batch.size()
                    future = await producer.send_batch(batch, target.topic, partition=target.partition)
                    sent.append(_Sent(partition, target, batch.record_count(), size, future))
        except REFUSALS as refusal:
            # A batch behind a refused one in the same partition cannot be handed over at all.
            error = refusal
        # Every one of them: a commit does not fail because a batch did, it leaves it out.
        results = await asyncio.gather(*(item.future for item in sent), return_exceptions=True)
        failed = [
            (item, result) for item, result in zip(sent, results, strict=True) if isinstance(result, BaseException)
        ]
        if not failed and error is None:
            self._phase = "commit"
            await producer.commit_transaction()
            return
        for _item, result in failed:
            if isinstance(result, ProducerFenced):
                raise result
        refusals = [(item, result) for item, result in failed if isinstance(result, REFUSALS)]
        if not refusals:
            raise failed[0][1] if failed else error or AssertionError("no batch failed")
        await producer.abort_transaction()
        accepted = dict(before)
        for item, result in zip(sent, results, strict=True):
            if not isinstance(result, BaseException):
                accepted[item.target] += item.records
        set_sequence_numbers(producer, accepted)
        item, result = refusals[0]
        state = await self._topics.state(item.partition[0], fresh=True)
        raise refused(item.partition, result, state, item.size_bytes)

    def _target(self, partition: Partition) -> TopicPartition:
        return TopicPartition(self._prefix + partition[0], partition[1])

    async def _lost(self, because: str) -> OutcomeUnknown:
        """Makes sure that nothing of a transaction in doubt goes on behind our back, and says what is in doubt."""
        self._ended = OutcomeUnknown.code
        await abandon(self._producer)
        return OutcomeUnknown(
            f"the transaction of {self._transactional_id!r}",
            phase=self._phase,
            waited_ms=self._timeout_ms,
            because=because,
        )

    async def close(self) -> None:
        """See `Writer.close`."""
        if self._ended in ("", Fenced.code):
            await stop(self._producer)
        elif self._ended not in (OutcomeUnknown.code, "closed by its owner"):
            await abandon(self._producer)
        self._ended = "closed by its owner"
