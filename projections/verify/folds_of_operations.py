"""What events change in operations and in who waits for them; counters, budgets and currency are held against the rows here."""

from collections.abc import Callable
from typing import Any

from projections.verify.case import Case, Off
from projections.verify.catalogue import BUDGETS, CURRENT, READABLE
from projections.verify.catalogue import QUEUED as QUEUED_RULE
from projections.verify.ledger import charge, demand_of, promote, settle, touched
from projections.verify.rows import EXECUTING, FINISHED, FORWARDED, LOOKED_UP, QUEUED, Client, Op, Run
from projections.verify.times import arm_client, arm_run, arm_shortage
from proto.gen.headway.v1 import reasons_pb2 as r

PAUSES = frozenset({r.REQUEUE_CAUSE_DECLINED, r.REQUEUE_CAUSE_BACKPRESSURE, r.REQUEUE_CAUSE_UNACKNOWLEDGED})
"""Free causes; each pauses the worker (B3)."""


JOB_FAILURES = frozenset({r.REQUEUE_CAUSE_JOB_ERROR, r.REQUEUE_CAUSE_ACTION_TIMEOUT, r.REQUEUE_CAUSE_EXECUTING_TIMEOUT})


HEARD_CAUSES = frozenset({*PAUSES, r.REQUEUE_CAUSE_JOB_ERROR, r.REQUEUE_CAUSE_ESCALATED})
"""Causes that a message of the worker brought: it is the most recent one then (1.3)."""


EXHAUSTED = {
    r.OUTCOME_JOB_RETRIES_EXHAUSTED: ("job_failures", "max_failures"),
    r.OUTCOME_WORKER_LOSSES_EXHAUSTED: ("worker_losses", "max_losses"),
}


def _operation_queued(case: Case, p: Any) -> None:
    domain = case.domain(p.instance)
    name, offset, number = p.client_operation_id, case.offset, p.requirement_id
    if offset in case.shard.ops:
        raise Off(READABLE, f"one operation for the fact at offset {offset}")
    op = Op(domain, offset, name, demand_of(case, domain, number))
    op.queued_at_us = op.since_us = p.queued_at_us
    _ordered(op, p)
    if op.share is not None:
        whose, cost_us = op.share
        domain.shares[whose] = op.time_us + cost_us
    op.timeout_us = p.timeout_us
    op.expected_us = p.expected_duration_us
    op.client_id = p.client_id
    op.mnemonic, op.target = p.mnemonic, p.target_id
    op.commanded = p.HasField("command") and bool(p.command.ByteSize())
    if p.cacheable and not p.skip_cache_lookup and p.action_digest.hash:
        op.action = (p.action_digest.hash, p.action_digest.size_bytes)
        domain.actions[op.action] = op
    case.shard.ops[offset] = op
    domain.by_client[name] = op
    if p.attached:
        client = Client(name, True, case.now_us)
        op.clients = {name: client}
        arm_client(case.shard, op, client)
    _waits(case, op)


def _ordered(op: Op, p: Any) -> None:
    """Its place in the queue: by its priority and queued time, where the event gives no other."""
    op.priority = op.top = p.priority
    op.time_us = op.queued_at_us
    op.share = None
    if p.HasField("order"):
        op.top, op.time_us = p.order.priority, p.order.time_us
        if p.order.cost_us:
            op.share = (p.order.share_of, p.order.cost_us)


def _waits(case: Case, op: Op) -> None:
    """It is in the queue, and fails in time where no worker could run it."""
    op.domain.enqueue(op)
    arm_shortage(case.shard, op)


def _operation_dispatched(case: Case, p: Any) -> None:
    op = case.op(p.operation_id)
    domain = op.domain
    worker = case.worker(domain, p.endpoint)
    if op.stage != QUEUED:
        raise Off(QUEUED_RULE, f"an operation that is queued; {op.id} is {op.stage}")
    domain.dequeue(op)
    run = op.run = Run(case.seq, op, worker, case.now_us)
    op.stage = EXECUTING
    worker.runs[case.seq] = run
    worker.unaccepted += 1
    worker.recency = case.seq
    worker.stamp += 1
    charge(worker, run.demand)
    if domain.hold is not None and domain.hold.op is op:
        touched(domain, domain.hold.worker)
        domain.hold = None
    if op.share is not None:
        domain.virtual_us = max(domain.virtual_us, op.time_us)
    if op.timeout_us or domain.options.executing_us:
        arm_run(case.shard, run)


