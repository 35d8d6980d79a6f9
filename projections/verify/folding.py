"""What each event changes in an audit's rows, and what can be said of an event without its fact: counters, budgets, currency.

Written from the wire contract and the specification. It shares nothing with the decider's fold or with that of the read side, so that a
defect in either is not one here as well. An event that speaks of what is not known raises `Off`.
"""

from collections.abc import Callable, Iterable
from heapq import heappush
from typing import Any

from projections.verify.case import Case, Off
from projections.verify.catalogue import BUDGETS, CURRENT, QUEUED as QUEUED_RULE, READABLE, REQUIREMENTS, SETTLED
from projections.verify.options import Options
from projections.verify.rows import (
    EXECUTING,
    FINISHED,
    FORWARDED,
    LOOKED_UP,
    QUEUED,
    Client,
    Demand,
    Domain,
    Endpoint,
    Hold,
    Op,
    Run,
    Worker,
)
from projections.verify.times import arm_client, arm_domain, arm_endpoint, arm_hold, arm_kill, arm_run, arm_shortage, arm_worker
from proto.gen.headway.v1 import reasons_pb2 as r

PAUSES = frozenset(
    {r.REQUEUE_CAUSE_DECLINED, r.REQUEUE_CAUSE_BACKPRESSURE, r.REQUEUE_CAUSE_UNACKNOWLEDGED}
)
"""Free causes; each pauses the worker (B3)."""

JOB_FAILURES = frozenset({r.REQUEUE_CAUSE_JOB_ERROR, r.REQUEUE_CAUSE_ACTION_TIMEOUT, r.REQUEUE_CAUSE_EXECUTING_TIMEOUT})
HEARD_CAUSES = frozenset({*PAUSES, r.REQUEUE_CAUSE_JOB_ERROR, r.REQUEUE_CAUSE_ESCALATED})
"""Causes that a message of the worker brought: it is the most recent one then (1.3)."""

BROADCASTS_KEPT = 64


def demand_of(case: Case, domain: Domain, number: int) -> Demand:
    """A requirement as this instance reads it. Raises Off."""
    demand = domain.demands.get(number)
    if demand is None:
        known = case.shard.known
        if not 0 < number < len(known):
            raise Off(REQUIREMENTS, f"a requirement that is defined, not {number}")
        try:
            demand = domain.demands[number] = Demand(number, known[number], domain.options)
        except ValueError as error:
            raise Off(REQUIREMENTS, f"a requirement whose minimums are numbers, not {error}") from error
    return demand


def touched(domain: Domain, worker: Worker) -> None:
    """The worker may have room that it had not."""
    worker.stamp += 1
    domain.dirty[worker.endpoint] = worker


def promote(case: Case, worker: Worker) -> None:
    """The worker is the most recent one, and was heard (1.3)."""
    worker.recency = case.seq
    worker.seen_us = max(worker.seen_us, case.now_us)


def charge(worker: Worker, demand: Demand) -> None:
    """Take the amounts."""
    left = worker.left
    for pool, amount in demand.amounts:
        left[pool] -= amount


def settle(domain: Domain, run: Run) -> None:
    """Give them back."""
    worker = run.worker
    if worker.runs.pop(run.id, None) is None:
        return
    if not run.accepted and not run.revoked:
        worker.unaccepted -= 1
    left = worker.left
    for pool, amount in run.demand.amounts:
        left[pool] += amount
    touched(domain, worker)


def _leader_elected(case: Case, p: Any) -> None:
    shard = case.shard
    shard.elected_seq = case.seq
    shard.recovers_at = p.facts_end if case.seq > 1 else None
    for domain in shard.domains.values():
        if domain.hold is not None:  # what the last leader had worked out since is not recorded
            domain.promised_us = domain.hold.free_at_us


def _nothing(case: Case, p: Any) -> None:
    """Says something of a fact; no row changes."""


