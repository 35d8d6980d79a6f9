"""The Standard Workload Format of the Parallel Workloads Archive: one job a line, 18 whole numbers, -1 where something is unknown.

Columns used, counted from 1: 1 job number, 2 submit time (s), 4 run time (s), 5 processors allocated, 8 processors requested, 9 requested
time (s), which is the user's estimate. Lines that begin with `;` are the header. Processors are column 5, else 8; the estimate is column
9, else the run time. A record without processors or without a run time is no job and is counted as skipped.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from streams.traces import SECOND_US, UnreadableTrace

COLUMNS = 18
NUMBER, SUBMIT, RUN, ALLOCATED, REQUESTED, ESTIMATE = 0, 1, 3, 4, 7, 8
_NAMES = {
    NUMBER: "1 (job number)",
    SUBMIT: "2 (submit time)",
    RUN: "4 (run time)",
    ALLOCATED: "5 (allocated processors)",
    REQUESTED: "8 (requested processors)",
    ESTIMATE: "9 (requested time)",
}
_GZIP = b"\x1f\x8b"


class SwfJob(NamedTuple):
    """One job: arrival after the first one of the file, run time and estimate in microseconds, processors."""

    number: int
    arrival_us: int
    run_us: int
    estimate_us: int
    processors: int


class SwfTrace(NamedTuple):
    """The jobs of a file in order of arrival (those of one second in the file's order), and how many records were none."""

    jobs: list[SwfJob]
    skipped: int


def load_swf(path: Path) -> SwfTrace:
    """Read an SWF file, plain or compressed with gzip. Raises UnreadableTrace with line, column, value and rule."""
    jobs: list[SwfJob] = []
    skipped = 0
    for line, text in _lines(path):
        if not text or text.startswith(";"):
            continue
        fields = text.split()
        if len(fields) != COLUMNS:
            raise UnreadableTrace(
                path, line, "", "", f"an SWF record has {COLUMNS} columns, this line has {len(fields)}"
            )
        submit_s = _whole(path, line, fields, SUBMIT)
        run_s = _whole(path, line, fields, RUN)
        processors = _whole(path, line, fields, ALLOCATED)
        if processors <= 0:
            processors = _whole(path, line, fields, REQUESTED)
        if processors <= 0 or run_s < 0:
            skipped += 1
            continue
        if submit_s < 0:
            raise UnreadableTrace(
                path, line, _NAMES[SUBMIT], str(submit_s), "a job that ran was submitted at 0 or later"
            )
        estimate_s = _whole(path, line, fields, ESTIMATE)
        if estimate_s <= 0:
            estimate_s = run_s
        number = _whole(path, line, fields, NUMBER)
        jobs.append(SwfJob(number, submit_s * SECOND_US, run_s * SECOND_US, estimate_s * SECOND_US, processors))
    if not jobs:
        raise UnreadableTrace(path, 0, "", "", f"it holds no job ({skipped} record(s) without processors or run time)")
    jobs.sort(key=lambda job: job.arrival_us)  # stable: the file's order within a second
    first_us = jobs[0].arrival_us
    return SwfTrace([job._replace(arrival_us=job.arrival_us - first_us) for job in jobs], skipped)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        raw = path.read_bytes()
        if raw.startswith(_GZIP):
            raw = gzip.decompress(raw)
        # Headers name people and places in whatever encoding the site had; the records are ASCII.
        text = raw.decode("latin-1")
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableTrace(path, 0, "", "", f"it cannot be read: {error}") from error
    for line, row in enumerate(text.splitlines(), start=1):
        yield line, row.strip()


def _whole(path: Path, line: int, fields: list[str], column: int) -> int:
    """A whole number; a fraction of a second is cut off, since some archives print run times with decimals."""
    text = fields[column]
    whole, point, fraction = text.partition(".")
    digits = whole.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or (point and not (fraction.isascii() and fraction.isdigit())):
        raise UnreadableTrace(path, line, _NAMES[column], text, "a number is wanted, -1 where it is unknown")
    return int(whole)
