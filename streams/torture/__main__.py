"""`infra/torture`: runs a torture and judges it by the log it left behind. Exit code 3 when anything is not as it must be."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Any

import click

from events.config import canonical_config
from events.facts import Configured
from streams.cli.main import CHECK_FAILED, OK
from streams.cli.output import duration, emit, output_option
from streams.client import FactPublisher
from streams.demo.checking import table_equals_replay
from streams.demo.deciders import Deciders
from streams.demo.performing import perform
from streams.demo.stage import Stage, new_home, raise_broker, staged
from streams.demo.telling import progress_line, say, until_interrupted
from streams.demo.watching import Live
from streams.effects import publish_and_see
from streams.provisioning import provision
from streams.settings import load_settings
from streams.supervisor import Patience
from streams.torture.killing import Executioner
from streams.torture.plan import CONFIG, FLEET, INSTANCE, Plan, Victim, draw_plan
from streams.torture.verdict import SHARD, Verdict, judge
from streams.views import ViewRefused, Views, ViewsUnreachable

READY_S, CATCH_UP_S = 60.0, 60.0
STALLED_S = 60.0
"""How long nothing may end before the rest counts as lost. A worker loss is noticed after 10 s."""

AT_ONCE = Patience(first_back_off_s=0.05, longest_back_off_s=2.0, settled_s=1.0, grace_s=5.0)

SNAPSHOTS = ["snapshot", "follow", "--shard", str(SHARD), "--every-events", "300", "--every-s", "3"]
"""Often, so that most deciders that come back begin at one."""

NOUGHTS = (
    *("lost", "doubled", "failed", "over_capacity", "unexplained", "seq_gaps", "facts_undecided", "facts_redecided"),
    *("placements_doubled", "placements_missing", "states_differing", "wrong_output"),
)
"""What must be 0."""


@click.command()
@click.option(
    "--kills", type=click.IntRange(len(Victim), 1_000), default=20, show_default=True, help="How many SIGKILLs."
)
@click.option("--seed", type=click.IntRange(0), help="Draw the same plan as a run before [default: a new one].")
@click.option("--actions", type=click.IntRange(1, 100_000), default=2_000, show_default=True, help="How many actions.")
@click.option("--keep", is_flag=True, help="Leave the home with all logs behind, and say where it is.")
@output_option
def torture(kills: int, seed: int | None, actions: int, keep: bool, output: str) -> None:
    """Kill decider, state table and workers at random while they work on a real Kafka, and judge the run from the log alone."""
    story = sys.stderr if output == "json" else sys.stdout
    tell = partial(say, file=story)
    plan = draw_plan(secrets.randbits(32) if seed is None else seed, actions=actions, kills=kills)
    tell(f"seed {plan.seed}; again: infra/torture --kills {kills} --actions {actions} --seed {plan.seed}")
    home = new_home("torture")

    def act() -> tuple[int, bool]:
        found = asyncio.run(until_interrupted(_Torture(plan, home, story).perform()))
        _report(found, output)
        wrong = complaints(found)
        for line in wrong:
            click.echo(f"not sound: {line}", err=True)
        return (CHECK_FAILED, True) if wrong else (OK, keep)

    perform(home, tell, act, keep=keep)


def complaints(found: dict[str, Any]) -> list[str]:
    """What of a summary is not as it must be; [] for a sound run."""
    wrong = [f"{name} is {found[name]}, it must be 0" for name in NOUGHTS if found[name]]
    wrong += [f"{name} is false" for name in ("chain_ok", "table_equals_replay") if not found[name]]
    if found["finished"] != found["actions"]:
        wrong.append(f"{found['finished']} of {found['actions']} actions ended")
    wrong += [f"no {name} was killed" for name, times in found["kills"].items() if not times]
    return wrong


class _Torture:
    def __init__(self, plan: Plan, home: Path, story: IO[str]) -> None:
        self._plan, self._home, self._story = plan, home, story
        self._tell = partial(say, file=story)
        self._live = Live()
        self._published: set[str] = set()
        self._killed = 0

    async def perform(self) -> dict[str, Any]:
        """The whole run; returns the summary."""
        begun = time.monotonic()
        plan = self._plan
        broker = await asyncio.to_thread(raise_broker, self._home, load_settings(), self._tell)
        self._tell(f"broker: Kafka {broker.version} at {broker.bootstrap_servers} ({broker.kind})")
        deciders = Deciders.on_free_ports()
        workers = {process.name: process.arguments() for process in FLEET}
        async with staged(
            *(self._home, broker, workers, lambda log: provision(log, {INSTANCE: SHARD}), self._overhear),
            deciders={**deciders.arguments(), "snapshots": SNAPSHOTS},
            patience=AT_ONCE,
            called="torture",
        ) as stage:
            if stage.prefix:
                self._tell(f"its topics stay in the cluster afterwards; their names begin with {stage.prefix}")
            executioner = Executioner(stage, self._live, deciders)
            following = asyncio.create_task(self._live.follow(stage.log))
            try:
                await self._make_ready(stage, executioner)
                await self._torment(stage, executioner, following)
            finally:
                following.cancel()
                await asyncio.wait([following])
            equal = await self._table_equals_replay(stage)
            names = [name for name in plan.names if name in self._published]
            verdict = await judge(stage.log, names)
            unasked = executioner.unasked_ends()
        for line in verdict.complaints:
            self._tell(f"  {line}")
        for part, times in unasked.items():
            self._tell(f"{part} ended {times} times by itself; see {self._home / 'log' / part}.log (--keep)")
        return {
            **summary_of(plan, verdict, table_equals_replay=equal),
            "unasked_ends": sum(unasked.values()),
            "broker": {"kind": broker.kind, "version": broker.version},
            "wall_s": round(time.monotonic() - begun, 1),
        }

    def _overhear(self, line: str) -> None:
        """What the supervisor says goes to a file: it reports every kill with the last lines of the killed."""
        with (self._home / "supervisor.log").open("a") as file:
            say(f"{datetime.now(UTC):%H:%M:%S.%f} {line}", file)

    async def _make_ready(self, stage: Stage, executioner: Executioner) -> None:
        await executioner.wait_for_all()
        (effect,) = await publish_and_see(
            stage.log, SHARD, [Configured(INSTANCE, canonical_config(CONFIG))], timeout_s=READY_S
        )
        if effect.rejected is not None:
            raise RuntimeError(f"the configuration was refused: {effect.said}")
        plan = self._plan
        by_victim = ", ".join(f"{times} of {name.replace('_', ' ')}" for name, times in plan.kills_by_victim().items())
        self._tell(
            f"{sum(len(process.endpoints) for process in FLEET)} workers in {len(FLEET)} processes; {len(plan.names)} actions "
            f"within {plan.span_us / 1e6:g} s; SIGKILLs: {by_victim}"
        )

    async def _torment(self, stage: Stage, executioner: Executioner, following: asyncio.Task[None]) -> None:
        """Publish and kill side by side, then wait for the last action to end."""
        start = time.monotonic()
        sides = [
            asyncio.create_task(self._publish(stage, start)),
            asyncio.create_task(self._kill(executioner, start)),
        ]
        ended, changed_at = -1, start
        try:
            with progress_line(self._story) as show:
                while True:
                    stage.check()
                    for task in (following, *sides):
                        if task.done():
                            task.result()
                    show(self._progress())
                    tally, now = self._live.tally, time.monotonic()
                    if tally.finished != ended or not all(task.done() for task in sides):
                        ended, changed_at = tally.finished, now
                    if tally.finished >= len(self._plan.names) and all(task.done() for task in sides):
                        return
                    if now - changed_at > STALLED_S:
                        self._tell(f"nothing has ended for {STALLED_S:g} s: what has not is counted as lost")
                        return
                    await asyncio.sleep(0.1)
        finally:
            for task in sides:
                task.cancel()
            await asyncio.wait(sides)

    async def _publish(self, stage: Stage, start: float) -> None:
        plan, at = self._plan, 0
        async with FactPublisher(stage.log, instance=INSTANCE) as publisher:
            while at < len(plan.due):
                until_us = (time.monotonic() - start) * 1e6
                if self._killed < len(plan.kills):
                    until_us = min(until_us, plan.held_from_us)
                ready = []
                while at < len(plan.due) and plan.due[at].at_us <= until_us:
                    ready.append(plan.due[at].fact)
                    at += 1
                if ready:
                    await publisher.publish_all(ready)
                    self._published.update(fact.client_operation_id for fact in ready)
                await asyncio.sleep(0.02)

    async def _kill(self, executioner: Executioner, start: float) -> None:
        for kill in self._plan.kills:
            await asyncio.sleep(max(0.0, start + kill.at_us / 1e6 - time.monotonic()))
            part, pid = await executioner.kill(kill)
            self._killed += 1
            self._tell(
                f"SIGKILL {self._killed}/{len(self._plan.kills)} to {part} (process {pid}) at {time.monotonic() - start:.1f} s"
            )

    def _progress(self) -> str:
        tally = self._live.tally
        return (
            f"published {len(self._published)}/{len(self._plan.names)}  queued {tally.queued}  executing {tally.executing}  "
            f"ended {tally.finished}  requeued {tally.requeued}  leaders {tally.elections}  seq {tally.last_seq}"
        )

    async def _table_equals_replay(self, stage: Stage) -> bool:
        """Whether the table has come to the last event seen and equals a replay there."""
        self._tell("checking: replaying the log from its first event against the state table, row by row")
        views, seq = Views(f"http://127.0.0.1:{stage.web_port}", timeout_s=5.0), self._live.tally.last_seq
        deadline = time.monotonic() + CATCH_UP_S
        why = ""
        while time.monotonic() < deadline:
            stage.check()
            try:
                reached = await asyncio.to_thread(views.position, SHARD)
            except (ViewsUnreachable, ViewRefused) as error:
                why = error.message
            else:
                if reached >= seq:
                    return await table_equals_replay(stage, self._tell)
                why = f"it stands at seq {reached}"
            await asyncio.sleep(0.1)
        self._tell(f"the state table has not come to seq {seq} within {CATCH_UP_S:g} s: {why}")
        return False


def summary_of(plan: Plan, verdict: Verdict, *, table_equals_replay: bool) -> dict[str, Any]:
    """What a run is summed up as."""
    tally = verdict.tally
    return {
        "seed": plan.seed,
        "kills": plan.kills_by_victim(),
        "actions": len(plan.names),
        "finished": tally.finished,
        "lost": verdict.lost,
        "doubled": tally.doubled(),
        "failed": verdict.failed,
        "cancelled": verdict.cancelled,
        "over_capacity": len(verdict.ledger.excesses),
        "unexplained": len(verdict.ledger.unexplained),
        "seq_gaps": tally.seq_gaps,
        "chain_ok": verdict.chain_ok,
        "facts_undecided": verdict.facts_undecided,
        "facts_redecided": verdict.facts_redecided,
        "placements_doubled": verdict.placements_doubled,
        "placements_missing": verdict.placements_missing,
        "checkpoints": verdict.checkpoints,
        "states_differing": verdict.states_differing,
        "wrong_output": verdict.wrong_output,
        "table_equals_replay": table_equals_replay,
        "requeued": tally.requeued,
        "accepted": verdict.accepted,
        "events": tally.last_seq,
        "stale_events": verdict.stale,
        "leader_epochs": verdict.leader_epochs,
        "longest_takeover_s": round(verdict.longest_takeover_us / 1e6, 3),
    }


def _report(found: dict[str, Any], output: str) -> None:
    if output == "json":
        emit(found, output)
        return
    kills = ", ".join(f"{name.replace('_', ' ')} {times}" for name, times in found["kills"].items())
    broker = f"Kafka {found['broker']['version']} ({found['broker']['kind']})"
    takeover = duration(round(found["longest_takeover_s"] * 1e6))
    shown = {name.replace("_", " "): value for name, value in found.items()}
    print()
    emit({**shown, "kills": kills, "broker": broker, "longest takeover s": takeover}, "table")


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    torture(prog_name="infra/torture")
