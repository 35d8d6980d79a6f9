"""Free TCP ports on loopback, below the range that the kernel hands to outgoing connections.

A broker on a port of the ephemeral range (32768 upward on Linux) fails to start whenever some client of another process
happens to hold it; that was seen with a fixed 39092.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

from streams.broker.endpoint import BrokerFailed

FIRST_PORT = 19092
EPHEMERAL_FROM = 32768


def is_free(port: int) -> bool:
    """Whether a server could listen on 127.0.0.1:`port` now. SO_REUSEADDR as Java sets it, so TIME_WAIT is no obstacle."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen(1)
        except OSError:
            return False
    return True


def free_ports(start: int = FIRST_PORT, *, avoid: frozenset[int] = frozenset()) -> Iterator[int]:
    """Yield free ports upward from `start`, each below the ephemeral range. Raises BrokerFailed when they run out."""
    for port in range(start, EPHEMERAL_FROM):
        if port not in avoid and is_free(port):
            yield port
    raise BrokerFailed(
        f"no free port on 127.0.0.1 from {start} to {EPHEMERAL_FROM - 1}; stop a server or choose --port"
    )


def require_port(port: int) -> int:
    """Return the port a caller chose. Raises BrokerFailed when it is taken or lies where it would be taken sooner or later."""
    if not 1024 <= port < EPHEMERAL_FROM:
        raise BrokerFailed(
            f"port {port} is outside 1024..{EPHEMERAL_FROM - 1}: below is for the system, above the kernel hands ports to "
            "outgoing connections and the broker would one day not start; choose one inside"
        )
    if not is_free(port):
        raise BrokerFailed(f"port {port} on 127.0.0.1 is taken by another process; choose another or stop that one")
    return port
