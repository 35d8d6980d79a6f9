"""Topics and records through a real client, for the tests of the broker."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

DEADLINE_S = 60


async def create_topic(bootstrap_servers: str, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    try:
        answer = await admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])
        assert [error[1] for error in answer.topic_errors] == [0], answer
    finally:
        await admin.close()


async def topics(bootstrap_servers: str) -> set[str]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    try:
        return set(await admin.list_topics())
    finally:
        await admin.close()


async def write(bootstrap_servers: str, topic: str, values: Sequence[bytes], *, timeout_ms: int = 40_000) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers, request_timeout_ms=timeout_ms)
    await producer.start()
    try:
        for value in values:
            await producer.send_and_wait(topic, value)
    finally:
        await producer.stop()


async def write_in_transaction(bootstrap_servers: str, topic: str, value: bytes, *, commit: bool) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers, transactional_id=f"{topic}-writer")
    await producer.start()
    try:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, value)
        if commit:
            await producer.commit_transaction()
        else:
            await producer.abort_transaction()
    finally:
        await producer.stop()


async def read(bootstrap_servers: str, topic: str, *, isolation_level: str = "read_committed") -> list[bytes]:
    """Return every value up to the end that the topic had at the call."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap_servers, isolation_level=isolation_level, enable_auto_commit=False
    )
    await consumer.start()
    try:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        end = (await consumer.end_offsets([partition]))[partition]
        values: list[bytes] = []
        async with asyncio.timeout(DEADLINE_S):
            while await consumer.position(partition) < end:
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    values += [record.value for record in records]
        return values
    finally:
        await consumer.stop()
