"""A second, independent copy of a shard's state: what is decided on one of them is not seen in the other.

Made of the rows alone, so the original may not be live (its indexes refer to rows); `indexing.build_indexes` makes the copy live.
Rows refer to each other in circles and in chains as long as the fleet (a revoked run leads to an operation that runs elsewhere by now, and
so on), so they are walked from a list and never by recursion. What cannot change is shared.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any

from pydantic import BaseModel

from events.state import Shard

_PLAIN = (int, str, bytes, type(None), Enum)


def copy_of(shard: Shard) -> Shard:
    """The copy. Raises ValueError for a shard whose indexes are live, TypeError for a kind of value that no row had so far."""
    if shard.live:
        raise ValueError(f"the state after event {shard.seq} is live: copy the one that is only folded")
    copying = _Copying()
    made: Shard = copying.twin(shard)
    copying.fill()
    return made


class _Copying:
    """One copy in the making. A twin is there before what it refers to: that is filled in from the list."""

    def __init__(self) -> None:
        # By original, of the rows that others refer to: those are compared by identity.
        self._twins: dict[Any, Any] = {}
        self._unfilled: list[tuple[Any, Any]] = []

    def twin(self, value: Any) -> Any:
        """What stands for `value` in the copy."""
        kind: Any = type(value)
        if _is_shared(kind):
            return value
        if isinstance(value, tuple):
            # Immutable itself, and small: it is walked at once.
            parts = [self.twin(part) for part in value]
            if all(part is own for part, own in zip(parts, value, strict=True)):
                return value
            return tuple(parts) if kind is tuple else kind(*parts)
        if isinstance(value, deque):
            made: Any = deque(maxlen=value.maxlen)
        elif isinstance(value, dict | list):
            made = kind()
        else:
            referred_to = kind.__hash__ is not None
            if referred_to and value in self._twins:
                return self._twins[value]
            made = object.__new__(kind)
            if referred_to:
                self._twins[value] = made
        self._unfilled.append((value, made))
        return made

    def fill(self) -> None:
        """Fill in every twin, those that come up on the way included."""
        twin, unfilled = self.twin, self._unfilled
        shared: set[type] = set()  # looked up for each field of each row: most values are plain
        while unfilled:
            value, made = unfilled.pop()
            if isinstance(value, dict):
                for key, content in value.items():
                    made[twin(key)] = twin(content)
            elif isinstance(value, list | deque):
                made.extend(map(twin, value))
            else:
                row: Any = type(value)
                names, values_of = _fields(row)
                for name, content in zip(names, values_of(value), strict=True):
                    kind: Any = type(content)
                    if kind not in shared:
                        if _is_shared(kind):
                            shared.add(kind)
                        else:
                            content = twin(content)
                    setattr(made, name, content)


@cache
def _fields(kind: type[Any]) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    """The names of a row's fields, and what gives their values."""
    names = tuple(kind.__slots__)
    return names, attrgetter(*names) if len(names) > 1 else lambda row: (getattr(row, names[0]),)


@cache
def _is_shared(kind: type[Any]) -> bool:
    """Whether values of this type never change. Raises TypeError for one that is unknown."""
    if issubclass(kind, _PLAIN):
        return True
    if issubclass(kind, tuple | dict | list | deque):
        return False
    if issubclass(kind, BaseModel) and kind.model_config.get("frozen"):
        return True
    if "__slots__" in vars(kind) and kind.__base__ is object:
        return is_dataclass(kind) and bool(vars(kind)["__dataclass_params__"].frozen)
    raise TypeError(f"a {kind.__name__} in a row: say here how it is copied")
