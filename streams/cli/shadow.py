"""`headway shadow`: this build decides again what another one decides on the cluster, and says where it would have decided otherwise."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import sys
from contextlib import aclosing
from typing import Any

import click

from streams.audit import audits, divergence_json, standings, this_auditor
from streams.cli.events import fields_shown
from streams.cli.main import CHECK_FAILED, FAILED
from streams.cli.output import Column, duration, emit, emit_line, output_option, printable
from streams.cli.process import (
    bootstrap_option,
    chosen_shards,
    home_option,
    log_level_option,
    shards_option,
    stop_on_signals,
)
from streams.connection import connected
from streams.health import HealthEndpoint
from streams.log_lines import configure, say
from streams.settings import Settings, load_settings
from streams.shadow import Shadow

_log = logging.getLogger("headway.shadow")


@click.group()
def command() -> None:
    """Let another build decide beside the one that leads, and say where it differs."""


@command.command()
@shards_option("A shard to judge")
@click.option(
    "--until-caught-up", is_flag=True, help="End at what is the log's end now; exit code 3 if this build differs."
)
@click.option(
    "--health-port", type=click.IntRange(0, 65535), help="Serve /healthz and /stats on 127.0.0.1 [default: off]."
)
@home_option
@bootstrap_option
@log_level_option
def run(
    shards: tuple[int, ...],
    until_caught_up: bool,
    health_port: int | None,
    home: str | None,
    bootstrap_servers: str | None,
    log_level: str,
) -> None:
    """Follow the log and decide every fact again, until SIGTERM or SIGINT. Writes to the audit topic and nowhere else.

    Exit code 1 when a shard cannot be judged on (a damaged log, another process of this shadow). With --until-caught-up: 0 when this build
    decided all that it judged as it stands in the log, runs before this one included, 3 when not.
    """
    configure(log_level.upper())
    gc.set_threshold(50_000, 20, 50)  # as a decider's
    settings = load_settings(home=home, bootstrap_servers=bootstrap_servers)
    shadows, errors = asyncio.run(_run(settings, shards, until_caught_up, health_port))
    if until_caught_up:
        for shadow in shadows:
            _sum_up(shadow)
    if errors:
        if len(errors) == 1:
            raise errors[0]
        sys.exit(FAILED)  # each was said when it happened
    if until_caught_up:
        if not all(shadow.caught_up for shadow in shadows):
            sys.exit(FAILED)  # stopped before
        if any(shadow.stats.judged.divergences for shadow in shadows):
            sys.exit(CHECK_FAILED)


async def _run(
    settings: Settings, shards: tuple[int, ...], until_caught_up: bool, health_port: int | None
) -> tuple[list[Shadow], list[Exception]]:
    stop = stop_on_signals()
    auditor = this_auditor()
    errors: list[Exception] = []
    async with connected(settings, client_id="headway-shadow") as log:
        shadows = [Shadow(log, number, auditor=auditor) for number in await chosen_shards(log, shards)]
        endpoint = None
        if health_port is not None:
            endpoint = HealthEndpoint([shadow.stats for shadow in shadows], health_port)
            await endpoint.start()

        async def judge(shadow: Shadow) -> None:
            try:
                await shadow.run(stop, until_caught_up=until_caught_up)
            except Exception as error:
                # What stops one shard does not stop the others; it is raised or counted at the end.
                errors.append(error)
                say(_log, logging.ERROR, "a shard cannot be judged on", shard=shadow.shard, error=str(error))

        try:
            health = None if endpoint is None else f"http://127.0.0.1:{endpoint.port}"
            say(
                _log,
                logging.INFO,
                "started",
                auditor=auditor,
                shards=[shadow.shard for shadow in shadows],
                health=health,
            )
            await asyncio.gather(*(judge(shadow) for shadow in shadows))
        finally:
            if endpoint is not None:
                await endpoint.close()
    return shadows, errors


def _sum_up(shadow: Shadow) -> None:
    stats, judged = shadow.stats, shadow.stats.judged
    said = f"shard {stats.shard}: {judged.facts} facts judged up to event {stats.seq}, {judged.divergences} decided otherwise"
    if judged.not_judged:
        said += f"; {judged.not_judged} older facts are gone and were followed"
    click.echo(said)


@command.command("list")
@shards_option("Of which shard")
@click.option("--auditor", metavar="TEXT", default="", help="Only of auditors with this in their name.")
@click.option("--follow/--no-follow", default=False, help="Go on with what comes, until Ctrl-C.")
@output_option
def list_divergences(shards: tuple[int, ...], auditor: str, follow: bool, output: str) -> None:
    """Print where builds would have decided otherwise, one divergence a line: as JSON with the events of both sides."""
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_list(shards, auditor, follow, output))


async def _list(shards: tuple[int, ...], auditor: str, follow: bool, output: str) -> None:
    async with connected(load_settings(), client_id="headway-shadow") as log:

        async def show(shard: int) -> None:
            async with aclosing(audits(log, shard, follow=follow)) as found:
                async for record, message in found:
                    if message.WhichOneof("kind") == "shadow_diverged" and auditor in message.auditor:
                        _print(divergence_json(record, message, shard), output)

        numbers = await chosen_shards(log, shards)
        if follow:
            await asyncio.gather(*(show(number) for number in numbers))
        else:
            for number in numbers:
                await show(number)


def _print(said: dict[str, Any], output: str) -> None:
    if output == "json":
        emit_line(said)
        return
    fact = f"fact {said['cause_offset']}" + (f" ({said['fact_kind']})" if said["fact_kind"] else "")
    lines = [f"shard {said['shard']} event {said['seq']} at offset {said['offset']}, {fact}: {said['sentence']}"]
    if said["fields"]:
        lines.append(f"  differs in {', '.join(said['fields'])}")
    if said["error"]:
        lines.append(f"  {said['error']}")
    lines.append(f"  recorded by {said['build'] or 'an unnamed build'}: {_first_of('recorded', said)}")
    lines.append(f"  decided by {said['auditor']}: {_first_of('decided', said)}")
    click.echo(printable("\n".join(lines)))


def _first_of(side: str, said: dict[str, Any]) -> str:
    """The event of one side from which on they differ, and how many come behind it."""
    behind = said[f"{side}_count"] - said["shown_from"] - 1
    if behind < 0:
        return "nothing"
    events = said[side]
    shown = f"{events[0]['kind']} {fields_shown(events[0])}".rstrip() if events else "an event too large to be shown"
    return f"{shown}, and {behind} more" if behind else shown


@command.command()
@shards_option("Of which shard")
@output_option
def status(shards: tuple[int, ...], output: str) -> None:
    """Show how far each build has judged each shard, and in how many facts it differs."""
    emit(asyncio.run(_status(shards)), output, COLUMNS)


COLUMNS = (
    Column("shard", align="right"),
    "auditor",
    Column("seq", align="right"),
    Column("behind", align="right"),
    Column("facts", "judged", "right"),
    Column("not_judged", align="right"),
    Column("divergences", "decided otherwise", "right"),
    Column("age_us", "said", "right", duration),
    Column("differences", show=lambda counts: ", ".join(f"{name} {count}" for name, count in counts.items())),
)


async def _status(shards: tuple[int, ...]) -> list[dict[str, Any]]:
    async with connected(load_settings(), client_id="headway-shadow") as log:
        return [row for shard in await chosen_shards(log, shards) for row in await standings(log, shard)]
