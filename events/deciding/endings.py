"""How a dispatch ends other than well: budgets for job failures, worker losses and free causes (2.7), and what each costs."""

from events import events as e
from events.deciding.step import Step
from events.reasons import DeclineReason, Outcome, RequeueCause
from events.state import Dispatch
from events.values import NO_USAGE, Usage

INTERNAL_ERROR_EXIT_CODE = -178
"""Exit code of an operation that failed without the action's own doing (U2)."""


def fail_job(
    step: Step,
    dispatch: Dispatch,
    cause: RequeueCause,
    message: str,
    tails: tuple[bytes, bytes] = (b"", b""),
    usage: Usage = NO_USAGE,
) -> None:
    """A job failure: requeue, or finish when `max_job_retries` is spent (attempts beyond the first; strict)."""
    operation = dispatch.operation
    failures = operation.job_failures + 1
    if failures > step.shard.instances[operation.instance].config.max_job_retries:
        step.emit(
            e.OperationFinished,
            operation.operation_id,
            dispatch.dispatch_id,
            Outcome.JOB_RETRIES_EXHAUSTED,
            INTERNAL_ERROR_EXIT_CODE,
            message,
            *tails,
            usage,
            failures,
            operation.worker_losses,
            dispatch.worker.endpoint,
        )
    else:
        step.emit(
            e.OperationRequeued,
            operation.operation_id,
            dispatch.dispatch_id,
            cause,
            failures,
            operation.worker_losses,
            operation.free_requeues,
            message,
            DeclineReason.UNSPECIFIED,
            0,
            0,
            dispatch.worker.endpoint,
        )


def lose_worker(step: Step, dispatch: Dispatch, cause: RequeueCause) -> None:
    """A worker loss: its own budget, `max_worker_loss_retries` (1.4)."""
    operation = dispatch.operation
    losses = operation.worker_losses + 1
    if losses > step.shard.instances[operation.instance].config.max_worker_loss_retries:
        step.emit(
            e.OperationFinished,
            operation.operation_id,
            dispatch.dispatch_id,
            Outcome.WORKER_LOSSES_EXHAUSTED,
            INTERNAL_ERROR_EXIT_CODE,
            f"lost its worker {losses} times; the last was {dispatch.worker.endpoint}",
            b"",
            b"",
            NO_USAGE,
            operation.job_failures,
            losses,
            dispatch.worker.endpoint,
        )
    else:
        step.emit(
            e.OperationRequeued,
            operation.operation_id,
            dispatch.dispatch_id,
            cause,
            operation.job_failures,
            losses,
            operation.free_requeues,
            "",
            DeclineReason.UNSPECIFIED,
            0,
            0,
            dispatch.worker.endpoint,
        )


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
        step.emit(
            e.OperationFinished,
            operation.operation_id,
            dispatch.dispatch_id,
            Outcome.FREE_REQUEUES_EXHAUSTED,
            INTERNAL_ERROR_EXIT_CODE,
            message or f"declined {free} times; the last was {dispatch.worker.endpoint}",
            b"",
            b"",
            NO_USAGE,
            operation.job_failures,
            operation.worker_losses,
            dispatch.worker.endpoint,
        )
    else:
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
        )
