"""The views of locality over HTTP: what is refused, and with which words."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from streams.web import Views
from tests.streams.test_web import NOW_US, Asker, ReadSide

HASH = "ab" * 32


@pytest.fixture
async def ask() -> AsyncIterator[Asker]:
    read_side, clock = ReadSide(), [NOW_US]
    application = web.Application()
    Views(read_side, clock_us=lambda: clock[0]).add_to(application)
    client: TestClient[Any, Any]
    async with TestClient(TestServer(application)) as client:
        yield Asker(client, read_side, clock)


async def test_an_unknown_digest_has_no_holders_and_the_answer_its_position(ask: Asker) -> None:
    for name in (f"{HASH}-7", f"{HASH}/7", f"{HASH}%2F7"):
        answer = await ask(f"/locality/holders/{name}")
        assert answer["holders"] == []
        assert answer["digest"] == f"{HASH}/7"
        assert answer["complete"] is True
        assert answer["seq"] == max(history.shard.seq for history in ask.read_side.histories)
        assert [part["shard"] for part in answer["shards"]] == [0, 1]


@pytest.mark.parametrize(
    ("path", "parameters", "status", "said"),
    [
        ("/locality/holders/xyz", {}, 400, "HASH/SIZE or HASH-SIZE"),
        (f"/locality/holders/{HASH}", {}, 400, "HASH/SIZE or HASH-SIZE"),
        (f"/locality/holders/{HASH}--7", {}, 400, "HASH/SIZE or HASH-SIZE"),
        ("/locality/holders/abcd-7", {}, 400, "2 bytes of hash"),
        (f"/locality/holders/{HASH}-7", {"instance": "elsewhere"}, 404, "main, night"),
        ("/locality/endpoints/main/nobody", {}, 404, "endpoint 'nobody' of instance 'main'"),
        ("/locality/endpoints/elsewhere/w1", {}, 404, "main, night"),
        ("/locality/endpoints/main/nobody", {"blobs": "many"}, 400, "whole number"),
        ("/locality/endpoints/main/nobody", {"blobs": 10_001}, 400, "from 0 to 10000"),
        ("/locality/endpoints/main/nobody", {"blobs": 1, "after": "xyz"}, 400, "'xyz' is not where a page ended"),
        ("/locality/endpoints/main/nobody", {"blobs": 1, "after": f"{HASH}/7"}, 400, "is not where a page ended"),
        ("/locality/endpoints/main/nobody", {"blobs": 1, "after": "1-2-3"}, 400, "four whole numbers"),
    ],
)
async def test_a_wrong_request_is_answered_with_what_is_wrong(
    ask: Asker, path: str, parameters: dict[str, object], status: int, said: str
) -> None:
    answer = await ask(path, status=status, **parameters)
    assert said in answer["message"]
    assert answer["error"]
    assert answer["remedy"]


async def test_a_shard_that_catches_up_makes_an_answer_incomplete_and_an_instance_possibly_there(ask: Asker) -> None:
    ask.read_side.gate.expect([2])
    answer = await ask(f"/locality/holders/{HASH}-7", instance="elsewhere")
    assert (answer["holders"], answer["complete"]) == ([], False)
    assert answer["progress"] == [{"shard": 2, "seq": 7, "position": 40, "end": 90, "left": 50}]
    assert "ask again" in (await ask("/locality/endpoints/elsewhere/w1", status=404))["remedy"]
