"""`fold` applies one event to the rows of the scheduler state table. Total over the events; it decides nothing.

It is written apart from the core's `evolve` on purpose: the one keeps a live scheduler's objects, the other keeps rows on a
disk, and a test holds each against the other. What is charged to a worker is not stored: it follows from the requirement ids of
what it runs and the instance's configuration (`projections.fleet`).
"""

from collections.abc import Callable
from typing import Any

from events import events as e
from events.reasons import Outcome, RequeueCause
from projections import keys
from projections.table import MissingRow, Table
from proto.gen.headway.v1.common_pb2 import Property
from proto.gen.headway.v1.rows_pb2 import (
    STAGE_EXECUTING,
    STAGE_FINISHED,
    STAGE_QUEUED,
    CounterRow,
    DispatchRow,
    InstanceRow,
    OperationRow,
    OutcomeCount,
    RequeueCount,
    RunRow,
    WorkerRow,
)

PAUSING = (RequeueCause.DECLINED, RequeueCause.BACKPRESSURE)


def fold(table: Table, event: e.Event) -> None:
    """Change the rows by `event`; the position moves with it. The caller has checked that it is the next one.

    Raises MissingRow when the event speaks of something the table does not hold.
    """
    FOLDS[type(event)](table, event)
    shard = table.shard
    shard.seq = event.seq
    shard.now_us = event.at_us
    shard.events += 1
    if type(event) is not e.LeaderElected:
        shard.facts_position = event.cause_offset


# -- rows by what they are ----------------------------------------------------------------------------------------------------


def _instance(table: Table, name: str) -> tuple[bytes, InstanceRow]:
    key = table.key(keys.INSTANCE, name.encode())
    return key, table.row(key, InstanceRow)


def _operation(table: Table, operation_id: int) -> tuple[bytes, OperationRow]:
    key = table.key(keys.OPERATION, keys.number(operation_id))
    return key, table.row(key, OperationRow)


def _worker_key(table: Table, instance: str, endpoint: str) -> bytes:
    return table.key(keys.WORKER, keys.named(instance) + endpoint.encode())


def _worker(table: Table, instance: str, endpoint: str) -> tuple[bytes, WorkerRow]:
    key = _worker_key(table, instance, endpoint)
    return key, table.row(key, WorkerRow)


def _queue_key(table: Table, row: OperationRow) -> bytes:
    place = keys.queue_place(row.priority, row.queued_at_us, row.operation_id)
    return table.key(keys.QUEUED, keys.named(row.instance) + place)


def _client_key(table: Table, row: OperationRow) -> bytes:
    return table.key(keys.CLIENT, keys.named(row.instance) + row.client_operation_id.encode())


def _run(worker: WorkerRow, dispatch_id: int) -> RunRow | None:
    return next((run for run in worker.running if run.dispatch_id == dispatch_id), None)


def _settle(worker: WorkerRow, dispatch_id: int) -> None:
    """The worker pays no more for this run."""
    for index, run in enumerate(worker.running):
        if run.dispatch_id == dispatch_id:
            del worker.running[index]
            return


def _promote(worker: WorkerRow, event: e.Event) -> None:
    """The worker is the most recent one, and was heard."""
    worker.recency = event.seq
    worker.last_seen_us = max(worker.last_seen_us, event.at_us)


def _count(table: Table, letter: bytes, reason: int, at_us: int) -> None:
    key = table.key(keys.COUNTER, letter + int(reason).to_bytes(2, "big"))
    row = table.find(key, CounterRow) or CounterRow()
    row.count += 1
    row.last_at_us = at_us
    table.put(key, row)


def _count_outcome(instance: InstanceRow, outcome: Outcome) -> None:
    for counted in instance.outcomes:
        if counted.outcome == outcome:
            counted.count += 1
            return
    instance.outcomes.append(OutcomeCount(outcome=outcome, count=1))


def _count_requeue(instance: InstanceRow, cause: RequeueCause) -> None:
    for counted in instance.requeues:
        if counted.cause == cause:
            counted.count += 1
            return
    instance.requeues.append(RequeueCount(cause=cause, count=1))


# -- the shard ----------------------------------------------------------------------------------------------------------------


def _leader_elected(table: Table, event: e.LeaderElected) -> None:
    shard = table.shard
    shard.leader_epoch = event.leader_epoch
    shard.elections += 1
    shard.elected_at_us = event.at_us
    shard.cluster_id = event.cluster_id
    shard.facts_topic_id = event.facts_topic_id
    shard.events_topic_id = event.events_topic_id
    shard.build = event.build


