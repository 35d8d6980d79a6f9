"""`headway explain operation | hold | worker`: why it is so, now or as of an earlier moment, and the story of how it came to be so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from events import events as e
from events.reasons import Explanation, sentence
from projections import answers
from projections.explain import explain_hold, explain_operation
from projections.fleet import instance_rows
from projections.story.history import History
from projections.story.hold import (
    HoldTold,
    hold_made_at,
    holds_of_instance,
    holds_of_operation,
    holds_of_worker,
    nobody_held,
    outline,
    story_of_hold,
)
from projections.story.operation import story_of_operation
from projections.story.worker import story_of_worker
from streams.cli.explaining import hold_in_words, operation_in_words
from streams.cli.histories import Asked, history_for, moment_in
from streams.cli.main import NOT_FOUND, Failure
from streams.cli.moments import MOMENT
from streams.cli.output import emit, note, output_option, printable
from streams.cli.source import file_option
from streams.cli.tables import answer_age, parse_operation
from streams.cli.telling.hold import hold_told, holds_listed, nobody_told
from streams.cli.telling.operation import operation_told
from streams.cli.telling.worker import worker_told
from streams.connection import NoBroker
from streams.moments import Moment
from streams.settings import DEFAULT_INSTANCE, Settings, load_settings
from streams.views import Answer, NotInTable, NotReady, Views, ViewsUnreachable

OTHERS_LISTED = 20
"""Holds that are listed beside the one that is told, the latest."""

_NEAR = "`headway events tail --from-seq SEQ --limit 20` shows what happened around an event"


@click.group("explain")
def command() -> None:
    """Say why: why an operation waits or waited, what a hold was for and what it cost, what became of a worker."""


def _at_option(function: Callable[..., None]) -> Callable[..., None]:
    return click.option("--at", type=MOMENT, help="As of this event or time [default: now].")(function)


@command.command()
@click.argument("name", metavar="OPERATION")
@click.option("--instance", metavar="NAME", help="Where to look for it [default: everywhere; in the log: main].")
@_at_option
@click.option(
    "--at-placement",
    is_flag=True,
    help="As of the event before its last dispatch: why it waited until then, and why this worker and not another.",
)
@click.option("--now", is_flag=True, help="Only why it is where it is, from the state table, without its story.")
@file_option
@output_option
def operation(
    name: str, instance: str | None, at: Moment | None, at_placement: bool, now: bool, file: Path | None, output: str
) -> None:
    """Explain an operation, by INSTANCE/op-N, op-N, N or its client operation id.

    Why it is where it is: its place, who is ahead, what each worker lacks for it, the hold. Then its story from the log, also of one that
    is finished or forgotten: who went past it, what made room, each requeue with its cause, and how long it was in each state.
    """
    if at_placement and at is not None:
        raise click.UsageError("--at-placement and --at name two moments; give one of them")
    if now and (at is not None or at_placement or file is not None):
        raise click.UsageError("--now asks the state table, which knows the present only")
    settings = load_settings()
    present = None
    if at is None and not at_placement and file is None:
        present = _from_the_table(lambda views: views.explain_operation(name, instance=instance), settings, alone=now)
    if not now:
        where = instance or (present["operation"]["instance"] if present else parse_operation(name).instance)
        told = asyncio.run(_operation(settings, Asked(where, at, file), name, at_placement, present))
    else:
        told = present or {}
    _print(told, output, _operation_in_words)


@command.command()
@click.argument("name", metavar="[OPERATION|WORKER|INSTANCE|hold-SEQ]", required=False)
@click.option("--instance", metavar="NAME", help="Whose hold [default: that of NAME, else main].")
@_at_option
@click.option("--now", is_flag=True, help="Only the hold that stands, from the state table, without its story.")
@file_option
@output_option
def hold(name: str | None, instance: str | None, at: Moment | None, now: bool, file: Path | None, output: str) -> None:
    """Explain a hold: the last one for an operation, on a worker or of an instance, or the one that event SEQ made.

    Says why it was made and for whom, who went past, who else could have been held, what the worker still ran, why it moved or ended,
    what it kept idle and who waited for that; where there never was one, why not.
    """
    if now and (at is not None or file is not None):
        raise click.UsageError("--now asks the state table, which knows the present only")
    settings = load_settings()
    present = None
    if at is None and file is None and not _made_by(name):
        where = instance if name or instance else DEFAULT_INSTANCE
        present = _from_the_table(lambda views: views.explain_hold(name, instance=where), settings, alone=now)
    if not now:
        where = instance or (present["instance"] if present else parse_operation(name or "").instance)
        told = asyncio.run(_hold(settings, Asked(where, at, file), name, present))
    else:
        told = present or {}
    _print(told, output, _hold_in_words)


@command.command()
@click.argument("endpoint", metavar="WORKER")
@click.option("--instance", metavar="NAME", default=DEFAULT_INSTANCE, show_default=True, help="Whose worker.")
@_at_option
@click.option("--from", "since", type=MOMENT, help="From this event or time on [default: its first connection].")
@file_option
@output_option
def worker(
    endpoint: str, instance: str, at: Moment | None, since: Moment | None, file: Path | None, output: str
) -> None:
    """Explain a worker, also one that is long gone: its connections, drains, pauses and holds, each with its cause.

    How long it was in each state and how much of it was used, what it ran, and why it got nothing when it was idle.
    """
    told = asyncio.run(_worker(load_settings(), Asked(instance, at, file), endpoint, since))
    _print(told, output, lambda answer: worker_told(answer["story"]))


def _from_the_table(ask: Callable[[Views], Answer], settings: Settings, *, alone: bool) -> Answer | None:
    """What the state table says, or None where the log has to: it is not there, not complete, or has forgotten it."""
    try:
        return ask(Views(settings.views_address))
    except (ViewsUnreachable, NotReady) as error:
        if alone:
            raise
        note(f"from the log alone: {error.message}")
    except NotInTable:
        if alone:
            raise
    return None


async def _operation(settings: Settings, asked: Asked, name: str, at_placement: bool, present: Answer | None) -> Answer:
    try:
        async with history_for(settings, asked) as history:
            seq = moment_in(history, asked.at)
            identity = _identity(history, name, asked, seq)
            if at_placement:
                return _before_placement(history, identity, name)
            story = story_of_operation(history, identity, seq)
            if story is None:
                raise _not_there(history, name, seq)
            return {**(present or _as_of(history, identity, seq, story)), "story": story}
    except NoBroker as error:
        if present is None:
            raise
        note(f"its story stands in the log: {error.message}")
        return {**present, "story": None}


def _identity(history: History, name: str, asked: Asked, seq: int | None) -> int:
    """The operation that a person means, as it was called at the moment. Raises Failure when there was none."""
    named = [
        identity
        for identity in history.operations_named(name, asked.instance)
        if seq is None or any(told.event.seq <= seq for told in history.events_of_operation(identity)[:1])
    ]
    number = parse_operation(name).operation_id
    if named:
        return named[-1]
    if number is not None and history.events_of_operation(number):
        return number
    raise _not_there(history, name, seq)


def _not_there(history: History, name: str, seq: int | None) -> Failure:
    upto = history.last_seq if seq is None else seq
    return Failure(
        f"no operation {name!r} was queued in shard {history.shard} up to seq {upto}",
        code="not-found",
        exit_code=NOT_FOUND,
        remedy=f"Is it of another instance (--instance)? {_NEAR}",
    )


def _stamp(history: History, seq: int) -> Answer:
    return {"seq": seq, "age_ms": None, "shards": [{"shard": history.shard, "seq": seq, "age_ms": None}]}


def _as_of(history: History, identity: int, seq: int | None, story: Answer) -> Answer:
    """Why it was where it was, in the words of the present; of a forgotten one that it has ended."""
    moment = history.last_seq if seq is None else seq
    table = history.table_at(moment)
    row = answers.find(table, identity)
    if row is not None:
        return {**explain_operation(table, row), **_stamp(history, moment)}
    ended = [{"reason": Explanation.FINISHED.name.lower(), "sentence": sentence(Explanation.FINISHED)}]
    return {"operation": None, "reasons": ended, "waits": None, "runs": None, "ended": None, **_stamp(history, moment)}


def _before_placement(history: History, identity: int, name: str) -> Answer:
    """Why it waited until its last dispatch, and who held what of its inputs then. Raises Failure when it was never dispatched."""
    dispatches = [
        told.event for told in history.events_of_operation(identity) if isinstance(told.event, e.OperationDispatched)
    ]
    if not dispatches:
        told = story_of_operation(history, identity) or {}
        raise Failure(
            f"operation op-{identity} ({name}) is {told.get('stage')} and was never placed",
            code="not-placed",
            remedy="Without --at-placement it is explained as it stands now; --at takes any moment",
        )
    last = dispatches[-1]
    story = story_of_operation(history, identity, last.seq - 1)
    assert story is not None, "what is dispatched was queued before"
    # The rows before a dispatch cannot say what it was told of holders; the dispatch itself does.
    placed = {
        "endpoint": last.endpoint,
        "dispatch_id": last.seq,
        "holders": [{"endpoint": held.endpoint, "bytes": held.bytes} for held in last.holders],
        "saved_bytes": last.saved_bytes,
    }
    return {**_as_of(history, identity, last.seq - 1, story), "placed": placed, "story": story}


async def _hold(settings: Settings, asked: Asked, name: str | None, present: Answer | None) -> Answer:
    try:
        async with history_for(settings, asked) as history:
            seq = moment_in(history, asked.at)
            last_seq = history.last_seq if seq is None else seq
            lives, instance, identity = _lives(history, asked, name, last_seq)
            if present is None:
                present = _hold_as_of(history, instance, identity, last_seq)
            told = lives[-1] if lives else None
            others = [life for life in lives if life is not told][-OTHERS_LISTED:]
            return {
                **present,
                "story": None if told is None else story_of_hold(history, told, last_seq),
                "other_holds": [outline(history, life, last_seq) for life in others],
                "more_holds": max(0, len(lives) - 1 - OTHERS_LISTED),
                "nobody_held": [] if identity is None else nobody_held(history, identity, last_seq),
            }
    except NoBroker as error:
        if present is None:
            raise
        note(f"its story stands in the log: {error.message}")
        return {**present, "story": None, "other_holds": [], "more_holds": 0, "nobody_held": []}


def _lives(
    history: History, asked: Asked, name: str | None, last_seq: int
) -> tuple[Sequence[HoldTold], str, int | None]:
    """The holds that a name means, their instance, and the operation where it is one's name. Raises Failure when it names nothing."""
    table = history.table_at(last_seq)
    where = asked.instance or DEFAULT_INSTANCE
    made_by = _made_by(name)
    if made_by is not None:
        life = hold_made_at(history, made_by, last_seq)
        if life is None:
            raise Failure(
                f"event {made_by} of shard {history.shard} made no hold up to seq {last_seq}",
                code="not-found",
                exit_code=NOT_FOUND,
                remedy="`headway explain hold INSTANCE` lists the holds of an instance with their names",
            )
        return [life], life.event.instance, life.event.operation_id
    if name is None or any(row.name == name for row in instance_rows(table)):
        return holds_of_instance(history, name or where, last_seq), name or where, None
    number = parse_operation(name).operation_id
    identities = [*history.operations_named(name, asked.instance)] or ([] if number is None else [number])
    identities = [each for each in identities if history.events_of_operation(each)]
    if identities:
        queued = history.events_of_operation(identities[-1])[0].event
        instance = getattr(queued, "instance", "") or where
        return holds_of_operation(history, identities[-1], last_seq), instance, identities[-1]
    if history.events_of_worker(where, name):
        return holds_of_worker(history, where, name, last_seq), where, None
    raise Failure(
        f"{name!r} is no operation, worker or instance of shard {history.shard} up to seq {last_seq}",
        code="not-found",
        exit_code=NOT_FOUND,
        remedy="`headway explain hold` without a name tells of the instance's last hold and lists others",
    )


