"""Deciders that place by who holds the inputs, as processes on real Kafka: killed, taken over from, started again beside each other."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from events import events as e
from events.payloads import digest_chunks
from events.values import Digest, Holding
from tests.kafka.test_decider_kafka import Site, site  # noqa: F401 (a fixture)
from tests.streams.deciding import configured
from tests.streams.preferring import CONNECTIONS, action, below, check_exact, worker
from tests.streams.preferring import f as facts

pytestmark = pytest.mark.kafka

BLOBS = [Digest(number.to_bytes(32, "big"), 1_000) for number in range(10_000)]
"""Three chunks of a report."""


def report(endpoint: str, digests: list[Digest]) -> list[facts.BlobsAvailable]:
    chunks = digest_chunks(digests)
    return [
        facts.BlobsAvailable(
            "main", endpoint, CONNECTIONS[endpoint], 1, number, number == len(chunks) - 1, full=True, added=added
        )
        for number, added in enumerate(chunks)
    ]


def dispatched(events: list[e.Event]) -> list[e.OperationDispatched]:
    return [event for event in events if isinstance(event, e.OperationDispatched)]


async def test_a_killed_leader_a_standby_and_a_restart_know_the_same(site: Site, tmp_path: Path) -> None:  # noqa: F811
    prefer = configured(worker_timeout_s=600, locality={"prefer_from_bytes": 1})
    await site.put(prefer, worker("w1"), worker("w2"), *report("w2", BLOBS), action("a", *BLOBS[:50]))
    first = await site.start("--shard", "0", "--claim")
    await site.said(0, "opening to leading")
    await site.all_decided()
    await site.start("--shard", "0", "--rank", "1")
    await site.said(1, "started")
    first.send_signal(signal.SIGKILL)
    await first.wait()
    await site.put(action("b", *BLOBS[:60]))
    await site.said(1, "opening to leading")
    await site.all_decided()
    await site.start("--shard", "0", "--claim")
    await site.said(2, "opening to leading")
    await site.put(action("c", *BLOBS[:70]))
    await site.all_decided()
    assert below(tmp_path / "decider" / site.prefix / "shard-0") == ["0", "1"]
    await site.stop()
    events = await site.check()
    check_exact(events)
    placed = dispatched(events)
    assert [(each.endpoint, each.holders) for each in placed] == [
        ("w2", (Holding("w2", 50_000),)),
        ("w2", (Holding("w2", 60_000),)),
        ("w2", (Holding("w2", 64_000),)),  # the 64 largest inputs are looked at
    ]
    for number in range(3):
        assert "made again from the log" not in site.lines(number)
