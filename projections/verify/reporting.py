"""What workers say of dispatches, against its events: accepted, declined, finished (2.7, B3-B6, U1-U9)."""

from typing import Any

from projections.verify.case import Case, Off
from projections.verify.catalogue import CURRENT, ENDED, ESCALATED, SETTLED
from projections.verify.ending import (
    FAILED_EXIT_CODE,
    acknowledges,
    fails_job,
    goes_back,
    is_told_to_stop,
    returns_untried,
)
from projections.verify.entering import numbered
from projections.verify.rows import UNDECLARED, Domain, Run
from projections.verify.turning import ignores, worker_of
from proto.gen.headway.v1 import reasons_pb2 as r

ENDS = {
    r.RUN_RESULT_EXITED: r.OUTCOME_COMPLETED,
    r.RUN_RESULT_TIMED_OUT: r.OUTCOME_ACTION_TIMED_OUT,
    r.RUN_RESULT_FAILED_PRECONDITION: r.OUTCOME_FAILED_PRECONDITION,
}


def accept(case: Case, f: Any) -> None:
    """The worker runs it; what it does not hold it is told to stop (B6)."""
    found = worker_of(case, f, f.connection_id, f.dispatch_id)
    if found is None:
        return
    domain, worker = found
    run = worker.runs.get(f.dispatch_id)
    if run is None:
        ignores(case, r.IGNORE_REASON_DISPATCH_NOT_CURRENT, f.instance, f.endpoint, f.dispatch_id)
        is_told_to_stop(case, f, f.dispatch_id)
    elif run.revoked:
        ignores(case, r.IGNORE_REASON_DISPATCH_NOT_CURRENT, f.instance, f.endpoint, f.dispatch_id)
    elif run.accepted:
        ignores(case, r.IGNORE_REASON_ALREADY_ACCEPTED, f.instance, f.endpoint, f.dispatch_id)
    else:
        if case.peek() != "operation_accepted":
            raise Off(CURRENT, f"operation_accepted dispatch_id={run.id}")
        p = case.events[case.at].payload
        if p.dispatch_id != run.id or p.operation_id != run.op.id:
            case.find(CURRENT, f"operation_id={run.op.id} dispatch_id={run.id}", case.shown())
        case.fold_next()
    acknowledges(case, domain, worker)


def decline(case: Case, f: Any) -> None:
    """The operation goes back untried."""
    found = worker_of(case, f, f.connection_id, f.dispatch_id)
    if found is None:
        return
    domain, worker = found
    run = worker.runs.get(f.dispatch_id)
    if run is None:
        ignores(case, r.IGNORE_REASON_DISPATCH_NOT_CURRENT, f.instance, f.endpoint, f.dispatch_id)
    elif run.revoked:
        is_settled(case, run, r.RUN_RESULT_BACKPRESSURE)
    else:
        returns_untried(
            case,
            run,
            r.REQUEUE_CAUSE_DECLINED,
            declined=f.reason,
            needed_kib=f.needed_kib,
            free_kib=f.free_kib,
            message="",
        )
    acknowledges(case, domain, worker)


def is_settled(case: Case, run: Run, result: int) -> None:
    """The charge of a revoked run is returned."""
    case.expect(
        SETTLED,
        "dispatch_settled",
        endpoint=run.worker.endpoint,
        instance=run.op.domain.name,
        operation_id=run.op.id,
        dispatch_id=run.id,
        result=result,
    )


def finish(case: Case, f: Any) -> None:
    """The final report of a run."""
    found = worker_of(case, f, f.connection_id, f.dispatch_id)
    if found is None:
        return
    domain, worker = found
    run = worker.runs.get(f.dispatch_id)
    if run is None:
        ignores(case, r.IGNORE_REASON_DISPATCH_NOT_CURRENT, f.instance, f.endpoint, f.dispatch_id)
    elif run.revoked:
        is_settled(case, run, f.result)
    else:
        _ends(case, domain, run, f)
    acknowledges(case, domain, worker)


