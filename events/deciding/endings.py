"""How operations and their runs end other than well: budgets for job failures, worker losses and free causes (2.7), and what each costs."""

from events import events as e
from events.deciding.step import Step
from events.reasons import DeclineReason, KillCause, Outcome, RequeueCause
from events.state import Dispatch, Operation
from events.values import NO_USAGE, Usage

INTERNAL_ERROR_EXIT_CODE = -178
"""Exit code of an operation that failed without the action's own doing (U2)."""

NO_TAILS = (b"", b"")


def stop(
    step: Step,
    operation: Operation,
    outcome: Outcome,
    kill: KillCause = KillCause.UNSPECIFIED,
    exit_code: int = 0,
    message: str = "",
) -> None:
    """End a live operation that its worker has not ended. Where it runs, the run is revoked first, for the cause `kill` (K4)."""
    dispatch = operation.dispatch
    if dispatch is not None:
        revoke(step, dispatch, kill)
    step.emit(
        e.OperationFinished,
        operation.operation_id,
        0 if dispatch is None else dispatch.dispatch_id,
        outcome,
        exit_code,
        message,
        job_failures=operation.job_failures,
        worker_losses=operation.worker_losses,
        endpoint="" if dispatch is None else dispatch.worker.endpoint,
    )


def revoke(step: Step, dispatch: Dispatch, cause: KillCause) -> None:
    """The run no longer counts and is told to stop; its worker pays for it until it reports (K4)."""
    worker = dispatch.worker
    step.emit(e.KillRequested, worker.instance, worker.endpoint, dispatch.operation_id, dispatch.dispatch_id, cause)


def fail_job(
    step: Step,
    dispatch: Dispatch,
    cause: RequeueCause,
    message: str,
    tails: tuple[bytes, bytes] = NO_TAILS,
    usage: Usage = NO_USAGE,
) -> None:
    """A job failure: requeue, or finish when `max_job_retries` is spent (attempts beyond the first; strict)."""
    operation = dispatch.operation
    failures = operation.job_failures + 1
    if failures > step.shard.instances[operation.instance].config.max_job_retries:
        fail(step, dispatch, Outcome.JOB_RETRIES_EXHAUSTED, message, tails, usage, job_failures=failures)
    else:
        requeue(step, dispatch, cause, message, job_failures=failures)


def lose_worker(step: Step, dispatch: Dispatch, cause: RequeueCause) -> None:
    """A worker loss: its own budget, `max_worker_loss_retries` (1.4)."""
    operation = dispatch.operation
    losses = operation.worker_losses + 1
    if losses > step.shard.instances[operation.instance].config.max_worker_loss_retries:
        message = f"lost its worker {losses} times; the last was {dispatch.worker.endpoint}"
        fail(step, dispatch, Outcome.WORKER_LOSSES_EXHAUSTED, message, worker_losses=losses)
    else:
        requeue(step, dispatch, cause, worker_losses=losses)


def return_untried(
    step: Step,
    dispatch: Dispatch,
    cause: RequeueCause,
    message: str = "",
    decline_reason: DeclineReason = DeclineReason.UNSPECIFIED,
    needed_kib: int = 0,
    free_kib: int = 0,
) -> None:
    """A free cause: no attempt is counted, but one operation is not passed round for ever (`max_free_requeues`)."""
    operation = dispatch.operation
    free = operation.free_requeues + 1
    if free > step.shard.instances[operation.instance].config.max_free_requeues:
        given_back = f"given back untried {free} times; the last was {dispatch.worker.endpoint}"
        fail(step, dispatch, Outcome.FREE_REQUEUES_EXHAUSTED, f"{given_back}: {message}" if message else given_back)
        return
    step.emit(
        e.OperationRequeued,
        operation.operation_id,
        dispatch.dispatch_id,
        cause,
        operation.job_failures,
        operation.worker_losses,
        free,
        message,
        decline_reason,
        needed_kib,
        free_kib,
        dispatch.worker.endpoint,
        escalations=operation.escalations,
    )


def fail(
    step: Step,
    dispatch: Dispatch,
    outcome: Outcome,
    message: str,
    tails: tuple[bytes, bytes] = NO_TAILS,
    usage: Usage = NO_USAGE,
    *,
    job_failures: int | None = None,
    worker_losses: int | None = None,
) -> None:
    """A budget is spent: the operation ends with an error, and the run with it. Counters that are not given stay."""
    operation = dispatch.operation
    step.emit(
        e.OperationFinished,
        operation.operation_id,
        dispatch.dispatch_id,
        outcome,
        INTERNAL_ERROR_EXIT_CODE,
        message,
        *tails,
        usage,
        operation.job_failures if job_failures is None else job_failures,
        operation.worker_losses if worker_losses is None else worker_losses,
        dispatch.worker.endpoint,
    )


def requeue(
    step: Step,
    dispatch: Dispatch,
    cause: RequeueCause,
    message: str = "",
    *,
    job_failures: int | None = None,
    worker_losses: int | None = None,
    escalations: int | None = None,
    requirement_id: int = 0,
    needed_kib: int = 0,
) -> None:
    """Back to the queue at its old place. Counters that are not given stay; `requirement_id` 0 keeps the reservation."""
    operation = dispatch.operation
    step.emit(
        e.OperationRequeued,
        operation.operation_id,
        dispatch.dispatch_id,
        cause,
        operation.job_failures if job_failures is None else job_failures,
        operation.worker_losses if worker_losses is None else worker_losses,
        operation.free_requeues,
        message,
        needed_kib=needed_kib,
        endpoint=dispatch.worker.endpoint,
        requirement_id=requirement_id,
        escalations=operation.escalations if escalations is None else escalations,
    )
