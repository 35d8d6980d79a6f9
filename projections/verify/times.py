"""Deadlines: what is due when. A heap of (deadline_us, kind, instance, name, number), whose entries are looked up again when they come up.

Timers of one deadline fire in the order of their kinds, then by instance, name and number.
"""

from heapq import heapify, heappush

from projections.verify.rows import FINISHED, QUEUED, Client, Domain, Endpoint, Op, Run, Shard, Worker

WORKER, KILL, CLIENT, EXECUTING, ACTION, SHORTAGE, HOLD, ENDPOINT = range(1, 9)

Timer = tuple[int, int, str, str, int]

ACTION_GRACE_US = 5_000_000
"""How long after an action's own timeout the scheduler waits for its worker's report."""


def deadline_us(shard: Shard, timer: Timer) -> int | None:
    """When it is due as things stand; None: not at all."""
    _, kind, instance, name, number = timer
    domain = shard.domains[instance]
    if kind == CLIENT:
        op = shard.ops.get(number)
        client = None if op is None or op.stage == FINISHED else (op.clients or {}).get(name)
        return None if client is None or client.left else client_us(domain, client)
    if kind == SHORTAGE:
        op = shard.ops.get(number)
        return None if op is None else shortage_us(op)
    if kind == HOLD:
        hold = domain.hold
        return hold_us(domain) if hold is not None and hold.op.id == number else None
    if kind == ENDPOINT:
        endpoint = domain.endpoints.get(name)
        return None if endpoint is None else endpoint_us(shard, domain, endpoint)
    worker = domain.workers.get(name)
    if worker is None:
        return None
    if kind == WORKER:
        return worker_us(domain, worker) if worker.connection_id == number else None
    run = worker.runs.get(number)
    if run is None or run.revoked != (kind == KILL):
        return None
    if kind == KILL:
        return kill_us(domain, run)
    return executing_us(domain, run) if kind == EXECUTING else action_us(run)


def client_us(domain: Domain, client: Client) -> int:
    """C2: nothing was heard of the client for too long."""
    return client.heard_us + domain.options.client_us + 1


def worker_us(domain: Domain, worker: Worker) -> int:
    """W10: nothing was heard of the worker for so long."""
    return worker.seen_us + domain.options.worker_us


def kill_us(domain: Domain, run: Run) -> int:
    """K5: the worker did not say that the run has ended."""
    return run.killed_at_us + domain.options.kill_us + 1


def executing_us(domain: Domain, run: Run) -> int | None:
    """T3: nothing was heard of the run for too long."""
    limit_us = domain.options.executing_us
    return run.heard_us + limit_us + 1 if limit_us else None


def action_us(run: Run) -> int | None:
    """T2: longer than the action allows; what the log was silent does not count."""
    limit_us = run.op.timeout_us
    return run.at_us + run.silent_us + limit_us + ACTION_GRACE_US + 1 if limit_us else None


def shortage_us(op: Op) -> int | None:
    """X4: both the fleet and the operation have been so for the timeout."""
    domain = op.domain
    known = domain.shortages.get(op.number)
    if known is None or op.stage != QUEUED or known[1] == bool(domain.workers):
        return None
    limit_us = domain.options.no_worker_us if known[1] else domain.options.unsatisfiable_us
    return max(known[0], op.since_us) + limit_us if limit_us else None


def hold_us(domain: Domain) -> int | None:
    """When the hold is given up."""
    hold, limit_us = domain.hold, domain.options.hold_max_us
    return hold.made_at_us + limit_us if hold is not None and limit_us else None


def awaited(shard: Shard, endpoint: Endpoint) -> bool:
    """Whether somebody has to come back for what it advertised under an earlier leader (PM9)."""
    return endpoint.advertised and endpoint.confirmed_in < shard.epoch


def endpoint_us(shard: Shard, domain: Domain, endpoint: Endpoint) -> int | None:
    """When the endpoint is swept."""
    options = domain.options
    if endpoint.owner:
        return None
    if awaited(shard, endpoint):
        return shard.recovered_at_us + options.never_reconnect_us if shard.recovers_at is None else None
    due_us = endpoint.gone_at_us + options.never_reconnect_us
    if endpoint.changes:
        due_us = max(due_us, endpoint.changes[-1] + options.flap_window_us + 1)
    if endpoint.flapped_at_us is not None:
        due_us = max(due_us, endpoint.flapped_at_us + options.flap_cooldown_us)
    return due_us


def arm_worker(shard: Shard, domain: Domain, worker: Worker) -> None:
    """The silence of a worker."""
    heappush(shard.timers, (worker_us(domain, worker), WORKER, domain.name, worker.endpoint, worker.connection_id))


def arm_kill(shard: Shard, domain: Domain, run: Run) -> None:
    """A kill that is not answered."""
    heappush(shard.timers, (kill_us(domain, run), KILL, domain.name, run.worker.endpoint, run.id))


def arm_client(shard: Shard, op: Op, client: Client) -> None:
    """The silence of a client."""
    heappush(shard.timers, (client_us(op.domain, client), CLIENT, op.domain.name, client.name, op.id))


def arm_run(shard: Shard, run: Run) -> None:
    """The limits of a run."""
    domain = run.op.domain
    for kind, due_us in ((EXECUTING, executing_us(domain, run)), (ACTION, action_us(run))):
        if due_us is not None:
            heappush(shard.timers, (due_us, kind, domain.name, run.worker.endpoint, run.id))


def arm_shortage(shard: Shard, op: Op) -> None:
    """An operation that nobody could run."""
    due_us = shortage_us(op)
    if due_us is not None:
        heappush(shard.timers, (due_us, SHORTAGE, op.domain.name, "", op.id))


def arm_hold(shard: Shard, domain: Domain) -> None:
    """The longest that a hold stands."""
    due_us, hold = hold_us(domain), domain.hold
    if due_us is not None and hold is not None:
        heappush(shard.timers, (due_us, HOLD, domain.name, hold.worker.endpoint, hold.op.id))


def arm_endpoint(shard: Shard, domain: Domain, endpoint: Endpoint) -> None:
    """An endpoint that nobody comes back for."""
    due_us = endpoint_us(shard, domain, endpoint)
    if due_us is not None:
        heappush(shard.timers, (due_us, ENDPOINT, domain.name, endpoint.name, 0))


def arm_domain(shard: Shard, domain: Domain) -> None:
    """Everything of an instance anew: another configuration may bring deadlines forward."""
    shard.timers = [timer for timer in shard.timers if timer[2] != domain.name]
    heapify(shard.timers)
    for worker in domain.workers.values():
        arm_worker(shard, domain, worker)
        for run in worker.runs.values():
            if run.revoked:
                arm_kill(shard, domain, run)
            else:
                arm_run(shard, run)
    for op in dict.fromkeys(domain.by_client.values()):
        if op.stage != FINISHED:
            for client in (op.clients or {}).values():
                if client.attached and not client.left:
                    arm_client(shard, op, client)
        arm_shortage(shard, op)
    for endpoint in domain.endpoints.values():
        arm_endpoint(shard, domain, endpoint)
    arm_hold(shard, domain)
