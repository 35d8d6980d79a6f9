"""The audit topic: what auditors of a shard found, as records and back.

An auditor is a build and the rules it came with, so two checkouts of one release are told apart. Its records of one log stand in order of
`seq`, the divergences of a stretch in one transaction with the `ShadowProgress` behind it: where it goes on after a restart is what its
last progress says, and nothing is ever said twice.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, Final

from google.protobuf.message import DecodeError

import events as core
from events.codec import decode_event
from events.codec.events import plain_body
from events.errors import UnknownEvent
from events.events import Event, LeaderElected
from events.jsonform import event_to_json
from events.reasons import DecisionDifference, sentence
from projections.redeciding import Divergence, Judged
from proto.gen.headway.v1 import audit_pb2, events_pb2
from streams.decider import this_build
from streams.errors import StreamError
from streams.event_tail import last_seq
from streams.log import Log, Outgoing, Partition, Record
from streams.topics import AUDIT, EVENTS

MOST_EVENTS_SHOWN: Final = 16
MOST_BYTES_SHOWN: Final = 256 << 10
_LONGEST_ERROR: Final = 400


class UnreadableAudit(StreamError):
    """A record of the audit topic is none."""

    code: ClassVar[str] = "unreadable-audit"
    runbook: ClassVar[str] = (
        "Something else wrote into the audit topic. Nothing but audits is lost with it: delete and apply it anew."
    )

    def __init__(self, partition: Partition, offset: int, because: str) -> None:
        self.partition, self.offset = partition, offset
        super().__init__(
            f"{partition[0]}[{partition[1]}] offset {offset} is no record of an auditor that this build can read: {because}",
            remedy="Read it with the newest build that writes there; is this the intended cluster and topic prefix?",
        )


def this_auditor() -> str:
    """This build and a digest of the code that decides in it, "headway 0.5.0 rules 1f2e3d4c5b6a" say.

    The digest is over the source of `events`, so that two checkouts of one release are two auditors if they decide by other code, and
    one if they differ elsewhere.
    """
    root = Path(core.__path__[0])
    digest = blake2b(digest_size=6)
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root).as_posix()}\n".encode() + path.read_bytes() + b"\n")
    return f"{this_build()} rules {digest.hexdigest()}"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an auditor has come: its last event, the fact that comes next, and what it has judged so far."""

    seq: int
    next_fact_offset: int
    judged: Judged


def diverged_record(auditor: str, events_topic_id: str, found: Divergence) -> Outgoing:
    """The record of one divergence; of long lists of events, those from the first difference on."""
    message = audit_pb2.Audit(auditor=auditor, events_topic_id=events_topic_id)
    said = message.shadow_diverged
    said.seq, said.offset, said.cause_offset = found.seq, found.offset, found.cause_offset
    said.fact_kind, said.difference = found.fact_kind, int(found.difference)
    said.fields.extend(found.fields)
    said.leader_epoch, said.build = found.leader_epoch, found.build
    said.recorded_count, said.decided_count, said.shown_from = len(found.recorded), len(found.decided), found.at
    error = found.error
    for events, shown in ((found.recorded, said.recorded), (found.decided, said.decided)):
        try:
            for body in _shown(events[found.at :]):
                shown.add().MergeFromString(body)
        except ValueError as unfit:
            error = error or f"what this build decides cannot be written: {unfit}"
    said.error = error[:_LONGEST_ERROR]
    return Outgoing(message.SerializeToString(deterministic=True))


def progress_record(auditor: str, events_topic_id: str, progress: Progress) -> Outgoing:
    """The record that says how far the auditor is."""
    message = audit_pb2.Audit(auditor=auditor, events_topic_id=events_topic_id)
    message.shadow_progress.CopyFrom(
        audit_pb2.ShadowProgress(
            seq=progress.seq, next_fact_offset=progress.next_fact_offset, **asdict(progress.judged)
        )
    )
    return Outgoing(message.SerializeToString(deterministic=True))


def _shown(events: Sequence[Event]) -> list[bytes]:
    bodies: list[bytes] = []
    size_bytes = 0
    for event in events[:MOST_EVENTS_SHOWN]:
        body = plain_body(event, event.leader_epoch if isinstance(event, LeaderElected) else 0)
        size_bytes += len(body)
        if size_bytes > MOST_BYTES_SHOWN:
            break
        bodies.append(body)
    return bodies


