"""The story of an operation in words: a heading, the times in each state, then a line or a few for each turn of it."""

from __future__ import annotations

from collections.abc import Iterator

from streams.cli.output import duration, plural, size
from streams.cli.tables import exit_shown, pairs_shown
from streams.cli.telling.lines import Facts, cause, excluded, linked, named, standing_then
from streams.moments import time_of

STATES = {
    "on_its_way": "on its way to the scheduler",
    "cache_check": "waiting for the cache",
    "queued": "waiting in the queue",
    "forwarded": "with another scheduler",
    "executing": "with a worker",
}


def operation_told(story: Facts) -> list[str]:
    """The whole story."""
    lines = [_heading(story), *_times(story)]
    if story["same_name"]:
        others = ", ".join(f"op-{other}" for other in story["same_name"])
        lines.append(f"the name {story['client_operation_id']} was also given to: {others}")
    for chapter in story["chapters"]:
        first, *rest = _chapter(chapter, story)
        lines.append(f"+{duration(chapter['after_us'])}  {first} {linked(chapter)}")
        lines += [f"    {line}" for line in rest]
    return lines


def wait_in_five_lines(story: Facts) -> list[str]:
    """Why an operation waited for its first dispatch: how long, how the workers stood, what was missing, who went past, what freed it.

    Raises ValueError where it was never dispatched, so that the wait has no end.
    """
    chapters = story["chapters"]
    placed = next((chapter for chapter in chapters if chapter["event"] == "OperationDispatched"), None)
    if placed is None:
        raise ValueError(f"{story['id']} was never dispatched, so its wait has no end")
    moments = {chapter["moment"]: chapter for chapter in reversed(chapters) if chapter["event"] == "moment"}
    began = moments.get("queued")
    stood = standing_then(began["why"]) if began is not None else ["it did not have to wait"]
    past = moments.get("overtaken")
    held = next((chapter for chapter in chapters if chapter["event"] == "HoldMade"), None)
    holds = (
        f"hold-{held['seq']} had kept {held['endpoint']} for it {linked(held)}"
        if held is not None
        else "nothing is held for an action that waits, unless a hold is configured"
    )
    return [
        f"{named(story)} waited {duration(placed['waited_us'])}, then it was placed on {placed['endpoint']} {linked(placed)}.",
        f"When it was queued it was {'; '.join(stood[:2])}.",
        f"{'; '.join(stood[2:]) or 'It lacked nothing then'}.",
        f"{next(_overtaken(past)) if past is not None else 'Nobody went past it while it was first in line'}.",
        f"It was placed when {cause(placed['room']) or 'the next pass came'}; {holds}.",
    ]


def _heading(story: Facts) -> str:
    name = named(story)
    lived = duration(story["life_us"])
    begun = time_of(story["from_us"])
    if story["outcome"] is not None:
        kept = "" if story["kept"] else "; the state table has forgotten it"
        return f"{name}: {story['outcome']} after {lived}, from {begun}{kept}"
    return f"{name}: {story['stage']} {lived} after it came, at {begun}"


def _times(story: Facts) -> Iterator[str]:
    spent = ", ".join(f"{duration(spent_us)} {STATES[state]}" for state, spent_us in story["times_us"].items())
    yield f"in all {spent or 'no time'}"
    if story["attempts"] > 1:
        yield from (
            f"  attempt {stay['attempt']}: {duration(stay['for_us'])} {STATES[stay['state']]}"
            + (f", {stay['endpoint']}" if stay["endpoint"] else "")
            for stay in story["stays"]
        )


