"""Ask a socket whether an Apache Kafka answers there, and which one.

Two requests of Kafka's protocol are enough (ApiVersions v3 and DescribeCluster v0, both of the flexible encoding), so
the broker code needs no client and no event loop. Source: the message definitions in Apache Kafka's
`clients/src/main/resources/common/message` of 4.4.0.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

_API_VERSIONS, _DESCRIBE_CLUSTER = 18, 60
_MAX_ANSWER_BYTES = 4 << 20

# metadata.version level from which a release finalizes it; what lies between belongs to the release below.
# Read from org.apache.kafka.server.common.MetadataVersion of 4.4.0.
_RELEASES = (
    (7, "3.3"),
    (8, "3.4"),
    (9, "3.5"),
    (12, "3.6"),
    (15, "3.7"),
    (20, "3.8"),
    (21, "3.9"),
    (22, "4.0"),
    (26, "4.1"),
    (28, "4.2"),
    (30, "4.3"),
    (31, "4.4"),
    (34, "4.5"),
)


class NoKafka(Exception):
    """Nothing that speaks Kafka's protocol in plaintext answers at an address; the message says what did."""


@dataclass(frozen=True)
class Answer:
    """What a broker says about its cluster. `metadata_level` is None where it finalizes none (not KRaft)."""

    cluster_id: str
    brokers: int
    metadata_level: int | None

    @property
    def release(self) -> str:
        """The release that the cluster's metadata.version stands for, such as `4.4`; `unknown` when it names none."""
        if self.metadata_level is None:
            return "unknown"
        known = [name for level, name in _RELEASES if level <= self.metadata_level]
        return known[-1] if known else f"metadata.version {self.metadata_level}"


def split_address(bootstrap_servers: str) -> list[tuple[str, int]]:
    """Parse `host:port[,host:port]`. Raises NoKafka naming the part that is none."""
    addresses = []
    for part in bootstrap_servers.split(","):
        host, colon, port = part.strip().rpartition(":")
        if not (colon and host and port.isdecimal() and 0 < int(port) < 65536):
            raise NoKafka(f"{part.strip()!r} in {bootstrap_servers!r} is not host:port")
        addresses.append((host.strip("[]"), int(port)))
    return addresses


def ask(host: str, port: int, *, timeout_s: float) -> Answer:
    """Ask the broker at `host:port` who it is. Raises NoKafka when the connection or the answer fails."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            level = _metadata_level(_Reader(_exchange(connection, _API_VERSIONS, 3, _software())))
            cluster_id, brokers = _cluster(_Reader(_exchange(connection, _DESCRIBE_CLUSTER, 0, b"\x00\x00")))
    except (OSError, ValueError, struct.error) as error:
        raise NoKafka(f"no Kafka answers at {host}:{port}: {error or type(error).__name__}") from error
    return Answer(cluster_id, brokers, level)


def _software() -> bytes:
    return _compact(b"headway") + _compact(b"broker-probe") + b"\x00"


def _compact(text: bytes) -> bytes:
    return bytes([len(text) + 1]) + text


def _exchange(connection: socket.socket, api_key: int, version: int, body: bytes) -> bytes:
    """Send one request and return the answer's body after its header."""
    request = struct.pack(">hhih", api_key, version, api_key, 7) + b"headway" + b"\x00" + body
    connection.sendall(struct.pack(">i", len(request)) + request)
    (size,) = struct.unpack(">i", _read_exactly(connection, 4))
    if not 4 <= size <= _MAX_ANSWER_BYTES:
        raise ValueError(f"an answer of {size} bytes, which is not Kafka's protocol (a TLS or HTTP listener?)")
    answer = _read_exactly(connection, size)
    if struct.unpack(">i", answer[:4]) != (api_key,):
        raise ValueError("an answer to another request, which is not Kafka's protocol")
    # ApiVersions answers with header v0 whatever its version, so that old clients can read it; others carry tags.
    return answer[4:] if api_key == _API_VERSIONS else answer[5:]


def _read_exactly(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise ValueError(f"the connection was closed after {len(parts)} of {size} bytes (a TLS or SASL listener?)")
        parts += part
    return bytes(parts)


class _Reader:
    """Reads the flexible encoding: unsigned varints, compact strings and arrays, tagged fields."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, layout: str) -> int:
        (value,) = struct.unpack_from(">" + layout, self._data, self._at)
        self._at += struct.calcsize(">" + layout)
        return int(value)

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take("B")
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def text(self) -> str:
        size = max(self.varint() - 1, 0)  # 0 stands for null
        self._at += size
        if self._at > len(self._data):
            raise ValueError("a string runs over the end of the answer")
        return self._data[self._at - size : self._at].decode()

    def count(self) -> int:
        return max(self.varint() - 1, 0)

    def skip_tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            size = self.varint()
            self._at += size


def _metadata_level(answer: _Reader) -> int | None:
    error = answer.take("h")
    if error == 35:  # UNSUPPORTED_VERSION: a broker before 2.4
        return None
    if error:
        raise ValueError(f"ApiVersions was refused with error {error}")
    for _ in range(answer.count()):
        for _ in range(3):
            answer.take("h")
        answer.skip_tags()
    answer.take("i")
    for _ in range(answer.varint()):
        tag, _size = answer.varint(), answer.varint()
        if tag == 1:
            answer.take("q")
        elif tag == 3:
            answer.take("B")
        else:  # 0 supported, 2 finalized: name, two int16, tags; finalized names the highest level first
            for _ in range(answer.count()):
                name, high, _other = answer.text(), answer.take("h"), answer.take("h")
                answer.skip_tags()
                if tag == 2 and name == "metadata.version":
                    return high
    return None


def _cluster(answer: _Reader) -> tuple[str, int]:
    answer.take("i")
    error = answer.take("h")
    message = answer.text()
    if error:
        raise ValueError(f"DescribeCluster was refused with error {error} {message}".rstrip())
    cluster_id = answer.text()
    answer.take("i")
    return cluster_id, answer.count()
