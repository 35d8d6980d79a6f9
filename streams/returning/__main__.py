"""`infra/locality-restart`: performs the scene on a real Kafka and prints every check with what was seen. Exit code 3 when one fails."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from streams.broker import BrokerEndpoint
from streams.cli.main import CHECK_FAILED, OK
from streams.cli.numbers import FiniteRange
from streams.cli.output import Column, emit, output_option
from streams.demo.performing import perform
from streams.demo.stage import new_home, raise_broker
from streams.demo.telling import say, until_interrupted
from streams.returning.scene import FIRST_ANSWER, Scene
from streams.returning.verdict import Findings
from streams.settings import load_settings


@click.command()
@click.option(
    "--pairs",
    type=click.IntRange(30, 100_000_000),
    default=1_000_000,
    show_default=True,
    help="Pairs of endpoint and blob.",
)
@click.option(
    "--never-reconnect-s",
    type=click.IntRange(6, 86_400),
    default=20,
    show_default=True,
    help="After which the endpoint that stays away is swept.",
)
@click.option(
    "--answer-within-s",
    type=FiniteRange(0.1, 600),
    default=2.0,
    show_default=True,
    help="From the start of the read side's process to its first right answer.",
)
@click.option(
    "--sample", type=click.IntRange(10, 100_000), default=500, show_default=True, help="Blobs looked up each time."
)
@click.option("--keep", is_flag=True, help="Leave the home with all logs behind, and say where it is.")
@output_option
def locality_restart(
    pairs: int, never_reconnect_s: int, answer_within_s: float, sample: int, keep: bool, output: str
) -> None:
    """Kill the scheduler with a full map of who holds what, and look at what it knows before and after workers return.

    Three simulated workers report their blobs; decider and read side get SIGKILL. Before anyone returns look-ups must be right. Then one
    worker returns with its boot epoch, one with another, one never: kept, wiped, swept. At last all local state is deleted, and the
    answers must be the same.
    """
    tell = partial(say, file=sys.stderr if output == "json" else sys.stdout)
    home = new_home("locality")

    def act() -> tuple[int, bool]:
        scene = Scene(
            home,
            pairs=pairs,
            never_reconnect_s=never_reconnect_s,
            answer_within_s=answer_within_s,
            sample=sample,
            tell=tell,
        )
        broker, found = asyncio.run(until_interrupted(_perform(scene, home, tell)))
        summary: dict[str, Any] = {
            "pairs": pairs,
            "never_reconnect_s": never_reconnect_s,
            "ok": not found.wrong,
            "checks": [check.as_dict() for check in found.checks],
            "measured": found.measured,
            "broker": {"kind": broker.kind, "version": broker.version},
        }
        if output == "json":
            emit(summary, output)
        else:
            emit(summary["checks"], output, [Column("ok"), Column("check"), Column("seen"), Column("wanted")])
            emit(found.measured, output)
        for check in found.wrong:
            remedy = "; on a busy machine raise --answer-within-s" if check.name == FIRST_ANSWER else ""
            click.echo(f"not so: {check.name}: {check.seen}; wanted: {check.wanted}{remedy}", err=True)
        return (CHECK_FAILED, True) if found.wrong else (OK, keep)

    perform(home, tell, act, keep=keep)


async def _perform(scene: Scene, home: Path, tell: Callable[[str], None]) -> tuple[BrokerEndpoint, Findings]:
    broker = await asyncio.to_thread(raise_broker, home, load_settings(), tell)
    tell(f"broker: Kafka {broker.version} at {broker.bootstrap_servers} ({broker.kind})")
    return broker, await scene.perform(broker)


if __name__ == "__main__":
    locality_restart(prog_name="infra/locality-restart")
