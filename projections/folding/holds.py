"""What changes the row of an instance's hold: made, moved, released, no candidate (section 5)."""

from collections.abc import Callable, Iterable
from typing import Any

from events import events as e
from events.reasons import HoldEnd
from events.values import DrainBasis, HoldCandidate, HoldExclusionCount
from projections.row_access import instance_at, operation_at, worker_at
from projections.table import MissingRow, Table
from proto.gen.headway.v1 import events_pb2
from proto.gen.headway.v1.rows_pb2 import HoldCount, HoldRow, InstanceRow


def _candidates(found: Iterable[HoldCandidate]) -> list[events_pb2.HoldCandidate]:
    return [events_pb2.HoldCandidate(**candidate._asdict()) for candidate in found]


def _basis(found: Iterable[DrainBasis]) -> list[events_pb2.DrainBasis]:
    return [events_pb2.DrainBasis(**basis._asdict()) for basis in found]


def _exclusions(found: Iterable[HoldExclusionCount]) -> list[events_pb2.HoldExclusionCount]:
    return [events_pb2.HoldExclusionCount(exclusion=int(count.exclusion), workers=count.workers) for count in found]


def _hold_made(table: Table, event: e.HoldMade) -> None:
    key, instance = instance_at(table, event.instance)
    instance.hold.CopyFrom(
        HoldRow(
            operation_id=event.operation_id,
            endpoint=event.endpoint,
            requirement_id=event.requirement_id,
            made_at_us=event.at_us,
            waited_us=event.waited_us,
            overtaken_by=event.overtaken_by,
            free_at_us=event.free_at_us,
            candidates=_candidates(event.candidates),
            more_candidates=event.more_candidates,
            excluded=_exclusions(event.excluded),
            basis=_basis(event.basis),
        )
    )
    instance.holds += 1
    _forget_no_candidate(instance)
    table.put(key, instance)


def _hold_moved(table: Table, event: e.HoldMoved) -> None:
    key, instance = instance_at(table, event.instance)
    if not instance.HasField("hold"):
        raise MissingRow(f"the state table has no hold in instance {event.instance}, and event {event.seq} moves one")
    hold = instance.hold
    hold.endpoint = event.to_endpoint
    hold.free_at_us = event.free_at_us
    hold.moves += 1
    hold.moved = event.cause
    hold.moved_at_us = event.at_us
    for name, found in (
        ("candidates", _candidates(event.candidates)),
        ("excluded", _exclusions(event.excluded)),
        ("basis", _basis(event.basis)),
    ):
        hold.ClearField(name)
        getattr(hold, name).extend(found)
    hold.more_candidates = event.more_candidates
    instance.hold_moves += 1
    _forget_no_candidate(instance)
    table.put(key, instance)


def _hold_released(table: Table, event: e.HoldReleased) -> None:
    """The dispatch of the held operation has cleared the hold already; this says how it ended."""
    key, instance = instance_at(table, event.instance)
    instance.ClearField("hold")
    for counted in instance.hold_ends:
        if counted.reason == event.reason:
            counted.count += 1
            counted.held_us += event.held_us
            break
    else:
        instance.hold_ends.append(HoldCount(reason=int(event.reason), count=1, held_us=event.held_us))
    table.put(key, instance)
    if event.reason == HoldEnd.EXPIRED:
        operation_key, operation = operation_at(table, event.operation_id)
        operation.hold_expired_at_us = event.at_us
        table.put(operation_key, operation)


def _hold_no_candidate(table: Table, event: e.HoldNoCandidate) -> None:
    key, instance = instance_at(table, event.instance)
    _forget_no_candidate(instance)
    instance.no_candidate_for = event.operation_id
    instance.no_candidate_since_us = event.at_us
    instance.excluded.extend(_exclusions(event.excluded))
    table.put(key, instance)


def _forget_no_candidate(instance: InstanceRow) -> None:
    for name in ("no_candidate_for", "no_candidate_since_us", "excluded"):
        instance.ClearField(name)


def _worker_idle_capped(table: Table, event: e.WorkerIdleCapped) -> None:
    key, worker = worker_at(table, event.instance, event.endpoint)
    worker.idle_free_kib = event.idle_free_kib
    table.put(key, worker)


HOLD_FOLDS: dict[type, Callable[[Table, Any], None]] = {
    e.HoldMade: _hold_made,
    e.HoldMoved: _hold_moved,
    e.HoldReleased: _hold_released,
    e.HoldNoCandidate: _hold_no_candidate,
    e.WorkerIdleCapped: _worker_idle_capped,
}
