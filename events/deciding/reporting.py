"""What workers say of dispatches: accepted, declined, finished. Anything about a dispatch that is not current changes nothing (U9)."""

from events import events as e
from events import facts as f
from events.deciding.acknowledging import check_acknowledged
from events.deciding.endings import fail_job, return_untried
from events.deciding.escalation import escalate
from events.deciding.fleet import settle
from events.deciding.step import Step
from events.reasons import IgnoreReason, KillCause, Outcome, RequeueCause, RunResult
from events.state import Dispatch, Worker

FINAL = {
    RunResult.EXITED: Outcome.COMPLETED,
    RunResult.TIMED_OUT: Outcome.ACTION_TIMED_OUT,
    RunResult.FAILED_PRECONDITION: Outcome.FAILED_PRECONDITION,
}
"""Results that end the operation: any exit code is a success of the scheduler, and missing inputs cost no attempt (U5)."""


def _held(
    step: Step, fact: f.DispatchAccepted | f.DispatchDeclined | f.ActionFinished
) -> tuple[Worker, Dispatch | None] | None:
    """The worker and what it holds under the dispatch id; None after the fact was ignored or rejected."""
    instance = step.shard.instances.get(fact.instance)
    worker = None if instance is None else instance.workers.get(fact.endpoint)
    if worker is None or worker.connection_id != fact.connection_id:
        step.worker_of(fact.instance, fact.endpoint, fact.connection_id, fact.dispatch_id)  # says why
        return None
    return worker, worker.running.get(fact.dispatch_id)


def accept(step: Step, fact: f.DispatchAccepted) -> None:
    """The worker runs it. A late acceptance of something it does not hold is answered with a kill (B6)."""
    held = _held(step, fact)
    if held is None:
        return
    worker, dispatch = held
    if dispatch is None:
        step.ignore(IgnoreReason.DISPATCH_NOT_CURRENT, fact.instance, fact.endpoint, fact.dispatch_id)
        step.emit(e.KillRequested, fact.instance, fact.endpoint, 0, fact.dispatch_id, KillCause.NOT_CURRENT)
    elif dispatch.revoked:
        step.ignore(IgnoreReason.DISPATCH_NOT_CURRENT, fact.instance, fact.endpoint, fact.dispatch_id)
    elif dispatch.accepted:
        step.ignore(IgnoreReason.ALREADY_ACCEPTED, fact.instance, fact.endpoint, fact.dispatch_id)
    else:
        step.emit(e.OperationAccepted, dispatch.operation_id, dispatch.dispatch_id)
    check_acknowledged(step, worker)


def decline(step: Step, fact: f.DispatchDeclined) -> None:
    """The operation goes back untried and the worker is paused until a keepalive lifts it (B3, B5)."""
    held = _held(step, fact)
    if held is None:
        return
    worker, dispatch = held
    if dispatch is None:
        step.ignore(IgnoreReason.DISPATCH_NOT_CURRENT, fact.instance, fact.endpoint, fact.dispatch_id)
    elif dispatch.revoked:
        settle(step, worker, fact.dispatch_id, RunResult.BACKPRESSURE)
    else:
        return_untried(step, dispatch, RequeueCause.DECLINED, "", fact.reason, fact.needed_kib, fact.free_kib)
    check_acknowledged(step, worker)


def finish(step: Step, fact: f.ActionFinished) -> None:
    """The final report: settles the ledger once, whatever becomes of the operation (U4)."""
    held = _held(step, fact)
    if held is None:
        return
    worker, dispatch = held
    if dispatch is None:
        step.ignore(IgnoreReason.DISPATCH_NOT_CURRENT, fact.instance, fact.endpoint, fact.dispatch_id)
    elif dispatch.revoked:
        settle(step, worker, fact.dispatch_id, fact.result)
    else:
        _end(step, dispatch, fact)
    check_acknowledged(step, worker)


def _end(step: Step, dispatch: Dispatch, fact: f.ActionFinished) -> None:
    """What becomes of the operation."""
    outcome = FINAL.get(fact.result)
    if outcome is not None:
        operation = dispatch.operation
        step.emit(
            e.OperationFinished,
            operation.operation_id,
            dispatch.dispatch_id,
            outcome,
            fact.exit_code,
            fact.message,
            fact.stdout_tail,
            fact.stderr_tail,
            fact.usage,
            operation.job_failures,
            operation.worker_losses,
            dispatch.worker.endpoint,
        )
    elif fact.result == RunResult.OUT_OF_MEMORY:
        escalate(step, dispatch, fact)
    elif fact.result == RunResult.BACKPRESSURE:
        return_untried(step, dispatch, RequeueCause.BACKPRESSURE, fact.message)
    else:  # an internal error, or a kill nobody asked for
        tails = (fact.stdout_tail, fact.stderr_tail)
        fail_job(step, dispatch, RequeueCause.JOB_ERROR, fact.message, tails, fact.usage)
