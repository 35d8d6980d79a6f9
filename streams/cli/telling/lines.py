"""What the stories share: links, instants, operations by name, causes, and how an operation stood at a moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from streams.cli.hold import policy_shown
from streams.cli.output import duration, plural
from streams.cli.tables import pairs_shown

Facts = Mapping[str, Any]

STANDINGS: Final[Mapping[str, str]] = {
    "other_properties": "without the properties it asks for",
    "too_small": "too small for it even when idle",
    "draining": "draining",
    "paused": "paused",
    "full": "running as many as they take at once",
    "unaccepted": "that had not accepted what they were given",
    "short": "without enough room",
    "declined": "that had declined as much while idle",
    "vetoed": "reporting too little free memory",
    "held": "held for another operation",
    "room": "with room",
}
"""How many workers stood how, after the number."""


def linked(facts: Facts) -> str:
    """Where the event stands."""
    return f"[seq {facts['seq']}, offset {facts['offset']}]"


def named(brief: Facts | None, *, asks: bool = True) -> str:
    """An operation: its id, its client's name for it, and what it asks for."""
    if brief is None:
        return "an operation"
    if "id" not in brief:
        return f"op-{brief['operation_id']} (no longer known)"
    asked = f", asks {pairs_shown(brief['requirements']) or 'nothing in particular'}" if asks else ""
    return f"{brief['id']} ({brief['client_operation_id']}{asked})"


def cause(found: Facts | None) -> str:
    """What was behind something, with its link; empty for none."""
    if found is None:
        return ""
    behind = f", as {cause(found['because'])}" if found.get("because") is not None else ""
    return f"{_cause(found)} {linked(found)}{behind}"


def _cause(found: Facts) -> str:
    endpoint, reason = found.get("endpoint"), found.get("reason") or {}
    said = _uncapped(reason.get("sentence"))
    match found["event"]:
        case "OperationFinished":
            where = f" on {endpoint}" if endpoint else ""
            return f"{named(found['operation'], asks=False)} ended{where}, {reason['reason']}"
        case "OperationRequeued":
            needed = f" (needs {found['needed_kib']} KiB)" if found["needed_kib"] else ""
            return f"{named(found['operation'], asks=False)} came back from {endpoint}{needed}: {said}"
        case "OperationDispatched":
            return f"{named(found['operation'], asks=False)} was placed on {endpoint}"
        case "OperationQueued":
            return f"{named(found['operation'], asks=False)} was queued"
        case "OperationReprioritised":
            return f"{named(found['operation'], asks=False)} was given another priority"
        case "DispatchSettled":
            return f"{endpoint} said how its stopped run ended, {reason['reason']}"
        case "WorkerAdmitted":
            before = found["boot_epoch_before"]
            again = "connected again" if found["reconnected"] else "connected"
            if before not in (None, found["boot_epoch"]):
                return f"{endpoint} {again} as another process (boot epoch {found['boot_epoch']}, before {before}){_having(found)}"
            return f"{endpoint} {again} (boot epoch {found['boot_epoch']}){_having(found)}"
        case "WorkerDisconnected":
            silent = f", after {duration(found['silent_us'])} of silence" if found["silent_us"] else ""
            return f"{endpoint} was lost{silent}: {said}"
        case "WorkerReported":
            free = f" with {found['free_memory_kib']} KiB free" if found["free_memory_kib"] is not None else ""
            return f"{endpoint} reported{free}"
        case "WorkerIdleCapped":
            return f"{endpoint} ran nothing and had no more than {found['idle_free_kib']} KiB free"
        case "WorkerDrained":
            return f"{endpoint} was drained"
        case "WorkerUndrained":
            return f"{endpoint} was let work again"
        case "ClientLeft":
            silent = f", after {duration(found['silent_us'])} of silence" if found["silent_us"] else ""
            return f"client {found['client_operation_id']} left{silent}: {said}"
        case "HoldMade":
            return f"{found['hold']} holds {endpoint} for {named(found['operation'])}"
        case "HoldReleased":
            return f"the hold on {endpoint} ended, {reason['reason']}"
        case "DemandUnsatisfiable":
            if found["no_workers"]:
                return "no worker was connected any more"
            lacking = f": none has {', '.join(found['properties'])} together" if found["properties"] else ""
            return f"no connected worker could ever run it{lacking}"
        case "LogSilent":
            return f"the log was silent for {duration(found['gap_us'])}"
        case "Configured":
            return f"another configuration came into force, with hold policy {policy_shown(found['hold_policy'])}"
        case "InstanceResumed":
            return "the instance was resumed"
        case "Ticked":
            return "time had passed"
        case other:
            return str(other)


def _having(found: Facts) -> str:
    shown = pairs_shown(found["properties"])
    return f" with {shown}" if shown else ""


def standing_then(why: Facts | None) -> list[str]:
    """How the operation stood at a moment: its place, the workers by what kept them from it, and the nearest of them."""
    if why is None:
        return []
    waits = why["waits"]
    place = f"number {waits['place']} in the queue" if waits["place"] is not None else f"behind {waits['ahead']} others"
    ahead = f", first {named(waits['first_ahead'][0])}" if waits["first_ahead"] else ""
    lines = [f"{place}{ahead}"]
    reasons = [reason["sentence"] for reason in why["reasons"] if reason["reason"] in ("instance_paused", "no_worker")]
    lines += reasons
    if waits["standings"]:
        counts = ", ".join(f"{each['workers']} {STANDINGS[each['standing']]}" for each in waits["standings"])
        lines.append(f"of {plural(waits['workers'], 'connected worker')}: {counts}")
    lines += [nearest(each) for each in waits["closest"][:2] if each["short"]]
    if waits["workers"] and not any(each["short"] for each in waits["closest"]):
        lines += [
            f"it asks {item['name']} {item['asked']}; the largest worker has {item['largest'] if item['largest'] is not None else 'none'}"
            for item in waits["amounts"]
            if item["largest"] is None or item["largest"] < item["asked"]
        ]
        lines += [
            f"it asks {item['name']}={item['asked'] if item['asked'] is not None else '(any)'}; "
            f"{item['workers_with']} of {waits['workers']} workers have it"
            for item in waits["properties"]
            if item["others"] and not item["workers_with"] and not item["workers_undeclared"]
        ]
    absence = waits["hold_absence"]
    never = absence.get("head_never") if absence is not None else None
    if never is not None and not never["no_workers"]:
        lines.append(
            f"no connected worker could ever run {named(absence['head'], asks=False)}: while it is first, nothing is held for anybody"
        )
    return lines


def nearest(each: Facts) -> str:
    """What a worker that could run it lacked."""
    lacked = " and ".join(
        f"{item['lacks']} {item['name']} ({item['free']} of {item['total']} free, {item['asked']} asked)"
        for item in each["short"]
    )
    return f"{each['endpoint']} lacked {lacked}; it ran {each['running']}"


def excluded(counts: Sequence[Facts]) -> str:
    """How many workers could not be held, and why."""
    return "; ".join(f"{count['workers']} {count['exclusion']}: {count['reason']}" for count in counts)


def _uncapped(sentence: str | None) -> str:
    return sentence.rstrip(".") if sentence else ""
