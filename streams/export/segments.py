"""Records to bytes and back: length-delimited `ExportedRecord` messages in one zstd frame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import zstandard
from google.protobuf.message import DecodeError

from proto.gen.headway.v1.export_pb2 import ExportedRecord
from streams.log import Record

LEVEL: Final = 6
"""zstd's: at level 6 a minute of events compresses to about a tenth; higher levels cost several times the processor for some percent."""

MOST_RAW_BYTES: Final = 1 << 30
"""No segment is larger; a frame that claims more is not one of ours."""


class Unreadable(ValueError):
    """Bytes that are no segment. `read` records before it were readable."""

    def __init__(self, why: str, read: int) -> None:
        super().__init__(why)
        self.read = read


def delimited(record: Record) -> bytes:
    """One record with its length before it."""
    message = ExportedRecord(offset=record.offset, at_us=record.at_us, key=record.key, value=record.value)
    for name, content in record.headers:
        message.headers.add(name=name, value=content)
    body = message.SerializeToString()
    return _varint(len(body)) + body


def compressed(raw: bytes | bytearray) -> bytes:
    """One zstd frame with its size and a checksum."""
    return zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).compress(bytes(raw))


def decompressed(data: bytes) -> bytes:
    """What a frame holds. Raises Unreadable."""
    try:
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=MOST_RAW_BYTES)
    except zstandard.ZstdError as error:
        raise Unreadable(f"it does not decompress ({error})", 0) from error


def records_in(raw: bytes) -> Iterator[Record]:
    """The records, in order. Raises Unreadable behind the last one that can be read."""
    at, end, read = 0, len(raw), 0
    parse = ExportedRecord.FromString
    while at < end:
        length = shift = 0
        while True:
            if at >= end or shift > 28:
                raise Unreadable(f"a length at byte {at} is cut off or too large", read)
            byte = raw[at]
            at += 1
            length |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        if at + length > end:
            raise Unreadable(f"a record of {length} bytes at byte {at} is cut off after {end - at}", read)
        try:
            message = parse(raw[at : at + length])
        except DecodeError as error:
            raise Unreadable(f"the {length} bytes at byte {at} are no record ({error})", read) from error
        at += length
        key = message.key if message.HasField("key") else None
        headers = tuple((header.name, header.value) for header in message.headers) if message.headers else ()
        yield Record(message.offset, message.at_us, key, message.value, headers)
        read += 1


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
