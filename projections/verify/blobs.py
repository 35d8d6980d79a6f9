"""What endpoints hold and what becomes of them, against their events; which blobs are named is compared, not kept (6.1-6.7)."""

from typing import Any

from projections.verify.case import Case
from projections.verify.catalogue import CONFIRMED, FLAPS, REPORTS, STABLE
from projections.verify.rows import Domain
from projections.verify.turning import ignores, instance_of, is_as_it_came, rejects, worker_of
from proto.gen.headway.v1 import reasons_pb2 as r

PROVES_LOSS = (r.FETCH_FAILURE_NOT_FOUND, r.FETCH_FAILURE_DATA_LOSS)


def is_confirmed(case: Case, domain: Domain, name: str, *, always: bool = False) -> None:
    """The endpoint was heard for the first time under this leader; `always`: also where it has nothing to lose yet."""
    endpoint = domain.endpoints[name]
    if endpoint.confirmed_in != case.shard.epoch and (always or endpoint.precious):
        case.expect(
            CONFIRMED, "endpoint_confirmed", instance=domain.name, endpoint=name, boot_epoch=endpoint.boot_epoch
        )


def note_flap(case: Case, domain: Domain, name: str) -> None:
    """Another process was admitted: a warning, where there were enough within the window (F-2, F-3)."""
    endpoint, options = domain.endpoints[name], domain.options
    recent = [at_us for at_us in endpoint.changes if at_us >= case.now_us - options.flap_window_us]
    if len(recent) < options.flap_threshold:
        return
    if endpoint.flapped_at_us is None or case.now_us - endpoint.flapped_at_us >= options.flap_cooldown_us:
        within_us = case.now_us - recent[0]
        case.expect(
            FLAPS, "worker_flapping", instance=domain.name, endpoint=name, changes=len(recent), within_us=within_us
        )


def advertise(case: Case, f: Any) -> None:
    """A chunk of a report."""
    found = worker_of(case, f, f.connection_id)
    if found is None:
        return
    domain, worker = found
    endpoint = domain.endpoints[worker.endpoint]
    begun = f.report == endpoint.report
    due = endpoint.chunk if begun else 0
    if f.report < endpoint.report:
        ignores(case, r.IGNORE_REASON_STALE_REPORT, f.instance, f.endpoint)
    elif f.chunk < due:
        ignores(case, r.IGNORE_REASON_DUPLICATE_CHUNK, f.instance, f.endpoint)
    elif f.chunk > due or (begun and not endpoint.open):
        ignores(case, r.IGNORE_REASON_CHUNK_OUT_OF_ORDER, f.instance, f.endpoint)
    elif begun and f.full != endpoint.full:
        rejects(case, r.REJECT_REASON_INVALID_FIELD, "full", str(f.full).lower(), f.instance, f.endpoint)
    else:
        is_confirmed(case, domain, worker.endpoint, always=True)
        is_as_it_came(case, REPORTS, "blobs_available", f)


def evict(case: Case, f: Any) -> None:
    """The worker no longer holds these."""
    found = worker_of(case, f, f.connection_id)
    if found is not None:
        is_confirmed(case, found[0], f.endpoint)
        is_as_it_came(case, REPORTS, "blobs_evicted", f)


def fetch_failed(case: Case, f: Any) -> None:
    """A peer was asked in vain; it counts where that proves a loss (PM11)."""
    domain = instance_of(case, f.instance, f.endpoint)
    if domain is None:
        return
    endpoint = domain.endpoints.get(f.endpoint)
    if endpoint is None:
        ignores(case, r.IGNORE_REASON_UNKNOWN_ENDPOINT, f.instance, f.endpoint)
    elif f.boot_epoch not in (0, endpoint.boot_epoch):
        ignores(case, r.IGNORE_REASON_STALE_EPOCH, f.instance, f.endpoint)
    elif f.failure not in PROVES_LOSS:
        ignores(case, r.IGNORE_REASON_TRANSIENT_FAILURE, f.instance, f.endpoint)
    else:
        is_as_it_came(case, REPORTS, "peer_fetch_failed", f)


def announce(case: Case, f: Any) -> None:
    """A chunk of a broadcast; endpoints that owe too many lose the oldest."""
    domain = instance_of(case, f.instance, "")
    if domain is None:
        return
    due, store, finished = domain.broadcasts.get(f.broadcast, (0, f.store, False))
    if f.sequence < due:
        ignores(case, r.IGNORE_REASON_DUPLICATE_CHUNK, f.instance)
    elif f.sequence > due or finished:
        ignores(case, r.IGNORE_REASON_CHUNK_OUT_OF_ORDER, f.instance)
    elif store != f.store:
        rejects(case, r.REJECT_REASON_INVALID_FIELD, "store", f.store, f.instance)
    else:
        is_as_it_came(case, STABLE, "blobs_stable", f)
        for name in list(domain.workers):
            owed = domain.endpoints[name].owed
            surplus = len(owed) - domain.options.max_chunks
            if surplus > 0:
                through_seq = owed[surplus - 1]
                case.expect(
                    STABLE,
                    "stable_chunks_dropped",
                    instance=f.instance,
                    endpoint=name,
                    through_seq=through_seq,
                    chunks=surplus,
                )


def acknowledge(case: Case, f: Any) -> None:
    """The worker has taken a chunk."""
    found = worker_of(case, f, f.connection_id)
    if found is None:
        return
    domain, worker = found
    if f.chunk_seq not in domain.endpoints[worker.endpoint].owed:
        ignores(case, r.IGNORE_REASON_NOT_SENT, f.instance, f.endpoint)
    else:
        is_confirmed(case, domain, worker.endpoint)
        is_as_it_came(case, STABLE, "blobs_stable_acknowledged", f)