def _made_by(name: str | None) -> int | None:
    """The seq in `hold-SEQ`."""
    number = (name or "").removeprefix("hold-")
    return int(number) if name and number != name and number.isascii() and number.isdigit() else None


def _hold_as_of(history: History, instance: str, identity: int | None, seq: int) -> Answer:
    table = history.table_at(seq)
    row = next(instance_rows(table, instance), None)
    if row is None:
        raise Failure(
            f"instance {instance!r} is not in shard {history.shard} at seq {seq}", code="not-found", exit_code=NOT_FOUND
        )
    asked = None if identity is None else answers.find(table, identity)
    return {**explain_hold(table, row, asked), **_stamp(history, seq)}


async def _worker(settings: Settings, asked: Asked, endpoint: str, since: Moment | None) -> Answer:
    async with history_for(settings, asked) as history:
        seq = moment_in(history, asked.at)
        story = story_of_worker(history, asked.instance or DEFAULT_INSTANCE, endpoint, seq, moment_in(history, since))
        last_seq = history.last_seq if seq is None else seq
        if story is None:
            raise Failure(
                f"no worker {endpoint!r} connected to instance {asked.instance} in shard {history.shard} up to seq {last_seq}",
                code="not-found",
                exit_code=NOT_FOUND,
                remedy="`headway worker list` names those that are connected; --instance names another instance",
            )
        return {"story": story, **_stamp(history, last_seq)}


def _operation_in_words(answer: Answer) -> list[str]:
    lines = operation_in_words(answer) if answer["operation"] is not None else []
    story = answer.get("story")
    if story is None:
        return lines
    return [*lines, *([""] if lines else []), *operation_told(story)]


def _hold_in_words(answer: Answer) -> list[str]:
    lines = hold_in_words(answer)
    story = answer.get("story")
    if story is not None:
        lines += ["", *hold_told(story)]
    if answer.get("nobody_held"):
        lines += ["", *nobody_told(answer["nobody_held"])]
    others = answer.get("other_holds")
    if others:
        more = f" and {answer['more_holds']} before" if answer["more_holds"] else ""
        lines += ["", f"other holds{more}:", *(f"  {line}" for line in holds_listed(others))]
    return lines


def _print(answer: Answer, output: str, in_words: Callable[[Answer], list[str]]) -> None:
    if output == "json":
        emit(answer, output)
        return
    for line in in_words(answer):
        click.echo(printable(line))
    for part in answer["shards"]:
        earlier = f"as of seq {part['seq']} of shard {part['shard']}, folded from the log"
        click.echo(earlier if part["age_ms"] is None else answer_age(answer))
