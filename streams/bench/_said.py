"""When a decider said something: the moments of its own log lines, in milliseconds of the wall clock that this process reads as well."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Final

_LINE: Final = re.compile(r"^(\S+Z) \w+ headway\.decider (.*?)(?: \w+=|$)", re.MULTILINE)

STARTED: Final = "started"
OPENS: Final = "following to opening"
LEADS: Final = "opening to leading"


def moments(path: Path, what: str, *, behind: int = 0) -> list[float]:
    """Seconds since 1970 of each line of a decider's log that says `what`, those in its first `behind` characters left out."""
    lines = path.read_text(encoding="utf-8")[behind:]
    return [datetime.fromisoformat(at).timestamp() for at, said in _LINE.findall(lines) if said == what]


def said_so_far(path: Path) -> int:
    """How many characters the log has."""
    return len(path.read_text(encoding="utf-8"))


def last_words(path: Path) -> str:
    """The last line of a log."""
    return next(reversed(path.read_text(encoding="utf-8").splitlines()), "nothing")
