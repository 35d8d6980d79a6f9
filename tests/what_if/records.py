"""Records to ask what-if about: of random histories, of simulated runs, of stories."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from events import events as e
from events import facts as f
from events.decide import decide, elect
from projections.whatif.meter import Meter
from projections.whatif.reading import Reading, Window
from projections.whatif.record import Record
from streams.simulate import world as simulated
from streams.simulate.policies import Policy, configuration
from streams.simulate.workload import Workload
from streams.simulate.world import Run
from tests.projections.histories import History
from tests.stories.story import Story

Fact = tuple[int, int, str, f.Fact]
"""Offset, append time, key, fact."""


def recording(
    events: Iterable[e.Event],
    facts: Iterable[Fact],
    *,
    instance: str = "main",
    window: Window | None = None,
    facts_from: int = 0,
) -> tuple[Record, Meter]:
    """The record that these events and facts are, and what was measured in it."""
    reading = Reading(instance, window or Window(), facts_from=facts_from)
    for event in events:
        reading.add_event(event)
        if reading.over:
            break
    reading.end_events()
    for fact in facts:
        if reading.first_fact <= fact[0] <= reading.last_fact:
            reading.add_fact(*fact)
    return reading.finish(), reading.meter


class RecordedHistory(History):
    """A random history that keeps its facts."""

    def __init__(self, seed: int) -> None:
        self.facts: list[Fact] = []
        super().__init__(seed)

    def decide(self, fact: f.Fact, append_us: int | None = None, key: str = "") -> None:
        """One fact, kept."""
        at_us = self.world.now_us if append_us is None else append_us
        self.facts.append((self._offset, at_us, key, fact))
        super().decide(fact, append_us, key)


def simulation(
    monkeypatch: pytest.MonkeyPatch, workload: Workload, policy: Policy, **options: Any
) -> tuple[Run, list[e.Event], list[Fact]]:
    """A simulated run under a policy: what became of its jobs, and the events and facts it consists of."""
    events: list[e.Event] = []
    facts: list[Fact] = []

    def kept(shard: Any, fact: f.Fact, *, offset: int, append_us: int) -> list[e.Event]:
        caused = decide(shard, fact, offset=offset, append_us=append_us)
        facts.append((offset, append_us, "", fact))
        events.extend(caused)
        return caused

    def elected(shard: Any, **said: Any) -> list[e.Event]:
        caused = elect(shard, **said)
        events.extend(caused)
        return caused

    with monkeypatch.context() as patch:
        patch.setattr(simulated, "decide", kept)
        patch.setattr(simulated, "elect", elected)
        run = simulated.World(workload, configuration(policy, **options)).run()
    return run, events, facts


def of_story(story: Story, **named: Any) -> tuple[Record, Meter]:
    """What a story told so far, as a record."""
    rehearsal = story.rehearsal
    facts = [(offset, at_us, key, fact) for offset, (at_us, key, fact) in enumerate(rehearsal.facts)]
    return recording(rehearsal.events, facts, **named)
