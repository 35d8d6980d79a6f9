"""What can go wrong with blobs, with the numbers and the remedy."""

from __future__ import annotations

from typing import ClassVar

from streams.errors import StreamError


class UnreadableDigest(StreamError):
    """A text is no digest."""

    code: ClassVar[str] = "unreadable-digest"
    runbook: ClassVar[str] = "A digest is written `<64 hex digits>-<size in bytes>`; blobs are named by SHA-256."

    def __init__(self, text: str) -> None:
        super().__init__(
            f"{text[:128]!r} is no digest: 64 hex digits in lower case, '-', and the size in bytes",
            remedy="Copy it as `headway blobs put` printed it",
        )


class WrongContent(StreamError):
    """Content is not what its digest says."""

    code: ClassVar[str] = "wrong-content"
    runbook: ClassVar[str] = "Whoever sent or kept the blob has damaged it: look at that machine's disk and memory."

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        super().__init__(f"blob {name}: {why}", remedy="It was not kept; take it from somewhere else")


class BlobMissing(StreamError):
    """The blob is not there."""

    code: ClassVar[str] = "blob-missing"
    runbook: ClassVar[str] = (
        "`headway locality holders DIGEST` says which workers hold it; put it again with `headway blobs put`."
    )

    def __init__(self, name: str, where: str) -> None:
        self.name = name
        super().__init__(f"blob {name} is not in {where}", remedy="Put it there with `headway blobs put FILE`")


class BlobTooLarge(StreamError):
    """A blob is larger than all the room there is for blobs."""

    code: ClassVar[str] = "blob-too-large"
    runbook: ClassVar[str] = (
        "Raise the budget (`--blobs-budget-kib` of a worker) above the largest blob it has to hold."
    )

    def __init__(self, name: str, size_bytes: int, budget_bytes: int) -> None:
        super().__init__(
            f"blob {name} has {size_bytes} bytes, and the whole budget is {budget_bytes} bytes",
            remedy="Raise the budget above the largest blob",
        )


class NoRoomForBlob(StreamError):
    """What could be given up for the blob is not enough."""

    code: ClassVar[str] = "no-room-for-blob"
    runbook: ClassVar[str] = (
        "Blobs that runs use, or that are still on their way, fill the budget: raise it, or let fewer run at once."
    )

    def __init__(self, name: str, size_bytes: int, budget_bytes: int, kept_bytes: int) -> None:
        super().__init__(
            f"no room for blob {name} of {size_bytes} bytes: {kept_bytes} of {budget_bytes} bytes cannot be given up now",
            remedy="Raise the budget, or try again when less is in use",
        )


class BlobDirectoryInUse(StreamError):
    """Another process keeps its blobs in this directory."""

    code: ClassVar[str] = "blob-directory-in-use"
    runbook: ClassVar[str] = "Give each process a directory of its own; a lock ends with the process that holds it."

    def __init__(self, path: str) -> None:
        super().__init__(
            f"another process keeps its blobs in {path}", remedy="Stop that one, or name another directory"
        )


class BlobDirectoryUnusable(StreamError):
    """A directory for blobs cannot be made, read or written."""

    code: ClassVar[str] = "blob-directory-unusable"
    runbook: ClassVar[str] = (
        "The process needs to read, write and make folders there; what a former process of another user made, it may not."
    )

    def __init__(self, why: str) -> None:
        super().__init__(
            f"blobs cannot be kept there: {why}",
            remedy="Name another directory, or give this user the right to write to it",
        )


class IntakeStopped(StreamError):
    """The stable store is about to stop and takes nothing new."""

    code: ClassVar[str] = "intake-stopped"
    runbook: ClassVar[str] = "It was asked to stop; send again to the one that comes after it."

    def __init__(self) -> None:
        super().__init__("the store is stopping and takes nothing new", remedy="Send it again when the store is back")


class UploadStalled(StreamError):
    """A client sends no more of a blob, and what is reserved for it is given up."""

    code: ClassVar[str] = "upload-stalled"
    runbook: ClassVar[str] = (
        "The client, or the network to it, stands still: look there. "
        "`headway blobs serve --upload-silence-s` says how long the store waits."
    )

    def __init__(self, name: str, silence_s: float) -> None:
        super().__init__(
            f"nothing more of blob {name} came for {silence_s:g} s, and it was not kept", remedy="Send it again"
        )


class SameDirectory(StreamError):
    """The two tiers of a store were to be in one directory."""

    code: ClassVar[str] = "same-blob-directory"
    runbook: ClassVar[str] = "Name a directory on a quick disk for `--fast-dir`, or leave it out: in memory, then."

    def __init__(self, path: str) -> None:
        super().__init__(
            f"--dir and --fast-dir are one directory, {path}, and each tier needs its own",
            remedy="Name another directory for --fast-dir, or leave it out",
        )


class TierFailed(StreamError):
    """The durable tier did not take blobs; they stay in the fast one."""

    code: ClassVar[str] = "durable-tier-failed"
    runbook: ClassVar[str] = "Look at the disk of the durable tier; nothing is said to be stable meanwhile."

    def __init__(self, name: str, left: int, why: str) -> None:
        super().__init__(
            f"the durable tier did not take blob {name} ({left} blob(s) wait for it): {why}",
            remedy="Make room or repair the disk; it is tried again",
        )


class StoreFailed(StreamError):
    """The stable store does not answer, or refuses."""

    code: ClassVar[str] = "blob-store-failed"
    runbook: ClassVar[str] = "Does `headway blobs serve` run, and is its address the one in HEADWAY_BLOBS_URL?"

    def __init__(self, url: str, why: str) -> None:
        super().__init__(
            f"the blob store at {url}: {why}",
            remedy="Start it with `headway blobs serve`, or correct --blobs-url or HEADWAY_BLOBS_URL",
        )


class MapUnavailable(StreamError):
    """The locality map does not answer, or, `answered`, not with what was asked for."""

    code: ClassVar[str] = "locality-map-unavailable"
    runbook: ClassVar[str] = (
        "Does `headway state-table run` run? Until it does, blobs come from the stable store alone."
    )

    def __init__(self, url: str, why: str, *, answered: bool = False) -> None:
        self.answered = answered
        super().__init__(
            f"the locality map at {url} {'does not know' if answered else 'does not answer'}: {why}",
            remedy="Start the read side, or correct --locality-url",
        )