def _ticked(table: Table, event: e.Ticked) -> None:
    """Only time passes, and that is the shard row's."""


def _log_silent(table: Table, event: e.LogSilent) -> None:
    table.flush()
    prefix = table.key(keys.WORKER)
    for key in [key for key, _ in table.scan(prefix)]:
        worker = table.row(key, WorkerRow)
        worker.last_seen_us += event.gap_us
        for run in worker.running:
            if run.revoked:
                run.kill_requested_at_us += event.gap_us
        table.put(key, worker)
    table.shard.silences += 1
    table.shard.silent_us += event.gap_us


def _fact_ignored(table: Table, event: e.FactIgnored) -> None:
    _count(table, b"i", event.reason, event.at_us)


def _fact_rejected(table: Table, event: e.FactRejected) -> None:
    _count(table, b"r", event.reason, event.at_us)


def _key_parked(table: Table, event: e.KeyParked) -> None:
    table.put(table.key(keys.PARKED, event.key.encode()), keys.number(event.seq))


def _key_released(table: Table, event: e.KeyReleased) -> None:
    table.delete(table.key(keys.PARKED, event.key.encode()))


def _requirement_defined(table: Table, event: e.RequirementDefined) -> None:
    table.put(table.key(keys.REQUIREMENT, event.requirement_id.to_bytes(4, "big")), event.requirements)


# -- instances ----------------------------------------------------------------------------------------------------------------


def _configured(table: Table, event: e.Configured) -> None:
    key = table.key(keys.INSTANCE, event.instance.encode())
    row = table.find(key, InstanceRow) or InstanceRow(name=event.instance)
    row.config_json = event.config_json
    row.configured_at_us = event.at_us
    table.put(key, row)


def _instance_paused(table: Table, event: e.InstancePaused) -> None:
    key, row = _instance(table, event.instance)
    row.paused = True
    table.put(key, row)


def _instance_resumed(table: Table, event: e.InstanceResumed) -> None:
    key, row = _instance(table, event.instance)
    row.paused = False
    table.put(key, row)


# -- operations ---------------------------------------------------------------------------------------------------------------


def _operation_queued(table: Table, event: e.OperationQueued) -> None:
    instance_key, instance = _instance(table, event.instance)
    row = OperationRow(
        operation_id=event.cause_offset,
        instance=event.instance,
        client_operation_id=event.client_operation_id,
        requirement_id=event.requirement_id,
        priority=event.priority,
        queued_at_us=event.queued_at_us,
        queued_since_us=event.queued_at_us,
        stage=STAGE_QUEUED,
        command=event.command,
        timeout_us=event.timeout_us,
        expected_duration_us=event.expected_duration_us,
        client_id=event.client_id,
        invocation_id=event.invocation_id,
        target_id=event.target_id,
        mnemonic=event.mnemonic,
        cacheable=event.cacheable,
        skip_cache_lookup=event.skip_cache_lookup,
        attached=event.attached,
        clamped_us=event.clamped_us,
    )
    if event.action_digest.hash:
        row.action_digest.hash = event.action_digest.hash
        row.action_digest.size_bytes = event.action_digest.size_bytes
    instance.queued += 1
    identity = keys.number(row.operation_id)
    table.put(table.key(keys.OPERATION, identity), row)
    table.put(_client_key(table, row), identity)
    table.put(_queue_key(table, row), identity)
    table.put(instance_key, instance)


def _operation_dispatched(table: Table, event: e.OperationDispatched) -> None:
    key, row = _operation(table, event.operation_id)
    instance_key, instance = _instance(table, row.instance)
    worker_key, worker = _worker(table, row.instance, event.endpoint)
    table.delete(_queue_key(table, row))
    row.stage = STAGE_EXECUTING
    row.dispatches += 1
    row.dispatch.CopyFrom(
        DispatchRow(
            dispatch_id=event.seq,
            endpoint=event.endpoint,
            connection_id=event.connection_id,
            dispatched_at_us=event.at_us,
            overtook=event.overtook,
        )
    )
    worker.running.add(
        dispatch_id=event.seq,
        operation_id=event.operation_id,
        requirement_id=row.requirement_id,
        since_us=event.at_us,
    )
    worker.dispatches += 1
    worker.recency = event.seq  # promoted, but not heard
    instance.queued -= 1
    instance.executing += 1
    instance.dispatches += 1
    table.put(key, row)
    table.put(worker_key, worker)
    table.put(instance_key, instance)