def _log_silent(case: Case, p: Any) -> None:
    shard, gap_us = case.shard, p.gap_us
    for domain in shard.domains.values():
        for worker in domain.workers.values():
            worker.seen_us += gap_us
            for run in worker.runs.values():
                run.heard_us += gap_us
                run.silent_us += gap_us
                if run.revoked:
                    run.killed_at_us += gap_us
        domain.shortages = {n: (since_us + gap_us, none) for n, (since_us, none) in domain.shortages.items()}
        for endpoint in domain.endpoints.values():
            if endpoint.gone_at_us:
                endpoint.gone_at_us += gap_us
    if shard.recovered_at_us:
        shard.recovered_at_us += gap_us
    for op in shard.ops.values():
        if op.clients is not None:
            for client in op.clients.values():
                client.heard_us += gap_us


def _key_parked(case: Case, p: Any) -> None:
    case.shard.parked[p.key] = None


def _key_released(case: Case, p: Any) -> None:
    case.shard.parked.pop(p.key, None)


def _configured(case: Case, p: Any) -> None:
    shard = case.shard
    try:
        options = Options(p.config_json)
    except (ValueError, KeyError, TypeError) as error:
        raise Off(READABLE, "a configuration that can be read") from error
    domain = shard.domains.get(p.instance)
    if domain is None:
        domain = shard.domains[p.instance] = Domain(p.instance, options)
    domain.options = options
    domain.demands = {}
    domain.ranks = {}
    domain.shortages = {}
    domain.unjudged = {}
    domain.lines = {}
    domain.queued = 0
    domain.dirty = {}
    live = [op for op in dict.fromkeys(domain.by_client.values()) if op.stage != FINISHED]
    for op in live:
        op.demand = demand_of(case, domain, op.number)
    for worker in domain.workers.values():
        try:
            worker.measure(options.pools)
        except ValueError as error:
            raise Off(READABLE, f"a worker whose minimums are numbers, not {error}") from error
        for run in worker.runs.values():
            run.demand = demand_of(case, domain, run.demand.number)
            charge(worker, run.demand)
        touched(domain, worker)
    for op in live:
        if op.stage == QUEUED:
            domain.enqueue(op)
    domain.unjudged = {}
    domain.fleet_changed = True
    arm_domain(shard, domain)
    hold = domain.hold
    if hold is not None and domain.workers.get(hold.worker.endpoint) is hold.worker:
        domain.promised_us = hold.free_at_us


def _instance_paused(case: Case, p: Any) -> None:
    case.domain(p.instance).paused = True


def _instance_resumed(case: Case, p: Any) -> None:
    case.domain(p.instance).paused = False


def _requirement_defined(case: Case, p: Any) -> None:
    shard = case.shard
    items = tuple((item.name, item.value) for item in p.requirements.items)
    if p.requirement_id != len(shard.known) or items in shard.numbers:
        raise Off(REQUIREMENTS, f"requirement_id={len(shard.known)} for requirements that have none yet")
    if list(items) != sorted(dict(items).items()):
        raise Off(REQUIREMENTS, "requirements sorted by name, no name twice")
    shard.numbers[items] = p.requirement_id
    shard.known.append(dict(items))


def _operation_queued(case: Case, p: Any) -> None:
    domain = case.shard.domains.get(p.instance) or case.domain(p.instance)
    name, offset, number = p.client_operation_id, case.offset, p.requirement_id
    if offset in case.shard.ops:
        raise Off(READABLE, f"one operation for the fact at offset {offset}")
    op = Op(domain, offset, name, domain.demands.get(number) or demand_of(case, domain, number))
    op.priority = op.top = p.priority
    op.queued_at_us = op.time_us = op.since_us = p.queued_at_us
    op.timeout_us = p.timeout_us
    op.expected_us = p.expected_duration_us
    op.client_id = p.client_id
    op.commanded = p.HasField("command") and bool(p.command.ByteSize())
    if p.cacheable and not p.skip_cache_lookup and p.action_digest.hash:
        op.action = (p.action_digest.hash, p.action_digest.size_bytes)
        domain.actions[op.action] = op
    if p.HasField("order"):
        placed = p.order
        op.top, op.time_us = placed.priority, placed.time_us
        if placed.cost_us:
            op.share = (placed.share_of, placed.cost_us)
            domain.shares[placed.share_of] = placed.time_us + placed.cost_us
    case.shard.ops[offset] = op
    domain.by_client[name] = op
    if p.attached:
        client = Client(name, True, case.now_us)
        op.clients = {name: client}
        arm_client(case.shard, op, client)
    domain.enqueue(op)
    if number in domain.shortages:
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
    left = worker.left
    for pool, amount in run.demand.amounts:
        left[pool] -= amount
    if domain.hold is not None and domain.hold.op is op:
        touched(domain, domain.hold.worker)
        domain.hold = None
    if op.share is not None:
        domain.virtual_us = max(domain.virtual_us, op.time_us)
    if op.timeout_us or domain.options.executing_us:
        arm_run(case.shard, run)


