"""What can be wrong with an exported log."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from streams.errors import StreamError
from streams.log import Partition


class NotAnExport(StreamError):
    """A directory holds no whole export: no manifest, or one that this build cannot read."""

    code: ClassVar[str] = "not-an-export"
    runbook: ClassVar[str] = "Name the directory with the `manifest.json`; an export that was interrupted has none yet."

    def __init__(self, directory: Path, why: str) -> None:
        self.directory = directory
        super().__init__(
            f"{directory} holds no export: {why}",
            remedy="Name a directory that `headway export` or `headway simulate --export` has finished; run one that was interrupted again",
        )


class DamagedExport(StreamError):
    """A segment of an export is not what the manifest says of it.

    `seqs` are the first and last seq that it held by the manifest, None for a topic without seq.
    """

    code: ClassVar[str] = "damaged-export"
    runbook: ClassVar[str] = "Restore the named file from another copy of the export; every other segment can be read."

    def __init__(
        self, file: Path, partition: Partition, offsets: tuple[int, int], seqs: tuple[int, int] | None, why: str
    ) -> None:
        self.file, self.partition, self.offsets, self.seqs, self.why = file, partition, offsets, seqs, why
        held = f"offsets {offsets[0]} to {offsets[1]}" + (f", events {seqs[0]} to {seqs[1]}" if seqs else "")
        super().__init__(
            f"{file}: the segment of {partition[0]}[{partition[1]}] with {held} is damaged: {why}",
            remedy=(
                "Restore the file from another copy of the export, or export again into another directory; "
                "`headway verify --file DIR` reads on past it"
            ),
        )


class NotExported(StreamError):
    """A shard of the log is not in this export."""

    code: ClassVar[str] = "not-exported"
    runbook: ClassVar[str] = "Name a shard that is in the export, or export the other one into the same directory."

    def __init__(self, directory: Path, partition: Partition, shards: Iterable[int]) -> None:
        self.partition = partition
        self.shards = tuple(sorted(shards))
        super().__init__(
            f"{directory} does not hold {partition[0]}[{partition[1]}]; shards here: {', '.join(map(str, self.shards)) or 'none'}",
            remedy="Name one of these shards, or add the other one: `headway export all --shard N --to DIR`",
        )


class BeginsLater(StreamError):
    """A fold was asked of an export whose events do not begin with the first."""

    code: ClassVar[str] = "begins-later"
    runbook: ClassVar[str] = (
        "A state is a fold from event 1: use an export that has it. A part can be tailed, its chain checked."
    )

    def __init__(self, directory: Path, shard: int, first_seq: int) -> None:
        self.shard, self.first_seq = shard, first_seq
        super().__init__(
            f"the events of shard {shard} in {directory} begin at event {first_seq}, and a fold starts at event 1",
            remedy="Name an export from event 1 on; `headway events tail --file DIR` reads this one and checks its chain",
        )


class ReadOnlyLog(StreamError):
    """Something was to be written to an exported log."""

    code: ClassVar[str] = "read-only-log"
    runbook: ClassVar[str] = "An export is only read; imported into a cluster it is a log that can be written."

    def __init__(self, directory: Path, what: str) -> None:
        super().__init__(
            f"cannot {what}: {directory} is an exported log, which is only read",
            remedy="Import it into a cluster with `headway import DIR` and write there",
        )


class ExportBusy(StreamError):
    """Another process writes to this export."""

    code: ClassVar[str] = "export-busy"
    runbook: ClassVar[str] = "One export at a time writes to a directory: wait for it to end."

    def __init__(self, directory: Path) -> None:
        super().__init__(
            f"another process is writing to {directory}", remedy="Wait for it to end, or export to another directory"
        )


class NotEmpty(StreamError):
    """A log that an export is to be imported into holds something else."""

    code: ClassVar[str] = "not-empty"
    runbook: ClassVar[str] = (
        "An import begins a log: use a cluster, or a HEADWAY_TOPIC_PREFIX, on which no decider ran yet."
    )

    def __init__(self, partition: Partition, why: str) -> None:
        self.partition = partition
        super().__init__(
            f"{partition[0]}[{partition[1]}] is not empty: {why}",
            remedy=(
                "Import into another cluster, or under another HEADWAY_TOPIC_PREFIX, before `headway topics apply` and any decider; "
                "an import makes the topics itself"
            ),
        )


class OutsideLog(StreamError):
    """A range was asked for that the log does not reach."""

    code: ClassVar[str] = "outside-log"
    runbook: ClassVar[str] = "Compare the range with the first and last events that `headway replay` names."

    def __init__(self, shard: int, what: str, held: str) -> None:
        super().__init__(
            f"shard {shard}: {what} is asked for, but {held}",
            remedy="Name a range that the log has; leave the end out to take all",
        )


class UnlikeExport(StreamError):
    """What is to be added to an export does not continue it."""

    code: ClassVar[str] = "unlike-export"
    runbook: ClassVar[str] = "Export into a new directory; the one named keeps what it has."

    def __init__(self, directory: Path, why: str) -> None:
        super().__init__(
            f"{directory} holds an export that this would not continue: {why}",
            remedy="Export into another directory; this one stays as it is",
        )
