"""The five lines on why an action waited."""

from __future__ import annotations

from dataclasses import replace

import pytest

from events import events as e
from events import facts as f
from events.codec import canonical_requirements
from streams.demo.tally import Tally
from streams.demo.why import Room, why_it_waited
from streams.rehearsal import Rehearsal

START_US = 1_700_000_000_000_000


class Story:
    """Facts a tenth of a second apart, and the fold of what they caused."""

    def __init__(self, *workers: tuple[str, int]) -> None:
        self.rehearsal = Rehearsal(ticker=False)
        self.at_us = START_US
        self.take(f.Configured("main", '{"kind":"simple"}'))
        for name, cpu in workers:
            self.take(f.WorkerConnected("main", name, 1, 7, (("cpu_millis", str(cpu)), ("memory_kib", "9"))))

    def take(self, fact: f.Fact) -> None:
        self.at_us += 100_000
        self.rehearsal.take(fact, self.at_us)

    def queue(self, name: str, cpu: int) -> None:
        self.take(f.ActionQueued("main", name, canonical_requirements([("cpu_millis", str(cpu))]), target_id=name))

    def finish(self, name: str) -> None:
        running = self.rehearsal.shard.instances["main"].by_client[name].dispatch
        assert running is not None, f"{name} does not run"
        self.take(f.ActionFinished("main", running.worker.endpoint, 7, running.dispatch_id))

    def tally(self) -> Tally:
        tally = Tally()
        for event in self.rehearsal.events:
            tally.add(event)
        return tally

    def why(self, name: str) -> list[str]:
        tally = self.tally()
        run = tally.runs[tally.by_client[name][0]]
        return why_it_waited(self.rehearsal.events, tally, run)


def test_a_large_action_is_overtaken_until_all_it_asks_for_is_free_at_once():
    story = Story(("small", 2000), ("large", 8000))
    story.queue("a", 3000)  # onto large
    story.queue("big", 8000)
    story.queue("b", 3000)  # overtakes onto large
    story.queue("c", 1000)  # overtakes onto small or large
    for name in ("a", "c", "b"):
        story.finish(name)
    first, second, third, fourth, fifth = story.why("big")
    assert "(big) waited" in first
    assert "placed on large" in first
    assert "8000 cpu_millis; 1 of 2 workers are large enough (large)" in second
    assert "1 run held large (8000 cpu_millis wanted, 5000 free)" in third
    assert fourth.startswith("2 later actions overtook it")
    assert "(b) (3000 cpu_millis) on large" in fourth
    assert "when" in fifth
    assert "ended on large" in fifth


def test_what_nobody_overtook_says_so():
    story = Story(("w", 1000))
    story.queue("a", 1000)
    story.queue("b", 1000)
    story.finish("a")
    lines = story.why("b")
    assert lines[3] == "Nobody overtook it while it stood first in line."
    assert "(a) ended on w" in lines[4]


def test_a_worker_that_came_later_is_told_apart_from_one_that_was_full():
    story = Story()
    story.queue("a", 1000)
    story.take(f.WorkerConnected("main", "w", 1, 7, (("cpu_millis", "1000"), ("memory_kib", "9"))))
    lines = story.why("a")
    assert lines[2] == "When it was queued: no worker large enough was connected."
    assert lines[4] == "It was placed as soon as w had the room."


def test_the_room_follows_dispatches_ends_and_losses():
    story = Story(("w", 4000))
    story.queue("a", 1000)
    story.queue("b", 2000)

    def free() -> int:
        room = Room(story.tally())
        for event in story.rehearsal.events:
            room.add(event)
        return room.free(room.sites["w"])["cpu_millis"]

    assert free() == 1000
    story.take(f.CancelRequested("main", client_operation_id="b"))
    assert free() == 1000  # told to stop, not yet stopped: it still pays
    story.finish("a")
    assert free() == 2000
    killed = next(event for event in story.rehearsal.events if isinstance(event, e.KillRequested))
    story.take(f.ActionFinished("main", "w", 7, killed.dispatch_id))
    assert free() == 4000


def test_an_action_that_was_never_placed_has_no_reason_yet():
    story = Story()
    story.queue("a", 1)
    tally = story.tally()
    (run,) = tally.runs.values()
    with pytest.raises(ValueError, match="never dispatched"):
        why_it_waited(story.rehearsal.events, tally, replace(run))
