"""Capacity arithmetic: what an action demands, what a worker offers, and whether one fits the other (section 1.2).

Pools are the properties of kind minimum, by index into the instance's `pools`. A worker that does not declare a pool has -1 there: it
satisfies no demand on it, not even one of 0 (the key is required).
"""

from dataclasses import dataclass

from events.config import PropertyKind, SimpleScheduler
from events.values import U63_MAX, Properties

UNDECLARED = -1


class NotANumber(ValueError):
    """A value of kind minimum is not a whole number from 0 to 2^63-1 (P1, P2)."""

    def __init__(self, name: str, value: str) -> None:
        super().__init__(f"{name}={value!r}")
        self.name, self.value = name, value


def parse_amount(name: str, value: str) -> int:
    """The amount of a property of kind minimum. Raises NotANumber."""
    # isascii too: str.isdigit is true for digits of other scripts, which no other client would read.
    if not (value.isascii() and value.isdigit()) or len(value) > 19 or int(value) > U63_MAX:
        raise NotANumber(name, value)
    return int(value)


@dataclass(slots=True, frozen=True)
class StaticNeed:
    """What an action asks for apart from amounts; whether a worker satisfies it never changes with load."""

    exact: Properties  # equal value required
    present: tuple[str, ...]  # key required (kind priority)
    unknown: Properties  # equal value required only where the worker declares the key

    def satisfied_by(self, properties: dict[str, str]) -> bool:
        """Whether a worker with `properties` (name to value) satisfies this."""
        return (
            all(properties.get(name) == value for name, value in self.exact)
            and all(name in properties for name in self.present)
            and all(properties.get(name, value) == value for name, value in self.unknown)
        )


@dataclass(slots=True, frozen=True)
class Demand:
    """A demand class: what every operation with these requirements asks of a worker under this configuration.

    `amounts` are (pool index, amount) pairs, sorted by pool.
    """

    requirement_id: int
    need: StaticNeed
    amounts: tuple[tuple[int, int], ...]

    def fits(self, amounts: list[int]) -> bool:
        """Whether `amounts` (one per pool: a worker's remaining or total) suffice."""
        return all(amounts[pool] >= asked for pool, asked in self.amounts)


def compile_demand(
    requirement_id: int, requirements: Properties, config: SimpleScheduler, pools: tuple[str, ...]
) -> Demand:
    """Type the requirements by the configuration. Raises NotANumber for a minimum that is no number (P2: at submission)."""
    exact, present, unknown, amounts = [], [], [], []
    for name, value in requirements:
        match config.kind_of(name):
            case PropertyKind.MINIMUM:
                amounts.append((pools.index(name), parse_amount(name, value)))
            case PropertyKind.EXACT:
                exact.append((name, value))
            case PropertyKind.PRIORITY:
                present.append(name)
            case PropertyKind.IGNORE:
                pass
            case None:
                unknown.append((name, value))
    need = StaticNeed(tuple(sorted(exact)), tuple(sorted(present)), tuple(sorted(unknown)))
    return Demand(requirement_id, need, tuple(sorted(amounts)))


def worker_totals(properties: Properties, pools: tuple[str, ...]) -> list[int]:
    """What a worker offers per pool; UNDECLARED where it does not declare it. Raises NotANumber (P1)."""
    declared = dict(properties)
    return [parse_amount(pool, declared[pool]) if pool in declared else UNDECLARED for pool in pools]