def _ends(case: Case, domain: Domain, run: Run, f: Any) -> None:
    outcome = ENDS.get(f.result)
    if outcome is not None:
        _is_final(case, run, f, outcome, f.exit_code)
    elif f.result == r.RUN_RESULT_OUT_OF_MEMORY:
        _escalates(case, domain, run, f)
    elif f.result == r.RUN_RESULT_BACKPRESSURE:
        spent = run.op.frees + 1 > domain.options.max_frees
        returns_untried(case, run, r.REQUEUE_CAUSE_BACKPRESSURE, message=None if spent else f.message)
    else:
        fails_job(case, run, r.REQUEUE_CAUSE_JOB_ERROR, f.message)


def _is_final(case: Case, run: Run, f: Any, outcome: int, exit_code: int) -> None:
    op = run.op
    p = case.due(ENDED, "operation_finished", f"operation_id={op.id}")
    if (
        p.operation_id != op.id
        or p.dispatch_id != run.id
        or p.outcome != outcome
        or p.exit_code != exit_code
        or p.endpoint != run.worker.endpoint
        or p.message != f.message
        or p.stdout_tail != f.stdout_tail
        or p.stderr_tail != f.stderr_tail
        or p.usage != f.usage
    ):
        case.find(
            ENDED, f"operation_id={op.id} dispatch_id={run.id} outcome={outcome} and the report's values", case.shown()
        )
    case.fold_next()


def _escalates(case: Case, domain: Domain, run: Run, f: Any) -> None:
    """U8: a larger reservation, or the end."""
    policy, options, op = domain.options.escalation, domain.options, run.op
    if policy is None:
        _is_final(case, run, f, r.OUTCOME_COMPLETED, f.exit_code or FAILED_EXIT_CODE)
        return
    memory, cpu = options.pools.index(policy["property"]), options.pools.index(policy["cpu_property"])
    base = run.demand.of(memory) or f.usage.peak_memory_kib
    if not base:
        _is_final(case, run, f, r.OUTCOME_COMPLETED, f.exit_code or FAILED_EXIT_CODE)
        return
    able = [
        worker
        for worker in domain.workers.values()
        if not worker.draining and worker.total[memory] != UNDECLARED and worker.suits(run.demand)
    ]
    most: int | None = policy["max_kib"] or None
    whole_cpu = None
    if able:
        largest = max(able, key=lambda worker: worker.total[memory])  # the first of equals
        most = min(largest.total[memory], most or largest.total[memory])
        whole_cpu = largest.total[cpu] if largest.total[cpu] != UNDECLARED else None
    if (most is not None and base >= most) or op.escalations + 1 > policy["max_steps"]:
        case.expect(
            ESCALATED,
            "operation_finished",
            operation_id=op.id,
            dispatch_id=run.id,
            outcome=r.OUTCOME_ESCALATION_EXHAUSTED,
            exit_code=FAILED_EXIT_CODE,
            endpoint=run.worker.endpoint,
        )
        return
    if policy["ladder_kib"]:
        above = [step for step in policy["ladder_kib"] if step > base]
        amount = min(above) if above else (most if most is not None else base + 1)
    else:
        amount = max(base * policy["percent"] // 100, base + 1)
    if most is not None:
        amount = min(amount, most)
    properties = dict(case.shard.known[op.number])
    properties[policy["property"]] = str(amount)
    if amount == most and whole_cpu is not None:
        properties[policy["cpu_property"]] = str(whole_cpu)
    number = numbered(case, tuple(sorted(properties.items())))
    case.judged[ESCALATED] += 1
    goes_back(
        case,
        run,
        r.REQUEUE_CAUSE_ESCALATED,
        escalations=op.escalations + 1,
        requirement_id=number,
        needed_kib=amount,
        message=f.message,
    )
