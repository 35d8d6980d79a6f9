"""`headway worker list | drain | undrain | remove | run`: the fleet."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from events.facts import Fact, WorkerDrained, WorkerGone, WorkerUndrained
from streams.cli.changing import change, confirmed, wait_options
from streams.cli.main import NOT_FOUND, Failure
from streams.cli.output import Column, duration, emit, note, output_option, show, watch_option
from streams.cli.reading import views_option
from streams.cli.tables import answer_age, counted, left_shown, pairs_shown
from streams.settings import DEFAULT_INSTANCE, Settings, load_settings
from streams.views import Answer, Views

Row = Mapping[str, Any]


class WorkerCommands(click.Group):
    """Adds `run`, which is imported only when it is asked for: it brings the whole worker with it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All, `run` among them."""
        return sorted({*super().list_commands(ctx), "run"})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, `run` from its own module."""
        if cmd_name == "run":
            from streams.cli.worker_run import run

            return run
        return super().get_command(ctx, cmd_name)


@click.group("worker", cls=WorkerCommands)
def command() -> None:
    """List, drain, undrain and remove workers, or run one."""


_property = click.option(
    "--property",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="Only workers that declare this; may be repeated, then all must hold.",
)
_instance = click.option("--instance", default=DEFAULT_INSTANCE, show_default=True, metavar="NAME")


@command.command("list")
@click.option("--instance", metavar="NAME", help="Only this instance [default: all].")
@_property
@views_option
@output_option
@watch_option
def list_workers(
    views: Views, instance: str | None, properties: tuple[str, ...], output: str, watch: float | None
) -> None:
    """Show connected workers: what they take, what they have left, what they run, and for whom one is held."""
    wanted = parse_properties(properties)
    reserved = Column("reserved_for", "reserved for")  # shown only when a worker is held
    columns = [
        Column("endpoint"),
        Column("instance"),
        Column("takes"),
        Column("runs", align="right"),
        Column("left", "left of total"),
        Column("other"),
        Column("silent_us", "last seen", "right", lambda value: f"{duration(value)} ago"),
    ]

    def ask() -> Answer:
        answer = views.workers(instance=instance)
        return {**answer, "workers": [row for row in answer["workers"] if declares(row, wanted)]}

    def rows_of(answer: Answer) -> list[dict[str, Any]]:
        held = any("reserved_for" in row for row in answer["workers"])
        if held != (reserved in columns):
            columns.insert(3, reserved) if held else columns.remove(reserved)
        return [_listed(row) for row in answer["workers"]]

    show(
        ask,
        output,
        rows_of,
        columns,
        footer_of=lambda answer: f"{counted(answer['workers'], 'worker')}; {answer_age(answer)}",
        watch=watch,
    )


@command.command()
@click.argument("endpoints", nargs=-1, metavar="[ENDPOINT]...")
@_property
@_instance
@click.option("--dry-run", is_flag=True, help="Say which workers it would be, and change nothing.")
@wait_options
@output_option
def drain(**options: Any) -> None:
    """Give workers no new work; what runs goes on. By endpoint, or all that declare a property."""
    _each(lambda instance, endpoint: WorkerDrained(instance, endpoint), "drained", **options)


@command.command()
@click.argument("endpoints", nargs=-1, metavar="[ENDPOINT]...")
@_property
@_instance
@click.option("--dry-run", is_flag=True, help="Say which workers it would be, and change nothing.")
@wait_options
@output_option
def undrain(**options: Any) -> None:
    """Give drained workers work again."""
    _each(lambda instance, endpoint: WorkerUndrained(instance, endpoint), "undrained", **options)


@command.command()
@click.argument("endpoints", nargs=-1, metavar="[ENDPOINT]...")
@_property
@_instance
@click.option("--dry-run", is_flag=True, help="Say which workers it would be, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask, on a terminal either.")
@wait_options
@output_option
def remove(yes: bool, **options: Any) -> None:
    """Put workers out at once: what they run is requeued. Drain first where that can wait."""
    _each(lambda instance, endpoint: WorkerGone(instance, endpoint), "removed", asks=not yes, **options)


def _each(
    fact_of: Callable[[str, str], Fact],
    what: str,
    *,
    endpoints: tuple[str, ...],
    properties: tuple[str, ...],
    instance: str,
    dry_run: bool,
    wait: bool,
    timeout_s: float,
    output: str,
    asks: bool = False,
) -> None:
    if bool(endpoints) == bool(properties):
        raise click.UsageError("name the workers by ENDPOINT or by --property, one of the two")
    settings = load_settings()
    names = list(dict.fromkeys(endpoints)) if endpoints else _selected(settings, instance, properties)
    if dry_run:
        note(f"would be {what}: {counted(names, 'worker')}")
        emit([{"target": name} for name in names], output, ["target"])
        return
    if asks and not confirmed(f"{counted(names, 'worker')} of instance {instance} will be {what}. Go on?", yes=False):
        raise click.Abort()
    named = [(name, fact_of(instance, name)) for name in names]
    sys.exit(change(settings, instance, named, what=what, wait=wait, timeout_s=timeout_s, output=output))


def _selected(settings: Settings, instance: str, properties: Sequence[str]) -> list[str]:
    wanted = parse_properties(properties)
    rows = Views(settings.views_address).workers(instance=instance)["workers"]
    names = [row["endpoint"] for row in rows if declares(row, wanted)]
    if not names:
        raise Failure(
            _none_declares(len(rows), instance, " ".join(properties)),
            code="not-found",
            remedy="`headway worker list` shows what they declare",
            exit_code=NOT_FOUND,
        )
    return names


def _none_declares(workers: int, instance: str, properties: str) -> str:
    if workers == 0:
        return f"instance {instance!r} has no workers, so none declares {properties}"
    if workers == 1:
        return f"the only worker of instance {instance!r} does not declare {properties}"
    return f"none of the {workers} workers of instance {instance!r} declares {properties}"


def parse_properties(texts: Sequence[str]) -> list[tuple[str, str]]:
    """`NAME=VALUE` texts as pairs. Raises click.BadParameter."""
    pairs = []
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--property")
        pairs.append((name, value))
    return pairs


def declares(row: Row, wanted: Sequence[tuple[str, str]]) -> bool:
    """Whether a worker declares all of the pairs."""
    declared = {pair["name"]: pair["value"] for pair in row["properties"]}
    return all(declared.get(name) == value for name, value in wanted)


def _listed(row: Row) -> dict[str, Any]:
    states = [name for name in ("draining", "paused", "full") if row.get(name)]
    return {
        **row,
        "takes": "work" if row["accepts"] else ", ".join(states),
        "runs": len(row["running"]),
        "left": left_shown(row),
        "other": pairs_shown([pair for pair in row["properties"] if pair["name"] not in row["totals"]]),
    }
