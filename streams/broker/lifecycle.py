"""Bring a broker up, find it, bring it down: the order of the ways and what is said when one fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from streams.broker.endpoint import BrokerEndpoint, BrokerFailed, BrokerSettings


def bring_up(
    home: Path,
    *,
    way: str | None = None,
    port: int | None = None,
    say: Callable[[str], None] = print,
    settings: BrokerSettings | None = None,
) -> BrokerEndpoint:
    """Return a broker that answers, starting one when `home` has none. Raises BrokerFailed."""
    raise BrokerFailed(f"no broker in {home}")


def status(home: Path, *, settings: BrokerSettings | None = None) -> BrokerEndpoint | None:
    """Return the broker that runs in `home`, or None."""
    return None


def bring_down(home: Path, *, reset: bool = False, settings: BrokerSettings | None = None) -> bool:
    """Stop the broker of `home`; True when one ran. With `reset` its data go too. Raises BrokerFailed."""
    return False