def _operation_accepted(case: Case, p: Any) -> None:
    op = case.op(p.operation_id)
    run = case.run(CURRENT, op, p.dispatch_id)
    if run.accepted:
        raise Off(CURRENT, f"a dispatch that was not accepted before; {run.id} was")
    case.judged[CURRENT] += 1
    worker = run.worker
    run.accepted = True
    run.heard_us = worker.seen_us = case.now_us
    worker.recency = case.seq
    worker.unaccepted -= 1
    domain = op.domain
    if domain.options.max_unaccepted:
        touched(domain, worker)
    else:
        worker.stamp += 1


def _requeue_counted(case: Case, op: Op, p: Any) -> None:
    """V-4: the counter that the cause belongs to goes up by one, and is within its limit."""
    cause, options = p.cause, op.domain.options
    failed, free, escalated = cause in JOB_FAILURES, cause in PAUSES, cause == r.REQUEUE_CAUSE_ESCALATED
    lost = not (failed or free or escalated)
    want = (op.failures + failed, op.losses + lost, op.frees + free, op.escalations + escalated)
    if (p.job_failures, p.worker_losses, p.free_requeues, p.escalations) != want:
        names = ("job_failures", "worker_losses", "free_requeues", "escalations")
        case.find(
            BUDGETS,
            " ".join(f"{n}={v}" for n, v in zip(names, want, strict=True)),
            str(p).replace("\n", " "),
            case.at - 1,
        )
    limits = (options.max_failures, options.max_losses, options.max_frees)
    if (failed and want[0] > limits[0]) or (lost and want[1] > limits[1]) or (free and want[2] > limits[2]):
        case.find(BUDGETS, f"the operation ends: {want[:3]} of {limits}", "it goes back to the queue", case.at - 1)
    case.judged[BUDGETS] += 1


def _operation_requeued(case: Case, p: Any) -> None:
    op = case.op(p.operation_id)
    domain = op.domain
    run = case.run(CURRENT, op, p.dispatch_id)
    case.judged[CURRENT] += 1
    _requeue_counted(case, op, p)
    if p.requirement_id:
        op.demand = demand_of(case, domain, p.requirement_id)
    op.run = None
    op.stage = QUEUED
    op.since_us = case.now_us
    op.failures, op.losses, op.frees, op.escalations = p.job_failures, p.worker_losses, p.free_requeues, p.escalations
    worker = run.worker
    if not run.revoked:
        settle(domain, run)
    if p.cause in PAUSES:
        worker.paused = True
        worker.resume_at = 0
        if p.cause == r.REQUEUE_CAUSE_DECLINED and p.needed_kib:
            if worker.runs:
                worker.resume_at = p.needed_kib
            elif not worker.admits_idle:
                worker.declined = p.needed_kib if worker.declined is None else min(worker.declined, p.needed_kib)
    if p.cause in HEARD_CAUSES:
        promote(case, worker)
    touched(domain, worker)
    _waits(case, op)


def _end_counted(case: Case, op: Op, p: Any) -> None:
    """V-4: an operation ends with the counters it has, one more where a budget is spent; and only once it is."""
    case.judged[BUDGETS] += 1
    counted = {"job_failures": op.failures, "worker_losses": op.losses}
    if op.run is not None and p.outcome in EXHAUSTED:
        name, limit = EXHAUSTED[p.outcome]
        if counted[name] < getattr(op.domain.options, limit):
            case.find(BUDGETS, f"it goes back to the queue: {name} is {counted[name]}", "it ends", case.at - 1)
        counted[name] += 1
    if (p.job_failures, p.worker_losses) != tuple(counted.values()):
        case.find(BUDGETS, str(counted), str(p).replace("\n", " "), case.at - 1)


