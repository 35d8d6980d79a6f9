"""The stories over HTTP: those that the history of the log itself tells, of now and of any moment."""

from __future__ import annotations

from events.codec import decode_event
from events.events import HoldMade, OperationQueued, WorkerAdmitted
from projections.story import asking
from projections.story.history import Told
from projections.story.recorded import Recorded
from tests.streams.test_time_travel import Stage, ask, stage  # noqa: F401
from tests.streams.test_web import Asker


def recorded(stage: Stage) -> Recorded:  # noqa: F811
    """The first shard's history, with the offsets of the log in memory."""
    return Recorded(0, [Told(number, decode_event(value)) for number, (_, value) in enumerate(stage.records[0])])


async def test_the_story_of_every_operation_is_that_of_its_events(stage: Stage, ask: Asker) -> None:  # noqa: F811
    history = recorded(stage)
    queued = [
        each.event for each in history.events_between(1, history.last_seq) if isinstance(each.event, OperationQueued)
    ]
    assert len(queued) > 10
    for event in queued[:: max(1, len(queued) // 12)]:
        name = f"{event.instance}/op-{event.operation_id}"
        told = await ask(f"/v1/story/operation/{name}", shard=0)
        assert told == asking.operation_told(history, name, None, None)
        assert told["story"]["chapters"][0]["event"] == "OperationQueued"


async def test_of_an_earlier_moment_it_ends_there(stage: Stage, ask: Asker) -> None:  # noqa: F811
    history = recorded(stage)
    first = next(each.event for each in history.events_between(1, 999) if isinstance(each.event, OperationQueued))
    seq = first.seq + 40
    told = await ask(f"/v1/story/operation/op-{first.operation_id}", shard=0, at=seq)
    assert told["story"]["as_of"]["seq"] == seq
    assert told == asking.operation_told(history, f"op-{first.operation_id}", None, seq)
    early = await ask(f"/v1/story/operation/op-{first.operation_id}", shard=0, at=first.seq - 1, status=404)
    assert "was queued in shard 0 up to seq" in early["message"]


async def test_the_stories_of_holds_and_workers(stage: Stage, ask: Asker) -> None:  # noqa: F811
    history = recorded(stage)
    admitted = next(each.event for each in history.events_between(1, 999) if isinstance(each.event, WorkerAdmitted))
    told = await ask(f"/v1/story/worker/{admitted.endpoint}", shard=0, instance=admitted.instance)
    assert told == asking.worker_told(history, admitted.endpoint, admitted.instance, None)
    made = next(each.event for each in history.events_between(1, history.last_seq) if isinstance(each.event, HoldMade))
    told = await ask("/v1/story/hold", shard=0, name=f"hold-{made.seq}")
    assert told["story"]["made"]["seq"] == made.seq
    assert told == asking.hold_told(history, f"hold-{made.seq}", made.instance, None)


async def test_what_means_nothing_is_refused_with_what_to_do(stage: Stage, ask: Asker) -> None:  # noqa: F811
    assert (await ask("/v1/story/worker/nobody", shard=0, status=404))["error"] == "not-found"
    assert (await ask("/v1/story/hold", shard=7, status=404))["error"] == "not-found"
    assert (await ask("/v1/story/hold", shard=0, at="yesterday", status=400))["error"] == "bad-moment"
    assert (await ask("/v1/story/hold", shard=0, at=99_999, status=404))["error"] == "no-such-moment"
