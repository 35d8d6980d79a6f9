"""Kafka to files to Kafka with the commands: the chain of the new generation is that of the old one, and a decider goes on with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from events import events as e
from streams.effects import record_of
from streams.event_tail import tail
from streams.export import ExportLog
from streams.kafka_log import KafkaLog
from streams.log import Log
from streams.topics import EVENTS, FACTS, topic_table
from tests.contract.reading import read_all
from tests.kafka.deployment import DEADLINE_S
from tests.streams.deciding import configured, connected, decider, leading, queued, running, until

E0, F0 = (EVENTS, 0), (FACTS, 0)


def headway(bootstrap: str, prefix: str, *arguments: str | Path, code: int = 0) -> str:
    """Runs the command against the log with this prefix; its output, or what it said on standard error when it failed."""
    environment = {**os.environ, "HEADWAY_BOOTSTRAP_SERVERS": bootstrap, "HEADWAY_TOPIC_PREFIX": prefix}
    done = subprocess.run(
        [sys.executable, "-m", "streams.cli.main", *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == code, f"{arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout if code == 0 else done.stderr


async def values(log: Log) -> list[bytes]:
    return [record.value for record in await read_all(log, E0)]


@pytest.mark.slow
async def test_a_log_goes_from_kafka_to_files_and_back_with_its_chain(kafka, tmp_path):
    prefix = f"export-{uuid.uuid4().hex[:8]}-"
    first, second = KafkaLog(kafka, prefix=f"{prefix}a."), KafkaLog(kafka, prefix=f"{prefix}b.")
    try:
        await first.ensure_topics(topic_table(1))
        await first.publish(
            F0, [record_of(fact) for fact in (configured(), connected("w1"), *(queued(f"a{n}") for n in range(200)))]
        )
        async with running(one := decider(first)):
            await leading(one)
            await until(lambda: one.stats.position == 201, "every fact is decided")
        added = json.loads(headway(kafka, f"{prefix}a.", "export", "all", "--to", tmp_path / "x", "-o", "json"))[
            "added"
        ]
        assert [part["records"] for part in added] == [len(await values(first)), 202]
        # A fact that nobody decides before the export is continued.
        await first.publish(F0, [record_of(queued("late"))])
        added = json.loads(headway(kafka, f"{prefix}a.", "export", "all", "--to", tmp_path / "x", "-o", "json"))[
            "added"
        ]
        assert [part["records"] for part in added] == [0, 1]

        export = ExportLog(tmp_path / "x")
        assert await read_all(export, E0) == await read_all(first, E0)
        assert await read_all(export, F0) == await read_all(first, F0)

        (shard,) = json.loads(headway(kafka, f"{prefix}b.", "import", tmp_path / "x", "-o", "json"))["shards"]
        assert (shard["written"], shard["facts_published"], shard["next_fact_offset"]) == (
            len(await values(first)),
            1,
            202,
        )
        assert (await values(second))[:-1] == await values(first)
        async with running(two := decider(second)):
            await leading(two)
            await until(lambda: two.stats.position >= 202, "the late fact is decided")
        found = [tailed.event async for tailed in tail(second, 0)]
        late = [event for event in found if isinstance(event, e.OperationQueued)][-1]
        assert (late.client_operation_id, late.cause_offset) == ("late", 202)
        assert "not-empty" in headway(kafka, f"{prefix}a.", "import", tmp_path / "x", code=1)
    finally:
        await first.close()
        await second.close()
