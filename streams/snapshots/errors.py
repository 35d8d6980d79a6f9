"""What can be wrong with snapshots. Only what stops someone is raised; a snapshot that is of no use is dropped with its reason."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from streams.errors import StreamError


class Unusable(StrEnum):
    """Why a snapshot is of no use; counted by whoever drops it."""

    UNREADABLE_MANIFEST = "unreadable-manifest"
    OTHER_LOG = "other-log"
    MISSING_PART = "missing-part"
    DAMAGED = "damaged"
    WRONG_DIGEST = "wrong-digest"
    AHEAD_OF_LOG = "ahead-of-log"
    OTHER_CHAIN = "other-chain"
    DIVERGED = "diverged"

    @property
    def sentence(self) -> str:
        """The reason for a person."""
        return _SENTENCES[self]


_SENTENCES = {
    Unusable.UNREADABLE_MANIFEST: "its manifest cannot be read, or is of another format than this release writes",
    Unusable.OTHER_LOG: "it was made of another cluster's log, or of topics that were made anew since",
    Unusable.MISSING_PART: "not all of its parts are there",
    Unusable.DAMAGED: "its parts are not those that were written",
    Unusable.WRONG_DIGEST: "the state restored from it has another digest than the one that was written",
    Unusable.AHEAD_OF_LOG: "it covers events that the log does not hold",
    Unusable.OTHER_CHAIN: "the event that it covers last is another one in the log",
    Unusable.DIVERGED: "another fold of the same events gave another state",
}


class SnapshotUnusable(StreamError):
    """One snapshot is of no use; `reason` says why, `detail` with what numbers."""

    code: ClassVar[str] = "snapshot-unusable"
    runbook: ClassVar[str] = (
        "Dropped without harm: an older one or the log is taken. infra/runbooks/snapshots.md has the reasons."
    )

    def __init__(self, what: str, reason: Unusable, detail: str = "") -> None:
        self.reason, self.detail = reason, detail
        super().__init__(
            f"{what}: {reason.sentence}" + (f" ({detail})" if detail else ""),
            remedy="Nothing is lost: the log has everything. `headway snapshot take` makes a new one",
        )


class NoSuchSnapshot(StreamError):
    """There is no snapshot where one was asked for."""

    code: ClassVar[str] = "not-found"
    runbook: ClassVar[str] = "`headway snapshot list` shows what there is."

    def __init__(self, shard: int, seq: int | None) -> None:
        which = "no snapshot" if seq is None else f"no snapshot at event {seq}"
        super().__init__(
            f"shard {shard} has {which}", remedy="`headway snapshot take` makes one, `headway snapshot list` shows them"
        )


class HistoryTrimmed(StreamError):
    """The first events of a shard are gone, and no snapshot covers them: there is nothing to begin a fold with."""

    code: ClassVar[str] = "history-trimmed"
    runbook: ClassVar[str] = (
        "Events were removed without a usable snapshot: import an export of the log into a new generation."
    )

    def __init__(self, shard: int, first: int, dropped: dict[str, int]) -> None:
        self.first, self.dropped = first, dropped
        tried = ", ".join(f"{count} {reason}" for reason, count in sorted(dropped.items())) or "there is none"
        super().__init__(
            f"the events of shard {shard} begin at offset {first}, those before are gone, and no snapshot can be used: {tried}",
            remedy="Make a new generation of the log from an export with `headway import DIR`; events are never trimmed by Headway itself",
        )


class SlotTaken(StreamError):
    """Another process began a snapshot of the same shard while this one was being written."""

    code: ClassVar[str] = "another-snapshot"
    runbook: ClassVar[str] = "One follower of a shard is enough: stop the other process, or leave it and stop this one."

    def __init__(self, shard: int) -> None:
        super().__init__(
            f"another process writes a snapshot of shard {shard} now; the one begun here stays unfinished",
            remedy="Run one `headway snapshot follow` per shard; the unfinished snapshot is written over by a later one",
        )


class NotVerified(StreamError):
    """The process that was to verify a snapshot ended without a verdict."""

    code: ClassVar[str] = "not-verified"
    runbook: ClassVar[str] = (
        "The snapshot stays unverified, which harms nobody; the log lines say what ended the process."
    )

    def __init__(self, shard: int, seq: int, exit_code: int) -> None:
        super().__init__(
            f"verifying the snapshot of shard {shard} at event {seq} ended with exit code {exit_code}, without a verdict",
            remedy="Read what it said above; the next snapshot is verified again, or run `headway snapshot verify` by hand",
        )


class NotRecorded(StreamError):
    """A snapshot is written and verified, but no event of the log says so."""

    code: ClassVar[str] = "not-recorded"
    runbook: ClassVar[str] = "No decider leads the shard, or it is far behind: `headway status`."

    def __init__(self, shard: int, seq: int, waited_s: float) -> None:
        super().__init__(
            f"the snapshot of shard {shard} at event {seq} is written and verified, but for {waited_s:g} s no decider has recorded that",
            remedy="Run a decider; it records the reports when it reads them. Until then facts are not trimmed up to this snapshot",
        )


class TrimRefused(StreamError):
    """Facts are not trimmed: nothing that may be relied on covers them."""

    code: ClassVar[str] = "trim-refused"
    runbook: ClassVar[str] = "Nothing was removed. Have a snapshot written and verified first: `headway snapshot take`."

    def __init__(
        self, shard: int, because: str, *, remedy: str = "Have one written and verified: `headway snapshot take`"
    ) -> None:
        super().__init__(f"no fact of shard {shard} is trimmed: {because}", remedy=remedy)
