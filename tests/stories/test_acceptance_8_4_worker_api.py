"""The worker API's suite. Names and promises: tests/fixtures/spec/acceptance.toml."""

from events import events as e
from events import facts as f
from events.reasons import RunResult
from events.values import Usage
from projections import fleet
from tests.stories.client_words import commands
from tests.stories.notation import MAIN, advance, connect, fact, finish, gone, keepalive, queue
from tests.stories.read_side import table_of


def test_connect_worker_adds_worker_to_scheduler(story):
    story.when(connect("w1", cpu=8)).then("w1 admitted")
    (told,) = commands(story)
    assert (told.endpoint, told.connection_id) == ("w1", story.connections["w1"])
    assert told.admitted.worker_timeout_us == 10_000_000
    assert [each["endpoint"] for each in fleet.workers(table_of(story))] == ["w1"]


def test_server_times_out_workers(story):
    story.given(connect("w1"), advance(9))
    assert story.connected() == ["w1"]
    story.when(advance(1)).then("w1 out: timeout")


def test_server_does_not_timeout_if_keep_alive(story):
    story.given(connect("w1"), advance(6), keepalive("w1"), advance(9.5))
    assert story.connected() == ["w1"]
    story.when(advance(0.5)).then("w1 out: timeout")


def test_going_away_removes_worker(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8)).when(gone("w1"))
    story.then("a requeued: worker_gone", "w1 out: gone")
    assert story.connected() == []


def test_execution_response_success(story):
    story.given(connect("w1", cpu=8), queue("a", cpu=8))
    usage = Usage(1, 2, 3)
    report = f.ActionFinished(
        MAIN, "w1", story.connections["w1"], story.dispatch_ids["a"], RunResult.EXITED, 1, "", b"out", b"err", usage
    )
    story.when(fact(report)).then("a finished: completed")
    finished = story.last(e.OperationFinished)
    assert (finished.exit_code, finished.stdout_tail, finished.stderr_tail, finished.usage) == (
        1,
        b"out",
        b"err",
        usage,
    )


def test_workers_only_allow_max_tasks(story):
    story.given(connect("w1", cpu=8, inflight=1))
    story.when(queue("a", cpu=1), queue("b", cpu=1)).then("a queued", "a to w1", "b queued")
    story.when(finish("a")).then("a finished: completed", "b to w1")
