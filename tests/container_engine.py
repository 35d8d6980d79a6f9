"""The Docker engine and the image of Kafka that the container tests run on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]

LOCAL_IMAGE = "kafka-local:4.4.0"
"""What infra/kafka-image/build makes where no image can be pulled."""

_NOT_POSSIBLE = 4
"""infra/dockerd's exit code when this machine cannot run an engine of its own."""


class NoEngine(Exception):
    """Containers cannot be tested here; the message is the reason."""


@dataclass(frozen=True)
class ContainerEngine:
    """A Docker engine that answers (`docker_host` None: the default one) and an image of Kafka that it has."""

    docker_host: str | None
    image: str


@contextmanager
def engine_for_tests(directory: Path | None, image: str) -> Iterator[ContainerEngine]:
    """Give this machine's engine, else a private one in `directory`, stopped and deleted at the end.

    Raises NoEngine when there is neither.
    """
    if _run(["docker", "version"]).returncode == 0:
        yield ContainerEngine(os.environ.get("DOCKER_HOST"), _image(image, os.environ.get("DOCKER_HOST")))
        return
    if directory is None:
        raise NoEngine("no Docker engine answers; infra/test would start a private one")
    try:
        started = _run([str(ROOT / "infra/dockerd"), "up", str(directory)])
        if started.returncode == _NOT_POSSIBLE:
            raise NoEngine(started.stderr.strip().splitlines()[-1])
        assert started.returncode == 0, started.stderr
        host = started.stdout.strip()
        yield ContainerEngine(host, _build(host))
    finally:
        stopped = _run([str(ROOT / "infra/dockerd"), "down", str(directory)])
        assert stopped.returncode == 0, stopped.stderr


def _image(image: str, docker_host: str | None) -> str:
    """Return the image that was asked for when the engine has it or can pull it, else the one built here."""
    for command in (["docker", "image", "inspect", image], ["docker", "pull", "--quiet", image]):
        if _run(command, docker_host).returncode == 0:
            return image
    try:
        return _build(docker_host)
    except AssertionError as error:
        raise NoEngine(f"{image} cannot be pulled, and no image of our own be built: {error}") from error


def _build(docker_host: str | None) -> str:
    built = _run([str(ROOT / "infra/kafka-image/build"), LOCAL_IMAGE], docker_host)
    assert built.returncode == 0, built.stderr
    return LOCAL_IMAGE


def _run(command: list[str], docker_host: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HEADWAY_PYTHON": sys.executable}
    if docker_host is not None:
        environment["DOCKER_HOST"] = docker_host
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            cwd=ROOT,
            env=environment,
            timeout=600,
        )
    except FileNotFoundError as error:
        return subprocess.CompletedProcess(command, 127, "", str(error))
