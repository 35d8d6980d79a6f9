"""Where everything of a timeline stands in its store: keys whose byte order is the order it is read in.

    T  epoch (4)  row key, escaped  seq, inverted (8)    a version of a row: a mark, then the row; the mark alone: it was deleted
    X  seq (8)                                           offset (8), then the record
    Z  offset (8)                                        nothing: a record there was left out, its leader had been replaced
    B  seq (8)                                           a boundary: at_us (8), epoch (4)
    O  operation id (8)  seq (8)                         nothing: this event names the operation
    V  operation id (8)  seq (8)                         nothing: this dispatch overtook it
    W  instance  endpoint  seq (8)                       nothing: a telling event of this worker
    R  instance  endpoint  dispatch id (8)               requirement id (4): a run that began there
    S  instance  endpoint  dispatch id (8)               how it ended: at_us (8), seq (8), in words
    I  instance  seq (8)                                 nothing: an event of the instance; of the shard where the name is empty
    N  client_operation_id  instance  operation id (8)   nothing: it led to this operation
    P                                                    the position

Numbers are big-endian. A name has its length before it (2 bytes), so that no name is a prefix of another's keys.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from projections.keys import number

VERSION: Final = b"T"
RECORD: Final = b"X"
LEFT_OUT: Final = b"Z"
BOUNDARY: Final = b"B"
OF_OPERATION: Final = b"O"
OVERTAKING: Final = b"V"
OF_WORKER: Final = b"W"
RUN: Final = b"R"
RUN_END: Final = b"S"
OF_INSTANCE: Final = b"I"
NAMED: Final = b"N"
POSITION: Final = b"P"

ROW: Final = b"\x01"
NO_ROW: Final = b"\x00"

END: Final = b"\x00\x00"
"""Behind an escaped row key. Inside of one every zero is followed by 255, so keys sort as the row keys do, whatever stands behind."""

BEHIND_VERSIONS: Final = b"\xff" * 9
"""Behind every version of a row, before the next row."""

_LAST: Final = (1 << 64) - 1
_POSITION: Final = struct.Struct(">QQIQQ")
BOUNDARY_VALUE: Final = struct.Struct(">QI")
RUN_END_VALUE: Final = struct.Struct(">QQ")


def escaped(key: bytes) -> bytes:
    """A row key as it stands in a version's, without the end."""
    return key.replace(b"\x00", b"\x00\xff")


def row_key_in(version: bytes) -> bytes:
    """The row key in the full key of a version."""
    return version[5:-10].replace(b"\x00\xff", b"\x00")


def inverted(seq: int) -> bytes:
    """A seq such that later ones sort before it."""
    return (_LAST - seq).to_bytes(8, "big")


def of_epoch(epoch: int) -> bytes:
    """What the key of every version of an epoch begins with."""
    return VERSION + epoch.to_bytes(4, "big")


def name(text: str) -> bytes:
    """A name inside a key."""
    encoded = text.encode()
    return len(encoded).to_bytes(2, "big") + encoded


@lru_cache(65_536)
def worker(instance: str, endpoint: str) -> bytes:
    """An endpoint inside a key. Remembered, since most events ask for one."""
    return name(instance) + name(endpoint)


def at(letter: bytes, rest: bytes, seq: int) -> bytes:
    """A key that ends in a seq or an id."""
    return letter + rest + number(seq)


def number_in(key: bytes) -> int:
    """The seq or id at the end of a key."""
    return int.from_bytes(key[-8:], "big")


@dataclass(frozen=True, slots=True)
class Position:
    """How far a timeline is: the last boundary, the offset of its last event, and how large its present epoch has become.

    `written` counts bytes of versions since the epoch began, `kept` those of the rows it began with.
    """

    seq: int = 0
    last_offset: int = 0
    epoch: int = 0
    written: int = 0
    kept: int = 0

    @classmethod
    def of_bytes(cls, stored: bytes | None) -> Position:
        """The stored position; that of an empty timeline for None."""
        return cls() if stored is None else cls(*_POSITION.unpack(stored))

    def to_bytes(self) -> bytes:
        """The position to store."""
        return _POSITION.pack(self.seq, self.last_offset, self.epoch, self.written, self.kept)
