"""Ports are probed by binding and stay below the range that the kernel hands out."""

from __future__ import annotations

import itertools
import socket

import pytest

from streams.broker import BrokerFailed
from streams.broker.ports import EPHEMERAL_FROM, FIRST_PORT, free_ports, is_free, require_port


def _listener() -> socket.socket:
    """A socket that listens on some free port of the range that the broker uses."""
    for port in free_ports(21_000):
        try:
            return socket.create_server(("127.0.0.1", port), reuse_port=False)
        except OSError:
            continue  # another process was faster
    raise AssertionError("free_ports ends by raising")


def test_a_taken_port_is_skipped() -> None:
    with _listener() as taken:
        port = taken.getsockname()[1]
        assert not is_free(port)
        assert next(free_ports(port)) > port


def test_a_port_that_another_process_only_connects_from_is_taken() -> None:
    with _listener() as server, socket.socket() as client:
        client.bind(("127.0.0.1", 0))
        client.connect(server.getsockname())
        assert not is_free(client.getsockname()[1])


def test_ports_to_avoid_are_skipped() -> None:
    first = next(free_ports())
    assert next(free_ports(avoid=frozenset({first}))) > first


def test_every_port_lies_below_the_ephemeral_range() -> None:
    ports = list(itertools.islice(free_ports(), 5))
    assert all(FIRST_PORT <= port < EPHEMERAL_FROM for port in ports)
    with _listener():
        start = EPHEMERAL_FROM - 1
        with pytest.raises(BrokerFailed, match=f"no free port on 127.0.0.1 from {start} to {EPHEMERAL_FROM - 1}"):
            list(free_ports(start, avoid=frozenset({start})))


@pytest.mark.parametrize("port", [80, EPHEMERAL_FROM, 39_092])
def test_a_chosen_port_outside_the_safe_range_is_refused_with_the_range(port: int) -> None:
    with pytest.raises(BrokerFailed, match=rf"port {port} is outside 1024\.\.32767"):
        require_port(port)


def test_a_chosen_port_that_is_taken_is_refused() -> None:
    with _listener() as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BrokerFailed, match=f"port {port} on 127.0.0.1 is taken"):
            require_port(port)
