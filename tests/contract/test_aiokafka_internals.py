"""Watches every private part of aiokafka that Headway uses: a new version that changes one fails here, and says which."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.consumer import fetcher
from aiokafka.producer import message_accumulator, sender, transaction_manager
from aiokafka.producer import producer as producing
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy

from streams import aiokafka_internals
from streams.log import Outgoing, Record
from streams.topics import EVENTS
from tests.contract.backends import SPECS, KafkaBackend


def test_the_back_off_constant_exists_as_shipped_and_is_the_one_the_sender_uses() -> None:
    shipped = subprocess.run(
        [sys.executable, "-c", "from aiokafka.producer import sender; print(sender.BACKOFF_OVERRIDE)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shipped.stdout.strip() == "0.02"
    assert "return BACKOFF_OVERRIDE" in inspect.getsource(sender.AddPartitionsToTxnHandler)


def test_the_back_off_is_one_millisecond_once_the_kafka_log_is_imported() -> None:
    assert sender.BACKOFF_OVERRIDE == aiokafka_internals.TRANSACTION_BACKOFF_S == 0.001


def test_lean_records_replace_the_one_method_that_makes_consumer_records() -> None:
    assert "self._consumer_record(tp, record)" in inspect.getsource(fetcher.PartitionRecords._unpack_records)
    assert "self._records[tp] = FetchResult(" in inspect.getsource(fetcher.Fetcher._proc_fetch_request)
    assigned = [line.strip() for line in inspect.getsource(fetcher.Fetcher).splitlines() if "self._records =" in line]
    assert assigned == ["self._records = collections.OrderedDict()"]


def test_a_batch_counts_its_records_and_gives_them_to_a_builder_that_takes_them_in_this_order() -> None:
    source = inspect.getsource(message_accumulator.BatchBuilder)
    assert "self._builder.append(" in source
    assert "return self._relative_offset" in source
    taken = list(inspect.signature(_DefaultRecordBatchBuilderPy.append).parameters)
    assert taken[:6] == ["self", "offset", "timestamp", "key", "value", "headers"]


def test_sequence_numbers_and_failures_are_where_we_look_for_them() -> None:
    manager = transaction_manager.TransactionManager
    assert "self._sequence_numbers[tp]" in inspect.getsource(manager.sequence_number)
    assert "self._transaction_waiter.set_exception(exc)" in inspect.getsource(manager.fatal_error)
    batch = inspect.getsource(message_accumulator.MessageBatch.failure)
    assert "self._drain_waiter.set_exception(exception)" in batch
    accumulator = inspect.getsource(message_accumulator.MessageAccumulator)
    assert "self._batches" in accumulator
    assert "self._pending_batches" in accumulator
    assert "fail_all" in accumulator


async def test_a_producer_has_the_parts_that_abandoning_takes() -> None:
    producer = AIOKafkaProducer(bootstrap_servers="127.0.0.1:1", transactional_id="t")
    assert producer._sender.sender_task is None
    assert producer._message_accumulator is not None
    assert producer._txn_manager is not None
    assert producer._closed is False
    await aiokafka_internals.abandon(producer)
    assert producer._closed is True


def test_starting_a_producer_is_connecting_and_then_taking_the_id() -> None:
    started = [line.strip() for line in inspect.getsource(AIOKafkaProducer.start).splitlines() if "await " in line]
    assert started == ["await self.client.bootstrap()", "await self._sender.start()"]
    takes = inspect.getsource(sender.Sender._maybe_wait_for_pid)
    assert takes.index("self._find_coordinator(") < takes.index("self._do_init_pid(")
    finds = inspect.getsource(sender.Sender._find_coordinator)
    assert "return self._coordinators[coordinator_type]" in finds
    assert "group=ConnectionGroup.COORDINATION" in finds


@pytest.mark.kafka
async def test_a_lean_consumer_returns_records_and_an_ordinary_one_beside_it_does_not(kafka: str) -> None:
    backend = KafkaBackend(kafka, f"i{os.getpid()}-")
    await backend.log.ensure_topics(SPECS)
    ordinary = AIOKafkaConsumer(bootstrap_servers=kafka, auto_offset_reset="earliest")
    await ordinary.start()
    try:
        await backend.log.publish((EVENTS, 0), [Outgoing(b"v", b"k", (("h", b"1"),))])
        follower = await backend.log.follow({(EVENTS, 0): None})
        target = TopicPartition(backend.prefix + EVENTS, 0)
        ordinary.assign([target])
        ordinary.seek(target, 0)
        seen = await ordinary.getone()
        (records,) = (await follower.read(timeout_ms=10_000)).values()
        assert type(records[0]) is Record
        assert records == [Record(0, seen.timestamp * 1000, b"k", b"v", (("h", b"1"),))]
        assert type(seen).__name__ == "ConsumerRecord"
        assert aiokafka_internals.fetching_error(follower._consumer) is None
        await follower.close()
    finally:
        await ordinary.stop()
        await backend.close()


@pytest.mark.kafka
async def test_a_null_header_reads_as_empty(kafka: str) -> None:
    """Any producer may write one; None where every reader expects bytes would stop each decider of the shard."""
    backend = KafkaBackend(kafka, f"n{os.getpid()}-")
    await backend.log.ensure_topics(SPECS)
    producer = AIOKafkaProducer(bootstrap_servers=kafka)
    await producer.start()
    try:
        headers = [("content-type", None), ("h", b"1")]
        await producer.send_and_wait(backend.prefix + EVENTS, b"v", partition=0, headers=headers)
        follower = await backend.log.follow({(EVENTS, 0): None})
        (records,) = (await follower.read(timeout_ms=10_000)).values()
        assert records[0].headers == (("content-type", b""), ("h", b"1"))
        await follower.close()
    finally:
        await producer.stop()
        await backend.close()


class NoText(str):
    """A header's name as other producers may write it."""

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        return b"\xff\xfe\xc0"


@pytest.mark.kafka
@pytest.mark.parametrize("compression", [None, "gzip"])
async def test_a_header_name_that_is_no_text_stops_no_reader(
    kafka: str, compression: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka takes any bytes as a name, and aiokafka fails on it: the records around it are to be read all the same, each once."""
    backend = KafkaBackend(kafka, f"m{os.getpid()}{compression or ''}-")
    await backend.log.ensure_topics(SPECS)
    for module in (message_accumulator, producing):
        monkeypatch.setattr(module, "DefaultRecordBatchBuilder", _DefaultRecordBatchBuilderPy)
    producer = AIOKafkaProducer(bootstrap_servers=kafka, linger_ms=50, compression_type=compression)
    await producer.start()
    try:
        topic = backend.prefix + EVENTS
        sent = [
            await producer.send(topic, b"%d" % number, partition=0, headers=[(NoText() if number == 2 else "h", b"1")])
            for number in range(5)
        ]
        for written in sent:
            await written
        follower = await backend.log.follow({(EVENTS, 0): None})
        records: list[Record] = []
        while len(records) < 5:
            for found in (await follower.read(max_records=2, timeout_ms=10_000)).values():
                records += found
        assert [(record.offset, record.value) for record in records] == [(n, b"%d" % n) for n in range(5)]
        assert [record.headers[0][0] for record in records] == ["h", "h", "\\xff\\xfe\\xc0", "h", "h"]
        await follower.close()
    finally:
        await producer.stop()
        await backend.close()
