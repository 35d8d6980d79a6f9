"""Under what each event is found again: its operation, worker, instance, the run that it begins or ends.

`subjects_of` is shown an event before it is folded, so what it needs of operations and workers stands in the rows. Total over the events
in the sense that one without an entry has no subject beyond the operation that it names. Held against `projections.story.recorded`,
which tells subjects from the events alone, by a test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Final, TypeAlias

from events import events as e
from events.events import EVENT_KINDS, Event
from events.reasons import Outcome
from projections import keys
from projections.folding.operations import PAUSING
from projections.row_access import find_worker, operation_at, run_of
from projections.table import Table
from proto.gen.headway.v1.rows_pb2 import STAGE_EXECUTING, OperationRow
from streams.timeline import layout
from streams.timeline.layout import at

Entries: TypeAlias = list[tuple[bytes, bytes]]
Subjects: TypeAlias = Callable[[Table, Any, Entries], None]

NAMING_AN_OPERATION: Final = frozenset(
    kind for kind in EVENT_KINDS.values() if "operation_id" in {field.name for field in fields(kind)}
)


def subjects_of(table: Table, event: Event) -> Entries:
    """Index entries of an event that is about to be folded. Raises MissingRow where it speaks of what is not there."""
    entries: Entries = []
    kind = type(event)
    if kind in NAMING_AN_OPERATION:
        entries.append((at(layout.OF_OPERATION, keys.number(event.operation_id), event.seq), b""))  # type: ignore[union-attr]
    more = _SUBJECTS.get(kind)
    if more is not None:
        more(table, event, entries)
    return entries


def _queued(table: Table, event: e.OperationQueued, entries: Entries) -> None:
    entries.append((at(layout.OF_OPERATION, keys.number(event.operation_id), event.seq), b""))
    _named(event.client_operation_id, event.instance, event.operation_id, entries)


def _joined(table: Table, event: e.OperationJoined, entries: Entries) -> None:
    _named(event.client_operation_id, operation_at(table, event.operation_id)[1].instance, event.operation_id, entries)


def _named(client_operation_id: str, instance: str, operation_id: int, entries: Entries) -> None:
    entries.append((at(layout.NAMED, layout.name(client_operation_id) + layout.name(instance), operation_id), b""))


def _dispatched(table: Table, event: e.OperationDispatched, entries: Entries) -> None:
    row = operation_at(table, event.operation_id)[1]
    where = layout.worker(row.instance, event.endpoint)
    entries.append((at(layout.RUN, where, event.seq), row.requirement_id.to_bytes(4, "big")))
    if event.overtook is not None:
        entries.append((at(layout.OVERTAKING, keys.number(event.overtook), event.seq), b""))


def _requeued(table: Table, event: e.OperationRequeued, entries: Entries) -> None:
    row = operation_at(table, event.operation_id)[1]
    _run_over(table, row, event, event.cause.name.lower(), entries)
    if event.cause in PAUSING:
        entries.append((at(layout.OF_WORKER, layout.worker(row.instance, row.dispatch.endpoint), event.seq), b""))


def _finished(table: Table, event: e.OperationFinished, entries: Entries) -> None:
    row = operation_at(table, event.operation_id)[1]
    if row.stage != STAGE_EXECUTING:
        return
    _run_over(table, row, event, event.outcome.name.lower(), entries)
    if event.outcome is Outcome.FREE_REQUEUES_EXHAUSTED:  # which pauses it as well
        entries.append((at(layout.OF_WORKER, layout.worker(row.instance, row.dispatch.endpoint), event.seq), b""))


def _run_over(table: Table, row: OperationRow, event: Event, ended: str, entries: Entries) -> None:
    """The worker pays no more for the operation's run, unless it was told to stop and has not said that it did."""
    dispatch = row.dispatch
    worker = find_worker(table, row.instance, dispatch.endpoint)
    run = None if worker is None else run_of(worker, dispatch.dispatch_id)
    if run is not None and not run.revoked:
        _ended(row.instance, dispatch.endpoint, dispatch.dispatch_id, event, ended, entries)


