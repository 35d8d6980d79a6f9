"""Reading placements: where actions run and how they end, typed, without redeliveries, and resumable.

A placement is public and self-contained. The decider writes one again under the same dispatch id after a takeover and when a
worker reconnects; a `PlacementReader` hands out the first. What follows from that:

* It remembers the dispatch ids of the runs it saw begin, until it sees them end, at most `remember` of them. A redelivery of
  one older than that, or of a run that began before this reader's first offset, comes through with `redelivered` set.
* `position` is where to go on after the last placement handed out. Store it *after* the work on that placement is done, give it
  as `start` next time, and every placement is seen at least once.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import ClassVar, Literal, NamedTuple, Self

from google.protobuf.message import DecodeError

from events.payloads import Command, command_of
from events.reasons import Outcome, PlacementEnd, RequeueCause
from events.values import Digest, Properties
from proto.gen.headway.v1 import placements_pb2
from streams.errors import Closed, NoSuchTopic, StreamError
from streams.log import Follower, Log, Partition, Record
from streams.topics import PLACEMENTS

Start = Literal["latest", "earliest"] | int | Mapping[int, int]
"""Where to begin: at the end, at the beginning, at one offset (a single shard), or at an offset for each shard."""

REMEMBERED = 65_536


class UnreadablePlacement(StreamError):
    """A record of the placements topic is not a placement that this build knows."""

    code: ClassVar[str] = "unreadable-placement"
    runbook: ClassVar[str] = (
        "Something else wrote to the topic, or the reader is older than the decider: update the reader first."
    )

    def __init__(self, shard: int, offset: int, why: str) -> None:
        self.shard, self.offset = shard, offset
        super().__init__(
            f"{PLACEMENTS}[{shard}] offset {offset}: {why}",
            remedy=f"Update Headway here; to skip the record knowingly, start at offset {offset + 1}",
        )


class ActionPlaced(NamedTuple):
    """An operation runs on a worker from now on. `offset` and `shard` say where that stands in the topic."""

    instance: str
    operation_id: int
    client_operation_id: str
    dispatch_id: int
    endpoint: str
    connection_id: int
    requirements: Properties = ()
    command: Command = Command()
    action_digest: Digest | None = None
    queued_at_us: int = 0
    placed_at_us: int = 0
    timeout_us: int = 0  # 0: none
    expected_duration_us: int = 0  # 0: unknown
    target_id: str = ""
    mnemonic: str = ""
    attempt: int = 1
    redelivered: bool = False
    cacheable: bool = False
    shard: int = 0
    offset: int = -1


class PlacementEnded(NamedTuple):
    """A run ended, or (with `dispatch_id` 0) an operation ended without one."""

    instance: str
    operation_id: int
    client_operation_id: str
    dispatch_id: int
    endpoint: str
    end: PlacementEnd
    seq: int = 0
    ended_at_us: int = 0
    outcome: Outcome = Outcome.UNSPECIFIED  # where it finished or was cancelled
    cause: RequeueCause = RequeueCause.UNSPECIFIED  # where it was requeued
    exit_code: int = 0
    message: str = ""
    shard: int = 0
    offset: int = -1


Placement = ActionPlaced | PlacementEnded


def placement_message(value: bytes, shard: int, offset: int) -> placements_pb2.Placement:
    """The message in a record of the placements topic. Raises UnreadablePlacement."""
    try:
        message = placements_pb2.Placement.FromString(value)
    except DecodeError as error:
        raise UnreadablePlacement(shard, offset, f"{len(value)} bytes that are no Placement ({error})") from error
    if message.WhichOneof("kind") is None:
        raise UnreadablePlacement(shard, offset, "a Placement of a kind this build does not know")
    return message


def placement_of(message: placements_pb2.Placement, shard: int, offset: int) -> Placement:
    """The typed form of a placement message. Raises UnreadablePlacement where an enum has a value this build does not know."""
    if message.WhichOneof("kind") == "action_placed":
        placed = message.action_placed
        digest = placed.action_digest
        return ActionPlaced(
            instance=placed.instance,
            operation_id=placed.operation_id,
            client_operation_id=placed.client_operation_id,
            dispatch_id=placed.dispatch_id,
            endpoint=placed.endpoint,
            connection_id=placed.connection_id,
            requirements=tuple([(item.name, item.value) for item in placed.requirements.items]),
            command=command_of(placed.command.SerializeToString()),
            action_digest=Digest(digest.hash, digest.size_bytes) if placed.HasField("action_digest") else None,
            queued_at_us=placed.queued_at_us,
            placed_at_us=placed.placed_at_us,
            timeout_us=placed.timeout_us,
            expected_duration_us=placed.expected_duration_us,
            target_id=placed.target_id,
            mnemonic=placed.mnemonic,
            attempt=placed.attempt,
            redelivered=placed.redelivered,
            cacheable=placed.cacheable,
            shard=shard,
            offset=offset,
        )
    ended = message.placement_ended
    try:
        return PlacementEnded(
            instance=ended.instance,
            operation_id=ended.operation_id,
            client_operation_id=ended.client_operation_id,
            dispatch_id=ended.dispatch_id,
            endpoint=ended.endpoint,
            end=PlacementEnd(ended.end),
            seq=ended.seq,
            ended_at_us=ended.ended_at_us,
            outcome=Outcome(ended.outcome),
            cause=RequeueCause(ended.cause),
            exit_code=ended.exit_code,
            message=ended.message,
            shard=shard,
            offset=offset,
        )
    except ValueError as error:
        raise UnreadablePlacement(shard, offset, str(error)) from error


class Redeliveries:
    """Which runs were seen to begin and not yet to end; bounded, the oldest are forgotten first."""

    def __init__(self, remember: int = REMEMBERED) -> None:
        self._remember = remember
        self._begun: OrderedDict[tuple[int, int], None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._begun)

    def repeats(self, placement: Placement) -> bool:
        """Whether this placement was seen already; takes note of it."""
        run = (placement.shard, placement.dispatch_id)
        if isinstance(placement, PlacementEnded):
            # Nothing is redelivered once it has ended, so its id need not be kept.
            self._begun.pop(run, None)
            return False
        if run in self._begun:
            return True
        self._begun[run] = None
        if len(self._begun) > self._remember:
            self._begun.popitem(last=False)
        return False


class PlacementReader:
    """Placements as they are committed, in the order of their shard: `async with PlacementReader(log) as r: async for p in r`.

    Args:
        log: a `Log`; it stays the caller's.
        start: "latest" (what comes after entering), "earliest" (what the topic still holds), one offset when one shard is
            read, or a mapping of shard to offset, such as an earlier reader's `position`. Shards left out of a mapping begin
            at the earliest.
        shards: which to read; None, all there are.
        instance: hand out placements of this instance only; None, of all.
        remember: how many unfinished runs are remembered to tell redeliveries (see the module).

    Iterating raises LogUnavailable when the log is away for long (go on with a new reader at `position`), OffsetTrimmed when
    `start` is older than the topic's retention, OffsetPastEnd when it is from another log, UnreadablePlacement at a record that
    is none.
    """

    def __init__(
        self,
        log: Log,
        *,
        start: Start = "latest",
        shards: Iterable[int] | None = None,
        instance: str | None = None,
        remember: int = REMEMBERED,
    ) -> None:
        if remember < 1:
            raise ValueError(f"remember is {remember}; at least 1 run has to be remembered")
        self._log = log
        self._start = start
        self._shards = None if shards is None else sorted(shards)
        self._instance = instance
        self._redeliveries = Redeliveries(remember)
        self._follower: Follower | None = None
        self._ready: deque[tuple[int, Record]] = deque()
        self._position: dict[int, int] = {}

    @property
    def position(self) -> dict[int, int]:
        """Of each shard, the offset after the last placement that was handed out or passed over."""
        return dict(self._position)

    async def __aenter__(self) -> Self:
        """Find the first offsets. Raises NoSuchTopic, NoSuchPartition, LogUnavailable."""
        partitions = await self._partitions()
        follower = await self._log.follow(dict.fromkeys(partitions))
        try:
            for partition in partitions:
                offset = await self._first(follower, partition, len(partitions))
                follower.seek(partition, offset)
                self._position[partition[1]] = offset
        except BaseException:
            await follower.close()
            raise
        self._follower = follower
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._follower is not None:
            await self._follower.close()

    async def _partitions(self) -> list[Partition]:
        if self._shards is not None:
            return [(PLACEMENTS, shard) for shard in self._shards]
        topics = await self._log.describe_topics()
        if PLACEMENTS not in topics:
            raise NoSuchTopic(PLACEMENTS, topics)
        return [(PLACEMENTS, shard) for shard in range(topics[PLACEMENTS].partitions)]

    async def _first(self, follower: Follower, partition: Partition, count: int) -> int:
        start = self._start
        if isinstance(start, Mapping):
            given = start.get(partition[1])
            return await follower.beginning_offset(partition) if given is None else given
        if isinstance(start, int):
            if count != 1:
                raise ValueError(f"one start offset ({start}) was given for {count} shards; give one for each")
            return start
        if start == "latest":
            return await follower.end_offset(partition)
        return await follower.beginning_offset(partition)

    async def read(self, *, timeout_ms: int = 200) -> list[Placement]:
        """The placements that are there, waiting up to `timeout_ms` for the first; [] when none came."""
        return [placement for placement, _ in await self.read_with_messages(timeout_ms=timeout_ms)]

    async def read_with_messages(self, *, timeout_ms: int = 200) -> list[tuple[Placement, placements_pb2.Placement]]:
        """As `read`, each with its message of the wire contract."""
        if not self._ready:
            await self._fetch(timeout_ms)
        found: list[tuple[Placement, placements_pb2.Placement]] = []
        while self._ready:
            try:
                taken = self._next()
            except UnreadablePlacement:
                if not found:
                    raise
                break  # what was read before it is handed out first; the next call meets it again
            if taken is not None:
                found.append(taken)
        return found

    async def at_end(self) -> bool:
        """Whether everything that is committed now has been handed out or passed over. Raises LogUnavailable."""
        if self._follower is None:
            raise Closed("the placement reader", "enter it with `async with` first")
        if self._ready:
            return False
        for shard in self._position:
            partition = (PLACEMENTS, shard)
            if await self._follower.position(partition) < await self._follower.end_offset(partition):
                return False
        return True

    async def __aiter__(self) -> AsyncIterator[Placement]:
        while True:
            while self._ready:
                taken = self._next()
                if taken is not None:
                    yield taken[0]
            await self._fetch(1_000)

    async def _fetch(self, timeout_ms: int) -> None:
        if self._follower is None:
            raise Closed("the placement reader", "enter it with `async with` first")
        found = await self._follower.read(timeout_ms=timeout_ms)
        for (_, shard), records in found.items():
            self._ready.extend([(shard, record) for record in records])

    def _next(self) -> tuple[Placement, placements_pb2.Placement] | None:
        """The next record's placement, None where it is passed over. An unreadable record stays where it is."""
        shard, record = self._ready[0]
        message = placement_message(record.value, shard, record.offset)
        placement = placement_of(message, shard, record.offset)
        self._ready.popleft()
        self._position[shard] = record.offset + 1
        if self._redeliveries.repeats(placement):
            return None
        if self._instance is not None and placement.instance != self._instance:
            return None
        return placement, message
