"""The run is what it is said to be: holds of every ending, each as the scene that made it says, on a log that readers take."""

import asyncio
from collections import Counter

import pytest

from events import events as e
from events.codec import decode_event
from events.reasons import HoldEnd, HoldMove
from streams.recovery import Fold, check_identity
from streams.ticker import INTERVAL_US
from streams.topics import EVENTS, FACTS
from tests.recorded.run import SHARD, recorded_run
from tests.recorded.truths import Cause, Truth

TRUTHS = recorded_run().truths
HELD = recorded_run().held
OF_HOLDS = (e.HoldMade, e.HoldMoved, e.HoldReleased, e.HoldNoCandidate)


def of(recorded, truth: Truth) -> list[e.Event]:
    """The events of a truth's hold, or of its lack."""
    about = [each for each in recorded.events if isinstance(each, OF_HOLDS) and each.operation_id == truth.operation_id]
    return [each for each in about if not (truth.worker and isinstance(each, e.HoldNoCandidate))]


def test_there_are_more_than_twenty_holds_and_every_ending_move_and_cause():
    endings = Counter(truth.ending for truth in HELD)
    assert len(HELD) >= 20
    assert endings.keys() == {each.name.lower() for each in HoldEnd if each}
    assert all(count >= 2 for count in endings.values())
    assert {move.reason for truth in TRUTHS for move in truth.moves} == {each.name.lower() for each in HoldMove if each}
    causes = {truth.cause for truth in TRUTHS} | {move.cause for truth in TRUTHS for move in truth.moves}
    assert causes == set(Cause)


def test_the_run_holds_nothing_but_what_the_scenes_made(recorded):
    made = [each for each in recorded.events if isinstance(each, e.HoldMade)]
    assert [recorded.names[each.operation_id] for each in made] == [truth.operation for truth in HELD]


@pytest.mark.parametrize("truth", HELD, ids=lambda truth: f"{truth.operation}-{truth.ending}")
def test_a_hold_went_as_its_scene_says(recorded, truth):
    made, *moves, released = of(recorded, truth)
    assert (made.endpoint, made.cause_offset) == (truth.worker, truth.made_by)
    assert recorded.names.get(made.overtaken_by, "") == truth.overtaken_by
    assert len(made.candidates) + made.more_candidates > 1 or not truth.closest
    assert [(each.to_endpoint, HoldMove(each.cause).name.lower()) for each in moves] == [
        (move.to, move.reason) for move in truth.moves
    ]
    assert all(move.fact in (None, each.cause_offset) for each, move in zip(moves, truth.moves, strict=True))
    assert (released.endpoint, released.reason.name.lower()) == (truth.last_worker, truth.ending)
    if truth.ended_by is None:
        assert abs(released.held_us - truth.held_us) <= INTERVAL_US
    else:
        assert (released.cause_offset, released.held_us) == (truth.ended_by, truth.held_us)
    placed = [
        each for each in recorded.events if isinstance(each, e.OperationDispatched) and each.at_us == released.at_us
    ]
    assert [each.endpoint for each in placed if each.operation_id == truth.operation_id] == [truth.placed_on] * bool(
        truth.placed_on
    )


@pytest.mark.parametrize("truth", [each for each in TRUTHS if not each.worker], ids=lambda truth: truth.operation)
def test_where_nobody_could_be_held_it_is_for_the_scenes_reason(recorded, truth):
    (said,) = of(recorded, truth)
    assert isinstance(said, e.HoldNoCandidate)
    assert said.cause_offset == truth.made_by
    assert {each.exclusion.name.lower(): each.workers for each in said.excluded} == truth.excluded


def test_the_log_is_one_that_readers_take(recorded):
    fold = Fold(SHARD)
    fold.apply(recorded.log.records((EVENTS, SHARD)))
    assert (fold.stale, fold.shard.seq) == (0, recorded.events[-1].seq)
    assert fold.shard.position == recorded.log.records((FACTS, SHARD))[-1].offset
    topics = {name: asyncio.run(recorded.log.topic_id(name)) for name in (FACTS, EVENTS)}
    check_identity(fold.shard, cluster_id="recorded", facts_topic_id=topics[FACTS], events_topic_id=topics[EVENTS])


def test_every_fact_stands_where_its_events_say(recorded):
    facts = {record.offset: record.at_us for record in recorded.log.records((FACTS, SHARD))}
    events = [decode_event(record.value) for record in recorded.log.records((EVENTS, SHARD))]
    assert events == list(recorded.events)
    decided = {each.cause_offset for each in events if not isinstance(each, e.LeaderElected)}
    assert decided == facts.keys()
    assert all(facts[each.cause_offset] == each.at_us for each in events if isinstance(each, e.OperationQueued))


def test_the_run_is_the_same_each_time(recorded):
    assert [each.value for each in recorded_run.__wrapped__().log.records((EVENTS, SHARD))] == [
        each.value for each in recorded.log.records((EVENTS, SHARD))
    ]
