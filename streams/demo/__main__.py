"""`infra/demo`: runs the demonstration and judges it by the log it left behind. Exit code 3 when something was lost or doubled."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from events.config import canonical_config
from events.events import CheckpointDiverged, Checkpointed, HoldNoCandidate
from events.facts import Configured
from projections.story.operation import story_of_operation
from projections.story.recorded import Recorded
from streams.cli.main import CHECK_FAILED, OK
from streams.cli.output import duration, emit
from streams.cli.telling.operation import wait_in_five_lines
from streams.demo.checking import table_equals_replay
from streams.demo.deciders import Deciders
from streams.demo.ending import closing_lines, leave_behind
from streams.demo.hold_life import stories_of_holds, summary_of_hold
from streams.demo.performing import perform
from streams.demo.scene import (
    AFTER_S,
    CONFIGS,
    CORES,
    LARGE_CORES,
    MACHINES,
    WITH,
    WITHOUT,
    large,
    play,
    scene,
    scene_workers,
)
from streams.demo.stage import Stage, new_home, raise_broker, staged, until
from streams.demo.tally import Tally, is_sound, summary_of
from streams.demo.telling import progress_line, say, until_interrupted
from streams.demo.watching import History, Live, of_instance, read_history, tally_of
from streams.demo.workload import CONFIG, REAL_PREFIX, Due, expected_output, schedule, worker_arguments
from streams.effects import publish_and_see, record_of
from streams.provisioning import provision
from streams.settings import load_settings
from streams.topics import FACTS
from streams.traces import compress, load_openb

INSTANCE = "main"
COMMANDS = 24
SNAPSHOTS = ["snapshot", "follow", "--shard", "0", "--every-events", "2000"]
READY_S, DRAIN_S = 60.0, 90.0
_TRACE = Path(__file__).parents[2] / "tests" / "fixtures" / "openb"


@click.command()
@click.option(
    "--summary", type=click.Path(dir_okay=False, writable=True, path_type=Path), help="Write it there as JSON."
)
@click.option(
    "--span", "span_s", type=click.FloatRange(1, 3600), default=34.0, show_default=True, help="Seconds of arrivals."
)
@click.option(
    "--trace",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=_TRACE,
    help="pods.csv, nodes.csv.",
)
@click.option("--keep", is_flag=True, help="Leave the home with all logs behind, and say where it is.")
def demo(summary: Path | None, span_s: float, trace: Path, keep: bool) -> None:
    """Replay a slice of a real trace on a real Kafka, kill the decider in the middle, and count from the log."""
    home = new_home()

    def act() -> tuple[int, bool]:
        found = asyncio.run(until_interrupted(_perform(home, trace, span_s)))
        if summary is not None:
            summary.write_text(json.dumps(found, indent=2) + "\n")
        return (OK if is_sound(found) else CHECK_FAILED), keep

    perform(home, say, act, keep=keep)


async def _perform(home: Path, trace: Path, span_s: float) -> dict[str, Any]:
    begun = time.monotonic()
    tasks, nodes = load_openb(trace / "pods.csv", trace / "nodes.csv")
    due = schedule(compress(tasks, round(span_s * 1_000_000)), instance=INSTANCE, commands=COMMANDS)
    broker = await asyncio.to_thread(raise_broker, home, load_settings(), say)
    say(f"broker: Kafka {broker.version} at {broker.bootstrap_servers} ({broker.kind})")
    workers, deciders = worker_arguments(nodes) | scene_workers(), Deciders.on_free_ports()
    instances = dict.fromkeys((INSTANCE, *CONFIGS), 0)
    async with staged(
        *(home, broker, workers, lambda log: provision(log, instances), say),
        deciders={**deciders.arguments(), "snapshots": SNAPSHOTS},
    ) as stage:
        live = Live()
        following = asyncio.create_task(live.follow(stage.log))
        try:
            await _make_ready(stage, live, len(nodes) + 1 + MACHINES * len(CONFIGS))
            say(
                f"workers: {len(nodes)} simulated machines of the trace, 1 real; replaying {len(tasks)} tasks "
                f"recorded over {tasks[-1].arrival_us / 3.6e9:.1f} h within {span_s:g} s, and {COMMANDS} real commands"
            )
            published, successor = await _replay(stage, deciders, live, following, due, span_s)
            played = await _play_scene(stage, live, following)
        finally:
            following.cancel()
            await asyncio.wait([following])
        say("checking: replaying the log from its first event against the state table, row by row")
        equal = await table_equals_replay(stage, say)
        history = await read_history(stage.log)
        exported = await leave_behind(stage.log)
    recorded = Recorded(0, history.told)
    traced = tally_of(of_instance(history.events, INSTANCE))
    found = summary_of(
        history.tally,
        [*published, *played],
        counted=traced,
        table_equals_replay=equal,
        broker={"kind": broker.kind, "version": broker.version},
        wall_s=time.monotonic() - begun,
    )
    _report(found, history, recorded, traced, published, successor)
    found["hold"] = _report_hold(history, recorded, exported)
    return found


async def _make_ready(stage: Stage, live: Live, workers: int) -> None:
    configurations = {INSTANCE: CONFIG, **CONFIGS}
    facts = [Configured(instance, canonical_config(config)) for instance, config in configurations.items()]
    for effect in await publish_and_see(stage.log, 0, facts, timeout_s=READY_S):
        if effect.rejected is not None:
            raise RuntimeError(f"the configuration was refused: {effect.said}")
    await until(f"the connection of {workers} workers", lambda: len(live.workers) >= workers, stage, timeout_s=READY_S)


async def _replay(
    stage: Stage,
    deciders: Deciders,
    live: Live,
    following: asyncio.Task[None],
    due: Sequence[Due],
    span_s: float,
) -> tuple[list[str], str]:
    """Publishes what is due when it is due, kills the leading decider in the middle, waits for the last to finish.

    Returns the client operation ids that the log has acknowledged, and which part led after the killed one.
    """
    published: list[str] = []
    start = time.monotonic()
    victim = successor = ""
    elections = 0
    with progress_line() as show:
        while len(published) < len(due):
            _check(stage, following)
            elapsed_s = time.monotonic() - start
            if not victim and elapsed_s > span_s / 2:
                victim = await deciders.leader()
                elections = live.tally.elections
                say(f"SIGKILL to the decider (pid {stage.kill(victim)}) after {len(published)} of {len(due)} actions")
            if victim and not successor and live.tally.elections > elections:
                successor = await deciders.leader()
            ready = [item for item in due[len(published) :] if item.at_us <= elapsed_s * 1_000_000]
            if ready:
                await stage.log.publish((FACTS, 0), [record_of(item.fact) for item in ready])
                published += [item.fact.client_operation_id for item in ready]
            show(_progress(live.tally, len(published), len(due)))
            await asyncio.sleep(0.05)
        deadline = time.monotonic() + DRAIN_S
        while live.tally.finished < len(published) and time.monotonic() < deadline:
            _check(stage, following)
            show(_progress(live.tally, len(published), len(due)))
            await asyncio.sleep(0.1)
    if not successor:
        successor = await deciders.leader()
    return published, "the standby took over" if successor != victim else "the supervisor started the decider again"


async def _play_scene(stage: Stage, live: Live, following: asyncio.Task[None]) -> list[str]:
    """The scene of the hold; returns the client operation ids."""
    say(
        f"the hold: an action of {LARGE_CORES} cores among a stream of small ones, on {MACHINES} machines of {CORES} cores each; "
        f"twice at once, without a hold and with one (after_s {AFTER_S})"
    )
    before = live.tally.finished
    with progress_line() as show:
        return await play(
            stage,
            scene(),
            ended=lambda: live.tally.finished - before,
            check=lambda: _check(stage, following),
            show=show,
            say=say,
        )


def _check(stage: Stage, following: asyncio.Task[None]) -> None:
    stage.check()
    if following.done():
        following.result()


def _progress(tally: Tally, published: int, total: int) -> str:
    return (
        f"{published}/{total} published, {tally.queued} waiting, {tally.executing} running, "
        f"{tally.finished} finished, seq {tally.last_seq}"
    )


def _report(
    found: dict[str, Any], history: History, recorded: Recorded, tally: Tally, published: Sequence[str], successor: str
) -> None:
    """What the replay of the trace came to; `tally` is its instance's alone."""
    for takeover in history.takeovers:
        say(
            f"takeover: {successor if len(history.takeovers) == 1 else 'a decider took over'}; "
            f"leader epoch {takeover.leader_epoch} came "
            f"{duration(takeover.silent_us)} after the last event of the one before, and nobody decided in between"
        )
    agreed, differed = (
        sum(type(event) is kind for event in history.events) for kind in (Checkpointed, CheckpointDiverged)
    )
    say(
        f"snapshots: {agreed} verified by another fold, {differed} contradicted; a decider that starts begins at the newest"
    )
    say(_commands_line(tally))
    waits = found["wait_s"]
    print()
    emit(
        {
            "placed": f"{found['placed']} of {len(published)}",
            "finished": found["finished"],
            "lost": found["lost"],
            "doubled": found["doubled"],
            "requeued": found["requeued"],
            "waited, seconds": f"p50 {waits['p50']:.3f}, p95 {waits['p95']:.3f}, max {waits['max']:.3f}",
            "events": f"seq 1 to {history.tally.last_seq}, {found['seq_gaps']} gaps, chain whole, {history.offsets} offsets",
            "table equals replay": found["table_equals_replay"],
            "broker": f"Kafka {found['broker']['version']} ({found['broker']['kind']})",
            "took, seconds": found["wall_s"],
        },
        "table",
    )
    for name in tally.unfinished(published)[:10]:
        click.echo(f"not finished: {name}", err=True)
    longest = tally.longest_wait()
    if longest is not None:
        print("\nWhy the longest wait was so long:")
        story = story_of_operation(recorded, longest.operation_id)
        assert story is not None, "what waited was queued"
        for line in wait_in_five_lines(story):
            print(f"  {line}")


