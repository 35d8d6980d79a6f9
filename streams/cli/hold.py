"""`headway hold list`: which workers are held, for whom, since when and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from streams.cli.output import Column, duration, output_option, plural, show, watch_option
from streams.cli.reading import views_option
from streams.cli.tables import answer_age, counted
from streams.views import Answer, Views


@click.group("hold")
def command() -> None:
    """List the holds: workers that are kept draining for the head of the queue."""


@command.command("list")
@click.option("--instance", metavar="NAME", help="Only this instance [default: all].")
@views_option
@output_option
@watch_option
def list_holds(views: Views, instance: str | None, output: str, watch: float | None) -> None:
    """Show who is held for whom; each instance has one hold at most. `headway explain hold` says more of one."""
    columns = [
        Column("instance"),
        Column("id", "operation"),
        Column("client_operation_id", "client operation"),
        Column("endpoint", "worker"),
        Column("policy"),
        Column("held_us", "held for", "right", duration),
        Column("waited_us", "waited before", "right", duration),
        Column("overtaken_by", "overtaken by"),
        Column("moves", align="right"),
        Column("closest", "short of at the choice"),
    ]
    show(
        lambda: views.holds(instance=instance),
        output,
        lambda answer: [_listed(hold) for hold in answer["holds"]],
        columns,
        footer_of=_footer,
        watch=watch,
    )


def _listed(hold: Mapping[str, Any]) -> dict[str, Any]:
    chosen = next(iter(hold["candidates"]), None)
    others = max(0, len(hold["candidates"]) - 1) + hold["more_candidates"]
    return {
        **hold,
        "policy": policy_shown(hold["policy"]),
        "overtaken_by": "" if hold["overtaken_by"] is None else f"op-{hold['overtaken_by']}",
        "closest": "" if chosen is None else f"{chosen['shortfall_milli'] / 10:.1f} % ({counted_others(others)})",
    }


def policy_shown(policy: Mapping[str, Any] | None) -> str:
    """A hold's policy in a few words: `shortfall, after_s 300`."""
    if policy is None:
        return "none"
    said = [str(policy["kind"]), f"after_s {policy['after_s']}"]
    if policy.get("max_hold_s"):
        said.append(f"max_hold_s {policy['max_hold_s']}")
    if policy.get("spare_last"):
        said.append("spare_last")
    return ", ".join(said)


def expectation(choice: Mapping[str, Any], at_us: int) -> list[str]:
    """What the choice of a held worker at `at_us` followed from, where it looked at when runs end: when it was expected to have room, and
    how that is known. `choice` has `free_at_us` and `basis`, as a hold and the events of its story have.
    """
    bases, free_at_us = choice["basis"], choice["free_at_us"]
    if free_at_us is None:
        return ["how long its runs take was not known, so it was chosen for lacking least"] if bases else []
    after = _after(free_at_us - at_us)
    if not bases:
        return [f"expected to have room {after}, by what the producers of its runs said"]
    first = f"chosen because it was expected to have room first, {after}, as its runs end:"
    return [first, *(f"  {_basis(each, at_us)}" for each in bases)]


def _basis(basis: Mapping[str, Any], at_us: int) -> str:
    runs = basis["runs"]
    ends = f"{plural(runs, 'run')}{_of_kind(basis)} by {duration(max(0, basis['last_end_us'] - at_us))}"
    if basis["source"] == "producer":
        return f"{ends}, as {'its producer expects' if runs == 1 else 'their producers expect'}"
    return f"{ends}, as the last {basis['samples']} {'of every kind' if basis['source'] == 'every_run' else 'of its kind'} took"


def _of_kind(basis: Mapping[str, Any]) -> str:
    match basis["source"]:
        case "mnemonic":
            return f" of {basis['kind']}"
        case "target":
            return f" of target {basis['kind']}"
        case "requirement":
            return " of one size"
    return ""


def other_candidates(choice: Mapping[str, Any], at_us: int) -> str:
    """Who else could have been held at `at_us`, in a few words each; empty where nobody could."""
    names = ", ".join(f"{each['endpoint']} ({_standing(each, at_us)})" for each in choice["candidates"][1:])
    more = f"{choice['more_candidates']} more" if choice["more_candidates"] else ""
    return " and ".join(part for part in (names, more) if part)


def _standing(candidate: Mapping[str, Any], at_us: int) -> str:
    free_at_us = candidate["free_at_us"]
    room = "" if free_at_us is None else f", expected to have room {_after(free_at_us - at_us)}"
    return f"short of {candidate['shortfall_milli'] / 10:.1f} %{room}"


def _after(us: int) -> str:
    """How long after a choice; what runs beyond its producer's expectation was to have ended before."""
    return f"after {duration(us)}" if us >= 0 else f"{duration(-us)} before"


def counted_others(others: int) -> str:
    """How many more could have been held."""
    return plural(others, "other candidate") if others else "the only candidate"


def _footer(answer: Answer) -> str:
    return f"{counted(answer['holds'], 'hold')}; {answer_age(answer)}"
