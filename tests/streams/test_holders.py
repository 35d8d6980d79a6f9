"""The fold of what endpoints hold that answers placements: from records and from events, kept and discarded."""

from __future__ import annotations

import pytest

from events import events as e
from events.payloads import command_bytes, digests_bytes
from events.state import Operation
from events.values import Holding
from projections.rows import MemoryRows
from streams.health import DeciderStats
from streams.holders import Diverged, FoldedHolders, prefers, sets_preference
from streams.own_holders import OwnHolders
from streams.rehearsal import Rehearsal
from streams.topics import EVENTS
from tests.streams.deciding import Cluster, decide_all
from tests.streams.preferring import DO_NOT, PREFER, WORLD, D, action, cluster_with, holds


@pytest.mark.parametrize(
    ("text", "sets"),
    [
        ('{"locality":{"prefer_from_bytes":1}}', True),
        ('{"locality": {"prefer_from_bytes" : 4096}}', True),
        ('{"locality":{"prefer_from_bytes":null}}', False),
        ("{}", False),
    ],
)
def test_whether_a_configuration_asks_is_told_by_its_text(text: str, sets: bool) -> None:
    assert sets_preference(text) is sets


async def test_a_gap_in_the_log_is_no_place_to_go_on() -> None:
    cluster = await cluster_with(*WORLD)
    await decide_all(cluster)
    first, _, third, *_ = cluster.records(EVENTS)
    held = FoldedHolders(MemoryRows(), 0)
    held.take(first)
    with pytest.raises(Diverged, match=r"event 3 at offset .* follows event 1") as caught:
        held.take(third)
    assert caught.value.reason == "gap"


async def test_another_event_of_the_same_seq_is_another_log() -> None:
    """Also where nothing follows it that could fail to chain."""
    one, other = await cluster_with(*WORLD), await cluster_with(*WORLD[:3], holds("w1", D), action("a", D))
    await decide_all(one)
    await decide_all(other)
    held = FoldedHolders(MemoryRows(), 0)
    for record in one.records(EVENTS):
        held.take(record)
    *before, last = other.records(EVENTS)
    assert [held.take(record) for record in before] == [False] * len(before)
    with pytest.raises(Diverged) as caught:
        held.take(last)
    assert caught.value.reason == "other_chain"


async def test_a_discard_goes_back_to_the_last_commit() -> None:
    cluster = await cluster_with(*WORLD)
    await decide_all(cluster)
    *before, last = cluster.records(EVENTS)
    rows = MemoryRows()
    held = FoldedHolders(rows, 0)
    for record in before:
        held.take(record)
    held.write()
    kept, seq, chain = dict(rows.by_key), held.seq, held.chain
    asked = Operation(0, "main", "", 0, 0, 0, 0, 0, None, command_bytes(["true"], (), [D]))  # type: ignore[arg-type]
    held.see([e.BlobsEvicted(seq + 1, 0, 9, "main", "w2", 8, digests_bytes([D]))])
    assert held.most_bytes(asked) == ()
    held.discard()
    assert (held.seq, held.chain, rows.by_key) == (seq, chain, kept)
    assert held.most_bytes(asked) == (Holding("w2", 1_000),)
    assert held.take(last), "it goes on where the log does"


async def test_records_that_were_folded_before_change_nothing() -> None:
    cluster = await cluster_with(*WORLD)
    await decide_all(cluster)
    records = cluster.records(EVENTS)
    rows = MemoryRows()
    held = FoldedHolders(rows, 0)
    taken = [held.take(record) for record in [*records, *records]]
    held.write()
    assert taken == [True] * len(records) + [False] * len(records)
    again = FoldedHolders(rows, 0)
    assert (again.seq, again.chain, again.met) == (held.seq, held.chain, False)
    assert again.read_from <= records[-1].offset
    assert [again.take(record) for record in records] == [False] * len(records)
    assert again.met


def test_only_an_instance_that_asks_makes_it_kept() -> None:
    rehearsal = Rehearsal()
    rehearsal.take(DO_NOT, 1_000)
    assert not prefers(rehearsal.shard)
    rehearsal.take(PREFER, 2_000)
    assert prefers(rehearsal.shard)


async def test_an_action_without_inputs_has_no_holders() -> None:
    own = OwnHolders(Cluster().log, 0, None, DeciderStats(0))
    held = FoldedHolders(MemoryRows(), 0)
    bare = Operation(0, "main", "", 0, 0, 0, 0, 0, None, command_bytes(["true"]))  # type: ignore[arg-type]
    assert held.most_bytes(bare) == ()
    assert own.asked.most_bytes(bare) == ()
