"""What commands print: tables for people, JSON for programs, again and again with `--watch`.

A table goes through rich on a terminal; into a pipe it is plain text with one row a line, never cut, so that `grep` and `awk`
see everything. Standard output carries results only; notes, progress and errors go to standard error.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, Literal, TypeVar

import click
from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from streams.cli.numbers import FiniteRange

Command = TypeVar("Command", bound=Callable[..., Any])
Row = Mapping[str, Any]
Answer = dict[str, Any]


def shown(value: Any) -> str:
    """A value in a table cell: nothing for None, yes and no, lists joined by commas."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(shown(part) for part in value)
    return str(value)


def printable(text: str) -> str:
    """The text without what would steer a terminal: names come from anyone who may publish a fact, escape sequences in them too.

    What is not printable shows as `\\x1b` does in Python; line breaks stay.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text)


def duration(value_us: Any) -> str:
    """Microseconds for people: 850us, 12.3ms, 4.56s, 3m12s, 5h02m, 4d03h."""
    if value_us is None:
        return ""
    us = int(value_us)
    sign, us = ("-", -us) if us < 0 else ("", us)
    if us < 1_000:
        return f"{sign}{us}us"
    if us < 1_000_000:
        return f"{sign}{us / 1_000:.1f}ms"
    if us < 60_000_000:
        return f"{sign}{us / 1_000_000:.2f}s"
    minutes, seconds = divmod(us // 1_000_000, 60)
    if minutes < 60:
        return f"{sign}{minutes}m{seconds:02d}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{sign}{hours}h{minutes:02d}m"
    days, hours = divmod(hours, 24)
    return f"{sign}{days}d{hours:02d}h"


def plural(count: int, what: str) -> str:
    """`1 worker`, `3 workers`."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def size(value_bytes: Any) -> str:
    """Bytes for people, in powers of 1024; nothing for None."""
    if value_bytes is None:
        return ""
    amount = float(value_bytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(amount) < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} PiB"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: which field, under which title, how it is shown."""

    field: str
    title: str = ""
    align: Literal["left", "right"] = "left"
    show: Callable[[Any], str] = shown

    def cell(self, row: Row) -> str:
        """The text of this column in `row`."""
        return printable(self.show(row.get(self.field)))

    @property
    def head(self) -> str:
        """The title, by default the field's name with spaces."""
        return self.title or self.field.replace("_", " ")


def emit(
    data: Sequence[Row] | Row,
    fmt: str,
    columns: Sequence[Column | str] | None = None,
    *,
    footer: str = "",
    file: IO[str] | None = None,
) -> None:
    """Print `data` to standard output (or `file`): JSON as it is, or a table with the given columns.

    A single mapping becomes a table of two columns, field and value. `footer` is a line below a table; JSON leaves it out.
    """
    out = file or sys.stdout
    if fmt == "json":
        print(json.dumps(data, indent=None if not out.isatty() else 2, default=str), file=out, flush=True)
        return
    rows, wanted = _tabular(data, columns)
    if out.isatty():
        Console(file=out).print(rich_table(rows, wanted, footer))
    else:
        print(plain_table(rows, wanted, footer), end="", file=out, flush=True)


def emit_line(row: Row, *, file: IO[str] | None = None) -> None:
    """Print one JSON object on a line of its own, at once: the form of everything that streams."""
    print(json.dumps(row, separators=(", ", ": "), default=str), file=file or sys.stdout, flush=True)


def _tabular(
    data: Sequence[Row] | Row, columns: Sequence[Column | str] | None
) -> tuple[Sequence[Row], Sequence[Column]]:
    if isinstance(data, Mapping):
        wanted = [_column(name) for name in columns] if columns is not None else [Column(name) for name in data]
        rows = [{"field": column.head, "value": column.cell(data)} for column in wanted]
        return rows, [Column("field"), Column("value")]
    if columns is None:
        names = {name: None for row in data for name in row}
        return data, [Column(name) for name in names]
    return data, [_column(name) for name in columns]


def _column(column: Column | str) -> Column:
    return Column(column) if isinstance(column, str) else column


def rich_table(rows: Sequence[Row], columns: Sequence[Column], footer: str = "") -> Table:
    """The table for a terminal."""
    table = Table(box=None, pad_edge=False, caption=footer or None, caption_justify="left", header_style="bold")
    for column in columns:
        table.add_column(column.head.upper(), justify=column.align, overflow="fold")
    for row in rows:
        table.add_row(*(Text(column.cell(row)) for column in columns))
    return table


def plain_table(rows: Sequence[Row], columns: Sequence[Column], footer: str = "") -> str:
    """The table for a pipe: columns padded to their widest cell, two spaces between, each row one line."""
    cells = [[column.head.upper() for column in columns]]
    cells += [[" ".join(column.cell(row).split("\n")) for column in columns] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    lines = []
    for line in cells:
        padded = [
            text.rjust(width) if column.align == "right" else text.ljust(width)
            for text, width, column in zip(line, widths, columns, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    if footer:
        lines.append(footer)
    return "\n".join(lines) + "\n"


def note(text: str) -> None:
    """Say something beside the result, on standard error."""
    click.echo(text, err=True)


def output_option(command: Command) -> Command:
    """`-o/--output table|json` as the parameter `output`."""
    option = click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help="For people or for programs.",
    )
    return option(command)


def watch_option(command: Command) -> Command:
    """`--watch [SECONDS]` as the parameter `watch` (None: once)."""
    option = click.option(
        "--watch",
        is_flag=False,
        flag_value=2.0,
        default=None,
        type=FiniteRange(0.1, 3600),
        metavar="[SECONDS]",
        help="Show it again every SECONDS [2], until Ctrl-C.",
    )
    return option(command)


def show(
    ask: Callable[[], Answer],
    fmt: str,
    rows_of: Callable[[Answer], Sequence[Row] | Row],
    columns: Sequence[Column | str] | None = None,
    *,
    footer_of: Callable[[Answer], str] = lambda answer: "",
    watch: float | None = None,
) -> None:
    """Print what `ask` answers, once or every `watch` seconds: JSON is the whole answer, a table shows `rows_of` it.

    With `watch` a terminal is redrawn in place and a pipe gets one table (or one line of JSON) after the other. An error of
    `ask` ends it: a screen that silently stays would be read as the present.
    """
    if watch is None:
        answer = ask()
        emit(answer if fmt == "json" else rows_of(answer), fmt, columns, footer=footer_of(answer))
        return
    if fmt == "json" or not sys.stdout.isatty():
        for answer in _every(watch, ask):
            if fmt == "json":
                emit_line(answer)
            else:
                emit(rows_of(answer), fmt, columns, footer=footer_of(answer))
        return
    with Live(console=Console(), auto_refresh=False, screen=True) as live:
        for answer in _every(watch, ask):
            rows, wanted = _tabular(rows_of(answer), columns)
            live.update(rich_table(rows, wanted, footer_of(answer)), refresh=True)


def _every(seconds: float, ask: Callable[[], Answer]) -> Iterator[Answer]:
    try:
        while True:
            due = time.monotonic() + seconds
            yield ask()
            time.sleep(max(0.0, due - time.monotonic()))
    except KeyboardInterrupt:
        return


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on standard error while long work runs, only on a terminal; yields `advance(count)`."""
    if not sys.stderr.isatty() or total <= 1:
        yield lambda count: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)


def percentile(ordered: Sequence[int], share: float) -> int:
    """The value at `share` (0 to 1) of an ascending sequence, nearest rank; 0 when it is empty."""
    if not ordered:
        return 0
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
