"""An explanation in words: the lines that `headway explain` prints, from what the views answer. Every fact in them stands in the JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from streams.cli.hold import expectation, other_candidates, policy_shown
from streams.cli.output import duration, size
from streams.cli.tables import exit_shown, pairs_shown
from streams.views import Answer

Facts = Mapping[str, Any]


def operation_in_words(answer: Answer) -> list[str]:
    """Why an operation is where it is."""
    row, waits, runs, ended = answer["operation"], answer["waits"], answer["runs"], answer["ended"]
    lines = [_heading(row, waits)]
    asked = pairs_shown(row["requirements"]) or "nothing in particular"
    changed = f" (the producer asked for {pairs_shown(row['asked_requirements'])})" if row["asked_requirements"] else ""
    lines.append(f"asks: {asked}{changed}")
    lines += [f"{reason['reason']}: {reason['sentence']}" for reason in answer["reasons"]]
    if waits is not None:
        lines += _waiting(row, waits)
    if runs is not None:
        lines += _running(row, runs)
    if ended is not None:
        lines += _ended(ended)
    if answer.get("placed"):
        lines.append(_placed(answer["placed"]))
    if row["upstream"]:
        state = (
            f", which says that it is {row['upstream_state']}" if row["upstream_state"] else ", which has not answered"
        )
        lines.append(f"  handed to {row['upstream']}{state}")
    lines += _attempts(row)
    return lines


def hold_in_words(answer: Answer) -> list[str]:
    """What a hold is for and what it costs, or why there is none."""
    lines = [f"instance {answer['instance']}: hold policy {policy_shown(answer['policy'])}"]
    hold, row = answer["hold"], answer["operation"]
    if hold is None:
        if row is not None:
            lines.append(f"for {row['id']} ({row['client_operation_id']}) no worker is held")
        lines += _absence(answer["absence"], answer["other_hold"])
        return lines
    lines.append(_hold(hold))
    if answer["overtaken_by"] is not None:
        lines.append(f"  made because {_named(answer['overtaken_by'])} was placed past it")
    chosen_at_us = hold["moved_at_us"] or hold["made_at_us"]
    lines += [f"  {line}" for line in expectation(hold, chosen_at_us)]
    worker = answer["worker"]
    short = _short(worker["short"]) or "nothing: it is placed in the next pass"
    lines.append(f"  {worker['endpoint']} still lacks {short}")
    idle = ", ".join(f"{item['name']} {item['amount']}" for item in worker["idle"]) or "nothing"
    lines.append(f"  it keeps idle for it: {idle}")
    if worker["expected_free_kib"] is not None:
        lines.append(f"  once drained it is expected to report {worker['expected_free_kib']} KiB free")
    if worker["longest_runs"]:
        lines.append(f"  it still runs {worker['running']}, longest first:")
        for run in worker["longest_runs"]:
            end = _expected_end(run)
            lines.append(
                f"    {_named(run)} for {duration(run['ran_us'])}{end}{', told to stop' if run['revoked'] else ''}"
            )
    others = other_candidates(hold, chosen_at_us)
    if others:
        lines.append(f"  could have been held instead: {others}")
    lines += [f"  could not: {count['workers']} {count['exclusion']}: {count['reason']}" for count in hold["excluded"]]
    if answer["given_back_at_us"] is not None:
        lines.append(
            f"  given back by max_hold_s {duration(answer['given_back_at_us'] - hold['made_at_us'])} after it was made"
        )
    return lines


def _heading(row: Facts, waits: Facts | None) -> str:
    name = f"{row['id']} ({row['client_operation_id']}): {row['stage']}"
    if waits is None:
        return name
    place = f"number {waits['place']}" if waits["place"] is not None else f"behind the first {waits['ahead']}"
    return f"{name}, {place} in the queue, waiting {duration(waits['waiting_us'])}, priority {row['priority']}"


def _waiting(row: Facts, waits: Facts) -> Iterator[str]:
    never = waits["never"]
    if never is not None:
        fails = (
            f", fails {duration(never['fails_at_us'] - never['since_us'])} after that" if never["fails_at_us"] else ""
        )
        since_us = row["queued_at_us"] + waits["waiting_us"] - never["since_us"]
        yield f"  so for {duration(max(0, since_us))}{fails}"
    yield from _amounts(waits)
    yield from (_property(item, waits["workers"]) for item in waits["properties"] if item["others"])
    if waits["impossible_together"]:
        yield "  each of these some worker has, and no worker has all of them"
    yield f"workers: {waits['workers']} connected"
    for count in waits["standings"]:
        yield f"  {count['workers']} {count['standing']}: {count['sentence']}"
    for each in waits["closest"]:
        yield f"  {each['endpoint']}: {_candidate(each)}"
    if waits["more_workers"]:
        yield f"  and {waits['more_workers']} more that could run it"
    with_room = [each["endpoint"] for each in waits["closest"] if each["standing"] == "room"]
    if len(with_room) > 1:
        from_bytes = waits["prefer_from_bytes"]
        unless = "" if from_bytes is None else f", unless one holds at least {size(from_bytes)} of its inputs"
        yield f"  of those with room {waits['strategy']} takes {with_room[0]} first{unless}"
    if waits["ahead"]:
        named = "; ".join(_named(each) for each in waits["first_ahead"])
        yield f"ahead of it: {waits['ahead']}, first {named}"
    yield from _overtaken(waits["overtaken"])
    if waits["hold"] is not None:
        yield f"hold: {_hold(waits['hold'])}"
    else:
        first, *rest = _absence(waits["hold_absence"], waits["other_hold"])
        yield f"hold: {first}"
        yield from rest


def _amounts(waits: Facts) -> Iterator[str]:
    for item in waits["amounts"]:
        if item["most_free"] is not None:
            best = f"most free {item['most_free']} (on {item['endpoint']})"
        else:
            best = f"largest registered {'none' if item['largest'] is None else item['largest']}"
        reported = f", most reported free {item['reported_free']}" if item["reported_free"] is not None else ""
        yield f"  {item['name']}: asks {item['asked']}, {best}{reported}"


def _property(item: Facts, workers: int) -> str:
    asked = "any value" if item["asked"] is None else item["asked"]
    others = [
        f"{other['workers']} {'without it' if other['value'] is None else 'with ' + other['value']}"
        for other in item["others"]
    ]
    if item["more_others"]:
        others.append(f"{item['more_others']} with others")
    if item["workers_undeclared"]:
        does = "does" if item["workers_undeclared"] == 1 else "do"
        others.append(f"{item['workers_undeclared']} {does} not declare it (which is not compared)")
    return f"  {item['name']}: asks {asked}, {item['workers_with']} of {workers} workers have it; {', '.join(others)}"


def _candidate(each: Facts) -> str:
    said = str(each["standing"])
    short = _short(each["short"])
    if short:
        said = f"short of {short}" if said == "short" else f"{said}, short of {short}"
    match each["standing"]:
        case "vetoed":
            said += f", reports {each['free_memory_kib']} KiB free"
        case "declined":
            said += f" (from {each['idle_declined_kib']} KiB on)"
        case "paused" if each["resume_at_kib"]:
            said += f" until it reports {each['resume_at_kib']} KiB free"
        case "full":
            said += f" ({each['running']} of {each['max_inflight']})"
    return f"{said}, runs {each['running']}"


def _short(short: Sequence[Facts]) -> str:
    return ", ".join(
        f"{item['name']} {item['lacks']} (asks {item['asked']}, {item['free']} of {item['total']} free)"
        for item in short
    )


def _overtaken(overtaken: Facts) -> Iterator[str]:
    if not overtaken["running"]:
        return
    least = "" if overtaken["complete"] else "at least "
    yield f"went past it and still run: {least}{overtaken['running']}"
    for each in overtaken["first"]:
        backfilled = ", backfilled" if each["backfilled"] else ""
        yield f"  {_named(each)} on {each['endpoint']}{backfilled}"


def _hold(hold: Facts) -> str:
    moved = f", moves: {hold['moves']}, the last one because: {hold['moved_reason']}" if hold["moves"] else ""
    return (
        f"{hold['endpoint']} is held for {hold['id']} ({hold['client_operation_id']}) for {duration(hold['held_us'])}, "
        f"made after it had waited {duration(hold['waited_us'])}{moved}"
    )


def _absence(absence: Facts, other: Facts | None) -> Iterator[str]:
    figures = ""
    match absence["reason"]:
        case "too_early":
            figures = f" ({duration(absence['waited_us'])} of {duration(absence['after_us'])})"
        case "not_head":
            figures = f" ({_named(absence['head'])})"
        case "expired":
            figures = (
                f" ({duration(absence['again_at_us'] - absence['expired_at_us'])} after it expired at the earliest)"
            )
    yield f"none, {absence['reason']}: {absence['sentence']}{figures}"
    if absence.get("head_never") is not None:
        yield from (f"  {line}" for line in _head_never(absence["head_never"]))
    yield from (f"  {each['workers']} {each['exclusion']}: {each['reason']}" for each in absence.get("excluded", ()))
    if other is not None:
        yield f"  {_hold(other)}"


def _head_never(never: Facts) -> Iterator[str]:
    if never["no_workers"]:
        yield "no worker is connected that could be held"
        return
    timeout = "unsatisfiable_action_timeout_s"
    if never["fails_at_us"] is None:
        fails = f"{timeout} is 0: it never fails of itself"
    else:
        fails = (
            f"{timeout} fails it {duration(never['fails_at_us'] - never['since_us'])} after no worker could any more"
        )
    yield "no connected worker could ever run that one, so nothing is held for anybody while it is first:"
    yield f"until it is cancelled or a worker that can run it connects ({fails})"


def _running(row: Facts, runs: Facts) -> Iterator[str]:
    accepted = ", accepted" if row["accepted"] else ", not accepted yet"
    yield f"  on {runs['endpoint']} for {duration(runs['for_us'])} (dispatch {runs['dispatch_id']}{accepted})"
    past = f", past {_named(runs['overtook'])}" if runs["overtook"] else ""
    backfilled = ", on a held worker because it surely ends in time" if runs["backfilled"] else ""
    yield f"  placed after waiting {duration(runs['waited_us'])}{past}{backfilled}"
    if runs["holders"]:
        yield f"  {_held(runs)}"
    yield f"  why there: `headway explain operation {row['id']} --at-placement`"


def _placed(placed: Facts) -> str:
    held = f"; {_held(placed)}" if placed["holders"] else ""
    return f"then placed on {placed['endpoint']} (dispatch {placed['dispatch_id']}){held}"


def _held(placed: Facts) -> str:
    most = ", ".join(f"{held['endpoint']} {size(held['bytes'])}" for held in placed["holders"])
    return f"held {size(placed['saved_bytes'])} of its inputs there already; who held most: {most}"


def _ended(ended: Facts) -> Iterator[str]:
    yield f"  {ended['outcome']}: {ended['sentence']}"
    if ended["message"]:
        yield f"  {ended['message']}"
    waited = f"after waiting {duration(ended['waited_us'])}"
    if ended["endpoint"] is None:
        yield f"  it never ran; it ended {waited}"
    else:
        yield f"  ran on {ended['endpoint']} for {duration(ended['ran_us'])} {waited}{exit_shown(ended['exit_code'], before=', ')}"


def _attempts(row: Facts) -> Iterator[str]:
    if row["requeue_cause"] is None:
        return
    message = f" ({row['requeue_message']})" if row["requeue_message"] else ""
    yield f"requeued last from {row['requeue_endpoint'] or 'a worker'}, {row['requeue_cause']}: {row['requeue_reason']}{message}"
    yield (
        f"  so far {row['dispatches']} runs, {row['job_failures']} job failures, {row['worker_losses']} worker losses, "
        f"{row['free_requeues']} free requeues, {row['escalations']} escalations"
    )


def _named(brief: Facts) -> str:
    if "id" not in brief:
        return f"op-{brief['operation_id']} (forgotten)"
    asked = pairs_shown(brief["requirements"]) or "nothing"
    return f"{brief['id']} ({brief['client_operation_id']}, asks {asked})"


def _expected_end(run: Facts) -> str:
    if run["expected_end_us"] is None:
        return ""
    left_us = run["expected_end_us"] - run["since_us"] - run["ran_us"]
    return (
        f", expected to end in {duration(left_us)}" if left_us >= 0 else f", {duration(-left_us)} longer than expected"
    )
