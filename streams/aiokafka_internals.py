"""Every place where Headway reaches into aiokafka's private parts, and why. A test watches each of them.

Nothing here changes aiokafka for other users in the process (Faust is one), except the back-off, which is a constant, and that
fetched bytes stay at hand while their records are read.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.client import CoordinationType
from aiokafka.consumer import fetcher as _fetcher
from aiokafka.errors import KafkaError, ProducerClosed
from aiokafka.producer import sender as _sender
from aiokafka.record import default_records as _default_records
from aiokafka.record import memory_records as _memory_records

from streams.log import Outgoing, Record

TRANSACTION_BACKOFF_S = 0.001

# The broker answers CONCURRENT_TRANSACTIONS to the first AddPartitionsToTxn that follows a commit closely, and aiokafka then
# waits this long. Its own 20 ms are the whole latency of a busy decider: 45-70 transactions/s against 300 (measured).
_sender.BACKOFF_OVERRIDE = TRANSACTION_BACKOFF_S

_STOP_S = 5.0
_METADATA_POLL_S = 0.02
_SENDER_END_S = 0.5


class _KeptBytes(_memory_records.MemoryRecords):
    """The batches of one fetch, with the bytes they are read from: aiokafka's own keep them out of reach."""

    def __init__(self, raw: bytes) -> None:
        super().__init__(raw)
        self.raw = raw


_fetcher.MemoryRecords = _KeptBytes


class _AnyText(bytearray):
    """Bytes that are text whatever they are: what is no UTF-8 shows as `\\xff`."""

    def __getitem__(self, where: Any) -> Any:
        found = super().__getitem__(where)
        return _AnyText(found) if isinstance(where, slice) else found

    def decode(self, encoding: str = "utf-8", errors: str = "backslashreplace") -> str:
        return super().decode(encoding, errors)


class _AnyNamesBatch(_default_records._DefaultRecordBatchPy):
    """A batch whose header names may be any bytes. In Python, so ten times slower: only for fetches that need it."""

    _buffer: bytearray

    def _maybe_uncompress(self) -> None:
        super()._maybe_uncompress()
        self._buffer = _AnyText(self._buffer)


class _AnyNames(_memory_records._MemoryRecordsPy):
    """The batches of one fetch, header names taken as they are."""

    def next_batch(self, *sizes: int) -> Any:
        batch = self._next_slice
        if batch is None or batch[self.MAGIC_OFFSET] < 2:  # older formats have no headers
            return super().next_batch(*sizes)
        self._cache_next()
        return _AnyNamesBatch(batch)


def _every_record(records: Any) -> Iterator[list[Record]]:
    """The records of a fetch, a list for each batch, also where a header's name is no UTF-8.

    Kafka takes any bytes as a name and aiokafka fails on it, at each new try again: one such fact would stop its shard for ever.
    """
    try:
        yield from records._unpack_records()
    except UnicodeDecodeError:
        records._records = _Wholes(_AnyNames(records._records.raw))
        yield from records._unpack_records()  # it leaves out what lies before `next_fetch_offset`


class _Whole:
    """A batch that is iterated as one: the fetcher judges whole batches, and a step of its iterators costs more than a record does."""

    __slots__ = ("_batch", "offset")

    def __init__(self, batch: Any) -> None:
        self._batch = batch
        self.offset = batch.next_offset - 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __iter__(self) -> Iterator[_Whole]:
        yield self

    def records(self, start: int) -> list[Record]:
        """What it holds from offset `start` on."""
        found = [
            _new(
                Record,
                (
                    raw.offset,
                    raw.timestamp * 1000,
                    raw.key,
                    raw.value or b"",
                    # A header may have a null value, which no reader here expects: one would stop every decider that reads it.
                    tuple([(name, content or b"") for name, content in headers]) if (headers := raw.headers) else (),
                ),
            )
            for raw in self._batch
        ]
        # A fetch begins with the batch that holds the offset that was asked for.
        return found if found and found[0].offset >= start else [record for record in found if record.offset >= start]


