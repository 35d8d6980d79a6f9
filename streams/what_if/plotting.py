"""Plots of a what-if: waits and idle cores over the values of a sweep (or policy beside policy), the record as a line.

matplotlib is imported only here and only when something is plotted; it is the extra `plot` of the package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from events.config import SECOND_US
from projections.whatif.comparing import CHANGED
from streams.errors import StreamError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS: Final = ("svg", "png")
Answer = Mapping[str, Any]

_INK, _RECORD, _MUTED = "#1f5fa8", "#c0392b", "#666666"


class CannotPlot(StreamError):
    """A plot cannot be made."""

    code: ClassVar[str] = "cannot-plot"
    runbook: ClassVar[str] = (
        "Install the extra `plot`; name a file that ends in .svg or .png, in a directory that exists."
    )


class Panel(NamedTuple):
    """One quantity: what its axis says, and how it is taken from figures (None: it is not there)."""

    title: str
    unit: str
    of: Callable[[Answer], float | None]


def _seconds(group: str, name: str) -> Callable[[Answer], float | None]:
    return lambda figures: figures[group][name] / SECOND_US if figures.get(group) else None


PANELS: Final = (
    Panel("Longest wait of large actions", "seconds", _seconds("large", "max_us")),
    Panel("Mean wait of large actions", "seconds", _seconds("large", "mean_us")),
    Panel("Longest wait of all actions", "seconds", _seconds("waits", "max_us")),
    Panel("Mean wait of all actions", "seconds", _seconds("waits", "mean_us")),
    Panel("Held idle", "core-seconds", lambda figures: figures["holds"] and figures["holds"]["held_idle_core_s"]),
    Panel("Cores in use", "percent", lambda figures: _percent(figures.get("utilisation"))),
)


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def check_plots(paths: Sequence[Path]) -> None:
    """Whether these files can be plotted into; asked before the work. Raises CannotPlot."""
    for path in paths:
        if path.suffix.lower().removeprefix(".") not in FORMATS:
            raise CannotPlot(
                f"{path}: plots are written as {' or '.join(FORMATS)}", remedy="Name a file that ends in .svg or .png"
            )
        if not path.absolute().parent.is_dir():
            raise CannotPlot(f"{path}: there is no directory {path.parent}", remedy="Make it, or name another one")
    if paths and find_spec("matplotlib") is None:
        raise CannotPlot(
            "matplotlib is not installed",
            remedy="Install the extra: `pip install 'headway[plot]'`; without --plot nothing needs it",
        )


def plot(answer: Answer, paths: Sequence[Path]) -> None:
    """Write the plot of an answer (`projections.whatif.comparing.answer_of`) into each of `paths`. The same answer gives the same bytes."""
    import matplotlib

    matplotlib.use("Agg")
    # Text as text, and no hash or date that would differ from run to run.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "headway", "font.size": 10}):
        figure = _figure(answer)
        for path in paths:
            kind = path.suffix.lower().removeprefix(".")
            metadata = {"Date": None} if kind == "svg" else {"Software": None}
            figure.savefig(path, format=kind, dpi=150, metadata=metadata)


def _figure(answer: Answer) -> Any:
    from matplotlib.figure import Figure

    recorded = answer["policies"][0]
    policies = [policy for policy in answer["policies"] if policy["policy"] == CHANGED] or answer["policies"][1:2]
    panels = [panel for panel in PANELS if panel.of(recorded) is not None]
    held = any(policy["holds"]["made"] for policy in answer["policies"])
    panels = [panel for panel in panels if held or panel.title != "Held idle"]
    rows = (len(panels) + 1) // 2
    figure = Figure(figsize=(11, 0.9 + 2.9 * rows), layout="constrained")
    figure.suptitle(_title(answer), fontsize=12)
    grid = figure.subplots(rows, 2, squeeze=False)
    axes = [each for row in grid for each in row]
    for axis, panel in zip(axes, panels, strict=False):
        _draw(axis, panel, answer, policies)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def _title(answer: Answer) -> str:
    operations = answer["policies"][0]["waits"]["operations"]
    large = answer["policies"][0]["large"]
    size = f"; large: from {large['from_cpu_millis'] / 1000:g} cores ({large['operations']:,})" if large else ""
    return f"What if, of {answer['instance']}: {operations:,} actions{size}"


def _draw(axis: Axes, panel: Panel, answer: Answer, policies: Sequence[Answer]) -> None:
    option, places, names = _places(policies)
    values = [panel.of(policy) or 0.0 for policy in policies]
    off = panel.of(answer["error"]["most"]) or 0.0
    recorded = panel.of(answer["policies"][0]) or 0.0
    below = [min(off, value) for value in values]  # no wait is below nothing
    # Unclipped: a record that held nothing lies on the axis.
    axis.axhline(recorded, color=_RECORD, linestyle="--", linewidth=1.4, clip_on=False, zorder=3, label="as recorded")
    style = "o-" if names is None else "o"
    axis.errorbar(
        places,
        values,
        yerr=[below, [off] * len(values)],
        fmt=style,
        color=_INK,
        ecolor=_MUTED,
        elinewidth=1,
        capsize=3,
        markersize=5,
        label="modelled; bars: the model's error under the policy in force",
    )
    axis.set_title(panel.title, fontsize=10.5, loc="left")
    axis.set_ylabel(panel.unit)
    if names is None:
        axis.set_xlabel(option)
    else:
        axis.set_xticks(places, names)
        axis.set_xlim(-0.5, len(places) - 0.5)
    if panel.unit == "percent":
        _widen(axis)
    else:
        axis.set_ylim(bottom=0)
    axis.grid(axis="y", color="#dddddd", linewidth=0.8)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def _widen(axis: Axes) -> None:
    """Show at least two percent, so that what hardly changes is seen to."""
    low, high = axis.get_ylim()
    missing = max(2.0 - (high - low), 0.0) / 2
    axis.set_ylim(max(low - missing, 0.0), min(high + missing, 100.0))
    axis.ticklabel_format(axis="y", useOffset=False)


def _places(policies: Sequence[Answer]) -> tuple[str, list[float], list[str] | None]:
    """The swept option, where each policy stands on the axis, and the names there; None where the axis is one of numbers."""
    last = [policy["set"][-1] if policy["set"] else "unchanged" for policy in policies]
    options = {text.partition("=")[0] for text in last}
    if len(policies) > 1 and len(options) == 1:
        try:
            numbers = [float(text.partition("=")[2]) for text in last]
        except ValueError:
            numbers = []
        if numbers:
            option = options.pop()
            return f"{option} (seconds)" if option.endswith("_s") else option, numbers, None
    names = [", ".join(policy["set"]) or "unchanged" for policy in policies]
    return "", [float(place) for place in range(len(policies))], names
