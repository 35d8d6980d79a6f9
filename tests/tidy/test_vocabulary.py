"""The wire contract and the vocabulary of the core say the same: every message, field, enum and sentence."""

import ast
import importlib
import inspect
import pkgutil
from dataclasses import fields
from enum import IntEnum
from typing import get_type_hints

import pytest
from google.protobuf.descriptor import FieldDescriptor

from events import events as e
from events import fact_rules, reasons
from events import facts as f
from events.jsonform.fact_models import FORMS
from events.reasons import sentence
from proto.gen.headway.v1 import events_pb2, facts_pb2, reasons_pb2

ENVELOPE = {"seq", "at_us", "cause_offset"}
ENUMS = {
    name: kind
    for name, kind in vars(reasons).items()
    if isinstance(kind, type) and issubclass(kind, IntEnum) and kind is not IntEnum
}
FLAT_IN_JSON = {"command": {"argv", "env", "inputs"}, "config_json": {"config"}}


def kinds_of(envelope):
    return {field.message_type.name: field.message_type for field in envelope.DESCRIPTOR.oneofs_by_name["kind"].fields}


FACTS, EVENTS = kinds_of(facts_pb2.Fact), kinds_of(events_pb2.Event)
PAIRS = [(f.FACT_KINDS[name], message) for name, message in FACTS.items() if name in f.FACT_KINDS]
PAIRS += [(e.EVENT_KINDS[name], message) for name, message in EVENTS.items() if name in e.EVENT_KINDS]


def test_facts_have_the_names_of_their_messages():
    assert set(f.FACT_KINDS) == set(FACTS)


def test_events_have_the_names_of_their_messages():
    assert set(e.EVENT_KINDS) == set(EVENTS)


@pytest.mark.parametrize(
    ("kind", "message"), PAIRS, ids=[f"{kind.__module__[7:]}-{kind.__name__}" for kind, _ in PAIRS]
)
def test_a_kind_has_the_fields_of_its_message(kind, message):
    names = {field.name for field in fields(kind)}
    if kind in e.EVENT_KINDS.values():
        assert names >= ENVELOPE
        names -= ENVELOPE
        if kind is e.LeaderElected:
            names -= {"leader_epoch"}  # the envelope's
    assert names == set(message.fields_by_name)


@pytest.mark.parametrize(
    ("kind", "message"), PAIRS, ids=[f"{kind.__module__[7:]}-{kind.__name__}" for kind, _ in PAIRS]
)
def test_a_field_is_of_the_same_nature_on_both_sides(kind, message):
    hints = get_type_hints(kind)
    for field in message.fields:
        hint = hints[field.name]
        if field.enum_type is not None:
            assert hint is ENUMS[field.enum_type.name]
        elif field.has_presence and field.message_type is None:
            assert hint == int | None
        elif field.is_repeated and field.type == FieldDescriptor.TYPE_STRING:
            assert hint == tuple[str, ...]
        elif field.type == FieldDescriptor.TYPE_STRING:
            assert hint is str
        elif field.type == FieldDescriptor.TYPE_BOOL:
            assert hint is bool
        elif field.message_type is None and not field.is_repeated and field.type != FieldDescriptor.TYPE_BYTES:
            assert hint is int


def test_nothing_that_feeds_state_is_a_float_or_a_map():
    def walk(message, seen):
        if message.full_name in seen:
            return
        seen[message.full_name] = None
        for field in message.fields:
            where = f"{message.full_name}.{field.name}"
            assert field.type not in (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE), where
            if field.message_type is not None:
                assert not field.message_type.GetOptions().map_entry, where
                walk(field.message_type, seen)

    seen = {}
    for envelope in (facts_pb2.Fact, events_pb2.Event):
        walk(envelope.DESCRIPTOR, seen)
    assert len(seen) > len(FACTS)


def test_reasons_are_the_enums_of_the_contract():
    assert set(ENUMS) == set(reasons_pb2.DESCRIPTOR.enum_types_by_name)


@pytest.mark.parametrize("name", sorted(ENUMS))
def test_a_reason_has_the_values_of_the_contract_and_a_sentence_each(name):
    enum = reasons_pb2.DESCRIPTOR.enum_types_by_name[name]
    prefix = enum.values_by_number[0].name.removesuffix("UNSPECIFIED")
    assert {value.name.removeprefix(prefix): value.number for value in enum.values} == {
        value.name: value.value for value in ENUMS[name]
    }
    for value in ENUMS[name]:
        said = sentence(value)
        if value == 0:
            assert said == ""
        else:
            assert said.endswith("."), value
            assert said[0].isupper() or said[0] == "'", value


@pytest.mark.parametrize("name", sorted(f.FACT_KINDS))
def test_a_fact_has_the_same_fields_in_json(name):
    due = {field.name for field in fields(f.FACT_KINDS[name])} | {"kind"}
    for field, flat in FLAT_IN_JSON.items():
        if field in due:
            due = due - {field} | flat
    assert set(FORMS[name].model_fields) == due


@pytest.mark.parametrize("name", sorted(f.FACT_KINDS))
def test_every_text_number_and_list_of_a_fact_has_a_rule(name):
    kind = f.FACT_KINDS[name]
    hints = get_type_hints(kind)
    free = {field.name for field in fields(kind) if hints[field.name] is bool}
    # Any value of its enum, none included; when an outcome is due is a rule of two fields.
    free |= {field.name for field in fields(kind) if field.name in ("reason", "outcome")}
    assert set(fact_rules.RULES[kind]) == {field.name for field in fields(kind)} - free


def test_every_class_of_the_vocabulary_is_in_its_union():
    parts = [e, *(importlib.import_module(f"{e.__name__}.{part.name}") for part in pkgutil.iter_modules(e.__path__))]
    for modules, kinds, others in (([f], f.FACT_KINDS, {"Unreadable"}), (parts, e.EVENT_KINDS, set())):
        trees = [ast.parse(inspect.getsource(module)) for module in modules]
        classes = {node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)}
        assert classes == set(kinds) | others
    assert set(e.__all__) == set(e.EVENT_KINDS) | {"Event", "EVENT_KINDS"}
