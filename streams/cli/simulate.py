"""`headway simulate TRACE`: the production core on a virtual clock over a recorded or made workload, and what a policy does to waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from events.config import AllocationStrategy
from streams.cli.main import Failure, version
from streams.cli.output import Column, emit, note, output_option, progress
from streams.simulate.made import FARM_CORES, FARM_WORKERS, farm, scene
from streams.simulate.openb import load_folder
from streams.simulate.policies import AFTER_S, Policy, configuration
from streams.simulate.recording import Recording
from streams.simulate.shaking import shaken, shakes
from streams.simulate.study import FARM_POLICIES, answer_of, compare_farm, figures_over, scene_row
from streams.simulate.swf import load_swf
from streams.simulate.workload import Workload, from_openb, from_swf, uniform_machines
from streams.simulate.world import INSTANCE, World
from streams.topics import EVENTS

FARM, SCENE = "farm", "scene"
FARM_SEEDS: Final = 10
HISTORY_SEED: Final = 0
"""What the farm's comparison learns durations from, unless another one is named."""
MOST_SHAKES: Final = 1_000
SCENE_RUNS: Final = (
    (Policy.NONE, AllocationStrategy.LEAST_RECENTLY_USED),
    (Policy.NONE, AllocationStrategy.BEST_FIT),
    (Policy.HOLD, AllocationStrategy.LEAST_RECENTLY_USED),
)
"""What the scene compares: the default, a strategy that packs, a hold."""


@click.command("simulate")
@click.argument("trace")
@click.option(
    "--workers", type=click.IntRange(1, 100_000), metavar="N", help="How many workers [1; an openb trace: all]."
)
@click.option("--cores", type=click.IntRange(1, 1_000_000), metavar="C", help="Cores of each worker.")
@click.option("--policy", type=click.Choice([policy.value for policy in Policy]), help="Who gets a worker that frees.")
@click.option(
    "--after-s",
    type=click.IntRange(0, 10**8),
    metavar="S",
    help=f"What the head waits first [hold, drain_time: {AFTER_S}; easy: 0].",
)
@click.option(
    "--strategy",
    type=click.Choice([strategy.value for strategy in AllocationStrategy]),
    default=AllocationStrategy.LEAST_RECENTLY_USED.value,
    show_default=True,
    help="Which of the workers that fit is taken.",
)
@click.option(
    "--shake",
    type=click.IntRange(1, MOST_SHAKES),
    metavar="K",
    help="Simulate K shaken inputs; print medians and ranges.",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), default=1, show_default=True, help="What is drawn, is drawn from it."
)
@click.option(
    "--history-seed",
    type=click.IntRange(0, 2**63 - 1),
    metavar="N",
    help=f"drain_time: let it begin with the durations of the same workload from this seed [farm: {HISTORY_SEED}; else none].",
)
@click.option("--leave-out-unfit", is_flag=True, help="Leave out the jobs that no worker could run.")
@click.option(
    "--export",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write the run as an exported log, which readers take with --file. For one run under one policy.",
)
@output_option
def command(
    trace: str,
    workers: int | None,
    cores: int | None,
    policy: str | None,
    after_s: int | None,
    strategy: str,
    shake: int | None,
    seed: int,
    history_seed: int | None,
    leave_out_unfit: bool,
    directory: Path | None,
    output: str,
) -> None:
    """Simulate a workload on the production core, on a virtual clock.

    TRACE is a file in the Standard Workload Format (plain or gzip), a folder with an openb pod list and node list, or one of:

    \b
    farm   a build farm's stream of three hours: one-core actions among a few of eight cores
    scene  four eight-core actions on two 16-core workers full of one-core actions for an hour

    An SWF job asks for its processors on one worker (column 5, else 8), is expected to run as long as its user estimated (column 9,
    else its run time), and is not cut there. The machines of an openb trace are its own, the first N of them with --workers.

    Without --policy, `farm` compares `none`, `hold` and `drain_time` over ten seeds, `scene` compares `none`, `none` with best_fit, and
    `hold`, and a trace runs under `none`. --shake K runs K inputs: of a trace with each arrival moved by up to half the mean gap (at most
    30 s) and each run time, with its estimate, by up to 5 %; of `farm` and `scene` from K seeds. It prints median, low and high; the same
    seed prints the same.

    `drain_time` learns durations as it goes; with --history-seed it has learnt them before: of `farm` and `scene` from another seed, of a
    trace from one more shaken input.
    """
    if history_seed is not None and policy != Policy.DRAIN_TIME and (policy or trace != FARM):
        raise click.UsageError("--history-seed goes with --policy drain_time: no other policy looks at durations")
    seeds = range(seed, seed + (shake or (FARM_SEEDS if trace == FARM and policy is None else 1)))
    if trace in (FARM, SCENE) and (HISTORY_SEED if history_seed is None else history_seed) in seeds:
        raise click.UsageError(
            f"--history-seed must be none of the seeds that are simulated ({seeds[0]} to {seeds[-1]}): "
            "a run that is known beforehand is not forecast"
        )
    chosen = AllocationStrategy(strategy)
    if directory is not None and (shake is not None or (policy is None and trace in (FARM, SCENE))):
        raise click.UsageError("--export writes one run: give --policy, and leave --shake out")
    if trace == SCENE:
        _refuse(trace, workers=workers, cores=cores)
        with _recording(directory) as recording:
            _tell_scene(policy, chosen, after_s, seeds, history_seed, output, recording)
        return
    history: Workload | None = None
    if trace == FARM:
        workloads = _farms(seeds, workers or FARM_WORKERS, cores or FARM_CORES)
        if policy is None or history_seed is not None:
            learnt = HISTORY_SEED if history_seed is None else history_seed
            (history,) = _farms(range(learnt, learnt + 1), workers or FARM_WORKERS, cores or FARM_CORES)
        if policy is None:
            _tell_farm(workloads, history, len(seeds), chosen, AFTER_S if after_s is None else after_s, seed, output)
            return
    else:
        whole = _recorded(Path(trace), workers, cores, leave_out_unfit)
        if whole.skipped:
            note(f"{trace}: {whole.skipped} record(s) without processors or run time are no jobs")
        if whole.left_out:
            note(f"{trace}: {whole.left_out} job(s) fit no worker and are left out")
        workloads = shakes(whole, shake, seed) if shake else iter([whole])
        if history_seed is not None:
            history = shaken(whole, f"history:{history_seed}")
    named = Policy(policy or Policy.NONE)
    config = configuration(named, after_s=after_s, strategy=chosen)
    with _recording(directory) as recording, progress("simulating", shake or 1) as advance:
        figures = figures_over(workloads, config, advance, history, recording)
    head = {"trace": Path(trace).name, "policy": named.value, "strategy": strategy, **_asked(shake, seed)}
    if config.hold is not None:
        head["after_s"] = config.hold.after_s
    if history_seed is not None:
        head["history_seed"] = history_seed
    found = answer_of(figures, shaken=shake is not None)
    emit({**head, **found} if output == "json" else _rows(found), output)


