"""Snapshots of a shard's state: rows to bytes and back, and the digest by which two states are told to be equal. Pure.

A state is one `SnapshotRows` message of proto/headway/v1/snapshots.proto; a part of a snapshot is a slice of it at row boundaries. Only
rows are in it. What is derived (demands, ledgers, matchers, timers) is made again, so that equal bytes decide every later fact the same.
"""

from events.snapshot.derived import DERIVED, FORMAT
from events.snapshot.manifest import Manifest, manifest_bytes, manifest_of
from events.snapshot.reading import Restoring, restore
from events.snapshot.writing import PART_BYTES, parts_of, state_digest

__all__ = [
    "DERIVED",
    "FORMAT",
    "PART_BYTES",
    "Manifest",
    "Restoring",
    "manifest_bytes",
    "manifest_of",
    "parts_of",
    "restore",
    "state_digest",
]
