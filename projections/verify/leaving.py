"""Workers and clients that leave, whatever made them: a fact or a deadline."""

from projections.verify.case import Case
from projections.verify.catalogue import WIPED
from projections.verify.ending import loses_worker, stops
from projections.verify.rows import Client, Domain, Endpoint, Op, Worker
from proto.gen.headway.v1 import reasons_pb2 as r


def worker_leaves(
    case: Case, rule: int, domain: Domain, worker: Worker, reason: int, cause: int, silent_us: int = 0
) -> None:
    """Each current dispatch is a worker loss; then the worker is gone, and with it what its endpoint said it holds (W11, O1)."""
    for run in list(worker.runs.values()):
        if not run.revoked:
            loses_worker(case, run, cause)
    case.expect(
        rule,
        "worker_disconnected",
        instance=domain.name,
        endpoint=worker.endpoint,
        connection_id=worker.connection_id,
        reason=reason,
        silent_us=silent_us,
    )
    endpoint = domain.endpoints[worker.endpoint]
    if endpoint.advertised and endpoint.confirmed_in == case.shard.epoch:
        is_wiped(case, domain, endpoint, r.WIPE_CAUSE_DISCONNECTED)


def is_wiped(case: Case, domain: Domain, endpoint: Endpoint, cause: int) -> None:
    """What the endpoint has to lose is lost, where it has anything."""
    if endpoint.precious:
        case.expect(
            WIPED,
            "locality_wiped",
            instance=domain.name,
            endpoint=endpoint.name,
            boot_epoch=endpoint.boot_epoch,
            cause=cause,
        )


def client_leaves(case: Case, rule: int, op: Op, client: Client, reason: int, silent_us: int = 0) -> None:
    """A client no longer counts; after the last one the operation is abandoned (C2, C4)."""
    case.expect(
        rule,
        "client_left",
        instance=op.domain.name,
        operation_id=op.id,
        client_operation_id=client.name,
        reason=reason,
        silent_us=silent_us,
    )
    if all(other.left for other in (op.clients or {}).values()):
        stops(case, rule, op, r.OUTCOME_ABANDONED, kill=r.KILL_CAUSE_ABANDONED)
