"""`headway worker run`: run actions on this machine, or simulate workers that take their time and run nothing."""

from __future__ import annotations

import asyncio
import os
import platform
import secrets
import signal
from collections.abc import Sequence
from contextlib import AsyncExitStack
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import click

from events.values import Properties
from streams import log_lines
from streams.cli.blob_options import BlobChoice, blob_options
from streams.cli.main import FAILED, Failure
from streams.cli.numbers import FiniteRange
from streams.cli.process import bootstrap_option
from streams.connection import connected
from streams.settings import DEFAULT_INSTANCE, Settings, load_settings
from streams.shard_map import read_shard_map
from streams.worker.blobs import WorkerBlobs
from streams.worker.capacity import Amounts, Ledger
from streams.worker.executors import Executor, ProcessExecutor, SimulatedExecutor
from streams.worker.memory import GroupMemory, available_kib
from streams.worker.protocol import Identity, WorkerProtocol
from streams.worker.runtime import Surroundings, WorkerRuntime
from streams.worker.secret_source import SecretSource

CORE_MILLIS = 1_000
OWN_PROPERTIES = ("cpu_millis", "memory_kib")
MOST_WORKERS = 10_000


def properties_of(pairs: Sequence[str], amounts: Amounts) -> Properties:
    """What a worker registers: the options `--property NAME=VALUE`, and its amounts. Raises click.BadParameter."""
    found = {"cpu_millis": str(amounts.cpu_millis), "memory_kib": str(amounts.memory_kib)}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{pair!r} is not NAME=VALUE", param_hint="--property")
        if name in OWN_PROPERTIES:
            raise click.BadParameter(f"{name} is set by --cores and --memory-kib", param_hint="--property")
        if name in found:
            raise click.BadParameter(
                f"{name} is given twice; a worker has one value for each name", param_hint="--property"
            )
        found[name] = value
    return tuple(sorted(found.items()))


class _How(NamedTuple):
    """How runs are run."""

    simulate: bool
    scale: float
    secrets_dir: Path | None
    memory: GroupMemory | None
    blobs: BlobChoice | None


def draw() -> int:
    """64 random bits, never 0."""
    return secrets.randbits(64) or 1


