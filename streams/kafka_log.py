"""`KafkaLog`: the log seam on a real cluster, by aiokafka. Connects when it is first asked for something."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from streams.aiokafka_internals import abandon, connect_ahead, know_partition, start_connected, stop
from streams.errors import Closed, LogUnavailable, OffsetPastEnd, OutcomeUnknown, Refused
from streams.kafka_batches import MAX_BATCH_BYTES, MAX_REQUEST_BYTES, REFUSALS, build_batches, check, refused
from streams.kafka_follower import Fetching, KafkaFollower, OffsetQuestions, new_consumer
from streams.kafka_topics import KafkaTopics
from streams.kafka_writer import KafkaWriter
from streams.log import Outgoing, Partition, batch_of_one_bytes
from streams.topics import TopicSpec, TopicState

_RETRY_BACKOFF_MS = 5
_METADATA_MAX_AGE_MS = 30_000
_SINGLY = 16  # up to so many records go one by one, so that several callers' records share a batch


class KafkaLog:
    """A `Log` on a Kafka cluster.

    Args:
        bootstrap_servers: "host:port", several joined by commas.
        prefix: prepended to every topic name and transactional id, so that several logs can share a cluster.
        client_id: the name the broker's logs and quotas know this process by.
        timeout_ms: how long a question, or a `publish`, may take.
        fetching: how followers fetch.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        prefix: str = "",
        client_id: str = "headway",
        timeout_ms: int = 10_000,
        fetching: Fetching = Fetching(),  # noqa: B008 - frozen
    ) -> None:
        self._address = bootstrap_servers
        self._prefix = prefix
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._fetching = fetching
        self._topics = KafkaTopics(bootstrap_servers, prefix=prefix, client_id=client_id, timeout_ms=timeout_ms)
        self._questions: dict[bool, OffsetQuestions] = {}
        self._producer: AIOKafkaProducer | None = None
        self._prepared: dict[tuple[str, int], AIOKafkaProducer] = {}  # by transactional id and timeout, connected ahead
        self._producer_starting = asyncio.Lock()
        self._retiring: set[asyncio.Task[None]] = set()
        self._closed = False

    # -- reading ----------------------------------------------------------------------------------------------------------

    async def follow(self, partitions: Mapping[Partition, int | None], *, committed: bool = True) -> KafkaFollower:
        """See `Log.follow`."""
        self._alive()
        await self._topics.check(partitions)
        questions = self._ask(committed=committed)
        positions = {
            partition: await questions.beginning(partition) if offset is None else offset
            for partition, offset in partitions.items()
        }
        follower = KafkaFollower(
            new_consumer(
                self._address, self._client_id, self._fetching, committed=committed, timeout_ms=self._timeout_ms
            ),
            {partition: self._target(partition) for partition in partitions},
            questions,
            self._ask(committed=False),
            self._address,
        )
        try:
            await self._topics.ask("follow", lambda: follower.start(positions))
        except BaseException:
            await follower.close()
            raise
        return follower

    def _ask(self, *, committed: bool) -> OffsetQuestions:
        if committed not in self._questions:
            consumer = new_consumer(
                self._address, self._client_id, self._fetching, committed=committed, timeout_ms=self._timeout_ms
            )
            self._questions[committed] = OffsetQuestions(self._topics, consumer, self._prefix)
        return self._questions[committed]

    # -- writing ----------------------------------------------------------------------------------------------------------

    async def open(self, transactional_id: str, *, timeout_ms: int = 10_000) -> KafkaWriter:
        """See `Log.open`."""
        self._alive()
        producer = self._prepared.pop((transactional_id, timeout_ms), None)
        prepared = producer is not None
        if producer is None:
            producer = self._transactional_producer(transactional_id, timeout_ms)
        async with self._or_abandoned(producer, f"open {transactional_id!r}", timeout_ms):
            await (start_connected(producer) if prepared else producer.start())
        return KafkaWriter(producer, transactional_id, self._topics, self._prefix, timeout_ms)

    async def prepare(
        self, transactional_id: str, partitions: Iterable[Partition], *, timeout_ms: int = 10_000
    ) -> None:
        """See `Log.prepare`."""
        self._alive()
        if (transactional_id, timeout_ms) in self._prepared:
            return
        partitions = tuple(partitions)
        await self._topics.check(partitions)
        producer = self._transactional_producer(transactional_id, timeout_ms)
        async with self._or_abandoned(producer, f"prepare to open {transactional_id!r}", timeout_ms):
            await connect_ahead(producer, [self._target(partition) for partition in partitions])
        self._prepared[transactional_id, timeout_ms] = producer

    def _transactional_producer(self, transactional_id: str, timeout_ms: int) -> AIOKafkaProducer:
        return self._new_producer(
            transactional_id=self._prefix + transactional_id,
            transaction_timeout_ms=timeout_ms,
            request_timeout_ms=timeout_ms,
        )

    @contextlib.asynccontextmanager
    async def _or_abandoned(self, producer: AIOKafkaProducer, what: str, timeout_ms: int) -> AsyncIterator[None]:
        """Bounds what is done with a new producer; where it fails the producer is ended, and Kafka's errors are LogUnavailable."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                yield
        except (TimeoutError, KafkaError) as error:
            await abandon(producer)
            because = str(error) or type(error).__name__
            raise LogUnavailable(what, address=self._address, waited_ms=timeout_ms, because=because) from error
        except BaseException:
            await abandon(producer)
            raise

    async def publish(self, partition: Partition, records: Sequence[Outgoing]) -> list[int]:
        """See `Log.publish`."""
        self._alive()
        if not records:
            return []
        await self._topics.check([partition])
        producer = await self._publishing()
        batches = await self._weighed(producer, partition, records)
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                offsets = await self._send(producer, self._target(partition), records, batches)
        except REFUSALS as error:
            # The sequence numbers of the refused batch are spent; a producer without a transactional id can be replaced.
            self._retire(producer, gently=True)
            state = await self._topics.state(partition[0], fresh=True)
            raise refused(partition, error, state, max(map(batch_of_one_bytes, records))) from error
        except (TimeoutError, KafkaError) as error:
            self._retire(producer, gently=False)
            because = str(error) or type(error).__name__
            raise self._in_doubt(partition, because) from error
        if min(offsets) < 0:
            raise self._in_doubt(partition, "the broker had it already and no longer knows where")
        return offsets

    async def _weighed(
        self, producer: AIOKafkaProducer, partition: Partition, records: Sequence[Outgoing]
    ) -> list[Any]:
        """Many records as batches, a few as none; each of them the topic takes. Raises Refused."""
        timestamp_ms = time.time_ns() // 1_000_000

        def weigh(state: TopicState) -> list[Any]:
            if len(records) > _SINGLY:
                return build_batches(producer.create_batch, partition, state, records, timestamp_ms)
            check(partition, state, records)
            return []

        state = await self._topics.state(partition[0])
        try:
            return weigh(state)
        except Refused:
            # The limit may have been raised since it was read; that is worth one question in this rare case.
            state = await self._topics.state(partition[0], fresh=True)
            return weigh(state)

    async def _send(
        self, producer: AIOKafkaProducer, target: TopicPartition, records: Sequence[Outgoing], batches: Sequence[Any]
    ) -> list[int]:
        """Send the records in `batches`, or one by one where there are none; returns their offsets."""
        await know_partition(producer, target)
        if not batches:
            singles = [
                await producer.send(
                    target.topic, value, key=key, partition=target.partition, headers=list(headers) if headers else None
                )
                for value, key, headers in records
            ]
            return [written.offset for written in await asyncio.gather(*singles)]
        sent: list[tuple[int, Any]] = []
        for batch in batches:
            future = await producer.send_batch(batch, target.topic, partition=target.partition)
            sent.append((batch.record_count(), future))
        offsets: list[int] = []
        for (count, _), written in zip(sent, await asyncio.gather(*(future for _, future in sent)), strict=True):
            offsets.extend(range(written.offset, written.offset + count) if written.offset >= 0 else [-1])
        return offsets

    async def _publishing(self) -> AIOKafkaProducer:
        async with self._producer_starting:
            if self._producer is None:
                producer = self._new_producer(enable_idempotence=True, acks="all", request_timeout_ms=self._timeout_ms)
                try:
                    await self._topics.ask("connect to publish", producer.start)
                except BaseException:
                    await abandon(producer)
                    raise
                self._producer = producer
            return self._producer

    def _new_producer(self, **options: Any) -> AIOKafkaProducer:
        return AIOKafkaProducer(
            bootstrap_servers=self._address,
            client_id=self._client_id,
            max_batch_size=MAX_BATCH_BYTES,
            max_request_size=MAX_REQUEST_BYTES,
            linger_ms=0,
            retry_backoff_ms=_RETRY_BACKOFF_MS,
            metadata_max_age_ms=_METADATA_MAX_AGE_MS,
            **options,
        )

    def _retire(self, producer: AIOKafkaProducer, *, gently: bool) -> None:
        """Ends a shared producer in the background; the next `publish` makes a new one. Gently lets others' records go."""
        if self._producer is producer:
            self._producer = None
            task = asyncio.get_running_loop().create_task(stop(producer) if gently else abandon(producer))
            self._retiring.add(task)
            task.add_done_callback(self._retiring.discard)

    def _in_doubt(self, partition: Partition, because: str) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"publish to {partition[0]}[{partition[1]}]", phase="publish", waited_ms=self._timeout_ms, because=because
        )

    # -- topics and identities --------------------------------------------------------------------------------------------

    async def ensure_topics(self, specs: Sequence[TopicSpec]) -> list[str]:
        """See `Log.ensure_topics`. New topics get three replicas, or as many as there are brokers."""
        self._alive()
        return await self._topics.ensure(specs)

    async def describe_topics(self) -> dict[str, TopicState]:
        """See `Log.describe_topics`."""
        self._alive()
        return dict(await self._topics.describe())

    async def cluster_id(self) -> str:
        """See `Log.cluster_id`."""
        self._alive()
        return await self._topics.cluster_id()

    async def topic_id(self, topic: str) -> str:
        """See `Log.topic_id`."""
        self._alive()
        return await self._topics.topic_id(topic)

    async def trim(self, partition: Partition, before: int) -> None:
        """See `Log.trim`."""
        self._alive()
        if not await self._topics.trim(partition, before):
            raise OffsetPastEnd(partition, before, await self._ask(committed=False).end(partition))

    async def close(self) -> None:
        """See `Log.close`."""
        self._closed = True
        producer, self._producer = self._producer, None
        if producer is not None:
            await stop(producer)
        prepared, self._prepared = self._prepared, {}
        for connected in prepared.values():
            await abandon(connected)
        if self._retiring:
            await asyncio.wait(list(self._retiring))
        questions, self._questions = self._questions, {}
        for consumer in questions.values():
            with contextlib.suppress(KafkaError):
                await consumer.close()
        await self._topics.close()

    # -- inside -----------------------------------------------------------------------------------------------------------

    def _alive(self) -> None:
        if self._closed:
            raise Closed("the log")

    def _target(self, partition: Partition) -> TopicPartition:
        return TopicPartition(self._prefix + partition[0], partition[1])
