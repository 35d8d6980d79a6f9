"""The built-in action cache: a fold of results, asked by the decider and answered by facts (D1)."""

from __future__ import annotations

import asyncio

import pytest

from events import events as e
from events import facts as f
from events.errors import SequenceBroken
from events.reasons import CacheAnswer, IgnoreReason, Outcome
from events.values import Digest
from streams.client import FactPublisher
from streams.edges.cache import CacheEdge
from streams.edges.running import ShardEdges, UpstreamLogs
from streams.log import Outgoing
from streams.memory_log import MemoryLog
from streams.provisioning import provision
from streams.recovery import DamagedLog
from streams.topics import EVENTS
from streams.worker.executors import SimulatedExecutor
from tests.streams.edging import DIGEST, action, cache_lookup, configured, edges, put, put_events
from tests.streams.scheduling import events_in, serving, until, worker

OTHER = Digest(b"\x02" * 32, 7)

# -- the fold ---------------------------------------------------------------------------------------------------------------


def queued(operation_id: int, digest: Digest = DIGEST, *, instance: str = "main", cacheable: bool = True) -> e.Event:
    return e.OperationQueued(
        1, 1, operation_id, instance, f"c{operation_id}", 1, action_digest=digest, cacheable=cacheable
    )


def ended(operation_id: int, outcome: Outcome = Outcome.COMPLETED, exit_code: int = 0) -> e.Event:
    return e.OperationFinished(1, 1, 99, operation_id, 5, outcome, exit_code)


def asked(operation_id: int, digest: Digest = DIGEST) -> e.Event:
    return e.CacheLookupRequested(1, 1, operation_id, operation_id, digest)


def answered(operation_id: int, answer: CacheAnswer) -> e.Event:
    return e.CacheAnswered(1, 1, 99, "main", operation_id, answer)


def fold(*events: e.Event, most: int = 10) -> CacheEdge:
    edge = CacheEdge(most)
    for event in events:
        edge.take(event)
    return edge


def test_a_result_is_a_hit_and_anything_else_a_miss() -> None:
    edge = fold(queued(1), ended(1), queued(2), asked(2), queued(3, OTHER), asked(3))
    assert edge.answers() == [
        f.CacheAnswered("main", 2, CacheAnswer.HIT, 0),
        f.CacheAnswered("main", 3, CacheAnswer.MISS),
    ]
    assert edge.answers() == []
    assert (edge.hits, edge.misses, edge.open_lookups) == (1, 1, 2)


@pytest.mark.parametrize(
    "before",
    [
        [queued(1), ended(1, exit_code=1)],
        [queued(1), ended(1, Outcome.CANCELLED)],
        [queued(1), ended(1, Outcome.COMPLETED_FROM_CACHE)],
        [queued(1, cacheable=False), ended(1)],
        [queued(1, instance="other"), ended(1)],
        [queued(1)],
    ],
)
def test_what_did_not_come_to_a_result_is_not_held(before: list[e.Event]) -> None:
    (answer,) = fold(*before, queued(2), asked(2)).answers()
    assert answer.answer is CacheAnswer.MISS


def test_the_result_that_was_not_used_for_longest_gives_way() -> None:
    third = Digest(b"\x03" * 32, 7)
    events = [queued(1), ended(1), queued(2, OTHER), ended(2)]
    used = [queued(3), asked(3), answered(3, CacheAnswer.HIT), ended(3, Outcome.COMPLETED_FROM_CACHE)]
    edge = fold(*events, *used, queued(4, third), ended(4), queued(5), asked(5), queued(6, OTHER), asked(6), most=2)
    assert len(edge) == 2
    assert [answer.answer for answer in edge.answers()] == [CacheAnswer.HIT, CacheAnswer.MISS]


def test_no_results_are_held_where_none_are_wanted() -> None:
    (answer,) = fold(queued(1), ended(1), queued(2), asked(2), most=0).answers()
    assert answer.answer is CacheAnswer.MISS
    with pytest.raises(ValueError, match="most is -1"):
        CacheEdge(-1)


