"""What `headway what-if` says to people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from projections.whatif.comparing import CHANGED, EXCHANGED, UNCHANGED
from streams.cli.output import Column, duration, emit, printable
from streams.moments import time_of

CLASSES_SHOWN: Final = 8
LEFT_OUT_NAMED: Final = 3
INSTANCES_NAMED: Final = 8
POLICIES_BESIDE: Final = 4
"""Up to so many changed policies the waits of single operations and classes stand side by side."""

SOURCES: Final = {
    "attempt": "as this attempt went in the record",
    "operation": "as another attempt of the operation",
    "expected": "as long as its producer expects",
    "kind": "the median of their kind",
    "any": "the median of all runs",
    "unknown": "without an end: nothing ever ended",
}

Answer = Mapping[str, Any]


def print_answer(answer: Answer) -> None:
    """Everything in order: the operation that was asked about, the policies, and what to think of them."""
    for line in _operation_lines(answer):
        click.echo(printable(line))
    window = answer["window"]
    click.echo(
        f"{answer['instance']}, {time_of(window['from_at_us'])} to {time_of(window['to_at_us'])} (seq {window['from_seq']} to "
        f"{window['to_seq']}): {answer['policies'][0]['waits']['operations']} operations in the queue"
    )
    emit([_row(answer, policy) for policy in answer["policies"]], "table", _columns(answer))
    for line in (*_left_out_lines(answer), *_instance_lines(answer)):
        click.echo(printable(line))
    _print_beside(answer)
    for line in (*_policy_lines(answer), *_error_lines(answer), *_window_lines(window)):
        click.echo(printable(line))


def label(policy: Answer) -> str:
    """How a policy is called."""
    if policy["policy"] == UNCHANGED:
        return "unchanged, modelled"
    if policy["policy"] == EXCHANGED:
        return "unchanged, runs exchanged"
    return ", ".join(policy["set"]) or str(policy["policy"])


def changed(answer: Answer) -> list[Answer]:
    """The policies that were asked for."""
    return [policy for policy in answer["policies"] if policy["policy"] == CHANGED]


def _columns(answer: Answer) -> list[Column]:
    names = ["mean", "p95", "longest", "large mean", "large longest", "used", "holds", "held idle", "unplaced"]
    names += ["large unplaced", "real"]
    if not any(policy["large"] and policy["large"]["unplaced"] for policy in answer["policies"]):
        names.remove("large unplaced")
    if answer["policies"][0]["large"] is None:
        names = [name for name in names if not name.startswith("large")]
    if all(policy["holds"]["made"] == 0 for policy in answer["policies"]):
        names = [name for name in names if name not in ("holds", "held idle")]
    return [Column("policy"), *(Column(name, align="right") for name in names)]


def _row(answer: Answer, policy: Answer) -> dict[str, str]:
    """A line of the table; changed policies have the model's error beside each figure."""
    off = answer["error"]["most"] if policy["policy"] == CHANGED else None
    waits, large, holds = policy["waits"], policy["large"], policy["holds"]
    off_holds = off and off["holds"]
    row = {
        "policy": label(policy),
        "mean": _time(waits["mean_us"], off and off["waits"]["mean_us"]),
        "p95": _time(waits["p95_us"], off and off["waits"]["p95_us"]),
        "longest": _time(waits["max_us"], off and off["waits"]["max_us"]),
        "used": _share(policy["utilisation"], off and off.get("utilisation")),
        "holds": _number(holds["made"], off_holds and off_holds["made"]),
        "held idle": _number(round(holds["held_idle_core_s"]), off_holds and round(off_holds["held_idle_core_s"]))
        + " core-s",
        "unplaced": _number(policy["unplaced"], off and off["unplaced"]),
        "real": "" if policy["policy"] != CHANGED else f"{policy['facts']['share_of_runs_real']:.0%}",
    }
    if large is not None:
        row["large mean"] = _time(large["mean_us"], off and off["large"]["mean_us"])
        row["large longest"] = _time(large["max_us"], off and off["large"]["max_us"])
        row["large unplaced"] = _number(large["unplaced"], off and off["large"]["unplaced"])
    return row