def _operation_accepted(case: Case, p: Any) -> None:
    op = case.op(p.operation_id)
    run = op.run
    if run is None or run.id != p.dispatch_id:
        run = case.run(CURRENT, op, p.dispatch_id)
    if run.accepted:
        raise Off(CURRENT, f"a dispatch that was not accepted before; {run.id} was")
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
        case.find(BUDGETS, " ".join(f"{n}={v}" for n, v in zip(names, want, strict=True)), str(p).replace("\n", " "), case.at - 1)
    limits = (options.max_failures, options.max_losses, options.max_frees)
    if (failed and want[0] > limits[0]) or (lost and want[1] > limits[1]) or (free and want[2] > limits[2]):
        case.find(BUDGETS, f"the operation ends: {want[:3]} of {limits}", "it goes back to the queue", case.at - 1)
    case.judged[BUDGETS] += 1


def _operation_requeued(case: Case, p: Any) -> None:
    op = case.op(p.operation_id)
    domain = op.domain
    run = case.run(CURRENT, op, p.dispatch_id)
    _requeue_counted(case, op, p)
    if p.requirement_id:
        op.demand = demand_of(case, domain, p.requirement_id)
        op.number = p.requirement_id
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
    domain.enqueue(op)
    if op.number in domain.shortages:
        arm_shortage(case.shard, op)


EXHAUSTED = {
    r.OUTCOME_JOB_RETRIES_EXHAUSTED: ("job_failures", "failures", "max_failures"),
    r.OUTCOME_WORKER_LOSSES_EXHAUSTED: ("worker_losses", "losses", "max_losses"),
}


def _operation_finished(case: Case, p: Any) -> None:
    op = case.op(p.operation_id)
    domain = op.domain
    if op.stage == FINISHED:
        raise Off(CURRENT, f"a live operation; {op.id} has finished")
    outcome, run = p.outcome, op.run
    if (0 if run is None else run.id) != p.dispatch_id:
        case.run(CURRENT, op, p.dispatch_id)
    counted = (op.failures + (outcome == r.OUTCOME_JOB_RETRIES_EXHAUSTED), op.losses + (outcome == r.OUTCOME_WORKER_LOSSES_EXHAUSTED))
    if (p.job_failures, p.worker_losses) != counted:
        case.find(BUDGETS, "job_failures=%d worker_losses=%d" % counted, str(p).replace("\n", " "), case.at - 1)
    if outcome in EXHAUSTED:
        case.judged[BUDGETS] += 1
        name, attribute, limit = EXHAUSTED[outcome]
        if getattr(op, attribute) < getattr(domain.options, limit):
            case.find(BUDGETS, f"it goes back to the queue: {name} {getattr(op, attribute)} of {getattr(domain.options, limit)}", "it ends", case.at - 1)
    if run is None:
        if op.stage == QUEUED:
            domain.dequeue(op)
        if op.share is not None and not (op.failures or op.losses or op.frees or op.escalations) and op.share[0] in domain.shares:
            domain.shares[op.share[0]] -= op.share[1]
    else:
        op.run = None
        worker = run.worker
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
    op.priority = op.top = p.priority
    op.time_us = op.queued_at_us
    share, op.share = op.share, None
    if p.HasField("order"):
        op.top, op.time_us = p.order.priority, p.order.time_us
        if p.order.cost_us:
            op.share = (p.order.share_of, p.order.cost_us)
    del share
    if op.stage == QUEUED:
        op.domain.enqueue(op)
        if op.number in op.domain.shortages:
            arm_shortage(case.shard, op)


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


