"""The two logs behind one face: what a contract test needs beyond the seam itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from streams.errors import OutcomeUnknown
from streams.kafka_log import KafkaLog
from streams.log import Log, Outgoing, Partition
from streams.memory_log import MemoryLog
from streams.topics import DEAD_LETTERS, EVENTS, FACTS, PLACEMENTS, SHARDS, TOPICS, TopicSpec

SPECS: tuple[TopicSpec, ...] = tuple(
    replace(spec, partitions=1 if spec.name == SHARDS else 2)
    for spec in TOPICS
    if spec.name in (FACTS, EVENTS, PLACEMENTS, DEAD_LETTERS, SHARDS)
)


class MemoryBackend:
    """A `MemoryLog`; every client of it is the same object."""

    def __init__(self) -> None:
        self.log = MemoryLog()

    async def second_client(self) -> Log:
        return self.log

    async def leave_open(self, transactional_id: str, batches: Mapping[Partition, Sequence[Outgoing]]) -> None:
        """A writer that dies in the middle: its records are sent, its transaction never ends."""
        writer = await self.log.open(transactional_id)
        self.log.fail_next_append(OutcomeUnknown, committed=None, transactional_id=transactional_id)
        with pytest.raises(OutcomeUnknown):
            await writer.append(batches)

    async def close(self) -> None:
        await self.log.close()


class KafkaBackend:
    """A `KafkaLog` with topics of its own on a shared broker."""

    def __init__(self, bootstrap_servers: str, prefix: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self.prefix = prefix
        self.log = KafkaLog(bootstrap_servers, prefix=prefix)
        self._clients: list[KafkaLog] = [self.log]
        self._dead: list[AIOKafkaProducer] = []

    async def second_client(self) -> Log:
        client = KafkaLog(self._bootstrap_servers, prefix=self.prefix)
        self._clients.append(client)
        return client

    async def leave_open(self, transactional_id: str, batches: Mapping[Partition, Sequence[Outgoing]]) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap_servers, transactional_id=self.prefix + transactional_id
        )
        self._dead.append(producer)
        await producer.start()
        await producer.begin_transaction()
        for (topic, partition), records in batches.items():
            for record in records:
                await producer.send_and_wait(
                    self.prefix + topic, record.value, key=record.key, partition=partition, headers=list(record.headers)
                )

    async def close(self) -> None:
        names = [self.prefix + topic for topic in await self.log.describe_topics()]
        for producer in self._dead:
            await producer.stop()
        for client in self._clients:
            await client.close()
        admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap_servers)
        await admin.start()
        try:
            await admin.delete_topics(names)
        finally:
            await admin.close()


Backend = MemoryBackend | KafkaBackend
