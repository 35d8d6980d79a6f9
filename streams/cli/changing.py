"""What all commands share that change something: publish the facts, see what became of them, wait for the table, report.

A command's exit code is that of its worst fact: 0 done or already so, 1 refused or not possible, 4 what it names is unknown.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from events.facts import Fact
from events.reasons import IgnoreReason
from streams.cli.main import FAILED, NOT_FOUND, OK
from streams.cli.output import Column, emit, note, progress
from streams.connection import connected
from streams.effects import Effect, publish_and_see, publish_facts
from streams.settings import Settings
from streams.shard_map import read_shard_map
from streams.views import TableBehind, Views, ViewsUnreachable

Command = TypeVar("Command", bound=Callable[..., Any])

AT_ONCE = 500
"""Facts published and seen through before the next ones: bounds what a broken bulk command leaves half done."""

UNKNOWN = (IgnoreReason.UNKNOWN_OPERATION, IgnoreReason.UNKNOWN_WORKER)


def wait_options(command: Command) -> Command:
    """`--no-wait` and `--timeout` as the parameters `wait` and `timeout_s`."""
    timed = click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(0.1, 3600),
        default=15.0,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait for the decision, and for the table.",
    )
    waiting = click.option(
        "--wait/--no-wait", default=True, show_default=True, help="Wait until it is decided and stands in the table."
    )
    return waiting(timed(command))


def change(
    settings: Settings,
    instance: str,
    named: Sequence[tuple[str, Fact]],
    *,
    what: str,
    wait: bool,
    timeout_s: float,
    output: str,
) -> int:
    """Publish the facts of one instance, print what became of each, and return the exit code.

    Args:
        named: what each fact is about, for the report, and the fact.
        what: the verb of the report in the past tense ("cancelled").
    Raises:
        UnknownInstance: with the ones there are.
        NotDecided: no decider decided them in time.
    """
    if not named:
        emit([], output, ["target", "result"])
        return OK
    shard, effects = asyncio.run(_publish(settings, instance, [fact for _, fact in named], what, wait, timeout_s))
    rows = [_row(target, effect, shard, what, wait) for (target, _), effect in zip(named, effects, strict=True)]
    emit(rows, output, [Column("target"), Column("result"), Column("seq", align="right"), Column("reason")])
    if wait:
        _wait_for_table(settings, shard, max(effect.seq for effect in effects), timeout_s)
    if output != "json" and len(rows) > 1:
        done = sum(1 for row in rows if row["result"] == (what if wait else "published"))
        note(f"{done} of {len(rows)} {what if wait else 'published'}")
    return max(_exit_code(effect) for effect in effects)


async def _publish(
    settings: Settings, instance: str, facts: list[Fact], what: str, wait: bool, timeout_s: float
) -> tuple[int, list[Effect]]:
    async with connected(settings, client_id="headway-cli") as log:
        shard = (await read_shard_map(log)).shard_of(instance)
        if not wait:
            return shard, await publish_facts(log, shard, facts)
        effects: list[Effect] = []
        with progress(what, len(facts)) as advance:
            for begin in range(0, len(facts), AT_ONCE):
                part = facts[begin : begin + AT_ONCE]
                effects += await publish_and_see(log, shard, part, timeout_s=timeout_s)
                advance(len(part))
        return shard, effects


def _wait_for_table(settings: Settings, shard: int, seq: int, timeout_s: float) -> None:
    try:
        Views(settings.views_address).wait_for(shard, seq, timeout_s=timeout_s)
    except (ViewsUnreachable, TableBehind) as error:
        # The change is done and said; only the table that other commands show it from is not there yet.
        note(f"note: decided, but not in the table yet: {error.message}")


def _row(target: str, effect: Effect, shard: int, what: str, wait: bool) -> dict[str, Any]:
    if not wait:
        result = "published"
    elif effect.rejected is not None:
        result = "rejected"
    elif effect.unchanged:
        result = "unchanged"
    elif effect.ignored is not None:
        result = "ignored"
    else:
        result = what
    return {
        "target": target,
        "result": result,
        "shard": shard,
        "offset": effect.offset,
        "seq": effect.seq or None,
        "reason": effect.said,
    }


def _exit_code(effect: Effect) -> int:
    if effect.rejected is not None:
        return FAILED
    if effect.ignored is None or effect.unchanged:
        return OK
    return NOT_FOUND if effect.ignored.reason in UNKNOWN else FAILED


def confirmed(question: str, *, yes: bool) -> bool:
    """Ask before many things change, on a terminal only: a script has no one to answer, and said what it wants."""
    if yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    return click.confirm(question, err=True)
