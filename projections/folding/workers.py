"""What events of workers and of the runs on them change in the rows."""

from collections.abc import Callable
from typing import Any

from events import events as e
from projections import keys
from projections.row_access import instance_at, promote, requirements_of_row, run_of, settle, worker_at, worker_key
from projections.table import Table
from proto.gen.headway.v1.common_pb2 import Property
from proto.gen.headway.v1.rows_pb2 import STAGE_EXECUTING, OperationRow, RunRow, WorkerRow


def _kill_requested(table: Table, event: e.KillRequested) -> None:
    key, worker = worker_at(table, event.instance, event.endpoint)
    run = run_of(worker, event.dispatch_id)
    if run is not None:  # else a run of before: nothing is charged for it
        run.revoked = True
        run.kill_requested_at_us = event.at_us
    worker.recency = event.seq
    table.put(key, worker)


def _dispatch_settled(table: Table, event: e.DispatchSettled) -> None:
    key, worker = worker_at(table, event.instance, event.endpoint)
    settle(worker, event.dispatch_id)
    promote(worker, event)
    table.put(key, worker)


def _worker_admitted(table: Table, event: e.WorkerAdmitted) -> None:
    instance_key, instance = instance_at(table, event.instance)
    key = worker_key(table, event.instance, event.endpoint)
    before = table.find(key, WorkerRow)
    worker = WorkerRow(
        instance=event.instance,
        endpoint=event.endpoint,
        boot_epoch=event.boot_epoch,
        connection_id=event.connection_id,
        properties=[Property(name=name, value=value) for name, value in event.properties],
        max_inflight=event.max_inflight,
        build=event.build,
        connected_at_us=event.at_us,
        last_seen_us=event.at_us,
        recency=event.seq,
        admits_when_idle=event.admits_when_idle,
        blobs_url=event.blobs_url,
    )
    if before is None:
        instance.workers += 1
        table.put(instance_key, instance)
    else:
        worker.draining = before.draining and event.reconnected  # a drain lasts as long as the worker's process
        kept = set(event.kept)
        worker.running.extend(run for run in before.running if run.dispatch_id in kept)
        for run in worker.running:
            run.heard_at_us = event.at_us  # listed, so the worker has it
            _reconnect(table, run, event.connection_id)
    table.put(key, worker)


def _reconnect(table: Table, run: RunRow, connection_id: int) -> None:
    """A kept dispatch answers on the new connection."""
    key = table.key(keys.OPERATION, keys.number(run.operation_id))
    row = table.find(key, OperationRow)
    if row is not None and row.stage == STAGE_EXECUTING and row.dispatch.dispatch_id == run.dispatch_id:
        row.dispatch.connection_id = connection_id
        table.put(key, row)


def _worker_reported(table: Table, event: e.WorkerReported) -> None:
    key, worker = worker_at(table, event.instance, event.endpoint)
    worker.last_seen_us = max(worker.last_seen_us, event.at_us)
    free_kib = event.free_memory_kib
    if free_kib is not None:
        worker.free_memory_kib = free_kib
        _, instance = instance_at(table, event.instance)
        worker.lent_kib = _lent_kib(table, worker, instance.live_memory_veto)
        if not worker.running:
            worker.idle_free_kib = free_kib
        if worker.HasField("idle_declined_kib") and free_kib >= worker.idle_declined_kib:
            worker.ClearField("idle_declined_kib")
    if worker.paused and (free_kib is None or free_kib >= worker.resume_at_kib):
        worker.paused = False
        worker.resume_at_kib = 0
    table.put(key, worker)


def _lent_kib(table: Table, worker: WorkerRow, pool: str) -> int:
    """What its runs hold of the veto's property; it stays true of this report as they end. 0 without a veto."""
    if not pool:
        return 0
    amounts = (dict(requirements_of_row(table, run.requirement_id)).get(pool) for run in worker.running)
    return sum(int(amount) for amount in amounts if amount is not None)


def _worker_drained(table: Table, event: e.WorkerDrained) -> None:
    key, worker = worker_at(table, event.instance, event.endpoint)
    worker.draining = True
    worker.recency = event.seq
    table.put(key, worker)


def _worker_undrained(table: Table, event: e.WorkerUndrained) -> None:
    key, worker = worker_at(table, event.instance, event.endpoint)
    worker.draining = False
    worker.recency = event.seq
    table.put(key, worker)


def _worker_disconnected(table: Table, event: e.WorkerDisconnected) -> None:
    instance_key, instance = instance_at(table, event.instance)
    key, _ = worker_at(table, event.instance, event.endpoint)
    instance.workers -= 1
    if not instance.workers:  # an empty fleet says nothing of a demand
        instance.ClearField("unsatisfiable")
    table.delete(key)
    table.put(instance_key, instance)


WORKER_FOLDS: dict[type, Callable[[Table, Any], None]] = {
    e.KillRequested: _kill_requested,
    e.DispatchSettled: _dispatch_settled,
    e.WorkerAdmitted: _worker_admitted,
    e.WorkerReported: _worker_reported,
    e.WorkerDrained: _worker_drained,
    e.WorkerUndrained: _worker_undrained,
    e.WorkerDisconnected: _worker_disconnected,
}