def test_what_the_log_has_answered_or_ended_is_not_answered_again() -> None:
    edge = fold(queued(1), asked(1), answered(1, CacheAnswer.MISS), queued(2), asked(2), ended(2, Outcome.CANCELLED))
    assert edge.answers() == []
    assert edge.open_lookups == 0


def test_a_look_up_for_what_was_not_queued_is_a_broken_log() -> None:
    with pytest.raises(SequenceBroken, match="looks up operation 5"):
        fold(asked(5))


# -- at work ----------------------------------------------------------------------------------------------------------------


async def test_the_second_of_two_identical_actions_never_enters_the_queue() -> None:
    async with (
        configured(main=cache_lookup()) as log,
        edges(log),
        serving(log, worker(), executor=SimulatedExecutor()),
        FactPublisher(log) as publisher,
    ):
        await publisher.publish(action("first"))
        first = await publisher.wait("first", timeout_s=20)
        await publisher.publish(action("second"))
        second = await publisher.wait("second", timeout_s=20)
    assert (first.outcome, second.outcome) == (Outcome.COMPLETED, Outcome.COMPLETED_FROM_CACHE)
    assert second.succeeded
    assert len(events_in(log, e.OperationDispatched)) == 1
    assert [event.answer for event in events_in(log, e.CacheAnswered)] == [CacheAnswer.MISS, CacheAnswer.HIT]


async def test_a_look_up_that_was_open_when_the_edge_died_is_answered_by_the_next() -> None:
    async with configured(main=cache_lookup()) as log:
        await put(log, action("a"))
        await until(lambda: len(events_in(log, e.CacheLookupRequested)) == 1, "asked")
        async with edges(log) as first:
            await until(lambda: len(events_in(log, e.CacheAnswered)) == 1, "answered")
            assert first.cache.misses == 1
        async with edges(log) as second:
            await until(lambda: second.caught_up, "caught up")
            await put(log, action("b", digest=OTHER))
            await until(lambda: len(events_in(log, e.CacheAnswered)) == 2, "answered")
            assert second.cache.misses == 1


async def test_a_second_edge_does_no_harm() -> None:
    async with configured(main=cache_lookup()) as log, edges(log) as one, edges(log) as other:
        await until(lambda: one.caught_up and other.caught_up)
        await put(log, action("a"))
        await until(lambda: one.cache.misses + other.cache.misses == 2, "both answer")
        await until(lambda: len(events_in(log, e.FactIgnored)) == 1, "the second answer is ignored")
        assert [event.reason for event in events_in(log, e.FactIgnored)] == [IgnoreReason.NOT_ASKED]
        assert len(events_in(log, e.CacheAnswered)) == 1


@pytest.mark.parametrize("committed", [True, False])
async def test_an_answer_whose_fate_is_unknown_is_published_again(committed: bool) -> None:
    async with configured(main=cache_lookup()) as log:
        await put(log, action("a"))
        await until(lambda: len(events_in(log, e.CacheLookupRequested)) == 1, "asked")
        log.fail_next_publish(committed=committed)
        async with edges(log):
            await until(lambda: len(events_in(log, e.CacheAnswered)) == 1, "answered")
            await until(lambda: len(events_in(log, e.FactIgnored)) == committed, "a second one is ignored")


async def test_a_damaged_log_stops_the_edges_with_its_place() -> None:
    log = MemoryLog()
    await provision(log, {"main": None}, shards=1)
    await put_events(log, [e.Ticked(0, 1, 0), e.Ticked(0, 1, 1)])
    again = log.records((EVENTS, 0))[0]
    await log.publish((EVENTS, 0), [Outgoing(again.value)])
    with pytest.raises(DamagedLog, match="after event 2"):
        await asyncio.wait_for(ShardEdges(log, 0, UpstreamLogs(log, None)).run(asyncio.Event()), 20)
