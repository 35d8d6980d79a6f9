"""`headway snapshot`: what deciders start from instead of the first event, and up to where facts may go."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
import sys
import time
from contextlib import aclosing
from typing import Any

import click

from events.snapshot import Manifest
from events.state import Shard
from streams.cli.main import CHECK_FAILED, FAILED
from streams.cli.numbers import FiniteRange
from streams.cli.output import Column, duration, emit, output_option, plural, size
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
from streams.log import Log
from streams.log_lines import configure, say
from streams.settings import Settings, load_settings
from streams.snapshots.apart import VerifyingApart
from streams.snapshots.errors import SnapshotUnusable
from streams.snapshots.following import Cadence, SnapshotFollower
from streams.snapshots.layout import Found
from streams.snapshots.reading import check_of_this_log, identity, manifest_of, newest_first, parts_in
from streams.snapshots.recovering import check_follows, state_now
from streams.snapshots.trimming import Margin, Trim, plan_trim, trim_facts
from streams.snapshots.verifying import snapshot_at, verify, verify_and_report

_log = logging.getLogger("headway.snapshots")
_CLIENT = "headway-snapshots"


@click.group()
def command() -> None:
    """List, write, verify and use snapshots of a shard's state."""


def this_process() -> str:
    """The name under which a follower of this process reports: another one in every process."""
    return f"{socket.gethostname()}-{os.getpid()}"


def _environment(settings: Settings) -> dict[str, str]:
    environment = {**os.environ, "HEADWAY_HOME": str(settings.home), "HEADWAY_TOPIC_PREFIX": settings.topic_prefix}
    if settings.bootstrap_servers is not None:
        environment["HEADWAY_BOOTSTRAP_SERVERS"] = settings.bootstrap_servers
    return environment


# -- follow -------------------------------------------------------------------------------------------------------------------


@command.command()
@shards_option("A shard to follow")
@click.option(
    "--every-events",
    type=click.IntRange(min=1),
    default=Cadence().every_events,
    show_default=True,
    help="Write one after so many events.",
)
@click.option(
    "--every-s",
    type=FiniteRange(min=0.1),
    default=Cadence().every_us / 1e6,
    show_default=True,
    help="Write one after so many seconds, where that saves a start anything.",
)
@click.option(
    "--health-port", type=click.IntRange(0, 65535), help="Serve /healthz and /stats on 127.0.0.1 [default: off]."
)
@home_option
@bootstrap_option
@log_level_option
def follow(
    shards: tuple[int, ...],
    every_events: int,
    every_s: float,
    health_port: int | None,
    home: str | None,
    bootstrap_servers: str | None,
    log_level: str,
) -> None:
    """Follow the log and keep a verified snapshot of each shard, until SIGTERM or SIGINT. One such process per shard is enough.

    Each snapshot is read back and its events are folded anew by another process; the log says when both agree. Exit code 3 when two folds
    differed while it ran, 1 when a shard cannot be followed.
    """
    configure(log_level.upper())
    gc.set_threshold(50_000, 20, 50)  # as a decider's
    settings = load_settings(home=home, bootstrap_servers=bootstrap_servers)
    cadence = _cadence(every_events, every_s)
    followers, errors = asyncio.run(_follow(settings, shards, cadence, health_port))
    if errors:
        if len(errors) == 1:
            raise errors[0]
        sys.exit(FAILED)  # each was said when it happened
    if any(follower.stats.diverged for follower in followers):
        sys.exit(CHECK_FAILED)


def _cadence(every_events: int, every_s: float) -> Cadence:
    """The asked one; what is asked for more often than by default is held back by nothing that is so by default."""
    usual, every_us = Cadence(), round(every_s * 1e6)
    if every_us >= usual.every_us:
        return Cadence(every_events, every_us, min(usual.worth_events, every_events))
    return Cadence(every_events, every_us, min(usual.worth_events, every_events), min(usual.gap_us, every_us), rest=0)


