"""`headway up`: broker, topics, decider, edges, read side and views, snapshots on this machine, until Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus

import aiohttp
import click
import psutil

from streams.broker import BrokerEndpoint, BrokerSettings, bring_down, bring_up, status
from streams.cli.numbers import FiniteRange
from streams.cli.process import stop_on_signals
from streams.embedded import Embedded
from streams.health import LOOPBACK, check_port
from streams.kafka_log import KafkaLog
from streams.provisioning import Provisioned, parse_assignment, provision, shards_of
from streams.settings import Settings, load_settings
from streams.supervisor import Part, Supervisor
from streams.ticker import pause
from streams.worker.capacity import Amounts

_READY_S = 120.0
_LOOK_S = 0.2


def say(line: str) -> None:
    """One line for a person, on standard error."""
    click.echo(line, err=True)


@click.command("up")
@click.option("--home", type=click.Path(file_okay=False), help="Where everything lives [env HEADWAY_HOME].")
@click.option(
    "--instance",
    "instances",
    multiple=True,
    metavar="NAME[=SHARD]",
    help="An instance to have; several may be given [default: those there are, else main].",
)
@click.option("--shards", type=click.IntRange(1, 10_000), help="Partitions per topic [default: as they are, else 1].")
@click.option("--web-port", type=click.IntRange(1, 65535), help="Port of the views [env HEADWAY_WEB_PORT; 8087].")
@click.option("--keep-broker", is_flag=True, help="Leave the broker running at the end.")
@click.option(
    "--logs",
    type=click.Choice(["files", "stderr"]),
    default="files",
    show_default=True,
    help="Where the parts' log lines go: <home>/log, or here.",
)
@click.option("--embedded", is_flag=True, help="All in this process on a log in memory. NOTHING IS KEPT.")
@click.option(
    "--worker-cores",
    type=FiniteRange(min=0),
    help="With --embedded: processors its own worker lends [default: all; 0: no worker].",
)
def command(
    home: str | None,
    instances: tuple[str, ...],
    shards: int | None,
    web_port: int | None,
    keep_broker: bool,
    logs: str,
    embedded: bool,
    worker_cores: float | None,
) -> None:
    """Run everything on this machine: broker, topics, decider, edges, read side and its views, snapshots, until SIGINT or SIGTERM.

    A part that crashes is started again, after a pause that grows. The decider claims every shard at its start, so a decider that runs
    elsewhere on the same cluster is fenced and stands by. Run workers beside it with `headway worker run`. A broker that
    ran before is used and left running.
    """
    settings = load_settings(home=home, web_port=web_port)
    asked = dict(parse_assignment(text) for text in instances)
    if embedded:
        with _signals_interrupt():
            asyncio.run(_run_embedded(settings, asked, shards, worker_cores))
        return
    if worker_cores is not None:
        raise click.UsageError("--worker-cores goes with --embedded; run `headway worker run` beside `headway up`")
    _run_on_kafka(settings, asked, shards, keep_broker=keep_broker, logs=logs)


# -- on Kafka -----------------------------------------------------------------------------------------------------------------


def _run_on_kafka(
    settings: Settings, instances: Mapping[str, int | None], shards: int | None, *, keep_broker: bool, logs: str
) -> None:
    # Before anything is started: a second `up` in a home would fence the decider of the first, and its read side could only crash.
    check_port("the views", settings.web_port)
    of_environment = replace(BrokerSettings.from_environment(os.environ), bootstrap_servers=settings.bootstrap_servers)
    running_before = _runs_already(settings, of_environment)
    with _signals_interrupt():
        try:
            endpoint = bring_up(settings.home, way=settings.broker, say=say, settings=of_environment)
            ran = " (it ran before)" if running_before else ""
            say(f"broker      Kafka {endpoint.version} at {endpoint.bootstrap_servers} ({endpoint.kind}){ran}")
            asyncio.run(_run_parts(settings, endpoint, instances, shards, logs))
        except KeyboardInterrupt:
            say("stopped before everything was up")
        finally:
            # Only the broker that this process started: meanwhile it may have been stopped, and another started for somebody else.
            ended = not keep_broker and not running_before
            if ended and bring_down(settings.home, only_own=True, say=say, settings=of_environment):
                say("broker      stopped; its data stay")


def _runs_already(settings: Settings, of_environment: BrokerSettings) -> bool:
    return status(settings.home, settings=of_environment) is not None


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Let SIGTERM interrupt what is not asynchronous the way Ctrl-C does, so that what was started is ended."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


async def _run_parts(
    settings: Settings, endpoint: BrokerEndpoint, instances: Mapping[str, int | None], shards: int | None, logs: str
) -> None:
    stop = stop_on_signals()
    provisioned, count = await _provision(settings, endpoint, instances, shards)
    for line in provisioned.done:
        say(f"  {line}")
    placed = ", ".join(f"{name} in shard {shard}" for name, shard in provisioned.shard_map.shards.items())
    say(f"topics      {count} shard(s); {placed}")
    environment = {
        **os.environ,
        "HEADWAY_HOME": str(settings.home),
        "HEADWAY_BOOTSTRAP_SERVERS": endpoint.bootstrap_servers,
        "HEADWAY_TOPIC_PREFIX": settings.topic_prefix,
        "HEADWAY_WEB_PORT": str(settings.web_port),
    }
    numbers = [argument for shard in range(count) for argument in ("--shard", str(shard))]
    parts = [
        Part("decider", ["decider", "run", "--claim", *numbers], environment),
        Part("edges", ["edges", "run", *numbers], environment),
        Part("read-side", ["state-table", "run"], environment),
        Part("snapshots", ["snapshot", "follow", *numbers], environment),
    ]
    directory = settings.home / "log" if logs == "files" else None
    supervisor = Supervisor(parts, log_directory=directory, say=say)
    where = f"; log lines in {directory}" if directory else ""
    say(f"decider     shards 0 to {count - 1}{where}" if count > 1 else f"decider     shard 0{where}")
    say(f"read side   {settings.views_address} (catching up)")
    supervising = asyncio.create_task(supervisor.run(stop))
    telling = asyncio.create_task(_tell_when_ready(settings, stop))
    try:
        await supervising
    finally:
        stop.set()
        await asyncio.wait([telling, supervising])
    say("decider, edges, read side and snapshots stopped")


async def _provision(
    settings: Settings, endpoint: BrokerEndpoint, instances: Mapping[str, int | None], shards: int | None
) -> tuple[Provisioned, int]:
    log = KafkaLog(endpoint.bootstrap_servers, prefix=settings.topic_prefix, client_id="headway-up")
    try:
        provisioned = await provision(log, instances, shards=shards)
        return provisioned, shards_of(await log.describe_topics())
    finally:
        await log.close()


async def _tell_when_ready(settings: Settings, stop: asyncio.Event) -> None:
    """Say once that the views answer with a table that is caught up."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _READY_S
    # Not in a thread, as the command line's own client would be: children are forked from this process.
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2)) as http:
        while not await _ready(http, settings.views_address):
            if loop.time() > deadline:
                say(f"read side   not ready after {_READY_S:.0f} s; its log lines say why")
                return
            if await pause(stop, _LOOK_S):
                return
    say("ready       Ctrl-C stops everything; try `headway status`")