def _time(value_us: int, off_us: int | None) -> str:
    return duration(value_us) + ("" if off_us is None else f" ±{duration(off_us)}")


def _share(value: float | None, off: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.1%}" + ("" if off is None else f" ±{off:.1%}")


def _number(value: int, off: int | None) -> str:
    return f"{value:,}" + ("" if off is None else f" ±{off:,}")


def _print_beside(answer: Answer) -> None:
    """Waits by what operations ask for, and the longest ones, policy beside policy."""
    policies = changed(answer)
    if len(policies) > POLICIES_BESIDE:
        return
    names = [label(policy) for policy in policies]
    classes = answer["policies"][0]["classes"][:CLASSES_SHOWN]
    if len(classes) > 1:
        rows = []
        for at, recorded in enumerate(classes):
            row = {
                "mean wait by what is asked for": recorded["asks"] or "nothing",
                "operations": recorded["operations"],
            }
            row["recorded"] = duration(recorded["mean_us"])
            for name, policy in zip(names, policies, strict=True):
                off = answer["error"]["most_by_class"][at]
                row[name] = _time(policy["classes"][at]["mean_us"], off)
            rows.append(row)
        click.echo()
        emit(rows, "table", [Column(name, name) for name in rows[0]])
    if answer["longest"]:
        rows = []
        for each in answer["longest"]:
            row = {"longest waits": f"{each['id']} {each['client_operation_id']}", "asks": each["asks"]}
            row["recorded"] = _least(each["recorded_us"], each["recorded_open"])
            for name, wait_us, still in zip(names, each["changed_us"], each["changed_open"], strict=True):
                row[name] = "not queued" if wait_us is None else _least(wait_us, still)
            rows.append(row)
        click.echo()
        emit(rows, "table", [Column(name, name) for name in rows[0]])
        if any(each["recorded_open"] or any(each["changed_open"]) for each in answer["longest"]):
            click.echo(">=: still waiting at the end of the window")
    click.echo()


def _least(wait_us: int, still: bool) -> str:
    """A wait in a table; of what still waits, the least it can be."""
    return f">={duration(wait_us)}" if still else duration(wait_us)


def _waited(wait_us: int, still: bool) -> str:
    """A wait in a sentence."""
    return f"at least {duration(wait_us)}, still waiting at the end of the window" if still else duration(wait_us)


def _left_out_lines(answer: Answer) -> Iterator[str]:
    """Which operations are in no figure of waits, and why."""
    count, told = answer["left_out"]["operations"], answer["left_out"]["told"][:LEFT_OUT_NAMED]
    if not count:
        return
    names = ", ".join(f"{each['id']} ({each['asks'] or 'asks for nothing'})" for each in told)
    more = f" and {count - len(told):,} more" if count > len(told) else ""
    yield (
        f"left out of the waits: {count:,} operation{'' if count == 1 else 's'} that no connected worker could ever run while "
        f"{'it' if count == 1 else 'they'} waited, here or there: {names}{more}"
    )


def _operation_lines(answer: Answer) -> Iterator[str]:
    asked = answer["operation"]
    if asked is None:
        return
    recorded = _waited(asked["recorded_us"], asked["recorded_open"])
    yield f"{asked['id']} ({asked['client_operation_id']}: {asked['asks'] or 'asks for nothing'}) waited {recorded}"
    if not asked["could_run"]:
        yield "  no connected worker could ever run it while it waited, under any of these policies"
    for policy, wait_us, still in zip(changed(answer), asked["changed_us"], asked["changed_open"], strict=True):
        if wait_us is None:
            yield f"  with {label(policy)} it would not have been queued: an identical action was live, and it would have joined that"
            continue
        if still or asked["recorded_open"]:  # how much less or more is not known
            yield f"  with {label(policy)}: {_waited(wait_us, still)}"
            continue
        less_us = asked["recorded_us"] - wait_us
        beside = f"{duration(abs(less_us))} {'less' if less_us > 0 else 'more'}" if less_us else "as long"
        yield f"  with {label(policy)}: {duration(wait_us)}, {beside}"
    exact, exchanged = (
        "not queued" if asked[f"{name}_us"] is None else _waited(asked[f"{name}_us"], asked[f"{name}_open"])
        for name in ("unchanged", "exchanged")
    )
    yield f"  the model of what was in force gives {exact}; with the lengths of runs exchanged {exchanged}"
    yield ""


