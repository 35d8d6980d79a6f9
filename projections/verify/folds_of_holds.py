"""What events change in the hold of an instance."""

from collections.abc import Callable
from typing import Any

from projections.verify.case import Case, Off
from projections.verify.catalogue import READABLE
from projections.verify.ledger import touched
from projections.verify.rows import Domain, Hold
from projections.verify.times import arm_hold
from proto.gen.headway.v1 import reasons_pb2 as r


def _hold_made(case: Case, p: Any) -> None:
    domain = case.domain(p.instance)
    _hold(
        case,
        domain,
        Hold(case.op(p.operation_id), case.worker(domain, p.endpoint), p.requirement_id, case.now_us, p.free_at_us),
    )


def _hold_moved(case: Case, p: Any) -> None:
    domain = case.domain(p.instance)
    before = domain.hold
    if before is None:
        raise Off(READABLE, "a hold that stands")
    touched(domain, before.worker)
    _hold(
        case,
        domain,
        Hold(before.op, case.worker(domain, p.to_endpoint), before.requirement, before.made_at_us, p.free_at_us),
    )


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
        touched(domain, domain.hold.worker)
        domain.hold = None


def _hold_no_candidate(case: Case, p: Any) -> None:
    case.domain(p.instance).no_candidate_for = p.operation_id


def _worker_idle_capped(case: Case, p: Any) -> None:
    worker = case.worker(case.domain(p.instance), p.endpoint)
    worker.idle_free = p.idle_free_kib
    worker.stamp += 1


FOLDS_OF_HOLDS: dict[str, Callable[[Case, Any], None]] = {
    "hold_made": _hold_made,
    "hold_moved": _hold_moved,
    "hold_released": _hold_released,
    "hold_no_candidate": _hold_no_candidate,
    "worker_idle_capped": _worker_idle_capped,
}
