"""Between dataclasses and protobuf messages, field by field, from tables made of the dataclasses' type hints.

This is the plain form of every mapping; the kinds that make up nearly all traffic have written-out forms besides (`events.py`,
`facts.py`), which a test holds to these.
"""

from collections.abc import Callable, Iterable
from dataclasses import fields
from enum import IntEnum
from types import UnionType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError

from events.payloads import NOT_A_MESSAGE
from events.values import Digest, Properties, Usage

Put = Callable[[Any, str, Any], None]
Get = Callable[[Any, str], Any]


class FieldUnreadable(ValueError):
    """A field holds what this build has no value for."""

    def __init__(self, field: str, value: str, rule: str) -> None:
        super().__init__(f"field {field!r}: {value!r} is refused: {rule}")
        self.field, self.value, self.rule = field, value, rule


class MappedField(NamedTuple):
    """One field: its name, how it is put into a message and how it is got out."""

    name: str
    put: Put
    get: Get


def _put_optional(message: Any, name: str, value: Any) -> None:
    if value is not None:
        setattr(message, name, value)


def _get_optional(message: Any, name: str) -> Any:
    return getattr(message, name) if message.HasField(name) else None


def _put_digest(message: Any, name: str, value: Digest) -> None:
    if value.hash or value.size_bytes:
        part = getattr(message, name)
        part.hash, part.size_bytes = value


def _get_digest(message: Any, name: str) -> Digest:
    part = getattr(message, name)
    return Digest(part.hash, part.size_bytes)


def _put_usage(message: Any, name: str, value: Usage) -> None:
    if any(value):
        part = getattr(message, name)
        part.wall_us, part.cpu_us, part.peak_memory_kib = value


def _get_usage(message: Any, name: str) -> Usage:
    part = getattr(message, name)
    return Usage(part.wall_us, part.cpu_us, part.peak_memory_kib)


def _put_properties(message: Any, name: str, value: Properties) -> None:
    items = getattr(message, name)
    for property_name, property_value in value:
        items.add(name=property_name, value=property_value)


def _get_properties(message: Any, name: str) -> Properties:
    return tuple([(item.name, item.value) for item in getattr(message, name)])


def _put_numbers(message: Any, name: str, value: Iterable[int]) -> None:
    getattr(message, name).extend(value)


def _get_numbers(message: Any, name: str) -> tuple[int, ...]:
    return tuple(getattr(message, name))


def _put_texts(message: Any, name: str, value: Iterable[str]) -> None:
    getattr(message, name).extend(value)


def _parts_of(kind: type) -> tuple[str, ...]:
    names: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
    return names


def _part_getter(kind: type) -> Callable[[Any], Any]:
    """Makes the named tuple `kind` of a message with the same field names; its enums come out as enums."""
    hints = get_type_hints(kind)
    getters = [
        (part, _get_enum(hints[part]) if issubclass(hints[part], IntEnum) else getattr) for part in _parts_of(kind)
    ]

    def get(message: Any) -> Any:
        return kind(*[getter(message, part) for part, getter in getters])

    return get


def _put_part(kind: type) -> Put:
    def put(message: Any, name: str, value: Any) -> None:
        if value is not None:
            part = getattr(message, name)
            part.SetInParent()
            for field, content in zip(_parts_of(kind), value, strict=True):
                setattr(part, field, content)

    return put


def _get_part(kind: type) -> Get:
    make = _part_getter(kind)

    def get(message: Any, name: str) -> Any:
        return make(getattr(message, name)) if message.HasField(name) else None

    return get


def _put_parts(kind: type) -> Put:
    def put(message: Any, name: str, value: Iterable[Any]) -> None:
        items = getattr(message, name)
        for item in value:
            items.add(**dict(zip(_parts_of(kind), item, strict=True)))

    return put


def _get_parts(kind: type) -> Get:
    make = _part_getter(kind)

    def get(message: Any, name: str) -> tuple[Any, ...]:
        return tuple([make(item) for item in getattr(message, name)])

    return get


def put_opaque(message: Any, name: str, value: bytes) -> None:
    """Put serialised bytes into the message field `name`. Raises ValueError where they are none."""
    if value:
        try:
            getattr(message, name).ParseFromString(value)
        except DecodeError as error:
            raise ValueError(f"field {name!r} of {len(value)} bytes is refused: {NOT_A_MESSAGE}") from error


