"""Event records: what stands in headway.events.v1."""

import threading
from collections.abc import Container
from hashlib import blake2b
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from events.codec import hot_events
from events.codec.chain import CHAIN_BYTES, CHAIN_TAG
from events.codec.fields import FieldUnreadable, Mapping, mappings
from events.errors import UnknownEvent
from events.events import EVENT_KINDS, Event, LeaderElected
from proto.gen.headway.v1 import events_pb2

_ENVELOPE = frozenset({"seq", "at_us", "cause_offset", "leader_epoch"})
_BY_ONEOF: dict[str, Mapping] = mappings(EVENT_KINDS.values(), events_pb2.Event, _ENVELOPE)
_BY_KIND: dict[type, Mapping] = {mapping.kind: mapping for mapping in _BY_ONEOF.values()}

USES = 4096
"""Records for which messages are reused before new ones are made."""

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


class EventEncoder:
    """Makes records of events. It reuses messages, so it belongs to one thread; `encode_event` keeps one per thread.

    A message keeps the memory of every text that was ever set in it until it is let go, so after `USES` records there are new ones.
    """

    __slots__ = ("_left", "_write")

    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        self._left = USES
        self._write = hot_events.writers()

    def encode(self, event: Event, leader_epoch: int, chain: bytes) -> tuple[bytes, bytes]:
        """See `encode_event`."""
        self._left -= 1
        if not self._left:
            self._renew()
        write = self._write.get(type(event))
        body = plain_body(event, leader_epoch) if write is None else write(event, leader_epoch)
        # As `link`, written out: four times in each life cycle.
        chain = blake2b(chain + body, digest_size=CHAIN_BYTES).digest()
        return body + CHAIN_TAG + chain, chain


class _PerThread(threading.local):
    def __init__(self) -> None:
        self.encode = EventEncoder().encode


_per_thread = _PerThread()


def plain_body(event: Event, leader_epoch: int) -> bytes:
    """The record without its chain, made field by field from the tables: the form of the kinds that are rare."""
    if type(event) is LeaderElected and event.leader_epoch != leader_epoch:
        raise ValueError(f"LeaderElected of epoch {event.leader_epoch} in a record of leader epoch {leader_epoch}")
    message = events_pb2.Event(
        seq=event.seq, cause_offset=event.cause_offset, at_us=event.at_us, leader_epoch=leader_epoch
    )
    _BY_KIND[type(event)].fill(message, event)
    data: bytes = message.SerializeToString(deterministic=True)
    return data


def encode_event(event: Event, leader_epoch: int, chain: bytes) -> tuple[bytes, bytes]:
    """The record of `event` and its chain; `chain` is that of the record before it (GENESIS_CHAIN for the first).

    Raises:
        ValueError: a field does not fit the wire contract (a number out of range, bytes that are no message), or a LeaderElected of
            another epoch than `leader_epoch`.
    """
    return _per_thread.encode(event, leader_epoch, chain)


def decode_event(value: bytes) -> Event:
    """The event in a record.

    Raises:
        UnknownEvent: this build cannot read it.
    """
    message = _parsed(value)
    name = message.WhichOneof("kind")
    read = hot_events.READERS.get(name)
    event = None if read is None else read(message)
    return plain_event(message, name) if event is None else event


def plain_event(message: Any, name: str | None) -> Event:
    """The event in a parsed message of oneof field `name`, by the tables. Raises UnknownEvent."""
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


def event_of_kinds(value: bytes, kinds: Container[type]) -> tuple[Envelope, Event | None]:
    """The envelope of a record, and its event where that is of one of `kinds`: most of the cost of reading is in the others.

    Raises UnknownEvent, for a kind that this build does not know as well.
    """
    message = _parsed(value)
    name = message.WhichOneof("kind")
    envelope = Envelope(message.seq, message.cause_offset, message.at_us, message.leader_epoch)
    mapping = _BY_ONEOF.get(name)
    if mapping is not None and mapping.kind not in kinds:
        return envelope, None
    read = hot_events.READERS.get(name)
    event = None if read is None else read(message)
    return envelope, plain_event(message, name) if event is None else event


def envelope_of(value: bytes) -> Envelope:
    """The envelope of a record, of known kind or not. Raises UnknownEvent where it is no protobuf Event at all."""
    message = _parsed(value)
    return Envelope(message.seq, message.cause_offset, message.at_us, message.leader_epoch)
