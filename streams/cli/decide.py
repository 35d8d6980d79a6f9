"""`headway decide`: facts in, events out, both as JSON lines; in memory, with a virtual clock and no broker."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import IO, Any, Final

import click

from events.config import DEFAULT_CONFIG, canonical_config
from events.errors import HeadwayError, InvalidFact
from events.events import EVENT_KINDS, Event, FactRejected, OperationQueued
from events.fact_rules import shown, unreadable
from events.facts import Configured, Fact
from events.jsonform import DEFAULT_INSTANCE, event_to_json, fact_from_json, json_key, json_object
from events.reasons import sentence
from events.state import Operation, Stage
from events.values import U63_MAX
from streams.cli.main import Failure, version
from streams.cli.output import Column, emit, note
from streams.rehearsal import ClockTurnedBack, Rehearsal, TooManyTicks

RESTART: Final = "Restart"
_SUMMARY_ROWS: Final = 200


class _EventKinds(click.ParamType):
    """Kinds of events, separated by commas."""

    name = "kinds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> frozenset[str]:
        if isinstance(value, frozenset):
            return value
        found = [kind.strip() for kind in value.split(",") if kind.strip()]
        for kind in found:
            if kind not in EVENT_KINDS:
                close = get_close_matches(kind, EVENT_KINDS, n=1)
                hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(sorted(EVENT_KINDS))}"
                self.fail(f"{kind!r} is no kind of event; {hint}", param, ctx)
        return frozenset(found)


@click.command("decide")
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--no-ticker", is_flag=True, help="Add no ticks between the lines: a gap of more than 3 s is an outage.")
@click.option(
    "--until-us", type=click.IntRange(0, U63_MAX), metavar="N", help="After the last line, run on to this time."
)
@click.option("--strict", is_flag=True, help="Stop with exit code 1 at the first line that is refused.")
@click.option(
    "--hide",
    type=_EventKinds(),
    multiple=True,
    metavar="KIND,...",
    help="Do not print events of these kinds, such as Ticked,WorkerReported. They happen all the same.",
)
@click.option("--quiet-ticks", is_flag=True, help="The same as --hide Ticked.")
@click.option("--summary", is_flag=True, help="At the end, say on standard error what became of each operation.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["json"]),
    default="json",
    show_default=True,
    help="JSON lines are the one form.",
)
def command(
    file: IO[bytes],
    no_ticker: bool,
    until_us: int | None,
    strict: bool,
    hide: tuple[frozenset[str], ...],
    quiet_ticks: bool,
    summary: bool,
    output: str,
) -> None:
    """Decide facts in memory and print the events they cause.

    FILE (default: standard input) holds one JSON object a line: {"at_us": N, "kind": "ActionQueued", ...}. Times are in
    microseconds and never decrease; a line without at_us happens at the time of the line before it. The first line may be
    {"kind": "Configured", "instance": "main", "config": {...}}; otherwise the instance "main" gets the default configuration.
    {"kind": "Restart"} throws the state away and rebuilds it from the events so far.

    A line that is no valid fact becomes a FactRejected event, as it would on the topic.
    """
    hidden = frozenset().union(*hide) | ({"Ticked"} if quiet_ticks else frozenset())
    rehearsal = Rehearsal(ticker=not no_ticker, build=version(), keep_history=False)
    queued = 0
    for number, caused in _decided(rehearsal, file):
        _print(caused, hidden)
        queued += sum(type(event) is OperationQueued for event in caused)
        if strict:
            _stop_at_rejection(number, caused)
    if until_us is not None:
        try:
            _print(rehearsal.run_until(until_us), hidden)
        except HeadwayError as error:
            raise Failure(f"--until-us: {_said(error)}", code=error.code) from error
    if summary:
        _summarise(rehearsal, queued)


def _decided(rehearsal: Rehearsal, lines: Iterable[bytes]) -> Iterator[tuple[int, list[Event]]]:
    """What each line causes, by its number. Raises Failure for a time that is none or turns back."""
    first, at_us = True, 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        at_us, fact = _parsed(number, line, at_us)
        caused: list[Event] = []
        try:
            if first and not isinstance(fact, Configured):
                caused += rehearsal.take(Configured(DEFAULT_INSTANCE, canonical_config(DEFAULT_CONFIG)), at_us, "")
            if fact is None:
                caused += rehearsal.run_until(at_us, including=False)
                caused += rehearsal.restart()
            else:
                caused += rehearsal.take(fact, at_us)
        except (ClockTurnedBack, TooManyTicks) as error:
            raise Failure(f"line {number}: {_said(error)}", code=error.code) from error
        first = False
        yield number, caused


def _parsed(number: int, line: bytes, before_us: int) -> tuple[int, Fact | None]:
    """Time and fact of a line, None for a restart. Raises Failure where `at_us` is no time."""
    try:
        obj = json_object(line.strip())
    except InvalidFact as error:
        return before_us, unreadable(error)
    at_us = obj.pop("at_us", before_us)
    if type(at_us) is not int or not 0 <= at_us <= U63_MAX:
        raise Failure(
            f"line {number}: at_us is {shown(at_us)!r}", remedy="Write microseconds as a whole number from 0 to 2^63-1"
        )
    if obj == {"kind": RESTART}:
        return at_us, None
    try:
        return at_us, fact_from_json(obj)
    except InvalidFact as error:
        return at_us, unreadable(error, obj.get("instance"), json_key(obj))


def _said(error: HeadwayError) -> str:
    return str(error).removeprefix(f"{error.code}: ")


def _print(caused: Iterable[Event], hidden: frozenset[str]) -> None:
    lines = [
        json.dumps(event_to_json(event, offset=event.seq - 1)) for event in caused if type(event).__name__ not in hidden
    ]
    if lines:
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()  # once a line of input: who feeds a pipe line by line reads what it caused


def _stop_at_rejection(number: int, caused: Iterable[Event]) -> None:
    for event in caused:
        if isinstance(event, FactRejected):
            where = f"field {event.field!r}: " if event.field else ""
            raise Failure(
                f"line {number}: {event.fact_kind or 'this line'} is refused: {where}{event.value!r}: {event.rule}",
                remedy=sentence(event.reason),
            )


def _summarise(rehearsal: Rehearsal, queued: int) -> None:
    """Say what became of each operation: counts, then a table of the first ones."""
    shard = rehearsal.shard
    rows = [_summary_row(operation) for operation in shard.operations.values()]
    counts = Counter(row["state"] for row in rows)
    forgotten = queued - len(rows)
    parts = [f"{count} {state}" for state, count in sorted(counts.items())]
    if forgotten:
        parts.append(f"{forgotten} forgotten")
    note(f"{shard.seq} events, at {rehearsal.now_us or 0} us; operations: {', '.join(parts) or 'none'}")
    if rows:
        columns = (
            "operation",
            "client_operation_id",
            "state",
            "worker",
            Column("job_failures", align="right"),
            Column("worker_losses", align="right"),
            Column("free_requeues", align="right"),
        )
        more = f"and {len(rows) - _SUMMARY_ROWS} more" if len(rows) > _SUMMARY_ROWS else ""
        emit(rows[:_SUMMARY_ROWS], "table", columns, footer=more, file=sys.stderr)


def _summary_row(operation: Operation) -> dict[str, Any]:
    dispatch = operation.dispatch
    return {
        "operation": f"{operation.instance}/op-{operation.operation_id}",
        "client_operation_id": operation.client_operation_id,
        "state": (operation.outcome if operation.stage is Stage.FINISHED else operation.stage).name.lower(),
        "worker": dispatch.worker.endpoint if dispatch is not None else "",
        "job_failures": operation.job_failures,
        "worker_losses": operation.worker_losses,
        "free_requeues": operation.free_requeues,
    }
