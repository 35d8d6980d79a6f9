"""Who answers at an address: a Kafka and which, or something else and what."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from streams.broker.probe import Answer, NoKafka, ask, split_address


@contextmanager
def _server(answer: bytes) -> Iterator[int]:
    """A server that answers the first request with `answer` and closes; yields its port."""

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        yield listener.getsockname()[1]
        thread.join(timeout=10)
        assert not thread.is_alive()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", r"closed after 0 of 4 bytes \(a TLS or SASL listener\?\)"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", r"an answer of \d+ bytes, which is not Kafka's protocol"),
        (b"\x00\x00\x00\x04\x00\x00\x00\x63", "an answer to another request"),
        (b"\x00\x00\x00\x06\x00\x00\x00\x12\x00\x2a", "ApiVersions was refused with error 42"),
    ],
)
def test_a_server_that_is_no_kafka_is_named_for_what_it_did(answer: bytes, reason: str) -> None:
    with _server(answer) as port, pytest.raises(NoKafka, match=f"no Kafka answers at 127.0.0.1:{port}: .*{reason}"):
        ask("127.0.0.1", port, timeout_s=5)


def test_a_closed_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(NoKafka, match=f"127.0.0.1:{port}: .*refused"):
        ask("127.0.0.1", port, timeout_s=5)


def test_a_real_broker_tells_its_cluster_and_release(kafka: str) -> None:
    ((host, port),) = split_address(kafka)
    answer = ask(host, port, timeout_s=10)
    assert len(answer.cluster_id) == 22
    assert answer.brokers == 1
    assert answer.release == "4.4"


@pytest.mark.parametrize(
    ("level", "release"), [(None, "unknown"), (1, "metadata.version 1"), (7, "3.3"), (25, "4.0"), (33, "4.4")]
)
def test_a_metadata_level_stands_for_a_release(level: int | None, release: str) -> None:
    assert Answer("c", 1, level).release == release


def test_addresses_are_parsed() -> None:
    assert split_address("a:1, [::1]:9092") == [("a", 1), ("::1", 9092)]


@pytest.mark.parametrize("text", ["", "host", "host:", ":9092", "host:99999", "host:9092,", "host:1e3"])
def test_what_is_no_address_is_named(text: str) -> None:
    with pytest.raises(NoKafka, match="is not host:port"):
        split_address(text)
