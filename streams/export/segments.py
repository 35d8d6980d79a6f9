"""Records to bytes and back: length-delimited `ExportedRecord` messages in one zstd frame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import zstandard
from google.protobuf.message import DecodeError

from proto.gen.headway.v1.export_pb2 import ExportedRecord
from streams.log import Record

LEVEL: Final = 3
"""zstd's. Of a simulated farm it makes 0.56 of the events (16 of their 72 bytes are chain digests) and 0.25 of the facts; level 9 makes
0.545 and 0.24, for three times the processor."""

MOST_RAW_BYTES: Final = 1 << 30
"""No segment is larger; a frame that claims more is not one of ours."""


class Unreadable(ValueError):
    """Bytes that are no segment; `partial` is what a frame gave before it broke."""

    def __init__(self, why: str, partial: bytes = b"") -> None:
        super().__init__(why)
        self.partial = partial


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
    """What a frame holds. Raises Unreadable, with what can be had of it: a checksum that differs is found behind the last byte."""
    try:
        claimed = zstandard.frame_content_size(data)
        if not 0 <= claimed <= MOST_RAW_BYTES:
            raise Unreadable(f"its frame claims {claimed} bytes, {MOST_RAW_BYTES} is the most a segment has")
        return zstandard.ZstdDecompressor().decompress(data)
    except zstandard.ZstdError as error:
        raise Unreadable(f"it does not decompress ({error})", _salvaged(data)) from error


def _salvaged(data: bytes) -> bytes:
    """What comes out of a broken frame before it breaks, to some thousand bytes."""
    reader = zstandard.ZstdDecompressor().stream_reader(data)
    parts: list[bytes] = []
    try:
        while part := reader.read(4096):
            parts.append(part)
    except zstandard.ZstdError:
        return b"".join(parts)
    return b"".join(parts)


def records_in(raw: bytes) -> Iterator[Record]:
    """The records, in order. Raises Unreadable behind the last one that can be read."""
    at, end = 0, len(raw)
    parse = ExportedRecord.FromString
    while at < end:
        length = shift = 0
        while True:
            if at >= end or shift > 28:
                raise Unreadable(f"a length at byte {at} is cut off or too large")
            byte = raw[at]
            at += 1
            length |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        if at + length > end:
            raise Unreadable(f"a record of {length} bytes at byte {at} is cut off after {end - at}")
        try:
            message = parse(raw[at : at + length])
        except DecodeError as error:
            raise Unreadable(f"the {length} bytes at byte {at} are no record ({error})") from error
        at += length
        key = message.key if message.HasField("key") else None
        headers = tuple((header.name, header.value) for header in message.headers) if message.headers else ()
        yield Record(message.offset, message.at_us, key, message.value, headers)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
