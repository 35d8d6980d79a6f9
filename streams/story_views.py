"""The views of stories: what happened to one operation, hold or worker, from the log, as `headway explain` tells it.

    GET /v1/story/operation/ID            ?instance=&shard=&at=          from queued to its end, also of one that is forgotten
    GET /v1/story/hold                    ?name=&instance=&shard=&at=    the last hold of an operation, worker or instance, or `hold-SEQ`
    GET /v1/story/worker/NAME             ?instance=&shard=&at=&from=    its connections, drains, pauses and holds, how its time went

They read the past of one shard: that of `shard`, else that which holds `instance`, else the only one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from projections.fleet import instance_rows
from projections.story import asking
from projections.story.history import History
from projections.table import Table
from streams.answering import Answer, Refused, WaitingView, answering, number_of, text_of
from streams.moments import BadMoment, Moment, parse_moment
from streams.read_side import ReadSide, not_ready
from streams.settings import DEFAULT_INSTANCE
from streams.time_travel import Past

Story = Callable[[web.Request, History, int], Answer]


class StoryViews:
    """The views of the stories of one read side, from its past."""

    def __init__(self, read_side: ReadSide, past: Past | None) -> None:
        self._read_side, self._past = read_side, past

    def add_to(self, application: web.Application) -> None:
        """Serve them from an aiohttp application."""
        stories: dict[str, Story] = {
            "/v1/story/operation/{name:.+}": _operation,
            "/v1/story/hold": _hold,
            "/v1/story/worker/{name:.+}": _worker,
        }
        for path, story in stories.items():
            application.router.add_get(path, answering(self._view(story)))

    def _view(self, story: Story) -> WaitingView:
        def answer(request: web.Request) -> Answer | Awaitable[Answer]:
            if not self._read_side.gate.is_open:
                raise not_ready(self._read_side)
            if self._past is None:
                raise Refused(501, "no-past", "this read side keeps no past", "Only `headway state-table run` does")
            return self._past.told(
                self._shard(request), moment_of(request, "at"), lambda history, seq: _told(story, request, history, seq)
            )

        return answer

    def _shard(self, request: web.Request) -> int:
        """The shard that is asked about. Raises Refused."""
        shards = list(self._read_side.shards())
        if text_of(request, "shard") is not None:
            asked = number_of(request, "shard", 0)
            shards = [shard for shard in shards if shard == asked]
        instance = text_of(request, "instance")
        if len(shards) > 1:
            wanted = instance or DEFAULT_INSTANCE
            shards = [shard for shard in shards if any(instance_rows(Table(self._read_side.rows, shard), wanted))]
        if len(shards) == 1:
            return shards[0]
        known = ", ".join(map(str, self._read_side.shards())) or "none"
        raise Refused(
            404,
            "not-found",
            f"no shard here is the one asked about; shards here: {known}",
            "Give shard=N or instance=NAME",
        )


def moment_of(request: web.Request, name: str) -> Moment | None:
    """A parameter that names a moment; None where it is absent. Raises Refused."""
    given = text_of(request, name)
    try:
        return None if given is None else parse_moment(given)
    except BadMoment as error:
        raise Refused(400, error.code, error.message, error.remedy) from error


def _told(story: Story, request: web.Request, history: History, seq: int) -> Answer:
    try:
        return story(request, history, seq)
    except asking.NothingTold as error:
        raise Refused(404, error.code, error.message, error.remedy) from error


def _operation(request: web.Request, history: History, seq: int) -> Answer:
    return asking.operation_told(history, request.match_info["name"], text_of(request, "instance"), seq)


def _hold(request: web.Request, history: History, seq: int) -> Answer:
    instance = text_of(request, "instance")
    name = text_of(request, "name")
    return asking.hold_told(history, name, instance or DEFAULT_INSTANCE, seq, anywhere=instance is None)


def _worker(request: web.Request, history: History, seq: int) -> Answer:
    since = moment_of(request, "from")
    from_seq = None if since is None else since.seq or history.seq_at((since.at_us or 1) - 1) + 1
    instance = text_of(request, "instance") or DEFAULT_INSTANCE
    return asking.worker_told(history, request.match_info["name"], instance, seq, from_seq)