def _report_hold(history: History, recorded: Recorded, exported: Path) -> dict[str, Any]:
    """The waits of both runs and the hold in five lines, printed; returns the figures as the summary has them."""
    instances = {"without": WITHOUT, "with": WITH}
    tallies = {label: tally_of(of_instance(history.events, name)) for label, name in instances.items()}
    stories = stories_of_holds(recorded, WITH)
    missed = sum(isinstance(event, HoldNoCandidate) for event in of_instance(history.events, WITH))
    found = summary_of_hold(tallies, {label: large(name) for label, name in instances.items()}, stories, missed)
    print(f"\nThe same without a hold and with one (after_s {AFTER_S}):")
    emit(
        [
            {
                "run": label,
                "large action waited, s": found["large_wait_s"][label],
                "small ones, p50 s": found["small_wait_s"][label]["p50"],
                "p95 s": found["small_wait_s"][label]["p95"],
                "max s": found["small_wait_s"][label]["max"],
            }
            for label in instances
        ],
        "table",
    )
    print()
    of_the_large = [story for story in stories if story["operation"].get("client_operation_id") == large(WITH)]
    for line in closing_lines(of_the_large, exported):
        print(line)
    return {"after_s": AFTER_S, **found}


def _commands_line(tally: Tally) -> str:
    right = 0
    example = ""
    for run in tally.runs.values():
        if run.client_operation_id.startswith(REAL_PREFIX) and run.finished is not None:
            number = int(run.client_operation_id.removeprefix(REAL_PREFIX))
            if run.finished.exit_code == 0 and run.finished.stdout_tail.startswith(expected_output(number)):
                right += 1
                example = run.finished.stdout_tail.decode(errors="replace").strip().replace("\n", " | ")
    return f"real commands: {right} of {COMMANDS} ran with exit code 0 and printed what they should, the last one: {example!r}"


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    demo(prog_name="infra/demo")
