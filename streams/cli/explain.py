"""`headway explain operation | hold | worker`: why it is so, now or as of an earlier moment, and the story of how it came to be so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import click

from projections.story import asking
from streams.cli.explaining import hold_in_words, operation_in_words
from streams.cli.histories import Asked, history_for
from streams.cli.main import FAILED, NOT_FOUND, Failure
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
from streams.timeline import Timeline
from streams.views import Answer, NotInTable, NotReady, Views, ViewsUnreachable


@click.group("explain")
def command() -> None:
    """Say why: why an operation waits or waited, what a hold was for and what it cost, what became of a worker."""


_at_option = click.option("--at", type=MOMENT, help="As of this event or time [default: now].")


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
    if at is None and file is None and not asking.hold_number(name):
        where = instance if name or instance else DEFAULT_INSTANCE
        present = _from_the_table(lambda views: views.explain_hold(name, instance=where), settings, alone=now)
    if not now:
        where = instance or (present["instance"] if present else parse_operation(name or "").instance)
        told = asyncio.run(_hold(settings, Asked(where, at, file), name, present))
    else:
        told = present or {}
    _print(told, output, _one_hold_in_words if asking.hold_number(name) else _hold_in_words)


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
    async with _history(settings, asked, present) as history:
        if history is None:
            return {**(present or {}), "story": None}
        if at_placement:
            return asking.placement_told(history, name, asked.instance)
        told = asking.operation_told(history, name, asked.instance, _seq(history, asked.at))
        return {**told, **(present or {})}


async def _hold(settings: Settings, asked: Asked, name: str | None, present: Answer | None) -> Answer:
    async with _history(settings, asked, present) as history:
        if history is None:
            return {**(present or {}), "story": None, "other_holds": [], "more_holds": 0, "nobody_held": []}
        seq = _seq(history, asked.at)
        where = asked.instance or DEFAULT_INSTANCE
        told = asking.hold_told(history, name, where, seq, anywhere=asked.instance is None)
        return {**told, **(present or {})}


async def _worker(settings: Settings, asked: Asked, endpoint: str, since: Moment | None) -> Answer:
    async with _history(settings, asked, None) as history:
        assert history is not None, "without a present there is no other answer"
        where, seq = asked.instance or DEFAULT_INSTANCE, _seq(history, asked.at)
        return asking.worker_told(history, endpoint, where, seq, _seq(history, since, first=True))


def _seq(history: Timeline, moment: Moment | None, *, first: bool = False) -> int | None:
    """The event that a moment stands for; None for none. Raises NoSuchMoment."""
    return None if moment is None else history.seq_of(moment, first=first)


@asynccontextmanager
async def _history(settings: Settings, asked: Asked, present: Answer | None) -> AsyncIterator[Timeline | None]:
    """The history that is asked; None, said so, where there is no log and the present at least is known.

    Raises Failure for a name that means nothing in it.
    """
    try:
        async with history_for(settings, asked) as history:
            yield history
            return
    except NoBroker as error:
        if present is None:
            raise
        note(f"its story stands in the log: {error.message}")
    except asking.NothingTold as error:
        exit_code = NOT_FOUND if error.code == "not-found" else FAILED
        raise Failure(error.message, code=error.code, exit_code=exit_code, remedy=error.remedy) from error
    yield None


def _operation_in_words(answer: Answer) -> list[str]:
    lines = operation_in_words(answer) if answer["operation"] is not None else []
    story = answer.get("story")
    if story is None:
        return lines
    return [*lines, *([""] if lines else []), *operation_told(story)]


def _one_hold_in_words(answer: Answer) -> list[str]:
    """The hold that was asked for in front; how the instance stands, which may be held for somebody else by now, behind it."""
    stands = [f"  {line}" for line in hold_in_words(answer)]
    nobody = ["", *nobody_told(answer["nobody_held"])] if answer["nobody_held"] else []
    return [*hold_told(answer["story"]), *nobody, "", f"how it stands as of seq {answer['seq']}:", *stands]


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
