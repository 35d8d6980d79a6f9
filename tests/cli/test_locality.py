"""`headway locality`, and the library behind the same views, against what real facts lead to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from click.testing import CliRunner

from events.facts import BlobsAvailable, Fact, WorkerConnected, WorkerGone
from events.payloads import digests_bytes
from events.reasons import WipeCause
from events.values import Digest
from streams.cli.main import main
from streams.locality import LocalityReader
from streams.views import NotInTable, NotReady, ViewRefused, ViewsUnreachable
from tests.cli.conftest import ReadSide

BLOBS = [Digest(bytes([number]) * 32, number * 100) for number in range(1, 6)]
MakeReadSide = Callable[..., ReadSide]


def connected(name: str, boot_epoch: int, connection_id: int) -> Fact:
    properties = (("cpu_millis", "4000"),)
    return WorkerConnected("main", name, boot_epoch, connection_id, properties, blobs_url=f"http://{name}:9")


def has(name: str, connection_id: int, *blobs: Digest, **fields: object) -> Fact:
    return BlobsAvailable("main", name, connection_id, 1, full=True, added=digests_bytes(blobs), **fields)


FACTS = [
    connected("w1", 11, 7),
    has(
        "w1",
        7,
        *BLOBS[:3],
        ac_pins=digests_bytes(BLOBS[4:]),
        mirror_pending=2,
        mirror_pinned=3,
        mirror_pinned_bytes=4096,
    ),
    connected("w2", 12, 8),
    has("w2", 8, BLOBS[1]),
]


def test_holders_of_a_digest_are_listed_with_their_state(read_side: MakeReadSide) -> None:
    side = read_side(FACTS)
    answer = side.json("locality", "holders", str(BLOBS[1]))
    assert [(row["endpoint"], row["boot_epoch"], row["blobs_url"]) for row in answer["holders"]] == [
        ("w1", 11, "http://w1:9"), ("w2", 12, "http://w2:9"),
    ]  # fmt: skip
    assert (answer["complete"], answer["seq"] > 0, answer["digest"]) == (True, True, str(BLOBS[1]))
    _, first, _, footer = side.run("locality", "holders", str(BLOBS[1])).stdout.splitlines()
    assert first.split() == ["w1", "main", "11", "confirmed,", "connected", "http://w1:9"]
    assert footer.startswith(f"2 endpoints with {BLOBS[1]}; shard 0 seq ")
    assert "INCOMPLETE" not in footer


def test_nobody_is_an_answer_and_a_url_form_of_a_digest_is_read(read_side: MakeReadSide) -> None:
    side = read_side(FACTS)
    name = str(BLOBS[3]).replace("/", "-")
    assert side.json("locality", "holders", name)["holders"] == []
    assert side.run("locality", "holders", name).stdout.splitlines()[-1].startswith("0 endpoints with")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("xyz", "HASH/SIZE or HASH-SIZE"),
        ("ab/1", "1 bytes of hash and size 1"),
        ("ab" * 65 + "-1", "65 bytes of hash"),
        ("ab" * 32, "HASH/SIZE or HASH-SIZE"),
        ("ab" * 32 + "/9999999999999999999", "size 9999999999999999999"),
        ("", "HASH/SIZE or HASH-SIZE"),
    ],
)
def test_a_malformed_digest_is_a_usage_error_that_says_what_is_wrong(text: str, said: str) -> None:
    result = CliRunner().invoke(main, ["locality", "holders", text])
    assert result.exit_code == 2, result.output
    assert said in result.stderr


def test_an_endpoint_is_shown_with_all_that_is_known_of_it(read_side: MakeReadSide) -> None:
    text = read_side(FACTS).run("locality", "endpoint", "w1").stdout
    for part in (
        "boot epoch                    11",
        "connection                    7, since ",
        "state                         confirmed, connected",
        "blobs                         3",
        "pins of the action cache      1",
        "report                        1 (full), 1 chunks, complete",
        "small-blob mirror             2 pending, 3 pinned (4.0 KiB)",
        "stable chunks unacknowledged  0 (0 acknowledged, 0 given up)",
    ):
        assert part in text


def test_an_endpoint_that_has_gone_is_known_until_it_is_swept_and_an_unknown_one_is_not(
    read_side: MakeReadSide,
) -> None:
    side = read_side([*FACTS, WorkerGone("main", "w2")])
    text = side.run("locality", "endpoint", "w2").stdout
    assert "none, since" in text
    assert "1; the last" in text
    assert "disconnected, of boot epoch 12" in text
    assert "blobs                         0" in text
    assert side.json("locality", "endpoint", "w2")["endpoint"]["wiped"] == "disconnected"
    result = side.run("locality", "endpoint", "w3", code=4)
    assert "endpoint 'w3' of instance 'main' is not in the state table" in result.stderr
    assert "never_reconnect_s" in result.stderr
    assert "known instances: main" in side.run("locality", "endpoint", "w1", "--instance", "x", code=4).stderr


def test_blobs_of_an_endpoint_come_page_by_page(read_side: MakeReadSide) -> None:
    side = read_side(FACTS)
    page = side.json("locality", "endpoint", "w1", "--blobs", "2")
    assert (page["blobs"], page["more"]) == ([str(blob) for blob in BLOBS[:2]], True)
    page = side.json("locality", "endpoint", "w1", "--blobs", "2", "--after", page["next"])
    assert (page["blobs"], page["more"], page["next"]) == ([str(BLOBS[2])], False, None)
    assert str(BLOBS[0]) in side.run("locality", "endpoint", "w1", "--blobs", "1").stdout
    mark = side.json("locality", "endpoint", "w1", "--blobs", "1")["next"]
    text = side.run("locality", "endpoint", "w1", "--blobs", "1").stdout
    assert f"1 blob listed, it holds more: --after {mark}" in text
    other = side.run("locality", "endpoint", "w2", "--blobs", "1", "--after", mark, code=1)
    assert "one of w1 of instance main" in other.stderr
    digest = side.run("locality", "endpoint", "w1", "--blobs", "1", "--after", str(BLOBS[0]), code=1)
    assert "is not where a page ended" in digest.stderr
    assert "--after goes with --blobs" in side.run("locality", "endpoint", "w1", "--after", mark, code=2).stderr


@pytest.mark.parametrize("name", [".", "..", "a/b", "%2E"])
async def test_an_endpoint_is_found_whatever_its_name_is_in_a_url(read_side: MakeReadSide, name: str) -> None:
    side = await asyncio.to_thread(read_side, [connected(name, 11, 7), has(name, 7, BLOBS[0])])
    shown = await asyncio.to_thread(side.json, "locality", "endpoint", name, "--blobs", "1")
    assert (shown["endpoint"]["endpoint"], shown["blobs"]) == (name, [str(BLOBS[0])])
    async with LocalityReader(side.address) as reader:
        found = await reader.endpoint("main", name, blobs=1)
        assert found is not None
        assert (found.endpoint.endpoint, found.blobs) == (name, (BLOBS[0],))


def test_stats_sum_up(read_side: MakeReadSide) -> None:
    side = read_side(FACTS)
    answer = side.json("locality", "stats")
    wanted = {"endpoints": 2, "connected": 2, "pairs": 4, "pins": 1, "mirror_pending": 2, "mirror_pinned_bytes": 4096}
    assert {name: answer["stats"][name] for name in wanted} == wanted
    assert answer["by_shard"] == [{"shard": 0, **answer["stats"]}]
    assert "4 pairs of endpoint and blob" in side.run("locality", "stats").stdout


def test_until_the_table_is_complete_commands_say_not_ready_with_how_far_it_is(read_side: MakeReadSide) -> None:
    side = read_side(FACTS, waiting=True)
    for command in (("queue", "list"), ("worker", "list"), ("locality", "stats"), ("locality", "endpoint", "w1")):
        said = side.run(*command, code=1).stderr
        assert "error [not-ready]: not ready yet: shard 0 stands at event 3, offset 5 of 9, 4 left" in said
        assert "headway status --wait" in said


def test_an_incomplete_index_says_so_in_every_answer(read_side: MakeReadSide) -> None:
    side = read_side(FACTS, waiting=True, waited_s=30.0)
    assert side.json("locality", "holders", str(BLOBS[1]))["complete"] is False
    for command in (("stats",), ("endpoint", "w1"), ("holders", str(BLOBS[3]))):
        said = side.run("locality", *command).stdout
        assert "INCOMPLETE: the index has not been read to its end yet (shard 0: 4 offsets left)" in said
    assert "ask again" in side.run("locality", "endpoint", "w9", code=4).stderr
    assert "not ready yet" in side.run("worker", "list", code=1).stderr


async def test_the_library_answers_typed(read_side: MakeReadSide) -> None:
    side = await asyncio.to_thread(read_side, [*FACTS, WorkerGone("main", "w2")])
    async with LocalityReader(side.address) as reader:
        found = await reader.holders(BLOBS[1])
        assert [(holder.endpoint, holder.boot_epoch, holder.confirmed) for holder in found.holders] == [
            ("w1", 11, True)
        ]
        assert (found.position.complete, found.position.age_ms) == (True, 250)
        inventory = await reader.endpoint("main", "w1", blobs=2)
        assert inventory is not None
        assert (inventory.blobs, inventory.endpoint.blobs) == (tuple(BLOBS[:2]), 3)
        rest = await reader.endpoint("main", "w1", blobs=2, after=inventory.next)
        assert rest is not None
        assert (rest.blobs, rest.next) == ((BLOBS[2],), None)
        gone = await reader.endpoint("main", "w2")
        assert gone is not None
        assert gone.endpoint.wiped is WipeCause.DISCONNECTED
        assert await reader.endpoint("main", "a name/with ?") is None
        assert (await reader.stats())[0].pairs == 3
        with pytest.raises(NotInTable, match="known instances: main"):
            await reader.holders(BLOBS[0], instance="x")
        with pytest.raises(ViewRefused, match="is not where a page ended"):
            await reader.endpoint("main", "w1", blobs=1, after=str(BLOBS[3]))


async def test_the_library_says_when_it_is_too_early_or_nobody_is_there(read_side: MakeReadSide) -> None:
    side = await asyncio.to_thread(lambda: read_side(FACTS, waiting=True))
    async with LocalityReader(side.address) as reader:
        with pytest.raises(NotReady, match="4 left"):
            await reader.holders(BLOBS[0])
    async with LocalityReader("http://127.0.0.1:1") as reader:
        with pytest.raises(ViewsUnreachable):
            await reader.stats()
