"""The loop of a replay: chain and `seq` of each record checked, frequent kinds fused, everything else left to the plain form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, Final

from google.protobuf.message import DecodeError

from events.codec.chain import CHAIN_BYTES, CHAIN_TAG
from events.replaying import operations, shard_wide
from events.state import Shard
from proto.gen.headway.v1 import events_pb2

Fused = Callable[[Shard, Any, int, int], bool]
"""(shard, message, seq, at_us) of a parsed `Event`: folds it into rows without indexes, or leaves them as they are and answers False.

It may be asked of a message of another kind: that has nothing in the fields it reads, and is refused for it.
"""

FUSED: Final[dict[str, Fused]] = {
    "operation_queued": operations.queued,
    "operation_dispatched": operations.dispatched,
    "operation_accepted": operations.accepted,
    "operation_finished": operations.finished,
    "ticked": shard_wide.ticked,
    "worker_reported": shard_wide.worker_reported,
    "client_heard": shard_wide.client_heard,
}
"""By the name of the oneof field."""

Plain = Callable[[int, bytes], bytes]
"""(number, chain): folds the value of that number in the plain form, behind a record with that chain; the chain as it is then."""

_SUFFIX_BYTES: Final = len(CHAIN_TAG) + CHAIN_BYTES
_ENVELOPE_BELOW: Final = 0x80
"""Tags of the envelope's fields take one byte, those of the kinds two: fields are written in the order of their numbers."""


def _tag_of(name: str) -> bytes:
    number = events_pb2.Event.DESCRIPTOR.fields_by_name[name].number << 3 | 2
    return bytes((number & 0x7F | 0x80, number >> 7))


_BY_TAG: Final[dict[bytes, Fused]] = {_tag_of(name): fold for name, fold in FUSED.items()}


def fold_values(shard: Shard, values: Sequence[bytes], chain: bytes, plain: Plain) -> bytes:
    """Fold records, in order, behind one whose chain is `chain`; the chain of the last one folded.

    A record that is of a rare kind, does not follow, cannot be read or does not suit its fused form is given to `plain`, on rows that are
    those after the record before it. So what is wrong with it, and what becomes of it, is said by the plain form alone.

    Args:
        shard: not live. Its rows, `seq`, `now_us` and `position` are those of the plain form after each record.
        values: records as they stand in the log.
        plain: whatever it raises ends this fold.
    """
    assert not shard.live, "the fused folds keep no indexes"
    fused, parse = _BY_TAG.get, events_pb2.Event.FromString
    unused, suffix, chain_tag = blake2b(digest_size=CHAIN_BYTES).copy, -_SUFFIX_BYTES, CHAIN_TAG
    kind_at = 0
    for number, value in enumerate(values):
        # The kind is mostly where it was in the record before, which costs a third of asking the message. Where that guess is
        # wrong the fold finds nothing to its taste, so it needs no check.
        fold = fused(value[kind_at : kind_at + 2])
        if fold is None:
            kind_at = _kind_at(value)
            fold = fused(value[kind_at : kind_at + 2])
        if fold is not None:
            # As `check_chain`, written out.
            digest = unused()
            digest.update(chain + value[:suffix])
            due = digest.digest()
            if value.endswith(chain_tag + due):
                try:
                    message = parse(value)
                except DecodeError:
                    message = None
                seq = shard.seq + 1
                if message is not None and message.seq == seq and fold(shard, message, seq, message.at_us):
                    shard.seq = seq
                    shard.now_us = message.at_us
                    shard.position = message.cause_offset
                    chain = due
                    continue
        chain = plain(number, chain)
    return chain


def _kind_at(value: bytes) -> int:
    """Where the tag of the kind stands in a record whose envelope is as this build writes it; past its end where there is none."""
    at, end = 0, len(value)
    while at < end and value[at] < _ENVELOPE_BELOW:
        at += 1
        while at < end and value[at] >= _ENVELOPE_BELOW:
            at += 1
        at += 1
    return at
