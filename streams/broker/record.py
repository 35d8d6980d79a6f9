"""What a home remembers of its broker: which way it runs, where it listens, what runs now.

`<home>/kafka/broker.json` is also the proof that the directory is ours: nothing is ever deleted where it is missing.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from streams.broker.endpoint import BrokerFailed, Way
from streams.broker.processes import ProcessMark

_FORMAT = 1


@dataclass(frozen=True)
class BrokerRecord:
    """One home's broker. Ports are kept, so that clients find it again after `down` and `up`.

    `process` is what the jvm way started last (it may be gone by now); `container` the docker way's name, also the
    name of its volume.
    """

    way: Way
    cluster_id: str
    port: int
    controller_port: int | None = None
    container: str | None = None
    process: ProcessMark | None = None

    def with_process(self, process: ProcessMark | None) -> BrokerRecord:
        """Return the same record with another running process."""
        return replace(self, process=process)


class KafkaHome:
    """The files of the broker under `<home>/kafka`."""

    # What this code makes there; `reset` deletes these and nothing else.
    _OWN = ("data", "server.properties", "broker.log", "broker.log.1", "crash.log", "broker.json")

    def __init__(self, home: Path) -> None:
        self.home = home.expanduser().absolute()
        self.directory = self.home / "kafka"
        self.data = self.directory / "data"
        self.properties = self.directory / "server.properties"
        self.log = self.directory / "broker.log"
        self.crash = self.directory / "crash.log"
        self._record = self.directory / "broker.json"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the home against another `up` or `down` of the same home. Raises BrokerFailed when it cannot be made."""
        path = self.home / "kafka.lock"
        try:
            self.home.mkdir(parents=True, exist_ok=True)
            with path.open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
        except PermissionError as error:
            raise BrokerFailed(
                f"the home {self.home} cannot be written: {error}; choose another with HEADWAY_HOME"
            ) from error

    def read(self) -> BrokerRecord | None:
        """Return the record, or None when no broker was ever started here. Raises BrokerFailed for a damaged one."""
        try:
            fields = json.loads(self._record.read_text())
            if fields.pop("format") != _FORMAT:
                raise ValueError("another format")
            process = fields.pop("process")
            return BrokerRecord(**fields, process=ProcessMark(**process) if process else None)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BrokerFailed(
                f"{self._record} cannot be read ({error}); the data beside it are untouched: "
                f"restore the file, or move {self.directory} away to begin anew"
            ) from error

    def write(self, record: BrokerRecord) -> None:
        """Replace the record in one step; the broker's own directory may be made by it."""
        self.directory.mkdir(parents=True, exist_ok=True)
        partial = self._record.with_suffix(".partial")
        partial.write_text(json.dumps({"format": _FORMAT, **asdict(record)}, indent=1) + "\n")
        os.replace(partial, self._record)

    def check_ours(self) -> None:
        """Refuse a `kafka` directory that something else made. Raises BrokerFailed."""
        if self.directory.is_symlink():
            raise BrokerFailed(f"{self.directory} is a symbolic link, which Headway never makes; it is left alone")
        if (
            self.directory.exists()
            and (not self.directory.is_dir() or any(self.directory.iterdir()))
            and self.read() is None
        ):
            raise BrokerFailed(
                f"{self.directory} was not made by Headway (no {self._record.name} in it); it is left alone: "
                "choose another home with HEADWAY_HOME, or move it away"
            )

    def delete(self) -> None:
        """Delete the broker's files, the record last, so that a deletion cut short can be repeated.

        Raises BrokerFailed for a directory that is not ours, and leaves files that something else put there.
        """
        self.check_ours()
        if not self.directory.exists():
            return
        for name in self._OWN:
            path = self.directory / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        if not any(self.directory.iterdir()):
            self.directory.rmdir()


def new_cluster_id() -> str:
    """Return a random id in Kafka's own form: 16 bytes in URL-safe base64, 22 characters, no leading dash.

    A leading dash would be read as an option by Kafka's command line.
    """
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
