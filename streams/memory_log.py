"""`MemoryLog`: the whole log in one process, for simulations, users' tests and `--embedded`. Nothing survives the process.

It keeps what Kafka keeps that code can come to rely on: offsets with holes, transactions, the last stable offset, fencing,
trims, compaction, size limits, topics that must exist, readers that wait. It is deterministic: time comes from `clock_us`,
identities from what was done in which order. What goes wrong in a cluster is ordered as data, with `fail_next_append`,
`fail_next_publish` and `cut`/`mend`, so a crash test reads as a list of facts and faults.

    log = MemoryLog(clock_us=lambda: now_us)
    await log.ensure_topics(topic_table(shards=1))
    writer = await log.open("decider-0")
    await writer.append({(EVENTS, 0): [Outgoing(b"queued")], (PLACEMENTS, 0): [Outgoing(b"placed", key=b"worker-1")]})
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from streams.errors import (
    Closed,
    Fenced,
    LogUnavailable,
    NoSuchPartition,
    NoSuchTopic,
    OffsetPastEnd,
    OffsetTrimmed,
    OutcomeUnknown,
    Refused,
    StreamError,
)
from streams.log import Outgoing, Partition, Record, check_records
from streams.memory_partition import MemoryPartition
from streams.topics import TopicSpec, TopicState, topic_change, topic_settings

ADDRESS = "memory"


def _wall_clock_us() -> int:
    return time.time_ns() // 1000


@dataclass(slots=True)
class _Transaction:
    number: int
    began_at_us: int
    timeout_us: int
    partitions: list[Partition] = field(default_factory=list)


@dataclass(slots=True)
class _Ownership:
    """Of one transactional id: the epoch of its present owner, and the transaction that is open, if one is."""

    epoch: int = 0
    transaction: _Transaction | None = None


@dataclass(frozen=True, slots=True)
class _Fault:
    error: type[StreamError]
    committed: bool | None
    transactional_id: str | None


class MemoryLog:
    """A `Log` in memory. For one event loop; share the object between everything that shall see the same log.

    Args:
        clock_us: append time in microseconds since 1970. The default is the wall clock.
        cluster_id: what `cluster_id()` answers; give two logs two names to try what happens when they are mixed up.
        prefix: prepended to every topic name and transactional id, as `KafkaLog` does; it shows in `topic_id` only.
    """

    def __init__(
        self, *, clock_us: Callable[[], int] = _wall_clock_us, cluster_id: str = "memory", prefix: str = ""
    ) -> None:
        self._clock_us = clock_us
        self._cluster_id = cluster_id
        self._prefix = prefix
        self._topics: dict[str, TopicState] = {}
        self._partitions: dict[Partition, MemoryPartition] = {}
        self._owners: dict[str, _Ownership] = {}
        self._append_faults: deque[_Fault] = deque()
        self._publish_faults: deque[_Fault] = deque()
        self._waiting: list[asyncio.Future[None]] = []
        self._transactions = 0
        self._cut = False
        self._closed = False

    # -- the seam -------------------------------------------------------------------------------------------------------

    async def follow(self, partitions: Mapping[Partition, int | None], *, committed: bool = True) -> MemoryFollower:
        """See `Log.follow`."""
        await self._reach("follow")
        positions: dict[Partition, int] = {}
        for partition, offset in partitions.items():
            stored = self._stored(partition)
            positions[partition] = stored.first if offset is None else offset
        return MemoryFollower(self, positions, committed=committed)

    async def open(self, transactional_id: str, *, timeout_ms: int = 10_000) -> MemoryWriter:
        """See `Log.open`."""
        await self._reach(f"open {transactional_id!r}", timeout_ms=timeout_ms)
        owner = self._owners.setdefault(self._prefix + transactional_id, _Ownership())
        self._finish(owner, committed=False)
        owner.epoch += 1
        return MemoryWriter(self, transactional_id, owner, timeout_ms)

    async def prepare(
        self, transactional_id: str, partitions: Iterable[Partition], *, timeout_ms: int = 10_000
    ) -> None:
        """See `Log.prepare`. There is nothing to connect to."""
        await self._reach(f"prepare to open {transactional_id!r}", timeout_ms=timeout_ms)
        for partition in partitions:
            self._stored(partition)

    async def publish(self, partition: Partition, records: Sequence[Outgoing]) -> list[int]:
        """See `Log.publish`."""
        await self._pass(f"publish to {partition[0]}[{partition[1]}]", phase="publish", waited_ms=0)
        self._check({partition: records})
        fault = self._publish_faults.popleft() if self._publish_faults else None
        offsets: list[int] = []
        if fault is None or fault.committed:
            offsets = self._stored(partition).add(records, self._clock_us())
            self._wake()
        if fault is not None:
            raise OutcomeUnknown(
                f"publish to {partition[0]}[{partition[1]}]",
                phase="publish",
                waited_ms=0,
                because="ordered by the test",
            )
        return offsets

    async def ensure_topics(self, specs: Sequence[TopicSpec]) -> list[str]:
        """See `Log.ensure_topics`."""
        await self._reach("ensure topics")
        done: list[str] = []
        # All changes are found before the first is made: a conflict leaves everything as it was.
        for change in [topic_change(spec, self._topics.get(spec.name)) for spec in specs]:
            if change.action == "keep":
                continue
            spec = change.spec
            before = self._topics.get(spec.name)
            topic_id = f"{self._prefix}{spec.name}#{len(self._topics)}" if before is None else before.topic_id
            self._topics[spec.name] = TopicState(spec.name, topic_id, spec.partitions, topic_settings(spec))
            for number in range(spec.partitions):
                self._partitions.setdefault((spec.name, number), MemoryPartition())
            done.extend(change.lines())
        return done

    async def describe_topics(self) -> dict[str, TopicState]:
        """See `Log.describe_topics`."""
        await self._reach("describe topics")
        return dict(sorted(self._topics.items()))

    async def cluster_id(self) -> str:
        """See `Log.cluster_id`."""
        await self._reach("ask the cluster id")
        return self._cluster_id

    async def topic_id(self, topic: str) -> str:
        """See `Log.topic_id`."""
        await self._reach("ask a topic id")
        if topic not in self._topics:
            raise NoSuchTopic(topic, self._topics)
        return self._topics[topic].topic_id

    async def trim(self, partition: Partition, before: int) -> None:
        """See `Log.trim`."""
        await self._reach("trim")
        stored = self._stored(partition)
        if before > stored.end:
            raise OffsetPastEnd(partition, before, stored.end)
        stored.trim(before)
        self._wake()

    async def close(self) -> None:
        """See `Log.close`. Followers and writers that are still used raise Closed from here on."""
        self._closed = True
        self._wake()

    # -- what only a log in memory can do ---------------------------------------------------------------------------------

    def records(self, partition: Partition, *, committed: bool = True) -> list[Record]:
        """Everything a reader from the beginning would get now, without one."""
        self._expire()
        stored = self._stored(partition)
        return stored.read(stored.first, max(1, len(stored)), committed=committed)[0]

    def compact(self, topic: str) -> None:
        """Runs compaction over a topic: of each key the last committed record stays, at its offset.

        Raises:
            ValueError: its cleanup policy is not "compact".
        """
        state = self._topics.get(topic)
        if state is None:
            raise NoSuchTopic(topic, self._topics)
        if state.cleanup_policy != "compact":
            raise ValueError(f"topic {topic!r} has cleanup.policy={state.cleanup_policy}: it is never compacted")
        for number in range(state.partitions):
            self._partitions[topic, number].compact()

    def fail_next_append(
        self,
        with_: type[OutcomeUnknown] | type[Fenced] | type[Refused] = OutcomeUnknown,
        *,
        committed: bool | None = False,
        transactional_id: str | None = None,
    ) -> None:
        """Orders a fault for the next `append` (of that transactional id, when one is given). Several queue up.

        `committed` says what is in the log afterwards, and matters for OutcomeUnknown only: True, the transaction
        (the answer was lost); False, an aborted one; None, an open one that hides everything behind it until the next
        `open` of the id or the timeout. Fenced and Refused leave an aborted one.
        """
        if committed and with_ is not OutcomeUnknown:
            raise ValueError(f"{with_.__name__} never leaves a committed transaction")
        self._append_faults.append(_Fault(with_, committed, transactional_id))

    def fail_next_publish(self, *, committed: bool) -> None:
        """Orders an OutcomeUnknown for the next `publish`, with the records in the log or not."""
        self._publish_faults.append(_Fault(OutcomeUnknown, committed, None))

    def cut(self) -> None:
        """Makes the log unreachable: reads find nothing, questions raise LogUnavailable, writes OutcomeUnknown at once
        with nothing written. Ordered faults stay queued."""
        self._cut = True

    def mend(self) -> None:
        """Undoes `cut`; waiting readers go on."""
        self._cut = False
        self._wake()

    # -- for followers and writers ------------------------------------------------------------------------------------------

    async def _reach(self, what: str, *, timeout_ms: int = 0) -> None:
        """What every question does first: lets others run, ends transactions that are overdue, fails when cut off."""
        await asyncio.sleep(0)
        if self._closed:
            raise Closed("the log")
        if self._cut:
            raise LogUnavailable(what, address=ADDRESS, waited_ms=timeout_ms, because="cut off by the test")
        self._expire()

    async def _pass(self, what: str, *, phase: str, waited_ms: int) -> None:
        """`_reach` for writes, whose failure leaves the caller in doubt."""
        try:
            await self._reach(what)
        except LogUnavailable as error:
            raise OutcomeUnknown(what, phase=phase, waited_ms=waited_ms, because=error.because) from error

    def _stored(self, partition: Partition) -> MemoryPartition:
        topic, number = partition
        state = self._topics.get(topic)
        if state is None:
            raise NoSuchTopic(topic, self._topics)
        if not 0 <= number < state.partitions:
            raise NoSuchPartition(partition, state.partitions)
        return self._partitions[partition]

    def _check(self, batches: Mapping[Partition, Sequence[Outgoing]]) -> None:
        """Refuses what Kafka would refuse, before anything is written."""
        for partition, records in batches.items():
            self._stored(partition)
            state = self._topics[partition[0]]
            check_records(
                partition, records, limit_bytes=state.max_message_bytes, compacted=state.cleanup_policy == "compact"
            )

    def _take_fault(self, transactional_id: str) -> _Fault | None:
        for fault in self._append_faults:
            if fault.transactional_id in (None, transactional_id):
                self._append_faults.remove(fault)
                return fault
        return None

    def _begin(self, owner: _Ownership, batches: Mapping[Partition, Sequence[Outgoing]], timeout_ms: int) -> None:
        self._transactions += 1
        transaction = _Transaction(self._transactions, self._clock_us(), timeout_ms * 1000)
        for partition, records in batches.items():
            if records:
                self._partitions[partition].add(records, transaction.began_at_us, transaction.number)
                transaction.partitions.append(partition)
        owner.transaction = transaction

    def _finish(self, owner: _Ownership, *, committed: bool) -> None:
        if owner.transaction is None:
            return
        for partition in owner.transaction.partitions:
            self._partitions[partition].finish(owner.transaction.number, committed=committed)
        owner.transaction = None
        self._wake()

    def _expire(self) -> None:
        """Aborts transactions open longer than their timeout and fences their writers, as a transaction coordinator does."""
        now_us = self._clock_us()
        for owner in self._owners.values():
            transaction = owner.transaction
            if transaction is not None and now_us - transaction.began_at_us >= transaction.timeout_us:
                self._finish(owner, committed=False)
                owner.epoch += 1

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def _wait(self, until: float) -> bool:
        """Waits until something changed or the loop's clock reads `until`; says whether something changed."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append(future)
        timer = loop.call_at(until, lambda: future.done() or future.cancel())
        try:
            await asyncio.wait([future])
            return not future.cancelled()
        finally:
            timer.cancel()
            future.cancel()
            if future in self._waiting:
                self._waiting.remove(future)


