"""The manifest of a snapshot: what it is of, and where its readers go on."""

from typing import NamedTuple

from google.protobuf.message import DecodeError

from events.errors import SnapshotUnreadable
from events.snapshot.derived import FORMAT
from proto.gen.headway.v1 import snapshots_pb2


class Manifest(NamedTuple):
    """As `SnapshotManifest` of the contract; offsets are of the shard's partitions, `bytes` is the size of all parts together."""

    shard: int
    seq: int  # of the last event it covers
    next_event_offset: int  # the first record behind it
    next_fact_offset: int  # the first fact that its events do not answer
    at_us: int
    chain: bytes
    state_digest: bytes
    parts: int
    bytes: int
    build: str = ""
    cluster_id: str = ""
    facts_topic_id: str = ""
    events_topic_id: str = ""
    leader_epoch: int = 0
    written_by: str = ""
    format: int = FORMAT


def manifest_bytes(manifest: Manifest) -> bytes:
    """The record of a manifest."""
    data: bytes = snapshots_pb2.SnapshotManifest(**manifest._asdict()).SerializeToString()
    return data


def manifest_of(data: bytes) -> Manifest:
    """The manifest in a record.

    Raises:
        SnapshotUnreadable: it is none, or of another format than this build's.
    """
    try:
        message = snapshots_pb2.SnapshotManifest.FromString(data)
    except DecodeError as error:
        raise SnapshotUnreadable(f"a record of {len(data)} bytes is no snapshot manifest") from error
    if message.format != FORMAT:
        raise SnapshotUnreadable(
            f"the snapshot of shard {message.shard} at event {message.seq} has format {message.format}; this build reads {FORMAT}"
        )
    return Manifest(*[getattr(message, name) for name in Manifest._fields])
