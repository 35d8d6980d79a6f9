"""What can go wrong between Headway and its log, said so that the reader knows what to do next.

Every error has a stable `code` (for dashboards and runbooks), a message with the place and the numbers, a `remedy`
for whoever reads it, and a one-line `runbook` entry for the operator who is paged by its code.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

Place = tuple[str, int]


def _place(partition: Place) -> str:
    return f"{partition[0]}[{partition[1]}]"


def _listed(names: Iterable[str], most: int = 20) -> str:
    """Names in order, cut after `most`, so that an error about one topic does not print a cluster."""
    ordered = sorted(names)
    if not ordered:
        return "none"
    shown = ", ".join(repr(name) for name in ordered[:most])
    return shown if len(ordered) <= most else f"{shown} and {len(ordered) - most} more"


class StreamError(Exception):
    """The base of every error of `streams`: `code`, the message, `remedy`, and the class's `runbook` line."""

    code: ClassVar[str] = "stream-error"
    runbook: ClassVar[str] = "Read the message; it names the place and the remedy."

    def __init__(self, message: str, *, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} [{self.code}]. {self.remedy}"


class NoSuchTopic(StreamError):
    """The topic does not exist (topics are never created by writing to them)."""

    code = "no-such-topic"
    runbook = "Run `headway topics plan`, then `headway topics apply`; check that the bootstrap address is the intended cluster."

    def __init__(self, topic: str, known: Iterable[str]) -> None:
        self.topic = topic
        self.known = tuple(sorted(known))
        super().__init__(
            f"topic {topic!r} does not exist; topics here: {_listed(self.known)}",
            remedy="Create the topics with `headway topics apply`",
        )


class NoSuchPartition(StreamError):
    """The topic exists, the partition does not."""

    code = "no-such-partition"
    runbook = "A shard beyond the topic's partitions: compare the shard map with `headway topics plan`."

    def __init__(self, partition: Place, count: int) -> None:
        self.partition = partition
        self.count = count
        super().__init__(
            f"{_place(partition)} does not exist: the topic has {count} partition(s), 0 to {count - 1}",
            remedy="Raise the number of shards with `headway topics apply --shards N`, or use an existing shard",
        )


class OffsetTrimmed(StreamError):
    """The position asked for lies before the log's start: retention or a trim removed it. Nothing is skipped silently."""

    code = "offset-trimmed"
    runbook = "The reader was away longer than the retention, or a trim went past it: rebuild it from a snapshot."

    def __init__(self, partition: Place, asked: int, first: int) -> None:
        self.partition = partition
        self.asked = asked
        self.first = first
        super().__init__(
            f"{_place(partition)}: offset {asked} is gone, the log starts at {first} ({first - asked} offsets trimmed)",
            remedy=f"Rebuild from a snapshot that reaches offset {first} or later, or seek to {first} knowing what is lost",
        )


class OffsetPastEnd(StreamError):
    """The position asked for lies past the log's end: the log is not the one the position was taken from, or it lost data."""

    code = "offset-past-end"
    runbook = (
        "The log was reset, restored from an older copy, or truncated: compare cluster and topic ids before going on."
    )

    def __init__(self, partition: Place, asked: int, end: int) -> None:
        self.partition = partition
        self.asked = asked
        self.end = end
        super().__init__(
            f"{_place(partition)}: offset {asked} lies {asked - end} past the log's end {end}",
            remedy="Check that this is the log the position was taken from; if it was reset, discard the local state and replay",
        )


class Fenced(StreamError):
    """Another owner opened the same transactional id: this writer is dead and nothing of its open transaction is visible."""

    code = "fenced"
    runbook = (
        "Expected once per takeover. Often repeated: two deciders fight for one shard, look at their clocks and load."
    )

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        super().__init__(
            f"another writer owns {transactional_id!r} now; this one can write no more",
            remedy="Close this writer, drop the state built on it, and follow the new owner",
        )


class Refused(StreamError):
    """The log will never accept this record. Nothing of its batch is visible, and the writer may go on.

    `size_bytes` counts what the broker counts: the record in a batch of its own, with its overheads. Both numbers are
    None when the refusal was not about size; `reason` then says what it was.
    """

    code = "refused"
    runbook = "A record over `max.message.bytes` or of a kind the topic forbids: find its producer from the key, or raise the limit."

    def __init__(
        self,
        partition: Place,
        *,
        size_bytes: int | None = None,
        limit_bytes: int | None = None,
        reason: str = "",
    ) -> None:
        self.partition = partition
        self.topic = partition[0]
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes
        self.reason = reason
        if size_bytes is not None and limit_bytes is not None:
            said = f"a record of {size_bytes} bytes is over the limit of {limit_bytes} bytes"
            remedy = "Make the record smaller (move payloads to a blob store), or raise the topic's max.message.bytes"
        else:
            said = reason or "the broker refused a record"
            remedy = "Correct the record; sending it again unchanged will be refused again"
        super().__init__(f"{_place(partition)}: {said}", remedy=remedy)


