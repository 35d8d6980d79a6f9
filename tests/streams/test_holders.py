"""The fold of what endpoints hold that answers placements: from records and from events, kept and discarded."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from events import events as e
from events import facts as f
from events.payloads import command_bytes, digests_bytes
from events.state import Operation
from events.values import Digest, Holding
from projections import locality
from projections.rows import MemoryRows, Rows
from streams.health import DeciderStats
from streams.holders import Diverged, FoldedHolders, prefers, sets_preference
from streams.own_holders import OwnHolders
from streams.rehearsal import Rehearsal
from streams.topics import EVENTS
from tests.streams.deciding import Cluster, decide_all
from tests.streams.preferring import DO_NOT, PREFER, WORLD, D, E, action, cluster_with, holds


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


async def test_actions_with_the_same_inputs_are_answered_from_one_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = await cluster_with(*WORLD)
    await decide_all(cluster)
    held = FoldedHolders(MemoryRows(), 0)
    for record in cluster.records(EVENTS):
        held.take(record)
    readings = []
    plain = locality.most_bytes

    def counted(rows: Rows, shard: int, instance: str, inputs: Sequence[Digest]) -> tuple[Holding, ...]:
        readings.append(instance)
        return plain(rows, shard, instance, inputs)

    monkeypatch.setattr(locality, "most_bytes", counted)
    one, other, elsewhere = (
        Operation(0, instance, "", 0, 0, 0, 0, 0, None, command_bytes([argument], (), [D]))  # type: ignore[arg-type]
        for instance, argument in (("main", "one"), ("main", "other"), ("night", "one"))
    )
    assert held.most_bytes(one) == held.most_bytes(other) == (Holding("w2", 1_000),)
    assert held.most_bytes(elsewhere) == ()
    assert readings == ["main", "night"]
    held.see([e.BlobsEvicted(held.seq + 1, 0, 9, "main", "w2", 8, digests_bytes([D]))])
    assert (held.most_bytes(one), held.bytes_at(one, "w2")) == ((), 0)
    held.discard()
    held.take(cluster.records(EVENTS)[0])
    assert (held.most_bytes(one), held.bytes_at(one, "w2")) == ((), 0), "what was discarded is not remembered either"


FLEET = 40


def test_a_fleet_that_holds_the_toolchain_shares_the_load_and_every_placement_says_what_it_saved() -> None:
    """More workers than are named, all with the same inputs: they were piled on the first by name, and saved nothing on the others."""
    rehearsal = Rehearsal()
    rehearsal.take(PREFER, 1_000)
    rehearsal.take(f.InstancePaused("main"), 1_000)
    for number in range(FLEET):
        name = f"w{number:02}"
        rehearsal.take(f.WorkerConnected("main", name, 1, number + 1, (("cpu_millis", "64000"),)), 2_000)
        report = f.BlobsAvailable("main", name, number + 1, 1, full=True, added=digests_bytes([D, E]))
        rehearsal.take(report, 2_000)
        rehearsal.take(action(f"a{number}", D, E), 2_000)
    caused = rehearsal.take(f.InstanceResumed("main"), 3_000)
    placed = [event for event in caused if isinstance(event, e.OperationDispatched)]
    assert len({event.endpoint for event in placed}) == len(placed) == FLEET
    assert {(event.holders, event.saved_bytes) for event in placed} == {((), 5_000)}


async def test_an_action_without_inputs_has_no_holders() -> None:
    own = OwnHolders(Cluster().log, 0, None, DeciderStats(0))
    held = FoldedHolders(MemoryRows(), 0)
    bare = Operation(0, "main", "", 0, 0, 0, 0, 0, None, command_bytes(["true"]))  # type: ignore[arg-type]
    assert held.most_bytes(bare) == ()
    assert held.bytes_at(bare, "w1") == own.asked.bytes_at(bare, "w1") == 0
    assert own.asked.most_bytes(bare) == ()
