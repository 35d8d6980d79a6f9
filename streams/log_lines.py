"""Structured log lines of the processes: one line each on standard error, `time level logger what key=value ...`.

Values are JSON where they are not a plain word, so a line can be cut into its fields again and a traceback stays on it.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import IO, Any

_PLAIN = re.compile(r"[\w.:/@+-]+")


def say(logger: logging.Logger, level: int, what: str, **fields: Any) -> None:
    """Log `what` (a constant sentence, so that it can be searched for) with its fields; a field that is None is left out."""
    if logger.isEnabledFor(level):
        logger.log(level, what, extra={"fields": {name: value for name, value in fields.items() if value is not None}})


def shown(value: Any) -> str:
    """A field's value on a line: as it is when it is a plain word or number, else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if _PLAIN.fullmatch(text) else json.dumps(text if isinstance(value, str) else value, default=str)


class OneLine(logging.Formatter):
    """Formats a record as one line, its exception included."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        parts = [at, record.levelname.lower(), record.name, " ".join(record.getMessage().split("\n"))]
        parts += [f"{name}={shown(value)}" for name, value in getattr(record, "fields", {}).items()]
        if record.exc_info:
            parts.append(f"traceback={json.dumps(self.formatException(record.exc_info))}")
        return " ".join(parts)


def configure(level: str = "INFO", stream: IO[str] | None = None) -> None:
    """Send everything at `level` and above as lines to `stream` (standard error); called once, by a process's entry point."""
    sink = logging.StreamHandler(stream or sys.stderr)
    sink.setFormatter(OneLine())
    root = logging.getLogger()
    root.handlers[:] = [sink]
    root.setLevel(level)
    # aiokafka reports every retry as a warning or an error of its own; what matters of it reaches us as an exception.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