def _chapter(chapter: Facts, story: Facts) -> list[str]:
    match chapter["event"]:
        case "OperationQueued":
            priority = f", priority {chapter['priority']}" if chapter["priority"] else ""
            asked = (
                [f"its producer asked for {pairs_shown(story['asked_requirements'])}"]
                if story["asked_requirements"]
                else []
            )
            return [f"queued{priority}", *asked]
        case "moment":
            return _moment(chapter)
        case "OperationDispatched":
            return list(_dispatched(chapter))
        case "OperationAccepted":
            return [f"the worker accepted it after {duration(chapter['took_us'])}"]
        case "OperationRequeued":
            return list(_requeued(chapter))
        case "OperationFinished":
            return list(_finished(chapter))
        case "HoldMade" | "HoldMoved" | "HoldReleased" | "HoldNoCandidate":
            return _hold(chapter)
        case _:
            return _other(chapter)


def _moment(chapter: Facts) -> list[str]:
    lines = standing_then(chapter["why"])
    match chapter["moment"]:
        case "overtaken":
            return [*_overtaken(chapter), *lines]
        case "first_in_line":
            return ["first in line from here on", *_stood_before(chapter["before"]), *lines[1:]]
        case "last":
            return ["and so until the end of this wait", *lines]
        case "now":
            return ["it still waits", *lines]
        case _:
            return ["it had to wait", *lines]


def _stood_before(before: Facts | None) -> Iterator[str]:
    if before is None:
        return
    never = before["never"] is not None and not before["never"]["no_workers"]
    which = ", which no connected worker could ever run" if never else ""
    yield f"until then {named(before['operation'])} stood before it{which}"
    if before["nothing_held"]:
        yield "so nothing was held for anybody while that one was first"
    yield f"that ended: {cause(before['left'])}"


def _overtaken(chapter: Facts) -> Iterator[str]:
    first = chapter["overtakers"][0]
    times = f"{plural(chapter['overtaken'], 'later one')} went past it"
    backfilled = f", {chapter['backfilled']} of them because they surely ended in time" if chapter["backfilled"] else ""
    where = ", ".join(f"{each['overtaken']} on {each['endpoint']}" for each in chapter["endpoints"])
    more = f" and on {plural(chapter['more_endpoints'], 'more worker')}" if chapter["more_endpoints"] else ""
    yield f"{times}{backfilled} ({where}{more}), first {named(first)}"
    for each in chapter["overtakers"][1:]:
        yield f"then {named(each)} on {each['endpoint']} after {duration(each['after_us'])} {linked(each)}"
    last = chapter["last"]
    if last is not None:
        yield f"the last was {named(last)} on {last['endpoint']} after {duration(last['after_us'])} {linked(last)}"


def _dispatched(chapter: Facts) -> Iterator[str]:
    backfilled = ", on a held worker because it surely ends in time" if chapter["backfilled"] else ""
    waited = "at once" if chapter["at_once"] else f"after it waited {duration(chapter['waited_us'])}"
    yield f"placed on {chapter['endpoint']} {waited} (attempt {chapter['attempt']}){backfilled}"
    if chapter["room"] is not None and not chapter["at_once"]:
        yield f"made possible by: {cause(chapter['room'])}"
    if chapter["overtook"] is not None:
        yield f"it went past {named(chapter['overtook'])}, which did not fit"
    if chapter["saved_bytes"]:
        yield f"the worker held {size(chapter['saved_bytes'])} of its inputs"


def _requeued(chapter: Facts) -> Iterator[str]:
    ran = f" after {duration(chapter['ran_us'])}" if chapter["ran_us"] is not None else ""
    yield f"came back from {chapter['endpoint'] or 'its worker'}{ran}, {chapter['cause']['reason']}: {chapter['cause']['sentence']}"
    if chapter["because"] is not None:
        yield cause(chapter["because"])
    if chapter["declined"] is not None:
        needed = f", needs {chapter['needed_kib']} KiB" if chapter["needed_kib"] else ""
        free = f", has {chapter['free_kib']} KiB free" if chapter["free_kib"] is not None else ""
        yield f"the worker said {chapter['declined']['reason']}{needed}{free}"
    if chapter["message"]:
        yield chapter["message"]
    if chapter["requirements"] is not None:
        yield f"it asks for {pairs_shown(chapter['requirements'])} from here on"
    counters = {
        "job failure": chapter["job_failures"],
        "worker loss": chapter["worker_losses"],
        "free requeue": chapter["free_requeues"],
        "escalation": chapter["escalations"],
    }
    counted = ", ".join(f"{name} {count}" for name, count in counters.items() if count)
    if counted:
        yield f"so far: {counted}"


