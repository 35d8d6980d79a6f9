"""`headway hints load`: resource hints of an instance from a file, once or whenever it changes (D3)."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

import click

from events.facts import HintsLoaded
from streams.cli.changing import change, wait_options
from streams.cli.numbers import FiniteRange
from streams.cli.output import output_option
from streams.cli.process import stop_on_signals
from streams.connection import connected
from streams.edges.hints import Form, HintFile, UnreadableHints, read_hints
from streams.effects import NotDecided, publish_and_see
from streams.errors import LogUnavailable, OutcomeUnknown, Refused
from streams.log import Log
from streams.log_lines import configure, say
from streams.settings import DEFAULT_INSTANCE, Settings, load_settings
from streams.shard_map import read_shard_map
from streams.ticker import pause

_log = logging.getLogger("headway.hints")


@click.group("hints")
def command() -> None:
    """Load resource hints: what actions of a kind have needed before."""


@command.command("load")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--instance", default=DEFAULT_INSTANCE, show_default=True, metavar="NAME")
@click.option("--format", "form", type=click.Choice(["json", "csv"]), help="[default: by the name's ending]")
@click.option(
    "--every",
    "every_s",
    type=FiniteRange(min=0),
    default=0.0,
    show_default=True,
    metavar="SECONDS",
    help="Stay, look again this often and load the file when it has changed; 30 is usual. 0: load it once.",
)
@wait_options
@output_option
def load(
    file: Path, instance: str, form: Form | None, every_s: float, wait: bool, timeout_s: float, output: str
) -> None:
    """Replace the resource hints of an instance by those in FILE (JSON or CSV).

    \b
    target_id,mnemonic,cpu_millis,memory_kib
    //app:test,,,4194304
    ,CppLink,2000,

    They raise what actions ask for, and never lower it, in an instance whose configuration has a scheduler of kind
    historical_resource; 0 or nothing is no hint. With --every, a file that cannot be read is said, and the hints in force stay.
    """
    settings = load_settings()
    found = read_hints(file, form)
    if every_s:
        configure("INFO")
        asyncio.run(_keep_loaded(settings, file, instance, form, every_s, timeout_s))
        return
    fact = HintsLoaded(instance, found.hints)
    named = [(f"{len(found.hints)} hints", fact)]
    sys.exit(change(settings, instance, named, what="loaded", wait=wait, timeout_s=timeout_s, output=output))


async def _keep_loaded(
    settings: Settings, path: Path, instance: str, form: Form | None, every_s: float, timeout_s: float
) -> None:
    stop = stop_on_signals()
    async with connected(settings, client_id="headway-hints") as log:
        shard = (await read_shard_map(log)).shard_of(instance)
        await keep_loaded(log, shard, instance, path, form, stop=stop, every_s=every_s, timeout_s=timeout_s)


async def keep_loaded(
    log: Log,
    shard: int,
    instance: str,
    path: Path,
    form: Form | None = None,
    *,
    stop: asyncio.Event,
    every_s: float,
    timeout_s: float = 15.0,
) -> None:
    """Load a file now and whenever its content has changed, until `stop`.

    A file that cannot be read, or whose hints the log or the decider refuses, is said once, and the hints in force stay. A log
    that is away is tried again at the next look.
    """
    loaded: bytes | None = None
    refused = ""
    while not stop.is_set():
        try:
            found = await asyncio.to_thread(read_hints, path, form)
            if found.digest != loaded:
                await _load(log, shard, instance, path, found, timeout_s)
                loaded = found.digest
            refused = ""
        except (UnreadableHints, Refused, _NotTaken) as error:
            if str(error) != refused:
                say(_log, logging.ERROR, "the hints in force stay", instance=instance, error=str(error))
            refused = str(error)
        except (LogUnavailable, OutcomeUnknown, NotDecided) as error:
            say(_log, logging.WARNING, "hints wait for the log", instance=instance, error=str(error))
        await pause(stop, every_s)


class _NotTaken(Exception):
    """The decider refused the hints."""


async def _load(log: Log, shard: int, instance: str, path: Path, found: HintFile, timeout_s: float) -> None:
    (effect,) = await publish_and_see(log, shard, [HintsLoaded(instance, found.hints)], timeout_s=timeout_s)
    if effect.rejected is not None or (effect.ignored is not None and not effect.unchanged):
        raise _NotTaken(f"{path}: {effect.said}")
    say(_log, logging.INFO, "loaded", instance=instance, hints=len(found.hints), file=str(path), seq=effect.seq)
