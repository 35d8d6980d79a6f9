"""`headway state-table run`: the read side, a Faust worker in this process."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from streams.cli.process import bootstrap_option, log_level_option, stop_on_signals
from streams.local_tables import LocalTables
from streams.log_lines import configure, say
from streams.place import Place, place_of
from streams.settings import load_settings

if TYPE_CHECKING:
    from streams.state_table import StateTable

STOP_S = 4.0
"""Leaving the group takes tenths of a second; a broker that is away must not hold the process."""

GROUP_AFTER_S = 2.0
"""The table catches up alone for so long at most before the group is joined: loading Faust would slow the first answer, and a
static member has to be back before its session ends."""

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
@bootstrap_option
@click.option(
    "--web-port", type=click.IntRange(1, 65535), help="Port of the views on 127.0.0.1 [env HEADWAY_WEB_PORT; 8087]."
)
@click.option(
    "--group",
    default=Place.__dataclass_fields__["group"].default,
    show_default=True,
    help="Consumer group. Tables of one group share the shards; a table with a group of its own holds all of them.",
)
@log_level_option
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


async def run_until_told(place: Place, tables: LocalTables | None = None) -> None:
    """Run a state table until SIGTERM or SIGINT.

    Raises whatever kept it from starting: NoSuchTopic, StoreLocked, LogUnavailable, PortTaken.
    """
    told = stop_on_signals()
    tables = tables or LocalTables(place)
    say(_log, logging.INFO, "starting", data_dir=str(place.data_dir), views=f"http://127.0.0.1:{place.web_port}")
    working = asyncio.ensure_future(_answer(tables))
    stopping = asyncio.ensure_future(told.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        # However far it has come: the gate of the start is not asked.
        for task in (working, stopping):
            task.cancel()
        await asyncio.wait({working, stopping})
        await tables.close()
        say(_log, logging.INFO, "stopped")


async def _answer(tables: LocalTables) -> None:
    """Listen, catch up, then read as a member of the group, until cancelled."""
    await tables.listen()
    await tables.recover()
    await tables.wait_until_open(GROUP_AFTER_S)
    # In a thread, because it takes a second in which requests would not be answered.
    table = (await asyncio.to_thread(importlib.import_module, "streams.state_table")).StateTable(tables)
    await _be_member(table)


async def _be_member(table: StateTable) -> None:
    app = table.app
    try:
        # `start` returns after the first join of the group, and a crash later on raises nothing: it is watched for.
        await app.start()
        while not (app.should_stop or app.crashed):  # noqa: ASYNC110 (Faust sets no event)
            await asyncio.sleep(0.2)
        table.tables.die("Faust stopped", app.crash_reason or RuntimeError("Faust's app stopped by itself"))
    finally:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(app.stop(), STOP_S)
