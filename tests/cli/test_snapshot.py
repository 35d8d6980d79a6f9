"""`headway snapshot`: exit codes, and what is said of snapshots and trims, on a log in memory."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from click.testing import CliRunner, Result

from events import events as e
from streams.cli import snapshot as command
from streams.cli.main import main
from streams.log import Log
from streams.snapshots import verifying
from streams.topics import EVENTS, FACTS
from tests.streams.deciding import (
    Cluster,
    configured,
    connected,
    decide_all,
    decider,
    events_of,
    queued,
    running,
    until,
)
from tests.streams.snapshotting import forge, snapshot


class Here:
    """The verifier that commands start as another process, in this one."""

    def __init__(self, environment: dict[str, str]) -> None:
        assert environment["HEADWAY_TOPIC_PREFIX"] == "p-"

    async def __call__(self, log: Log, shard: int, seq: int, by: str) -> None:
        await verifying.verify_and_report(log, shard, seq, by=by)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A decided log of two shards that every command of the test is connected to, with a decider for each at work meanwhile."""

    async def made() -> Cluster:
        cluster = await Cluster.start(shards=2)
        for number in range(2):
            await cluster.put(configured(), connected("w1"), *(queued(f"a{one}") for one in range(20)), shard=number)
            await decide_all(cluster, shard=number)
        return cluster

    cluster = asyncio.run(made())

    @asynccontextmanager
    async def to_it(*arguments: object, **named: object) -> AsyncIterator[Log]:
        async with running(decider(cluster.log), decider(cluster.log, 1)):
            yield cluster.log

    monkeypatch.setattr(command, "connected", to_it)
    monkeypatch.setattr(command, "VerifyingApart", Here)
    monkeypatch.setenv("HEADWAY_TOPIC_PREFIX", "p-")
    return cluster


def headway(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["snapshot", *arguments])


def rows(*arguments: str) -> list[dict]:
    result = headway("list", "-o", "json", *arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_one_is_taken_of_each_shard_verified_and_listed(cluster: Cluster) -> None:
    assert rows() == []
    result = headway("take")
    assert result.exit_code == 0, result.output
    assert "shard 0: snapshot at event" in result.output
    assert result.output.count(": verified") == 2
    assert len(events_of(cluster.events(), e.Checkpointed)) == 1
    found = rows()
    assert [(row["shard"], row["standing"]) for row in found] == [(0, "verified"), (1, "verified")]
    assert found[0]["behind"] > 0
    assert found[0]["next_fact_offset"] == 22
    table = headway("list", "--shard", "1").output
    assert "verified" in table
    assert found[1]["state_digest"] in table


def test_what_is_of_no_use_is_listed_with_its_reason(cluster: Cluster) -> None:
    async def three() -> None:
        await snapshot(cluster)
        await forge(cluster, slot=1, without=[1])
        await forge(cluster, slot=2, value=b"\xff")

    asyncio.run(three())
    assert [row["standing"] for row in rows("--shard", "0")] == ["unreadable-manifest", "missing-part", "usable"]


def test_where_another_fold_differs_the_exit_code_is_3_and_nothing_stays(cluster, monkeypatch) -> None:
    monkeypatch.setattr(verifying, "state_digest", digests_with_a_fault())
    result = headway("take", "--shard", "0")
    assert result.exit_code == 3, result.output
    assert "TWO FOLDS DIFFER" in result.output
    assert rows("--shard", "0") == []
    assert len(events_of(cluster.events(), e.CheckpointDiverged)) == 1


def digests_with_a_fault():
    """The digest of what is read back is right, that of the other fold is not."""
    real, calls = verifying.state_digest, []

    def digest(shard):
        calls.append(shard)
        return bytes(16) if len(calls) == 2 else real(shard)

    return digest


def test_one_is_verified_without_a_report(cluster: Cluster, monkeypatch) -> None:
    asyncio.run(snapshot(cluster))
    before = cluster.records(FACTS)
    result = headway("verify", "--shard", "0")
    assert result.exit_code == 0, result.output
    assert "is right" in result.output
    assert "folded from the first event" in result.output
    monkeypatch.setattr(verifying, "state_digest", digests_with_a_fault())
    result = headway("verify")
    assert result.exit_code == 3
    assert "WRONG" in result.output
    assert cluster.records(FACTS) == before


def test_one_that_cannot_be_read_back_is_exit_code_3_and_none_at_all_4(cluster: Cluster) -> None:
    result = headway("verify", "--seq", "5")
    assert result.exit_code == 4
    assert "no snapshot at event 5" in result.output
    asyncio.run(forge(cluster, state_digest=bytes(16)))
    result = headway("verify")
    assert result.exit_code == 3
    assert "snapshot-unusable" in result.output
    assert rows("--shard", "0"), "without a report nothing is taken back"
    assert headway("verify", "--report-as", "me").exit_code == 3
    assert rows("--shard", "0") == []


def test_facts_are_trimmed_when_it_is_no_rehearsal(cluster: Cluster) -> None:
    result = headway("trim", "--keep-facts-s", "0")
    assert result.exit_code == 3
    assert "trim-refused" in result.output
    assert headway("take", "--shard", "0").exit_code == 0
    said = headway("trim", "--dry-run", "--keep-facts-s", "0").output
    assert "22 offsets of facts, 0 to 21, would be removed" in said
    assert cluster.records(FACTS)[0].offset == 0
    result = headway("trim", "--keep-facts-s", "0")
    assert result.exit_code == 0, result.output
    assert "22 offsets of facts, 0 to 21, are removed; verified at event" in result.output
    assert cluster.records(FACTS)[0].offset == 22
    again = headway("trim", "--keep-facts-s", "0")
    assert again.exit_code == 0
    assert "nothing to remove, facts begin at offset 22" in again.output
    assert cluster.records(EVENTS)[0].offset == 0


def test_by_default_the_facts_of_the_last_hour_stay(cluster: Cluster) -> None:
    assert headway("take", "--shard", "0").exit_code == 0
    assert "younger facts stay" in headway("trim").output


@pytest.mark.parametrize(("fault", "code"), [(False, 0), (True, 3)])
def test_a_follower_runs_until_it_is_stopped(cluster: Cluster, monkeypatch, fault: bool, code: int) -> None:
    if fault:
        monkeypatch.setattr(verifying, "state_digest", digests_with_a_fault())
    wanted = e.CheckpointDiverged if fault else e.Checkpointed
    real = command.SnapshotFollower

    class Stopping(real):
        async def run(self, stop: asyncio.Event) -> None:
            async def end() -> None:
                await until(lambda: self.stats.checkpoint_seq > 0 or self.stats.diverged > 0)
                assert events_of(cluster.events(), wanted)
                os.kill(os.getpid(), signal.SIGTERM)

            ending = asyncio.create_task(end())
            await super().run(stop)
            await ending

    monkeypatch.setattr(command, "SnapshotFollower", Stopping)
    result = headway("follow", "--shard", "0", "--every-events", "10", "--every-s", "0.1", "--log-level", "error")
    assert result.exit_code == code, result.output


def test_a_shard_that_cannot_be_followed_ends_with_1(cluster: Cluster, monkeypatch) -> None:
    @asynccontextmanager
    async def to_it(*arguments: object, **named: object) -> AsyncIterator[Log]:
        yield cluster.log

    monkeypatch.setattr(command, "connected", to_it)  # without deciders, which would stop as well
    monkeypatch.setattr(cluster.log, "_cluster_id", "another")
    result = headway("follow", "--shard", "0", "--log-level", "error")
    assert result.exit_code == 1
    assert "HW-205" in result.output