def get_opaque(message: Any, name: str) -> bytes:
    """The canonical bytes of the message field `name`."""
    data: bytes = getattr(message, name).SerializeToString(deterministic=True)
    return data


def _put_enum(message: Any, name: str, value: IntEnum) -> None:
    setattr(message, name, int(value))


def _get_enum(kind: type[IntEnum]) -> Get:
    def get(message: Any, name: str) -> IntEnum:
        number = getattr(message, name)
        try:
            return kind(number)
        except ValueError as error:
            known = ", ".join(value.name.lower() for value in kind if value)
            raise FieldUnreadable(name, str(number), f"one of {known}") from error

    return get


def _mapped(name: str, hint: Any, in_message: FieldDescriptor) -> MappedField:
    """How the field of type `hint` is mapped; a type that is new to this table is a TypeError at import."""
    if hint is bytes and in_message.type == FieldDescriptor.TYPE_MESSAGE:
        return MappedField(name, put_opaque, get_opaque)
    if hint in (int, str, bool, bytes):
        return MappedField(name, setattr, getattr)
    if hint == int | None:
        return MappedField(name, _put_optional, _get_optional)
    if hint is Digest:
        return MappedField(name, _put_digest, _get_digest)
    if hint is Usage:
        return MappedField(name, _put_usage, _get_usage)
    if hint == Properties:
        return MappedField(name, _put_properties, _get_properties)
    if hint == tuple[int, ...]:
        return MappedField(name, _put_numbers, _get_numbers)
    if hint == tuple[str, ...]:
        return MappedField(name, _put_texts, _get_numbers)
    if get_origin(hint) is tuple and hasattr(get_args(hint)[0], "_fields"):
        kind = get_args(hint)[0]
        return MappedField(name, _put_parts(kind), _get_parts(kind))
    if get_origin(hint) is UnionType and hasattr(get_args(hint)[0], "_fields"):
        kind = get_args(hint)[0]
        return MappedField(name, _put_part(kind), _get_part(kind))
    if isinstance(hint, type) and issubclass(hint, IntEnum):
        return MappedField(name, _put_enum, _get_enum(hint))
    raise TypeError(f"no mapping for field {name!r} of type {hint!r}")


class Mapping:
    """The mapping of one dataclass to one message type of the same name."""

    def __init__(self, kind: type, oneof_field: FieldDescriptor, envelope: frozenset[str] = frozenset()) -> None:
        """`oneof_field` is where the message stands in its envelope; `envelope` names dataclass fields that stand there too."""
        message_type = oneof_field.message_type
        hints = get_type_hints(kind)
        names = [field.name for field in fields(kind) if field.name not in envelope]
        if sorted(names) != sorted(message_type.fields_by_name):
            raise TypeError(
                f"{kind.__name__} and its message differ: {names} against {list(message_type.fields_by_name)}"
            )
        self.kind = kind
        self.oneof_name: str = oneof_field.name
        self.fields = tuple([_mapped(name, hints[name], message_type.fields_by_name[name]) for name in names])

    def fill(self, envelope: Any, value: Any) -> None:
        """Make `value` the kind that `envelope` holds."""
        message = getattr(envelope, self.oneof_name)
        message.SetInParent()
        for name, put, _ in self.fields:
            put(message, name, getattr(value, name))

    def read(self, envelope: Any) -> dict[str, Any]:
        """The dataclass fields that the message in `envelope` holds. Raises FieldUnreadable."""
        message = getattr(envelope, self.oneof_name)
        return {name: get(message, name) for name, _, get in self.fields}


def mappings(
    kinds: Iterable[type], envelope_type: Any, in_envelope: frozenset[str] = frozenset()
) -> dict[str, Mapping]:
    """The mapping of each kind, by the name of its oneof field."""
    oneof = envelope_type.DESCRIPTOR.oneofs_by_name["kind"]
    by_type = {field.message_type.name: field for field in oneof.fields}
    if sorted(by_type) != sorted(kind.__name__ for kind in kinds):
        raise TypeError(f"kinds and wire contract differ: {sorted(by_type)}")
    return {by_type[kind.__name__].name: Mapping(kind, by_type[kind.__name__], in_envelope) for kind in kinds}
