"""`headway bench NAME`: runs one of the measurements in `streams/bench/` and prints it with the machine it was taken on.

A measurement is a module with a function `run` (it may be async) that returns rows of case, value, unit, limit and ratio. `limit` is a
ceiling or a floor, as the unit makes plain; `ratio` is at most 1 exactly where it is met. Without a limit nothing is judged.
A value of None could not be measured here.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

import streams
from streams.bench._machine import machine
from streams.bench._rows import Row, missed
from streams.cli.main import CHECK_FAILED, Failure
from streams.cli.output import Column, emit, note, output_option


def benches() -> dict[str, str]:
    """Every measurement by name, with the first line of its docstring."""
    found: dict[str, str] = {}
    for folder in streams.__path__:
        for path in sorted((Path(folder) / "bench").glob("*.py")):
            if not path.name.startswith("_"):
                found[path.stem.replace("_", "-")] = _first_line(path)
    return found


def _first_line(path: Path) -> str:
    text = path.read_text(encoding="utf-8").lstrip()
    return text.strip('"').split("\n", 1)[0].strip('"') if text.startswith('"""') else ""


class Benches(click.Group):
    """One command per module of `streams/bench`; its keyword arguments with defaults of int, float, str become options."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the measurements."""
        return list(benches())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of one measurement, made from its `run` function."""
        found = benches()
        return _command_of(cmd_name, found[cmd_name]) if cmd_name in found else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One line each, without importing any."""
        found = benches()
        if found:
            with formatter.section("Measurements"):
                formatter.write_dl(list(found.items()))


@click.command("bench", cls=Benches)
def command() -> None:
    """Measure a part of Headway on this machine. Exit code 3 when a value misses its limit."""


def _command_of(name: str, line: str) -> click.Command:
    module = f"streams.bench.{name.replace('-', '_')}"
    try:
        run = importlib.import_module(module).run
    except (ImportError, AttributeError) as error:
        raise Failure(f"the measurement {name!r} cannot be loaded: {error}", code="bench-not-loaded") from error

    def measure(output: str, **given: Any) -> None:
        if "progress" in inspect.signature(run).parameters and sys.stderr.isatty():
            given["progress"] = note
        taken_on = machine()  # before the measurement: the load should be that of others
        measured = run(**given)
        rows = list(_awaited(measured) if inspect.isawaitable(measured) else measured)
        if output == "json":
            emit({"bench": name, "machine": taken_on, "rows": rows}, output)
        else:
            emit(rows, output, _COLUMNS, footer=_words(taken_on))
        beyond = [row["case"] for row in rows if missed(row)]
        if beyond:
            note(f"{len(beyond)} of {len(rows)} value(s) beyond the limit: {', '.join(beyond)}")
            raise SystemExit(CHECK_FAILED)

    options: list[click.Parameter] = []
    for parameter in inspect.signature(run).parameters.values():
        if isinstance(parameter.default, bool | int | float | str):
            options.append(
                click.Option(
                    [f"--{parameter.name.replace('_', '-')}"],
                    default=parameter.default,
                    show_default=True,
                    type=type(parameter.default),
                )
            )
    made = click.Command(name, params=options, callback=measure, help=inspect.getdoc(run) or line, short_help=line)
    return output_option(made) if isinstance(made, click.Command) else made


async def _result(measured: Any) -> Any:
    return await measured


def _awaited(measured: Any) -> Iterable[Row]:
    import asyncio

    rows: Iterable[Row] = asyncio.run(_result(measured))
    return rows


def _words(machine: Mapping[str, Any]) -> str:
    """The machine in a line."""
    return ", ".join(f"{name} {value}" for name, value in machine.items())


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:,.3f}" if isinstance(value, float) else f"{value:,}"


_COLUMNS = [
    Column("case"),
    Column("value", align="right", show=_figure),
    Column("unit"),
    Column("limit", align="right", show=_figure),
    Column("ratio", "of limit", "right", lambda value: "" if value is None else f"{value:.2f}"),
]
