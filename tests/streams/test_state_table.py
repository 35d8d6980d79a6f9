"""The Faust app without a broker: its agent's gate, its settings, and the private parts of Faust it stands on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import faust
import pytest

from events.codec import encode_event
from events.events import Ticked
from projections import keys
from projections.rows import MemoryRows
from streams.errors import NoSuchTopic
from streams.faust_transport import OVERRIDDEN
from streams.local_tables import LocalTables
from streams.log import Outgoing
from streams.memory_log import MemoryLog
from streams.place import Place, place_of
from streams.recovery import DamagedLog
from streams.replay import replay
from streams.settings import load_settings
from streams.state_table import StateTable
from streams.topics import EVENTS, topic_table
from tests.projections.histories import History

DEADLINE_S = 60.0


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place("127.0.0.1:1", tmp_path / "table", 20_000, "p-")


@pytest.fixture
async def log() -> MemoryLog:
    log = MemoryLog()
    await log.ensure_topics(topic_table(1))
    return log


@pytest.fixture
async def table(place: Place, log: MemoryLog) -> AsyncIterator[StateTable]:
    tables = LocalTables(place, log)
    await tables.recover()
    yield StateTable(tables)
    await tables.close()


async def written(log: MemoryLog, facts: int = 100, *, leave_out: int | None = None) -> list[SimpleNamespace]:
    """The log's records as Faust would hand them to the agent."""
    values = list(History(1).run(facts).values())
    values = [value for number, value in enumerate(values) if number != leave_out]
    offsets = await log.publish((EVENTS, 0), [Outgoing(value) for value in values])
    return [
        SimpleNamespace(partition=0, offset=offset, value=value) for offset, value in zip(offsets, values, strict=True)
    ]


def rows_of(table: StateTable) -> dict[bytes, bytes]:
    return dict(table.tables.store.scan(keys.shard_prefix(0), keys.shard_prefix(1)))


async def written_on(log: MemoryLog, table: StateTable) -> None:
    """One more event, which the table takes by itself."""
    row = table.tables.store.table(0).shard
    tick, _ = encode_event(Ticked(row.seq + 1, row.now_us + 1, row.facts_position + 1), row.leader_epoch, row.chain)
    seq = row.seq + 1
    await log.publish((EVENTS, 0), [Outgoing(tick)])
    until_s = time.monotonic() + DEADLINE_S
    while table.tables.store.table(0).shard.seq < seq:
        assert time.monotonic() < until_s, "the shard is not read while the group decides"
        await asyncio.sleep(0.01)


async def clean(log: MemoryLog) -> dict[bytes, bytes]:
    rows = (await replay(log, 0)).table.rows
    assert isinstance(rows, MemoryRows)
    return rows.by_key


async def test_an_agent_that_misses_messages_heals_the_gap_and_skips_none(table: StateTable, log: MemoryLog) -> None:
    messages = await written(log)
    for number, message in enumerate(messages):
        if number % 10 not in (4, 5, 6):
            await table._take(message)
    for message in messages[-10:]:
        await table._take(message)
    assert rows_of(table) == await clean(log)
    assert table.tables.readings[0].reader.heals >= 1


async def test_an_agent_that_is_handed_messages_twice_folds_them_once(table: StateTable, log: MemoryLog) -> None:
    messages = await written(log)
    for begin in range(0, len(messages), 10):
        for message in messages[max(0, begin - 15) : begin + 10]:
            await table._take(message)
    assert rows_of(table) == await clean(log)
    assert table.tables.readings[0].reader.heals == 0


async def test_a_gap_that_the_log_has_too_is_an_error(table: StateTable, log: MemoryLog) -> None:
    messages = await written(log, leave_out=40)
    for message in messages[:40]:
        await table._take(message)
    with pytest.raises(DamagedLog, match="event 41 is missing"):
        await table._take(messages[40])
    assert table.tables.store.table(0).shard.seq == 40


async def test_only_the_store_decides_what_is_committed(table: StateTable, log: MemoryLog) -> None:
    messages = await written(log)
    topic = "p-" + EVENTS
    assert table.app.position(topic, 0) is None
    table._assigned.add(0)
    assert table.app.position(topic, 0) is None  # nothing folded: nothing to commit
    for message in messages[:30]:
        await table._take(message)
    assert table.app.position(topic, 0) == messages[29].offset + 1
    assert table.app.position("another", 0) is None
    assert table.app.position(topic, 1) is None
    table._assigned.clear()


async def test_without_topics_it_does_not_open(place: Place) -> None:
    tables = LocalTables(place, MemoryLog())
    with pytest.raises(NoSuchTopic, match="topics apply"):
        await tables.recover()
    await tables.close()


async def test_a_shard_that_the_group_takes_away_is_answered_for_until_the_group_has_decided(
    table: StateTable, log: MemoryLog
) -> None:
    """A rebalance takes every shard from everybody and gives them back a moment later."""
    tables = table.tables
    await written(log)
    tables.read_alone([0])
    table._assigned = {0}
    assert await tables.wait_until_open(DEADLINE_S)
    table._revoke({0})
    assert tables.shards() == [0]
    await written_on(log, table)
    table._assign(set())
    assert tables.shards() == []
    assert tables.not_ready() == "no shard is assigned yet"


def test_the_member_is_the_same_after_a_restart_and_another_one_elsewhere(tmp_path: Path) -> None:
    here = Place("b:1", tmp_path / "a", 1)
    assert here.member == Place("b:2", tmp_path / "x" / ".." / "a", 2).member
    assert here.member != Place("b:1", tmp_path / "b", 1).member


def test_each_topic_prefix_has_its_own_directory(tmp_path: Path) -> None:
    places = [
        place_of(load_settings(home=tmp_path, bootstrap_servers="b:1", topic_prefix=prefix)) for prefix in ("", "p-")
    ]
    assert [place.data_dir for place in places] == [
        tmp_path / "state-table" / "default",
        tmp_path / "state-table" / "p-",
    ]


def test_the_private_parts_of_faust_are_still_there() -> None:
    for kind, names in OVERRIDDEN.items():
        for name in names:
            assert callable(getattr(kind, name)), f"faust-streaming {faust.__version__} has no {kind.__name__}.{name}"
