"""Snapshots: every field of every row stands in one or is derived, and what is damaged is refused."""

from collections.abc import Iterator
from dataclasses import is_dataclass, replace
from enum import IntEnum
from typing import Any

import pytest

from events import state
from events.config import parse_config
from events.durations import Durations
from events.errors import SnapshotUnreadable
from events.evolve import evolve
from events.fitting import Demand
from events.snapshot import (
    DERIVED,
    FORMAT,
    Manifest,
    Restoring,
    manifest_bytes,
    manifest_of,
    parts_of,
    restore,
    state_digest,
)
from events.state import Checkpoint, Client, Divergence, FleetShapes, Hold, Operation, Report, Shard, Shares, Worker
from events.values import Digest, QueueOrder
from proto.gen.headway.v1.snapshots_pb2 import SnapshotManifest, SnapshotRows
from tests.projections.recorded import Recorded

SMALL = 900
ROWS = [
    kind
    for kind in vars(state).values()
    if isinstance(kind, type) and kind.__module__ == state.__name__ and (is_dataclass(kind) or hasattr(kind, "_fields"))
]
FIELDS = {
    kind: [name for name in getattr(kind, "_fields", getattr(kind, "__slots__", ())) if name not in derived]
    for kind, derived in DERIVED.items()
}


def walked(seed: int = 3, facts: int = 300) -> Shard:
    shard = Shard()
    for _, event in Recorded().walk(seed, facts, elections=0.02).events:
        evolve(shard, event)
    return shard


class Change:
    """One field of one row to be changed, and back."""

    def __init__(self, kind: type, name: str, holder: Any, key: Any, row: Any) -> None:
        self.kind, self.name, self.holder, self.key, self.row = kind, name, holder, key, row

    def put(self, value: Any) -> None:
        """Give the field another value; a named tuple is replaced where it stands."""
        if hasattr(self.row, "_replace"):
            row = self.row._replace(**{self.name: value})
            if isinstance(self.holder, dict):
                self.holder[self.key] = row
            else:
                setattr(self.holder, self.key, row)
        else:
            setattr(self.row, self.name, value)


def changes_in(shard: Shard) -> Iterator[Change]:
    """Every field of every row that stands in a snapshot, each row once."""
    seen: dict[int, Any] = {}
    waiting: list[tuple[Any, Any, Any]] = [(None, None, shard)]
    while waiting:
        holder, key, value = waiting.pop()
        if type(value) in DERIVED:
            if id(value) in seen:
                continue
            seen[id(value)] = value
            for name in FIELDS[type(value)]:
                yield Change(type(value), name, holder, key, value)
                waiting.append((value, name, getattr(value, name)))
        elif isinstance(value, dict):
            waiting += [(value, key, item) for key, item in value.items()]


def another(shard: Shard, change: Change, value: Any) -> Any:
    """Another value for the field; None where this row has none that means anything."""
    if change.kind is Operation and change.name == "instance":
        return next(name for name in shard.instances if name != value)
    if change.kind is Operation and change.name == "dispatch":
        return None  # that it is the current one: seen in the run's own row, below
    if isinstance(value, IntEnum):
        return next(member for member in type(value) if member != value)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str | bytes):
        return value + (b"x" if isinstance(value, bytes) else "x")
    if isinstance(value, Digest):
        return Digest(value.hash + b"x", value.size_bytes)
    if change.name == "order":
        return QueueOrder(1, 2, "s", 3)
    if change.name == "clients":
        return {"x": Client("x", "y", True, 5)}
    if change.name == "scheduler":
        return parse_config('{"kind":"simple","max_job_retries":77}')
    if change.name == "parked_keys":
        return {**value, "k": None}
    if isinstance(value, Demand):
        return replace(value, requirement_id=value.requirement_id + 1)
    if change.name == "unacknowledged":
        return {5: None}
    if isinstance(value, Operation):
        return next((other for other in shard.operations.values() if other is not value), None)
    if isinstance(value, Worker):
        return next((w for i in shard.instances.values() for w in i.workers.values() if w is not value), None)
    if value is None:
        return None if change.name in ("hold", "checkpoint", "divergence") else 77
    if change.name == "properties":
        return (*value, ("zzz", "1"))
    if isinstance(value, tuple):
        return (*value, 77)
    if change.name == "finished":
        return type(value)(list(value)[1:]) if value else None
    if isinstance(value, dict) and value:
        return type(value)(dict(list(value.items())[1:]))
    return None


def digest_of(shard: Shard) -> bytes:
    """The digest; empty where rows no longer find each other, so that there is none."""
    try:
        return state_digest(shard)
    except KeyError:
        return b""


def test_every_class_of_row_is_accounted_for() -> None:
    assert [kind.__name__ for kind in ROWS if kind not in DERIVED and kind is not FleetShapes] == []
    for kind, derived in DERIVED.items():
        assert derived <= set(getattr(kind, "_fields", getattr(kind, "__slots__", ()))), kind.__name__


