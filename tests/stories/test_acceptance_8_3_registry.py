"""The worker registry's suite: who is alive. Names and promises: tests/fixtures/spec/acceptance.toml."""

from events import facts as f
from tests.stories.notation import MAIN, advance, connect, fact, keepalive, remove


def test_worker_heartbeat(story):
    story.when(fact(f.WorkerReported(MAIN, "w1", 1))).then("WorkerReported ignored: unknown_worker")
    story.given(connect("w1"))
    assert story.connected() == ["w1"]
    story.given(advance(9), keepalive("w1"), advance(9))
    assert story.connected() == ["w1"]
    story.when(advance(1)).then("w1 out: timeout")
    assert story.connected() == []


def test_check_liveness_distinguishes_stale_from_unknown(story):
    story.when(fact(f.WorkerReported(MAIN, "w1", 1))).then("WorkerReported ignored: unknown_worker")
    story.given(connect("w1"))
    old = story.connections["w1"]
    story.given(connect("w1"))
    story.when(fact(f.WorkerReported(MAIN, "w1", old))).then("WorkerReported ignored: stale_connection")
    story.given(remove("w1"))
    story.when(fact(f.WorkerReported(MAIN, "w1", old))).then("WorkerReported ignored: unknown_worker")


def test_remove_worker(story):
    story.given(connect("w1"), remove("w1"))
    assert story.connected() == []
    story.when(keepalive("w1")).then("WorkerReported ignored: unknown_worker")