class OutcomeUnknown(StreamError):
    """No answer came in time: what was written may be visible or not, and guessing would lose or double it.

    `phase` is "send" (the commit was never asked for, so the broker will abort it), "commit", or "publish".
    """

    code = "outcome-unknown"
    runbook = "The broker was away or slow for longer than the deadline: look at its log, disk and network."

    def __init__(self, what: str, *, phase: str, waited_ms: int, because: str = "") -> None:
        self.what = what
        self.phase = phase
        self.waited_ms = waited_ms
        self.because = because
        why = f" ({because})" if because else ""
        super().__init__(
            f"{what}: no answer to the {phase} after {waited_ms} ms{why}; it may or may not have happened",
            remedy=(
                "Publish again with the same client_operation_id; a repeated fact is ignored"
                if phase == "publish"
                else "Drop this writer and the state, open a new one and rebuild the state from the log"
            ),
        )


class LogUnavailable(StreamError):
    """The log did not answer a question (no write was involved)."""

    code = "log-unavailable"
    runbook = "Is the broker up and reachable from here? `headway broker status` says which address is used."

    def __init__(self, what: str, *, address: str, waited_ms: int, because: str = "") -> None:
        self.what = what
        self.address = address
        self.waited_ms = waited_ms
        self.because = because
        why = f" ({because})" if because else ""
        super().__init__(
            f"{what}: no answer from the log at {address}, which was given {waited_ms} ms{why}",
            remedy="Check that the broker runs and that the address is right, then try again",
        )


class CorruptLog(StreamError):
    """The bytes of a batch do not match their checksum."""

    code = "corrupt-log"
    runbook = "A disk or memory fault at the broker or on the way: check the broker's log and disk before going on."

    def __init__(self, what: str) -> None:
        super().__init__(
            f"a batch failed its checksum: {what}",
            remedy="Read again; if it persists, restore the partition from a replica or an export",
        )


class Closed(StreamError):
    """A follower, writer or log was used after it was closed, or a writer after it was lost."""

    code = "closed"
    runbook = "A fault in the program, not in the cluster: report it with the message."

    def __init__(self, what: str, because: str = "") -> None:
        self.what = what
        super().__init__(f"{what} is closed{f': {because}' if because else ''}", remedy="Open a new one")


class TopicConflict(StreamError):
    """A topic exists in a shape that cannot be changed into the one asked for without losing order or records."""

    code = "topic-conflict"
    runbook = (
        "Partitions can only be added. Choose another cluster or begin a new log under another HEADWAY_TOPIC_PREFIX."
    )

    def __init__(self, topic: str, what: str, *, has: object, wanted: object) -> None:
        self.topic = topic
        super().__init__(
            f"topic {topic!r}: {what} is {has}, {wanted} is wanted, and that change cannot be made in place",
            remedy="Ask for the existing value, or begin a new log: another cluster, or another HEADWAY_TOPIC_PREFIX",
        )


class UnknownInstance(StreamError):
    """The instance is not in the shard map."""

    code = "unknown-instance"
    runbook = (
        "A client names an instance nobody registered: correct the client, or `headway topics apply --instance NAME`."
    )

    def __init__(self, instance: str, known: Iterable[str]) -> None:
        self.instance = instance
        self.known = tuple(sorted(known))
        super().__init__(
            f"unknown instance {instance!r}; known instances: {_listed(self.known)}",
            remedy="Use a known instance, or register this one with `headway topics apply --instance NAME[=SHARD]`",
        )


class InvalidInstance(StreamError):
    """An instance name or its shard cannot be registered."""

    code = "invalid-instance"
    runbook = "Correct the `--instance` argument; the message says which rule it breaks."

    def __init__(self, instance: str, why: str, *, remedy: str) -> None:
        self.instance = instance
        super().__init__(f"instance {instance!r} cannot be registered: {why}", remedy=remedy)


class UnreadableShardMap(StreamError):
    """A record of the shard map cannot be read. A client must not guess where an instance lives."""

    code = "unreadable-shard-map"
    runbook = (
        "Something other than `headway topics apply` wrote to the shard map: write the instance again to overwrite it."
    )

    def __init__(self, partition: Place, offset: int, why: str) -> None:
        self.partition = partition
        self.offset = offset
        super().__init__(
            f"{_place(partition)} offset {offset}: {why}",
            remedy="Write the instance again with `headway topics apply --instance NAME=SHARD`; the last record of a key wins",
        )