def test_every_field_that_is_not_derived_stands_in_the_digest() -> None:
    """A field that a snapshot forgot would leave the digest as it was."""
    left = {(kind, name) for kind, names in FIELDS.items() for name in names}
    left -= {(Operation, "dispatch")}  # a run is the current one or not: `test_which_run_is_the_current_one`
    for seed in range(40):
        shard = walked(seed, 120 + 10 * seed)
        before = state_digest(shard)
        for change in list(changes_in(shard)):
            if (change.kind, change.name) not in left:
                continue
            value = getattr(change.row, change.name)
            if type(value) in (Checkpoint, Divergence, Durations, Hold, Report, Shares):
                left.discard((change.kind, change.name))  # a row by itself: its fields are looked at one by one
                continue
            other = another(shard, change, value)
            if other is None:
                continue
            change.put(other)
            assert digest_of(shard) != before, f"{change.kind.__name__}.{change.name} is neither written nor derived"
            change.put(value)
            left.discard((change.kind, change.name))
        assert state_digest(shard) == before
        if not left:
            return
    assert sorted(f"{kind.__name__}.{name}" for kind, name in left) == []


def test_which_run_is_the_current_one() -> None:
    shard = walked()
    before = state_digest(shard)
    operation = next(operation for operation in shard.operations.values() if operation.dispatch is not None)
    operation.dispatch = None
    assert state_digest(shard) != before


def test_the_digest_is_the_same_however_the_rows_are_cut() -> None:
    shard = walked()
    assert len(list(parts_of(shard))) == 1
    parts = list(parts_of(shard, SMALL))
    assert len(parts) > 5
    assert b"".join(parts) == b"".join(parts_of(shard))
    assert max(map(len, parts)) < 5_000


def test_nothing_may_be_folded_while_a_snapshot_is_written() -> None:
    shard = walked()
    parts = parts_of(shard, SMALL)
    next(parts)
    shard.seq += 1
    with pytest.raises(RuntimeError, match="while the state after event"):
        list(parts)


def test_an_empty_state_comes_back() -> None:
    shard = restore(parts_of(Shard()), state_digest(Shard()))
    assert (shard.seq, shard.position, shard.instances) == (0, -1, {})


def damaged(parts: list[bytes]) -> Iterator[tuple[str, list[bytes]]]:
    middle = len(parts) // 2
    yield "the first is missing", parts[1:]
    yield "one is missing", parts[:middle] + parts[middle + 1 :]
    yield "the last is missing", parts[:-1]
    yield "one came twice", [*parts[:middle], parts[middle], *parts[middle:]]
    yield "the header came twice", [parts[0], *parts]
    yield "two have changed places", [*parts[:middle], parts[middle + 1], parts[middle], *parts[middle + 2 :]]
    yield "one was cut", [*parts[:middle], parts[middle][:-3], *parts[middle + 1 :]]
    yield "none is there", []
    for at in range(0, len(parts), 7):
        changed = bytearray(parts[at])
        changed[len(changed) // 2] ^= 0x10
        yield f"part {at} has another bit", [*parts[:at], bytes(changed), *parts[at + 1 :]]


def reads(parts: list[bytes], digest: bytes) -> bool:
    try:
        restore(parts, digest)
    except SnapshotUnreadable:
        return False
    return True


def test_what_is_damaged_is_refused() -> None:
    shard = walked()
    parts, digest = list(parts_of(shard, SMALL)), state_digest(shard)
    for what, found in damaged(parts):
        assert reads(found, digest) is False, f"{what}, and it was read"
    assert reads(parts, digest)


def test_a_snapshot_of_another_state_is_refused() -> None:
    shard = walked()
    with pytest.raises(SnapshotUnreadable, match=r"have digest [0-9a-f]{32}, not [0-9a-f]{32}"):
        restore(parts_of(shard), state_digest(walked(4)))


def test_a_snapshot_of_another_format_is_refused() -> None:
    rows = SnapshotRows()
    rows.header.format = FORMAT + 1
    with pytest.raises(SnapshotUnreadable, match=f"has format {FORMAT + 1}; this build reads {FORMAT}"):
        Restoring().take(rows.SerializeToString())


MANIFEST = Manifest(2, 100, 130, 90, 10**15, b"c" * 16, b"d" * 16, 3, 1_500_000, "b1", "c1", "f1", "e1", 4, "w")


def test_a_manifest_comes_back_as_it_was_written() -> None:
    assert manifest_of(manifest_bytes(MANIFEST)) == MANIFEST
    assert set(Manifest._fields) == set(SnapshotManifest.DESCRIPTOR.fields_by_name)


def test_a_manifest_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(SnapshotUnreadable, match="3 bytes is no snapshot manifest"):
        manifest_of(b"\xff\xff\xff")
    with pytest.raises(SnapshotUnreadable, match=f"shard 2 at event 100 has format {FORMAT + 1}"):
        manifest_of(manifest_bytes(MANIFEST._replace(format=FORMAT + 1)))
