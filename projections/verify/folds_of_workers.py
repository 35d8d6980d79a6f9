"""What events change in workers and their ledger."""

from collections.abc import Callable
from typing import Any

from projections.verify.case import Case, Off
from projections.verify.catalogue import CURRENT, READABLE, SETTLED
from projections.verify.ledger import charge, promote, settle, touched
from projections.verify.rows import Domain, Endpoint, Worker
from projections.verify.times import arm_endpoint, arm_kill, arm_worker


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
    case.judged[SETTLED] += case.fact is None
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


FOLDS_OF_WORKERS: dict[str, Callable[[Case, Any], None]] = {
    "kill_requested": _kill_requested,
    "dispatch_settled": _dispatch_settled,
    "worker_admitted": _worker_admitted,
    "worker_reported": _worker_reported,
    "worker_drained": _worker_drained,
    "worker_undrained": _worker_undrained,
    "worker_disconnected": _worker_disconnected,
}
