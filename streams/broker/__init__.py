"""A real Apache Kafka, whichever way the machine allows: a cluster, a Docker engine, or a JVM.

No asyncio in here: everything is a process, a file or a socket with a deadline.
"""

from streams.broker.endpoint import (
    DEFAULT_IMAGE,
    KAFKA_VERSION,
    WAYS,
    BrokerEndpoint,
    BrokerFailed,
    BrokerSettings,
    Way,
)
from streams.broker.lifecycle import bring_down, bring_up, status

__all__ = [
    "DEFAULT_IMAGE",
    "KAFKA_VERSION",
    "WAYS",
    "BrokerEndpoint",
    "BrokerFailed",
    "BrokerSettings",
    "Way",
    "bring_down",
    "bring_up",
    "status",
]