def _kill_requested(case: Case, p: Any) -> None:
    domain = case.domain(p.instance)
    worker = case.worker(domain, p.endpoint)
    run = worker.runs.get(p.dispatch_id)
    if run is not None:
        if not run.accepted and not run.revoked:
            worker.unaccepted -= 1
        run.revoked = True
        run.killed_at_us = case.now_us
        arm_kill(case.shard, domain, run)
    worker.recency = case.seq
    touched(domain, worker)


def _dispatch_settled(case: Case, p: Any) -> None:
    domain = case.domain(p.instance)
    worker = case.worker(domain, p.endpoint)
    run = worker.runs.get(p.dispatch_id)
    if run is None or not run.revoked:
        raise Off(SETTLED, f"a revoked dispatch that {p.endpoint} still holds, not {p.dispatch_id}")
    settle(domain, run)
    promote(case, worker)


def _worker_admitted(case: Case, p: Any) -> None:
    domain, shard = case.domain(p.instance), case.shard
    before = domain.workers.get(p.endpoint)
    try:
        worker = Worker(p.endpoint, {item.name: item.value for item in p.properties}, domain.options.pools)
    except ValueError as error:
        raise Off(READABLE, f"a worker whose minimums are numbers, not {error}") from error
    worker.boot_epoch, worker.connection_id, worker.inflight = p.boot_epoch, p.connection_id, p.max_inflight
    worker.admits_idle = p.admits_when_idle
    worker.seen_us, worker.recency = case.now_us, case.seq
    if before is not None:
        worker.draining = before.draining and p.reconnected
        for number in p.kept:
            run = before.runs.get(number)
            if run is None:
                raise Off(CURRENT, f"a dispatch that {p.endpoint} holds, not {number}")
            run.worker = worker
            run.heard_us = case.now_us
            worker.runs[number] = run
            worker.unaccepted += not run.accepted and not run.revoked
            charge(worker, run.demand)
    domain.workers[p.endpoint] = worker
    domain.ranks.pop(p.endpoint, None)
    touched(domain, worker)
    _own_endpoint(case, domain, p)
    shape = tuple(sorted(worker.properties.items()))
    domain.shapes[shape] = domain.shapes.get(shape, 0) + 1
    domain.fleet_changed |= domain.shapes[shape] == 1
    if before is not None:
        _shape_left(domain, before)
    arm_worker(shard, domain, worker)
    hold = domain.hold
    if hold is not None and hold.worker is before and p.reconnected:
        hold.worker = worker
        domain.promised_us = hold.free_at_us


def _shape_left(domain: Domain, worker: Worker) -> None:
    shape = tuple(sorted(worker.properties.items()))
    domain.shapes[shape] -= 1
    if not domain.shapes[shape]:
        del domain.shapes[shape]
        domain.fleet_changed = True


def _own_endpoint(case: Case, domain: Domain, p: Any) -> None:
    endpoint = domain.endpoints.get(p.endpoint)
    if endpoint is None:
        endpoint = domain.endpoints[p.endpoint] = Endpoint(p.endpoint)
    elif endpoint.boot_epoch != p.boot_epoch or not p.boot_epoch:
        endpoint.changes = [*endpoint.changes, case.now_us][-domain.options.flap_threshold :]
    endpoint.boot_epoch, endpoint.owner = p.boot_epoch, p.connection_id
    endpoint.confirmed_in = case.shard.epoch
    endpoint.gone_at_us = endpoint.report = endpoint.chunk = 0
    endpoint.full = endpoint.open = False


def _worker_reported(case: Case, p: Any) -> None:
    domain = case.domain(p.instance)
    worker = case.worker(domain, p.endpoint)
    worker.seen_us = max(worker.seen_us, case.now_us)
    free = p.free_memory_kib if p.HasField("free_memory_kib") else None
    changed = False
    if free is not None:
        changed = worker.reported != free
        worker.stamp += 1
        worker.reported = free
        options = domain.options
        if options.veto:
            pool = options.veto_pool
            worker.lent = max(0, worker.total[pool] - worker.left[pool])
        else:
            worker.lent = 0
        if not worker.runs:
            worker.idle_free = free
        if worker.declined is not None and free >= worker.declined:
            worker.declined = None
            changed = True
    if worker.paused and (free is None or free >= worker.resume_at):
        worker.paused = False
        worker.resume_at = 0
        changed = True
    if changed:
        touched(domain, worker)


