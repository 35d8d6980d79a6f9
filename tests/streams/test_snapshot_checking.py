"""Every checkpoint that a log records, against a fold from its first event."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from click.testing import CliRunner, Result

from events import events as e
from events.codec import GENESIS_CHAIN, decode_event, encode_event
from streams.cli import replay as cli
from streams.cli.main import main
from streams.log import Log, Outgoing, bounds
from streams.recovery import Fold
from streams.snapshots.checking import checkpoints_held
from streams.topics import EVENTS
from tests.streams.deciding import DEADLINE_S, Cluster, decided, decider, events_of, leading, running
from tests.streams.test_snapshot_follower import follower, names, put_and_decide, with_history

EVENTS_0 = (EVENTS, 0)


async def with_checkpoints(count: int = 3) -> Cluster:
    cluster, leader = await with_history()
    async with running(leader):
        await leading(leader)
        for number in range(count):
            await put_and_decide(cluster, leader, *names(f"c{number}-", 3))
            assert await follower(cluster.log).take(wait_s=DEADLINE_S)
    async with running(another := decider(cluster.log)):
        await decided(another, cluster)
    return cluster


async def rewritten(cluster: Cluster, **changes: object) -> Cluster:
    """The same history, the last checkpoint with other fields and a chain that holds."""
    events = cluster.events()
    last = events_of(events, e.Checkpointed)[-1]
    other, chain, epoch = await Cluster.start(), GENESIS_CHAIN, 0
    for event in events:
        epoch = event.leader_epoch if isinstance(event, e.LeaderElected) else epoch
        value, chain = encode_event(replace(event, **changes) if event is last else event, epoch, chain)
        await other.log.publish(EVENTS_0, [Outgoing(value)])
    return other


async def held(cluster: Cluster):
    return await checkpoints_held(cluster.log, 0, (await bounds(cluster.log, EVENTS_0))[1])


async def test_each_checkpoint_is_the_state_of_a_fold_from_the_first_event() -> None:
    cluster = await with_checkpoints()
    recorded = events_of(cluster.events(), e.Checkpointed)
    found = await held(cluster)
    assert [(one.seq, one.recorded) for one in found] == [(event.through_seq, event.state_digest) for event in recorded]
    assert len(found) == 3
    assert all(one.found == one.recorded and not one.differs for one in found)


async def test_one_that_says_another_digest_differs_and_one_of_another_format_says_nothing() -> None:
    cluster = await with_checkpoints()
    assert [one.differs for one in await held(await rewritten(cluster, state_digest=bytes(16)))] == [False, False, True]
    foreign = (await held(await rewritten(cluster, format=999)))[-1]
    assert (foreign.found, foreign.differs) == (None, False)


async def test_records_of_replaced_leaders_in_between_do_not_hide_a_checkpoint() -> None:
    cluster = await with_checkpoints(1)
    records = cluster.records(EVENTS)
    at = events_of(cluster.events(), e.Checkpointed)[0].through_seq
    stale = next(record.value for record in records if type(decode_event(record.value)) is not e.LeaderElected)
    other = await Cluster.start()
    for number, record in enumerate(records):
        epoch_has_risen = sum(type(decode_event(one.value)) is e.LeaderElected for one in records[:number]) > 1
        if number in (at - 2, at - 1) and epoch_has_risen:
            await other.log.publish(EVENTS_0, [Outgoing(stale)])
        await other.log.publish(EVENTS_0, [Outgoing(record.value)])
    fold = Fold(0)
    fold.apply(other.records(EVENTS))
    assert fold.stale == 2
    assert [one.differs for one in await held(other)] == [False]


def replay(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, *more: str) -> Result:
    @asynccontextmanager
    async def opened(*_: object, **__: object) -> AsyncIterator[Log]:
        yield cluster.log

    monkeypatch.setattr(cli, "opened", opened)
    return CliRunner().invoke(main, ["replay", "--checkpoints", *more])


def test_the_command_says_each_and_ends_with_3_where_one_differs(monkeypatch) -> None:
    cluster = asyncio.run(with_checkpoints(2))
    result = replay(monkeypatch, cluster)
    assert result.exit_code == 0, result.output
    assert result.output.count(": matches") == 2
    wrong = asyncio.run(rewritten(cluster, state_digest=bytes(16)))
    result = replay(monkeypatch, wrong)
    assert result.exit_code == 3
    assert f"differs ({bytes(16).hex()}, replayed is" in result.output
    found = json.loads(replay(monkeypatch, wrong, "-o", "json").stdout)
    assert [one["standing"] for one in found["shards"][0]["checkpoints"]] == ["matches", "differs"]
    assert replay(monkeypatch, wrong, "--at", "3").exit_code == 2
