"""The row of a shard as a plain object: every event changes it, and it is a message only where it is read and written.

A message would cost more to change than most events cost to fold, and keep every chain digest that was ever set in it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from proto.gen.headway.v1.rows_pb2 import CheckpointRow, DivergenceRow, ShardRow


@dataclass(slots=True)
class ShardState:
    """Field by field the `ShardRow` of rows.proto, where the fields are explained."""

    seq: int = 0
    next_offset: int = 0
    events: int = 0
    chain: bytes = b""
    now_us: int = 0
    leader_epoch: int = 0
    elections: int = 0
    elected_at_us: int = 0
    facts_position: int = -1
    cluster_id: str = ""
    facts_topic_id: str = ""
    events_topic_id: str = ""
    build: str = ""
    stale_events: int = 0
    silences: int = 0
    silent_us: int = 0
    elected_seq: int = 0
    recovering: bool = False
    recovered_at_us: int = 0
    unconfirmed: int = 0
    checkpoint: CheckpointRow | None = None
    divergence: DivergenceRow | None = None

    @classmethod
    def of_bytes(cls, stored: bytes | None) -> ShardState:
        """The state in a stored row, that of an empty log for None. Raises DecodeError where it is no row."""
        if stored is None:
            return cls()
        row = ShardRow.FromString(stored)
        values = {name: getattr(row, name) for name in _NAMES}
        for name in _PARTS:
            if not row.HasField(name):
                values[name] = None
        return cls(**values)

    def to_bytes(self) -> bytes:
        """The row to store."""
        return ShardRow(**{name: getattr(self, name) for name in _NAMES}).SerializeToString()


_NAMES = tuple(field.name for field in fields(ShardState))
_PARTS = ("checkpoint", "divergence")