def _worker_drained(case: Case, p: Any) -> None:
    _drain(case, p, True)


def _worker_undrained(case: Case, p: Any) -> None:
    _drain(case, p, False)


def _drain(case: Case, p: Any, draining: bool) -> None:
    domain = case.domain(p.instance)
    worker = case.worker(domain, p.endpoint)
    worker.draining = draining
    worker.recency = case.seq
    touched(domain, worker)


def _worker_disconnected(case: Case, p: Any) -> None:
    domain = case.domain(p.instance)
    worker = case.worker(domain, p.endpoint)
    del domain.workers[p.endpoint]
    domain.dirty.pop(p.endpoint, None)
    domain.ranks.pop(p.endpoint, None)
    endpoint = domain.endpoints[p.endpoint]
    endpoint.owner = 0
    endpoint.gone_at_us = case.now_us
    arm_endpoint(case.shard, domain, endpoint)
    if not domain.workers:
        domain.shortages = {}
    _shape_left(domain, worker)


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
        op.domain.enqueue(op)
        if op.number in op.domain.shortages:
            arm_shortage(case.shard, op)


def _hints_loaded(case: Case, p: Any) -> None:
    case.domain(p.instance).hints = {(h.target_id, h.mnemonic): (h.cpu_millis, h.memory_kib) for h in p.hints}


def _demand_unsatisfiable(case: Case, p: Any) -> None:
    domain = case.domain(p.instance)
    domain.shortages[p.requirement_id] = (case.now_us, p.no_workers)
    line = domain.lines.get(p.requirement_id)
    if line is not None:
        for *_, op in line.ops:
            arm_shortage(case.shard, op)


def _demand_satisfiable(case: Case, p: Any) -> None:
    case.domain(p.instance).shortages.pop(p.requirement_id, None)


def _hold_made(case: Case, p: Any) -> None:
    domain = case.domain(p.instance)
    _hold(case, domain, Hold(case.op(p.operation_id), case.worker(domain, p.endpoint), p.requirement_id, case.now_us, p.free_at_us))


def _hold_moved(case: Case, p: Any) -> None:
    domain = case.domain(p.instance)
    before = domain.hold
    if before is None:
        raise Off(READABLE, "a hold that stands")
    touched(domain, before.worker)
    if domain.workers.get(before.worker.endpoint) is not before.worker:
        domain.dirty.pop(before.worker.endpoint, None)
    _hold(case, domain, Hold(before.op, case.worker(domain, p.to_endpoint), before.requirement, before.made_at_us, p.free_at_us))


def _hold(case: Case, domain: Domain, hold: Hold) -> None:
    domain.hold = hold
    domain.promised_us = hold.free_at_us
    domain.no_candidate_for = None
    touched(domain, hold.worker)
    arm_hold(case.shard, domain)


def _hold_released(case: Case, p: Any) -> None:
    domain = case.domain(p.instance)
    if p.reason == r.HOLD_END_EXPIRED:
        case.op(p.operation_id).expired_at_us = case.now_us
    if domain.hold is not None:
        worker = domain.hold.worker
        domain.hold = None
        if domain.workers.get(worker.endpoint) is worker:
            touched(domain, worker)


def _hold_no_candidate(case: Case, p: Any) -> None:
    case.domain(p.instance).no_candidate_for = p.operation_id


def _worker_idle_capped(case: Case, p: Any) -> None:
    worker = case.worker(case.domain(p.instance), p.endpoint)
    worker.idle_free = p.idle_free_kib
    worker.stamp += 1


def _endpoint_of(case: Case, p: Any) -> Endpoint:
    endpoint = case.domain(p.instance).endpoints.get(p.endpoint)
    if endpoint is None:
        raise Off(READABLE, f"an endpoint that is known, not {p.endpoint!r}")
    return endpoint


def _recovery_completed(case: Case, p: Any) -> None:
    shard = case.shard
    shard.recovers_at = None
    shard.recovered_at_us = case.now_us
    for domain in shard.domains.values():
        for endpoint in domain.endpoints.values():
            arm_endpoint(shard, domain, endpoint)


