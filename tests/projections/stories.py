"""The history of a story in memory, and the words that the command line makes of what is told from it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from projections.story.history import Told
from projections.story.hold import holds_of_operation, story_of_hold
from projections.story.operation import story_of_operation
from projections.story.recorded import Recorded
from projections.story.worker import story_of_worker
from streams.cli.output import duration, size
from streams.cli.telling.hold import hold_in_five_lines, hold_told
from streams.cli.telling.operation import operation_told
from streams.cli.telling.worker import worker_told
from streams.moments import time_of
from tests.stories.story import Story

FIGURE = re.compile(r"\d[\w.:\-]*\w|\d")


def history_of(story: Story) -> Recorded:
    """The events so far, three offsets apart, so that an offset is not taken for a seq."""
    return Recorded(0, [Told(3 * number, event) for number, event in enumerate(story.every_event())])


def operation_story(story: Story, name: str, seq: int | None = None) -> dict[str, Any]:
    """The story of the last operation of this name, as JSON and back."""
    history = history_of(story)
    found = story_of_operation(history, history.operations_named(name)[-1], seq)
    assert found is not None
    assert json.loads(json.dumps(found)) == found
    assert sum(stay["for_us"] for stay in found["stays"]) == found["life_us"] == sum(found["times_us"].values())
    return found


def operation_words(story: Story, name: str, seq: int | None = None) -> list[str]:
    """The lines, each of whose figures stands in the JSON, without the links."""
    found = operation_story(story, name, seq)
    lines = operation_told(found)
    check_figures(found, lines)
    return _unlinked(lines)


def hold_story(story: Story, name: str, number: int = -1) -> dict[str, Any]:
    """The story of a hold for the operation of this name, as JSON and back."""
    history = history_of(story)
    lives = holds_of_operation(history, history.operations_named(name)[-1], history.last_seq)
    found = story_of_hold(history, lives[number])
    assert json.loads(json.dumps(found)) == found
    check_figures(found, [*hold_told(found), *hold_in_five_lines(found)])
    return found


def hold_words(story: Story, name: str) -> list[str]:
    """Its lines, without the links."""
    return _unlinked(hold_told(hold_story(story, name)))


def worker_story(story: Story, endpoint: str) -> dict[str, Any]:
    """The story of a worker, as JSON and back."""
    found = story_of_worker(history_of(story), "main", endpoint)
    assert found is not None
    assert json.loads(json.dumps(found)) == found
    assert sum(state["for_us"] for state in found["states"]) == found["span_us"]
    return found


def worker_words(story: Story, endpoint: str) -> list[str]:
    """Its lines, without the links."""
    found = worker_story(story, endpoint)
    lines = worker_told(found)
    check_figures(found, lines)
    return _unlinked(lines)


def _unlinked(lines: list[str]) -> list[str]:
    return [re.sub(r" \[seq \d+, offset \d+\]", "", line) for line in lines]


def check_figures(found: dict[str, Any], lines: list[str]) -> None:
    """Every number that stands in the lines is one of the JSON's, as it is or as people read it."""
    values = list(_values(found))
    numbers = {value for value in values if isinstance(value, int) and not isinstance(value, bool)}
    known = {text for value in numbers for text in _ways(value)}
    known |= {figure for value in values if isinstance(value, str) for figure in FIGURE.findall(value)}
    for line in lines:
        for figure in FIGURE.findall(line):
            assert figure in known, f"{figure!r} of {line!r} is not in the JSON"


def _values(part: Any) -> Iterator[Any]:
    if isinstance(part, dict):
        for key, value in part.items():
            yield key
            yield from _values(value)
    elif isinstance(part, list):
        for value in part:
            yield from _values(value)
    else:
        yield part


def _ways(value: int) -> Iterator[str]:
    yield str(value)
    yield str(value // 100)  # hundredths of a percent
    yield f"{value / 10:.1f}"  # thousandths
    yield duration(value)
    yield from re.findall(r"[\d.]+", size(value))
    if 0 <= value < 1 << 52:
        yield from FIGURE.findall(time_of(value))
