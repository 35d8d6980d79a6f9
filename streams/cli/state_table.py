"""`headway state-table run`: the read side, a Faust worker in this process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from dataclasses import replace
from pathlib import Path

import click

from streams.broker.ports import is_free
from streams.health import PortTaken
from streams.log_lines import configure, say
from streams.settings import load_settings
from streams.state_table import Place, StateTable, place_of

STOP_S = 4.0
"""Leaving the group takes tenths of a second; a broker that is away must not hold the process."""

_log = logging.getLogger("headway.state_table")


@click.group()
def command() -> None:
    """Run the read side: the scheduler state table and its views."""


@command.command()
@click.option("--home", type=click.Path(file_okay=False), help="Where the table lives [env HEADWAY_HOME].")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="The table's own directory, one per process [default: <home>/state-table/<topic prefix or default>].",
)
@click.option("--bootstrap-servers", metavar="HOST:PORT[,...]", help="The cluster [env HEADWAY_BOOTSTRAP_SERVERS].")
@click.option(
    "--web-port", type=click.IntRange(1, 65535), help="Port of the views on 127.0.0.1 [env HEADWAY_WEB_PORT; 8087]."
)
@click.option(
    "--group",
    default=Place.__dataclass_fields__["group"].default,
    show_default=True,
    help="Consumer group. Tables of one group share the shards; a table with a group of its own holds all of them.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="What is said on standard error, one line each.",
)
def run(
    home: str | None,
    data_dir: Path | None,
    bootstrap_servers: str | None,
    web_port: int | None,
    group: str,
    log_level: str,
) -> None:
    """Fold the event log into the state table and answer over HTTP, until SIGTERM or SIGINT.

    Exit code 1 when the table had to stop: a gap or a broken chain in the log, a read failure of the disk. What it had folded stays.
    """
    configure(log_level.upper())
    # Faust reports every step of a rebalance, and takes an idle stream for a stopped one; lag is watched here.
    for name in ("faust", "mode", "aiohttp", "streams.faust_transport"):
        logging.getLogger(name).setLevel(logging.DEBUG if log_level == "debug" else logging.ERROR)
    logging.getLogger("faust.transport.drivers.aiokafka").setLevel(logging.CRITICAL)
    settings = load_settings(home=home, bootstrap_servers=bootstrap_servers, web_port=web_port)
    place = replace(place_of(settings, data_dir), group=group)
    asyncio.run(run_until_told(place))


async def run_until_told(place: Place) -> None:
    """Run a state table until SIGTERM or SIGINT.

    Raises whatever kept it from starting: NoSuchTopic, StoreLocked, LogUnavailable, PortTaken.
    """
    if not is_free(place.web_port):  # before Faust, which would tell it in a traceback, after joining the group
        raise PortTaken("the views", place.web_port, "address already in use")
    table = StateTable(place)
    app, told = table.app, asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    say(_log, logging.INFO, "starting", data_dir=str(place.data_dir), views=f"http://127.0.0.1:{place.web_port}")
    # `start` returns after the first join of the group, and a crash later on raises nothing: it is watched for.
    starting, stopping = asyncio.ensure_future(app.start()), asyncio.ensure_future(told.wait())
    try:
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
        while not told.is_set():
            if app.should_stop or app.crashed:
                table.die("Faust stopped", app.crash_reason or RuntimeError("Faust's app stopped by itself"))
            await asyncio.wait({stopping}, timeout=0.2)
    finally:
        stopping.cancel()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(app.stop(), STOP_S)
        await table.close()
        say(_log, logging.INFO, "stopped")