def _finished(chapter: Facts) -> Iterator[str]:
    outcome = chapter["outcome"]
    if chapter["ran_us"] is None:
        yield f"ended without running, {outcome['reason']}: {outcome['sentence']}"
    else:
        yield (
            f"ended on {chapter['endpoint']} after {duration(chapter['ran_us'])}, {exit_shown(chapter['exit_code'], ', ')}"
            f"{outcome['reason']}: {outcome['sentence']}"
        )
    if chapter["because"] is not None:
        yield cause(chapter["because"])
    if chapter["message"]:
        yield chapter["message"]


def _hold(chapter: Facts) -> list[str]:
    match chapter["event"]:
        case "HoldMade":
            past = f" and {named(chapter['overtaken_by'])} went past it" if chapter["overtaken_by"] else ""
            return [
                f"hold-{chapter['seq']}: {chapter['endpoint']} is held for it, since it had waited {duration(chapter['waited_us'])}{past}",
                *standing_then(chapter["why"])[1:],
            ]
        case "HoldMoved":
            because = [cause(chapter["because"])] if chapter["because"] else []
            return [
                f"the hold goes from {chapter['from_endpoint']} to {chapter['endpoint']}: {chapter['cause']['sentence']}",
                *because,
            ]
        case "HoldReleased":
            because = [cause(chapter["because"])] if chapter["because"] else []
            return [
                f"the hold on {chapter['endpoint']} ended after {duration(chapter['held_us'])}, "
                f"{chapter['reason']['reason']}: {chapter['reason']['sentence']}",
                *because,
            ]
        case _:
            why = excluded(chapter["excluded"]) or "none is connected"
            return [f"no worker could be held for it after {duration(chapter['waited_us'])}: {why}"]


def _other(chapter: Facts) -> list[str]:
    match chapter["event"]:
        case "CacheLookupRequested":
            return ["the cache is asked for its result"]
        case "CacheAnswered":
            return [f"the cache answered {chapter['answer']['reason']}: {chapter['answer']['sentence']}"]
        case "OperationForwarded":
            return [f"handed to {chapter['upstream']}"]
        case "UpstreamReported":
            return [f"the other scheduler said {chapter['state']['reason']}: {chapter['state']['sentence']}"]
        case "OperationJoined":
            return [f"{chapter['client_operation_id']} asked for the same and waits for it, too"]
        case "ClientLeft":
            silent = f" ({duration(chapter['silent_us'])})" if chapter["silent_us"] else ""
            return [f"client {chapter['client_operation_id']} left: {chapter['left']['sentence']}{silent}"]
        case "OperationReprioritised":
            return [f"priority {chapter['priority']} from here on"]
        case "KillRequested":
            return [f"{chapter['endpoint']} was told to stop it: {chapter['cause']['sentence']}"]
        case "DispatchSettled":
            return [f"{chapter['endpoint']} said how the stopped run ended, {chapter['result']['reason'] or 'unknown'}"]
        case "InstancePaused":
            return ["the instance was paused: nothing is placed"]
        case "InstanceResumed":
            return ["the instance was resumed"]
        case "Configured":
            return ["another configuration came into force"]
        case "LogSilent":
            return [f"nobody could write to the log for {duration(chapter['gap_us'])}"]
        case "LeaderElected":
            return [f"another decider took over (leader epoch {chapter['leader_epoch']})"]
        case other:
            return [str(other)]
