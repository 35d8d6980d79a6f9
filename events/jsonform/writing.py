"""Facts, events, placements and worker commands as JSON: the same mapping as is read, for the command line and the web views."""

import json
from collections.abc import Callable
from dataclasses import fields
from enum import IntEnum
from typing import Any

from events.events import Event, OperationDispatched, OperationQueued
from events.facts import Configured, Fact
from events.payloads import command_of, digests_of, requirements_of
from events.reasons import DisconnectReason, KillCause, Outcome, PlacementEnd, RefuseReason, RequeueCause
from events.values import Digest, Properties
from proto.gen.headway.v1 import commands_pb2, common_pb2, placements_pb2

JsonObject = dict[str, Any]

_ENVELOPE = ("seq", "at_us", "cause_offset")


def _digest_text(digest: Digest) -> str | None:
    return str(digest) if digest.hash or digest.size_bytes else None


def _pairs(properties: Properties) -> list[JsonObject]:
    return [{"name": name, "value": value} for name, value in properties]


def _properties(found: Properties | tuple[str, ...]) -> list[JsonObject | str]:
    """Pairs where a worker declares them, names where an event speaks of those an action asks for."""
    return [item if isinstance(item, str) else {"name": item[0], "value": item[1]} for item in found]


def _part(value: Any) -> JsonObject:
    """A named tuple: usage, hints, a place in the queue, candidates of a hold."""
    return {name: _plain(part) for name, part in value._asdict().items()}


def _plain(value: Any) -> Any:
    if isinstance(value, IntEnum):
        return value.name.lower()
    if isinstance(value, Digest):
        return _digest_text(value)
    if hasattr(value, "_asdict"):
        return _part(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _command(data: bytes) -> JsonObject:
    command = command_of(data)
    return {
        "argv": list(command.argv),
        "env": [
            {"name": v.name, "secret": v.secret} if v.secret else {"name": v.name, "value": v.value}
            for v in command.env
        ],
        "inputs": [str(digest) for digest in command.inputs],
    }


def _tail_text(data: bytes) -> str:
    # Output may be cut inside a character or be no text at all; escapes keep every byte visible.
    return data.decode("utf-8", "backslashreplace")


def _digests(name: str) -> Callable[[bytes], JsonObject]:
    return lambda data: {name: [str(digest) for digest in digests_of(data)]}


_BY_NAME: dict[str, Callable[[Any], JsonObject]] = {
    "requirements": lambda data: {"requirements": _pairs(requirements_of(data))},
    "command": _command,
    "config_json": lambda text: {"config": json.loads(text)},
    "stdout_tail": lambda data: {"stdout_tail": _tail_text(data)},
    "stderr_tail": lambda data: {"stderr_tail": _tail_text(data)},
    "properties": lambda found: {"properties": _properties(found)},
    "added": _digests("added"),
    "ac_pins": _digests("ac_pins"),
    "digests": _digests("digests"),
    "state_digest": lambda data: {"state_digest": data.hex()},
    "other_digest": lambda data: {"other_digest": data.hex()},
}


def _field(name: str, value: Any) -> JsonObject:
    by_name = _BY_NAME.get(name)
    if by_name is not None:
        return by_name(value)
    return {name: _plain(value)}


def fact_to_json(fact: Fact) -> JsonObject:
    """A fact as a JSON object; `fact_from_json` reads it back (tails that are no UTF-8 come back as escapes)."""
    found: JsonObject = {"kind": type(fact).__name__}
    for field in fields(fact):
        value = getattr(fact, field.name)
        if field.name == "config_json" and isinstance(fact, Configured):
            try:
                found |= _field(field.name, value)
            except ValueError:
                found["config_json"] = value  # not JSON at all: shown as it came
        else:
            found |= _field(field.name, value)
    return found


def event_to_json(event: Event, *, offset: int | None = None, shard: int = 0) -> JsonObject:
    """An event as a JSON object: seq, offset (where known), shard, at_us, cause_offset and kind first, then its fields.

    `operation_id` of an OperationQueued and `dispatch_id` of an OperationDispatched are derived and stand there too.
    """
    found: JsonObject = {"seq": event.seq}
    if offset is not None:
        found["offset"] = offset
    found |= {"shard": shard, "at_us": event.at_us, "cause_offset": event.cause_offset, "kind": type(event).__name__}
    if isinstance(event, OperationQueued):
        found["operation_id"] = event.operation_id
    elif isinstance(event, OperationDispatched):
        found["dispatch_id"] = event.dispatch_id
    for field in fields(event):
        if field.name not in _ENVELOPE:
            found |= _field(field.name, getattr(event, field.name))
    return found


_MESSAGE_ENUMS: dict[str, type[IntEnum]] = {
    kind.__name__: kind for kind in (DisconnectReason, KillCause, Outcome, PlacementEnd, RefuseReason, RequeueCause)
}


def _message_fields(message: Any) -> JsonObject:
    """The fields of a placement or command message in the same mapping."""
    found: JsonObject = {}
    for descriptor in message.DESCRIPTOR.fields:
        name = descriptor.name
        value = getattr(message, name)
        if descriptor.containing_oneof is not None:
            continue
        if descriptor.enum_type is not None:
            kind = _MESSAGE_ENUMS[descriptor.enum_type.name]
            found[name] = kind(value).name.lower() if value in kind._value2member_map_ else value
        elif descriptor.message_type is common_pb2.Requirements.DESCRIPTOR:
            found[name] = [{"name": item.name, "value": item.value} for item in value.items]
        elif descriptor.message_type is common_pb2.Digest.DESCRIPTOR:
            found[name] = _digest_text(Digest(value.hash, value.size_bytes))
        elif descriptor.message_type is common_pb2.Digests.DESCRIPTOR:
            found[name] = [str(Digest(item.hash, item.size_bytes)) for item in value.items]
        elif descriptor.message_type is common_pb2.Command.DESCRIPTOR:
            found |= _command(value.SerializeToString())
        elif descriptor.is_repeated:
            found[name] = list(value)
        else:
            found[name] = value
    return found


def placement_to_json(placement: placements_pb2.Placement) -> JsonObject:
    """A placement record as a JSON object: kind first, then its fields."""
    name = placement.WhichOneof("kind")
    if name is None:
        raise ValueError("the placement holds no kind that this build knows; run a newer build")
    message = getattr(placement, name)
    return {"kind": message.DESCRIPTOR.name, **_message_fields(message)}


def command_to_json(command: commands_pb2.WorkerCommand) -> JsonObject:
    """A worker command as a JSON object: kind first, then what it is for, then its own fields."""
    name = command.WhichOneof("kind")
    if name is None:
        raise ValueError("the worker command holds no kind that this build knows; run a newer build")
    message = getattr(command, name)
    return {"kind": message.DESCRIPTOR.name, **_message_fields(command), **_message_fields(message)}
