"""Folds of the fleet: workers come, report, are drained and go; revoked runs are killed and settled."""

from collections.abc import Callable
from typing import Any

from events import events as e
from events.evolving.rows import charge, promote, refresh, settle
from events.fitting import worker_totals
from events.indexing import arm_kill, arm_worker
from events.state import Shard, Worker


def _kill_requested(shard: Shard, event: e.KillRequested) -> None:
    worker = shard.instances[event.instance].workers[event.endpoint]
    dispatch = worker.running.get(event.dispatch_id)
    if dispatch is not None:  # else a run of before: nothing is charged for it
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
    )
    if before is not None:
        if shard.live:
            instance.matcher.remove_worker(before)
        worker.draining = before.draining and event.reconnected  # a drain lasts as long as the worker's process
        for dispatch_id in event.kept:
            dispatch = before.running[dispatch_id]
            dispatch.worker = worker
            dispatch.connection_id = event.connection_id
            worker.running[dispatch_id] = dispatch
            charge(worker, dispatch.demand)
    instance.workers[event.endpoint] = worker
    if shard.live:
        instance.matcher.add_worker(worker)
        arm_worker(shard, worker)


def _worker_reported(shard: Shard, event: e.WorkerReported) -> None:
    worker = shard.instances[event.instance].workers[event.endpoint]
    worker.last_seen_us = max(worker.last_seen_us, event.at_us)
    if event.free_memory_kib is not None:
        worker.free_memory_kib = event.free_memory_kib
    if worker.paused:
        worker.paused = False
        refresh(shard, worker)


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
    if shard.live:
        instance.matcher.remove_worker(worker)


WORKERS_FOLDS: dict[type, Callable[[Shard, Any], None]] = {
    e.KillRequested: _kill_requested,
    e.DispatchSettled: _dispatch_settled,
    e.WorkerAdmitted: _worker_admitted,
    e.WorkerReported: _worker_reported,
    e.WorkerDrained: _worker_drained,
    e.WorkerUndrained: _worker_undrained,
    e.WorkerDisconnected: _worker_disconnected,
}