class _Wholes:
    """The batches of one fetch, each to be iterated as one, but for those that hold the end of a transaction."""

    __slots__ = ("_batches",)

    def __init__(self, batches: Any) -> None:
        self._batches = batches

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batches, name)

    def next_batch(self) -> Any:
        batch = self._batches.next_batch()
        return batch if batch.is_control_batch else _Whole(batch)


class _LeanFetch:
    """Hands out one fetch in lists of `Record`s: what `FetchResult.getall` does, a batch at a time."""

    __slots__ = ("_after", "_error", "_left", "_result")

    def __init__(self, result: Any) -> None:
        self._result = result
        self._left: list[Record] = []  # unpacked and not handed out; behind them the log goes on at `_after`
        self._after = 0
        self._error: Exception | None = None
        records = result._partition_records
        records._records = _Wholes(records._records)
        records._consumer_record = lambda _partition, whole: whole.records(records.next_fetch_offset)
        records._records_iterator = _every_record(records)

    def getall(self, max_records: int | None = None) -> list[Record]:
        """The next records, at most so many."""
        result = self._result
        if not result.check_assignment(result._topic_partition) or not result.has_more():
            return []
        if self._error is not None:
            raise self._error
        records = result._partition_records
        found, self._left = self._left, []
        if found:
            records.next_fetch_offset = self._after
        while max_records is None or len(found) < max_records:
            try:
                more = next(records, None)
            except Exception as error:
                if not found:
                    raise
                self._error = error  # of what lies behind these
                break
            if more is None:
                result._update_position()
                result._partition_records = None
                return found
            found = found + more if found else more
        if max_records is not None and len(found) > max_records:
            self._left, self._after = found[max_records:], records.next_fetch_offset
            del found[max_records:]
            records.next_fetch_offset = found[-1].offset + 1
        result._update_position()
        return found


class _LeanResults(OrderedDict[TopicPartition, Any]):
    """The fetcher's table of fetched records, which makes `Record`s of them instead of ConsumerRecords, a batch at a time.

    A frozen dataclass of eleven fields and five frames of iterators cost five times what decoding a record does. Every fetch passes here
    before its first record is decoded.
    """

    def __setitem__(self, partition: TopicPartition, result: Any) -> None:
        if type(result) is _fetcher.FetchResult:
            result.getall = _LeanFetch(result).getall
        super().__setitem__(partition, result)


_new = tuple.__new__  # what Record(...) calls, without the Python frame in between: a sixth of a replay


def make_lean(consumer: AIOKafkaConsumer) -> None:
    """Makes `getmany` of this consumer return `Record`s. To be called between `start` and the first assignment."""
    consumer._fetcher._records = _LeanResults()


def append_all(batch: Any, records: Sequence[Outgoing], start: int, timestamp_ms: int) -> int:
    """Append records from `start` on to an empty batch as long as they fit; returns the index of the first that did not.

    The batch's own `append` is a frame of Python around this one call, with keywords: twice the time, for every record that is written.
    The first record of a batch always fits, however large it is.
    """
    append, offset = batch._builder.append, 0
    for value, key, headers in islice(records, start, None):
        if append(offset, timestamp_ms, key, value, list(headers)) is None:
            break
        offset += 1
    batch._relative_offset = offset
    return start + offset


def fetching_error(consumer: AIOKafkaConsumer) -> BaseException | None:
    """Why the background fetching of this consumer has ended, if it has: `getmany` would return nothing for ever."""
    task: asyncio.Future[None] = consumer._fetcher.error_future
    if not task.done():
        return None
    return asyncio.CancelledError() if task.cancelled() else task.exception()


