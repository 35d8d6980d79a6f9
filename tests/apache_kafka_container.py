"""Apache Kafka (KRaft) for testcontainers: apache/kafka:4.x or an image with the same entry point.

testcontainers' own KafkaContainer is made for Confluent's image alone.
"""

from __future__ import annotations

import time
from typing import Any

from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from streams.broker.probe import NoKafka, ask


class ApacheKafkaContainer(DockerContainer):
    """One broker and controller in one process, reachable from the host at `bootstrap_servers()`.

    The broker must advertise the mapped host port, which exists only once the container runs: its command waits for a
    script that `start` copies in.
    """

    PORT = 9092
    SCRIPT = "/tmp/headway-start.sh"

    def __init__(self, image: str, **keywords: Any) -> None:
        super().__init__(image, **keywords)
        self.with_exposed_ports(self.PORT)
        # One KAFKA_* variable turns off the image's default properties, so all are given.
        self.with_envs(
            CLUSTER_ID="4L6g3nShT-eMCtK--X86sw",
            KAFKA_NODE_ID="1",
            KAFKA_PROCESS_ROLES="broker,controller",
            KAFKA_LISTENERS=f"PLAINTEXT://:{self.PORT},BROKER://:9093,CONTROLLER://:9094",
            KAFKA_LISTENER_SECURITY_PROTOCOL_MAP="PLAINTEXT:PLAINTEXT,BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
            KAFKA_INTER_BROKER_LISTENER_NAME="BROKER",
            KAFKA_CONTROLLER_LISTENER_NAMES="CONTROLLER",
            KAFKA_CONTROLLER_QUORUM_VOTERS="1@localhost:9094",
            KAFKA_LOG_DIRS="/tmp/kraft-combined-logs",
            KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR="1",
            KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS="1",
            KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR="1",
            KAFKA_TRANSACTION_STATE_LOG_MIN_ISR="1",
            KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS="1",
            KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR="1",
            KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR="1",
            KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS="0",
            KAFKA_AUTO_CREATE_TOPICS_ENABLE="false",
        )
        self.with_command(["sh", "-c", f"while [ ! -s {self.SCRIPT} ]; do sleep 0.1; done; exec sh {self.SCRIPT}"])

    def start(self, timeout_s: int = 120) -> ApacheKafkaContainer:
        """Start it and return once the broker says that it has started and answers at the port that clients use.

        Raises NoKafka when it said so and does not answer within `timeout_s`. The engine's forwarder listens on the host
        before it can reach the container, and closes what comes too early: the broker's own word is not enough.
        """
        super().start()
        script = (
            f"export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{self.bootstrap_servers()},BROKER://localhost:9093\n"
            "exec /etc/kafka/docker/run\n"
        )
        self.copy_into_container(script.encode(), self.SCRIPT)
        started = LogMessageWaitStrategy("Kafka Server started")
        started.with_startup_timeout(timeout_s).with_poll_interval(0.2).wait_until_ready(self)
        self._wait_for_answer(timeout_s)
        return self

    def _wait_for_answer(self, timeout_s: int) -> None:
        host, port = self.get_container_host_ip(), self.get_exposed_port(self.PORT)
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                ask(host, port, timeout_s=5)
                return
            except NoKafka:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def bootstrap_servers(self) -> str:
        """Return the address for clients on the host."""
        return f"{self.get_container_host_ip()}:{self.get_exposed_port(self.PORT)}"
