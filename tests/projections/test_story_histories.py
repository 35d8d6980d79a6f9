"""Stories of everything in random histories (lies, outages, losses, other configurations): none fails, and all of them add up."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from events import events as e
from projections.story import asking
from projections.story.history import Told
from projections.story.hold import holds_of_instance, story_of_hold
from projections.story.recorded import Recorded
from streams.cli.telling.hold import hold_in_five_lines, hold_told
from streams.cli.telling.operation import operation_told
from streams.cli.telling.worker import worker_told
from tests.projections.histories import History
from tests.projections.stories import check_figures


def recorded(seed: int, facts: int = 700) -> Recorded:
    events = History(seed).run(facts).events
    return Recorded(0, [Told(2 * number, event) for number, event in enumerate(events)])


def check_links(history: Recorded, part: Any) -> None:
    """Every link in a story leads to an event of that time at that offset."""
    if isinstance(part, dict):
        if {"seq", "offset", "at_us"} <= part.keys():
            (told,) = history.events_between(part["seq"], part["seq"])
            assert (told.offset, told.event.at_us) == (part["offset"], part["at_us"])
            kind = part.get("event", "OperationDispatched")
            assert part.get("of", kind) == "moment" or kind in ("moment", type(told.event).__name__)
        for value in part.values():
            check_links(history, value)
    elif isinstance(part, list):
        for value in part:
            check_links(history, value)


@pytest.mark.parametrize("seed", range(3))
def test_the_stories_of_all_operations_add_up_and_every_figure_stands_in_the_json(seed):
    history = recorded(seed)
    rng = random.Random(seed)
    every = history.events_between(1, history.last_seq)
    queued = [told.event for told in every if isinstance(told.event, e.OperationQueued)]
    assert len(queued) > 30
    for event in rng.sample(queued, 30):
        for seq in (None, rng.randint(event.seq, history.last_seq)):
            name = f"{event.instance}/op-{event.operation_id}"
            told = asking.operation_told(history, name, event.instance, seq)
            assert told["reasons"], "a reason is never missing"
            story = told["story"]
            assert json.loads(json.dumps(story)) == story
            assert sum(stay["for_us"] for stay in story["stays"]) == story["life_us"] == sum(story["times_us"].values())
            assert [chapter["seq"] for chapter in story["chapters"]] == sorted(
                chapter["seq"] for chapter in story["chapters"]
            )
            check_links(history, story)
            check_figures(story, operation_told(story))


@pytest.mark.parametrize("seed", [3, 4])
def test_the_stories_of_all_holds_and_workers_add_up(seed):
    history = recorded(seed)
    every = history.events_between(1, history.last_seq)
    workers = {(told.event.instance, told.event.endpoint) for told in every if isinstance(told.event, e.WorkerAdmitted)}
    for instance, endpoint in sorted(workers):
        for seq in (None, history.last_seq // 2):
            try:
                story = asking.worker_told(history, endpoint, instance, seq)["story"]
            except asking.NothingTold:
                assert seq is not None
                continue
            assert sum(state["for_us"] for state in story["states"]) == story["span_us"]
            check_links(history, story)
            check_figures(story, worker_told(story))
    for instance in ("main", "night"):
        for life in holds_of_instance(history, instance, history.last_seq):
            story = story_of_hold(history, life)
            assert all(item["most"] <= item["asked"] for item in story["cost"]["idle"])
            check_links(history, story)
            check_figures(story, [*hold_told(story), *hold_in_five_lines(story)])


def test_random_histories_have_holds_to_tell_of():
    assert sum(len(holds_of_instance(recorded(seed), "main", 1 << 40)) for seed in (3, 4)) > 5
