"""What a measured history comes to, as figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from events.config import SECOND_US
from events.payloads import requirements_of
from projections.whatif.meter import Meter, Waited

MILLIS_PER_CORE: Final = 1_000
CLASSES_TOLD: Final = 50

LARGE: Final = 2
"""Large is what asks for at least so many times the CPU of the median operation."""

Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Grouping:
    """Which operations are compared apart from the others, drawn from the record once and for every history the same.

    `large_from_millis` None: all ask for about the same, none is large. `classes` are canonical requirements, the largest first. `left_out`
    are operations whose waits count nowhere: no policy had a worker for them, so their waits say nothing of policies.
    """

    large_from_millis: int | None
    classes: tuple[bytes, ...]
    left_out: Collection[int] = ()


def left_out_of(recorded: Meter, others: Sequence[Meter]) -> set[int]:
    """The operations that no connected worker could run at any time while they waited, in the record and in every other history."""
    never = {operation_id for operation_id, row in recorded.waits.items() if row.could_run is False}
    for other in others:
        never -= {
            operation_id
            for operation_id in never
            if operation_id in other.waits and other.waits[operation_id].could_run
        }
    return never


def grouping_of(recorded: Meter, left_out: Collection[int] = ()) -> Grouping:
    """The grouping that suits what was recorded, without what is left out."""
    rows = [row for row in recorded.waits.values() if row.operation_id not in left_out]
    demands = sorted(row.cpu_millis for row in rows)
    threshold = LARGE * max(demands[(len(demands) - 1) // 2], 1) if demands else 0
    largest = demands[-1] if demands else 0
    counted: Counter[bytes] = Counter(row.asked for row in rows)
    kept = [asked for asked, _ in sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:CLASSES_TOLD]]
    cpu = {row.asked: row.cpu_millis for row in rows}
    kept.sort(key=lambda asked: (-cpu[asked], asked))
    return Grouping(threshold if demands and largest >= threshold else None, tuple(kept), left_out)


def figures_of(meter: Meter, grouping: Grouping) -> Figures:
    """The figures of one history.

    * `waits`, `large`, `classes[]`: how many `operations`, and of how long they stood in the queue `mean_us`, `p50_us`, `p95_us` (nearest
      rank), `max_us`. What was cancelled as it waited counts until then, and what waits at the end (`unplaced`) until the end. `large` is
      None without any. What the grouping leaves out is in none of them; the `unplaced` beside them counts it.
    * `utilisation`: charged by offered core-time; None where no worker offered any.
    * `holds`: `made`, `moved`, `no_candidate`, `ended` by reason, `held_us`, and `held_idle_core_s`, the integral of what held workers
      kept free.
    """
    rows = meter.waits.values()
    waited = [(row, meter.waited_us(row)) for row in rows if row.operation_id not in grouping.left_out]
    by_class: dict[bytes, list[tuple[Waited, int]]] = {asked: [] for asked in grouping.classes}
    for pair in waited:
        if pair[0].asked in by_class:
            by_class[pair[0].asked].append(pair)
    large = grouping.large_from_millis
    return {
        "waits": _waits(waited),
        "large": None
        if large is None
        else {"from_cpu_millis": large, **_waits([pair for pair in waited if pair[0].cpu_millis >= large])},
        "classes": [{"asks": asks(asked), **_waits(pairs)} for asked, pairs in by_class.items()],
        "unplaced": len(meter.unplaced()),
        "utilisation": round(meter.busy_millis_us / meter.offered_millis_us, 6) if meter.offered_millis_us else None,
        "holds": {
            "made": meter.holds_made,
            "moved": meter.holds_moved,
            "no_candidate": meter.no_candidate,
            "ended": {reason.name.lower(): count for reason, count in sorted(meter.hold_ends.items())},
            "held_us": meter.held_us,
            "held_idle_core_s": round(meter.held_idle_millis_us / MILLIS_PER_CORE / SECOND_US, 3),
        },
    }


def asks(requirements: bytes) -> str:
    """Canonical requirements for people; empty: nothing is asked for."""
    return ", ".join(f"{name}={value}" for name, value in requirements_of(requirements))


def _waits(waited: Sequence[tuple[Waited, int]]) -> Figures:
    ordered = sorted(wait_us for _, wait_us in waited)
    return {
        "operations": len(ordered),
        "mean_us": round(sum(ordered) / len(ordered)) if ordered else 0,
        "p50_us": rank(ordered, 50),
        "p95_us": rank(ordered, 95),
        "max_us": ordered[-1] if ordered else 0,
        "unplaced": sum(row.since_us is not None for row, _ in waited),
    }


def rank(ordered: Sequence[int], percent: int) -> int:
    """The nearest rank of sorted values; 0 of none."""
    return ordered[max(0, math.ceil(percent * len(ordered) / 100) - 1)] if ordered else 0


def distance(figures: Figures, others: Sequence[Figures]) -> Figures:
    """How far the others are from these figures at most, number by number, in the same shape; what is no number is left out."""
    found: Figures = {}
    for name, value in figures.items():
        beside = [other.get(name) for other in others if isinstance(other, Mapping)]
        if isinstance(value, Mapping):
            found[name] = distance(dict(value), [each for each in beside if isinstance(each, dict)])
        elif isinstance(value, int | float):
            numbers = [each for each in beside if isinstance(each, int | float)]
            found[name] = round(max((abs(value - each) for each in numbers), default=0), 6)
    found.pop("from_cpu_millis", None)
    return found
