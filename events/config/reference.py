"""The reference page of the configuration, made from the models themselves, so that it cannot say anything else."""

import json
import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from events.config.decorators import (
    CacheLookupScheduler,
    HistoricalResourceScheduler,
    Modification,
    PropertyModifierScheduler,
    UpstreamScheduler,
)
from events.config.hold import BackfillHold, DrainTimeHold, ShortfallHold
from events.config.locality import LocalityConfig
from events.config.simple import AllocationStrategy, FairShare, MemoryEscalation, PropertyKind, SimpleScheduler

SCHEDULERS = (
    SimpleScheduler,
    CacheLookupScheduler,
    PropertyModifierScheduler,
    HistoricalResourceScheduler,
    UpstreamScheduler,
)
PARTS: dict[str, tuple[type[BaseModel], ...]] = {
    "hold": (ShortfallHold, BackfillHold, DrainTimeHold),
    "memory_escalation": (MemoryEscalation,),
    "fair_share": (FairShare,),
    "locality": (LocalityConfig,),
    "modifications": (Modification,),
}
"""Models inside a scheduler's options, by the option that holds them."""

CHOICES: dict[type[StrEnum], dict[str, str]] = {
    PropertyKind: {
        "minimum": "A number; the worker must have at least so much left, and pays it out while the action runs.",
        "exact": "The worker must declare the same value.",
        "priority": "The worker must declare the name; under `best_fit` the same value is preferred.",
        "ignore": "Not looked at.",
    },
    AllocationStrategy: {
        "least_recently_used": "The one that has had nothing to do for longest.",
        "most_recently_used": "The one that had something to do last.",
        "least_loaded": "The one that runs the fewest actions; among equals the least recently used.",
        "best_fit": "The one that prefers the action most, then the one it leaves the least room on, then the least loaded.",
    },
}

_RULE = re.compile(r" \((?:section [0-9.]+|sections [0-9.]+ and [0-9.]+|[A-Z]+-?[0-9]+(?:[-,] ?[A-Z]+-?[0-9]+)*)\)")
"""The numbers of the rules, which docstrings cite and a reader of the page has no use for."""

_HEAD = """# Configuration

The configuration of an instance is JSON: one scheduler, or schedulers around a scheduler, each with its `kind`. It enters the log as
a fact and is in force from there on. `headway config set FILE` puts it in force, `headway config show` prints it,
`headway config import FILE` reads NativeLink's. Options left out have their default; unknown ones are refused. Examples stand in
[infra/examples](../examples/README.md).

This page is made from the program by `headway config reference`.
"""


def reference() -> str:
    """The page, in Markdown."""
    parts = [_HEAD]
    for model in SCHEDULERS:
        parts.append(_section(f"## `{_kind_of(model)}`", model))
        for option, models in PARTS.items():
            if option in model.model_fields:
                parts += [_section(_title(option, part), part) for part in models]
        if model is SimpleScheduler:
            parts += [_choices(name, kind) for name, kind in _choosing(model)]
    return "\n".join(parts)


def _title(option: str, model: type[BaseModel]) -> str:
    kind = _kind_of(model) if option == "hold" else ""
    return f"### `{option}`" + (f": `{kind}`" if kind else "")


def _kind_of(model: type[BaseModel]) -> str:
    field = model.model_fields.get("kind")
    return str(get_args(field.annotation)[0]) if field is not None else ""


def _section(title: str, model: type[BaseModel]) -> str:
    said = _said(model.__doc__).replace("\n    ", "\n")
    rows = "".join(
        f"| `{name}` | {_type(field.annotation)} | {_default(field)} | {_said(field.description).replace('|', chr(92) + '|')} |\n"
        for name, field in model.model_fields.items()
        if not _is_tag(field)
    )
    return f"{title}\n\n{said}\n\n| option | type | default | meaning |\n|---|---|---|---|\n{rows}"


def _said(text: str | None) -> str:
    return _RULE.sub("", (text or "").strip())


def _choices(option: str, kind: type[StrEnum]) -> str:
    rows = "".join(f"| `{value}` | {CHOICES[kind][value]} |\n" for value in kind)
    return f"### `{option}`: choices\n\n| value | meaning |\n|---|---|\n{rows}"


def _choosing(model: type[BaseModel]) -> Iterator[tuple[str, type[StrEnum]]]:
    for name, field in model.model_fields.items():
        for part in (field.annotation, *get_args(field.annotation)):
            if isinstance(part, type) and issubclass(part, StrEnum):
                yield name, part


def _is_tag(field: FieldInfo) -> bool:
    return get_origin(field.annotation) is Literal and len(get_args(field.annotation)) == 1


def _type(hint: Any) -> str:
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return "a choice"
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return "object"
    plain = {int: "whole number", str: "text", bool: "true or false"}.get(hint)
    if plain is not None:
        return plain
    origin, arguments = get_origin(hint), [part for part in get_args(hint) if part not in (type(None), Ellipsis)]
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin is tuple:
        return f"list of {_plural(arguments[0])}"
    if origin is dict:
        return "object: name to choice"
    return _one_of(arguments)


def _plural(hint: Any) -> str:
    return {int: "whole numbers", str: "texts"}.get(hint, "objects")


def _one_of(hints: Iterable[Any]) -> str:
    named = dict.fromkeys(_type(hint) for hint in hints if not hasattr(hint, "discriminator"))
    return " or ".join(named) or "object"


def _default(field: FieldInfo) -> str:
    if field.default_factory is not None:
        return "`{}`"
    if field.default is PydanticUndefined:
        return "required"
    if field.default is None:
        return "unset"
    return f"`{json.dumps(field.default)}`"
