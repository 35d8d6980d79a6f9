"""What is asked for and where it is missing: amounts and properties, over the whole fleet, as JSON values.

Nothing here grows with the fleet: workers are counted, and of values only the commonest few are named.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from events.reasons import WorkerStanding
from projections.explaining.standings import NEVER, Assessed, Standings, largest

COMMONEST = 3
"""Values of a property that are named; the rest is a count."""


def amounts(standings: Standings) -> list[dict[str, Any]]:
    """Per minimum: what is asked for, the most that a worker has free, the most that one registered.

    `most_free` and `endpoint` look at workers that could run the operation if idle, and at those that take work first; null where
    there is none. `workers_short` counts those that lack room for this minimum.
    """
    capable = [each for each in standings.assessed if each.capable]
    open_ones = [
        each for each in capable if each.standing not in (WorkerStanding.DRAINING, WorkerStanding.PAUSED)
    ] or capable
    found = []
    for name, asked in standings.asked.items():
        best = max(open_ones, key=lambda each: each.remaining[name], default=None)
        found.append(
            {
                "name": name,
                "asked": asked,
                "most_free": best and best.remaining[name],
                "endpoint": best and best.worker.endpoint,
                "largest": largest(standings.assessed, name),
                "workers_short": sum(each.remaining[name] < asked for each in capable),
                "workers_too_small": sum(each.totals.get(name, -1) < asked for each in standings.assessed),
                "reported_free": _reported(standings, open_ones, name),
            }
        )
    return found


def _reported(standings: Standings, workers: Sequence[Assessed], name: str) -> int | None:
    """The most free memory that a worker reports, where the live memory veto looks at it; None: it does not, or none has reported."""
    if standings.config.live_memory_veto != name:
        return None
    said = (each.worker.free_memory_kib for each in workers if each.worker.HasField("free_memory_kib"))
    return max(said, default=None)


def properties(standings: Standings) -> list[dict[str, Any]]:
    """Per property that is asked for: how many workers have it, and what those declare instead that it keeps away (null: nothing).

    `workers_undeclared` counts those that it does not keep away although they declare nothing of it: of a property that the
    configuration does not name, only what is declared is compared.
    """
    need = standings.demand.need
    asked: list[tuple[str, str | None, str]] = [(name, value, "exact") for name, value in need.exact]
    asked += [(name, None, "priority") for name in need.present]
    asked += [(name, value, "unknown") for name, value in need.unknown]
    declared = [{item.name: item.value for item in each.worker.properties} for each in standings.assessed]
    found = []
    for name, value, kind in sorted(asked, key=lambda item: item[0]):
        having = undeclared = 0
        others: Counter[str | None] = Counter()
        for properties_of in declared:
            has = properties_of.get(name)
            if not _satisfies(has, value, kind):
                others[has] += 1
            elif has is None:
                undeclared += 1
            else:
                having += 1
        named = sorted(others.items(), key=lambda item: (-item[1], item[0] or ""))[:COMMONEST]
        found.append(
            {
                "name": name,
                "asked": value,
                "kind": kind,
                "workers_with": having,
                "workers_undeclared": undeclared,
                "others": [{"value": other, "workers": count} for other, count in named],
                "more_others": sum(others.values()) - sum(count for _, count in named),
            }
        )
    return found


def _satisfies(has: str | None, value: str | None, kind: str) -> bool:
    match kind:
        case "exact":
            return has == value
        case "priority":
            return has is not None
        case _:
            return has is None or has == value


def impossible_together(standings: Standings) -> bool:
    """Whether some worker satisfies each thing asked for, and only no worker satisfies all of them."""
    if not standings.assessed or any(each.standing not in NEVER for each in standings.assessed):
        return False
    return all(item["workers_with"] or item["workers_undeclared"] for item in properties(standings)) and all(
        item["workers_too_small"] < len(standings.assessed) for item in amounts(standings)
    )
