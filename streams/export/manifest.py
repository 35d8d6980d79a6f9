"""`manifest.json` of an export: which log it is of, which spans of which partitions it has, and the segments with their digests.

It is written last and put in place by one rename, so a directory either has no manifest, that of the export before, or that of a
whole one. A file that the manifest does not name is not part of the export.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from streams.export.errors import NotAnExport
from streams.log import Partition

FORMAT: Final = "headway-export/1"
MANIFEST: Final = "manifest.json"

_Count = Annotated[int, Field(ge=0)]
_Hex16 = Annotated[str, Field(pattern=r"^([0-9a-f]{32})?$")]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Segment(_Part):
    """One file: a run of records of one partition, in offset order.

    `file` is relative to the directory; `bytes` and `sha256` are of the file as it stands, `raw_bytes` of what it holds. `first_seq`,
    `last_seq`, `chain_before` and `chain_after` (hex) are of events: the chain that the first of them follows on ("" where the records
    before it are in no segment) and that of the last, and of the last its leader
    epoch and the offset of the fact that caused it. They are 0 and "" in segments of other topics.
    """

    file: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+/[0-9]+\.zst$")]
    topic: str
    partition: _Count
    first_offset: _Count
    last_offset: _Count
    first_at_us: _Count
    last_at_us: _Count
    first_seq: _Count = 0
    last_seq: _Count = 0
    chain_before: _Hex16 = ""
    chain_after: _Hex16 = ""
    leader_epoch: _Count = 0
    last_cause_offset: _Count = 0
    count: Annotated[int, Field(ge=1)]
    raw_bytes: _Count
    bytes: _Count
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

    @property
    def at(self) -> Partition:
        """The partition it is of."""
        return self.topic, self.partition

    @property
    def seqs(self) -> tuple[int, int] | None:
        """First and last seq; None where the topic has none."""
        return (self.first_seq, self.last_seq) if self.last_seq else None


class Span(_Part):
    """What an export has of one partition: every record from `start_offset` up to, not including, `end_offset`.

    Offsets between that carry no record are ends of transactions and aborted records. `missing` are the ranges [from, to) inside that
    were gone from the log when the export was continued; only facts, which a topic keeps for a while, can have any.
    """

    topic: str
    partition: _Count
    start_offset: _Count
    end_offset: _Count
    missing: tuple[tuple[_Count, _Count], ...] = ()

    @property
    def at(self) -> Partition:
        """The partition."""
        return self.topic, self.partition


class Topic(_Part):
    """A topic of the log: its identity, and how many partitions it has there."""

    topic_id: str
    partitions: Annotated[int, Field(ge=1)]


class Manifest(_Part):
    """Everything an export says of itself.

    `topics` are by plain name, whether records of them were exported or not: `LeaderElected` names the ids. `shards` is the shard map.
    """

    format: Literal["headway-export/1"] = FORMAT
    cluster_id: str
    made_by: str = ""
    topics: dict[str, Topic]
    shards: dict[str, _Count]
    spans: tuple[Span, ...]
    segments: tuple[Segment, ...]

    def span(self, at: Partition) -> Span | None:
        """What it has of a partition; None where nothing was exported of it."""
        return next((span for span in self.spans if span.at == at), None)

    def segments_of(self, at: Partition) -> tuple[Segment, ...]:
        """The segments of a partition, in offset order."""
        return tuple(sorted((one for one in self.segments if one.at == at), key=lambda one: one.first_offset))


def read_manifest(directory: Path) -> Manifest:
    """The manifest of a directory. Raises NotAnExport when there is none, or none that this build reads."""
    path = directory / MANIFEST
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise NotAnExport(directory, f"it has no {MANIFEST}") from None
    except OSError as error:
        raise NotAnExport(directory, f"its {MANIFEST} cannot be read: {error.strerror or error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "it"
        raise NotAnExport(directory, f"its {MANIFEST} is not of format {FORMAT}: {where}: {first['msg']}") from error


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Put the manifest in place at once; what it names is on disk already."""
    beside = directory / f"{MANIFEST}.part"
    write_durably(beside, (manifest.model_dump_json(indent=1) + "\n").encode())
    os.replace(beside, directory / MANIFEST)
    sync_directory(directory)


def write_durably(path: Path, data: bytes) -> None:
    """Write a file and wait until it is on disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(directory: Path) -> None:
    """Wait until the names in a directory are on disk: a rename alone may be lost with the power."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
