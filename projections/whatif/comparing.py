"""A record beside the histories that other settings give, and what the model itself gets wrong."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from events import facts as f
from events.config import canonical_config
from projections.whatif.decisions import Divergence
from projections.whatif.durations import Courses, Source
from projections.whatif.figures import Figures, Grouping, asks, distance, figures_of, grouping_of, left_out_of, rank
from projections.whatif.meter import Meter
from projections.whatif.record import Record
from projections.whatif.setting import BadSetting, Setting, changed_if_valid
from projections.whatif.world import Told, World

RECORDED: Final = "recorded"
UNCHANGED: Final = "unchanged"
EXCHANGED: Final = "exchanged"
CHANGED: Final = "changed"
CHECKS: Final = 2
"""Histories under the unchanged policy that say what the model gets wrong."""
LEFT_OUT_TOLD: Final = 20
"""Of so many of the operations that are left out, who they are is told."""


@dataclass(frozen=True, slots=True)
class History:
    """One history under some settings, measured."""

    name: str
    settings: tuple[Setting, ...]
    meter: Meter
    facts: Told
    divergence: Divergence | None


@dataclass(frozen=True, slots=True)
class Compared:
    """The record, the two histories that check the model, and the changed ones."""

    record: Record
    recorded: Meter
    unchanged: History
    exchanged: History
    changed: tuple[History, ...]


def compare(
    record: Record,
    recorded: Meter,
    policies: Sequence[tuple[Setting, ...]],
    *,
    told: Callable[[int], None] = lambda count: None,
) -> Compared:
    """Play the record under its own policy, twice, and under each of `policies`.

    Under its own policy every answer of a worker is modelled: once as the record has it (*unchanged*), once with the times of runs
    exchanged among those of a kind (*exchanged*).

    Raises: see `World.play`.
    """
    courses = Courses(record)

    def history(name: str, settings: tuple[Setting, ...], like: Courses, regenerate: bool) -> History:
        world = World(record, recorded.instance, settings, courses=like, regenerate=regenerate, told=told)
        world.play()
        return History(name, settings, world.meter, world.facts, world.comparison.divergence)

    return Compared(
        record,
        recorded,
        history(UNCHANGED, (), courses, True),
        history(EXCHANGED, (), Courses(record, exchanged=True), True),
        tuple(history(CHANGED, settings, courses, False) for settings in policies),
    )


def answer_of(compared: Compared, *, longest: int, operation_id: int | None = None) -> dict[str, Any]:
    """All of it as JSON values. `error` is how far the checks are from the record, in the shape of the figures: `off` that of the unchanged
    history, `chance` that of the exchanged one, `most` the larger of both for each figure; `holds` is None where the policy that was in
    force held nothing. It stands beside every policy. `left_out`: how many operations are in no figure of waits, as no connected worker
    could run them at any time in any history, and who the first of them are.

    Args:
        longest: for how many of the longest waits of the record each history's wait is told.
        operation_id: the operation that is asked about.
    """
    record, recorded = compared.record, compared.recorded
    histories = (compared.unchanged, compared.exchanged, *compared.changed)
    left_out = left_out_of(recorded, [history.meter for history in histories])
    grouping = grouping_of(recorded, left_out)
    base = figures_of(recorded, grouping)
    checks = [figures_of(check.meter, grouping) for check in (compared.unchanged, compared.exchanged)]
    error: dict[str, Any] = {
        "off": distance(base, checks[:1]),
        "chance": distance(base, checks[1:]),
        "most": distance(base, checks),
    }
    if not any(figures["holds"]["made"] for figures in (base, *checks)):
        # Nothing was held under the policy that was in force: how well the model knows holds is not known, rather than perfect.
        for part in error.values():
            part["holds"] = None
    error["most_by_class"] = _by_class(base, checks)
    rows = [{"policy": RECORDED, "set": [], **base}]
    rows += [_row(history, grouping, error) for history in histories]
    counted = [row for row in recorded.waits.values() if row.operation_id not in left_out]
    told = sorted(counted, key=lambda row: (-recorded.waited_us(row), row.operation_id))
    return {
        "instance": recorded.instance,
        "window": {
            "from_seq": record.first_seq,
            "to_seq": record.last_seq,
            "from_at_us": record.first_at_us,
            "to_at_us": record.last_at_us,
            "facts": record.facts,
            "events": record.events,
            "facts_rebuilt": record.rebuilt,
            "facts_lost": record.lost,
            "outages": len(record.silences),
        },
        "error": error,
        "each": _each(recorded, compared.unchanged.meter),
        "policies": rows,
        "left_out": {
            "operations": len(left_out),
            "told": [_operation(compared, operation_id, left_out) for operation_id in sorted(left_out)[:LEFT_OUT_TOLD]],
        },
        "longest": [_operation(compared, row.operation_id, left_out) for row in told[:longest]],
        "operation": None if operation_id is None else _operation(compared, operation_id, left_out),
    }


def check_settings(record: Record, instance: str, policies: Sequence[tuple[Setting, ...]]) -> None:
    """Whether every policy can be put in force wherever the window configures the instance; cheap, so asked before the work.

    Raises:
        BadSetting: a path leads through something that has no options, or the instance has no configuration in the window.
        InvalidConfiguration: what comes out breaks a rule.
    """
    row = record.base.instances.get(instance)
    texts = [] if row is None else [canonical_config(row.scheduler)]
    texts += [
        given.fact.config_json
        for given in record.givens
        if type(given.fact) is f.Configured and given.fact.instance == instance
    ]
    if not texts:
        raise BadSetting(f"instance {instance!r} has no configuration in this window: there is nothing to set")
    for text in texts:
        for settings in policies:
            changed_if_valid(text, settings)


def _by_class(base: Figures, checks: Sequence[Figures]) -> list[int]:
    """By how much the checks miss the mean wait of each class at most, in microseconds."""
    return [
        max(abs(figures["mean_us"] - check["classes"][at]["mean_us"]) for check in checks)
        for at, figures in enumerate(base["classes"])
    ]


def _row(history: History, grouping: Grouping, error: Figures) -> dict[str, Any]:
    facts, divergence = history.facts, history.divergence
    of_runs = facts.real + facts.modelled
    taken = facts.given + of_runs
    return {
        "policy": history.name,
        "set": [str(setting) for setting in history.settings],
        **figures_of(history.meter, grouping),
        "first_divergence": None
        if divergence is None
        else {
            "seq": divergence.seq,
            "at_us": divergence.at_us,
            "recorded": None if divergence.recorded is None else divergence.recorded.as_json(),
            "instead": None if divergence.instead is None else divergence.instead.as_json(),
        },
        "facts": {
            "given": facts.given,
            "real": facts.real,
            "modelled": facts.modelled,
            "share_real": round((facts.given + facts.real) / taken, 6) if taken else 1.0,
            "share_of_runs_real": round(facts.real / of_runs, 6) if of_runs else 1.0,
            "same_runs": facts.same_runs,
            "modelled_runs": {source.value: facts.runs[source] for source in Source if facts.runs[source]},
        },
        "error": error,
    }


def _each(recorded: Meter, unchanged: Meter) -> dict[str, int]:
    """How far the modelled wait of each operation is from its recorded one."""
    off = []
    for operation_id, row in recorded.waits.items():
        was, modelled = recorded.waited_us(row), unchanged.wait_us(operation_id)
        if modelled is not None:
            off.append(abs(was - modelled))
    off.sort()
    return {
        "operations": len(off),
        "exact": sum(1 for each in off if not each),
        "mean_us": round(sum(off) / len(off)) if off else 0,
        "p95_us": rank(off, 95),
        "max_us": off[-1] if off else 0,
    }


def _operation(compared: Compared, operation_id: int, left_out: Collection[int]) -> dict[str, Any]:
    """One operation's wait in every history; None where it was not queued there (it joined another). `..._open`: it waits at the window's
    end, and its wait is the least it can be. `could_run`: whether some connected worker could have run it in any of them.
    """
    row = compared.recorded.waits[operation_id]
    instance = compared.recorded.instance
    return {
        "operation_id": operation_id,
        "id": f"{instance}/op-{operation_id}",
        "client_operation_id": row.client_operation_id,
        "asks": asks(row.asked),
        "recorded_us": compared.recorded.waited_us(row),
        "unchanged_us": compared.unchanged.meter.wait_us(operation_id),
        "exchanged_us": compared.exchanged.meter.wait_us(operation_id),
        "changed_us": [history.meter.wait_us(operation_id) for history in compared.changed],
        "recorded_open": row.since_us is not None,
        "unchanged_open": compared.unchanged.meter.waits_still(operation_id),
        "exchanged_open": compared.exchanged.meter.waits_still(operation_id),
        "changed_open": [history.meter.waits_still(operation_id) for history in compared.changed],
        "could_run": operation_id not in left_out,
    }
