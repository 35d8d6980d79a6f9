"""`headway up --embedded`: everything in one process, with a real worker, driven over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from click.testing import CliRunner

from streams.cli.main import main
from streams.embedded import Embedded
from streams.health import PortTaken
from streams.worker.capacity import Amounts

DEADLINE_S = 60.0


@pytest.fixture
async def embedded() -> AsyncIterator[Embedded]:
    made = await Embedded.start({"main": None, "other": 1}, shards=2, web_port=0, worker=Amounts(2_000, 1 << 20))
    stop = asyncio.Event()
    running = asyncio.create_task(made.run(stop))
    yield made
    stop.set()
    await asyncio.wait_for(running, DEADLINE_S)


async def ask(http: aiohttp.ClientSession, embedded: Embedded, path: str) -> dict:
    async with http.get(f"http://127.0.0.1:{embedded.web_port}{path}") as answer:
        return await answer.json()


async def finished(http: aiohttp.ClientSession, embedded: Embedded, name: str) -> dict:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + DEADLINE_S
    while True:
        answer = await ask(http, embedded, f"/v1/operations/{name}")
        if answer.get("operation", {}).get("stage") == "finished":
            return answer["operation"]
        assert loop.time() < deadline, answer
        await asyncio.sleep(0.01)


def action(name: str, script: str, instance: str = "main") -> str:
    return json.dumps(
        {"kind": "ActionQueued", "instance": instance, "client_operation_id": name, "argv": ["sh", "-c", script]}
    )


async def post(http: aiohttp.ClientSession, embedded: Embedded, *lines: str) -> tuple[int, str]:
    async with http.post(f"http://127.0.0.1:{embedded.web_port}/v1/facts", data="\n".join(lines)) as answer:
        return answer.status, await answer.text()


async def test_actions_are_placed_run_and_shown_without_kafka(embedded: Embedded) -> None:
    async with aiohttp.ClientSession() as http:
        status, text = await post(
            http, embedded, action("a", "echo out"), action("b", "exit 3"), action("c", ":", "other")
        )
        assert status == 200
        assert [(line["shard"], line["instance"]) for line in map(json.loads, text.splitlines())] == [
            (0, "main"), (0, "main"), (1, "other"),
        ]  # fmt: skip
        assert (await finished(http, embedded, "a"))["exit_code"] == 0
        assert (await finished(http, embedded, "b"))["exit_code"] == 3
        assert (await finished(http, embedded, "c"))["endpoint"] == "embedded-other"
        assert (await ask(http, embedded, "/healthz"))["ready"]
        assert [shard["shard"] for shard in (await ask(http, embedded, "/v1/status"))["shards"]] == [0, 1]


async def test_edges_answer_without_kafka(embedded: Embedded) -> None:
    configs = {
        "main": {"kind": "cache_lookup", "scheduler": {"kind": "simple"}},
        "other": {"kind": "upstream", "instance": "main"},
    }
    configured = [
        json.dumps({"kind": "Configured", "instance": instance, "config": config})
        for instance, config in configs.items()
    ]
    digest = f"{'ab' * 32}/1"
    async with aiohttp.ClientSession() as http:
        for number, line in enumerate([*configured, *[action(name, ":", "other") for name in ("a", "b")]]):
            fact = json.loads(line)
            if number >= len(configured):
                fact |= {"cacheable": True, "action_digest": digest}
            assert (await post(http, embedded, json.dumps(fact)))[0] == 200
            if fact["kind"] == "ActionQueued":
                ended = await finished(http, embedded, fact["client_operation_id"])
                assert ended["exit_code"] == 0
                outcomes = {"a": "completed", "b": "completed_from_cache"}
                assert ended["outcome"] == outcomes[fact["client_operation_id"]]


async def test_a_bad_line_is_refused_by_its_number_and_nothing_is_published(embedded: Embedded) -> None:
    async with aiohttp.ClientSession() as http:
        for bad, says in [
            ("{", "line 2"),
            ("[]", "line 2: a fact is a JSON object"),
            ('{"kind": "ActionQueud"}', "ActionQueued"),
            (action("x", ":", "nowhere"), "known instances: 'main', 'other'"),
        ]:
            status, text = await post(http, embedded, action("never", ":"), bad)
            assert status == 400
            assert says in json.loads(text)["message"]
        assert "error" in await ask(http, embedded, "/v1/operations/never")


async def test_a_taken_port_is_an_error_that_names_it() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(PortTaken, match=f"127.0.0.1:{port}"):
            await Embedded.start({}, shards=None, web_port=port)


def test_a_second_one_is_refused_before_it_starts_anything(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        home = tmp_path / "home"
        done = CliRunner().invoke(main, ["up", "--home", str(home), "--web-port", str(port)])
    assert done.exit_code == 1
    assert f"error [port-taken]: the views cannot listen on 127.0.0.1:{port}" in done.stderr
    assert not home.exists()


async def test_the_command_says_that_nothing_is_kept_and_ends_on_sigterm(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "streams.cli.main", "up", "--embedded", "--worker-cores", "1", "--web-port", str(port)),
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "HEADWAY_HOME": str(tmp_path)},
    )
    assert process.stderr is not None
    lines = [(await asyncio.wait_for(process.stderr.readline(), DEADLINE_S)).decode() for _ in range(5)]
    process.send_signal(signal.SIGTERM)
    lines.append((await process.stderr.read()).decode())
    assert await asyncio.wait_for(process.wait(), DEADLINE_S) == 0
    assert "NOTHING IS KEPT" in lines[0]
    assert f"http://127.0.0.1:{port}/v1/facts" in lines[4]
    assert lines[5] == "stopped; nothing was kept\n"
    assert os.listdir(tmp_path) == []


async def test_facts_are_taken_while_the_views_are_still_closed() -> None:
    """Neither workers nor producers wait for the read side."""
    embedded = await Embedded.start({"main": None}, shards=1, web_port=0)
    stop = asyncio.Event()
    stop.set()
    try:
        async with aiohttp.ClientSession() as http:
            assert (await ask(http, embedded, "/v1/queue"))["error"] == "not-ready"
            status, text = await post(http, embedded, action("early", "true"))
            assert (status, json.loads(text)["shard"]) == (200, 0)
    finally:
        await embedded.run(stop)
