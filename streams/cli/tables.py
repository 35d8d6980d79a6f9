"""The columns and footers that several commands share, and how a person names an operation."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from streams.cli.output import duration, plural
from streams.views import Answer

_OPERATION = re.compile(r"(?:(?P<instance>.+)/)?op-(?P<number>\d{1,18})|(?P<bare>\d{1,18})")


class OperationName(NamedTuple):
    """How a person named an operation: by exactly one of the two ids; `instance` where the name holds one."""

    text: str
    instance: str | None
    operation_id: int | None
    client_operation_id: str


def parse_operation(text: str) -> OperationName:
    """`INSTANCE/op-N`, `op-N` and `N` are operation ids; anything else is a client operation id."""
    match = _OPERATION.fullmatch(text)
    if match is None:
        return OperationName(text, None, None, text)
    return OperationName(text, match["instance"], int(match["number"] or match["bare"]), "")


def pairs_shown(value: Any) -> str:
    """Name-value pairs on one line: `cpu_millis=4000 memory_kib=1048576`."""
    if isinstance(value, Mapping):
        return " ".join(f"{name}={amount}" for name, amount in value.items())
    return " ".join(f"{pair['name']}={pair['value']}" for pair in value or ())


def exit_shown(exit_code: int | None, after: str = "", *, before: str = "") -> str:
    """How a run left, `exit code 3` or `killed by signal 9` (which is -9), with what stands around it; empty for None."""
    if exit_code is None:
        return ""
    said = f"exit code {exit_code}" if exit_code >= 0 else f"killed by signal {-exit_code}"
    return f"{before}{said}{after}"


def left_shown(row: Mapping[str, Any]) -> str:
    """What a worker has left of what it declares: `cpu_millis 1000/4000`."""
    totals, remaining = row.get("totals") or {}, row.get("remaining") or {}
    return ", ".join(f"{name} {remaining.get(name, 0)}/{total}" for name, total in totals.items())


def answer_age(answer: Answer) -> str:
    """From which position and how old an answer is, for every shard that it is from."""
    return ", ".join(
        f"shard {part['shard']} seq {part['seq']}, {duration(part['age_ms'] * 1_000)} old"
        for part in answer.get("shards", ())
    )


def answer_now_us(answer: Answer) -> int:
    """The scheduler's time as of an answer: the wall clock less the answer's age."""
    return time.time_ns() // 1_000 - int(answer["age_ms"]) * 1_000


def counted(rows: Sequence[object], what: str) -> str:
    """`3 workers`, `1 worker`."""
    return plural(len(rows), what)
