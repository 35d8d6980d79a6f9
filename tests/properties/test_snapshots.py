"""Snapshots over random histories: the digest is the same whoever has the state, and who goes on from a snapshot decides the same.

Rerun one by its seed, as with test_invariants.py.
"""

import os
import random
import subprocess
import sys

import pytest

from events.evolve import evolve
from events.indexing import build_indexes
from events.snapshot import parts_of, restore, state_digest
from events.state import Shard
from proto.gen.headway.v1.snapshots_pb2 import SnapshotRows
from tests.projections.recorded import Recorded
from tests.properties.test_invariants import folded, restarts_of, run
from tests.reference.rows import rows_of

SMALL = 900
"""Bytes of a part: a few rows, so that every kind of row is once the first and once the last of a part."""


def restored(shard: Shard) -> Shard:
    return restore(list(parts_of(shard, SMALL)), state_digest(shard))


@pytest.mark.parametrize("seed", range(300, 315))
def test_a_restart_from_a_snapshot_at_any_moment_changes_no_later_event(seed: int) -> None:
    plain, shard = run(seed, 300)
    restarts = restarts_of(seed, 300)
    restarted, again = run(seed, 300, restarts, rebuilt=lambda log: restored(folded(log)))
    assert restarted == plain, f"seed {seed}: restarts at {sorted(restarts)} changed the events"
    assert rows_of(again) == rows_of(shard)
    assert state_digest(again) == state_digest(shard)


@pytest.mark.parametrize("seed", range(315, 320))
def test_the_same_under_one_leader_after_another(seed: int) -> None:
    restarts = restarts_of(seed, 300)
    plain, _ = run(seed, 300, restarts, electing=True)
    restarted, _ = run(seed, 300, restarts, electing=True, rebuilt=lambda log: restored(folded(log)))
    assert restarted == plain, f"seed {seed}"


@pytest.mark.parametrize("seed", range(8))
def test_a_snapshot_after_any_event_goes_on_like_the_fold(seed: int) -> None:
    """Between two events of one fact too: a follower need not know where a fact ends."""
    events = [event for _, event in Recorded().walk(seed, 300, elections=0.02).events]
    plain, resumed = Shard(), Shard()
    for event in events:
        evolve(plain, event)
        evolve(resumed, event)
        if random.Random(event.seq).random() < 0.15:
            where = f"seed {seed} after event {event.seq}"
            resumed = restored(resumed)
            assert state_digest(resumed) == state_digest(plain), where
            assert rows_of(resumed) == rows_of(plain), where


@pytest.mark.parametrize("seed", range(12))
def test_the_state_of_a_decider_has_the_digest_of_the_fold(seed: int) -> None:
    """Indexes, timers and what is thrown out lazily are no part of it."""
    recorded = Recorded().walk(seed, 40 + 30 * seed)
    assert recorded.shard.live
    shard = Shard()
    for _, event in recorded.events:
        evolve(shard, event)
    assert state_digest(shard) == state_digest(recorded.shard), f"seed {seed}"
    build_indexes(shard)
    assert state_digest(shard) == state_digest(recorded.shard), f"seed {seed}"


def test_the_walks_reach_every_kind_of_row() -> None:
    """Otherwise the above would hold over nothing."""
    seen: set[str] = set()
    for seed in range(8):
        shard = Shard()
        for _, event in Recorded().walk(seed, 300, elections=0.02).events:
            evolve(shard, event)
            if event.seq % 10 == 0:
                for part in parts_of(shard):
                    seen |= {field.name for field, _ in SnapshotRows.FromString(part).ListFields()}
    assert seen == set(SnapshotRows.DESCRIPTOR.fields_by_name)


HASHED = """
from tests.projections.recorded import Recorded
from events.snapshot import state_digest
for seed in range(3):
    print(state_digest(Recorded().walk(seed, 250).shard).hex())
"""


def test_the_digest_depends_on_no_hash_seed() -> None:
    said = set()
    for seed in range(4):
        asked = subprocess.run(
            [sys.executable, "-c", HASHED],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            check=True,
        )
        said.add(asked.stdout)
    assert len(said) == 1
    assert len(said.pop().split()) == 3
