"""From text to a configuration and back, and what the core makes of a nested one."""

import json
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from events.config.decorators import (
    CacheLookupScheduler,
    HistoricalResourceScheduler,
    PropertyModifierScheduler,
    SchedulerConfig,
    UpstreamScheduler,
)
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
        raw = json.loads(text)
    except ValueError as error:
        raise InvalidConfiguration("", text[:60], f"not JSON: {error}") from error
    if not isinstance(raw, dict):
        raise InvalidConfiguration("", text[:60], "a configuration is a JSON object")
    _check_kinds(raw)
    try:
        return _ADAPTER.validate_python(raw)
    except ValidationError as error:
        first = error.errors()[0]
        # The tags of the union stand in the path as if they were fields.
        field = ".".join(str(part) for part in first["loc"] if part not in KINDS)
        raise InvalidConfiguration(field, repr(first.get("input"))[:128], first["msg"]) from error


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
                else "simple"
            )
            corrected = json.dumps({"kind": guess, **inner})
            raise InvalidConfiguration(
                f"{path}kind", "", f"a configuration says which scheduler it is for; write {corrected}"
            )
        if kind not in KINDS:
            raise InvalidConfiguration(f"{path}kind", str(kind), f"known kinds: {', '.join(KINDS)}")
        inner, path = inner.get("scheduler"), f"{path}scheduler."
    raise InvalidConfiguration(path.rstrip("."), "", f"nested at most {_DEEPEST} deep")


def canonical_config(config: SchedulerConfig) -> str:
    """The one JSON text of a configuration: every option present, keys sorted, no white space."""
    return json.dumps(config.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
