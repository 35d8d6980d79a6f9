"""Reading from Kafka: the `Follower` over one consumer without a group, and a second consumer that only asks for offsets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import CorruptRecordException, KafkaError, OffsetOutOfRangeError

from streams.aiokafka_internals import fetching_error, make_lean, stop_consumer
from streams.errors import Closed, CorruptLog, LogUnavailable, OffsetPastEnd, OffsetTrimmed
from streams.kafka_topics import KafkaTopics
from streams.log import Partition, Record

_DRAIN_MS = 2
_RETRY_BACKOFF_MS = 5  # a takeover waits for several round trips that answer "not yet": 100 ms each by default
_METADATA_MAX_AGE_MS = 30_000


@dataclass(frozen=True, slots=True)
class Fetching:
    """How followers fetch.

    Args:
        min_bytes: the broker answers when it has this much, or after `max_wait_ms`. 1 is for latency; 100,000 with a wait
            of 5 to 10 ms costs up to that wait and saves a third of the machine under load (measured at 5,000 facts/s).
        max_wait_ms: see `min_bytes`.
        max_partition_bytes: most bytes of one partition in one answer. A single larger batch still comes whole.
    """

    min_bytes: int = 1
    max_wait_ms: int = 500
    max_partition_bytes: int = 1 << 20


def new_consumer(
    address: str, client_id: str, fetching: Fetching, *, committed: bool, timeout_ms: int
) -> AIOKafkaConsumer:
    """A consumer without group, commits or resets: positions are ours alone."""
    return AIOKafkaConsumer(
        bootstrap_servers=address,
        client_id=client_id,
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="none",
        isolation_level="read_committed" if committed else "read_uncommitted",
        fetch_min_bytes=fetching.min_bytes,
        fetch_max_wait_ms=fetching.max_wait_ms,
        max_partition_fetch_bytes=fetching.max_partition_bytes,
        request_timeout_ms=max(timeout_ms, fetching.max_wait_ms + 1000),
        retry_backoff_ms=_RETRY_BACKOFF_MS,
        metadata_max_age_ms=_METADATA_MAX_AGE_MS,
    )


class OffsetQuestions:
    """Asks for the ends of partitions over a consumer that follows nothing.

    The broker answers one request of a connection after the other, so on a following consumer the question would wait
    for the long poll in front of it: 530 ms instead of 136 ms of a takeover (measured).
    """

    def __init__(self, topics: KafkaTopics, consumer: AIOKafkaConsumer, prefix: str) -> None:
        self._topics = topics
        self._consumer = consumer
        self._prefix = prefix
        self._starting = asyncio.Lock()
        self._started = False

    async def _ready(self) -> AIOKafkaConsumer:
        async with self._starting:
            if not self._started:
                await self._consumer.start()
                self._started = True
        return self._consumer

    async def end(self, partition: Partition) -> int:
        """The offset after the last one this consumer's isolation lets a reader see."""
        target = TopicPartition(self._prefix + partition[0], partition[1])

        async def ask() -> int:
            return int((await (await self._ready()).end_offsets([target]))[target])

        return await self._topics.ask(f"ask the end of {partition[0]}[{partition[1]}]", ask)

    async def beginning(self, partition: Partition) -> int:
        """The first offset that is left."""
        target = TopicPartition(self._prefix + partition[0], partition[1])

        async def ask() -> int:
            return int((await (await self._ready()).beginning_offsets([target]))[target])

        return await self._topics.ask(f"ask the beginning of {partition[0]}[{partition[1]}]", ask)

    async def close(self) -> None:
        """Closes the connection."""
        await self._consumer.stop()


