"""An openb folder: a pod list and a node list side by side, by whatever names."""

from __future__ import annotations

from pathlib import Path

from streams.traces import TraceNode, TraceTask, UnreadableTrace, load_openb


def load_folder(folder: Path) -> tuple[list[TraceTask], list[TraceNode]]:
    """Tasks and machines of the one `*pod*.csv` and the one `*node*.csv` in `folder`.

    Raises UnreadableTrace: as the lists do, and when a list is missing or there are several.
    """
    return load_openb(_only(folder, "pod"), _only(folder, "node"))


def _only(folder: Path, word: str) -> Path:
    found = sorted(folder.glob(f"*{word}*.csv"))
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise UnreadableTrace(folder, 0, "", "", f"an openb folder holds exactly one *{word}*.csv; here: {names}")
    return found[0]
