"""What a hold cost others: what its worker kept idle for how long, and who waited that would have fitted there meanwhile.

The first is exact: it follows from what ran on the held worker. The second is an estimate: at each moment at which the held worker got
room, those that waited behind the held operation are put into that room in queue order, as if nothing were held.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from events.reasons import WorkerStanding
from projections import answers
from projections.explaining.standings import Standings
from projections.fleet import Ledger, instance_rows
from projections.row_access import find_worker, queue_key, queued_rows
from projections.story.history import History
from projections.story.links import who
from projections.story.waits import left_queue
from projections.table import Table
from proto.gen.headway.v1.rows_pb2 import InstanceRow, OperationRow

MOMENTS_MOST: Final = 12
"""Moments of a hold at which it is asked who would have fitted; of more, the first ones and the last."""

BEHIND_MOST: Final = 500
"""Operations behind the held one that are looked at in each moment, in queue order."""

NAMED: Final = 5

CPU: Final = "cpu_millis"


@dataclass(frozen=True, slots=True)
class Held:
    """A worker, held from one event until another."""

    endpoint: str
    from_seq: int
    from_us: int
    until_seq: int
    until_us: int


@dataclass(slots=True)
class _Waited:
    operation_id: int
    at_us: int
    until_us: int
    amounts: Mapping[str, int] = field(default_factory=dict)


def cost_of(
    history: History, instance: str, operation_id: int, requirement_id: int, held: Sequence[Held]
) -> dict[str, Any]:
    """The cost of a hold for an operation that asks for `requirement_id`, over the workers that were held in turn.

    Returns `idle` per pool that is asked for (`amount_seconds`, the most idle at once as `most`, and for cores `core_seconds`), and
    `waited`: how many would have fitted (`operations`), how long they waited for it in all (`for_us`), and the first of them.
    """
    return {
        "idle": _idle(history, instance, requirement_id, held),
        "waited": _waited(history, instance, operation_id, held),
    }


def _idle(history: History, instance: str, requirement_id: int, held: Sequence[Held]) -> list[dict[str, Any]]:
    spent: Counter[str] = Counter()
    most: dict[str, int] = {}
    asked: dict[str, int] = {}
    for each in held:
        asked, steps = _steps(history, instance, requirement_id, each)
        for left, for_us in steps:
            for name, amount in asked.items():
                idle = max(0, min(amount, left.get(name, 0)))
                spent[name] += idle * for_us
                most[name] = max(most.get(name, 0), idle if for_us else 0)
    return [
        {
            "name": name,
            "asked": asked[name],
            "most": most.get(name, 0),
            "amount_seconds": spent[name] // 1_000_000,
            "core_seconds": f"{spent[name] / 1e9:.2f}" if name == CPU else None,
        }
        for name in asked
    ]


def _steps(
    history: History, instance: str, requirement_id: int, held: Held
) -> tuple[dict[str, int], list[tuple[dict[str, int], int]]]:
    """What is asked for; and what the held worker had left, for how long each, from its runs."""
    runs = history.runs_of_worker(instance, held.endpoint, held.from_us, held.until_us)
    table = history.table_at(held.from_seq)
    row = next(instance_rows(table, instance))
    worker = find_worker(table, instance, held.endpoint)  # None: it left with this very event
    left = {} if worker is None else Ledger(table, row).totals(worker)
    paid_for = [] if worker is None else [run.requirement_id for run in worker.running]
    # Requirement ids that came up later are known to the later rows only.
    table = history.table_at(held.until_seq)
    end = Ledger(table, next(instance_rows(table, instance)))
    asked = end.charged(requirement_id)
    for each in paid_for:
        _charge(left, end.charged(each), -1)
    changes: list[tuple[int, int, int]] = []  # when, by which requirement, and whether it comes or goes
    for told in runs:
        if held.from_seq < told.dispatch_id <= held.until_seq:
            changes.append((told.since_us, told.requirement_id, -1))
        if (
            told.until_seq is not None
            and told.until_us is not None
            and held.from_seq < told.until_seq <= held.until_seq
        ):
            changes.append((told.until_us, told.requirement_id, 1))
    steps = []
    at_us = held.from_us
    for when_us, changed_by, by in sorted(changes):
        steps.append((dict(left), when_us - at_us))
        at_us = when_us
        _charge(left, end.charged(changed_by), by)
    return asked, [*steps, (left, held.until_us - at_us)]


def _charge(left: dict[str, int], amounts: Mapping[str, int], by: int) -> None:
    for name, amount in amounts.items():
        if name in left:
            left[name] += by * amount


def _waited(history: History, instance: str, operation_id: int, held: Sequence[Held]) -> dict[str, Any]:
    found: dict[int, _Waited] = {}
    for each, seq in _moments(history, instance, held):
        table = history.table_at(seq)
        now_us = table.shard.now_us
        room = _Room(table, instance, each.endpoint, operation_id)
        for waited in found.values():
            if waited.until_us > now_us:
                room.take(waited.amounts)
        for row, amounts in room.fitting(found):
            left = left_queue(history, row.operation_id, seq)
            until_us = held[-1].until_us if left is None else min(left.at_us, held[-1].until_us)
            found[row.operation_id] = _Waited(row.operation_id, now_us, until_us, amounts)
    end = history.table_at(held[-1].until_seq)
    delayed = [one for one in found.values() if one.until_us > one.at_us]
    ordered = sorted(delayed, key=lambda one: (one.at_us, one.operation_id))
    return {
        "operations": len(ordered),
        "for_us": sum(one.until_us - one.at_us for one in ordered),
        "longest_us": max((one.until_us - one.at_us for one in ordered), default=0),
        "first": [
            {**who(history, end, one.operation_id), "from_us": one.at_us, "for_us": one.until_us - one.at_us}
            for one in ordered[:NAMED]
        ],
    }


def _moments(history: History, instance: str, held: Sequence[Held]) -> list[tuple[Held, int]]:
    """When the held worker may have had more room than before: as it was held, and behind each run that ended on it."""
    found: list[tuple[Held, int]] = []
    for each in held:
        found.append((each, each.from_seq))
        runs = history.runs_of_worker(instance, each.endpoint, each.from_us, each.until_us)
        ends = sorted(run.until_seq for run in runs if run.until_seq is not None)
        found += [(each, seq) for seq in ends if each.from_seq < seq < each.until_seq]
    return found if len(found) <= MOMENTS_MOST else [*found[: MOMENTS_MOST - 1], found[-1]]


class _Room:
    """The room of the held worker at a moment, for those that wait behind the held operation."""

    def __init__(self, table: Table, instance: str, endpoint: str, operation_id: int) -> None:
        self._table, self._endpoint = table, endpoint
        self._instance: InstanceRow | None = next(instance_rows(table, instance), None)
        self._worker = find_worker(table, instance, endpoint)
        self._behind = answers.find(table, operation_id)
        self._left: dict[str, int] = {}
        self._slots = 1 << 31
        self._demands: dict[int, tuple[bool, dict[str, int]]] = {}
        if self._worker is None or self._instance is None:
            return
        self._left = Ledger(table, self._instance).remaining(self._worker)
        if self._worker.max_inflight:
            self._slots = self._worker.max_inflight - len(self._worker.running)

    def take(self, amounts: Mapping[str, int]) -> None:
        """Somebody is there as if nothing were held."""
        _charge(self._left, amounts, -1)
        self._slots -= 1

    def fitting(self, known: Mapping[int, _Waited]) -> list[tuple[OperationRow, dict[str, int]]]:
        """Those that wait behind the held operation and fit into what is left, in queue order, each taking its part."""
        found = []
        for row in self._waiting():
            if row.operation_id in known or self._slots <= 0:
                continue
            held_back, amounts = self._demand(row)
            if held_back and all(self._left.get(name, -1) >= amount for name, amount in amounts.items()):
                self.take(amounts)
                found.append((row, amounts))
        return found

    def _waiting(self) -> Iterator[OperationRow]:
        if self._instance is None or self._worker is None or self._behind is None:
            return iter(())
        behind = queued_rows(self._table, self._instance.name, queue_key(self._table, self._behind))
        return islice(behind, BEHIND_MOST)

    def _demand(self, row: OperationRow) -> tuple[bool, dict[str, int]]:
        """Whether nothing but the hold keeps the worker from it, and what it asks for."""
        known = self._demands.get(row.requirement_id)
        if known is None:
            assert self._instance is not None, "nobody waits where there is no instance"
            assert self._worker is not None, "nor for a worker that is not there"
            standings = Standings(self._table, self._instance, row)
            held_back = standings.assess(self._worker).standing is WorkerStanding.HELD
            known = self._demands[row.requirement_id] = (held_back, standings.asked)
        return known
