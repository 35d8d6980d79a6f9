"""Folds of the fleet: workers come, report, are drained and go; revoked runs are killed and settled."""

from collections.abc import Callable
from typing import Any

from events import events as e
from events.evolving.locality import admit_endpoint, leave_endpoint
from events.evolving.rows import charge, promote, refresh, settle
from events.fitting import worker_totals
from events.indexing import add_shape, arm_kill, arm_worker, index_hold, remove_shape
from events.state import Instance, Shard, Worker


def _kill_requested(shard: Shard, event: e.KillRequested) -> None:
    worker = shard.instances[event.instance].workers[event.endpoint]
    dispatch = worker.running.get(event.dispatch_id)
    if dispatch is not None:  # else a run of before: nothing is charged for it
        if not dispatch.accepted and not dispatch.revoked:
            worker.unaccepted -= 1
        dispatch.revoked = True
        dispatch.kill_requested_at_us = event.at_us
        if shard.live:
            arm_kill(shard, dispatch)
    worker.recency = event.seq
    refresh(shard, worker)


def _dispatch_settled(shard: Shard, event: e.DispatchSettled) -> None:
    worker = shard.instances[event.instance].workers[event.endpoint]
    settle(worker.running[event.dispatch_id])
    promote(shard, worker, event)


def _worker_admitted(shard: Shard, event: e.WorkerAdmitted) -> None:
    instance = shard.instances[event.instance]
    before = instance.workers.get(event.endpoint)
    totals = worker_totals(event.properties, instance.pools)
    worker = Worker(
        event.instance,
        event.endpoint,
        event.boot_epoch,
        event.connection_id,
        event.properties,
        event.max_inflight,
        event.build,
        connected_at_us=event.at_us,
        last_seen_us=event.at_us,
        recency=event.seq,
        totals=totals,
        remaining=list(totals),
        admits_when_idle=event.admits_when_idle,
        max_unaccepted=instance.config.max_unaccepted_dispatches,
    )
    if before is not None:
        if shard.live:
            instance.matcher.remove_worker(before)
        worker.draining = before.draining and event.reconnected  # a drain lasts as long as the worker's process
        for dispatch_id in event.kept:
            dispatch = before.running[dispatch_id]
            dispatch.worker = worker
            dispatch.connection_id = event.connection_id
            dispatch.heard_at_us = event.at_us  # listed, so the worker has it
            worker.running[dispatch_id] = dispatch
            worker.unaccepted += not dispatch.accepted and not dispatch.revoked
            charge(worker, dispatch.demand)
    instance.workers[event.endpoint] = worker
    admit_endpoint(shard, instance, event)
    if shard.live:
        instance.matcher.add_worker(worker)
        add_shape(instance, worker)  # before the old one goes: a reconnect of the same kind changes nothing
        if before is not None:
            remove_shape(instance, before)
        arm_worker(shard, worker)
    if instance.hold is not None and instance.hold.worker is before and event.reconnected:
        instance.hold.worker = worker  # the same process; another one is another worker, and the hold moves (5.4)
        if shard.live:
            index_hold(shard, instance)


def _worker_reported(shard: Shard, event: e.WorkerReported) -> None:
    instance = shard.instances[event.instance]
    report(shard, instance, instance.workers[event.endpoint], event.at_us, event.free_memory_kib)


def report(shard: Shard, instance: Instance, worker: Worker, at_us: int, free_kib: int | None) -> None:
    """The worker was heard at this time, with so much memory free; None: it did not say (W7, W8, B5)."""
    worker.last_seen_us = max(worker.last_seen_us, at_us)
    changed = False
    if free_kib is not None:
        changed = worker.free_memory_kib != free_kib
        worker.free_memory_kib = free_kib
        worker.lent_kib = _lent_kib(instance, worker)
        if not worker.running:
            worker.idle_free_kib = free_kib
        if worker.idle_declined_kib is not None and free_kib >= worker.idle_declined_kib:
            worker.idle_declined_kib = None
            changed = True
    if worker.paused and (free_kib is None or free_kib >= worker.resume_at_kib):
        worker.paused = False
        worker.resume_at_kib = 0
        changed = True
    if changed:
        refresh(shard, worker)


def _lent_kib(instance: Instance, worker: Worker) -> int:
    """What runs on the worker holds of the veto's pool by the ledger (W8); 0 without a veto."""
    pool = instance.config.live_memory_veto
    if pool is None:
        return 0
    index = instance.pools.index(pool)
    return max(0, worker.totals[index] - worker.remaining[index])


def _worker_drained(shard: Shard, event: e.WorkerDrained) -> None:
    worker = shard.instances[event.instance].workers[event.endpoint]
    worker.draining = True
    worker.recency = event.seq
    refresh(shard, worker)


def _worker_undrained(shard: Shard, event: e.WorkerUndrained) -> None:
    worker = shard.instances[event.instance].workers[event.endpoint]
    worker.draining = False
    worker.recency = event.seq
    refresh(shard, worker)


def _worker_disconnected(shard: Shard, event: e.WorkerDisconnected) -> None:
    instance = shard.instances[event.instance]
    worker = instance.workers.pop(event.endpoint)
    leave_endpoint(shard, instance, worker, event.at_us)
    if not instance.workers:  # an empty fleet says nothing of a demand (X5)
        instance.unsatisfiable.clear()
    if shard.live:
        instance.matcher.remove_worker(worker)
        remove_shape(instance, worker)


WORKERS_FOLDS: dict[type, Callable[[Shard, Any], None]] = {
    e.KillRequested: _kill_requested,
    e.DispatchSettled: _dispatch_settled,
    e.WorkerAdmitted: _worker_admitted,
    e.WorkerReported: _worker_reported,
    e.WorkerDrained: _worker_drained,
    e.WorkerUndrained: _worker_undrained,
    e.WorkerDisconnected: _worker_disconnected,
}
