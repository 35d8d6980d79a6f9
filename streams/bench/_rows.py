"""What a measurement answers: rows of one shape, or that it failed.

`limit` is what a case must reach or must not pass, and `ratio` how much of it is used up: at most 1 exactly where the limit is met. Without
a limit nothing is judged; a ratio then says how many times the value is what the case names. Every measurement makes its rows here, so that
one reader understands all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, TypedDict

from streams.errors import StreamError


class Row(TypedDict):
    """One measured figure. `value` is None where it could not be measured here, and the case says why."""

    case: str
    value: float | None
    unit: str
    limit: float | None
    ratio: float | None


class BenchFailed(StreamError):
    """What was to be measured failed, answered wrongly, or took too long: there is no figure."""

    code: ClassVar[str] = "bench-failed"
    runbook: ClassVar[str] = (
        "Read what the process said: a full disk and a small deadline on a busy machine are the usual causes."
    )

    def __init__(self, what: str) -> None:
        remedy = (
            "Give it room on the disk ($TMPDIR) and a quiet machine, or a smaller size: `headway bench NAME --help`"
        )
        super().__init__(what, remedy=remedy)


_WHOLE_FROM: Final = 1_000
"""Of a figure with four digits before the point, what stands behind it is noise."""


def at_most(case: str, value: float, unit: str, limit: float) -> Row:
    """A row whose value must not pass the limit."""
    return Row(case=case, value=_rounded(value), unit=unit, limit=_rounded(limit), ratio=_ratio(value, limit))


def at_least(case: str, value: float, unit: str, limit: float) -> Row:
    """A row whose value must reach the limit. Nothing at all has no ratio, and misses it."""
    return Row(case=case, value=_rounded(value), unit=unit, limit=_rounded(limit), ratio=_ratio(limit, value))


def reference(case: str, value: float, unit: str, *, per: float | None = None) -> Row:
    """A row that is only there to compare with; `per` is the figure named in the case that its ratio is taken to."""
    ratio = None if per is None else _ratio(value, per)
    return Row(case=case, value=_rounded(value), unit=unit, limit=None, ratio=ratio)


def not_measured(case: str, unit: str, why: str) -> Row:
    """A row for a figure that this machine cannot give, for example of something that is not installed."""
    return Row(case=f"{case}: {why}", value=None, unit=unit, limit=None, ratio=None)


def percentile(values: Sequence[int], share: float) -> float:
    """The value below which `share` of the sorted `values` lie (nearest rank). Of none at all: IndexError."""
    return float(values[min(len(values) - 1, int(share * len(values)))])


def missed(row: Row) -> bool:
    """Whether the row is beyond its limit."""
    return row["limit"] is not None and (row["ratio"] is None or row["ratio"] > 1)


def _ratio(value: float, to: float) -> float | None:
    return round(value / to, 3) if to else None


def _rounded(value: float) -> float:
    return round(value) if abs(value) >= _WHOLE_FROM else round(value, 3)
