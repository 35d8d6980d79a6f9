"""The client of the views: what it says when the answer is not what it should be."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from streams.views import NotInTable, NotReady, TableBehind, ViewRefused, Views, ViewsUnreachable


@pytest.fixture
def answering() -> Iterator[Callable[[Callable[[str], tuple[int, str]]], Views]]:
    """A server that answers each path with what a function gives."""
    servers = []

    def serve(answer: Callable[[str], tuple[int, str]]) -> Views:
        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, text = answer(self.path)
                self.send_response(status)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *arguments: object) -> None:
                """Nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return Views(f"http://127.0.0.1:{server.server_port}")

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def test_parameters_are_encoded_and_absent_ones_left_out(answering):
    asked = []
    views = answering(lambda path: asked.append(path) or (200, "{}"))
    views.operations(stage="queued", client="a b", mnemonic=None, limit=5)
    views.operation("main/op-1 x")
    assert asked == ["/v1/operations?stage=queued&client_id=a+b&limit=5", "/v1/operations/main%2Fop-1%20x"]


def test_pages_are_read_to_the_end(answering):
    def answer(path: str) -> tuple[int, str]:
        first = "after=" not in path
        rows = [{"operation_id": 1}, {"operation_id": 5}] if first else [{"operation_id": 9}]
        assert first or "after=5" in path
        return 200, json.dumps({"operations": rows, "more": first})

    assert [row["operation_id"] for row in answering(answer).every_operation("main")] == [1, 5, 9]


def test_headways_own_errors_keep_message_and_remedy(answering):
    body = json.dumps({"error": "not-found", "message": "no such thing", "remedy": "look there"})
    with pytest.raises(NotInTable, match="no such thing") as caught:
        answering(lambda path: (404, body)).status()
    assert caught.value.remedy == "look there"
    with pytest.raises(ViewRefused, match="answered 503: no such thing"):
        answering(lambda path: (503, body)).status()


@pytest.mark.parametrize("answer", [(200, "<html>"), (200, "[1]"), (404, "<html>not here"), (500, "")])
def test_what_is_not_headways_answer_is_told_apart(answering, answer):
    with pytest.raises((ViewsUnreachable, ViewRefused), match=r"is it Headway's port|Is it Headway's read side"):
        answering(lambda path: answer).status()


def test_nobody_at_the_port():
    with pytest.raises(ViewsUnreachable, match="Connection refused") as caught:
        Views("http://127.0.0.1:1").status()
    assert "headway state-table run" in caught.value.remedy


def test_a_position_is_waited_for_and_given_up_in_time(answering):
    seqs = iter([3, 4, 5])
    views = answering(lambda path: (200, json.dumps({"shards": [{"shard": 1, "seq": next(seqs, 5)}]})))
    views.wait_for(1, 5, timeout_s=5)
    with pytest.raises(TableBehind, match=r"stands at seq 5 of shard 1 after 0\.1 s; seq 6"):
        views.wait_for(1, 6, timeout_s=0.1)
    with pytest.raises(TableBehind, match="seq 0 of shard 7"):
        views.wait_for(7, 1, timeout_s=0.1)


NOT_READY = json.dumps({"error": "not-ready", "message": "shard 0 stands at event 3, 4 left", "remedy": "Wait"})


def test_too_early_is_an_error_of_its_own_with_how_far_it_is(answering):
    with pytest.raises(NotReady, match="not ready yet: shard 0 stands at event 3, 4 left"):
        answering(lambda path: (503, NOT_READY)).queue()


def test_readiness_is_waited_for_and_given_up_in_time(answering):
    answers = iter([(503, NOT_READY), (503, NOT_READY), (200, "{}")])
    answering(lambda path: next(answers)).wait_until_ready(timeout_s=5)
    with pytest.raises(NotReady, match="4 left"):
        answering(lambda path: (503, NOT_READY)).wait_until_ready(timeout_s=0.1)
    with pytest.raises(ViewsUnreachable):
        Views("http://127.0.0.1:1").wait_until_ready(timeout_s=0.1)
    with pytest.raises(ViewRefused, match="answered 500"):
        answering(lambda path: (500, "")).wait_until_ready(timeout_s=5)
