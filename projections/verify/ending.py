"""How runs and operations end other than well, as the next events: which budget a cause is charged to, and what follows (2.7)."""

from typing import Any

from projections.verify.case import Case
from projections.verify.catalogue import BUDGETS, KILLED
from projections.verify.rows import Domain, Op, Run, Worker
from proto.gen.headway.v1 import reasons_pb2 as r
from proto.gen.headway.v1.common_pb2 import ResourceUsage

NO_USAGE = ResourceUsage()
FAILED_EXIT_CODE = -178


def stops(
    case: Case, rule: int, op: Op, outcome: int, *, kill: int = 0, exit_code: int = 0, message: str | None = None
) -> None:
    """A live operation ends without its worker's word; where it runs the run is revoked first (K4)."""
    run = op.run
    if run is not None:
        is_revoked(case, run, kill)
    said = {} if message is None else {"message": message}
    case.expect(
        rule,
        "operation_finished",
        operation_id=op.id,
        dispatch_id=0 if run is None else run.id,
        outcome=outcome,
        exit_code=exit_code,
        job_failures=op.failures,
        worker_losses=op.losses,
        endpoint="" if run is None else run.worker.endpoint,
        stdout_tail=b"",
        stderr_tail=b"",
        usage=NO_USAGE,
        **said,
    )


def is_revoked(case: Case, run: Run, cause: int) -> None:
    """The run is told to stop."""
    case.expect(
        KILLED,
        "kill_requested",
        operation_id=run.op.id,
        dispatch_id=run.id,
        cause=cause,
        endpoint=run.worker.endpoint,
        instance=run.op.domain.name,
    )


def is_told_to_stop(case: Case, f: Any, number: int) -> None:
    """The worker that the fact is of runs what it does not hold (any more): it is told to stop that."""
    case.expect(
        KILLED,
        "kill_requested",
        endpoint=f.endpoint,
        instance=f.instance,
        operation_id=0,
        dispatch_id=number,
        cause=r.KILL_CAUSE_NOT_CURRENT,
    )


def fails_job(case: Case, run: Run, cause: int, message: str | None = None) -> None:
    """A job failure: again, or the end."""
    op = run.op
    if op.failures + 1 > op.domain.options.max_failures:
        _fails(case, run, r.OUTCOME_JOB_RETRIES_EXHAUSTED, op.failures + 1, op.losses, message)
    else:
        goes_back(case, run, cause, failures=op.failures + 1, message=message)


def loses_worker(case: Case, run: Run, cause: int) -> None:
    """A worker loss: its own budget."""
    op = run.op
    if op.losses + 1 > op.domain.options.max_losses:
        _fails(case, run, r.OUTCOME_WORKER_LOSSES_EXHAUSTED, op.failures, op.losses + 1)
    else:
        goes_back(case, run, cause, losses=op.losses + 1)


def returns_untried(
    case: Case,
    run: Run,
    cause: int,
    *,
    declined: int = 0,
    needed_kib: int = 0,
    free_kib: int = 0,
    message: str | None = None,
) -> None:
    """A free cause, which is bounded too."""
    op = run.op
    if op.frees + 1 > op.domain.options.max_frees:
        _fails(case, run, r.OUTCOME_FREE_REQUEUES_EXHAUSTED, op.failures, op.losses)
        return
    goes_back(
        case,
        run,
        cause,
        frees=op.frees + 1,
        decline_reason=declined,
        needed_kib=needed_kib,
        free_kib=free_kib,
        message=message,
    )


def _fails(case: Case, run: Run, outcome: int, failures: int, losses: int, tail: str | None = None) -> None:
    said = {} if tail is None else {"message": tail}
    case.expect(
        BUDGETS,
        "operation_finished",
        operation_id=run.op.id,
        dispatch_id=run.id,
        outcome=outcome,
        exit_code=FAILED_EXIT_CODE,
        job_failures=failures,
        worker_losses=losses,
        endpoint=run.worker.endpoint,
        **said,
    )


def goes_back(
    case: Case,
    run: Run,
    cause: int,
    *,
    failures: int | None = None,
    losses: int | None = None,
    frees: int | None = None,
    escalations: int | None = None,
    requirement_id: int = 0,
    needed_kib: int = 0,
    free_kib: int = 0,
    decline_reason: int = 0,
    message: str | None = None,
) -> None:
    """Back to the queue at its old place, with these counters; those that are not given stay."""
    op = run.op
    said = {} if message is None else {"message": message}
    case.expect(
        BUDGETS,
        "operation_requeued",
        operation_id=op.id,
        dispatch_id=run.id,
        cause=cause,
        job_failures=op.failures if failures is None else failures,
        worker_losses=op.losses if losses is None else losses,
        free_requeues=op.frees if frees is None else frees,
        escalations=op.escalations if escalations is None else escalations,
        endpoint=run.worker.endpoint,
        requirement_id=requirement_id,
        needed_kib=needed_kib,
        free_kib=free_kib,
        decline_reason=decline_reason,
        **said,
    )


def acknowledges(case: Case, domain: Domain, worker: Worker) -> None:
    """After each message of a worker: what it should have accepted by now goes back untried, the run revoked first (B6)."""
    if not domain.options.ack_us or not worker.unaccepted:
        return
    overdue_us = case.now_us - domain.options.ack_us
    for run in list(worker.runs.values()):
        if not run.accepted and not run.revoked and run.heard_us < overdue_us:
            is_revoked(case, run, r.KILL_CAUSE_UNACKNOWLEDGED)
            returns_untried(case, run, r.REQUEUE_CAUSE_UNACKNOWLEDGED)