def _operation_finished(case: Case, p: Any) -> None:
    op = case.op(p.operation_id)
    domain = op.domain
    if op.stage == FINISHED:
        raise Off(CURRENT, f"a live operation; {op.id} has finished")
    case.judged[CURRENT] += 1
    outcome, run = p.outcome, op.run
    if (0 if run is None else run.id) != p.dispatch_id:
        case.run(CURRENT, op, p.dispatch_id)
    if (p.job_failures, p.worker_losses) != (op.failures, op.losses) or (run is not None and outcome in EXHAUSTED):
        _end_counted(case, op, p)
    if run is None:
        if op.stage == QUEUED:
            domain.dequeue(op)
        if (
            op.share is not None
            and not (op.failures or op.losses or op.frees or op.escalations)
            and op.share[0] in domain.shares
        ):
            domain.shares[op.share[0]] -= op.share[1]
    else:
        op.run = None
        worker = run.worker
        if outcome == r.OUTCOME_COMPLETED:
            domain.history.add(run, case.now_us - run.at_us)
        if outcome == r.OUTCOME_FREE_REQUEUES_EXHAUSTED:
            worker.paused = True
            worker.resume_at = 0
        if not run.revoked:
            settle(domain, run)
            if outcome != r.OUTCOME_WORKER_LOSSES_EXHAUSTED:
                worker.recency = case.seq
                worker.seen_us = max(worker.seen_us, case.now_us)
        touched(domain, worker)
    op.stage = FINISHED
    op.failures, op.losses = p.job_failures, p.worker_losses
    if op.action is not None and domain.actions.get(op.action) is op:
        del domain.actions[op.action]
    domain.finished.append((case.seq, case.now_us, op))


def _operation_reprioritised(case: Case, p: Any) -> None:
    op = case.op(p.operation_id)
    if op.stage == QUEUED:
        op.domain.dequeue(op)
    _ordered(op, p)
    if op.stage == QUEUED:
        _waits(case, op)


def _operations_forgotten(case: Case, p: Any) -> None:
    domain = case.domain(p.instance)
    finished, ops, by_client = domain.finished, case.shard.ops, domain.by_client
    while finished and finished[0][0] <= p.through_seq:
        op = finished.popleft()[2]
        ops.pop(op.id, None)
        for name in (op.name,) if op.clients is None else list(op.clients):
            if by_client.get(name) is op:
                del by_client[name]
    if domain.shares:
        domain.shares = {name: tag for name, tag in domain.shares.items() if tag > domain.virtual_us}


def _operation_joined(case: Case, p: Any) -> None:
    op = case.op(p.operation_id)
    if op.clients is None:
        op.clients = {op.name: Client(op.name, False, op.queued_at_us)}
    client = op.clients[p.client_operation_id] = Client(p.client_operation_id, p.attached, case.now_us)
    op.domain.by_client[p.client_operation_id] = op
    if p.attached:
        arm_client(case.shard, op, client)


def _client_of(case: Case, op: Op, name: str) -> Client:
    client = (op.clients or {}).get(name)
    if client is None:
        raise Off(READABLE, f"a client of operation {op.id}, not {name!r}")
    return client


def _client_heard(case: Case, p: Any) -> None:
    op = case.domain(p.instance).by_client.get(p.client_operation_id)
    if op is None:
        raise Off(READABLE, f"a client that is known, not {p.client_operation_id!r}")
    client = _client_of(case, op, p.client_operation_id)
    client.heard_us = max(client.heard_us, case.now_us)
    if client.left:
        client.left = 0
        arm_client(case.shard, op, client)


def _client_left(case: Case, p: Any) -> None:
    _client_of(case, case.op(p.operation_id), p.client_operation_id).left = p.reason


def _cache_lookup_requested(case: Case, p: Any) -> None:
    _out_of_queue(case, p.operation_id, LOOKED_UP)


def _operation_forwarded(case: Case, p: Any) -> None:
    _out_of_queue(case, p.operation_id, FORWARDED)


def _out_of_queue(case: Case, number: int, stage: str) -> None:
    op = case.op(number)
    if op.stage == QUEUED:
        op.domain.dequeue(op)
    op.stage = stage


def _cache_answered(case: Case, p: Any) -> None:
    if p.answer == r.CACHE_ANSWER_MISS:
        op = case.op(p.operation_id)
        op.stage = QUEUED
        op.since_us = case.now_us
        _waits(case, op)


FOLDS_OF_OPERATIONS: dict[str, Callable[[Case, Any], None]] = {
    "operation_queued": _operation_queued,
    "operation_dispatched": _operation_dispatched,
    "operation_accepted": _operation_accepted,
    "operation_requeued": _operation_requeued,
    "operation_finished": _operation_finished,
    "operation_reprioritised": _operation_reprioritised,
    "operations_forgotten": _operations_forgotten,
    "operation_joined": _operation_joined,
    "client_heard": _client_heard,
    "client_left": _client_left,
    "cache_lookup_requested": _cache_lookup_requested,
    "operation_forwarded": _operation_forwarded,
    "cache_answered": _cache_answered,
}
