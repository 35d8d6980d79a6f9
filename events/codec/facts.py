"""Fact records: what stands in headway.facts.v1, protobuf or JSON."""

import threading
from typing import Any

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from events.codec import hot_facts
from events.codec.fields import FieldUnreadable, Mapping, mappings
from events.errors import InvalidFact
from events.fact_rules import check_fact, unreadable
from events.facts import FACT_KINDS, ActionQueued, Fact, WorkerConnected
from events.jsonform import fact_from_json, json_key, json_object
from events.payloads import canonical_requirements
from proto.gen.headway.v1 import facts_pb2

Headers = tuple[tuple[str, bytes], ...]

CONTENT_TYPE = "content-type"
JSON_CONTENT_TYPE = b"application/json"

_BY_ONEOF: dict[str, Mapping] = mappings(FACT_KINDS.values(), facts_pb2.Fact)
_BY_KIND: dict[type, Mapping] = {mapping.kind: mapping for mapping in _BY_ONEOF.values()}

USES = 4096
"""Records for which messages are reused before new ones are made."""

_LENGTH_DELIMITED = 2
_parse = facts_pb2.Fact.FromString


def key_text(key: bytes | None) -> str:
    """A fact record's key as the core takes it; empty for none."""
    return key.decode(errors="replace") if key else ""


class FactCodec:
    """Makes records of facts and reads them. It reuses messages, so it belongs to one thread; the functions keep one per thread.

    A message keeps the memory of every text that was ever set in it until it is let go, so after `USES` records there are new ones.
    """

    __slots__ = ("_known", "_left", "_read", "_write")

    def __init__(self) -> None:
        self._known = hot_facts.KnownRequirements()
        self._read = hot_facts.readers(self._known)
        self._renew()

    def _renew(self) -> None:
        self._left = USES
        self._write = hot_facts.writers(self._known)

    def encode(self, fact: Fact) -> bytes:
        """See `encode_fact`."""
        self._left -= 1
        if not self._left:
            self._renew()
        write = self._write.get(type(fact), plain_record)
        try:
            return write(fact)
        except ValueError:
            check_fact(fact)  # a number its type cannot hold: this says which
            raise

    def decode(self, value: bytes, headers: Headers = ()) -> Fact:
        """See `decode_fact`."""
        if headers and is_json(headers):
            return _from_json(value)
        try:
            message = _parse(value)
        except DecodeError:
            rule = "a record is a protobuf Fact, or JSON with the header 'content-type: application/json'"
            return unreadable(InvalidFact("", "", _excerpt(value), rule))
        name = message.WhichOneof("kind")
        if name is None:
            return unreadable(_no_kind(message, value))
        try:
            read = self._read.get(name)
            if read is not None:
                fact = read(message, len(value))
                if fact is not None:
                    return fact
            return plain_fact(message, name)
        except InvalidFact as error:
            part = getattr(message, name)
            key = getattr(part, "client_operation_id", "") or getattr(part, "endpoint", "") or getattr(part, "key", "")
            return unreadable(error, getattr(part, "instance", ""), key)


class _PerThread(threading.local):
    def __init__(self) -> None:
        self.codec = FactCodec()


_per_thread = _PerThread()


def encode_fact(fact: Fact) -> bytes:
    """The protobuf record of a fact.

    Raises:
        InvalidFact: it breaks a rule of the wire contract; no decider would take it.
        TypeError: an `Unreadable`, which has no record.
    """
    return _per_thread.codec.encode(fact)


def decode_fact(value: bytes, headers: Headers = ()) -> Fact:
    """The fact in a record; never raises: what is no valid fact comes back as `Unreadable`, so that it too yields an event.

    A record with the header `content-type: application/json` is read as JSON, any other as protobuf.
    """
    return _per_thread.codec.decode(value, headers)


def plain_record(fact: Fact) -> bytes:
    """The record made field by field from the tables: the form of the kinds that are rare. Raises as `encode_fact`."""
    check_fact(fact)
    message = facts_pb2.Fact()
    _BY_KIND[type(fact)].fill(message, fact)
    data: bytes = message.SerializeToString(deterministic=True)
    return data


def plain_fact(message: Any, name: str) -> Fact:
    """The fact in a parsed message of oneof field `name`, by the tables, requirements and properties in order. Raises InvalidFact."""
    mapping = _BY_ONEOF[name]
    try:
        fact: Fact = mapping.kind(**mapping.read(message))
    except FieldUnreadable as error:
        raise InvalidFact(mapping.kind.__name__, error.field, error.value, error.rule) from error
    if isinstance(fact, ActionQueued) and fact.requirements:
        items = message.action_queued.requirements.items
        fact.requirements = canonical_requirements([(item.name, item.value) for item in items])
    elif isinstance(fact, WorkerConnected):
        fact.properties = tuple(sorted(fact.properties))
    check_fact(fact)
    return fact


def is_json(headers: Headers) -> bool:
    """Whether the headers say that the record is JSON."""
    for name, content in headers:
        if name.lower() == CONTENT_TYPE:
            return content.split(b";")[0].strip().lower() == JSON_CONTENT_TYPE
    return False


def _from_json(value: bytes) -> Fact:
    try:
        obj = json_object(value)
    except InvalidFact as error:
        return unreadable(error)
    try:
        return fact_from_json(obj)
    except InvalidFact as error:
        return unreadable(error, obj.get("instance"), json_key(obj))


def _no_kind(message: Any, value: bytes) -> InvalidFact:
    """What to say of a record that parses and holds no known kind: a newer producer's, or no fact at all."""
    unknown = [(field.field_number, field.wire_type) for field in UnknownFieldSet(message)]
    if len(unknown) == 1 and unknown[0][1] == _LENGTH_DELIMITED:
        rule = "this build knows no fact with this field number; run a newer build of the decider"
        return InvalidFact("", "kind", str(unknown[0][0]), rule)
    return InvalidFact("", "", _excerpt(value), "a record is a protobuf Fact with its kind set")


def _excerpt(value: bytes) -> str:
    return value[:32].hex() + ("…" if len(value) > 32 else "") if value else "an empty record"
