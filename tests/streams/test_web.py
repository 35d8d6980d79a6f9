"""The views over HTTP, on a table in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from events.facts import ActionQueued
from events.payloads import canonical_requirements, command_bytes
from events.state import Stage
from projections.position import take
from projections.rows import MemoryRows
from projections.table import Table
from streams.readiness import Gate, Progress
from streams.web import SNAPSHOT_US, Views
from tests.projections.histories import History, records

NOW_US = 9_000_000_000


class ReadSide:
    """Two shards in memory."""

    def __init__(self) -> None:
        self.rows = MemoryRows()
        self.owned: list[int] = [0, 1]
        self.now_s = 0.0
        self.gate = Gate(lambda: self.now_s)
        for shard in self.owned:
            self.gate.caught_up(shard)
        self.histories = [History(11).run(300), History(12, configure=False)]
        self.tables = [Table(self.rows, 0), Table(self.rows, 1)]
        self.offsets = [0, 0]
        self.fold()

    def fold(self) -> None:
        for shard, history in enumerate(self.histories):
            for offset, value in records(history, first_offset=self.offsets[shard]):
                take(self.tables[shard], offset, value)
                self.offsets[shard] = offset + 1
            self.tables[shard].flush()

    def shards(self) -> Sequence[int]:
        return self.owned

    def snapshot(self) -> MemoryRows:
        copy = MemoryRows()
        copy.write(self.rows.by_key)
        return copy

    def describe(self) -> dict[str, Any]:
        return {"engine": "test"}

    def describe_shards(self) -> dict[int, dict[str, Any]]:
        return {shard: {"caught_up": True, "lag": 0} for shard in self.owned}

    def not_ready(self) -> str:
        return (
            ""
            if self.gate.is_open and self.owned
            else "; ".join(map(str, self.progress())) or "no shard is assigned yet"
        )

    def progress(self) -> list[Progress]:
        return [Progress(shard, 7, 40, 90) for shard in self.gate.waiting()]

    def began_us(self) -> int:
        return 5


class Asker:
    def __init__(self, client: TestClient[Any, Any], read_side: ReadSide, clock: list[int]) -> None:
        self.client, self.read_side, self.clock = client, read_side, clock

    async def __call__(self, path: str, *, status: int = 200, **parameters: object) -> dict[str, Any]:
        answer = await self.client.get(path, params={name: str(value) for name, value in parameters.items()})
        assert answer.status == status, await answer.text()
        assert answer.content_type == "application/json"
        found: dict[str, Any] = await answer.json()
        return found


@pytest.fixture
async def ask() -> AsyncIterator[Asker]:
    read_side, clock = ReadSide(), [NOW_US]
    application = web.Application()
    Views(read_side, clock_us=lambda: clock[0]).add_to(application)
    async with TestClient(TestServer(application)) as client:
        yield Asker(client, read_side, clock)


async def test_every_answer_carries_seq_and_age(ask: Asker) -> None:
    seqs = [history.shard.seq for history in ask.read_side.histories]
    for path in ("/v1/queue", "/v1/operations", "/v1/workers", "/v1/instances", "/v1/holds", "/v1/status", "/healthz"):
        answer = await ask(path)
        assert [part["seq"] for part in answer["shards"]] == seqs, path
        assert answer["seq"] == max(seqs), path
        ages = [(NOW_US - history.shard.now_us) // 1000 for history in ask.read_side.histories]
        assert [part["age_ms"] for part in answer["shards"]] == ages, path
        assert answer["age_ms"] == max(ages), path


async def test_the_queue_comes_in_dispatch_order_and_is_cut_with_a_word(ask: Asker) -> None:
    shard = ask.read_side.histories[0].shard
    waiting = sorted(
        (o for o in shard.operations.values() if o.instance == "main" and o.stage == 1), key=lambda o: o.sort_key
    )
    assert len(waiting) > 2
    answer = await ask("/v1/queue", instance="main", limit=2)
    assert [row["operation_id"] for row in answer["operations"]] == [o.operation_id for o in waiting[:2]]
    assert [row["place"] for row in answer["operations"]] == [1, 2]
    assert answer["more"]
    assert not (await ask("/v1/queue", instance="main", limit=len(waiting)))["more"]


async def test_operations_are_filtered_and_paged(ask: Asker) -> None:
    shard = ask.read_side.histories[0].shard
    for stage in Stage:
        answer = await ask("/v1/operations", stage=stage.name.lower(), limit=10_000)
        assert {row["operation_id"] for row in answer["operations"]} == {
            o.operation_id for o in shard.operations.values() if o.stage == stage
        }
    answer = await ask("/v1/operations", instance="night", limit=1)
    paged = [row["operation_id"] for row in answer["operations"]]
    while answer["more"]:
        answer = await ask("/v1/operations", instance="night", after=paged[-1], limit=1)
        paged += [row["operation_id"] for row in answer["operations"]]
    assert len(paged) > 2
    assert paged == sorted(o.operation_id for o in shard.operations.values() if o.instance == "night")


async def test_one_operation_is_found_by_each_of_its_names(ask: Asker) -> None:
    history = ask.read_side.histories[0]
    requirements = canonical_requirements([("cpu_millis", "1")])
    command = command_bytes(["cc", "-c"], [("A", "1"), ("B", "", "token")])
    history.decide(ActionQueued("main", "a/strange name", requirements, command=command, mnemonic="Cc"))
    ask.read_side.fold()
    operation_id = history.shard.instances["main"].by_client["a/strange name"].operation_id
    for name in ("a%2Fstrange%20name", f"main%2Fop-{operation_id}", f"main/op-{operation_id}", f"op-{operation_id}"):
        async with ask.client.get(f"/v1/operations/{name}") as answer:
            assert answer.status == 200, name
            operation = (await answer.json())["operation"]
        assert operation["operation_id"] == operation_id
    assert operation["argv"] == ["cc", "-c"]
    assert operation["env"] == [{"name": "A", "value": "1"}, {"name": "B", "secret": "token"}]
    assert operation["requirements"] == [{"name": "cpu_millis", "value": "1"}]
    found = await ask("/v1/operations", mnemonic="Cc")
    assert [row["operation_id"] for row in found["operations"]] == [operation_id]


@pytest.mark.parametrize(
    ("path", "parameters", "status", "said"),
    [
        ("/v1/operations/op-999999", {}, 404, "not in the state table"),
        ("/v1/operations/nobody", {}, 404, "not in the state table"),
        ("/v1/operations/night/op-1x", {}, 404, "not in the state table"),
        ("/v1/operations", {"stage": "sleeping"}, 400, "queued, executing, finished"),
        ("/v1/operations", {"limit": 0}, 400, "from 1 to"),
        ("/v1/operations", {"limit": "many"}, 400, "whole number"),
        ("/v1/operations", {"after": 3}, 400, "one instance and all stages"),
        ("/v1/operations", {"after": 3, "instance": "night", "stage": "queued"}, 400, "one instance and all stages"),
        ("/v1/operations", {"after": 1 << 64, "instance": "night"}, 400, "whole number"),
        ("/v1/queue", {"instance": "elsewhere"}, 404, "main, night"),
        ("/v1/explain/operation/nobody", {}, 404, "not in the state table"),
        ("/v1/explain/hold", {}, 400, "there are 2 instances: main, night"),
        (
            "/v1/explain/hold",
            {"name": "nobody"},
            404,
            "no operation in the state table, no held worker and no instance",
        ),
        ("/v1/holds", {"instance": "elsewhere"}, 404, "main, night"),
        ("/v1/rows", {"shard": 7}, 404, "shards: 0, 1"),
        ("/v1/rows", {"after": "xyz"}, 400, "no hex"),
        ("/v1/rows", {"snapshot": "9"}, 404, "gone"),
    ],
)
async def test_a_wrong_request_is_answered_with_what_is_wrong(
    ask: Asker, path: str, parameters: dict[str, object], status: int, said: str
) -> None:
    answer = await ask(path, status=status, **parameters)
    assert said in answer["message"]
    assert answer["error"]
    assert answer["remedy"]


async def test_an_explanation_carries_the_position_of_its_own_shard(ask: Asker) -> None:
    shard = ask.read_side.histories[0].shard
    for operation in shard.operations.values():
        answer = await ask(f"/v1/explain/operation/op-{operation.operation_id}", instance=operation.instance)
        assert answer["reasons"]
        assert answer["operation"]["operation_id"] == operation.operation_id
        assert answer["shards"] == [{"shard": 0, "seq": shard.seq, "age_ms": answer["age_ms"]}]
    for name in ("main", "night"):
        assert (await ask("/v1/explain/hold", name=name))["instance"] == name


async def test_rows_come_page_by_page_from_one_moment(ask: Asker) -> None:
    before = {key.hex(): value.hex() for key, value in ask.read_side.rows.by_key.items() if key[3] == 0}
    found: dict[str, str] = {}
    page = await ask("/v1/rows", shard=0, limit=50)
    seq = page["seq"]
    while True:
        found.update(dict(page["rows"]))
        assert page["seq"] == seq
        ask.read_side.histories[0].run(20)
        ask.read_side.fold()
        if not page["more"]:
            break
        page = await ask("/v1/rows", shard=0, limit=50, after=page["rows"][-1][0], snapshot=page["snapshot"])
    assert found == before


async def test_a_snapshot_that_nobody_reads_on_is_let_go(ask: Asker) -> None:
    page = await ask("/v1/rows", shard=0, limit=1)
    ask.clock[0] += SNAPSHOT_US + 1
    await ask("/v1/rows", shard=0, limit=1)
    answer = await ask("/v1/rows", shard=0, limit=1, snapshot=page["snapshot"], status=404)
    assert "gone" in answer["message"]


async def test_nothing_is_answered_for_shards_of_others(ask: Asker) -> None:
    ask.read_side.owned = [1]
    assert {part["shard"] for part in (await ask("/v1/workers"))["shards"]} == {1}
    ask.read_side.owned = []
    assert (await ask("/v1/queue", status=503))["error"] == "not-ready"
    assert (await ask("/healthz", status=503))["error"] == "not-ready"


async def test_an_instance_that_may_be_in_a_shard_that_catches_up_is_not_said_to_be_unknown(ask: Asker) -> None:
    assert (await ask("/v1/queue", instance="elsewhere", status=404))["error"] == "unknown-instance"
    ask.read_side.gate.expect([2])
    answer = await ask("/v1/queue", instance="elsewhere", status=503)
    assert answer["progress"] == [{"shard": 2, "seq": 7, "position": 40, "end": 90, "left": 50}]
    assert (await ask("/v1/queue", instance="night"))["operations"]
