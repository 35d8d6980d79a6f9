"""`headway bench recovery` at a small size: every part is measured, on the broker of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from events.codec import decode_event
from events.events import LeaderElected, OperationDispatched, OperationFinished, OperationQueued
from streams.bench import recovery
from streams.bench._restarts import write_history, write_snapshot
from streams.bench._said import LEADS, OPENS, STARTED, last_words, moments, said_so_far
from streams.bench._takeovers import Witness
from streams.recovery import DamagedLog, Fold
from streams.snapshots.recovering import start_of
from streams.topics import EVENTS
from tests.streams.deciding import (
    Cluster,
    configured,
    decide_all,
    decided,
    decider,
    events_of,
    leading,
    queued,
    running,
)


@pytest.mark.kafka
@pytest.mark.slow
def test_every_part_is_measured(kafka: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_BOOTSTRAP_SERVERS", kafka)
    said: list[str] = []
    rows = {row["case"]: row for row in recovery.run(kills=2, rate=50, events=4_000, restarts=1, progress=said.append)}
    assert rows["actions published meanwhile, each placed and ended once"]["value"] > 50
    assert 4_000 < rows["events of history"]["value"] < 20_000
    limits = {case: row["limit"] for case, row in rows.items() if row["limit"] is not None}
    for when in ("2 kills at 50/s", "a kill with nothing to do"):
        held = {case.removeprefix(f"{when}: ") for case in limits if case.startswith(when)}
        assert {what.rpartition(",")[0] for what in held} == {
            "detection",
            "takeover, LeaderElected to be read",
            "takeover, the first decision to be read",
            "both together, the first decision to be read",
        }
    assert limits["restart without a snapshot: leads"] == 15
    assert sum("events behind it: leads" in case for case in limits) == 1
    assert limits["restart with one at its end: leads"] == 3
    assert all(row["value"] > 0 for row in rows.values())
    assert said[0] == "kill 1 of 2"


async def test_the_history_is_one_that_a_decider_goes_on_from() -> None:
    cluster = await Cluster.start()
    written = await write_history(cluster.log, 0, 9_000)
    events = cluster.events()
    assert written == len(events) >= 9_000
    assert type(events[0]) is LeaderElected
    counts = {
        kind: sum(type(event) is kind for event in events)
        for kind in (OperationQueued, OperationDispatched, OperationFinished)
    }
    assert counts[OperationFinished] > 1_000
    assert counts[OperationQueued] - counts[OperationDispatched] == 2_000
    assert await write_snapshot(cluster.log, 0, 3_000) == 5_000  # the end of a batch of the fold
    assert await write_snapshot(cluster.log, 0, written) == written
    assert (await start_of(cluster.log, 0)).shard.seq == written
    one = decider(cluster.log)
    async with running(one):
        await leading(one)
        assert one.stats.snapshot_seq == written
        await cluster.put(queued("next", instance="past"))
        await decided(one, cluster)
    behind = cluster.events()[written:]
    assert [type(event) for event in behind[:1]] == [LeaderElected]
    assert [event.client_operation_id for event in events_of(behind, OperationQueued)] == ["next"]


async def test_a_witness_notes_each_leader_and_its_first_decision() -> None:
    cluster = await Cluster.start()
    await cluster.put(configured())
    await decide_all(cluster)
    await decide_all(cluster)
    await cluster.put(queued("a"))
    await decide_all(cluster)
    first, second = Witness(Fold(0)), Witness(Fold(0))
    records = cluster.records(EVENTS)
    for number, record in enumerate(records):
        first.take([record], float(number))
    elected = [number for number, record in enumerate(records) if type(decode_event(record.value)) is LeaderElected]
    assert list(first.elected_s.values()) == elected
    assert first.decided_s == {1: elected[0] + 1, 3: elected[2] + 1}
    assert first.count().last_seq == len(records)
    with pytest.raises(DamagedLog):
        second.take(records[:2] + records[3:], 0.0)


def test_moments_are_read_from_a_deciders_lines(tmp_path: Path) -> None:
    path = tmp_path / "decider.log"
    before = "2026-12-01T05:21:44.786Z info headway.decider following to opening shard=0 rank=1 because=x\n"
    path.write_text(before, encoding="utf-8")
    behind = said_so_far(path)
    after = (
        "2026-12-01T05:21:45.000Z info headway.decider started shards=[0]\n"
        '2026-12-01T05:21:46.500Z info headway.decider following to opening shard=0 because="opening to leading"\n'
        "2026-12-01T05:21:46.512Z info headway.decider opening to leading shard=0\n"
    )
    path.write_text(before + after, encoding="utf-8")
    (opens,) = moments(path, OPENS, behind=behind)
    (leads,) = moments(path, LEADS)
    (started,) = moments(path, STARTED)
    assert round(leads - opens, 3) == 0.012
    assert round(opens - started, 3) == 1.5
    assert len(moments(path, OPENS)) == 2
    assert last_words(path).endswith("opening to leading shard=0")