async def _follow(
    settings: Settings, shards: tuple[int, ...], cadence: Cadence, health_port: int | None
) -> tuple[list[SnapshotFollower], list[Exception]]:
    stop = stop_on_signals()
    errors: list[Exception] = []
    async with connected(settings, client_id=_CLIENT) as log:
        apart = VerifyingApart(_environment(settings))
        followers = [
            SnapshotFollower(log, number, name=this_process(), cadence=cadence, verifier=apart)
            for number in await chosen_shards(log, shards)
        ]
        endpoint = None
        if health_port is not None:
            endpoint = HealthEndpoint([follower.stats for follower in followers], health_port)
            await endpoint.start()

        async def run(follower: SnapshotFollower) -> None:
            try:
                await follower.run(stop)
            except Exception as error:
                # What stops one shard does not stop the others; it is raised or counted at the end.
                errors.append(error)
                say(_log, logging.ERROR, "a shard cannot be followed", shard=follower.shard, error=str(error))

        try:
            health = None if endpoint is None else f"http://127.0.0.1:{endpoint.port}"
            numbers = [follower.shard for follower in followers]
            say(_log, logging.INFO, "started", shards=numbers, health=health)
            await asyncio.gather(*(run(follower) for follower in followers))
        finally:
            if endpoint is not None:
                await endpoint.close()
    return followers, errors


# -- take, verify -------------------------------------------------------------------------------------------------------------


@command.command()
@shards_option("A shard to take one of")
@click.option(
    "--wait-s", type=FiniteRange(min=0), default=60.0, show_default=True, help="How long to wait for the log to say it."
)
@home_option
@bootstrap_option
def take(shards: tuple[int, ...], wait_s: float, home: str | None, bootstrap_servers: str | None) -> None:
    """Write a snapshot of the log's end, have it verified, and wait until the log says that both folds agree.

    Exit code 3 when they differ (the snapshot is taken back), 1 when no decider records it in time.
    """
    settings = load_settings(home=home, bootstrap_servers=bootstrap_servers)
    if not asyncio.run(_take(settings, shards, wait_s)):
        sys.exit(CHECK_FAILED)


async def _take(settings: Settings, shards: tuple[int, ...], wait_s: float) -> bool:
    agreed = True
    async with connected(settings, client_id=_CLIENT) as log:
        for number in await chosen_shards(log, shards):
            follower = SnapshotFollower(
                log, number, name=this_process(), verifier=VerifyingApart(_environment(settings))
            )
            one = await follower.take(wait_s=wait_s)
            agreed = agreed and one
            stats = follower.stats
            outcome = "verified" if one else "TWO FOLDS DIFFER; it is taken back: infra/runbooks/snapshots.md"
            click.echo(
                f"shard {number}: snapshot at event {stats.snapshot_seq}, {size(stats.snapshot_bytes)}: {outcome}"
            )
    return agreed


@command.command("verify")
@click.option("--shard", type=click.IntRange(min=0), default=0, show_default=True, help="Of which shard.")
@click.option("--seq", type=click.IntRange(min=1), help="The one at this event [default: the newest].")
@click.option(
    "--report-as", metavar="NAME", help="Publish the digest under this name, and take back one that cannot be read."
)
@home_option
@bootstrap_option
def verify_one(
    shard: int, seq: int | None, report_as: str | None, home: str | None, bootstrap_servers: str | None
) -> None:
    """Read a snapshot back and fold its events once more, from the last verified one or the first event.

    Exit code 3 when it cannot be read back, or when the other fold gives another state; 4 when there is none.
    """
    settings = load_settings(home=home, bootstrap_servers=bootstrap_servers)
    asyncio.run(_verify(settings, shard, seq, report_as))


async def _verify(settings: Settings, shard: int, seq: int | None, report_as: str | None) -> None:
    async with connected(settings, client_id=_CLIENT) as log:
        if report_as is None:
            verdict = await verify(log, *await snapshot_at(log, shard, seq))
        else:
            verdict = await verify_and_report(log, shard, seq, by=report_as)
    folded = f"folded from {'event ' + str(verdict.from_seq) if verdict.from_seq else 'the first event'}"
    if verdict.agrees:
        click.echo(f"shard {shard}: the snapshot at event {verdict.seq} is right: {verdict.digest.hex()}, {folded}")
        return
    click.echo(
        f"shard {shard}: the snapshot at event {verdict.seq} is WRONG, or the fold is: written was {verdict.written.hex()}, "
        f"{folded} it is {verdict.digest.hex()}"
    )
    sys.exit(CHECK_FAILED)


# -- list ---------------------------------------------------------------------------------------------------------------------


