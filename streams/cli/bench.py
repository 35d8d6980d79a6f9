"""`headway bench NAME`: runs one of the measurements in `streams/bench/` and prints it with the machine it was taken on.

A measurement is a module with a function `run` (it may be async) that returns rows of case, value, unit, limit and ratio. `limit` is a
ceiling or a floor, as the unit makes plain; `ratio` is at most 1 exactly where it is met. Without a limit nothing is judged.
"""

from __future__ import annotations

import importlib
import inspect
import os
import platform
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import click
import psutil

import streams
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
        measured = run(**given)
        rows = list(_awaited(measured) if inspect.isawaitable(measured) else measured)
        emit({"bench": name, "machine": machine(), "rows": rows} if output == "json" else rows, output, _COLUMNS)
        missed = [row for row in rows if row.get("limit") is not None and (row["ratio"] is None or row["ratio"] > 1)]
        if missed:
            note(f"{len(missed)} of {len(rows)} value(s) beyond the limit: {', '.join(row['case'] for row in missed)}")
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


def _awaited(measured: Any) -> Iterable[Mapping[str, Any]]:
    import asyncio

    rows: Iterable[Mapping[str, Any]] = asyncio.run(_result(measured))
    return rows


_COLUMNS = [
    Column("case"),
    Column("value", align="right", show=lambda value: f"{value:,.3f}" if isinstance(value, float) else f"{value:,}"),
    Column("unit"),
    Column("limit", align="right", show=lambda value: "" if value is None else f"{value:,}"),
    Column("ratio", "of limit", "right", lambda value: "" if value is None else f"{value:.2f}"),
]


def machine() -> dict[str, Any]:
    """What a figure depends on: cores, memory, Python, system, release of Headway."""
    return {
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "cpu": _cpu_model(),
        "memory_mib": psutil.virtual_memory().total >> 20,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "headway": metadata.version("headway"),
    }


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()
