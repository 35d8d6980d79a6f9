"""What events change in what is known of endpoints."""

from collections.abc import Callable, Iterable
from typing import Any

from projections.verify.case import Case, Off
from projections.verify.catalogue import READABLE
from projections.verify.rows import Endpoint
from projections.verify.times import arm_endpoint
from proto.gen.headway.v1 import reasons_pb2 as r

BROADCASTS_KEPT = 64


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


FOLDS_OF_ENDPOINTS: dict[str, Callable[[Case, Any], None]] = {
    "recovery_completed": _recovery_completed,
    "blobs_available": _blobs_available,
    "blobs_stable": _blobs_stable,
    "blobs_stable_acknowledged": _acknowledged,
    "stable_chunks_dropped": _chunks_dropped,
    "locality_wiped": _locality_wiped,
    "endpoint_confirmed": _endpoint_confirmed,
    "endpoint_swept": _endpoint_swept,
    "worker_flapping": _worker_flapping,
}
