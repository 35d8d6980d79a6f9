"""`--set PATH=VALUE`: a recorded configuration with some options changed, checked by the models that check every configuration."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, get_args

from events.config import HoldConfig, canonical_config, parse_config
from events.errors import HeadwayError, InvalidConfiguration

OFF: Final = ("off", "none", "null")
"""Values that take an option away."""

MOST_SWEPT: Final = 64
"""Values that one sweep compares."""

DEFAULT_HOLD: Final = {"kind": "shortfall", "after_s": 60}
"""What a hold is that is switched on by one of its options alone, as far as its kind cannot do without."""


class BadSetting(HeadwayError):
    """A setting cannot be read: it is no PATH=VALUE, or its path leads nowhere."""

    code = "HW-130"


class Setting(NamedTuple):
    """One option and the value it is to have."""

    path: tuple[str, ...]
    value: Any

    def __str__(self) -> str:
        shown = "off" if self.value is None else self.value if isinstance(self.value, str) else json.dumps(self.value)
        return f"{'.'.join(self.path)}={shown}"


def parse_setting(text: str) -> Setting:
    """`hold.after_s=60`, `hold=off`, `hold={"kind":"backfill"}`: JSON where it is some, else text. Raises BadSetting."""
    path, sign, value = text.partition("=")
    steps = tuple(path.strip().split("."))
    if not sign or not all(steps):
        raise BadSetting(f"setting {text!r} is refused: write PATH=VALUE, as in hold.after_s=60, hold=off")
    return Setting(steps, value_of(value))


def value_of(text: str) -> Any:
    """The value that a text stands for."""
    if text.strip().lower() in OFF:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text.strip()


def changed(config_json: str, settings: Sequence[Setting]) -> str:
    """The canonical text of a configuration with the settings put in, in order.

    A path begins at the scheduler that has its first option: mostly the innermost one, so `hold.after_s` also reaches through decorators;
    `scheduler.…` goes there step by step. A hold whose kind changes keeps the options that the new kind has; one that is switched on by an
    option alone is otherwise as `DEFAULT_HOLD`.

    Raises:
        BadSetting: a path leads through something that has no options.
        InvalidConfiguration: what comes out breaks a rule; it names the field, the value and what is allowed.
    """
    if not settings:
        return canonical_config(parse_config(config_json))
    raw: dict[str, Any] = json.loads(canonical_config(parse_config(config_json)))
    for path, value in settings:
        _put(_level(raw, path[0]), path, value)
    _complete_holds(raw)
    return canonical_config(parse_config(json.dumps(raw)))


def changed_if_valid(config_json: str, settings: Sequence[Setting]) -> str:
    """As `changed`; a recorded text that breaks a rule itself stays as it is, to be refused again. Raises: as `changed`."""
    try:
        parse_config(config_json)
    except InvalidConfiguration:
        return config_json
    return changed(config_json, settings)


def _level(raw: dict[str, Any], option: str) -> dict[str, Any]:
    """The scheduler from the outside in that has the option; the innermost where none has."""
    level = raw
    while option not in level and isinstance(level.get("scheduler"), dict):
        level = level["scheduler"]
    return level


def _put(level: dict[str, Any], path: Sequence[str], value: Any) -> None:
    at = level
    for depth, step in enumerate(path[:-1]):
        inner = at.get(step)
        if inner is None:
            inner = at[step] = {}
        if not isinstance(inner, dict):
            shown = ".".join(path[: depth + 1])
            raise BadSetting(f"setting {'.'.join(path)!r} is refused: {shown} is {inner!r} and has no options")
        at = inner
    at[path[-1]] = value


def _complete_holds(raw: dict[str, Any]) -> None:
    hold = raw.get("hold")
    if isinstance(hold, dict):
        hold.setdefault("kind", DEFAULT_HOLD["kind"])
        raw["hold"] = _of_kind(hold)
    if isinstance(raw.get("scheduler"), dict):
        _complete_holds(raw["scheduler"])


def _of_kind(hold: dict[str, Any]) -> dict[str, Any]:
    """Without what another kind of hold has and this one has not; what none has stays, to be refused by name."""
    kinds = {get_args(model.model_fields["kind"].annotation)[0]: model for model in get_args(get_args(HoldConfig)[0])}
    own = kinds.get(hold["kind"])
    if own is None:
        return hold
    known = {name for model in kinds.values() for name in model.model_fields}
    needed = {name: value for name, value in DEFAULT_HOLD.items() if own.model_fields[name].is_required()}
    return {**needed, **{name: value for name, value in hold.items() if name in own.model_fields or name not in known}}


def sweep_of(text: str) -> list[Setting]:
    """`hold.after_s=15,30,60` or `hold.after_s=15..240/15` (from 15 to 240 in steps of 15) as settings. Raises BadSetting."""
    path, sign, listed = text.partition("=")
    if not sign or not listed.strip():
        raise BadSetting(
            f"sweep {text!r} is refused: write PATH=VALUE,VALUE,… or PATH=FIRST..LAST/STEP, as in hold.after_s=15,30,60 "
            "or hold.after_s=15..240/15"
        )
    found: list[Setting] = []
    for part in listed.split(","):
        for value in _values(text, part):
            setting = parse_setting(f"{path}={value}")
            if setting not in found:
                found.append(setting)
    if len(found) > MOST_SWEPT:
        raise BadSetting(f"sweep {text!r} is refused: {len(found)} values, at most {MOST_SWEPT} are compared at once")
    return found


def _values(text: str, part: str) -> list[str]:
    first, dots, rest = part.partition("..")
    if not dots:
        return [part]
    last, _, step = rest.partition("/")
    try:
        numbers = int(first), int(last), int(step or "1")
    except ValueError:
        numbers = (0, 0, 0)
    if numbers[2] < 1 or numbers[1] < numbers[0] or (numbers[1] - numbers[0]) // numbers[2] >= 1 << 16:
        raise BadSetting(f"sweep {text!r} is refused: {part!r} is no range; write FIRST..LAST/STEP, as in 15..240/15")
    return [str(number) for number in range(numbers[0], numbers[1] + 1, numbers[2])]
