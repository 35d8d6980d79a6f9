"""The story of a worker in words: how it stands, how its time went, what it ran, what happened to it, and why it got nothing."""

from __future__ import annotations

from collections.abc import Iterator

from streams.cli.output import duration, plural
from streams.cli.tables import pairs_shown
from streams.cli.telling.lines import Facts, cause, linked, named
from streams.moments import time_of

STATES = {
    "away": "not connected",
    "draining": "draining",
    "paused": "paused",
    "held": "held",
    "working": "working",
    "idle": "idle",
}
WAITED = {
    "other_properties": "asked for properties that it does not have",
    "too_small": "asked for more than it has",
    "short": "asked for more than it had left",
    "declined": "asked for as much as it had declined while idle",
    "vetoed": "asked for more memory than it reported free",
    "held": "would have had to wait for the operation that it was held for",
    "room": "would have fitted",
}


def worker_told(story: Facts) -> list[str]:
    """The whole story."""
    lines = [_heading(story), *_states(story), *_ran(story["ran"])]
    for chapter in story["chapters"]:
        first, *rest = _chapter(chapter, story)
        lines.append(f"+{duration(chapter['after_us'])}  {first} {linked(chapter)}")
        lines += [f"    {line}" for line in rest]
    return [*lines, *_idle(story)]


def _heading(story: Facts) -> str:
    processes = f"{story['boot_epochs']} process{'' if story['boot_epochs'] == 1 else 'es'}"
    return (
        f"{story['endpoint']} of instance {story['instance']}: {STATES[story['state']]}; told of {duration(story['span_us'])} "
        f"from {time_of(story['from_us'])}, {plural(story['connections'], 'connection')}, {processes}; "
        f"has {pairs_shown(story['properties']) or 'no properties'}"
    )


def _states(story: Facts) -> Iterator[str]:
    for state in story["states"]:
        used = ", ".join(f"{item['name']} {_percent(item['percent_hundredths'])}" for item in state["used"])
        yield f"  {duration(state['for_us'])} {STATES[state['state']]}{f' ({used} in use)' if used else ''}"


def _percent(hundredths: int) -> str:
    return f"{hundredths // 100} %"


def _ran(ran: Facts) -> Iterator[str]:
    ended = ", ".join(f"{item['runs']} {item['how']}" for item in ran["ended"])
    longest = f", the longest {duration(ran['longest_us'])}" if ran["longest_us"] is not None else ""
    mean = f", on average {duration(ran['mean_us'])}" if ran["mean_us"] is not None else ""
    still = f", {ran['still_running']} still running" if ran["still_running"] else ""
    yield f"it was given {plural(ran['given'], 'run')}{longest}{mean}; ended: {ended or 'none'}{still}"


def _chapter(chapter: Facts, story: Facts) -> list[str]:
    match chapter["event"]:
        case "WorkerAdmitted":
            again = "connected again" if chapter["reconnected"] else "connected"
            kept = f", {plural(chapter['kept'], 'run')} went on" if chapter["kept"] else ""
            return [
                f"{again}, boot epoch {chapter['boot_epoch']}{kept}, with {pairs_shown(chapter['properties']) or 'nothing'}"
            ]
        case "WorkerDisconnected":
            silent = f", silent for {duration(chapter['silent_us'])}" if chapter["silent_us"] else ""
            return [f"lost, {chapter['reason']['reason']}{silent}: {chapter['reason']['sentence']}"]
        case "WorkerDrained":
            return ["drained: nothing new is placed on it"]
        case "WorkerUndrained":
            return ["takes work again"]
        case "WorkerIdleCapped":
            return [f"ran nothing and reported {chapter['idle_free_kib']} KiB free: no more is expected of it"]
        case "WorkerReported":
            free = f", {chapter['free_memory_kib']} KiB free" if chapter["free_memory_kib"] is not None else ""
            return [f"its report ended the pause{free}"]
        case "OperationRequeued" | "OperationFinished":
            declined = f", it said {chapter['declined']['reason']}" if chapter["declined"] is not None else ""
            needed = f", needs {chapter['needed_kib']} KiB" if chapter["needed_kib"] else ""
            return [
                f"paused, {chapter['cause']['reason']} of {named(chapter['operation'])}{declined}{needed}",
                chapter["cause"]["sentence"],
            ]
        case "HoldMade":
            return [f"{chapter['hold']}: held for {named(chapter['operation'])}"]
        case "HoldMoved":
            way = "came here from" if chapter["endpoint"] == story["endpoint"] else "went from here to"
            other = chapter["from_endpoint"] if chapter["endpoint"] == story["endpoint"] else chapter["endpoint"]
            return [
                f"the hold for {named(chapter['operation'], asks=False)} {way} {other}: {chapter['cause']['sentence']}"
            ]
        case "HoldReleased":
            because = [cause(chapter["because"])] if chapter["because"] is not None else []
            return [
                f"the hold for {named(chapter['operation'], asks=False)} ended after {duration(chapter['held_us'])}, "
                f"{chapter['reason']['reason']}: {chapter['reason']['sentence']}",
                *because,
            ]
        case _:
            what = named(chapter["operation"], asks=False) if chapter["operation"] is not None else "a run"
            return [f"told to stop {what} (dispatch {chapter['dispatch_id']}): {chapter['cause']['sentence']}"]


def _idle(story: Facts) -> Iterator[str]:
    if not story["idle"]:
        return
    yield f"idle and taking work {plural(story['idle_times'], 'time')}, the longest:"
    for idle in story["idle"]:
        if idle["paused"]:
            why = "the instance was paused"
        elif not idle["waiting"]:
            why = "nothing waited"
        else:
            counts = ", ".join(
                f"{each['operations']} {WAITED.get(each['standing'], each['sentence'])}" for each in idle["standings"]
            )
            why = f"{plural(idle['waiting'], 'operation')} waited: {counts or 'none was looked at'}"
        yield f"  +{duration(idle['after_us'])} for {duration(idle['for_us'])} (as of seq {idle['as_of_seq']}): {why}"
