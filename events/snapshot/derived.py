"""What of the state is no row: each such field, by the class it belongs to. Every other field stands in a snapshot and in the digest.

A field that is new in events/state.py belongs either here or in the format; tests/core/test_snapshot.py says which one is forgotten.
"""

from events.durations import Durations
from events.state import (
    Broadcast,
    Checkpoint,
    Client,
    DigestReport,
    Dispatch,
    Divergence,
    Endpoint,
    Hold,
    Instance,
    Operation,
    Report,
    Shard,
    Shares,
    Shortage,
    StableChunk,
    Worker,
)

FORMAT = 1
"""Raised whenever a field is added or read otherwise: digests of two formats say nothing of each other."""

DERIVED: dict[type, frozenset[str]] = {
    Shard: frozenset({"requirement_ids", "timers", "timers_kept", "live"}),
    # `config`, `steps`, `upstream` and `pools` follow from `scheduler`.
    Instance: frozenset({"config", "steps", "upstream", "pools", "demands", "matcher", "shapes", "census"}),
    # A sort key follows from priority and time, or from the order.
    Operation: frozenset({"sort_key", "demand", "index"}),
    Client: frozenset(),
    Dispatch: frozenset({"operation", "worker"}),  # by operation_id, and by whose row it stands in
    # The ledger follows from what is declared and what runs; the instance is whose row it stands in.
    Worker: frozenset({"instance", "totals", "remaining", "unaccepted", "max_unaccepted", "index"}),
    Report: frozenset(),
    Endpoint: frozenset({"instance"}),
    StableChunk: frozenset(),
    Broadcast: frozenset(),
    Hold: frozenset(),
    Shortage: frozenset(),
    Shares: frozenset(),
    DigestReport: frozenset(),
    Checkpoint: frozenset(),
    Divergence: frozenset(),
    Durations: frozenset({"_every"}),
}
"""By class of row, the fields that are made again from the others."""
