"""Under the policy that was in force, what-if gives what was recorded: with real answers, with modelled ones, in windows, without facts."""

from __future__ import annotations

import asyncio

import pytest

from events import facts as f
from events.codec import decode_event
from events.decide import RULES
from events.events import LeaderElected
from projections.whatif.comparing import answer_of, compare
from projections.whatif.durations import Courses
from projections.whatif.reading import Window
from projections.whatif.record import Record
from projections.whatif.world import World
from streams.log import Outgoing
from streams.memory_log import MemoryLog
from streams.recovery import DamagedLog
from streams.simulate.made import farm
from streams.simulate.policies import Policy
from streams.topics import EVENTS, FACTS, topic_table
from streams.what_if.reading import read_record
from tests.recorded.run import RecordedRun, recorded_run
from tests.stories.notation import accept, alive, connect, finish, queue
from tests.stories.story import Story
from tests.what_if.records import RecordedHistory, of_story, recording, simulation


@pytest.fixture(scope="module")
def run() -> RecordedRun:
    """Made before a test has a loop of its own."""
    return recorded_run()


def replayed(record: Record, **named: bool) -> World:
    world = World(record, "main", courses=Courses(record), **named)
    world.play()
    return world


@pytest.mark.parametrize("seed", range(25))
def test_a_random_history_is_decided_again_as_it_was(seed: int) -> None:
    """With outages, takeovers, reconfigurations, lies: every fact comes where it came, the runs' answers under their new numbers."""
    history = RecordedHistory(seed).run(500)
    record, _ = recording(history.events, history.facts)
    world = replayed(record)
    assert world.comparison.divergence is None
    assert world.facts.modelled == 0
    assert world.facts.given + world.facts.real == len(history.facts)


@pytest.mark.parametrize("seed", range(25))
def test_so_is_a_window_of_one(seed: int) -> None:
    history = RecordedHistory(seed).run(500)
    record, _ = recording(history.events, history.facts, window=Window(from_seq=200, to_seq=600))
    # Whole facts: those that the two events are of.
    assert record.first_seq <= 200
    cause = next(event.cause_offset for event in history.events if event.seq == 600)
    assert 600 <= record.last_seq == max(event.seq for event in history.events if event.cause_offset == cause)
    assert replayed(record).comparison.divergence is None


@pytest.mark.parametrize("window", [Window(), Window(from_seq=2000, to_seq=5000), Window(from_seq=6000)], ids=str)
def test_the_recorded_run_is_reproduced_with_every_answer_modelled(window: Window) -> None:
    """31 holds of every ending, losses, declines, kills, takeovers: every wait comes out to the microsecond."""
    found = asyncio.run(read_record(recorded_run().log, 0, "main", window))
    answer = answer_of(compare(found.record, found.meter, []), longest=0)
    assert answer["each"]["exact"] == answer["each"]["operations"] > 40
    recorded, unchanged = answer["policies"][:2]
    assert unchanged["first_divergence"] is None
    assert unchanged["facts"]["real"] == 0
    assert unchanged["facts"]["modelled"] > 50
    for figure in ("waits", "large", "holds", "utilisation", "unplaced"):
        assert unchanged[figure] == recorded[figure]


async def test_facts_that_are_gone_are_made_again_from_their_events(run: RecordedRun) -> None:
    log = MemoryLog()
    await log.ensure_topics(topic_table(1))
    writer = await log.open("w")
    await writer.append({(EVENTS, 0): [Outgoing(record.value) for record in run.log.records((EVENTS, 0))]})
    found = await read_record(log, 0, "main", Window())
    assert found.record.rebuilt == found.record.facts == len(run.log.records((FACTS, 0)))
    world = replayed(found.record)
    assert world.comparison.divergence is None


def test_what_events_do_not_say_of_a_fact_is_counted() -> None:
    history = RecordedHistory(3).run(300)
    record, _ = recording(history.events, history.facts, facts_from=1 << 40)
    assert record.rebuilt == record.facts == len(history.facts)
    assert 0 < record.lost < record.facts
    replayed(record)


def test_a_simulated_farm_is_reproduced_with_every_answer_modelled(monkeypatch: pytest.MonkeyPatch) -> None:
    _, events, facts = simulation(monkeypatch, farm(1, span_s=600), Policy.HOLD, after_s=20)
    record, meter = recording(events, facts)
    answer = answer_of(compare(record, meter, []), longest=0)
    assert answer["policies"][0]["holds"]["made"] > 0
    assert answer["each"]["exact"] == answer["each"]["operations"] > 3_000
    assert answer["error"]["off"]["waits"]["max_us"] == 0
    assert answer["error"]["chance"]["waits"]["mean_us"] > 0
    assert answer["error"]["most"] == answer["error"]["chance"]


@pytest.mark.parametrize("kind", [f.ActionQueued, f.ActionFinished])
def test_a_fact_that_was_written_off_is_written_off_again(kind: type[f.Fact], monkeypatch: pytest.MonkeyPatch) -> None:
    """The build that recorded it failed on it; this one would not. What was recorded is that it had no effect and parked its key."""
    story = Story()
    story.given(connect("w1", cpu=1), queue("a", cpu=1), accept("a"), alive(2))

    def fail(step: object, fact: object) -> None:
        raise ZeroDivisionError("a defect of that build")

    with monkeypatch.context() as patch:
        patch.setitem(RULES, kind, fail)
        story.given(queue("b", cpu=1) if kind is f.ActionQueued else finish("a"))
    story.given(queue("c", cpu=1), alive(4))
    record, _ = of_story(story)
    assert [type(given.fact) for given in record.givens if given.written_off] == [kind]
    world = replayed(record)
    assert world.comparison.divergence is None
    assert len(world.shard.parked_keys) == 1


async def test_records_of_a_leader_that_had_been_replaced_are_passed_over(run: RecordedRun) -> None:
    values = [record.value for record in run.log.records((EVENTS, 0))]
    elections = [at for at, value in enumerate(values) if type(decode_event(value)) is LeaderElected]
    assert len(elections) > 1
    late = values[elections[-1] - 1]  # of the leader before, written once more behind the election
    log = MemoryLog()
    await log.ensure_topics(topic_table(1))
    writer = await log.open("w")
    at = elections[-1] + 1
    await writer.append({(EVENTS, 0): [Outgoing(value) for value in (*values[:at], late, *values[at:])]})
    found = await read_record(log, 0, "main", Window())
    assert found.record.events == len(values)


async def test_damage_in_the_log_is_named_and_not_read_past(run: RecordedRun) -> None:
    values = [record.value for record in run.log.records((EVENTS, 0))]
    log = MemoryLog()
    await log.ensure_topics(topic_table(1))
    writer = await log.open("w")
    await writer.append({(EVENTS, 0): [Outgoing(value) for value in (*values[:500], *values[501:])]})
    with pytest.raises(DamagedLog, match="after event 500"):
        await read_record(log, 0, "main", Window())
