"""Facts out of JSON: on the topic with `content-type: application/json`, on the command line, in `headway decide`."""

import json
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from events.errors import InvalidFact
from events.fact_rules import check_fact, shown
from events.facts import Fact
from events.jsonform.fact_models import FORMS


class _RepeatedField(ValueError):
    pass


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise _RepeatedField(next(name for name in names if names.count(name) > 1))
    return found


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON number")


def json_object(text: str | bytes) -> dict[str, Any]:
    """The JSON object in `text` (one fact).

    Raises:
        InvalidFact: with an empty `field`: not UTF-8, not JSON, not an object, a field that stands twice.
    """
    try:
        decoded = text.decode("utf-8") if isinstance(text, bytes) else text
        value = json.loads(decoded, object_pairs_hook=_once_each, parse_constant=_no_constant)
        if "\\ud" in decoded or "\\uD" in decoded:
            # Half of a surrogate pair is valid in JSON and no character: nothing could write it out again.
            json.dumps(value, ensure_ascii=False).encode()
    except _RepeatedField as error:
        raise InvalidFact("", "", shown(decoded), f"the field {shown(error)!r} stands twice in one object") from error
    except UnicodeError as error:
        excerpt = shown(text if isinstance(text, str) else text.decode("utf-8", "backslashreplace"))
        raise InvalidFact("", "", excerpt, f"a JSON fact is UTF-8 text: {error}") from error
    except RecursionError as error:
        raise InvalidFact("", "", shown(decoded), "a JSON fact is not nested this deeply") from error
    except ValueError as error:
        raise InvalidFact("", "", shown(decoded), f"a JSON fact is one JSON object: {error}") from error
    if not isinstance(value, dict):
        raise InvalidFact("", "", shown(decoded), 'a JSON fact is one JSON object, {"kind": "…", …}')
    return value


def json_key(obj: dict[str, Any]) -> object:
    """The record key that a JSON fact names, valid or not: what a person looks for."""
    return obj.get("client_operation_id") or obj.get("endpoint") or obj.get("key")


def _nearest(name: str, known: list[str]) -> str:
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"


def _path(parts: tuple[int | str, ...]) -> str:
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path


def fact_from_json(obj: dict[str, Any]) -> Fact:
    """The fact that a JSON object stands for. An omitted `instance` is "main".

    Raises:
        InvalidFact: `kind` is missing or unknown (its `field` is "kind" then), a field is unknown (the nearest known one is
            suggested), has the wrong type, or breaks a rule of events/fact_rules.py.
    """
    kind = obj.get("kind")
    form = FORMS.get(kind) if isinstance(kind, str) else None
    if form is None:
        rule = _nearest(kind, sorted(FORMS)) if isinstance(kind, str) else f"one of {', '.join(sorted(FORMS))}"
        raise InvalidFact(
            shown(kind) if isinstance(kind, str) else "", "kind", shown(kind), f"a fact says its kind; {rule}"
        )
    try:
        fact = form.model_validate(obj).fact()
    except ValidationError as error:
        first = error.errors()[0]
        path = shown(_path(first["loc"]))
        if first["type"] == "extra_forbidden":
            name = str(first["loc"][-1])
            known = [name for name in form.model_fields if name != "kind"] if len(first["loc"]) == 1 else []
            hint = f"; {_nearest(name, known)}" if known else ""
            raise InvalidFact(str(kind), path, shown(first["input"]), f"there is no such field{hint}") from error
        if first["type"] == "missing":
            raise InvalidFact(str(kind), path, "", "this field is required") from error
        rule = first["msg"].removeprefix("Value error, ").replace("Input should be", "the value should be")
        raise InvalidFact(str(kind), path, shown(first["input"]), rule) from error
    check_fact(fact)
    return fact
