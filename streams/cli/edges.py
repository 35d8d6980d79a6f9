"""`headway edges run`: the process that answers what the scheduler asks of the world."""

from __future__ import annotations

import asyncio
import gc

import click

from streams.cli.process import (
    bootstrap_option,
    chosen_shards,
    home_option,
    log_level_option,
    shards_option,
    stop_on_signals,
)
from streams.connection import bootstrap_of
from streams.edges.cache import MOST_RESULTS
from streams.edges.running import EdgeOptions, ShardEdges, UpstreamLogs, run_edges
from streams.kafka_log import KafkaLog
from streams.log_lines import configure
from streams.settings import Settings, load_settings


@click.group("edges")
def command() -> None:
    """Answer what the scheduler asks of the world: the action cache, other schedulers."""


@command.command()
@shards_option("A shard to answer for")
@click.option(
    "--most-results",
    type=click.IntRange(min=0),
    default=MOST_RESULTS,
    show_default=True,
    help="Results of actions that the built-in cache holds for each shard; some 300 bytes each. 0: every look-up misses.",
)
@home_option
@bootstrap_option
@log_level_option
def run(
    shards: tuple[int, ...],
    most_results: int,
    home: str | None,
    bootstrap_servers: str | None,
    log_level: str,
) -> None:
    """Answer until SIGTERM or SIGINT.

    Look-ups of `cache_lookup` are answered from results in the log, operations of `upstream` are handed to the other scheduler and
    brought back. It keeps nothing and may be killed at any moment; a second one does no harm, its answers come second and are
    ignored. Without one, such operations wait. It reads the shards' events from the first one before it answers.
    """
    configure(log_level.upper())
    gc.set_threshold(50_000, 20, 50)
    settings = load_settings(home=home, bootstrap_servers=bootstrap_servers)
    asyncio.run(_run(settings, shards, EdgeOptions(most_results)))


async def _run(settings: Settings, shards: tuple[int, ...], options: EdgeOptions) -> None:
    stop = stop_on_signals()
    address = bootstrap_of(settings)
    log = KafkaLog(address, prefix=settings.topic_prefix, client_id="headway-edges")
    others = UpstreamLogs(log, address)
    try:
        numbers = await chosen_shards(log, shards)
        await run_edges([ShardEdges(log, number, others, options) for number in numbers], stop)
    finally:
        await others.close()
        await log.close()
