"""Event records: what stands in headway.events.v1."""

from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from events.codec.chain import link
from events.codec.fields import FieldUnreadable, Mapping, mappings
from events.errors import UnknownEvent
from events.events import EVENT_KINDS, Event, LeaderElected
from proto.gen.headway.v1 import events_pb2

_ENVELOPE = frozenset({"seq", "at_us", "cause_offset", "leader_epoch"})
_BY_ONEOF: dict[str, Mapping] = mappings(EVENT_KINDS.values(), events_pb2.Event, _ENVELOPE)
_BY_KIND: dict[type, Mapping] = {mapping.kind: mapping for mapping in _BY_ONEOF.values()}

_REMEDY = "run a build at least as new as the one that wrote it, or restore the event log from an export"


class Envelope(NamedTuple):
    """What every record says of itself, whatever its kind."""

    seq: int
    cause_offset: int
    at_us: int
    leader_epoch: int


def _parsed(value: bytes) -> Any:
    try:
        return events_pb2.Event.FromString(value)
    except DecodeError as error:
        raise UnknownEvent(f"a record of {len(value)} bytes is no protobuf Event; {_REMEDY}") from error


def encode_event(event: Event, leader_epoch: int, chain: bytes) -> tuple[bytes, bytes]:
    """The record of `event` and its chain; `chain` is that of the record before it (GENESIS_CHAIN for the first).

    Raises:
        ValueError: a field does not fit the wire contract (a number out of range, bytes that are no message), or a LeaderElected of
            another epoch than `leader_epoch`.
    """
    if type(event) is LeaderElected and event.leader_epoch != leader_epoch:
        raise ValueError(f"LeaderElected of epoch {event.leader_epoch} in a record of leader epoch {leader_epoch}")
    message = events_pb2.Event(
        seq=event.seq, cause_offset=event.cause_offset, at_us=event.at_us, leader_epoch=leader_epoch
    )
    _BY_KIND[type(event)].fill(message, event)
    return link(message.SerializeToString(deterministic=True), chain)


def decode_event(value: bytes) -> Event:
    """The event in a record.

    Raises:
        UnknownEvent: this build cannot read it.
    """
    message = _parsed(value)
    name = message.WhichOneof("kind")
    if name is None:
        raise UnknownEvent(f"the record with seq {message.seq} holds no kind of event that this build knows; {_REMEDY}")
    mapping = _BY_ONEOF[name]
    try:
        fields = mapping.read(message)
    except FieldUnreadable as error:
        raise UnknownEvent(f"the {mapping.kind.__name__} with seq {message.seq}, {error}; {_REMEDY}") from error
    if mapping.kind is LeaderElected:
        fields["leader_epoch"] = message.leader_epoch
    event: Event = mapping.kind(seq=message.seq, at_us=message.at_us, cause_offset=message.cause_offset, **fields)
    return event


def envelope_of(value: bytes) -> Envelope:
    """The envelope of a record, of known kind or not. Raises UnknownEvent where it is no protobuf Event at all."""
    message = _parsed(value)
    return Envelope(message.seq, message.cause_offset, message.at_us, message.leader_epoch)
