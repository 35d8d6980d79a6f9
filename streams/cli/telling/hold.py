"""The story of a hold in words: why it was made, what the worker still ran, where it moved, how it ended, what it cost others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from streams.cli.hold import expectation, other_candidates, policy_shown
from streams.cli.output import duration, plural
from streams.cli.telling.lines import Facts, cause, excluded, linked, named, nearest
from streams.moments import time_of


def hold_told(story: Facts) -> list[str]:
    """The whole story."""
    return [_heading(story), *_made(story["made"], story), *_moves(story["moves"]), *_end(story), *_cost(story["cost"])]


def holds_listed(holds: Sequence[Facts]) -> list[str]:
    """Holds, one a line: those beside the one that is told."""
    return [
        f"{each['hold']}: {each['endpoint']} for {named(each['operation'])}, {duration(each['held_us'])}, "
        f"{each['ended']['reason'] if each['ended'] else 'it stands'} {linked(each)}"
        for each in holds
    ]


def nobody_told(times: Sequence[Facts]) -> list[str]:
    """The times that nobody could be held for an operation."""
    lines = []
    for each in times:
        why = excluded(each["excluded"]) or "none that could ever run it is connected"
        lines.append(
            f"no worker could be held for {named(each['operation'])} after it had waited {duration(each['waited_us'])}: "
            f"{why} {linked(each)}"
        )
        past = each["overtaken_by"]
        if past is not None:
            lines.append(f"    {named(past)} went past it, {_where(past)} {linked(past['dispatch'])}")
    return lines


def hold_in_five_lines(story: Facts) -> list[str]:
    """For whom, why, what happened, how it ended and what it cost, for somebody who has never heard of holds."""
    made, operation = story["made"], named(story["operation"])
    past = made["overtaken_by"]
    went = f" {named(past)} went past it {_where(past)}:" if past is not None else ""
    short = next(iter(made["why"]["waits"]["closest"]), None) if made["why"] is not None else None
    lacked = f": {nearest(short)}" if short is not None and short["short"] else ""
    running, others = made["worker"]["running"], max(0, len(made["candidates"]) - 1) + made["more_candidates"]
    behind = "were expected to have room later" if made["free_at_us"] else "had no more room"
    nearer = f"; {plural(others, 'other worker')} could have been held and {behind}" if others else ""
    return [
        f"{operation} had waited {duration(made['waited_us'])} for room that no worker had at once{lacked}.",
        f"Meanwhile{went} what came free went to later actions that ask for less; so {made['endpoint']} was held for it "
        f"{linked(made)}.",
        f"From then on nothing else was placed there while what ran came to its end ({plural(running, 'run')}){nearer}.",
        _ended_in_words(story),
        f"What that cost: {_cost_in_words(story['cost'])}.",
    ]


def _where(past: Facts) -> str:
    return f"onto {past['endpoint']}" if past.get("endpoint") else "elsewhere"


def _ended_in_words(story: Facts) -> str:
    ended, fate = story["ended"], story["operation_now"]
    if ended is None:
        return f"It is still held, after {duration(story['held_us'])}."
    waited = f"; it had waited {duration(fate['waited_us'])} in all" if not fate["still_waits"] else ""
    if ended["reason"]["reason"] == "placed":
        on = ended["because"]["endpoint"] if ended["because"] is not None else story["endpoint"]
        room = f", when {cause(ended['room'])}" if ended["room"] is not None else ""
        return f"After {duration(story['held_us'])} it was placed on {on}{room}{waited}."
    because = f": {cause(ended['because'])}" if ended["because"] is not None else ""
    return f"After {duration(story['held_us'])} the hold ended, {ended['reason']['sentence'].rstrip('.')}{because}{waited}."


def _heading(story: Facts) -> str:
    stands = "stands since" if story["ended"] is None else f"{story['ended']['reason']['reason']}, from"
    return (
        f"{story['hold']} of instance {story['instance']}: {story['endpoint']} for {named(story['operation'])}, "
        f"{stands} {time_of(story['from_us'])}, {duration(story['held_us'])} long"
    )


def _made(made: Facts, story: Facts) -> Iterator[str]:
    yield f"hold policy {policy_shown(made['policy'])}"
    yield f"+0us  {made['endpoint']} was held because the operation had waited {duration(made['waited_us'])} {linked(made)}"
    past = made["overtaken_by"]
    if past is not None:
        at = f" {linked(past['dispatch'])}" if past["dispatch"] is not None else ""
        yield f"    and {named(past)} went past it, {_where(past)}{at}"
    worker = made["worker"]
    for item in worker["short"]:
        yield (
            f"    it lacked {item['lacks']} {item['name']} there "
            f"({item['free']} of {item['total']} free, {item['asked']} asked) and waited for {plural(worker['running'], 'run')}"
        )
    yield from (f"      {named(run)}, for {duration(run['ran_us'])} so far" for run in worker["longest_runs"])
    yield from (f"    {line}" for line in expectation(made, made["at_us"]))
    yield from _choice(made)


def _choice(made: Facts) -> Iterator[str]:
    others = other_candidates(made, made["at_us"])
    if others:
        yield f"    could have been held instead: {others}"
    if made["excluded"]:
        yield f"    could not be held: {excluded(made['excluded'])}"


def _moves(moves: Sequence[Facts]) -> Iterator[str]:
    for move in moves:
        yield (
            f"+{duration(move['after_us'])}  it went from {move['from_endpoint']} to {move['endpoint']}: "
            f"{move['cause']['sentence']} {linked(move)}"
        )
        if move["because"] is not None:
            yield f"    {cause(move['because'])}"
        yield from (f"    {line}" for line in expectation(move, move["at_us"]))
        yield from _choice(move)


def _end(story: Facts) -> Iterator[str]:
    ended = story["ended"]
    if ended is None:
        yield f"+{duration(story['held_us'])}  it still stands"
        return
    yield f"+{duration(ended['after_us'])}  {ended['reason']['reason']}: {ended['reason']['sentence']} {linked(ended)}"
    if ended["because"] is not None:
        yield f"    {cause(ended['because'])}"
    if ended["elsewhere"]:
        yield f"    that is not the worker that was held, {ended['endpoint']}"
    if ended["room"] is not None:
        yield f"    made possible by: {cause(ended['room'])}"
    fate = story["operation_now"]
    if fate["still_waits"]:
        yield "    the operation waits again"
    else:
        became = fate["outcome"] or fate["stage"]
        yield f"    the operation is {became} by now; it waited {duration(fate['waited_us'])} in all"


def _cost(cost: Facts) -> Iterator[str]:
    yield f"cost: {_cost_in_words(cost)}"
    yield from (f"    {named(each)} for {duration(each['for_us'])}" for each in cost["waited"]["first"])


def _cost_in_words(cost: Facts) -> str:
    idle = ", ".join(
        f"{item['core_seconds']} core-seconds"
        if item["core_seconds"] is not None
        else f"{item['amount_seconds']} {item['name']}-seconds"
        for item in cost["idle"]
    )
    waited = cost["waited"]
    if not waited["operations"]:
        others = "nobody waited who would have fitted there"
    else:
        others = (
            f"about {plural(waited['operations'], 'operation')} would have fitted there meanwhile and waited "
            f"{duration(waited['for_us'])} in all, the longest {duration(waited['longest_us'])}"
        )
    return f"{idle or 'nothing'} kept idle; {others}"