@command.command("list")
@shards_option("Of which shard")
@output_option
def list_snapshots(shards: tuple[int, ...], output: str) -> None:
    """List the snapshots there are, the newest first, whether each can be used, and which one is verified."""
    emit(asyncio.run(_list(shards)), output, COLUMNS)


COLUMNS = (
    Column("shard", align="right"),
    Column("seq", align="right"),
    Column("behind", align="right"),
    Column("age_us", "age", "right", duration),
    Column("bytes", "size", "right", size),
    Column("parts", align="right"),
    "standing",
    Column("next_fact_offset", "next fact", "right"),
    "written_by",
    "build",
    Column("state_digest", "digest"),
)


async def _list(shards: tuple[int, ...]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    async with connected(load_settings(), client_id=_CLIENT) as log:
        for shard in await chosen_shards(log, shards):
            state = await state_now(log, shard)
            async with aclosing(newest_first(log, shard)) as snapshots:
                rows += [await _row(log, found, state) async for found in snapshots]
    return rows


async def _row(log: Log, found: Found, state: Shard) -> dict[str, Any]:
    row: dict[str, Any] = {"shard": found.partition[1], "slot": found.slot, "offset": found.offset}
    try:
        manifest = manifest_of(found)
    except SnapshotUnusable as error:
        return {**row, "standing": error.reason.value}
    return {
        **row,
        "seq": manifest.seq,
        "behind": state.seq - manifest.seq,
        "age_us": max(0, time.time_ns() // 1_000 - manifest.at_us),
        "at_us": manifest.at_us,
        "bytes": manifest.bytes,
        "parts": manifest.parts,
        "standing": await _standing(log, found, manifest, state),
        "next_event_offset": manifest.next_event_offset,
        "next_fact_offset": manifest.next_fact_offset,
        "leader_epoch": manifest.leader_epoch,
        "written_by": manifest.written_by,
        "build": manifest.build,
        "state_digest": manifest.state_digest.hex(),
    }


async def _standing(log: Log, found: Found, manifest: Manifest, state: Shard) -> str:
    """What can be relied on: "verified" (the newest that is), "usable", or why it is of no use. Parts are read, not restored."""
    try:
        check_of_this_log(found, manifest, await identity(log))
        await check_follows(log, found, manifest)
        await parts_in(log, found, manifest)
    except SnapshotUnusable as error:
        return error.reason.value
    checkpoint = state.checkpoint
    verified = checkpoint is not None and (checkpoint.seq, checkpoint.state_digest) == (
        manifest.seq,
        manifest.state_digest,
    )
    return "verified" if verified else "usable"


# -- trim ---------------------------------------------------------------------------------------------------------------------


@command.command()
@click.option("--shard", type=click.IntRange(min=0), default=0, show_default=True, help="Of which shard.")
@click.option(
    "--facts",
    "keep_facts",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Leave so many of the newest facts.",
)
@click.option(
    "--keep-facts-s",
    type=FiniteRange(min=0),
    default=3600.0,
    show_default=True,
    help="Leave facts younger than this, in seconds.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be removed, and remove nothing.")
@home_option
@bootstrap_option
def trim(
    shard: int, keep_facts: int, keep_facts_s: float, dry_run: bool, home: str | None, bootstrap_servers: str | None
) -> None:
    """Remove the facts that the newest verified snapshot covers. Events stay: they are the truth, and auditors read them.

    What decides facts again (verify, shadow, what-if, an export that is not made yet) can do so no more for those that are gone.
    Exit code 3 when there is no verified snapshot that can be relied on.
    """
    settings = load_settings(home=home, bootstrap_servers=bootstrap_servers)
    trimmed = asyncio.run(_trim(settings, shard, Margin(keep_facts, round(keep_facts_s * 1e6)), dry_run))
    if not trimmed.offsets:
        click.echo(f"shard {shard}: nothing to remove, facts begin at offset {trimmed.first}: {trimmed.held_by}")
        return
    verb = "would be removed" if dry_run else "are removed"
    click.echo(
        f"shard {shard}: {plural(trimmed.offsets, 'offset')} of facts, {trimmed.first} to {trimmed.before - 1}, {verb}; "
        f"verified at event {trimmed.seq}; {trimmed.held_by}"
    )


async def _trim(settings: Settings, shard: int, margin: Margin, dry_run: bool) -> Trim:
    async with connected(settings, client_id=_CLIENT) as log:
        return await (plan_trim if dry_run else trim_facts)(log, shard, margin)