async def _ready(http: aiohttp.ClientSession, address: str) -> bool:
    try:
        async with http.get(f"{address}/healthz") as answer:
            return answer.status == HTTPStatus.OK
    except (aiohttp.ClientError, TimeoutError):
        return False  # it starts, or is being started again


# -- in memory ----------------------------------------------------------------------------------------------------------------


async def _run_embedded(
    settings: Settings, instances: Mapping[str, int | None], shards: int | None, worker_cores: float | None
) -> None:
    stop = stop_on_signals()
    cores = float(psutil.cpu_count() or 1) if worker_cores is None else worker_cores
    memory_kib = psutil.virtual_memory().total // 2048
    worker = Amounts(round(cores * 1000), memory_kib) if cores > 0 else None
    embedded = await Embedded.start(instances, shards=shards, web_port=settings.web_port, worker=worker)
    say(
        "EMBEDDED: the log is in this process's memory. NOTHING IS KEPT, and no other process can reach it but over HTTP."
    )
    placed = ", ".join(f"{name} in shard {shard}" for name, shard in embedded.shard_map.shards.items())
    say(f"decider     {len(embedded.deciders)} shard(s); {placed}")
    if worker is not None:
        say(f"worker      one for each instance: {cores:g} cores, {memory_kib} KiB; it runs commands on this machine")
    say(f"read side   http://{LOOPBACK}:{embedded.web_port} (folded by the direct reader; Faust needs Kafka)")
    say(f"facts       POST http://{LOOPBACK}:{embedded.web_port}/v1/facts, JSON, one a line")
    await embedded.run(stop)
    say("stopped; nothing was kept")