def _recorded(path: Path, workers: int | None, cores: int | None, leave_out: bool) -> Workload:
    if path.is_dir():
        _refuse(str(path), cores=cores)
        tasks, nodes = load_folder(path)
        if workers is not None and workers > len(nodes):
            raise Failure(
                f"{path} holds {len(nodes)} machines, --workers asks for {workers}", remedy="Ask for as many or fewer"
            )
        return from_openb(path, tasks, nodes[:workers], leave_out=leave_out)
    jobs, skipped = load_swf(path)
    if cores is None:
        most = max(job.processors for job in jobs)
        raise click.UsageError(
            f"--cores C is needed: the trace does not say how large a worker is; its largest job asks for {most} processors"
        )
    return from_swf(path, jobs, skipped, uniform_machines(workers or 1, cores), leave_out=leave_out)


@contextmanager
def _recording(directory: Path | None) -> Iterator[Recording | None]:
    """Where a run is written down, finished when it ended well; None without a directory."""
    if directory is None:
        yield None
        return
    recording = Recording(directory, INSTANCE, made_by=f"headway {version()} simulate")
    yield recording
    manifest = recording.finish()
    events = sum(segment.count for segment in manifest.segments if segment.topic == EVENTS)
    note(f"{directory}: {events} events; read them with --file {directory}")


def _farms(seeds: range, workers: int, cores: int) -> Iterator[Workload]:
    try:
        for each in seeds:
            yield farm(each, workers=workers, cores=cores)
    except ValueError as error:
        raise click.UsageError(f"farm: {error}") from error


def _refuse(trace: str, **given: int | None) -> None:
    for name, value in given.items():
        if value is not None:
            raise click.UsageError(f"--{name} does not go with {trace}: its machines are given")


def _asked(shake: int | None, seed: int) -> dict[str, Any]:
    return {} if shake is None else {"shake": shake, "seed": seed}


def _tell_farm(
    workloads: Iterator[Workload],
    history: Workload | None,
    count: int,
    strategy: AllocationStrategy,
    after_s: int,
    seed: int,
    output: str,
) -> None:
    with progress("simulating", len(FARM_POLICIES) * count) as advance:
        found = compare_farm(workloads, after_s, strategy, advance, history)
    head = {"trace": FARM, "strategy": strategy.value, "after_s": after_s, "shake": count, "seed": seed}
    if output == "json":
        emit({**head, **found}, output)
        return
    rows = [{"policy": policy.value, **row} for policy in FARM_POLICIES for row in _rows(found[policy.value])]
    by_hold = found["drain_time_by_hold"]
    footer = (
        f"median longest wait with the hold by that without: {found['longest_wait_ratio']:.3f}; "
        f"core-seconds held idle: {found['held_idle_share']:.3%}\n"
        f"drain_time by hold, medians: longest wait {by_hold['longest_wait']:.3f}, mean wait {by_hold['mean_wait']:.3f}, "
        f"held idle {by_hold['held_idle']:.3f}"
    )
    emit(rows, output, footer=footer)


def _tell_scene(
    policy: str | None,
    strategy: AllocationStrategy,
    after_s: int | None,
    seeds: range,
    history_seed: int | None,
    output: str,
    recording: Recording | None,
) -> None:
    wanted = SCENE_RUNS if policy is None else ((Policy(policy), strategy),)
    history = None if history_seed is None else scene(history_seed)
    rows = []
    with progress("simulating", len(wanted) * len(seeds)) as advance:
        for each in seeds:
            for named, chosen in wanted:
                config = configuration(named, after_s=after_s, strategy=chosen)
                run = World(scene(each), config, history, recording=recording).run()
                advance(1)
                rows.append({"policy": named.value, "strategy": chosen.value, "seed": each, **scene_row(run)})
    if output == "json":
        emit({"trace": SCENE, "seed": seeds[0], "runs": rows}, output)
    else:
        emit(rows, output, _SCENE_COLUMNS)


def _rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    """A figure a line; of several runs with its range."""
    return [
        {"figure": name, **value} if isinstance(value, dict) else {"figure": name, "value": value}
        for name, value in found.items()
    ]


_SCENE_COLUMNS = (
    "policy",
    "strategy",
    "seed",
    Column("placed_in_stream", align="right"),
    Column("large", align="right"),
    "placed_at_min",
    Column("longest_wait_h", align="right"),
    Column("holds", align="right"),
    Column("held_idle_core_s", align="right"),
)
