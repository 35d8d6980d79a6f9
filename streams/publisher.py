"""Publishing facts for other services: queue actions, cancel them, change their priority, and wait for how they end.

    async with FactPublisher("127.0.0.1:9092") as publisher:
        name = await publisher.queue(argv=["make", "-j4"], requirements={"cpu_millis": 4000, "memory_kib": 1 << 20})
        finished = await publisher.wait(name, timeout_s=600)
        print(finished.outcome.name, finished.exit_code)

Facts are checked by the rules of the wire contract before anything is sent. Facts that are published at the same time share a
batch. Sending is repeated until the log has acknowledged or `timeout_s` has passed; a fact that got doubled on the way is ignored by
the decider, because the repetition carries the same `client_operation_id`.

An action queued with `attached=True` lives as long as somebody waits for it: `wait` says every 10 s that its client is there, a wait
that is cancelled says that the client is gone, and one whose process dies says nothing more. The scheduler then ends the operation,
at once or after `client_action_timeout_s`, unless another client waits for it.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import NamedTuple, Self

from events.facts import ActionQueued, CancelRequested, Fact, PriorityRequested
from events.payloads import canonical_requirements, command_bytes
from events.values import NO_DIGEST, Digest
from streams.attendance import HEARD_EVERY_S, Attendance
from streams.effects import record_of
from streams.endings import Endings, Finished, NotQueued
from streams.errors import Closed, LogUnavailable, OutcomeUnknown
from streams.kafka_log import KafkaLog
from streams.log import Log, Outgoing, Partition
from streams.settings import DEFAULT_INSTANCE
from streams.shard_map import ShardMap, read_shard_map
from streams.topics import DEAD_LETTERS, FACTS, PLACEMENTS

AT_ONCE = 1_000
_FIRST_BACK_OFF_S, _LONGEST_BACK_OFF_S = 0.05, 2.0


class Secret(NamedTuple):
    """The value of an environment variable that only the worker resolves; the log holds its name alone."""

    name: str


class FactPublisher:
    """Publishes facts to the shard of their instance. An async context manager; for many tasks of one event loop.

    Args:
        log: bootstrap servers ("host:port[,...]"), or a `Log` (a `MemoryLog` in tests), which stays the caller's.
        instance: where a method names none.
        prefix: put before topic names, where the cluster's topics have one; with bootstrap servers only.
        timeout_s: how long one publish may take, repetitions included.
        heard_every_s: how often the clients of attached operations are heard while somebody waits; keep it well below
            `client_action_timeout_s` of the instances.
    """

    def __init__(
        self,
        log: Log | str,
        *,
        instance: str = DEFAULT_INSTANCE,
        prefix: str = "",
        timeout_s: float = 30.0,
        heard_every_s: float = HEARD_EVERY_S,
    ) -> None:
        if prefix and not isinstance(log, str):
            raise ValueError("prefix goes with bootstrap servers; a Log has its own")
        self._log: Log
        self._owned: KafkaLog | None = None
        if isinstance(log, str):
            self._log = self._owned = KafkaLog(log, prefix=prefix, client_id="headway-publisher")
        else:
            self._log = log
        self._instance = instance
        self._timeout_s = timeout_s
        self._shards: ShardMap | None = None
        self._lanes: dict[int, _Lane] = {}
        self._since: dict[int, dict[Partition, int]] = {}  # of each shard, what had ended when it was first used
        self._endings: dict[int, Endings] = {}
        self._attendance = Attendance(self._put_behind, every_s=heard_every_s)

    async def __aenter__(self) -> Self:
        """Read the shard map. Raises NoSuchTopic, LogUnavailable, UnreadableShardMap."""
        try:
            self._shards = await read_shard_map(self._log)
        except BaseException:
            await self._close_log()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # First: who still waits is told, and then finds that it was said already that its client is gone.
        await self._attendance.close()
        for endings in self._endings.values():
            await endings.close()
        for lane in self._lanes.values():
            await lane.close()
        self._shards = None
        await self._close_log()

    async def _close_log(self) -> None:
        if self._owned is not None:
            await self._owned.close()

    @property
    def instances(self) -> tuple[str, ...]:
        """The instances of the shard map, as it was when the publisher was entered."""
        return tuple(self._map().shards)

    def shard_of(self, instance: str) -> int:
        """The shard of an instance. Raises UnknownInstance, which lists the known ones."""
        return self._map().shard_of(instance)

    def _map(self) -> ShardMap:
        if self._shards is None:
            raise Closed("the publisher", "enter it with `async with` first")
        return self._shards

    # -- facts ----------------------------------------------------------------------------------------------------------

    async def publish(self, fact: Fact) -> int:
        """Publish a fact to the shard of its instance; returns its offset there, which for an action is its operation id.

        Raises:
            InvalidFact: it breaks a rule of the wire contract; names field, value and rule. Nothing was sent.
            UnknownInstance: its instance is not in the shard map; lists those that are. Nothing was sent.
            Refused: it is larger than the topic's limit; names size and limit. Nothing was sent.
            OutcomeUnknown: the log did not answer in time. Publish the same fact again; a repeated one is ignored.
        """
        return (await self.publish_all([fact]))[0]

    async def publish_all(self, facts: Sequence[Fact]) -> list[int]:
        """As `publish`, for several; every one is checked before the first is sent. Facts of one shard stay in order."""
        shards = [self.shard_of(getattr(fact, "instance", self._instance)) for fact in facts]
        records = [record_of(fact) for fact in facts]
        for shard in dict.fromkeys(shards):
            await self._note_ends(shard)
        lanes = [self._lane(shard) for shard in shards]
        waiting = [lane.put(record) for lane, record in zip(lanes, records, strict=True)]
        for fact in facts:
            if isinstance(fact, ActionQueued) and fact.attached:
                self._attendance.note_queued(fact.instance, fact.client_operation_id)
        return list(await asyncio.gather(*waiting))

    def _put_behind(self, facts: list[Fact]) -> list[asyncio.Future[int]]:
        """Publish keepalives without waiting for them."""
        return [
            self._lane(self.shard_of(getattr(fact, "instance", self._instance))).put(record_of(fact)) for fact in facts
        ]

    async def publish_record(self, shard: int, record: Outgoing) -> int:
        """Publish a record as it is, unchecked: the decider answers an invalid one with FactRejected and a dead letter."""
        self._map()
        return await self._lane(shard).put(record)

    def _lane(self, shard: int) -> _Lane:
        if shard not in self._lanes:
            self._lanes[shard] = _Lane(self._log, shard, self._timeout_s)
        return self._lanes[shard]

    async def queue(
        self,
        *,
        argv: Sequence[str] = (),
        env: Mapping[str, str | Secret] | None = None,
        inputs: Iterable[Digest] = (),
        requirements: Mapping[str, str | int] | None = None,
        priority: int = 0,
        timeout_us: int = 0,
        expected_duration_us: int = 0,
        client_operation_id: str | None = None,
        instance: str | None = None,
        client_id: str = "",
        invocation_id: str = "",
        attached: bool = False,
        action_digest: Digest = NO_DIGEST,
        cacheable: bool = False,
        skip_cache_lookup: bool = False,
        queued_at_us: int = 0,
        target_id: str = "",
        mnemonic: str = "",
    ) -> str:
        """Queue an action; returns its `client_operation_id`, made here (uuid4) where none is given.

        Args:
            argv: the command; a worker runs it without a shell.
            env: its environment; a `Secret` is resolved by the worker.
            inputs: blobs that it reads, for workers with a directory of blobs; `streams.digests.digest_named` reads what
                `headway blobs put` prints.
            requirements: what it asks of a worker: `cpu_millis`, `memory_kib`, and what the instance's configuration names.
            priority: higher first.
            timeout_us: when the worker stops it; 0, never.
            expected_duration_us: how long it is thought to take; 0, unknown.
            queued_at_us: since when it waits, microseconds since 1970; 0, since the log has it.
            attached: end it when no client waits for it any more; then call `wait` within `client_action_timeout_s`.

        Raises as `publish`. After OutcomeUnknown, call again with the `client_operation_id` of your own that you gave.
        """
        name = str(uuid.uuid4()) if client_operation_id is None else client_operation_id
        variables = [
            (key, "", value.name) if isinstance(value, Secret) else (key, value, "")
            for key, value in sorted((env or {}).items())
        ]
        asked = [(key, str(value)) for key, value in (requirements or {}).items()]
        digests = list(inputs)
        fact = ActionQueued(
            instance=self._instance if instance is None else instance,
            client_operation_id=name,
            requirements=canonical_requirements(asked),
            priority=priority,
            queued_at_us=queued_at_us,
            client_id=client_id,
            invocation_id=invocation_id,
            attached=attached,
            action_digest=action_digest,
            cacheable=cacheable,
            skip_cache_lookup=skip_cache_lookup,
            timeout_us=timeout_us,
            expected_duration_us=expected_duration_us,
            command=command_bytes(argv, variables, digests) if argv or variables or digests else b"",
            target_id=target_id,
            mnemonic=mnemonic,
        )
        await self.publish(fact)
        return name

    async def cancel(self, client_operation_id: str, *, instance: str | None = None) -> int:
        """Cancel an operation; returns the fact's offset. Raises as `publish`."""
        return await self.publish(
            CancelRequested(self._instance if instance is None else instance, client_operation_id=client_operation_id)
        )

    async def set_priority(self, client_operation_id: str, priority: int, *, instance: str | None = None) -> int:
        """Give an operation another priority; returns the fact's offset. Raises as `publish`."""
        name = self._instance if instance is None else instance
        return await self.publish(PriorityRequested(name, client_operation_id=client_operation_id, priority=priority))

    # -- endings --------------------------------------------------------------------------------------------------------

    async def wait(
        self,
        client_operation_id: str,
        *,
        timeout_s: float | None = None,
        instance: str | None = None,
        attached: bool | None = None,
    ) -> Finished:
        """How an operation ended, as soon as it has.

        It is read from the placements that came after this publisher first used the shard. An operation that ended before is
        never seen to end; ask the state table for that one. The last 100,000 endings stay known.

        While it waits for an attached operation, the log hears every `heard_every_s` that the client is there. Cancelling the wait
        (an `asyncio.timeout` around it does) or leaving the publisher during it publishes `ClientGone`: without another client
        the operation is ended at once. After StillWaiting nothing is said; wait again within `client_action_timeout_s`.

        Args:
            attached: whether it was queued as attached; None, whether this publisher did so. True is for a client that comes back
                in another process.

        Raises:
            StillWaiting: it had not ended within `timeout_s`.
            NotQueued: its fact was rejected by the decider, which says why.
            OffsetTrimmed, UnreadablePlacement: as reading placements does.
        """
        name = self._instance if instance is None else instance
        shard = self.shard_of(name)
        await self._note_ends(shard)
        if shard not in self._endings:
            self._endings[shard] = Endings(self._log, shard, self._since[shard])
        endings = self._endings[shard]
        if attached is None:
            attached = self._attendance.is_attached(name, client_operation_id)
        if not attached or endings.knows(name, client_operation_id):
            return await endings.wait(name, client_operation_id, timeout_s)
        self._attendance.begin(name, client_operation_id)
        ended = left = False
        try:
            finished = await endings.wait(name, client_operation_id, timeout_s)
            ended = True
            return finished
        except NotQueued:
            ended = True
            raise
        except asyncio.CancelledError:
            left = True
            raise
        finally:
            self._attendance.end(name, client_operation_id, ended=ended, left=left)

    async def _note_ends(self, shard: int) -> None:
        """Remember where the shard's placements and dead letters ended before the first fact, so that `wait` may come late."""
        if shard in self._since:
            return
        partitions: list[Partition] = [(PLACEMENTS, shard), (DEAD_LETTERS, shard)]
        follower = await self._log.follow(dict.fromkeys(partitions))
        try:
            ends = {partition: await follower.end_offset(partition) for partition in partitions}
        finally:
            await follower.close()
        self._since.setdefault(shard, ends)