def _operation_accepted(table: Table, event: e.OperationAccepted) -> None:
    key, row = _operation(table, event.operation_id)
    _check_current(row, event.dispatch_id)
    row.dispatch.accepted = True
    row.dispatch.accepted_at_us = event.at_us
    worker_key, worker = _worker(table, row.instance, row.dispatch.endpoint)
    run = _run(worker, event.dispatch_id)
    if run is not None:
        run.accepted = True
    _promote(worker, event)
    table.put(key, row)
    table.put(worker_key, worker)


def _operation_requeued(table: Table, event: e.OperationRequeued) -> None:
    key, row = _operation(table, event.operation_id)
    _check_current(row, event.dispatch_id)
    instance_key, instance = _instance(table, row.instance)
    worker_key, worker = _worker(table, row.instance, row.dispatch.endpoint)
    row.stage = STAGE_QUEUED
    row.queued_since_us = event.at_us
    row.job_failures = event.job_failures
    row.worker_losses = event.worker_losses
    row.free_requeues = event.free_requeues
    row.requeue_cause = event.cause
    row.requeue_message = event.message
    row.requeue_endpoint = row.dispatch.endpoint
    row.ClearField("dispatch")
    run = _run(worker, event.dispatch_id)
    if run is not None and not run.revoked:
        _settle(worker, event.dispatch_id)
    if event.cause in PAUSING:
        worker.paused = True
        _promote(worker, event)
    elif event.cause is RequeueCause.JOB_ERROR:
        worker.paused = False
        _promote(worker, event)
    instance.executing -= 1
    instance.queued += 1
    _count_requeue(instance, event.cause)
    table.put(key, row)
    table.put(_queue_key(table, row), keys.number(row.operation_id))
    table.put(worker_key, worker)
    table.put(instance_key, instance)


def _operation_finished(table: Table, event: e.OperationFinished) -> None:
    key, row = _operation(table, event.operation_id)
    instance_key, instance = _instance(table, row.instance)
    if row.stage == STAGE_EXECUTING:
        instance.executing -= 1
        _end_run(table, row, event)
    else:
        instance.queued -= 1
        table.delete(_queue_key(table, row))
    row.stage = STAGE_FINISHED
    row.outcome = event.outcome
    row.finished_at_us = event.at_us
    row.finished_seq = event.seq
    row.exit_code = event.exit_code
    row.message = event.message
    row.stdout_tail = event.stdout_tail
    row.stderr_tail = event.stderr_tail
    row.job_failures = event.job_failures
    row.worker_losses = event.worker_losses
    if any(event.usage):
        row.usage.wall_us, row.usage.cpu_us, row.usage.peak_memory_kib = event.usage
    instance.finished += 1
    _count_outcome(instance, event.outcome)
    identity = keys.number(row.operation_id)
    finished_key = table.key(keys.FINISHED, keys.named(row.instance) + keys.number(event.seq))
    table.put(key, row)
    table.put(finished_key, identity)
    table.put(instance_key, instance)


def _end_run(table: Table, row: OperationRow, event: e.OperationFinished) -> None:
    worker_key, worker = _worker(table, row.instance, row.dispatch.endpoint)
    run = _run(worker, row.dispatch.dispatch_id)
    if run is not None and run.revoked:
        return  # it goes on and pays until its worker reports
    _settle(worker, row.dispatch.dispatch_id)
    if event.outcome is not Outcome.WORKER_LOSSES_EXHAUSTED:
        worker.paused = event.outcome is Outcome.FREE_REQUEUES_EXHAUSTED
        _promote(worker, event)
    table.put(worker_key, worker)


def _operation_reprioritised(table: Table, event: e.OperationReprioritised) -> None:
    key, row = _operation(table, event.operation_id)
    if row.stage == STAGE_QUEUED:
        table.delete(_queue_key(table, row))
        row.priority = event.priority
        table.put(_queue_key(table, row), keys.number(row.operation_id))
    row.priority = event.priority
    table.put(key, row)


def _operations_forgotten(table: Table, event: e.OperationsForgotten) -> None:
    table.flush()
    instance_key, instance = _instance(table, event.instance)
    prefix = table.key(keys.FINISHED, keys.named(event.instance))
    # Starting behind what was forgotten before: the store would otherwise walk over its own deletions every time.
    first = prefix + keys.number(instance.forgotten_through_seq + 1)
    last = prefix + keys.number(event.through_seq + 1)
    for finished_key, identity in list(table.rows.scan(first, last)):
        operation_key = table.key(keys.OPERATION, identity)
        client_key = _client_key(table, table.row(operation_key, OperationRow))
        if table.find_bytes(client_key) == identity:  # else a newer operation holds the id by now
            table.delete(client_key)
        table.delete(operation_key)
        table.delete(finished_key)
        instance.finished -= 1
    instance.forgotten_through_seq = max(instance.forgotten_through_seq, event.through_seq)
    table.put(instance_key, instance)


def _check_current(row: OperationRow, dispatch_id: int) -> None:
    if row.stage != STAGE_EXECUTING or row.dispatch.dispatch_id != dispatch_id:
        raise MissingRow(
            f"operation {row.operation_id} has no current dispatch {dispatch_id} in the state table "
            f"(it has {row.dispatch.dispatch_id or 'none'})"
        )


# -- runs and workers ---------------------------------------------------------------------------------------------------------


def _kill_requested(table: Table, event: e.KillRequested) -> None:
    key, worker = _worker(table, event.instance, event.endpoint)
    run = _run(worker, event.dispatch_id)
    if run is not None:  # else a run of before: nothing is charged for it
        run.revoked = True
        run.kill_requested_at_us = event.at_us
    worker.recency = event.seq
    table.put(key, worker)


def _dispatch_settled(table: Table, event: e.DispatchSettled) -> None:
    key, worker = _worker(table, event.instance, event.endpoint)
    _settle(worker, event.dispatch_id)
    _promote(worker, event)
    table.put(key, worker)


def _worker_admitted(table: Table, event: e.WorkerAdmitted) -> None:
    instance_key, instance = _instance(table, event.instance)
    key = _worker_key(table, event.instance, event.endpoint)
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
    )
    if before is None:
        instance.workers += 1
        table.put(instance_key, instance)
    else:
        worker.draining = before.draining and event.reconnected  # a drain lasts as long as the worker's process
        kept = set(event.kept)
        worker.running.extend(run for run in before.running if run.dispatch_id in kept)
        for run in worker.running:
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
    key, worker = _worker(table, event.instance, event.endpoint)
    worker.last_seen_us = max(worker.last_seen_us, event.at_us)
    if event.free_memory_kib is not None:
        worker.free_memory_kib = event.free_memory_kib
    worker.paused = False
    table.put(key, worker)


def _worker_drained(table: Table, event: e.WorkerDrained) -> None:
    key, worker = _worker(table, event.instance, event.endpoint)
    worker.draining = True
    worker.recency = event.seq
    table.put(key, worker)


def _worker_undrained(table: Table, event: e.WorkerUndrained) -> None:
    key, worker = _worker(table, event.instance, event.endpoint)
    worker.draining = False
    worker.recency = event.seq
    table.put(key, worker)


def _worker_disconnected(table: Table, event: e.WorkerDisconnected) -> None:
    instance_key, instance = _instance(table, event.instance)
    key, _ = _worker(table, event.instance, event.endpoint)
    instance.workers -= 1
    table.delete(key)
    table.put(instance_key, instance)


FOLDS: dict[type, Callable[[Table, Any], None]] = {
    e.LeaderElected: _leader_elected,
    e.Ticked: _ticked,
    e.LogSilent: _log_silent,
    e.FactIgnored: _fact_ignored,
    e.FactRejected: _fact_rejected,
    e.KeyParked: _key_parked,
    e.KeyReleased: _key_released,
    e.Configured: _configured,
    e.InstancePaused: _instance_paused,
    e.InstanceResumed: _instance_resumed,
    e.RequirementDefined: _requirement_defined,
    e.OperationQueued: _operation_queued,
    e.OperationDispatched: _operation_dispatched,
    e.OperationAccepted: _operation_accepted,
    e.OperationRequeued: _operation_requeued,
    e.OperationFinished: _operation_finished,
    e.OperationReprioritised: _operation_reprioritised,
    e.OperationsForgotten: _operations_forgotten,
    e.KillRequested: _kill_requested,
    e.DispatchSettled: _dispatch_settled,
    e.WorkerAdmitted: _worker_admitted,
    e.WorkerReported: _worker_reported,
    e.WorkerDrained: _worker_drained,
    e.WorkerUndrained: _worker_undrained,
    e.WorkerDisconnected: _worker_disconnected,
}
