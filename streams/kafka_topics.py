"""Topics and identities of a Kafka cluster over aiokafka's admin client, and two requests it does not have.

`Metadata` version 12 carries topic ids (KIP-516), without which nobody sees that a topic was deleted and made again.
`IncrementalAlterConfigs` changes single settings; the older request resets every setting that it does not name.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from io import BytesIO
from typing import Any, TypeVar

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaConnectionError, KafkaError, OffsetOutOfRangeError, for_code
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Array,
    Boolean,
    CompactArray,
    CompactString,
    Int8,
    Int16,
    Int32,
    Schema,
    String,
    TaggedFields,
)

from streams.errors import LogUnavailable, NoSuchPartition, NoSuchTopic
from streams.log import Partition
from streams.topics import TopicChange, TopicSpec, TopicState, topic_change, topic_settings

_TOPIC_ALREADY_EXISTS = 36
_UNKNOWN_TOPIC = 3
_MOST_REPLICAS = 3
_POLL_S = 0.02

Answer = TypeVar("Answer")


class _Uuid:
    """The protocol's uuid: sixteen raw bytes."""

    @classmethod
    def encode(cls, value: uuid.UUID) -> bytes:
        return value.bytes

    @classmethod
    def decode(cls, data: BytesIO) -> uuid.UUID:
        return uuid.UUID(bytes=data.read(16))

    @classmethod
    def repr(cls, value: uuid.UUID) -> str:
        return str(value)