def read_audit(partition: Partition, record: Record) -> audit_pb2.Audit:
    """The message in a record. Raises UnreadableAudit."""
    try:
        message = audit_pb2.Audit.FromString(record.value)
    except DecodeError as error:
        raise UnreadableAudit(partition, record.offset, str(error)) from error
    if not message.WhichOneof("kind"):
        raise UnreadableAudit(partition, record.offset, "it holds no kind of finding that is known here")
    return message


def progress_of(message: audit_pb2.Audit) -> Progress:
    """What a `ShadowProgress` says."""
    said = message.shadow_progress
    counts = {name: getattr(said, name) for name in Judged.__slots__}
    return Progress(said.seq, said.next_fact_offset, Judged(**counts))


async def audits(log: Log, shard: int, *, follow: bool = False) -> AsyncGenerator[tuple[Record, audit_pb2.Audit], None]:
    """Every record of the auditors of this log's shard that retention has left, up to the end of now, or for ever with `follow`.

    What was said of a log that stood here before (its topic was deleted and made anew) is left out.

    Raises:
        UnreadableAudit: one is none.
        NoSuchTopic, NoSuchPartition, LogUnavailable: as everywhere.
    """
    partition: Partition = (AUDIT, shard)
    topic_id = await log.topic_id(EVENTS)
    follower = await log.follow({partition: None})
    try:
        end = await follower.end_offset(partition)
        while follow or await follower.position(partition) < end:
            for record in (await follower.read(timeout_ms=200)).get(partition, ()):
                if not follow and record.offset >= end:
                    return
                message = read_audit(partition, record)
                if message.events_topic_id == topic_id:
                    yield record, message
    finally:
        await follower.close()


async def last_progress(log: Log, shard: int, auditor: str) -> Progress | None:
    """Where this auditor has come to; None: it has said nothing yet. Raises as `audits`."""
    last = None
    async for _, message in audits(log, shard):
        if message.auditor == auditor and message.WhichOneof("kind") == "shadow_progress":
            last = progress_of(message)
    return last


async def standings(log: Log, shard: int, now_us: int | None = None) -> list[dict[str, Any]]:
    """How far each auditor of a shard is, the one that was heard last at the end; `behind` counts events.

    `differences` counts, by kind, the divergences that retention has left.
    """
    seq = await last_seq(log, shard)
    progress: dict[str, tuple[Record, audit_pb2.Audit]] = {}
    differences: dict[str, Counter[str]] = {}
    async for record, message in audits(log, shard):
        if message.WhichOneof("kind") == "shadow_progress":
            progress.pop(message.auditor, None)
            progress[message.auditor] = record, message
        else:
            name = DecisionDifference(message.shadow_diverged.difference).name.lower()
            differences.setdefault(message.auditor, Counter())[name] += 1
    now_us = time.time_ns() // 1_000 if now_us is None else now_us
    rows = []
    for auditor, (record, message) in progress.items():
        said = progress_of(message)
        rows.append(
            {
                "shard": shard,
                "auditor": auditor,
                "seq": said.seq,
                "behind": max(0, seq - said.seq),
                **asdict(said.judged),
                "age_us": max(0, now_us - record.at_us),
                "differences": dict(differences.get(auditor, {})),
            }
        )
    return rows


def divergence_json(record: Record, message: audit_pb2.Audit, shard: int) -> dict[str, Any]:
    """A divergence as JSON: its place on top, both sides' events as `headway events tail` prints them."""
    said = message.shadow_diverged
    difference = DecisionDifference(said.difference)
    both = {side: [_event_json(value, shard) for value in getattr(said, side)] for side in ("recorded", "decided")}
    return {
        "shard": shard,
        "seq": said.seq,
        "offset": said.offset,
        "cause_offset": said.cause_offset,
        "at_us": record.at_us,
        "auditor": message.auditor,
        "fact_kind": said.fact_kind,
        "difference": difference.name.lower(),
        "sentence": sentence(difference),
        "fields": list(said.fields),
        "error": said.error,
        "leader_epoch": said.leader_epoch,
        "build": said.build,
        "recorded_count": said.recorded_count,
        "decided_count": said.decided_count,
        "shown_from": said.shown_from,
        **both,
    }


def _event_json(value: events_pb2.Event, shard: int) -> dict[str, Any]:
    """An event as JSON; of one that only the other build knows, its envelope with an empty kind."""
    try:
        return event_to_json(decode_event(value.SerializeToString()), shard=shard)
    except UnknownEvent:
        place = {"seq": value.seq, "shard": shard, "at_us": value.at_us, "cause_offset": value.cause_offset}
        return {**place, "kind": "", "unreadable": "a kind of event, or a value in one, that this build does not know"}
