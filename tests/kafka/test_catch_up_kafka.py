"""The direct reader when the broker is away: it says so, comes back, and ends nobody's task on the way."""

from __future__ import annotations

import asyncio
import itertools
import os

import pytest

from projections.rows import MemoryRows
from projections.table import Table
from streams.catch_up import ShardReader
from streams.errors import LogUnavailable
from streams.kafka_log import KafkaLog
from tests.contract.cuttable import wire_to
from tests.kafka.read_side import Shards

pytestmark = pytest.mark.kafka

_numbers = itertools.count()


async def test_a_reader_outlives_an_outage_of_the_broker(kafka: str) -> None:
    shards = Shards(kafka, f"u{os.getpid()}-{next(_numbers)}-")
    await shards.start()
    await shards.write(50)
    async with wire_to(kafka) as wire:
        log = KafkaLog(wire.address, prefix=shards.prefix, timeout_ms=1_500)
        reader = ShardReader(log, Table(MemoryRows(), 0))
        try:
            await reader.catch_up()
            assert await reader.behind() == 0
            wire.cut()
            await shards.write(50)
            with pytest.raises(LogUnavailable):
                await reader.behind()
            # A fetch is in flight and will not be answered; closing it once cancelled whoever closed.
            await asyncio.ensure_future(reader.forget_connection())
            wire.mend()
            wire.drop()
            async with asyncio.timeout(30):
                while reader.table.shard.seq < shards.seq():
                    try:
                        await reader.catch_up()
                    except LogUnavailable:
                        await asyncio.ensure_future(reader.forget_connection())
            assert isinstance(reader.table.rows, MemoryRows)
            rows = {key.hex(): value.hex() for key, value in reader.table.rows.by_key.items()}
            assert rows == await shards.replayed()
        finally:
            await reader.close()
            await log.close()
            await shards.close()


async def test_closing_a_reader_whose_broker_is_gone_does_not_cancel_the_caller(kafka: str) -> None:
    shards = Shards(kafka, f"u{os.getpid()}-{next(_numbers)}-")
    await shards.start()
    await shards.write(50)
    try:
        for _ in range(5):  # it depends on whether the fetch waits or is between two attempts
            async with wire_to(kafka) as wire:
                log = KafkaLog(wire.address, prefix=shards.prefix, timeout_ms=1_500)
                reader = ShardReader(log, Table(MemoryRows(), 0))
                await reader.catch_up()
                leading = asyncio.ensure_future(reader.lead(1.0))
                await wire.stop()
                with pytest.raises(LogUnavailable):
                    await reader.behind()
                await asyncio.wait({leading})
                await reader.forget_connection()
                await log.close()
    finally:
        await shards.close()