class KafkaFollower:
    """A `Follower` of a `KafkaLog`; made by `KafkaLog.follow`."""

    def __init__(
        self,
        consumer: AIOKafkaConsumer,
        targets: Mapping[Partition, TopicPartition],
        questions: OffsetQuestions,
        uncommitted: OffsetQuestions,
        address: str,
    ) -> None:
        self._consumer = consumer
        self._targets = dict(targets)
        self._partitions = {target: partition for partition, target in targets.items()}
        self._questions = questions
        self._uncommitted = uncommitted
        self._address = address
        self._closed = False

    async def start(self, positions: Mapping[Partition, int]) -> None:
        """Connects, assigns and seeks. To be called once, by the log."""
        await self._consumer.start()
        make_lean(self._consumer)
        # No await in between: the fetcher must not look for a position before it has one.
        self._consumer.assign(list(self._partitions))
        for partition, offset in positions.items():
            self._consumer.seek(self._targets[partition], offset)
        # aiokafka's own tasks must have begun, or stopping the consumer at once would raise CancelledError.
        await asyncio.sleep(0)

    async def read(
        self, *, max_records: int = 2000, timeout_ms: int = 200, drain: bool = False
    ) -> dict[Partition, list[Record]]:
        """See `Follower.read`."""
        self._alive()
        try:
            found = await self._consumer.getmany(timeout_ms=timeout_ms, max_records=max_records)
        except OffsetOutOfRangeError as error:
            await self._explain(error.args[0])
            return {}
        except CorruptRecordException as error:
            raise CorruptLog(str(error)) from error
        except KafkaError as error:
            raise self._unavailable("read", timeout_ms, error) from error
        if not found:
            died = fetching_error(self._consumer)
            if died is not None and not self._closed:
                raise self._unavailable("read", timeout_ms, died) from died
            return {}
        read = {self._partitions[target]: records for target, records in found.items()}
        left = max_records - sum(map(len, read.values()))
        if drain and left > 0:
            # An error here concerns records behind these; it stands until the next read and is raised there.
            with contextlib.suppress(KafkaError):
                more = await self._consumer.getmany(timeout_ms=_DRAIN_MS, max_records=left)
                for target, records in more.items():
                    read.setdefault(self._partitions[target], []).extend(records)
        return read

    async def _explain(self, positions: Mapping[TopicPartition, int]) -> None:
        """Says which end of the log a position is beyond. None of them: the broker had not caught up itself; read again."""
        for target, asked in positions.items():
            partition = self._partitions[target]
            first = await self._questions.beginning(partition)
            if asked < first:
                raise OffsetTrimmed(partition, asked, first)
            end = await self._uncommitted.end(partition)
            if asked > end:
                raise OffsetPastEnd(partition, asked, end)

    def _unavailable(self, what: str, waited_ms: int, error: BaseException) -> LogUnavailable:
        because = str(error) or type(error).__name__
        return LogUnavailable(what, address=self._address, waited_ms=waited_ms, because=because)

    def _alive(self) -> None:
        if self._closed:
            raise Closed("the follower")

    def _target(self, partition: Partition) -> TopicPartition:
        self._alive()
        target = self._targets.get(partition)
        if target is None:
            raise ValueError(f"{partition[0]}[{partition[1]}] is not followed here")
        return target

    def seek(self, partition: Partition, offset: int) -> None:
        """See `Follower.seek`."""
        if offset < 0:
            raise ValueError(f"offset {offset} is negative")
        self._consumer.seek(self._target(partition), offset)

    async def position(self, partition: Partition) -> int:
        """See `Follower.position`."""
        return int(await self._consumer.position(self._target(partition)))

    def pause(self, partition: Partition) -> None:
        """See `Follower.pause`."""
        self._consumer.pause(self._target(partition))

    def resume(self, partition: Partition) -> None:
        """See `Follower.resume`."""
        self._consumer.resume(self._target(partition))

    async def end_offset(self, partition: Partition) -> int:
        """See `Follower.end_offset`."""
        self._target(partition)
        return await self._questions.end(partition)

    async def beginning_offset(self, partition: Partition) -> int:
        """See `Follower.beginning_offset`."""
        self._target(partition)
        return await self._questions.beginning(partition)

    async def close(self) -> None:
        """See `Follower.close`."""
        if not self._closed:
            self._closed = True
            await stop_consumer(self._consumer)
