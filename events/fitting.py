"""Capacity arithmetic: what an action demands, what a worker offers, and whether one fits the other (section 1.2).

Pools are the properties of kind minimum, by index into the instance's `pools`. A worker that does not declare a pool has -1 there: it
satisfies no demand on it, not even one of 0 (the key is required).

What a worker has left by the ledger is not all: what it reports (the live memory veto, 3.7) and what it refused while idle (B5) cap what it
is offered. `may_take` says so for one demand; `Caps` says it as amounts, which can be indexed.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from events.config import PropertyKind, SimpleScheduler
from events.values import U63_MAX, Properties

if TYPE_CHECKING:  # rows know their demands
    from events.state import Worker

UNDECLARED = -1
DECLINED_POOL = "memory_kib"
"""The pool of an idle decline where no veto names another."""


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

    `amounts` are (pool index, amount) pairs, sorted by pool. `preferred` are the properties of kind priority with their values, which
    best_fit counts as preferences (1.3); that the worker has their names is part of `need`.
    """

    requirement_id: int
    need: StaticNeed
    amounts: tuple[tuple[int, int], ...]
    preferred: Properties = ()

    def fits(self, amounts: list[int]) -> bool:
        """Whether `amounts` (one per pool: a worker's remaining or total) suffice."""
        return all(amounts[pool] >= asked for pool, asked in self.amounts)


def compile_demand(
    requirement_id: int, requirements: Properties, config: SimpleScheduler, pools: tuple[str, ...]
) -> Demand:
    """Type the requirements by the configuration. Raises NotANumber for a minimum that is no number (P2: at submission)."""
    exact, preferred, unknown, amounts = [], [], [], []
    for name, value in requirements:
        match config.kind_of(name):
            case PropertyKind.MINIMUM:
                amounts.append((pools.index(name), parse_amount(name, value)))
            case PropertyKind.EXACT:
                exact.append((name, value))
            case PropertyKind.PRIORITY:
                preferred.append((name, value))
            case PropertyKind.IGNORE:
                pass
            case None:
                unknown.append((name, value))
    preferred.sort()
    need = StaticNeed(tuple(sorted(exact)), tuple(name for name, _ in preferred), tuple(sorted(unknown)))
    return Demand(requirement_id, need, tuple(sorted(amounts)), tuple(preferred))


def worker_totals(properties: Properties, pools: tuple[str, ...]) -> list[int]:
    """What a worker offers per pool; UNDECLARED where it does not declare it. Raises NotANumber (P1)."""
    declared = dict(properties)
    return [parse_amount(pool, declared[pool]) if pool in declared else UNDECLARED for pool in pools]


class Caps:
    """What workers are offered under one configuration: the ledger's remaining amounts, capped by what they report and refused.

    The veto exempts an action that asks for the whole worker (n >= t, V1), so what a worker takes of the veto's pool is not all amounts
    up to a limit: it may be those up to what it reports free, and its total. That total is an amount of its own, behind those of the pools
    (`whole`): an action that asks for the total is compared with it instead, and each of the two comparisons has one limit.
    """

    __slots__ = ("amounts", "plain", "pool", "vetoes", "whole")

    def __init__(self, config: SimpleScheduler, pools: tuple[str, ...]) -> None:
        name = config.live_memory_veto or DECLINED_POOL
        self.vetoes = config.live_memory_veto is not None
        self.pool = pools.index(name) if name in pools else -1  # the pool that caps concern; -1: none
        self.whole = len(pools) if self.vetoes else -1  # index of the amount behind; -1: none
        self.amounts = max(1, len(pools) + self.vetoes)  # how many there are; without pools a 0 that nothing asks for
        self.plain = bool(pools) and not self.vetoes  # a worker that declined nothing is offered just what remains

    def offer(self, worker: "Worker") -> list[int]:
        """What `worker` is offered now: an amount per pool, and `whole` where there is a veto. Whether it accepts is not asked."""
        free = worker.remaining.copy()
        pool = self.pool
        if pool < 0:
            return free or [0]
        have = free[pool]
        declined = worker.idle_declined_kib
        if declined is not None and have >= declined:
            have = free[pool] = declined - 1
        if self.vetoes:
            reported = worker.free_memory_kib
            exempt = reported is None or (worker.admits_when_idle and not worker.running)
            if reported is not None and not exempt and have > reported:
                free[pool] = reported
            total = worker.totals[pool]
            free.append(total if have >= total else free[pool])
        return free


def offered(worker: "Worker", config: SimpleScheduler, pools: tuple[str, ...]) -> list[int]:
    """What may be taken of `worker` now, per pool; an action that asks for the whole of the veto's pool is exempt from the veto (V1)."""
    return Caps(config, pools).offer(worker)[: len(pools)]


def may_take(worker: "Worker", demand: Demand, config: SimpleScheduler, pools: tuple[str, ...]) -> bool:
    """Whether `worker` takes an action with this demand now, holds aside (4.2)."""
    if not worker.accepts() or not demand.fits(worker.remaining):
        return False
    if not demand.need.satisfied_by(dict(worker.properties)):
        return False
    capped = config.live_memory_veto or DECLINED_POOL
    for pool, asked in demand.amounts:
        if pools[pool] != capped:
            continue
        if worker.idle_declined_kib is not None and asked >= worker.idle_declined_kib:
            return False
        idle_and_sure = worker.admits_when_idle and not worker.running
        if config.live_memory_veto is None or worker.free_memory_kib is None or idle_and_sure:
            continue
        if asked > worker.free_memory_kib and asked < worker.totals[pool]:
            return False
    return True
