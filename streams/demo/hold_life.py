"""The life of each hold, from the events alone: for whom and why it was made, where it moved, how it ended, and what it cost.

The cost is what the held worker kept idle for the action: in each moment the least of what it had free and what the action asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from events.events import Event, HoldMade, HoldMoved, HoldNoCandidate, HoldReleased
from events.reasons import HoldEnd, sentence
from streams.cli.output import duration, percentile
from streams.demo.tally import SECOND_US, Run, Tally
from streams.demo.why import Room, name_of

CPU = "cpu_millis"


@dataclass(slots=True)
class HoldLife:
    """One hold from its making to its end."""

    made: HoldMade
    moves: list[HoldMoved] = field(default_factory=list)
    released: HoldReleased | None = None
    idle_core_us: int = 0  # cores kept idle, times how long

    @property
    def endpoint(self) -> str:
        """The worker that is held now, or was last."""
        return self.moves[-1].to_endpoint if self.moves else self.made.endpoint


def lives_of(events: Sequence[Event], tally: Tally) -> tuple[list[HoldLife], list[HoldNoCandidate]]:
    """The holds of one instance's events, in order, and the times that nobody could be held.

    A hold that was placed ends with its action's dispatch, so nothing is idle on its account after it.
    """
    room = Room(tally)
    lives: list[HoldLife] = []
    missed: list[HoldNoCandidate] = []
    before_us = 0
    for event in events:
        life = lives[-1] if lives and lives[-1].released is None else None
        site = None if life is None else room.sites.get(life.endpoint)
        if life is not None and site is not None and event.at_us > before_us:
            asked = room.asks(life.made.operation_id).get(CPU, 0)
            idle_millis = max(0, min(asked, room.free(site).get(CPU, 0)))
            life.idle_core_us += idle_millis * (event.at_us - before_us) // 1_000
        before_us = max(before_us, event.at_us)
        room.add(event)
        match event:
            case HoldMade():
                lives.append(HoldLife(event))
            case HoldMoved() if life is not None:
                life.moves.append(event)
            case HoldReleased() if life is not None:
                life.released = event
            case HoldNoCandidate():
                missed.append(event)
    return lives, missed


def life_in_words(life: HoldLife, tally: Tally, begun_us: int) -> list[str]:
    """Made, why, moved or placed, what it cost: a line each."""
    made = life.made
    overtaken = f" and {name_of(tally, made.overtaken_by)} was placed past it" if made.overtaken_by is not None else ""
    closest = made.candidates[0]
    others = len(made.candidates) - 1 + made.more_candidates
    lines = [
        f"made {_at(made.at_us, begun_us)}: {made.endpoint} for {name_of(tally, made.operation_id)}, which had waited "
        f"{duration(made.waited_us)}{overtaken};",
        f"  it lacked {closest.shortfall_milli / 10:.1f} % of the worker and ran {closest.running}; {others} other candidate"
        f"{'' if others == 1 else 's'}",
    ]
    lines += [
        f"moved {_at(move.at_us, begun_us)} from {move.from_endpoint} to {move.to_endpoint}: {sentence(move.cause)}"
        for move in life.moves
    ]
    if life.released is not None:
        ended = life.released
        lines.append(
            f"{ended.reason.name.lower()} {_at(ended.at_us, begun_us)}, after {duration(ended.held_us)}: {sentence(ended.reason)}"
        )
    else:
        lines.append("it still stands")
    lines.append(f"cost: {life.idle_core_us / SECOND_US:.2f} core-seconds kept idle")
    return lines


def summary_of_hold(
    runs: dict[str, Tally], large: dict[str, str], lives: Sequence[HoldLife], missed: int
) -> dict[str, Any]:
    """Both runs in numbers, by `without` and `with`; `large` are the client operation ids of the large actions."""
    return {
        "made": len(lives),
        "moved": sum(len(life.moves) for life in lives),
        "released": {
            reason.name.lower(): count
            for reason in HoldEnd
            if (count := sum(life.released is not None and life.released.reason == reason for life in lives))
        },
        "no_candidate": missed,
        "held_s": round(sum(life.released.held_us for life in lives if life.released) / SECOND_US, 3),
        "idle_core_s": round(sum(life.idle_core_us for life in lives) / SECOND_US, 3),
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


def _at(instant_us: int, begun_us: int) -> str:
    return f"at {max(0, instant_us - begun_us) / SECOND_US:.1f} s"
