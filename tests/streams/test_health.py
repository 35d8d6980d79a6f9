"""The health endpoint of a decider, and the log lines of the processes."""

from __future__ import annotations

import io
import json
import logging
import socket

import aiohttp
import pytest

from streams import log_lines
from streams.health import DeciderStats, HealthEndpoint, PortTaken
from tests.streams.deciding import Cluster, configured, connected, decide_all, queued


async def test_it_is_well_while_every_shard_follows_or_leads() -> None:
    stats = [DeciderStats(0, role="leading"), DeciderStats(1, role="following")]
    endpoint = HealthEndpoint(stats, 0)
    await endpoint.start()
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{endpoint.port}") as http:
            for role, status in (
                ("following", 200),
                ("opening", 503),
                ("fenced", 503),
                ("stopped", 503),
                ("leading", 200),
            ):
                stats[1].role = role
                async with http.get("/healthz") as answer:
                    assert (answer.status, (await answer.json())["roles"]) == (status, {"0": "leading", "1": role})
            async with http.get("/stats") as answer:
                assert (await answer.json())["shards"] == [one.as_dict() for one in stats]
    finally:
        await endpoint.close()


async def test_a_taken_port_is_an_error_with_its_number() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        endpoint = HealthEndpoint([], other.getsockname()[1])
        with pytest.raises(PortTaken, match=str(endpoint.port)):
            await endpoint.start()


async def test_counters_count_what_is_in_the_log() -> None:
    cluster = await Cluster.start()
    await cluster.put(configured(), connected("w1"), queued("a"), queued("b"))
    await cluster.put_raw(b"\xff")
    stats = (await decide_all(cluster, most_facts=2)).stats
    assert (stats.facts, stats.position, stats.leader_epoch, stats.takeovers) == (5, 4, 1, 1)
    assert stats.events == stats.seq == len(cluster.events())
    assert (stats.transactions, stats.batches) == (4, 3)
    assert (stats.placements, stats.commands, stats.dead_letters) == (2, 1, 1)
    assert 0 < stats.commit_last_us <= stats.commit_max_us <= stats.commit_us
    assert stats.role == "stopped"


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> tuple[logging.Logger, io.StringIO]:
    """A logger whose lines go to a buffer, and the buffer."""
    sink = logging.StreamHandler(io.StringIO())
    sink.setFormatter(log_lines.OneLine())
    logger = logging.Logger("headway.test")
    logger.addHandler(sink)
    return logger, sink.stream


def test_a_line_has_its_fields_and_stays_one_line(lines: tuple[logging.Logger, io.StringIO]) -> None:
    logger, written = lines
    log_lines.say(logger, logging.WARNING, "it happened", shard=3, key='a "b"\nc', because=None, shards=[1, 2])
    text = written.getvalue()
    assert text.count("\n") == 1
    assert text.endswith('warning headway.test it happened shard=3 key="a \\"b\\"\\nc" shards=[1, 2]\n')


def test_a_traceback_stays_on_its_line(lines: tuple[logging.Logger, io.StringIO]) -> None:
    logger, written = lines
    try:
        raise ValueError("bad\nworse")
    except ValueError:
        logger.exception("it failed")
    text = written.getvalue()
    assert text.count("\n") == 1
    assert "ValueError: bad" in json.loads(text.split("traceback=")[1])


def test_below_its_level_nothing_is_written(lines: tuple[logging.Logger, io.StringIO]) -> None:
    logger, written = lines
    logger.setLevel(logging.WARNING)
    log_lines.say(logger, logging.INFO, "not said", shard=1)
    assert written.getvalue() == ""
