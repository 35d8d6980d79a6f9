"""Whatever field of whatever event is changed, with a whole chain, it is found where it stands; and no change makes the audit fail.

Rerun one by its seed: `pytest tests/verify/test_any_field.py -k '[7]'`.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor

from tests.verify.forging import audit, forged, parsed, told, walked

CHANGES = 30

NOT_RECOMPUTED = {
    ("leader_elected", "build"),
    ("leader_elected", "cluster_id"),
    ("leader_elected", "facts_topic_id"),
    ("leader_elected", "events_topic_id"),
    ("leader_elected", "facts_end"),
    ("operation_finished", "message"),
    ("operation_finished", "stdout_tail"),
    ("operation_finished", "stderr_tail"),
    ("operation_requeued", "message"),
    ("fact_rejected", "rule"),
    ("fact_rejected", "field"),
    ("fact_rejected", "value"),
    ("operation_dispatched", "saved_bytes"),
}
"""What a leader says of itself and its log, words, and bytes that only holders know (infra/docs/verifying.md)."""


def changed(field: FieldDescriptor, value: Any, rng: random.Random) -> Any:
    """Another value of the field's type."""
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return value + ("x" if field.type == FieldDescriptor.TYPE_STRING else b"x")
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return not value
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        return rng.choice([number for number in field.enum_type.values_by_number if number != value])
    return value + 1


@pytest.mark.parametrize("seed", range(300, 312))
def test_a_changed_field_is_found_where_it_stands(seed):
    history, rng = walked(seed, 200), random.Random(seed)
    messages = parsed(history)
    tried = 0
    while tried < CHANGES:
        at = rng.randrange(len(messages))
        kind = messages[at].WhichOneof("kind")
        fields = [
            field
            for field in getattr(messages[at], kind).DESCRIPTOR.fields
            if not field.is_repeated and field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE
        ]
        if not fields:
            continue
        field = rng.choice(fields)
        tried += 1

        def change(messages: list[Any], at: int, kind: str = kind, field: FieldDescriptor = field) -> None:
            payload = getattr(messages[at], kind)
            setattr(payload, field.name, changed(field, getattr(payload, field.name), rng))

        found = audit(forged(history, at, change))
        where = f"seed {seed}: {kind}.{field.name} of event {at + 1}"
        if (kind, field.name) not in NOT_RECOMPUTED:
            assert found.findings, f"{where} is not noticed"
            assert found.findings[0].seq == at + 1, f"{where}: {told(found)[:2]}"