@click.command(name="run")
@click.option("--cores", type=FiniteRange(min=0.001), required=True, help="Processors to lend, e.g. 4 or 0.5.")
@click.option("--memory-kib", type=click.IntRange(min=1), required=True, help="Memory to lend, in KiB.")
@click.option(
    "--property", "pairs", multiple=True, metavar="NAME=VALUE", help="A property to register; may be repeated."
)
@click.option("--instance", default=DEFAULT_INSTANCE, show_default=True, help="The instance to work for.")
@click.option("--name", metavar="ENDPOINT", help="The worker's endpoint [default: <host>-<process id>].")
@click.option("--max-inflight", type=click.IntRange(min=0), default=0, help="Most runs at once [default: 0, no limit].")
@click.option(
    "--admits-when-idle",
    is_flag=True,
    help="Tell the scheduler that, running nothing, this worker takes whatever fits what it lends, however little memory is free.",
)
@click.option(
    "--enforce-memory",
    is_flag=True,
    help="Kill a run that uses more memory than its action asked for and report it out of memory. Linux only.",
)
@click.option(
    "--secrets-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Holds the values of secrets, one file each; a secret without one is taken from HEADWAY_SECRET_<NAME>.",
)
@click.option(
    "--drain-timeout",
    type=FiniteRange(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="After SIGTERM, how long running actions may go on.",
)
@click.option(
    "--simulate", is_flag=True, help="Run nothing: take each action's expected duration, then report success."
)
@click.option(
    "--scale",
    type=FiniteRange(0, 1_000),
    default=1.0,
    show_default=True,
    help="With --simulate: multiply durations.",
)
@click.option(
    "--count",
    type=click.IntRange(1, MOST_WORKERS),
    help="With --simulate: so many workers in this process, named NAME-0, NAME-1, ...",
)
@blob_options
@bootstrap_option
@click.option(
    "--log-level", type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"]), default="INFO", show_default=True
)
def run(
    cores: float,
    memory_kib: int,
    pairs: tuple[str, ...],
    instance: str,
    name: str | None,
    max_inflight: int,
    admits_when_idle: bool,
    enforce_memory: bool,
    secrets_dir: Path | None,
    drain_timeout: float,
    simulate: bool,
    scale: float,
    count: int | None,
    blobs: BlobChoice | None,
    bootstrap_servers: str | None,
    log_level: str,
) -> None:
    """Take placements of one instance and run them.

    An action's command runs in a process group of its own and a fresh directory, with the environment that the action says, PATH,
    and nothing else. SIGTERM or Ctrl-C drains: nothing new is taken, what runs is reported, then the worker leaves with exit code
    0. A second one, or the drain timeout, kills what runs; the scheduler runs it elsewhere, and the exit code is 1.

    With --blobs-dir it keeps blobs: the inputs of an action are fetched before it runs and stand in $HEADWAY_INPUTS, named by their hex;
    files left in $HEADWAY_OUTPUTS are kept and served to others. Without, an action finds only what this machine has.

    Give a --name that stays the same over restarts: the worker then replaces its former self at once, not after a timeout.
    """
    if not simulate and count is not None:
        raise click.UsageError("--count goes with --simulate; a process runs one real worker")
    if simulate and secrets_dir is not None:
        raise click.UsageError("--secrets-dir does not go with --simulate, which runs nothing")
    if simulate and enforce_memory:
        raise click.UsageError("--enforce-memory does not go with --simulate, which runs nothing")
    if simulate and blobs is not None:
        raise click.UsageError("--blobs-dir does not go with --simulate, which runs nothing")
    if enforce_memory and not GroupMemory.is_possible():
        raise click.UsageError(
            "--enforce-memory needs /proc, which this machine has not; leave it out, or run the worker on Linux"
        )
    log_lines.configure(log_level)
    amounts = Amounts(round(cores * CORE_MILLIS), memory_kib)
    properties = properties_of(pairs, amounts)
    base = name or f"{platform.node() or 'worker'}-{os.getpid()}"
    endpoints = [base] if count is None else [f"{base}-{number}" for number in range(count)]
    if len(base) > 240 or base.split() != [base]:
        raise click.BadParameter(f"{base!r}: 1 to 240 characters without spaces", param_hint="--name")
    boot_epoch, build = draw(), f"headway {metadata.version('headway')}"
    workers = [
        WorkerProtocol(
            Identity(instance, endpoint, boot_epoch, properties, max_inflight, build, admits_when_idle),
            Ledger(amounts, max_inflight),
        )
        for endpoint in endpoints
    ]
    settings = load_settings(bootstrap_servers=bootstrap_servers)
    memory = GroupMemory() if enforce_memory else None
    how = _How(simulate, scale, secrets_dir, memory, blobs)
    exit_code = asyncio.run(_run(settings, instance, workers, how, drain_timeout))
    if exit_code:
        raise SystemExit(exit_code)


async def _run(
    settings: Settings,
    instance: str,
    workers: list[WorkerProtocol],
    how: _How,
    drain_timeout_s: float,
) -> int:
    async with connected(settings, client_id=f"headway-worker-{workers[0].identity.endpoint}") as log:
        shard = (await read_shard_map(log)).shard_of(instance)
        async with AsyncExitStack() as stack:
            executor: Executor
            blobs: WorkerBlobs | None = None
            if how.simulate:
                executor, surroundings = SimulatedExecutor(how.scale), Surroundings(draw)
            else:
                surroundings = Surroundings(draw, available_kib)
                if how.blobs is not None:
                    blobs = await stack.enter_async_context(how.blobs.opened(workers[0].identity, settings, draw))
                    workers[0].identity = workers[0].identity._replace(blobs_url=blobs.url)
                processes = ProcessExecutor(SecretSource(how.secrets_dir, os.environ), memory=how.memory)
                executor = processes if blobs is None else blobs.executor(processes)
            runtime = WorkerRuntime(log, shard, workers, executor, surroundings, blobs=blobs)
            _on_signals(runtime, drain_timeout_s)
            exit_code = await runtime.run()
    failed = [f"{endpoint}: {stop.why}" for endpoint, stop in runtime.stops.items() if stop.exit_code]
    if failed:
        more = f" (and {len(failed) - 3} more)" if len(failed) > 3 else ""
        raise Failure("; ".join(failed[:3]) + more, code="worker-stopped", exit_code=FAILED)
    return exit_code


def _on_signals(runtime: WorkerRuntime, drain_timeout_s: float) -> None:
    """The first SIGTERM or SIGINT drains, the second abandons."""
    loop = asyncio.get_running_loop()
    asked = False

    def received() -> None:
        nonlocal asked
        if asked:
            runtime.abandon("stopped by a second signal")
        else:
            asked = True
            runtime.drain(round(drain_timeout_s * 1e6))

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, received)


command = run
