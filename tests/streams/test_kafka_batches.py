"""Batches hold every record as aiokafka would have put it, none is larger than its topic takes, and what no topic takes is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from aiokafka.producer.message_accumulator import BatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from streams import kafka_batches
from streams.errors import Refused
from streams.kafka_batches import MAX_BATCH_BYTES, build_batches
from streams.log import Outgoing, batch_of_one_bytes
from streams.topics import PLACEMENTS, TopicState, topic_settings, topic_table

AT = (PLACEMENTS, 0)
TIMESTAMP_MS = 1_700_000_000_000

headers = st.lists(st.tuples(st.text(max_size=20), st.binary(max_size=30)), max_size=4).map(tuple)
records = st.lists(
    st.builds(Outgoing, st.binary(max_size=200), st.none() | st.binary(max_size=20), headers), min_size=1
)


def topic(max_message_bytes: int = 4 << 20, *, cleanup_policy: str = "delete") -> TopicState:
    spec = next(spec for spec in topic_table(1) if spec.name == PLACEMENTS)
    spec = replace(spec, max_message_bytes=max_message_bytes, cleanup_policy=cleanup_policy)
    return TopicState(PLACEMENTS, "id", 1, topic_settings(spec))


def create(size_bytes: int = MAX_BATCH_BYTES) -> BatchBuilder:
    return BatchBuilder(size_bytes, 0, is_transactional=1)


def content(batch: BatchBuilder) -> bytes:
    return bytes(batch._build())


def appended(given: list[Outgoing], *, size_bytes: int = MAX_BATCH_BYTES) -> BatchBuilder:
    """The records by aiokafka's own method."""
    batch = create(size_bytes)
    for value, key, named in given:
        assert batch.append(timestamp=TIMESTAMP_MS, key=key, value=value, headers=list(named)) is not None
    batch.close()
    return batch


@given(records)
def test_a_batch_is_byte_for_byte_what_aiokafka_appends(given: list[Outgoing]) -> None:
    (batch,) = build_batches(create, AT, topic(), given, TIMESTAMP_MS)
    assert batch.closed()
    assert batch.record_count() == len(given)
    assert content(batch) == content(appended(given))


@given(records, st.integers(120, 700))
def test_full_batches_are_followed_by_others_and_no_record_is_lost_between_them(
    given: list[Outgoing], size_bytes: int
) -> None:
    batches = build_batches(lambda: create(size_bytes), AT, topic(), given, TIMESTAMP_MS)
    counts = [batch.record_count() for batch in batches]
    assert sum(counts) == len(given)
    assert min(counts) > 0
    at = 0
    for batch, count in zip(batches, counts, strict=True):
        assert content(batch) == content(appended(given[at : at + count]))
        at += count


@given(records, st.integers(70, 900))
def test_what_is_built_is_within_the_limit_of_its_topic_and_refused_where_one_record_is_not(
    given: list[Outgoing], limit_bytes: int
) -> None:
    if max(map(batch_of_one_bytes, given)) > limit_bytes:
        with pytest.raises(Refused, match=f"is over the limit of {limit_bytes} bytes"):
            build_batches(create, AT, topic(limit_bytes), given, TIMESTAMP_MS)
        return
    batches = build_batches(create, AT, topic(limit_bytes), given, TIMESTAMP_MS)
    assert sum(batch.record_count() for batch in batches) == len(given)
    assert all(batch.size() <= limit_bytes for batch in batches)


def test_one_large_record_has_a_batch_of_its_own_and_is_refused_only_beyond_its_topic() -> None:
    large = Outgoing(bytes(2 * MAX_BATCH_BYTES))
    small = Outgoing(b"small")
    batches = build_batches(create, AT, topic(), [small, large, small], TIMESTAMP_MS)
    assert [batch.record_count() for batch in batches] == [1, 1, 1]
    with pytest.raises(Refused, match="2000074 bytes is over the limit of 1048576 bytes"):
        build_batches(create, AT, topic(1 << 20), [small, large, small], TIMESTAMP_MS)


def test_a_compacted_topic_takes_no_record_without_a_key() -> None:
    compacted = topic(cleanup_policy="compact")
    build_batches(create, AT, compacted, [Outgoing(b"v", b"k")], TIMESTAMP_MS)
    with pytest.raises(Refused, match="no record without a key"):
        build_batches(create, AT, compacted, [Outgoing(b"v", b"k"), Outgoing(b"v")], TIMESTAMP_MS)


def test_records_that_fit_together_are_not_weighed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    weighed = []
    monkeypatch.setattr(kafka_batches, "check_records", lambda *_, **__: weighed.append(1))
    many = [Outgoing(bytes(100), b"key")] * 1_000
    build_batches(create, AT, topic(), many, TIMESTAMP_MS)
    assert not weighed
    build_batches(create, AT, topic(), many * 10, TIMESTAMP_MS)
    assert weighed
