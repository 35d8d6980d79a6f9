"""`headway bench live`: the echo loop answers every fact once, raw rates count what was written, and usage is a difference."""

from __future__ import annotations

import pytest

from streams.bench import _echo, _raw
from streams.bench._rows import BenchFailed
from streams.bench._watching import GENERATOR, Watch
from streams.memory_log import MemoryLog
from streams.topics import EVENTS, FACTS, PLACEMENTS, topic_table


@pytest.fixture
async def log():
    made = MemoryLog()
    await made.ensure_topics(topic_table(1))
    return made


async def test_the_echo_answers_each_fact_by_an_event_and_a_placement(log):
    rows = {row["case"]: row for row in await _echo.rows(log, seconds=0.3, rates=(300,))}
    assert list(rows) == ["echo loop p50 at 300 facts/s", "echo loop p99 at 300 facts/s", "echo loop, exactly once"]
    assert all(row["value"] > 0 and row["limit"] is None for row in rows.values())
    ends = {}
    for topic in (FACTS, EVENTS, PLACEMENTS):
        follower = await log.follow({(topic, 0): None})
        records = (await follower.read(max_records=10**6)).get((topic, 0), [])
        ends[topic] = [record.value for record in records]
    assert ends[EVENTS] == ends[PLACEMENTS] == ends[FACTS][: len(ends[EVENTS])]
    assert len(ends[EVENTS]) > 390


async def test_facts_that_nobody_echoes_are_no_figure(log, monkeypatch):
    async def deaf(self) -> None:
        return None

    monkeypatch.setattr(_echo._Echo, "_echo", deaf)
    monkeypatch.setattr(_echo, "_DEADLINE_S", 0.2)
    with pytest.raises(BenchFailed, match="0 of 300 facts"):
        await _echo.rows(log, seconds=0.1, rates=(300,))


async def test_raw_rates_are_of_records_that_were_written_and_read(log):
    rows = await _raw.rows(log, count=20_000)
    assert [row["unit"] for row in rows] == ["records/s", "records/s"]
    assert all(row["value"] > 1_000 for row in rows)


def test_the_system_is_everything_but_the_load():
    watch = Watch(took_s=2.0, used_s={"decider": 1.0, "broker": 0.5, GENERATOR: 9.0})
    assert watch.cores == 0.75
