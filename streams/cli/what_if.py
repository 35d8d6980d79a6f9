"""`headway what-if`: a recorded stretch decided again under other settings, beside what was recorded and what the model gets wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from events.errors import InvalidConfiguration
from projections.whatif.comparing import CHECKS, answer_of, check_settings, compare
from projections.whatif.meter import Meter
from projections.whatif.reading import Window
from projections.whatif.setting import BadSetting, Setting, parse_setting, sweep_of
from streams.cli.main import NOT_FOUND, Failure
from streams.cli.moments import MOMENT
from streams.cli.output import emit, note, output_option, progress
from streams.cli.source import check_foldable, file_option, opened
from streams.cli.tables import parse_operation
from streams.cli.what_if_tables import print_answer
from streams.log import bounds
from streams.moments import Moment, time_of
from streams.recovery import without_collection
from streams.settings import DEFAULT_INSTANCE, load_settings
from streams.shard_map import read_shard_map
from streams.topics import EVENTS
from streams.what_if.plotting import check_plots, plot
from streams.what_if.reading import EmptyWindow, Recording, read_record

LONGEST = 5


class SettingType(click.ParamType):
    """The type of `--set`."""

    name = "PATH=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Setting:
        """See click. Fails with the usage error of a setting that cannot be read."""
        try:
            return parse_setting(value)
        except BadSetting as error:
            self.fail(str(error).removeprefix(f"{error.code}: "), param, ctx)


class SweepType(click.ParamType):
    """The type of `--sweep`."""

    name = "PATH=VALUES"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[Setting]:
        """See click. Fails with the usage error of a sweep that cannot be read."""
        try:
            return sweep_of(value)
        except BadSetting as error:
            self.fail(str(error).removeprefix(f"{error.code}: "), param, ctx)


@click.command("what-if")
@click.option("--set", "settings", multiple=True, type=SettingType(), help="One option and its value; may be repeated.")
@click.option("--sweep", type=SweepType(), help="Compare values of one option: PATH=15,30,60 or PATH=15..240/15.")
@click.option(
    "--instance", metavar="NAME", help="Whose configuration is changed, and whose waits are told [default: main]."
)
@click.option("--from", "begin", type=MOMENT, help="Decide again from here on [default: the record's beginning].")
@click.option("--to", "end", type=MOMENT, help="Up to here [default: its end].")
@click.option("--operation", metavar="OPERATION", help="Say first how long this one would have waited.")
@click.option(
    "--longest", type=click.IntRange(0, 1000), default=LONGEST, show_default=True, help="How many of the longest waits."
)
@click.option(
    "--plot",
    "plots",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Plot it into FILE.svg or FILE.png; may be repeated.",
)
@file_option
@output_option
def command(
    settings: tuple[Setting, ...],
    sweep: list[Setting] | None,
    instance: str | None,
    begin: Moment | None,
    end: Moment | None,
    operation: str | None,
    longest: int,
    plots: tuple[Path, ...],
    file: Path | None,
    output: str,
) -> None:
    """Decide a recorded stretch again under other settings: would they have helped?

    The scheduler's own core decides. What would have come under any policy (actions, workers, clients, operators, time) comes as it was
    recorded; what workers say of runs is taken as it was while a run is the same as in the record, and modelled otherwise. With
    neither --set nor --sweep it says how well the model knows the record.

    \b
    headway what-if --set hold.after_s=60
    headway what-if --set hold=off --operation main/op-4711
    headway what-if --sweep hold.after_s=15..240/15 --plot waits.svg
    headway what-if --set hold.kind=backfill --set hold.after_s=30 --from 2026-03-01T08:00 --to 2026-03-01T12:00

    Figures of the changed policies come with the model's own error, ± the most by which it misses the record under the policy that was in
    force: with runs as long as recorded, and with the lengths of runs exchanged among those of a kind.
    """
    _check_order(begin, end)
    check_plots(plots)
    policies = [(*settings, each) for each in sweep] if sweep else [settings] if settings else []
    recording, others = asyncio.run(_read(file, instance, begin, end))
    record, recorded = recording.record, recording.meter
    operation_id = None if operation is None else _operation(recorded, operation)
    try:
        check_settings(record, recorded.instance, policies)
        total = (CHECKS + len(policies)) * len(record.givens)
        with progress("deciding", total) as told, without_collection():
            compared = compare(record, recorded, policies, told=told)
    except (BadSetting, InvalidConfiguration) as error:
        raise click.UsageError(str(error).removeprefix(f"{error.code}: ")) from error
    answer = answer_of(compared, longest=longest, operation_id=operation_id) | {"other_instances": others}
    if output == "json":
        emit(answer, output)
    else:
        print_answer(answer)
    if plots:
        plot(answer, plots)
        for path in plots:
            note(f"plotted into {path}")


def _check_order(begin: Moment | None, end: Moment | None) -> None:
    """A window that ends before it begins is refused, where both are of a kind. Raises click.UsageError."""
    if begin is None or end is None:
        return
    for first, last in ((begin.seq, end.seq), (begin.at_us, end.at_us)):
        if first is not None and last is not None and first > last:
            raise click.UsageError(f"--from {begin} lies after --to {end}: name the earlier one as --from")


async def _read(
    file: Path | None, instance: str | None, begin: Moment | None, end: Moment | None
) -> tuple[Recording, list[str]]:
    """The recording, and which other instances the log has where none was named."""
    async with opened(load_settings(), file, client_id="headway-what-if") as log:
        known = await read_shard_map(log)
        # Where none is named: the only one, else `main`.
        named = instance or (next(iter(known.shards)) if len(known.shards) == 1 else DEFAULT_INSTANCE)
        shard = known.shard_of(named)
        check_foldable(log, shard)
        window = Window(
            from_seq=None if begin is None else begin.seq,
            from_us=None if begin is None else begin.at_us,
            to_seq=None if end is None else end.seq,
            to_us=None if end is None else end.at_us,
        )
        _, log_end = await bounds(log, (EVENTS, shard))
        with progress(f"reading shard {shard}", log_end) as told:
            recording = await read_record(log, shard, named, window, progress=told)
    if not recording.record.events:
        record = recording.record
        raise EmptyWindow(shard, record.last_seq, time_of(record.last_at_us))
    return recording, [] if instance else sorted(name for name in known.shards if name != named)


def _operation(recorded: Meter, name: str) -> int:
    """The operation that is meant. Raises Failure when it did not wait in the window."""
    by_name: Sequence[int] = [row.operation_id for row in recorded.waits.values() if row.client_operation_id == name]
    number = parse_operation(name).operation_id
    found = by_name[-1] if by_name else number if number in recorded.waits else None
    if found is None:
        raise Failure(
            f"operation {name!r} of {recorded.instance} was not queued in this window",
            code="not-found",
            exit_code=NOT_FOUND,
            remedy="Widen --from and --to; `headway operation list` names operations",
        )
    return found