class _MetadataResponse(Response):
    API_KEY = 3
    API_VERSION = 12
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32),
                ("host", CompactString("utf-8")),
                ("port", Int32),
                ("rack", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_id", CompactString("utf-8")),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("name", CompactString("utf-8")),
                ("topic_id", _Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader_id", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _MetadataStruct(RequestStruct):
    FLEXIBLE_VERSION = True
    API_KEY = 3
    API_VERSION = 12
    RESPONSE_TYPE = _MetadataResponse
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", _Uuid), ("name", CompactString("utf-8")), ("tags", TaggedFields))),
        ("allow_auto_topic_creation", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class _Metadata(Request[_MetadataStruct]):
    """Asks for all topics with their ids; never creates one."""

    API_KEY = 3

    def build(self, request_struct_class: type[_MetadataStruct]) -> _MetadataStruct:
        return request_struct_class(None, False, False, {})


class _IncrementalAlterConfigsResponse(Response):
    API_KEY = 44
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "responses",
            Array(
                ("error_code", Int16),
                ("error_message", String("utf-8")),
                ("resource_type", Int8),
                ("resource_name", String("utf-8")),
            ),
        ),
    )


class _IncrementalAlterConfigsStruct(RequestStruct):
    API_KEY = 44
    API_VERSION = 0
    RESPONSE_TYPE = _IncrementalAlterConfigsResponse
    SCHEMA = Schema(
        (
            "resources",
            Array(
                ("resource_type", Int8),
                ("resource_name", String("utf-8")),
                ("configs", Array(("name", String("utf-8")), ("operation", Int8), ("value", String("utf-8")))),
            ),
        ),
        ("validate_only", Boolean),
    )


class _IncrementalAlterConfigs(Request[_IncrementalAlterConfigsStruct]):
    """Sets (operation 0) the named settings of one topic and leaves the others alone."""

    API_KEY = 44

    def __init__(self, topic: str, settings: dict[str, str]) -> None:
        self._resource = (ConfigResourceType.TOPIC, topic, [(name, 0, value) for name, value in settings.items()])

    def build(self, request_struct_class: type[_IncrementalAlterConfigsStruct]) -> _IncrementalAlterConfigsStruct:
        return request_struct_class([self._resource], False)


def _never_connected(error: KafkaError) -> bool:
    """No address of the list answers: someone who mistyped one should not wait for the deadline to hear it."""
    return isinstance(error, KafkaConnectionError) and "bootstrap" in str(error)


class KafkaTopics:
    """What a cluster knows about its topics. Names carry no prefix on the outside; connects at the first question."""

    def __init__(self, bootstrap_servers: str, *, prefix: str, client_id: str, timeout_ms: int) -> None:
        self._address = bootstrap_servers
        self._prefix = prefix
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._admin: AIOKafkaAdminClient | None = None
        self._known: dict[str, TopicState] = {}
        self._connecting = asyncio.Lock()

    async def ask(self, what: str, question: Callable[[], Awaitable[Answer]]) -> Answer:
        """Awaits an answer for at most the log's timeout; every way of not getting one becomes LogUnavailable.

        A connection that broke (a broker restarted) is made again and the question repeated: all of them bear it.
        """
        because = ""
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                while True:
                    try:
                        return await question()
                    except KafkaError as error:
                        because = str(error) or type(error).__name__
                        if not error.retriable or _never_connected(error):
                            raise
                    await asyncio.sleep(_POLL_S)
        except (TimeoutError, KafkaError) as error:
            raise LogUnavailable(what, address=self._address, waited_ms=self._timeout_ms, because=because) from error

    async def _connected(self) -> AIOKafkaAdminClient:
        async with self._connecting:
            if self._admin is None:
                admin = AIOKafkaAdminClient(
                    bootstrap_servers=self._address,
                    client_id=self._client_id,
                    request_timeout_ms=self._timeout_ms,
                    retry_backoff_ms=5,
                )
                try:
                    await admin.start()
                except BaseException:
                    await admin.close()
                    raise
                self._admin = admin
            return self._admin

    async def _metadata(self) -> Any:
        admin = await self._connected()
        return await admin._send_request(_Metadata())

    async def cluster_id(self) -> str:
        """See `Log.cluster_id`."""
        answer = await self.ask("ask the cluster id", self._metadata)
        return str(answer.cluster_id)

    async def topic_id(self, topic: str) -> str:
        """See `Log.topic_id`. Asked anew each time, and nothing else with it: a takeover waits for the answer."""
        answer = await self.ask(f"ask the id of {topic}", self._metadata)
        ids = {
            str(name).removeprefix(self._prefix): str(topic_id)
            for _error, name, topic_id, *_ in answer.topics
            if str(name).startswith(self._prefix)
        }
        if topic not in ids:
            raise NoSuchTopic(topic, ids)
        return ids[topic]

    async def describe(self) -> dict[str, TopicState]:
        """See `Log.describe_topics`."""
        return await self.ask("describe topics", self._describe)

    async def _describe(self) -> dict[str, TopicState]:
        metadata = await self._metadata()
        shapes: dict[str, tuple[str, int]] = {}
        for _error, name, topic_id, internal, partitions, *_ in metadata.topics:
            if name is not None and name.startswith(self._prefix) and not internal and not name.startswith("__"):
                shapes[name] = (str(topic_id), len(partitions))
        if not shapes:
            self._known = {}
            return {}
        admin = await self._connected()
        resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in shapes]
        states: dict[str, TopicState] = {}
        for answer in await admin.describe_configs(resources):
            for code, message, _kind, name, entries in answer.resources:
                if code == _UNKNOWN_TOPIC:
                    continue  # deleted since the metadata were read
                if code:
                    raise for_code(code)(message)
                plain = name.removeprefix(self._prefix)
                states[plain] = TopicState(plain, *shapes[name], {entry[0]: entry[1] or "" for entry in entries})
        self._known = dict(sorted(states.items()))
        return self._known

    async def state(self, topic: str, *, fresh: bool = False) -> TopicState:
        """One topic, from memory when it was described before and `fresh` is not set.

        Raises:
            NoSuchTopic: it does not exist.
        """
        if fresh or topic not in self._known:
            await self.describe()
        if topic not in self._known:
            raise NoSuchTopic(topic, self._known)
        return self._known[topic]

    async def check(self, partitions: Iterable[Partition]) -> None:
        """Raises NoSuchTopic or NoSuchPartition for the first that does not exist; asks again before it says so."""
        for topic, number in partitions:
            if not 0 <= number < (await self.state(topic)).partitions:
                count = (await self.state(topic, fresh=True)).partitions
                if not 0 <= number < count:
                    raise NoSuchPartition((topic, number), count)

    async def ensure(self, specs: Sequence[TopicSpec]) -> list[str]:
        """See `Log.ensure_topics`. New topics get three replicas, or as many as there are brokers."""
        existing = await self.describe()
        # All changes are found before the first is made: a conflict leaves everything as it was.
        changes = [change for spec in specs if (change := topic_change(spec, existing.get(spec.name))).action != "keep"]
        if changes:
            await self.ask("create and alter topics", lambda: self._carry_out(changes))
        return [line for change in changes for line in change.lines()]

    async def _carry_out(self, changes: Sequence[TopicChange]) -> None:
        admin = await self._connected()
        replicas = min(_MOST_REPLICAS, len((await self._metadata()).brokers))
        created = [
            NewTopic(
                self._prefix + change.spec.name,
                change.spec.partitions,
                replicas,
                topic_configs=topic_settings(change.spec),
            )
            for change in changes
            if change.action == "create"
        ]
        if created:
            answer = await admin.create_topics(created, timeout_ms=self._timeout_ms)
            for name, code, *rest in answer.topic_errors:
                # Another process that applies the same table at the same time is no error.
                if code not in (0, _TOPIC_ALREADY_EXISTS):
                    raise for_code(code)(f"could not create topic {name!r}: {rest[0] if rest else ''}")
        for change in changes:
            name = self._prefix + change.spec.name
            if change.action == "alter" and change.partitions is not None:
                await admin.create_partitions({name: NewPartitions(change.partitions[1])}, timeout_ms=self._timeout_ms)
            if change.action == "alter" and change.settings:
                wanted = {setting: to for setting, (_from, to) in change.settings.items()}
                answer = await admin._send_request(_IncrementalAlterConfigs(name, wanted))
                for code, message, *_ in answer.responses:
                    if code:
                        raise for_code(code)(f"could not alter topic {name!r}: {message}")
        await self._wait_until([change.spec for change in changes])

    async def _wait_until(self, specs: Sequence[TopicSpec]) -> None:
        """A broker answers before its metadata show the change; whoever follows at once would not find the topic."""
        while True:
            states = await self._describe()
            if all(spec.name in states and topic_change(spec, states[spec.name]).action == "keep" for spec in specs):
                return
            await asyncio.sleep(_POLL_S)

    async def trim(self, partition: Partition, before: int) -> bool:
        """Removes the records below `before`; False when that lies past the log's end."""
        await self.check([partition])
        target = TopicPartition(self._prefix + partition[0], partition[1])

        async def delete() -> bool:
            admin = await self._connected()
            try:
                await admin.delete_records({target: RecordsToDelete(before)}, timeout_ms=self._timeout_ms)
            except OffsetOutOfRangeError:
                return False
            return True

        return await self.ask(f"trim {partition[0]}[{partition[1]}]", delete)

    async def close(self) -> None:
        """Closes the connection."""
        if self._admin is not None:
            await self._admin.close()
            self._admin = None