def _ended(instance: str, endpoint: str, dispatch_id: int, event: Event, ended: str, entries: Entries) -> None:
    value = layout.RUN_END_VALUE.pack(event.at_us, event.seq) + ended.encode()
    entries.append((at(layout.RUN_END, layout.worker(instance, endpoint), dispatch_id), value))


def _settled(table: Table, event: e.DispatchSettled, entries: Entries) -> None:
    worker = find_worker(table, event.instance, event.endpoint)
    if worker is not None and run_of(worker, event.dispatch_id) is not None:
        ended = f"stopped_{event.result.name.lower()}"
        _ended(event.instance, event.endpoint, event.dispatch_id, event, ended, entries)


def _of_worker(table: Table, event: Any, entries: Entries) -> None:
    entries.append((at(layout.OF_WORKER, layout.worker(event.instance, event.endpoint), event.seq), b""))


def _reported(table: Table, event: e.WorkerReported, entries: Entries) -> None:
    """A keepalive tells something only where it lifts a pause."""
    worker = find_worker(table, event.instance, event.endpoint)
    free_kib = event.free_memory_kib
    if worker is not None and worker.paused and (free_kib is None or free_kib >= worker.resume_at_kib):
        _of_worker(table, event, entries)


def _admitted(table: Table, event: e.WorkerAdmitted, entries: Entries) -> None:
    _of_worker(table, event, entries)
    _lost(table, event, event.kept, entries)


def _disconnected(table: Table, event: e.WorkerDisconnected, entries: Entries) -> None:
    _of_worker(table, event, entries)
    _lost(table, event, (), entries)


def _lost(
    table: Table, event: e.WorkerAdmitted | e.WorkerDisconnected, kept: tuple[int, ...], entries: Entries
) -> None:
    """What a new connection does not keep, and everything of a worker that is out, has ended."""
    worker = find_worker(table, event.instance, event.endpoint)
    for run in () if worker is None else worker.running:
        if run.dispatch_id not in kept:
            _ended(event.instance, event.endpoint, run.dispatch_id, event, "lost", entries)


def _hold(table: Table, event: e.HoldMade | e.HoldReleased, entries: Entries) -> None:
    _of_worker(table, event, entries)
    _of_instance(table, event, entries)


def _hold_moved(table: Table, event: e.HoldMoved, entries: Entries) -> None:
    for endpoint in (event.from_endpoint, event.to_endpoint):
        entries.append((at(layout.OF_WORKER, layout.worker(event.instance, endpoint), event.seq), b""))
    _of_instance(table, event, entries)


def _of_instance(table: Table, event: Any, entries: Entries) -> None:
    entries.append((at(layout.OF_INSTANCE, layout.name(event.instance), event.seq), b""))


def _of_shard(table: Table, event: e.LeaderElected | e.LogSilent, entries: Entries) -> None:
    entries.append((at(layout.OF_INSTANCE, layout.name(""), event.seq), b""))


_SUBJECTS: dict[type, Subjects] = {
    e.OperationQueued: _queued,
    e.OperationJoined: _joined,
    e.OperationDispatched: _dispatched,
    e.OperationRequeued: _requeued,
    e.OperationFinished: _finished,
    e.KillRequested: _of_worker,
    e.DispatchSettled: _settled,
    e.WorkerReported: _reported,
    e.WorkerAdmitted: _admitted,
    e.WorkerDisconnected: _disconnected,
    e.WorkerDrained: _of_worker,
    e.WorkerUndrained: _of_worker,
    e.WorkerIdleCapped: _of_worker,
    e.HoldMade: _hold,
    e.HoldMoved: _hold_moved,
    e.HoldReleased: _hold,
    e.HoldNoCandidate: _of_instance,
    e.Configured: _of_instance,
    e.InstancePaused: _of_instance,
    e.InstanceResumed: _of_instance,
    e.DemandUnsatisfiable: _of_instance,
    e.DemandSatisfiable: _of_instance,
    e.LeaderElected: _of_shard,
    e.LogSilent: _of_shard,
}