class MemoryFollower:
    """A `Follower` of a `MemoryLog`; made by `MemoryLog.follow`."""

    def __init__(self, log: MemoryLog, positions: dict[Partition, int], *, committed: bool) -> None:
        self._log = log
        self._positions = positions
        self._committed = committed
        self._order = list(positions)  # rotates, so that a busy partition does not starve the others
        self._paused: set[Partition] = set()
        self._closed = False

    async def read(
        self, *, max_records: int = 2000, timeout_ms: int = 200, drain: bool = False
    ) -> dict[Partition, list[Record]]:
        """See `Follower.read`. `drain` changes nothing: all there is comes at once anyway."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_ms / 1000
        await asyncio.sleep(0)
        while True:
            self._alive()
            found = {} if self._log._cut else self._take(max_records)
            if found or not await self._log._wait(until):
                return found

    def _take(self, max_records: int) -> dict[Partition, list[Record]]:
        self._log._expire()
        found: dict[Partition, list[Record]] = {}
        wrong: StreamError | None = None
        for partition in self._order:
            if partition in self._paused:
                continue
            stored, position = self._log._partitions[partition], self._positions[partition]
            if position < stored.first:
                wrong = wrong or OffsetTrimmed(partition, position, stored.first)
                continue
            if position > stored.end:
                wrong = wrong or OffsetPastEnd(partition, position, stored.end)
                continue
            taken, self._positions[partition] = stored.read(position, max_records, committed=self._committed)
            if taken:
                found[partition] = taken
                max_records -= len(taken)
                if max_records <= 0:
                    break
        if wrong is not None and not found:
            raise wrong
        if len(self._order) > 1:
            self._order.append(self._order.pop(0))
        return found

    def _alive(self) -> None:
        if self._closed or self._log._closed:
            raise Closed("the follower")

    def _mine(self, partition: Partition) -> Partition:
        self._alive()
        if partition not in self._positions:
            raise ValueError(f"{partition[0]}[{partition[1]}] is not followed here")
        return partition

    def seek(self, partition: Partition, offset: int) -> None:
        """See `Follower.seek`."""
        if offset < 0:
            raise ValueError(f"offset {offset} is negative")
        self._positions[self._mine(partition)] = offset
        self._log._wake()

    async def position(self, partition: Partition) -> int:
        """See `Follower.position`."""
        return self._positions[self._mine(partition)]

    def pause(self, partition: Partition) -> None:
        """See `Follower.pause`."""
        self._paused.add(self._mine(partition))

    def resume(self, partition: Partition) -> None:
        """See `Follower.resume`."""
        self._paused.discard(self._mine(partition))
        self._log._wake()

    async def end_offset(self, partition: Partition) -> int:
        """See `Follower.end_offset`."""
        await self._log._reach("ask the end offset")
        stored = self._log._partitions[self._mine(partition)]
        return stored.last_stable if self._committed else stored.end

    async def beginning_offset(self, partition: Partition) -> int:
        """See `Follower.beginning_offset`."""
        await self._log._reach("ask the beginning offset")
        return self._log._partitions[self._mine(partition)].first

    async def close(self) -> None:
        """See `Follower.close`."""
        self._closed = True
        self._log._wake()


class MemoryWriter:
    """A `Writer` of a `MemoryLog`; made by `MemoryLog.open`."""

    def __init__(self, log: MemoryLog, transactional_id: str, owner: _Ownership, timeout_ms: int) -> None:
        self._log = log
        self._transactional_id = transactional_id
        self._owner = owner
        self._epoch = owner.epoch
        self._timeout_ms = timeout_ms
        self._ended = ""

    async def append(self, batches: Mapping[Partition, Sequence[Outgoing]]) -> None:
        """See `Writer.append`."""
        log, owner = self._log, self._owner
        what = f"the transaction of {self._transactional_id!r}"
        if self._ended:
            raise Closed(f"the writer of {self._transactional_id!r}", self._ended)
        if not any(batches.values()):
            return
        try:
            await log._pass(what, phase="commit", waited_ms=self._timeout_ms)
            if owner.epoch != self._epoch:
                raise Fenced(self._transactional_id)
            log._check(batches)
            fault = log._take_fault(self._transactional_id)
            log._begin(owner, batches, self._timeout_ms)
            if fault is None:
                log._finish(owner, committed=True)
                return
            if fault.committed is not None or fault.error is not OutcomeUnknown:
                log._finish(owner, committed=bool(fault.committed))
            if fault.error is Fenced:
                owner.epoch += 1
                raise Fenced(self._transactional_id)
            if fault.error is Refused:
                raise Refused(next(iter(batches)), reason="ordered by the test")
            raise OutcomeUnknown(what, phase="commit", waited_ms=self._timeout_ms, because="ordered by the test")
        except (Fenced, OutcomeUnknown) as error:
            self._ended = error.code
            raise

    async def close(self) -> None:
        """See `Writer.close`. A transaction left open by a fault stays open, as that of a killed process does."""
        self._ended = self._ended or "closed by its owner"
