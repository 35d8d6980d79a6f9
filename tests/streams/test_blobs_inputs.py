"""Inputs and outputs of runs: from peers and the store over real HTTP, with peers that lie, and by real processes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest
from aiohttp import web

from events.facts import Fact, PeerFetchFailed
from events.payloads import Command
from events.reasons import FetchFailure, RunResult
from events.values import Digest
from streams.blobs.directory import BlobDirectory
from streams.blobs.errors import BlobTooLarge
from streams.blobs.fetching import BlobClient
from streams.blobs.naming import digest_of, name_of
from streams.placements import ActionPlaced
from streams.worker.action_results import ActionResults
from streams.worker.blob_runs import BlobExecutor
from streams.worker.executors import ProcessExecutor
from streams.worker.inputs import InputMissing, InputSource
from streams.worker.protocol import RunReport
from streams.worker.secret_source import SecretSource
from tests.streams.blobbing import Answering, Known, answering, content, peer
from tests.streams.scheduling import until

DATA, OTHER = content(1, 50_000), content(2)
DIGEST, OTHER_DIGEST = digest_of(DATA), digest_of(OTHER)
NOWHERE = "http://127.0.0.1:9"


class Worker:
    """The blob side of a worker without a scheduler: `said` are the facts that it publishes."""

    def __init__(self, directory: BlobDirectory, inputs: InputSource, known: Known, said: list[Fact]) -> None:
        self.directory, self.inputs, self.known, self.said = directory, inputs, known, said

    async def take(self, *digests: Digest) -> list[bytes]:
        """Make inputs present, read them, and give them up."""
        pins = await self.inputs.take(digests)
        found = [pin.path.read_bytes() for pin in pins]
        for pin in pins:
            self.directory.unpin(pin)
        return found


@asynccontextmanager
async def worker_at(folder: Path, store_url: str = "", budget_bytes: int = 64 << 20) -> AsyncIterator[Worker]:
    directory, known, said = BlobDirectory(folder, budget_bytes), Known(), list[Fact]()
    numbers = count()
    async with BlobClient(silence_s=0.5) as client:
        inputs = InputSource(
            directory,
            client,
            "main",
            "w1",
            locality=known,
            store_url=store_url,
            draw=lambda: next(numbers),
            publish=said.append,
        )
        yield Worker(directory, inputs, known, said)
    directory.close()


# -- where inputs come from -------------------------------------------------------------------------------------------------


async def test_two_workers_exchange_a_blob(tmp_path: Path) -> None:
    async with peer(tmp_path / "w2", DATA) as (url, _), worker_at(tmp_path / "w1") as worker:
        worker.known.says(DATA, "w2", url)
        assert await worker.take(DIGEST) == [DATA]
        assert await worker.take(DIGEST) == [DATA]
        assert worker.known.asked == [name_of(DIGEST)], "what is here is asked of nobody"
        assert (worker.inputs.counts.from_peers, worker.inputs.counts.present) == (1, 1)
        assert worker.said == []
        assert worker.directory.changes().added == [DIGEST], "and the next report names it"


@pytest.mark.parametrize(
    ("lie", "failure"),
    [
        (lambda request: web.Response(status=404), FetchFailure.NOT_FOUND),
        (lambda request: content(3, len(DATA)), FetchFailure.DATA_LOSS),
        (lambda request: DATA[:100], FetchFailure.DATA_LOSS),
        (lambda request: web.Response(status=503), FetchFailure.UNAVAILABLE),
        (lambda request: None, FetchFailure.UNAVAILABLE),
        (lambda request: web.Response(status=429), FetchFailure.RESOURCE_EXHAUSTED),
    ],
)
async def test_a_peer_that_lied_is_reported_and_the_blob_comes_from_the_next(
    tmp_path: Path, lie: Answering, failure: FetchFailure
) -> None:
    async with answering(lie) as liar, peer(tmp_path / "w3", DATA) as (url, _), worker_at(tmp_path / "w1") as worker:
        worker.known.says(DATA, "w2", liar, boot_epoch=22)
        worker.known.says(DATA, "w3", url)
        assert await worker.take(DIGEST) == [DATA]
        assert worker.said == [PeerFetchFailed("main", "w2", DIGEST, failure, 22, "w1")]


async def test_when_every_peer_fails_the_stable_store_is_asked(tmp_path: Path) -> None:
    async with peer(tmp_path / "store", DATA) as (url, _), worker_at(tmp_path / "w1", url) as worker:
        worker.known.says(DATA, "w2", NOWHERE)
        worker.known.says(DATA, "w1", url)  # itself, of a life before: not asked
        worker.known.says(DATA, "w4", "")  # serves nothing
        assert await worker.take(DIGEST) == [DATA]
        assert [(fact.endpoint, fact.failure) for fact in worker.said if isinstance(fact, PeerFetchFailed)] == [
            ("w2", FetchFailure.UNAVAILABLE)
        ]
        assert worker.inputs.counts.from_store == 1


async def test_a_peer_that_was_not_heard_since_the_scheduler_restarted_is_asked_last(tmp_path: Path) -> None:
    async with peer(tmp_path / "w3", DATA) as (url, _), worker_at(tmp_path / "w1") as worker:
        worker.known.says(DATA, "w2", NOWHERE, confirmed=False)
        worker.known.says(DATA, "w3", url)
        assert await worker.take(DIGEST) == [DATA]
        assert worker.said == []


async def test_a_map_that_is_away_leaves_the_stable_store(tmp_path: Path) -> None:
    async with peer(tmp_path / "store", DATA) as (url, _), worker_at(tmp_path / "w1", url) as worker:
        worker.known.away = True
        assert await worker.take(DIGEST) == [DATA]


async def test_what_nobody_has_is_named_with_all_that_was_tried_and_no_pin_stays(tmp_path: Path) -> None:
    async with peer(tmp_path / "store", OTHER) as (url, _), worker_at(tmp_path / "w1", url) as worker:
        worker.known.says(DATA, "w2", NOWHERE)
        with pytest.raises(InputMissing, match=rf"{name_of(DIGEST)} is missing: w2 unavailable.*store.*404"):
            await worker.take(OTHER_DIGEST, DIGEST)
        with pytest.raises(InputMissing, match="its hash has 20 bytes"):
            await worker.take(Digest(b"x" * 20, 5))
        if worker.directory.holds(OTHER_DIGEST):
            pin = worker.directory.pin(OTHER_DIGEST)
            assert pin is not None
            assert pin.blob.pins == 1


async def test_a_blob_that_several_runs_want_is_fetched_once(tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(request: web.Request) -> bytes:
        asked.append(request.path)
        return DATA

    async with answering(answer) as url, worker_at(tmp_path / "w1", url) as worker:
        pins = await asyncio.gather(*[worker.inputs.take([DIGEST, DIGEST]) for _ in range(8)])
        assert len(asked) == 1
        assert [len(each) for each in pins] == [1] * 8
        assert pins[0][0].blob.pins == 8


async def test_a_budget_too_small_for_an_input_is_said_with_numbers(tmp_path: Path) -> None:
    async with peer(tmp_path / "store", DATA) as (url, _), worker_at(tmp_path / "w1", url, 1_000) as worker:
        with pytest.raises(BlobTooLarge, match="50000 bytes, and the whole budget is 1000"):
            await worker.take(DIGEST)


# -- runs -------------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def executing(worker: Worker, root: Path) -> AsyncIterator[tuple[BlobExecutor, ActionResults]]:
    results = ActionResults(root / "ac")
    executor = BlobExecutor(
        ProcessExecutor(SecretSource(), root=root / "runs"), worker.inputs, worker.directory, results
    )
    try:
        yield executor, results
    finally:
        await executor.close()


def placed(
    script: str, *inputs: Digest, action: Digest | None = None, cacheable: bool = True, dispatch_id: int = 5
) -> ActionPlaced:
    command = Command(("/bin/sh", "-c", script), (), inputs)
    return ActionPlaced(
        "main", 1, "c1", dispatch_id, "w1", 7, action_digest=action, command=command, cacheable=cacheable
    )


async def ran(executor: BlobExecutor, action: ActionPlaced, meanwhile: Callable[[], None] = lambda: None) -> RunReport:
    ended: list[tuple[int, RunReport]] = []
    executor.start(action, lambda dispatch_id, report: ended.append((dispatch_id, report)))
    assert ended == [], "never from within start"
    meanwhile()
    await until(lambda: bool(ended))
    ((dispatch_id, report),) = ended
    assert dispatch_id == action.dispatch_id
    return report


async def test_a_run_finds_its_inputs_and_what_it_leaves_is_kept(tmp_path: Path) -> None:
    async with peer(tmp_path / "w2", DATA, OTHER) as (url, _), worker_at(tmp_path / "w1") as worker:
        for data in (DATA, OTHER):
            worker.known.says(data, "w2", url)
        script = (
            'cat "$HEADWAY_INPUTS"/* | wc -c; ls "$HEADWAY_INPUTS"; mkdir "$HEADWAY_OUTPUTS/deep"; '
            'printf result > "$HEADWAY_OUTPUTS/deep/file"; ln -s /etc/passwd "$HEADWAY_OUTPUTS/link"'
        )
        async with executing(worker, tmp_path) as (executor, results):
            report = await ran(executor, placed(script, DIGEST, OTHER_DIGEST, DIGEST, action=digest_of(b"the action")))
            out = digest_of(b"result")
            assert report.result is RunResult.EXITED
            assert report.exit_code == 0
            assert report.stdout_tail.decode().split() == [
                str(len(DATA) + len(OTHER)),
                *sorted([DIGEST.hash.hex(), OTHER_DIGEST.hash.hex()]),
            ]
            assert report.message == f"outputs: deep/file={name_of(out)}"
            assert worker.directory.holds(out)
            assert len(worker.directory) == 3, "a link is no output"
            assert results.pins() == [digest_of(b"the action")]
            assert results.result(digest_of(b"the action")) == {
                "exit_code": 0,
                "outputs": {"deep/file": name_of(out)},
            }
            assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize(("script", "cacheable"), [("true", False), ("false", True)])
async def test_only_the_result_of_a_cacheable_action_that_succeeded_is_pinned(
    tmp_path: Path, script: str, cacheable: bool
) -> None:
    async with worker_at(tmp_path / "w1") as worker, executing(worker, tmp_path) as (executor, results):
        await ran(executor, placed(script, action=digest_of(b"the action"), cacheable=cacheable))
        assert results.pins() == []
        await ran(executor, placed("true", action=digest_of(b"another action"), dispatch_id=6))
        assert results.pins() == [digest_of(b"another action")]


async def test_a_lying_peer_costs_a_run_nothing(tmp_path: Path) -> None:
    async with (
        answering(lambda request: content(9, len(DATA))) as liar,
        peer(tmp_path / "store", DATA) as (url, _),
        worker_at(tmp_path / "w1", url) as worker,
        executing(worker, tmp_path) as (executor, _),
    ):
        worker.known.says(DATA, "w2", liar, boot_epoch=3)
        report = await ran(executor, placed(f'wc -c < "$HEADWAY_INPUTS/{DIGEST.hash.hex()}"', DIGEST))
        assert (report.exit_code, report.stdout_tail.split()) == (0, [str(len(DATA)).encode()])
        assert worker.said == [PeerFetchFailed("main", "w2", DIGEST, FetchFailure.DATA_LOSS, 3, "w1")]


async def test_a_run_without_its_input_ends_as_a_failed_precondition_that_names_it(tmp_path: Path) -> None:
    async with worker_at(tmp_path / "w1") as worker, executing(worker, tmp_path) as (executor, results):
        report = await ran(executor, placed("true", DIGEST, action=digest_of(b"a")))
        assert report.result is RunResult.FAILED_PRECONDITION
        assert name_of(DIGEST) in report.message
        assert "--blobs-url" in report.message
        assert results.pins() == []


async def test_a_run_that_is_stopped_while_it_waits_for_inputs_ends_at_once(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        async with worker_at(tmp_path / "w1", url) as worker, executing(worker, tmp_path) as (executor, _):
            report = await ran(executor, placed("true", DIGEST), lambda: executor.stop(5))
            assert report.result is RunResult.KILLED
            assert worker.directory.used_bytes == 0


async def test_a_running_run_is_stopped_and_its_inputs_are_given_up(tmp_path: Path) -> None:
    async with worker_at(tmp_path / "w1") as worker, executing(worker, tmp_path) as (executor, _):
        worker.directory.write(OTHER_DIGEST, OTHER)
        ended: list[RunReport] = []
        script = f"touch {tmp_path}/started; sleep 600"
        executor.start(placed(script, OTHER_DIGEST), lambda dispatch_id, report: ended.append(report))
        await until((tmp_path / "started").exists)
        pin = worker.directory.pin(OTHER_DIGEST)
        assert pin is not None
        assert pin.blob.pins == 2, "pinned while the run uses it"
        executor.stop(5)
        await until(lambda: bool(ended))
        assert (ended[0].result, pin.blob.pins) == (RunResult.KILLED, 1)


async def test_an_input_that_a_run_overwrites_is_not_served_to_others(tmp_path: Path) -> None:
    async with worker_at(tmp_path / "w1") as worker, executing(worker, tmp_path) as (executor, _):
        worker.directory.write(OTHER_DIGEST, OTHER)
        name = OTHER_DIGEST.hash.hex()
        script = f'chmod u+w "$HEADWAY_INPUTS/{name}" && echo overwritten > "$HEADWAY_INPUTS/{name}"'
        report = await ran(executor, placed(script, OTHER_DIGEST))
        assert report.exit_code == 0
        assert not worker.directory.holds(OTHER_DIGEST)
        assert worker.directory.counts.wrong == 1
        assert worker.directory.changes().evicted == [OTHER_DIGEST]


async def test_an_output_that_does_not_fit_fails_the_run_with_numbers(tmp_path: Path) -> None:
    async with (
        worker_at(tmp_path / "w1", budget_bytes=1_000) as worker,
        executing(worker, tmp_path) as (executor, results),
    ):
        script = 'head -c 2000 /dev/zero > "$HEADWAY_OUTPUTS/big"'
        report = await ran(executor, placed(script, action=digest_of(b"a")))
        assert report.result is RunResult.FAILED_PRECONDITION
        assert "2000 bytes, and the whole budget is 1000 bytes" in report.message
        assert results.pins() == []


async def test_outputs_are_named_as_far_as_the_message_has_room(tmp_path: Path) -> None:
    async with worker_at(tmp_path / "w1") as worker, executing(worker, tmp_path) as (executor, _):
        report = await ran(
            executor, placed('for n in $(seq 100 199); do echo $n > "$HEADWAY_OUTPUTS/$n"; done; kill -9 $$')
        )
        assert len(report.message) <= 1_024
        assert report.message.startswith("ended by SIGKILL; outputs: 100=")
        assert report.message.endswith(f" and {100 - report.message.count('=')} more")
        assert len(worker.directory) == 100
