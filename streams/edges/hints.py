"""Resource hints from a file: what actions of a kind have needed before (D3).

CSV has a header line with some of the four columns; JSON is a list of objects, or an object with that list under `hints`:

    target_id,mnemonic,cpu_millis,memory_kib          [{"target_id": "//app:test", "memory_kib": 4194304},
    //app:test,,,4194304                               {"mnemonic": "CppLink", "cpu_millis": 2000}]
    ,CppLink,2000,

A row names a target, a mnemonic or both; looked up are both together, then the target, then the mnemonic. An amount that is 0 or left
out is no hint. A file replaces all hints of the instance; what it cannot mean is refused whole, with file, row, field and rule, and
the hints in force stay.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, NamedTuple

from events.errors import InvalidFact
from events.fact_rules import check_fact
from events.facts import HintsLoaded
from events.values import ResourceHint
from streams.errors import StreamError

Form = Literal["json", "csv"]
FIELDS: Final = ResourceHint._fields
MOST_DIGITS: Final = 20
_AMOUNTS: Final = ("cpu_millis", "memory_kib")


class UnreadableHints(StreamError):
    """A file of resource hints cannot be read, or means nothing that can be loaded. The hints in force stay."""

    code: ClassVar[str] = "unreadable-hints"
    runbook: ClassVar[str] = (
        "Correct the row that the message names and load the file again; until then the former hints hold."
    )

    def __init__(
        self, path: Path, why: str, remedy: str = "Correct the file and load it again; the hints in force stay"
    ) -> None:
        self.path, self.why = path, why
        super().__init__(f"{path}: {why}", remedy=remedy)


class HintFile(NamedTuple):
    """What a file held when it was read."""

    hints: tuple[ResourceHint, ...]
    digest: bytes  # of its bytes: whether it has changed


def read_hints(path: Path, form: Form | None = None) -> HintFile:
    """The hints in a file; `form` None goes by its name, which then ends in .json or .csv.

    Raises:
        UnreadableHints: with file, row, field and the rule it breaks.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UnreadableHints(path, error.strerror or str(error)) from error
    form = form or _form_of(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableHints(path, f"it is not UTF-8 text: byte {error.start} ({error.reason})") from error
    rows = list(_json_rows(path, text) if form == "json" else _csv_rows(path, text))
    hints = tuple([_hint(path, where, row) for where, row in rows])
    try:
        check_fact(HintsLoaded("any", hints))
    except InvalidFact as error:
        found = re.match(r"hints\[(\d+)\]", error.field)
        where = error.field if found is None else rows[int(found[1])][0] + error.field[found.end() :]
        raise UnreadableHints(path, f"{where}: {error.value!r} is refused: {error.rule}") from error
    return HintFile(hints, blake2b(content, digest_size=16).digest())


def _form_of(path: Path) -> Form:
    suffix = path.suffix.lower()
    if suffix not in (".json", ".csv"):
        raise UnreadableHints(
            path,
            f"its name ends in {suffix or 'nothing'}, not in .json or .csv",
            remedy="Say which form it has with --format",
        )
    return "json" if suffix == ".json" else "csv"


_Rows = Iterable[tuple[str, Mapping[str, Any]]]
"""Where a row stands, and its fields."""


def _json_rows(path: Path, text: str) -> _Rows:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableHints(path, f"not JSON: {error}") from error
    if isinstance(content, dict) and list(content) == ["hints"]:
        content = content["hints"]
    if not isinstance(content, list):
        raise UnreadableHints(path, 'it holds neither a list of hints nor {"hints": [...]}')
    for number, row in enumerate(content):
        if not isinstance(row, dict):
            raise UnreadableHints(path, f"hints[{number}] is {str(row)[:60]!r}, not an object")
        yield f"hints[{number}]", row


def _csv_rows(path: Path, text: str) -> _Rows:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        if not header or len({*header}) != len(header):
            raise UnreadableHints(
                path, f"line 1: a header names each of its columns once; known are {', '.join(FIELDS)}"
            )
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                raise UnreadableHints(path, f"line {reader.line_num}: {len(row)} fields under {len(header)} columns")
            yield f"line {reader.line_num}", dict(zip(header, [field.strip() for field in row], strict=True))
    except csv.Error as error:
        raise UnreadableHints(path, f"line {reader.line_num}: not CSV: {error}") from error


def _hint(path: Path, where: str, row: Mapping[str, Any]) -> ResourceHint:
    unknown = [name for name in row if name not in FIELDS]
    if unknown:
        raise UnreadableHints(path, f"{where}: unknown field {unknown[0][:60]!r}; known are {', '.join(FIELDS)}")
    names = [row.get(name, "") for name in ("target_id", "mnemonic")]
    for name, value in zip(("target_id", "mnemonic"), names, strict=True):
        if not isinstance(value, str):
            raise UnreadableHints(path, f"{where}.{name}: {value!r} is refused: a text")
    target_id, mnemonic = names
    cpu_millis, memory_kib = (_amount(path, f"{where}.{name}", row.get(name, 0)) for name in _AMOUNTS)
    return ResourceHint(target_id, mnemonic, cpu_millis, memory_kib)


def _amount(path: Path, where: str, value: Any) -> int:
    if isinstance(value, str):
        value = value or "0"
        if value.isascii() and value.isdigit() and len(value) <= MOST_DIGITS:
            value = int(value)
    if type(value) is not int:
        raise UnreadableHints(
            path, f"{where}: {str(value)[:60]!r} is refused: a whole number from 0 (no hint) to 2^63-1"
        )
    return value
