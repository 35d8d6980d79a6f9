"""The jars of the pinned Kafka: resolved once from Maven Central, checked against `classpath.json`, cached for all homes.

The cache directory `kafka-<version>/` appears by one rename of a complete directory and is filled under a lock, so
two processes at once end with one good copy, and a killed one leaves only a temporary directory that the next removes.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from streams.broker.endpoint import KAFKA_VERSION, BrokerFailed, BrokerSettings

CENTRAL = "https://repo.maven.apache.org/maven2"

MARKER = "complete.json"
"""Written last into the cache directory: the names and sizes that stand in it."""

_RESOLVE_TIMEOUT_S = 600


@dataclass(frozen=True)
class Jar:
    """One file of the class path as pinned."""

    name: str
    size_bytes: int
    sha256: str


def pinned() -> tuple[list[str], list[Jar]]:
    """Return the coordinates to resolve and the jars that must come of them, from `classpath.json`."""
    lock = json.loads(Path(__file__).with_name("classpath.json").read_text())
    return lock["coordinates"], [Jar(**jar) for jar in lock["jars"]]


def jars_directory(settings: BrokerSettings) -> Path:
    """Return where the jars are cached, whether or not they are there yet."""
    return settings.cache.expanduser() / f"kafka-{KAFKA_VERSION}"


def fetch_jars(settings: BrokerSettings, say: Callable[[str], None]) -> Path:
    """Return a directory with exactly the pinned jars, resolving them when the cache has none.

    `jgo` is asked first, then Maven; each that fails is said in one line. Raises BrokerFailed when neither could.
    """
    target = jars_directory(settings)
    if _is_complete(target):
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target.with_name(f"{target.name}.lock")):
            if not _is_complete(target):
                _fill(target, settings, say)
    except OSError as error:
        raise BrokerFailed(
            f"the jar cache {target} cannot be written: {error}; set XDG_CACHE_HOME to another place"
        ) from error
    return target


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_complete(directory: Path) -> bool:
    """Whether the marker is there, tells what is pinned, and every jar stands there with its size."""
    try:
        written = json.loads((directory / MARKER).read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    _, jars = pinned()
    wanted = {jar.name: jar.size_bytes for jar in jars}
    present = {path.name: path.stat().st_size for path in directory.glob("*.jar")}
    return written == wanted == present


def _fill(target: Path, settings: BrokerSettings, say: Callable[[str], None]) -> None:
    for leftover in target.parent.glob(f"{target.name}.*.partial"):
        shutil.rmtree(leftover)  # of a killed process: we hold the lock, so nobody writes there
    coordinates, jars = pinned()
    failures: list[str] = []
    for name, resolve in (("jgo", _resolve_by_jgo), ("Maven", _resolve_by_maven)):
        partial = Path(tempfile.mkdtemp(prefix=f"{target.name}.", suffix=".partial", dir=target.parent))
        try:
            resolve(coordinates, partial, settings, say)
            _check(partial, jars)
        except BrokerFailed as failure:
            failures.append(f"{name}: {failure}")
            shutil.rmtree(partial)
            continue
        for line in failures:
            say(f"jvm: {line}; resolved by {name} instead")
        shutil.rmtree(partial / "repository", ignore_errors=True)
        (partial / MARKER).write_text(json.dumps({jar.name: jar.size_bytes for jar in jars}))
        partial.chmod(0o755)
        if target.exists():
            shutil.rmtree(target)  # damaged: jars are missing or of another size
        os.rename(partial, target)
        return
    raise BrokerFailed(f"the jars of Kafka {KAFKA_VERSION} could not be resolved ({'; '.join(failures)})")


def _check(directory: Path, jars: list[Jar]) -> None:
    """Compare with the pins, so that neither a broken download nor a changed mirror ever runs. Raises BrokerFailed."""
    wanted = {jar.name: jar for jar in jars}
    present = {path.name for path in directory.glob("*.jar")}
    missing, foreign = sorted(wanted.keys() - present), sorted(present - wanted.keys())
    if missing or foreign:
        raise BrokerFailed(f"other jars than pinned were resolved (missing {missing}, not pinned {foreign})")
    for jar in jars:
        digest = hashlib.sha256((directory / jar.name).read_bytes()).hexdigest()
        if digest != jar.sha256:
            raise BrokerFailed(f"{jar.name} has SHA-256 {digest}, pinned is {jar.sha256}")


def _resolve_by_jgo(coordinates: list[str], target: Path, settings: BrokerSettings, say: Callable[[str], None]) -> None:
    """Resolve in pure Python. Honours jgo's own configuration (repositories) and the mirrors of Maven's settings."""
    if find_spec("jgo") is None:
        raise BrokerFailed("the jgo wheel is not installed (pip install 'headway[jvm]')")
    from dataclasses import replace

    from jgo.config import GlobalSettings
    from jgo.maven import MavenContext
    from jgo.parse import Coordinate

    repositories: dict[str, str] = dict(GlobalSettings.load().repositories)
    mirror = central_mirror(settings.maven_settings.expanduser())
    repositories = {**repositories, "central": mirror or repositories.get("central", CENTRAL)}
    say(
        f"jvm: fetching Kafka {KAFKA_VERSION} and what it needs (about 45 MB, once) from {', '.join(repositories.values())}"
    )
    # A repository of its own, deleted afterwards: jgo takes a half-written file of a shared one for whole.
    context = MavenContext(repo_cache=target / "repository", remote_repos=repositories, timeout=60)
    try:
        wanted = [context.create_dependency(replace(Coordinate.parse(text), scope="compile")) for text in coordinates]
        inputs, transitive = context.resolver.resolve(wanted)
        needed: list[Any] = [*inputs, *(found for found in transitive if found.scope in ("compile", "runtime"))]
        for dependency in needed:
            jar = Path(dependency.artifact.resolve())
            shutil.copyfile(jar, target / jar.name)
    # jgo raises whatever its parsers, requests and assertions raise; each only means that this resolver failed.
    except Exception as error:
        raise BrokerFailed(f"{type(error).__name__}: {_one_line(str(error))}") from error


def central_mirror(settings_file: Path) -> str | None:
    """Return the URL that Maven's settings.xml puts in place of Maven Central, or None.

    Raises BrokerFailed when that mirror wants credentials (a `server` with its id), which only Maven itself can use.
    """
    try:
        root = ElementTree.parse(settings_file).getroot()
    except FileNotFoundError:
        return None
    except (OSError, ElementTree.ParseError) as error:
        raise BrokerFailed(f"{settings_file} cannot be read: {error}") from error

    def values(parent: ElementTree.Element, name: str) -> list[str]:
        return [(child.text or "").strip() for child in parent.iter() if child.tag.rpartition("}")[2] == name]

    def elements(name: str) -> list[ElementTree.Element]:
        return [child for child in root.iter() if child.tag.rpartition("}")[2] == name]

    servers = {server_id for server in elements("server") for server_id in values(server, "id")}
    for mirror in elements("mirror"):
        patterns = {part.strip() for text in values(mirror, "mirrorOf") for part in text.split(",")}
        # Central is external and https, so `external:http:*` does not mean it.
        if "!central" in patterns or not patterns & {"*", "central", "external:*"}:
            continue
        if servers.intersection(values(mirror, "id")):
            raise BrokerFailed(
                f"the mirror of Maven Central in {settings_file} needs credentials, which only Maven reads"
            )
        return values(mirror, "url")[0].rstrip("/")
    return None


_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>headway</groupId><artifactId>broker</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>{dependencies}</dependencies>
</project>
"""


def _resolve_by_maven(
    coordinates: list[str], target: Path, settings: BrokerSettings, say: Callable[[str], None]
) -> None:
    """Resolve by the machine's Maven, with all of its configuration."""
    maven = shutil.which("mvn", path=settings.search_path)
    if maven is None:
        raise BrokerFailed("mvn is not on PATH")
    say(f"jvm: fetching Kafka {KAFKA_VERSION} and what it needs (about 45 MB, once) by {maven}")
    dependencies = "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>".format(
            *text.split(":")
        )
        for text in coordinates
    )
    with tempfile.TemporaryDirectory(prefix="headway-maven-") as project:
        (Path(project) / "pom.xml").write_text(_POM.format(dependencies=dependencies))
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={target}", "-DincludeScope=runtime"]
        try:
            done = subprocess.run(
                [maven, "-q", "-B", *goal],
                cwd=project,
                env=settings.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_RESOLVE_TIMEOUT_S,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BrokerFailed(f"{maven} did not finish: {error}") from error
    if done.returncode:
        errors = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line] or [done.stderr]
        raise BrokerFailed(f"{maven} ended with {done.returncode}: {_one_line(errors[0])}")


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 300 else line[:297] + "..."