def _policy_lines(answer: Answer) -> Iterator[str]:
    policies = changed(answer)
    for policy in policies:
        name, divergence, facts = label(policy), policy["first_divergence"], policy["facts"]
        if divergence is None:
            yield f"{name}: nothing is decided otherwise"
            continue
        yield f"{name}: first decides otherwise at seq {divergence['seq']}, {time_of(divergence['at_us'])}: {_difference(divergence)}"
        if len(policies) > POLICIES_BESIDE:
            continue
        modelled = ", ".join(f"{count:,} {SOURCES[source]}" for source, count in facts["modelled_runs"].items())
        yield (
            f"  {facts['share_of_runs_real']:.0%} of what workers say of runs is as recorded ({facts['share_real']:.0%} of all facts); "
            f"runs that are not: {modelled or 'none'}"
        )
        ended = ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in policy["holds"]["ended"].items())
        if ended:
            yield f"  holds ended: {ended}; moved {policy['holds']['moved']} times"


def _difference(divergence: Answer) -> str:
    recorded, instead, at_us = divergence["recorded"], divergence["instead"], divergence["at_us"]
    there = "nothing" if recorded is None or recorded["at_us"] > at_us else _decided(recorded)
    here = "nothing" if instead is None or instead["at_us"] > at_us else _decided(instead)
    return f"the record has {there}, this has {here}"


def _decided(decision: Answer) -> str:
    said = " ".join(
        f"op-{value}" if name == "operation_id" else str(value)
        for name, value in decision.items()
        if name not in ("kind", "at_us", "seq")
    )
    return f"{decision['kind']} {said}"


def _error_lines(answer: Answer) -> Iterator[str]:
    off, chance, each = answer["error"]["off"], answer["error"]["chance"], answer["each"]
    rest = "" if each["exact"] == each["operations"] else f", the rest within {duration(each['max_us'])}"
    yield (
        f"model: of {each['operations']:,} recorded waits it gives {each['exact']:,} exactly under the policy that was in force{rest}; "
        f"{duration(each['mean_us'])} off in the mean"
    )
    yield (
        f"  mean wait off by {duration(off['waits']['mean_us'])}, longest by {duration(off['waits']['max_us'])}; with the lengths of runs "
        f"exchanged by {duration(chance['waits']['mean_us'])} and {duration(chance['waits']['max_us'])}. ± is the larger of both"
    )


def _instance_lines(answer: Answer) -> Iterator[str]:
    """Whom else one could ask about."""
    others = answer["other_instances"]
    if others:
        named = ", ".join(f"--instance {name}" for name in others[:INSTANCES_NAMED])
        more = f" and {len(others) - INSTANCES_NAMED:,} more" if len(others) > INSTANCES_NAMED else ""
        yield f"of {answer['instance']} alone; the log also has: {named}{more}"


def _window_lines(window: Answer) -> Iterator[str]:
    if window["facts_rebuilt"]:
        yield (
            f"  {window['facts_rebuilt']:,} of {window['facts']:,} facts are gone from the log and were made again from their events; "
            f"{window['facts_lost']:,} of them only as time that passed (they were ignored or refused)"
        )
    if window["outages"]:
        yield f"  {window['outages']} outage(s) of the log in this window: nobody says anything in them, here as there"
