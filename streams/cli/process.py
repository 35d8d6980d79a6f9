"""What commands that run until they are stopped share: options for where and how, which shards they serve, and the signal to stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any, TypeVar

import click

from streams.errors import NoSuchTopic
from streams.log import Log
from streams.topics import FACTS

Command = TypeVar("Command", bound=Callable[..., Any])

home_option = click.option(
    "--home", type=click.Path(file_okay=False), help="Where the broker's data live [env HEADWAY_HOME]."
)
bootstrap_option = click.option(
    "--bootstrap-servers", metavar="HOST:PORT[,...]", help="The cluster [env HEADWAY_BOOTSTRAP_SERVERS]."
)
log_level_option = click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="What is said on standard error, one line each.",
)


def shards_option(what: str) -> Callable[[Command], Command]:
    """`--shard`, any number of times, as `shards`; `what` a shard is asked for begins its help."""
    return click.option(
        "--shard",
        "shards",
        multiple=True,
        type=click.IntRange(min=0),
        help=f"{what}; several may be given [default: all].",
    )


async def chosen_shards(log: Log, shards: tuple[int, ...]) -> list[int]:
    """The shards that were named, in order; every shard that the topics have where none was.

    Raises:
        NoSuchTopic: none was named, and there are no topics yet.
    """
    if shards:
        return sorted({*shards})
    topics = await log.describe_topics()
    if FACTS not in topics:
        raise NoSuchTopic(FACTS, topics)
    return list(range(topics[FACTS].partitions))


def stop_on_signals() -> asyncio.Event:
    """Set at SIGTERM or SIGINT; called in the loop that waits for it."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop
