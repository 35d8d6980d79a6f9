"""Workers come, report, drain and go (section 3)."""

from events import events as e
from events import facts as f
from events.deciding.acknowledging import check_acknowledged
from events.deciding.admission import NUMBER_RULE
from events.deciding.endings import lose_worker
from events.deciding.locality import confirm, is_another_process, note_flap, wipe_for, wipe_gone
from events.deciding.step import Step
from events.fitting import NotANumber, worker_totals
from events.reasons import DisconnectReason, IgnoreReason, KillCause, RejectReason, RequeueCause, RunResult
from events.state import Worker


def connect(step: Step, fact: f.WorkerConnected) -> None:
    """Admit a worker; the log decides who came last.

    Same non-zero boot epoch: listed dispatches go on, unlisted ones end as a worker loss, listed ones that this scheduler does not
    know are killed. Another boot epoch, or 0: all end. A property of kind minimum that is no number refuses the worker (P1), and so
    does a build that is not in `compatible_builds` (W16). What another process at this endpoint held goes in the same step, before the
    worker is admitted and can say what it holds itself (E4, E5).
    """
    instance = step.instance_of(fact.instance, fact.endpoint)
    if instance is None:
        return
    try:
        worker_totals(fact.properties, instance.pools)
    except NotANumber as error:
        field = f"properties.{error.name}"
        step.reject(RejectReason.INVALID_PROPERTY, field, error.value, NUMBER_RULE, fact.instance, fact.endpoint)
        return
    builds = instance.config.compatible_builds
    if builds and fact.build not in builds:
        admitted = ", ".join(repr(build) for build in builds)
        rule = f"one of compatible_builds ({admitted}): redeploy the worker"
        step.reject(RejectReason.INCOMPATIBLE_BUILD, "build", fact.build, rule, fact.instance, fact.endpoint)
        return
    before = instance.workers.get(fact.endpoint)
    if before is not None and before.connection_id == fact.connection_id:
        # A worker repeats its connect until it is answered, and says nothing else meanwhile: where its answer waits for a decider, that
        # is its keepalive (V-9).
        step.ignore(IgnoreReason.DUPLICATE_CONNECTION, fact.instance, fact.endpoint)
        _hear(step, before, None)
        return
    reconnected = before is not None and fact.boot_epoch != 0 and before.boot_epoch == fact.boot_epoch
    listed = dict.fromkeys(fact.running)
    kept: list[int] = []
    if before is not None:
        for dispatch_id, dispatch in list(before.running.items()):
            if reconnected and dispatch_id in listed:
                kept.append(dispatch_id)
            elif not dispatch.revoked:
                lose_worker(step, dispatch, RequeueCause.WORKER_REPLACED)
            else:
                settle(step, before, dispatch_id, RunResult.UNSPECIFIED)
    restarted = is_another_process(instance, fact)
    wipe_for(step, instance, fact)
    step.emit(
        e.WorkerAdmitted,
        fact.instance,
        fact.endpoint,
        fact.boot_epoch,
        fact.connection_id,
        fact.properties,
        fact.max_inflight,
        fact.build,
        tuple(kept),
        reconnected,
        fact.admits_when_idle,
        fact.blobs_url,
    )
    if restarted:
        note_flap(step, instance, fact.endpoint)
    known = dict.fromkeys(kept)
    for dispatch_id in listed:
        if dispatch_id not in known:
            step.emit(e.KillRequested, fact.instance, fact.endpoint, 0, dispatch_id, KillCause.NOT_CURRENT)


def settle(step: Step, worker: Worker, dispatch_id: int, result: RunResult) -> None:
    """Return the charge of a revoked dispatch."""
    operation_id = worker.running[dispatch_id].operation_id
    step.emit(e.DispatchSettled, worker.instance, worker.endpoint, operation_id, dispatch_id, result)


def report(step: Step, fact: f.WorkerReported) -> None:
    """A keepalive: liveness, free memory, and the end of a pause (B3)."""
    worker = step.worker_of(fact.instance, fact.endpoint, fact.connection_id)
    if worker is not None:
        _hear(step, worker, fact.free_memory_kib)


def _hear(step: Step, worker: Worker, free_memory_kib: int | None) -> None:
    confirm(step, worker)
    step.emit(e.WorkerReported, worker.instance, worker.endpoint, worker.connection_id, free_memory_kib)
    check_acknowledged(step, worker)  # last: what it finds pauses the worker, and a keepalive lifts pauses


def drain(step: Step, fact: f.WorkerDrained) -> None:
    """No new work; what runs goes on (R1)."""
    worker = step.worker_of(fact.instance, fact.endpoint)
    if worker is None:
        return
    if worker.draining:
        step.ignore(IgnoreReason.NO_CHANGE, fact.instance, fact.endpoint)
    else:
        step.emit(e.WorkerDrained, fact.instance, fact.endpoint)


def undrain(step: Step, fact: f.WorkerUndrained) -> None:
    """Work again, at once (R1)."""
    worker = step.worker_of(fact.instance, fact.endpoint)
    if worker is None:
        return
    if worker.draining:
        step.emit(e.WorkerUndrained, fact.instance, fact.endpoint)
    else:
        step.ignore(IgnoreReason.NO_CHANGE, fact.instance, fact.endpoint)


def leave(step: Step, fact: f.WorkerGone) -> None:
    """The worker says that it leaves, or an operator removes it (`connection_id` 0)."""
    worker = step.worker_of(fact.instance, fact.endpoint, fact.connection_id or None)
    if worker is not None:
        by_operator = fact.connection_id == 0
        if not by_operator:
            confirm(step, worker)  # it spoke, so its end is the end of the owning connection (O1)
        reason = DisconnectReason.REMOVED if by_operator else DisconnectReason.GONE
        disconnect(step, worker, reason, RequeueCause.WORKER_GONE)


def disconnect(step: Step, worker: Worker, reason: DisconnectReason, cause: RequeueCause, silent_us: int = 0) -> None:
    """Take a worker out: each current dispatch is a worker loss; revoked ones end with it (W11)."""
    for dispatch in list(worker.running.values()):
        if not dispatch.revoked:
            lose_worker(step, dispatch, cause)
    step.emit(e.WorkerDisconnected, worker.instance, worker.endpoint, worker.connection_id, reason, silent_us)
    wipe_gone(step, worker)
