"""Where a state table reads its log and keeps its rows."""

from __future__ import annotations

import hashlib
import socket
from dataclasses import dataclass
from pathlib import Path

from streams.connection import bootstrap_of
from streams.settings import Settings


@dataclass(frozen=True, slots=True)
class Place:
    """Where a state table reads and keeps.

    Args:
        bootstrap_servers: the cluster.
        data_dir: its own directory; two processes never share one.
        web_port: of the views, on 127.0.0.1; 0 takes a free one.
        topic_prefix: before every topic's name.
        group: the consumer group. State tables of one group share the shards among them.
    """

    bootstrap_servers: str
    data_dir: Path
    web_port: int
    topic_prefix: str = ""
    group: str = "headway-state-table"

    @property
    def member(self) -> str:
        """The static member id: the same after a restart, another one in another directory or on another machine."""
        identity = f"{socket.gethostname()}:{self.data_dir.resolve()}"
        return f"{self.group}-{hashlib.blake2b(identity.encode(), digest_size=8).hexdigest()}"


def place_of(settings: Settings, data_dir: Path | None = None) -> Place:
    """The place that the settings name; by default `<home>/state-table`, one directory per topic prefix.

    Raises NoBroker when no cluster is named and none runs in the home.
    """
    directory = data_dir or settings.home / "state-table" / (settings.topic_prefix or "default")
    return Place(bootstrap_of(settings), directory, settings.web_port, settings.topic_prefix)
