"""The log seam: everything Headway asks of Kafka, as three small protocols that an in-memory twin fulfils as well.

`Log` makes a `Follower` (reads assigned partitions in order) or a `Writer` (one transaction per `append`). `KafkaLog` and
`MemoryLog` pass one contract test suite, so a decider, a projection or a user's test cannot tell them apart.

Offsets grow along a partition but are not dense: a transaction's end takes one, and compaction leaves holes. Nothing may
count with offsets; events carry `seq` for that.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from streams.errors import LogUnavailable, Refused

if TYPE_CHECKING:
    from streams.topics import TopicSpec, TopicState

Partition = tuple[str, int]
"""(topic, partition), the topic by its plain name: a log's `prefix` never shows outside of it."""

Header = tuple[str, bytes]

BATCH_RECORDS: Final = 5_000
PATIENCE_S: Final = 30.0
"""How long `records_between` waits for a log that brings nothing before its end."""


class Record(NamedTuple):
    """One record as it was read.

    `at_us` is the append time in microseconds since 1970 where the topic is LogAppendTime (Kafka keeps milliseconds, so
    it ends in 000 there), else the writer's own time. A null value (a tombstone some other tool wrote) reads as b"", and so does
    the null value of a header.
    """

    offset: int
    at_us: int
    key: bytes | None
    value: bytes
    headers: tuple[Header, ...] = ()


class Outgoing(NamedTuple):
    """One record to be written. The log sets its offset and, on LogAppendTime topics, its time."""

    value: bytes
    key: bytes | None = None
    headers: tuple[Header, ...] = ()


class Follower(Protocol):
    """Reads one or several assigned partitions, in offset order within each. Belongs to one task."""

    async def read(
        self, *, max_records: int = 2000, timeout_ms: int = 200, drain: bool = False
    ) -> dict[Partition, list[Record]]:
        """The next records, at most `max_records` over all partitions; waits up to `timeout_ms` for the first one.

        Never goes past the last stable offset (when following committed records), never returns an empty list for a
        partition, returns {} on timeout. With `drain`, what arrives right behind the first records comes with them: a
        serial consume-and-commit loop would otherwise make them wait for a whole transaction.

        Raises:
            OffsetTrimmed: the position lies before the log's start (it stays there until `seek`).
            OffsetPastEnd: the position lies past the log's end.
        """
        ...

    def seek(self, partition: Partition, offset: int) -> None:
        """Makes `offset` the next one to be read. Checked at the next `read`."""
        ...

    async def position(self, partition: Partition) -> int:
        """The offset after the last one consumed, transaction ends and aborted records included.

        Equal to `end_offset` once a `read` has found nothing more.
        """
        ...

    def pause(self, partition: Partition) -> None:
        """Returns no records of `partition` until `resume`. The position stays."""
        ...

    def resume(self, partition: Partition) -> None:
        """Undoes `pause`."""
        ...

    async def end_offset(self, partition: Partition) -> int:
        """The last stable offset: every committed record lies below it, no open transaction does.

        For a follower of uncommitted records, the offset the next record will get. Asked on a connection with no
        fetch in flight, so it does not wait behind this follower's own long poll.

        Raises:
            LogUnavailable: no answer in time.
        """
        ...

    async def beginning_offset(self, partition: Partition) -> int:
        """The first offset that retention and trims have left (equal to the end when the partition is empty).

        Raises:
            LogUnavailable: no answer in time.
        """
        ...

    async def close(self) -> None:
        """Stops reading. May be called twice."""
        ...


class Writer(Protocol):
    """The one owner of a transactional id. Belongs to one task."""

    async def append(self, batches: Mapping[Partition, Sequence[Outgoing]]) -> None:
        """Writes all records of all partitions in ONE transaction, each sequence in its order; returns once committed.

        Steps: begin, send, await every record's acknowledgement, commit. Only what was acknowledged in full is
        committed; otherwise a refused placement would leave its event standing alone. No records: nothing happens.

        Raises:
            Fenced: another owner opened this transactional id. The writer is dead.
            Refused: a record can never be accepted (too large, no key on a compacted topic). Nothing is visible, the
                transaction is aborted, the writer can go on.
            NoSuchTopic, NoSuchPartition: as Refused.
            OutcomeUnknown: no answer in time. Drop the writer and the state, own again from the log.
            Closed: after `close`, or after one of the two deadly errors above.
        """
        ...

    async def close(self) -> None:
        """Gives up the writer without a transaction of its own. May be called twice; never hangs."""
        ...


