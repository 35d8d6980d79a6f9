"""What a caller asks of a broker and what it gets: settings in, an endpoint or an error out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from streams.errors import StreamError

KAFKA_VERSION = "4.4.0"
"""The Apache Kafka release that the docker and jvm ways run; `classpath.json` pins its jars by checksum."""

DEFAULT_IMAGE = f"apache/kafka:{KAFKA_VERSION}"

Way = Literal["cluster", "docker", "jvm"]

WAYS: tuple[Way, ...] = ("cluster", "docker", "jvm")
"""In the order in which they are tried."""


class BrokerFailed(StreamError):
    """No broker could be brought up, found, or stopped; the message says what was tried and what to do.

    One is often the reason of another, so its text is the message alone, without code and remedy appended.
    """

    code: ClassVar[str] = "broker-failed"
    runbook: ClassVar[str] = "Read the reasons of each way; the jvm way's own log is <home>/kafka/broker.log."

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)

    def __str__(self) -> str:
        return f"{self.message.rstrip()}\n{self.remedy}" if self.remedy else self.message


@dataclass(frozen=True)
class BrokerEndpoint:
    """A broker that answers.

    `home` is the directory whose data it serves (for a cluster: the home that asked). `pid` is the broker's process
    for the jvm way, else None. `version` is Kafka's release, for a cluster as far as it tells.
    """

    kind: Way
    bootstrap_servers: str
    version: str
    home: Path
    pid: int | None


@dataclass(frozen=True)
class BrokerSettings:
    """Everything the broker code takes from outside, so that nothing below reads the process environment.

    bootstrap_servers: the cluster way's `host:port[,host:port]`; None leaves that way out.
    image:             the docker way's image (layout and variables of apache/kafka).
    cache:             where resolved jars are kept, shared by all homes.
    java_home, search_path: where Java and Maven and the docker command are looked for (JAVA_HOME and PATH).
    maven_settings:    the user's Maven settings; a mirror of Maven Central named there is used by jgo too.
    environment:       what child processes (java, mvn, docker) are started with.
    """

    bootstrap_servers: str | None = None
    image: str = DEFAULT_IMAGE
    cache: Path = Path("~/.cache/headway")
    java_home: Path | None = None
    search_path: str = ""
    maven_settings: Path = Path("~/.m2/settings.xml")
    environment: Mapping[str, str] | None = None

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> BrokerSettings:
        """Read the variables once, at the edge; an empty variable counts as unset."""

        def given(name: str) -> str | None:
            return environ.get(name) or None

        java_home = given("JAVA_HOME")
        home = Path(given("HOME") or Path.home())
        return cls(
            bootstrap_servers=given("HEADWAY_BOOTSTRAP_SERVERS"),
            image=given("HEADWAY_KAFKA_IMAGE") or DEFAULT_IMAGE,
            cache=Path(given("XDG_CACHE_HOME") or home / ".cache") / "headway",
            java_home=Path(java_home) if java_home else None,
            search_path=given("PATH") or "",
            maven_settings=home / ".m2" / "settings.xml",
            environment=dict(environ),
        )
