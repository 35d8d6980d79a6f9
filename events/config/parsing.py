"""From text to a configuration and back, and what the core makes of a nested one."""

import json
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from events.config.decorators import (
    CacheLookupScheduler,
    HistoricalResourceScheduler,
    PropertyModifierScheduler,
    SchedulerConfig,
    UpstreamScheduler,
)
from events.config.refusing import nearest, refusal
from events.config.simple import SimpleScheduler
from events.errors import InvalidConfiguration

_ADAPTER: TypeAdapter[SchedulerConfig] = TypeAdapter(SchedulerConfig)
DEFAULT_CONFIG = SimpleScheduler(kind="simple")
KINDS = ("simple", "cache_lookup", "property_modifier", "historical_resource", "upstream")
_DEEPEST = 32

Decorator = CacheLookupScheduler | PropertyModifierScheduler | HistoricalResourceScheduler


class Resolved(NamedTuple):
    """A nested configuration, flat: what an action passes from the outside in, then who places it.

    `base` holds the options that every instance has; under an `upstream` they are the defaults.
    """

    steps: tuple[Decorator, ...]
    base: SimpleScheduler
    upstream: UpstreamScheduler | None


def resolve(config: SchedulerConfig) -> Resolved:
    """Flatten a configuration."""
    steps: list[Decorator] = []
    inner = config
    while isinstance(inner, CacheLookupScheduler | PropertyModifierScheduler | HistoricalResourceScheduler):
        steps.append(inner)
        inner = inner.scheduler
    if isinstance(inner, UpstreamScheduler):
        return Resolved(
            tuple(steps), SimpleScheduler(kind="simple", retain_completed_for_s=inner.retain_completed_for_s), inner
        )
    return Resolved(tuple(steps), inner, None)


def parse_config(text: str) -> SchedulerConfig:
    """Validate JSON `text`.

    Raises InvalidConfiguration with field path, value and rule; a missing `kind` is answered with the corrected text to paste.
    """
    try:
        raw = json.loads(text, object_pairs_hook=_once_each, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidConfiguration("", text[:60], f"not JSON: {error}") from error
    if not isinstance(raw, dict):
        raise InvalidConfiguration("", text[:60], "a configuration is a JSON object")
    _check_kinds(raw)
    read = _with_own_names(raw, "")
    try:
        # From text again: strict types, and still enums by name and lists for tuples.
        config = _ADAPTER.validate_json(json.dumps(read), strict=True)
    except ValidationError as error:
        raise refusal(raw, error.errors()) from error
    _check_hinted(config)
    return config


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r} stands twice in one object")
        found[name] = value
    return found


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON number")


def _check_kinds(raw: dict[str, object]) -> None:
    """Every level says which scheduler it is for; the error shows the text to paste."""
    inner: object = raw
    path = ""
    for _ in range(_DEEPEST):
        if not isinstance(inner, dict):
            return
        kind = inner.get("kind")
        if "kind" not in inner:
            guess = (
                "property_modifier"
                if "modifications" in inner
                else "cache_lookup"
                if "scheduler" in inner
                else "upstream"
                if "instance" in inner
                else "simple"
            )
            corrected = json.dumps({"kind": guess, **inner})
            raise InvalidConfiguration(
                f"{path}kind", "", f"a configuration says which scheduler it is for; write {corrected}"
            )
        if kind not in KINDS:
            raise InvalidConfiguration(f"{path}kind", str(kind), nearest(str(kind), KINDS, "known kinds"))
        inner, path = inner.get("scheduler"), f"{path}scheduler."
    raise InvalidConfiguration(path.rstrip("."), "", f"nested at most {_DEEPEST} deep")


def _check_hinted(config: SchedulerConfig) -> None:
    """What hints raise is a minimum of the scheduler behind, or an action with a hint would fit nowhere."""
    steps, base, upstream = resolve(config)
    if upstream is not None:
        return  # whose properties are what kind is known there
    pools = base.pools()
    for depth, step in enumerate(steps):
        if isinstance(step, HistoricalResourceScheduler):
            for option in ("cpu_property", "memory_property"):
                name = getattr(step, option)
                if name not in pools:
                    field = "scheduler." * depth + option
                    raise InvalidConfiguration(field, name, f"a property of kind minimum: {', '.join(pools)}")


def _with_own_names(raw: dict[str, Any], path: str) -> dict[str, Any]:
    """The configuration with our names for the reference's: `head_of_line_reservation: {after_s}` is a shortfall hold."""
    inner = raw.get("scheduler")
    if isinstance(inner, dict):
        raw = {**raw, "scheduler": _with_own_names(inner, f"{path}scheduler.")}
    if raw["kind"] != "simple" or "head_of_line_reservation" not in raw:
        return raw
    reservation = raw["head_of_line_reservation"]
    field = f"{path}head_of_line_reservation"
    rest = {name: value for name, value in raw.items() if name != "head_of_line_reservation"}
    if reservation is None:
        return rest
    if not isinstance(reservation, dict):
        raise InvalidConfiguration(field, str(reservation)[:128], 'an object: {"after_s": 60}')
    if raw.get("hold") is not None:
        raise InvalidConfiguration(field, "", "hold and head_of_line_reservation say the same; keep hold")
    return {**rest, "hold": {**reservation, "kind": "shortfall"}}


def canonical_config(config: SchedulerConfig) -> str:
    """The one JSON text of a configuration: every option present, keys sorted, no white space."""
    return json.dumps(config.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