class Log(Protocol):
    """A cluster's log, or the in-memory one."""

    async def follow(self, partitions: Mapping[Partition, int | None], *, committed: bool = True) -> Follower:
        """A follower at the given offsets; None stands for the beginning.

        Raises:
            NoSuchTopic, NoSuchPartition: one of them does not exist.
            LogUnavailable: no answer in time.
        """
        ...

    async def open(self, transactional_id: str, *, timeout_ms: int = 10_000) -> Writer:
        """A writer that owns `transactional_id`; every earlier one is fenced and its open transaction aborted.

        `timeout_ms` bounds one `append` on both sides: the writer gives up with OutcomeUnknown, the broker aborts.

        Raises:
            LogUnavailable: no answer in time.
        """
        ...

    async def prepare(
        self, transactional_id: str, partitions: Iterable[Partition], *, timeout_ms: int = 10_000
    ) -> None:
        """Connects ahead for an `open` of this id that may come, and for writing to `partitions`: a standby's takeover is then spared the
        round trips that say where to ask. Whoever owns the id keeps it. The next `open` with the same arguments uses it up.

        Raises:
            LogUnavailable: no answer in time.
        """
        ...

    async def publish(self, partition: Partition, records: Sequence[Outgoing]) -> list[int]:
        """Writes records outside any transaction, durably and in order; returns their offsets.

        Raises:
            Refused: one is larger than the topic's limit. Found before anything is sent.
            NoSuchTopic, NoSuchPartition: nothing was sent.
            OutcomeUnknown: no answer in time; some, all or none may be in the log.
        """
        ...

    async def ensure_topics(self, specs: Sequence[TopicSpec]) -> list[str]:
        """Creates missing topics, adds partitions, alters settings that differ; says what it did, one line each.

        Called again, it does nothing and returns [].

        Raises:
            TopicConflict: an existing topic has more partitions than asked for.
        """
        ...

    async def describe_topics(self) -> dict[str, TopicState]:
        """The topics that exist, by plain name (the broker's internal ones left out)."""
        ...

    async def cluster_id(self) -> str:
        """The identity of the cluster, set when it was formatted."""
        ...

    async def topic_id(self, topic: str) -> str:
        """The identity of a topic: another one after it was deleted and made again under the same name.

        Raises:
            NoSuchTopic: it does not exist.
        """
        ...

    async def trim(self, partition: Partition, before: int) -> None:
        """Removes the records below `before` for good. A reader that still wants one gets OffsetTrimmed.

        Raises:
            OffsetPastEnd: `before` lies past the log's end.
            NoSuchTopic, NoSuchPartition, LogUnavailable: as everywhere.
        """
        ...

    async def close(self) -> None:
        """Closes what the log itself holds; its followers and writers are closed by their owners. May be called twice."""
        ...


BATCH_OVERHEAD_BYTES = 61
"""The header of a record batch, format 2 (Kafka protocol guide, "Record Batch"); it counts towards max.message.bytes."""


def _varint_bytes(value: int) -> int:
    """The length of a non-negative integer as a zigzag varint."""
    return max(1, ((value << 1).bit_length() + 6) // 7)


def batch_of_one_bytes(record: Outgoing) -> int:
    """The size in bytes of a record in an uncompressed batch of its own: what the broker holds against max.message.bytes.

    Both logs use it, so that a record is refused by the twin exactly when Kafka would refuse it.
    """
    key, value = record.key, record.value
    body = 3 + _varint_bytes(len(value)) + len(value) + _varint_bytes(len(record.headers))
    body += 1 if key is None else _varint_bytes(len(key)) + len(key)
    for name, content in record.headers:
        encoded = len(name.encode())
        body += _varint_bytes(encoded) + encoded + _varint_bytes(len(content)) + len(content)
    return BATCH_OVERHEAD_BYTES + _varint_bytes(body) + body


_VARINTS_BYTES = 32  # more than all length fields of a record can take, those of its headers left out
_HEADER_VARINTS_BYTES = 10  # the most that both length fields of a header can take


def check_records(partition: Partition, records: Iterable[Outgoing], *, limit_bytes: int, compacted: bool) -> None:
    """Raises Refused for the first record that its topic will never take: too large, or without a key where one is needed.

    The exact size is worked out only where it could matter, so that a small record costs some tenths of a microsecond.
    """
    surely_fits = limit_bytes - BATCH_OVERHEAD_BYTES - _VARINTS_BYTES
    for record in records:
        value, key, headers = record
        if key is None:
            if compacted:
                raise Refused(partition, reason="a compacted topic takes no record without a key")
            roughly = len(value)
        else:
            roughly = len(value) + len(key)
        for name, content in headers:
            roughly += 4 * len(name) + len(content) + _HEADER_VARINTS_BYTES
        if roughly > surely_fits:
            size = batch_of_one_bytes(record)
            if size > limit_bytes:
                raise Refused(partition, size_bytes=size, limit_bytes=limit_bytes)


async def bounds(log: Log, at: Partition) -> tuple[int, int]:
    """The first offset of a partition, and its last stable one."""
    follower = await log.follow({at: None})
    try:
        return await follower.beginning_offset(at), await follower.end_offset(at)
    finally:
        await follower.close()


async def records_between(log: Log, at: Partition, start: int | None, end: int) -> AsyncGenerator[list[Record], None]:
    """The committed records of a partition with offsets in [start, end), batch by batch; `start` None: from the first that there is.

    Close it (`contextlib.aclosing`) where it is not read to its end.

    Raises:
        LogUnavailable: the log stopped bringing records before `end`.
        OffsetTrimmed, OffsetPastEnd: as `Follower.read`.
    """
    follower = await log.follow({at: start})
    try:
        heard_s = time.monotonic()
        while await follower.position(at) < end:
            records = (await follower.read(max_records=BATCH_RECORDS, timeout_ms=200)).get(at)
            if records:
                if records[-1].offset >= end:
                    records = [record for record in records if record.offset < end]
                if records:
                    yield records
                heard_s = time.monotonic()  # behind the yield: what the reader does with them is no silence of the log
            elif time.monotonic() - heard_s > PATIENCE_S:
                raise LogUnavailable(
                    f"reading {at[0]}[{at[1]}] up to offset {end}",
                    address=f"offset {await follower.position(at)}",
                    waited_ms=round(PATIENCE_S * 1000),
                )
    finally:
        await follower.close()