class _Lane:
    """The facts on their way to one shard: what is put while a batch is under way makes up the next one."""

    def __init__(self, log: Log, shard: int, timeout_s: float) -> None:
        self._log = log
        self._partition = (FACTS, shard)
        self._timeout_s = timeout_s
        self._waiting: list[tuple[Outgoing, asyncio.Future[int]]] = []
        self._sending: asyncio.Task[None] | None = None

    def put(self, record: Outgoing) -> asyncio.Future[int]:
        """The offset of `record`, once the log has it."""
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append((record, future))
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())
        return future

    async def _send(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
            try:
                offsets = await self._until_answered([record for record, _ in batch])
            except (OutcomeUnknown, LogUnavailable) as error:
                _fail(batch, error)
            except Exception as error:
                if len(batch) == 1:
                    _fail(batch, error)
                else:
                    # One record that is refused must not take the others with it: they go alone, in their order.
                    for each in batch:
                        await self._send_one(each)
            else:
                for (_, future), offset in zip(batch, offsets, strict=True):
                    _answer(future, offset)

    async def _send_one(self, waiting: tuple[Outgoing, asyncio.Future[int]]) -> None:
        try:
            offsets = await self._until_answered([waiting[0]])
        except Exception as error:
            _fail([waiting], error)
        else:
            _answer(waiting[1], offsets[0])

    async def _until_answered(self, records: list[Outgoing]) -> list[int]:
        until = time.monotonic() + self._timeout_s
        back_off_s = _FIRST_BACK_OFF_S
        while True:
            try:
                return await self._log.publish(self._partition, records)
            except (OutcomeUnknown, LogUnavailable):
                if time.monotonic() + back_off_s > until:
                    raise
            await asyncio.sleep(back_off_s)
            back_off_s = min(2 * back_off_s, _LONGEST_BACK_OFF_S)

    async def close(self) -> None:
        """Let what was put reach the log, or fail where it was put."""
        if self._sending is not None:
            await asyncio.wait([self._sending])


def _answer(future: asyncio.Future[int], offset: int) -> None:
    if not future.done():  # done: its caller was cancelled and does not wait any more
        future.set_result(offset)


def _fail(batch: Sequence[tuple[Outgoing, asyncio.Future[int]]], error: Exception) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)