def _blobs_available(case: Case, p: Any) -> None:
    endpoint = _endpoint_of(case, p)
    endpoint.advertised = True
    endpoint.report, endpoint.chunk, endpoint.full, endpoint.open = p.report, p.chunk + 1, p.full, not p.last


def _blobs_stable(case: Case, p: Any) -> None:
    domain = case.domain(p.instance)
    broadcasts = domain.broadcasts
    broadcasts.pop(p.broadcast, None)
    broadcasts[p.broadcast] = (p.sequence + 1, p.store, p.last)
    if len(broadcasts) > BROADCASTS_KEPT:
        del broadcasts[next(iter(broadcasts))]
    for name in domain.workers:
        domain.endpoints[name].owed.append(case.seq)


def _acknowledged(case: Case, p: Any) -> None:
    _give_up(_endpoint_of(case, p), (p.chunk_seq,))


def _give_up(endpoint: Endpoint, seqs: Iterable[int]) -> None:
    gone = dict.fromkeys(seqs)
    endpoint.owed = [seq for seq in endpoint.owed if seq not in gone]


def _chunks_dropped(case: Case, p: Any) -> None:
    endpoint = _endpoint_of(case, p)
    endpoint.owed = [seq for seq in endpoint.owed if seq > p.through_seq]


def _locality_wiped(case: Case, p: Any) -> None:
    endpoint = _endpoint_of(case, p)
    endpoint.advertised = False
    if p.cause != r.WIPE_CAUSE_DISCONNECTED:
        endpoint.owed = []


def _endpoint_confirmed(case: Case, p: Any) -> None:
    _endpoint_of(case, p).confirmed_in = case.shard.epoch


def _endpoint_swept(case: Case, p: Any) -> None:
    _endpoint_of(case, p)
    del case.domain(p.instance).endpoints[p.endpoint]


def _worker_flapping(case: Case, p: Any) -> None:
    _endpoint_of(case, p).flapped_at_us = case.now_us


FOLDS: dict[str, Callable[[Case, Any], None]] = {
    "leader_elected": _leader_elected,
    "ticked": _nothing,
    "log_silent": _log_silent,
    "fact_ignored": _nothing,
    "fact_rejected": _nothing,
    "key_parked": _key_parked,
    "key_released": _key_released,
    "configured": _configured,
    "instance_paused": _instance_paused,
    "instance_resumed": _instance_resumed,
    "requirement_defined": _requirement_defined,
    "operation_queued": _operation_queued,
    "operation_dispatched": _operation_dispatched,
    "operation_accepted": _operation_accepted,
    "operation_requeued": _operation_requeued,
    "operation_finished": _operation_finished,
    "operation_reprioritised": _operation_reprioritised,
    "operations_forgotten": _operations_forgotten,
    "kill_requested": _kill_requested,
    "dispatch_settled": _dispatch_settled,
    "worker_admitted": _worker_admitted,
    "worker_reported": _worker_reported,
    "worker_drained": _worker_drained,
    "worker_undrained": _worker_undrained,
    "worker_disconnected": _worker_disconnected,
    "operation_joined": _operation_joined,
    "client_heard": _client_heard,
    "client_left": _client_left,
    "cache_lookup_requested": _cache_lookup_requested,
    "cache_answered": _cache_answered,
    "hints_loaded": _hints_loaded,
    "operation_forwarded": _operation_forwarded,
    "upstream_reported": _nothing,
    "demand_unsatisfiable": _demand_unsatisfiable,
    "demand_satisfiable": _demand_satisfiable,
    "hold_made": _hold_made,
    "hold_moved": _hold_moved,
    "hold_released": _hold_released,
    "hold_no_candidate": _hold_no_candidate,
    "worker_idle_capped": _worker_idle_capped,
    "recovery_completed": _recovery_completed,
    "blobs_available": _blobs_available,
    "blobs_evicted": _nothing,
    "peer_fetch_failed": _nothing,
    "blobs_stable": _blobs_stable,
    "blobs_stable_acknowledged": _acknowledged,
    "stable_chunks_dropped": _chunks_dropped,
    "locality_wiped": _locality_wiped,
    "endpoint_confirmed": _endpoint_confirmed,
    "endpoint_swept": _endpoint_swept,
    "worker_flapping": _worker_flapping,
}
"""By the name of the payload in the wire contract; a test holds it total."""
