"""Workers that connect, report, drain and go, against their events (section 3)."""

from typing import Any

from projections.verify.blobs import is_confirmed, note_flap
from projections.verify.case import Case
from projections.verify.catalogue import CONNECTED, DRAINED, HEARD, LEFT
from projections.verify.ending import acknowledges, is_told_to_stop, loses_worker
from projections.verify.leaving import is_wiped, worker_leaves
from projections.verify.reporting import is_settled
from projections.verify.rows import Domain, Worker, amount_of
from projections.verify.turning import ignores, instance_of, rejects, worker_of
from proto.gen.headway.v1 import reasons_pb2 as r


def connect(case: Case, f: Any) -> None:
    """A worker is admitted; what another process at its endpoint ran and held ends first."""
    domain = instance_of(case, f.instance, f.endpoint)
    if domain is None:
        return
    properties = {item.name: item.value for item in f.properties}
    for pool in domain.options.pools:
        try:
            amount_of(properties.get(pool, "0"))
        except ValueError:
            rejects(
                case, r.REJECT_REASON_INVALID_PROPERTY, f"properties.{pool}", properties[pool], f.instance, f.endpoint
            )
            return
    if domain.options.builds and f.build not in domain.options.builds:
        rejects(case, r.REJECT_REASON_INCOMPATIBLE_BUILD, "build", f.build, f.instance, f.endpoint)
        return
    before = domain.workers.get(f.endpoint)
    if before is not None and before.connection_id == f.connection_id:
        ignores(case, r.IGNORE_REASON_DUPLICATE_CONNECTION, f.instance, f.endpoint)
        _is_heard(case, domain, before, None)
        return
    same = before is not None and f.boot_epoch != 0 and before.boot_epoch == f.boot_epoch
    listed = dict.fromkeys(f.running)
    kept: list[int] = []
    if before is not None:
        for number, run in list(before.runs.items()):
            if same and number in listed:
                kept.append(number)
            elif run.revoked:
                is_settled(case, run, r.RUN_RESULT_UNSPECIFIED)
            else:
                loses_worker(case, run, r.REQUEUE_CAUSE_WORKER_REPLACED)
    endpoint = domain.endpoints.get(f.endpoint)
    another = endpoint is not None and (endpoint.boot_epoch != f.boot_epoch or not f.boot_epoch)
    if another and endpoint is not None:
        is_wiped(case, domain, endpoint, r.WIPE_CAUSE_EPOCH_CHANGED if f.boot_epoch else r.WIPE_CAUSE_NO_EPOCH)
    p = case.due(CONNECTED, "worker_admitted", f"endpoint={f.endpoint!r} kept={kept} reconnected={same}")
    said = sorted((item.name, item.value) for item in p.properties)
    case.check(CONNECTED, said == sorted(properties.items()), f"properties={properties}")
    case.expect(
        CONNECTED,
        "worker_admitted",
        instance=f.instance,
        endpoint=f.endpoint,
        boot_epoch=f.boot_epoch,
        connection_id=f.connection_id,
        max_inflight=f.max_inflight,
        build=f.build,
        kept=kept,
        reconnected=same,
        admits_when_idle=f.admits_when_idle,
        blobs_url=f.blobs_url,
    )
    if another:
        note_flap(case, domain, f.endpoint)
    for number in listed:
        if number not in kept:
            is_told_to_stop(case, f, number)


def report(case: Case, f: Any) -> None:
    """A keepalive."""
    found = worker_of(case, f, f.connection_id)
    if found is not None:
        _is_heard(case, *found, f.free_memory_kib if f.HasField("free_memory_kib") else None)


def _is_heard(case: Case, domain: Domain, worker: Worker, free_kib: int | None) -> None:
    is_confirmed(case, domain, worker.endpoint)
    p = case.due(HEARD, "worker_reported", f"endpoint={worker.endpoint!r} free_memory_kib={free_kib}")
    said = p.free_memory_kib if p.HasField("free_memory_kib") else None
    if (
        said != free_kib
        or p.endpoint != worker.endpoint
        or p.connection_id != worker.connection_id
        or p.instance != domain.name
    ):
        case.find(
            HEARD, f"instance={domain.name!r} endpoint={worker.endpoint!r} free_memory_kib={free_kib}", case.shown()
        )
    case.fold_next()
    acknowledges(case, domain, worker)


def drain(case: Case, f: Any) -> None:
    """No new work."""
    _drains(case, f, "worker_drained", True)


def undrain(case: Case, f: Any) -> None:
    """Work again."""
    _drains(case, f, "worker_undrained", False)


def _drains(case: Case, f: Any, kind: str, draining: bool) -> None:
    found = worker_of(case, f)
    if found is None:
        return
    if found[1].draining == draining:
        ignores(case, r.IGNORE_REASON_NO_CHANGE, f.instance, f.endpoint)
    else:
        case.expect(DRAINED, kind, instance=f.instance, endpoint=f.endpoint)


def leave(case: Case, f: Any) -> None:
    """The worker says that it leaves, or an operator removes it."""
    found = worker_of(case, f, f.connection_id or None)
    if found is None:
        return
    domain, worker = found
    if f.connection_id:
        is_confirmed(case, domain, worker.endpoint)
    reason = r.DISCONNECT_REASON_GONE if f.connection_id else r.DISCONNECT_REASON_REMOVED
    worker_leaves(case, LEFT, domain, worker, reason, r.REQUEUE_CAUSE_WORKER_GONE)
