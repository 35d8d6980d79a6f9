"""`headway decider run`: the process that decides. Start a second one with `--rank 1` elsewhere and it stands by."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from pathlib import Path
from typing import Final

import click

from streams.cli.process import (
    bootstrap_option,
    chosen_shards,
    home_option,
    log_level_option,
    shards_option,
    stop_on_signals,
)
from streams.connection import connected
from streams.decider import Decider, DeciderOptions, run_deciders
from streams.health import HealthEndpoint
from streams.leadership import Limits
from streams.log_lines import configure, say
from streams.settings import Settings, load_settings

GATHER_MS: Final = 30

_log = logging.getLogger("headway.decider")


@click.group()
def command() -> None:
    """Run the decider of one or several shards."""


@command.command()
@shards_option("A shard to decide for")
@click.option(
    "--rank",
    type=click.IntRange(0, 100),
    default=0,
    show_default=True,
    help="Place in the line of standbys: each takes over 300 ms later than the one before.",
)
@click.option(
    "--claim",
    is_flag=True,
    help="Take the shards at once, fencing a decider that may be at work. For where no other is meant to run.",
)
@click.option(
    "--skip-lost-facts",
    is_flag=True,
    help="Go on where retention removed facts that were never decided, instead of refusing to start.",
)
@click.option(
    "--commit-timeout-ms",
    type=click.IntRange(1_000, 900_000),
    default=Limits().commit_timeout_ms,
    show_default=True,
    help="How long a transaction may take before its outcome counts as unknown.",
)
@click.option(
    "--gather-ms",
    type=click.IntRange(0, 1_000),
    default=GATHER_MS,
    show_default=True,
    help="Where facts trickle, the least between two transactions: fewer of them spare processor time, and cost up to so much latency. "
    "Single facts and streams do not wait.",
)
@click.option(
    "--health-port", type=click.IntRange(0, 65535), help="Serve /healthz and /stats on 127.0.0.1 [default: off]."
)
@home_option
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where it keeps what endpoints hold, for configurations with prefer_from_bytes; several deciders may share it "
    "[default: <home>/decider/<topic prefix or default>].",
)
@bootstrap_option
@log_level_option
def run(
    shards: tuple[int, ...],
    rank: int,
    claim: bool,
    skip_lost_facts: bool,
    commit_timeout_ms: int,
    gather_ms: int,
    health_port: int | None,
    home: str | None,
    data_dir: Path | None,
    bootstrap_servers: str | None,
    log_level: str,
) -> None:
    """Decide until SIGTERM or SIGINT; then the batch at hand is finished and everything closed.

    Exit code 1 when the decider of a shard had to stop: a damaged event log, another cluster than the recorded one, missing topics.
    """
    configure(log_level.upper())
    # A life cycle leaves some twenty objects behind that are no garbage; looking for cycles after every 700 costs a fifth.
    gc.set_threshold(50_000, 20, 50)
    settings = load_settings(home=home, bootstrap_servers=bootstrap_servers)
    options = DeciderOptions(
        rank=rank,
        claim=claim,
        skip_lost_facts=skip_lost_facts,
        limits=Limits(commit_timeout_ms=commit_timeout_ms, gather_us=1_000 * gather_ms),
        data_dir=data_dir or settings.home / "decider" / (settings.topic_prefix or "default"),
    )
    errors = asyncio.run(_run(settings, shards, options, health_port))
    if errors:
        if len(errors) == 1:
            raise errors[0]
        sys.exit(1)  # each was said when it happened


async def _run(
    settings: Settings, shards: tuple[int, ...], options: DeciderOptions, health_port: int | None
) -> list[Exception]:
    stop = stop_on_signals()
    async with connected(settings, client_id="headway-decider") as log:
        numbers = await chosen_shards(log, shards)
        deciders = [Decider(log, number, options=options) for number in numbers]
        endpoint = None
        if health_port is not None:
            endpoint = HealthEndpoint([decider.stats for decider in deciders], health_port)
            await endpoint.start()
        try:
            say(
                _log,
                logging.INFO,
                "started",
                shards=numbers,
                rank=options.rank,
                health=None if endpoint is None else f"http://127.0.0.1:{endpoint.port}",
            )
            return await run_deciders(deciders, stop)
        finally:
            if endpoint is not None:
                await endpoint.close()
