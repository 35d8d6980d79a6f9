"""The cluster way: a Kafka that others run, named by its bootstrap servers. Nothing is started or stopped."""

from __future__ import annotations

from streams.broker.endpoint import BrokerEndpoint, BrokerFailed, BrokerSettings
from streams.broker.probe import NoKafka, ask, split_address
from streams.broker.record import KafkaHome

_TIMEOUT_S = 10


def reach(home: KafkaHome, settings: BrokerSettings) -> BrokerEndpoint:
    """Return the cluster of the settings once one of its brokers answers. Raises BrokerFailed with each one's reason."""
    if not settings.bootstrap_servers:
        raise BrokerFailed("HEADWAY_BOOTSTRAP_SERVERS is not set")
    reasons = []
    try:
        for host, port in split_address(settings.bootstrap_servers):
            try:
                release = ask(host, port, timeout_s=_TIMEOUT_S).release
            except NoKafka as reason:
                reasons.append(str(reason))
            else:
                return BrokerEndpoint("cluster", settings.bootstrap_servers, release, home.home, None)
    except NoKafka as reason:
        raise BrokerFailed(f"{reason}; set HEADWAY_BOOTSTRAP_SERVERS to host:port[,host:port]") from reason
    raise BrokerFailed("; ".join(reasons))
