"""From settings to a log: which broker a command talks to, and what it says when there is none."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import ClassVar

from streams.broker import BrokerEndpoint, BrokerSettings, status
from streams.errors import StreamError
from streams.kafka_log import KafkaLog
from streams.settings import Settings


class NoBroker(StreamError):
    """No cluster is named and no broker runs in the home."""

    code: ClassVar[str] = "no-broker"
    runbook: ClassVar[str] = "Start one with `headway broker up`, or name the cluster in HEADWAY_BOOTSTRAP_SERVERS."

    def __init__(self, settings: Settings) -> None:
        super().__init__(
            f"no broker: HEADWAY_BOOTSTRAP_SERVERS is not set and none runs in {settings.home}",
            remedy="Start one with `headway broker up` (or everything with `headway up`), or name a cluster; "
            "commands that read history take --file DIR, a log exported before",
        )


def running_broker(settings: Settings) -> BrokerEndpoint | None:
    """The broker of these settings, asked whether it answers: the cluster they name, else the one in the home, else None.

    Raises BrokerFailed when the cluster does not answer.
    """
    of_environment = BrokerSettings.from_environment(os.environ)
    return status(settings.home, settings=replace(of_environment, bootstrap_servers=settings.bootstrap_servers))


def bootstrap_of(settings: Settings) -> str:
    """The address to connect to. Raises NoBroker; BrokerFailed when the home's record cannot be read."""
    if settings.bootstrap_servers:
        return settings.bootstrap_servers
    found = running_broker(settings)
    if found is None:
        raise NoBroker(settings)
    return found.bootstrap_servers


@asynccontextmanager
async def connected(settings: Settings, *, client_id: str = "headway") -> AsyncIterator[KafkaLog]:
    """The log of these settings, closed at the end. Raises NoBroker; what the log cannot do is raised when it is asked."""
    log = KafkaLog(bootstrap_of(settings), prefix=settings.topic_prefix, client_id=client_id)
    try:
        yield log
    finally:
        await log.close()
