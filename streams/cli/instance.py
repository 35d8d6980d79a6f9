"""`headway instance list | pause | resume`: the scheduling domains."""

from __future__ import annotations

import sys

import click

from events.facts import InstancePaused, InstanceResumed
from streams.cli.changing import change, wait_options
from streams.cli.output import Column, output_option, show, watch_option
from streams.cli.reading import views_option
from streams.cli.tables import answer_age, counted, pairs_shown
from streams.settings import load_settings
from streams.views import Views


@click.group("instance")
def command() -> None:
    """List instances, pause and resume their placing."""


@command.command("list")
@views_option
@output_option
@watch_option
def list_instances(views: Views, output: str, watch: float | None) -> None:
    """Show instances with their queue, runs and fleet."""
    columns = [
        Column("name", "instance"),
        Column("shard", align="right"),
        Column("paused"),
        Column("queued", align="right"),
        Column("executing", align="right"),
        Column("finished", align="right"),
        Column("workers", align="right"),
        Column("dispatches", align="right"),
        Column("outcomes", show=pairs_shown),
        Column("requeues", show=pairs_shown),
    ]
    show(
        views.instances,
        output,
        lambda answer: answer["instances"],
        columns,
        footer_of=lambda answer: f"{counted(answer['instances'], 'instance')}; {answer_age(answer)}",
        watch=watch,
    )


@command.command()
@click.argument("names", nargs=-1, required=True, metavar="INSTANCE...")
@wait_options
@output_option
def pause(names: tuple[str, ...], wait: bool, timeout_s: float, output: str) -> None:
    """Place nothing in these instances until they are resumed. What runs goes on, facts are taken as ever."""
    facts = [(name, InstancePaused(name)) for name in dict.fromkeys(names)]
    sys.exit(
        max(
            change(
                load_settings(),
                fact.instance,
                [(name, fact)],
                what="paused",
                wait=wait,
                timeout_s=timeout_s,
                output=output,
            )
            for name, fact in facts
        )
    )


@command.command()
@click.argument("names", nargs=-1, required=True, metavar="INSTANCE...")
@wait_options
@output_option
def resume(names: tuple[str, ...], wait: bool, timeout_s: float, output: str) -> None:
    """Place again."""
    facts = [(name, InstanceResumed(name)) for name in dict.fromkeys(names)]
    sys.exit(
        max(
            change(
                load_settings(),
                fact.instance,
                [(name, fact)],
                what="resumed",
                wait=wait,
                timeout_s=timeout_s,
                output=output,
            )
            for name, fact in facts
        )
    )