def sequence_numbers(producer: AIOKafkaProducer, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The sequence number that the next record to each of these partitions will carry."""
    return {partition: producer._txn_manager.sequence_number(partition) for partition in partitions}


def set_sequence_numbers(producer: AIOKafkaProducer, numbers: Mapping[TopicPartition, int]) -> None:
    """Takes back the sequence numbers of batches that the broker refused.

    aiokafka counts them as used, so the next batch would be refused as out of order, and the writer would be dead. A new
    producer with the same transactional id is no way out: it would fence an owner that came in between.
    """
    producer._txn_manager._sequence_numbers.update(numbers)


async def know_partition(producer: AIOKafkaProducer, target: TopicPartition) -> None:
    """Waits until the producer has heard of a partition. One that was just added is not in its metadata, and sending to it
    would be an AssertionError. The caller sets the deadline."""
    while target.partition not in await producer.partitions_for(target.topic):
        await producer.client.force_metadata_update()
        if target.partition not in await producer.partitions_for(target.topic):
            await asyncio.sleep(_METADATA_POLL_S)


async def connect_ahead(producer: AIOKafkaProducer, targets: Iterable[TopicPartition]) -> None:
    """What `start` of a transactional producer does before it takes the id (which would fence the owner), and the metadata of `targets`:
    the connections, who coordinates the id, who leads the partitions. The caller sets the deadline."""
    await producer.client.bootstrap()
    await producer._sender._find_coordinator(CoordinationType.TRANSACTION, producer._txn_manager.transactional_id)
    for target in targets:
        await know_partition(producer, target)


async def start_connected(producer: AIOKafkaProducer) -> None:
    """The rest of `start` for a producer that is connected ahead: takes the id."""
    await producer._sender.start()


def forget_failures(producer: AIOKafkaProducer) -> None:
    """Marks as seen the failures that aiokafka leaves in futures nobody awaits, once we have raised our own error.

    asyncio would otherwise print each of them with a traceback, at every takeover.
    """
    accumulator = producer._message_accumulator
    unsent = [batch for batches in accumulator._batches.values() for batch in batches]
    futures = [
        future for batch in [*unsent, *accumulator._pending_batches] for future in (batch.future, batch._drain_waiter)
    ]
    if producer._txn_manager is not None:
        futures.append(producer._txn_manager._transaction_waiter)
    for future in futures:
        if future is not None and future.done() and not future.cancelled():
            future.exception()


async def abandon(producer: AIOKafkaProducer) -> None:
    """Ends a producer that may be waiting for a broker for ever: closes its connections and drops what is unsent.

    `stop()` alone flushes first, and an idempotent producer never gives a batch up. The order matters: the sender puts a
    batch whose connection closed back into the queue, and would fail if that batch had been failed before.
    """
    task = producer._sender.sender_task
    if task is not None:
        task.cancel()
        await producer.client.close()
        await asyncio.wait([task], timeout=_SENDER_END_S)
        if not task.done():  # it awaits a request of its own that waits for metadata: that is cancelled this time
            task.cancel()
            await asyncio.wait([task], timeout=_SENDER_END_S)
    accumulator = producer._message_accumulator
    # A batch that is queued again is no longer in this set, but its callback will take it out once more.
    accumulator._pending_batches.update(
        batch for batches in accumulator._batches.values() for batch in batches if batch.retry_count
    )
    accumulator.fail_all(ProducerClosed())
    forget_failures(producer)
    with contextlib.suppress(KafkaError, asyncio.CancelledError, TimeoutError):
        async with asyncio.timeout(_STOP_S):
            await producer.stop()


async def stop(producer: AIOKafkaProducer) -> None:
    """Ends a producer in order where its broker answers, and by force after five seconds where it does not."""
    try:
        async with asyncio.timeout(_STOP_S):
            await producer.stop()
    except (TimeoutError, KafkaError):
        producer._closed = False  # stop() sets it first and would do nothing the second time
        await abandon(producer)


async def stop_consumer(consumer: AIOKafkaConsumer) -> None:
    """Ends a consumer, with a fetch in flight as well.

    `stop()` cancels its own fetches and awaits them, so while a broker is away it raises CancelledError into whoever called it
    and leaves its connections open: the caller's task would end as if it had been cancelled, without a word.
    """
    try:
        await consumer.stop()
    except asyncio.CancelledError:
        caller = asyncio.current_task()
        if caller is not None and caller.cancelling():
            raise
        fetches = list(consumer._fetcher._pending_tasks)
        for fetch in fetches:
            fetch.cancel()
        await asyncio.gather(*fetches, return_exceptions=True)
        await consumer._client.close()
