"""The holds of the scene in numbers, from their stories and the counts of both runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from events.reasons import HoldEnd
from projections.story.history import History
from projections.story.hold import holds_of_instance, story_of_hold
from streams.cli.output import percentile
from streams.demo.tally import SECOND_US, Run, Tally


def stories_of_holds(history: History, instance: str) -> list[dict[str, Any]]:
    """The stories of every hold of an instance, in order."""
    lives = holds_of_instance(history, instance, history.last_seq)
    return [story_of_hold(history, life) for life in lives]


def summary_of_hold(
    runs: dict[str, Tally], large: dict[str, str], stories: Sequence[dict[str, Any]], missed: int
) -> dict[str, Any]:
    """Both runs in numbers, by `without` and `with`; `large` are the client operation ids of the large actions."""
    ends = [story["ended"]["reason"]["reason"] for story in stories if story["ended"] is not None]
    idle = [item["core_seconds"] for story in stories for item in story["cost"]["idle"] if item["core_seconds"]]
    return {
        "made": len(stories),
        "moved": sum(len(story["moves"]) for story in stories),
        "released": {
            reason.name.lower(): ends.count(reason.name.lower()) for reason in HoldEnd if reason.name.lower() in ends
        },
        "no_candidate": missed,
        "held_s": round(sum(story["held_us"] for story in stories if story["ended"]) / SECOND_US, 3),
        "idle_core_s": round(sum(map(float, idle)), 3),
        "large_wait_s": {label: _wait_s(tally, large[label]) for label, tally in runs.items()},
        "small_wait_s": {label: _small_waits(tally, large[label]) for label, tally in runs.items()},
    }


def _wait_s(tally: Tally, name: str) -> float | None:
    waits = [run.wait_us for run in _runs(tally, name) if run.wait_us is not None]
    return waits[0] / SECOND_US if waits else None


def _small_waits(tally: Tally, large: str) -> dict[str, float]:
    apart = {run.operation_id for run in _runs(tally, large)}
    waits_us = sorted(
        run.wait_us for run in tally.runs.values() if run.wait_us is not None and run.operation_id not in apart
    )
    figures = {"p50": percentile(waits_us, 0.5), "p95": percentile(waits_us, 0.95), "max": percentile(waits_us, 1.0)}
    return {name: value / SECOND_US for name, value in figures.items()}


def _runs(tally: Tally, name: str) -> list[Run]:
    return [tally.runs[number] for number in tally.by_client.get(name, ())]
