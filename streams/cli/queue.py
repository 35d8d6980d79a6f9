"""`headway queue list`: what waits, in the order in which it is dispatched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from streams.cli.output import Column, duration, output_option, show, watch_option
from streams.cli.reading import views_option
from streams.cli.tables import answer_age, counted, pairs_shown
from streams.views import PAGE, Answer, Views


@click.group("queue")
def command() -> None:
    """List what waits, in dispatch order."""


@command.command("list")
@click.option("--instance", metavar="NAME", help="Only this instance [default: all, one after the other].")
@click.option("--limit", type=click.IntRange(1, PAGE), default=50, show_default=True, help="At most so many.")
@views_option
@output_option
@watch_option
def list_queue(views: Views, instance: str | None, limit: int, output: str, watch: float | None) -> None:
    """Show waiting operations: the first one is asked first when room comes free. `headway explain operation` says why one waits."""
    columns = [
        Column("place", "#", "right"),
        Column("id", "operation"),
        Column("client_operation_id", "client operation"),
        Column("priority", align="right"),
        Column("waiting_us", "waiting", "right", duration),
        Column("requirements", show=pairs_shown),
        Column("note"),
    ]
    show(
        lambda: views.queue(instance=instance, limit=limit),
        output,
        lambda answer: [{**row, "note": _note(row)} for row in answer["operations"]],
        columns,
        footer_of=_footer,
        watch=watch,
    )


def _note(row: Mapping[str, Any]) -> str:
    said = []
    if row["unsatisfiable_since_us"] is not None:
        said.append("no worker could ever run it")
    if row["held_worker"] is not None:
        said.append(f"{row['held_worker']} is held for it")
    return ", ".join(said)


def _footer(answer: Answer) -> str:
    more = ", more than are shown" if answer["more"] else ""
    return f"{counted(answer['operations'], 'operation')} waiting{more}; {answer_age(answer)}"
