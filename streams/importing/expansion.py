"""Values as NativeLink's files hold them: durations and counts as numbers or text, and variables of the environment in that text."""

import re
from collections.abc import Mapping
from typing import Any

from events.errors import InvalidConfiguration

UNITS_US = {
    1: ("us", "usec", "µs"),
    1_000: ("ms", "msec"),
    1_000_000: ("s", "sec", "secs", "second", "seconds"),
    60_000_000: ("m", "min", "mins", "minute", "minutes"),
    3_600_000_000: ("h", "hr", "hrs", "hour", "hours"),
    86_400_000_000: ("d", "day", "days"),
    604_800_000_000: ("w", "week", "weeks"),
}
_UNIT_US = {name: unit_us for unit_us, names in UNITS_US.items() for name in names}
_PART = re.compile(r"\s*([0-9]+)\s*([a-zµ]+)")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|([A-Za-z_][A-Za-z0-9_]*))")
_SECOND_US = 1_000_000

Environment = Mapping[str, str]


def shown(value: object) -> str:
    """A value as an error shows it."""
    return (value if isinstance(value, str) else repr(value))[:128]


def expanded(text: str, environment: Environment, path: str) -> str:
    """`text` with `$NAME`, `${NAME}` and `${NAME:-default}` replaced.

    Only from `environment`, never from the process's own: what a configuration says must not depend on where it is imported.
    Raises InvalidConfiguration for a variable that is not given and has no default.
    """

    def value_of(found: re.Match[str]) -> str:
        name, default = found[1] or found[3], found[2]
        if name in environment:
            return environment[name]
        if default is None:
            raise InvalidConfiguration(path, shown(text), f"the variable {name} is not given: add --env {name}=VALUE")
        return default

    return _VARIABLE.sub(value_of, text)


def text_of(value: Any, environment: Environment, path: str) -> str:
    """A text, expanded. Raises InvalidConfiguration."""
    if not isinstance(value, str):
        raise InvalidConfiguration(path, shown(value), "a text")
    return expanded(value, environment, path)


def count_of(value: Any, environment: Environment, path: str) -> int:
    """A count: a whole number, or text that is one. Raises InvalidConfiguration."""
    if isinstance(value, str):
        text = expanded(value, environment, path).strip()
        if not (text.isascii() and text.isdigit()):
            raise InvalidConfiguration(path, shown(value), "a whole number from 0, or text that is one")
        return int(text)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidConfiguration(path, shown(value), "a whole number from 0, or text that is one")
    return value


def seconds_of(value: Any, environment: Environment, path: str) -> int:
    """A duration in whole seconds: a number of seconds, or text such as "90", "10s" or "1h 30m". Raises InvalidConfiguration."""
    if not isinstance(value, str):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InvalidConfiguration(path, shown(value), 'whole seconds from 0, or text such as "10s" or "1h 30m"')
        return value
    text = expanded(value, environment, path).strip()
    if text.isascii() and text.isdigit():
        return int(text)
    total_us, end = 0, 0
    while end < len(text):
        part = _PART.match(text, end)
        if part is None or part[2] not in _UNIT_US:
            units = ", ".join(names[0] for names in UNITS_US.values())
            raise InvalidConfiguration(path, shown(value), f'a duration such as "10s" or "1h 30m"; units: {units}')
        total_us += int(part[1]) * _UNIT_US[part[2]]
        end = part.end()
    if not text or total_us % _SECOND_US:
        raise InvalidConfiguration(path, shown(value), "a duration of whole seconds")
    return total_us // _SECOND_US
