"""Settings from the environment: every `HEADWAY_...` variable in one place, read once at the edge and passed on as values."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from streams.errors import StreamError

DEFAULT_WEB_PORT = 8087
DEFAULT_INSTANCE = "main"


class InvalidSetting(StreamError):
    """A `HEADWAY_...` variable has a value that its setting refuses."""

    code: ClassVar[str] = "invalid-setting"
    runbook: ClassVar[str] = "Correct the variable named in the message; `headway --help` lists them all."

    def __init__(self, variable: str, value: str, rule: str) -> None:
        self.variable, self.value, self.rule = variable, value, rule
        super().__init__(f"{variable}={value!r} is refused: {rule}", remedy=f"Correct or unset {variable}")


def default_home() -> Path:
    """The user's data directory for Headway (XDG base directory specification)."""
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "headway"


def _absolute(path: Path) -> Path:
    return path.expanduser().absolute()


class Settings(BaseSettings):
    """What a process of Headway takes from its environment. An empty variable counts as unset."""

    model_config = SettingsConfigDict(env_prefix="HEADWAY_", env_ignore_empty=True, extra="ignore", frozen=True)

    home: Annotated[Path, AfterValidator(_absolute)] = Field(
        default_factory=default_home,
        description="Where the broker's data, the state table and the record of running parts live.",
    )
    bootstrap_servers: str | None = Field(
        default=None, description="The Kafka cluster, host:port[,...]; unset: the broker that runs in the home."
    )
    broker: Literal["cluster", "docker", "jvm"] | None = Field(
        default=None, description="The only way to a broker that is tried; unset: cluster, docker, jvm in this order."
    )
    topic_prefix: str = Field(
        default="",
        pattern=r"^[A-Za-z0-9._-]*$",
        max_length=200,
        description="Put before every topic's name, so that several logs can share a cluster.",
    )
    web_port: int = Field(
        default=DEFAULT_WEB_PORT, ge=1, le=65535, description="Port of the read side's views on 127.0.0.1."
    )
    views_url: str | None = Field(
        default=None,
        pattern=r"^https?://",
        description="Where the read side answers; unset: http://127.0.0.1:<HEADWAY_WEB_PORT>.",
    )

    blobs_url: str | None = Field(
        default=None,
        pattern=r"^https?://[^\s/]+/?$",
        description="The stable store of blobs, http://host:port; unset: there is none.",
    )

    @property
    def views_address(self) -> str:
        """The base URL of the read side's views, without a slash at its end."""
        return (self.views_url or f"http://127.0.0.1:{self.web_port}").rstrip("/")


def load_settings(**given: Any) -> Settings:
    """The settings of this process; `given` (options of the command line) win over the environment, None is not given.

    Raises InvalidSetting with the variable, its value and the rule.
    """
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else "?"
        raise InvalidSetting(f"HEADWAY_{name.upper()}", str(first.get("input"))[:128], first["msg"]) from error
