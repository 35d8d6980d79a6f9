"""Holds, looked at from outside: who must be held for whom, when a hold moves or ends, and what the held worker may take (section 5)."""

from typing import TYPE_CHECKING, Any

from projections.verify.candidates import Choice, choose, standing
from projections.verify.case import Case
from projections.verify.catalogue import HOLD_CHOICE, HOLD_MADE, HOLD_MOVED, HOLD_NONE, HOLD_RELEASED, IDLE_CAP
from projections.verify.fitting import could_be_held, has_room, waits_for_acceptance
from projections.verify.ledger import demand_of
from projections.verify.rows import QUEUED, Domain, Entry, Hold, Op
from proto.gen.headway.v1 import reasons_pb2 as r

if TYPE_CHECKING:
    from projections.verify.passing import Due


def keep_valid(case: Case, domain: Domain) -> None:
    """Before a pass and after each placement: the hold's operation waits, its worker is connected, takes work and does not drain (V-5)."""
    hold = domain.hold
    if hold is None:
        return
    worker = hold.worker
    if hold.op.stage != QUEUED:
        expect_released(case, domain, hold, r.HOLD_END_GONE)
    elif domain.workers.get(worker.endpoint) is not worker:
        _moves(case, domain, hold, r.HOLD_MOVE_WORKER_LEFT)
    elif worker.draining:
        _moves(case, domain, hold, r.HOLD_MOVE_DRAINED)
    elif worker.paused or waits_for_acceptance(worker, domain.options):
        _moves(case, domain, hold, r.HOLD_MOVE_PAUSED)


def meet(case: Case, domain: Domain, due: "Due | None") -> bool:
    """The pass has come past the held operation, or past a head without room: whether the hold changes (H18-H20, EASY)."""
    hold = domain.hold
    if hold is not None and (due is None or hold.op.before(due.op)) and not _still_fit(case, domain, hold):
        return True
    if domain.options.hold == "backfill" and (due is None or due.overtook is not None):
        return _reserve(case, domain)
    return False


def close_pass(case: Case, domain: Domain, placed: list[Op]) -> bool:
    """Nothing more fits: a hold for the head that has waited and was overtaken (H3-H7). Whether room was given back."""
    if domain.options.hold == "backfill" or not placed:
        return False
    head = domain.head()
    if head is None:
        return False
    hold = domain.hold
    if (hold is not None and hold.op is head) or not _has_waited(case, domain, head):
        return False
    overtaking = next((op for op in placed if head.before(op)), None)
    if overtaking is None:
        return False
    if hold is not None:
        if could_be_held(hold.worker, head.demand, domain.options):
            return False
        expect_released(case, domain, hold, r.HOLD_END_SUPERSEDED)
    _makes(case, domain, head, overtaking.id)
    return hold is not None


def expect_released(case: Case, domain: Domain, hold: Hold, reason: int) -> None:
    """The next event ends this hold, for this reason."""
    case.expect(
        HOLD_RELEASED,
        "hold_released",
        reason=reason,
        instance=domain.name,
        operation_id=hold.op.id,
        endpoint=hold.worker.endpoint,
        held_us=case.now_us - hold.made_at_us,
    )


def taken_by_held(case: Case, domain: Domain, hold: Hold, best: Entry | None) -> Op | None:
    """The first operation that the held worker takes, not behind `best`: the held one, what sorts before, or what does not delay it."""
    worker, options = hold.worker, domain.options
    limit = hold.op.entry
    found: Entry | None = None
    backfill = options.hold == "backfill"
    beside = _beside(hold, domain.promised_us) if backfill else None
    spare_us = domain.promised_us - case.now_us
    for line in domain.lines.values():
        head = line.ops[0]
        if (
            (best is not None and best < head)
            or (found is not None and found < head)
            or not has_room(worker, line.demand, options)
        ):
            continue
        if head <= limit:
            found = head
            continue
        if not backfill:
            continue
        if beside is not None and all(beside[pool] >= asked for pool, asked in line.demand.amounts):
            found = head
            continue
        for entry in line.ops:
            if (best is not None and best < entry) or (found is not None and found < entry):
                break
            if 0 < entry[3].expected_us <= spare_us:
                found = entry
                break
    return None if found is None else found[3]


def _beside(hold: Hold, at_us: int) -> list[int] | None:
    """What the held worker has at that time beside the held operation; None: no slot."""
    worker = hold.worker
    lasting = [run for run in worker.runs.values() if not run.op.expected_us or run.at_us + run.op.expected_us > at_us]
    if worker.inflight and len(lasting) + 1 >= worker.inflight:
        return None
    room = worker.total.copy()
    for demand in (hold.op.demand, *(run.demand for run in lasting)):
        for pool, amount in demand.amounts:
            room[pool] -= amount
    return room


def _still_fit(case: Case, domain: Domain, hold: Hold) -> bool:
    """H18-H20a, when the held operation found no room."""
    worker = hold.worker
    if worker.runs:
        if could_be_held(worker, hold.op.demand, domain.options):
            return True
    elif worker.reported is not None and worker.reported != worker.idle_free:
        case.expect(
            IDLE_CAP,
            "worker_idle_capped",
            instance=domain.name,
            endpoint=worker.endpoint,
            idle_free_kib=worker.reported,
        )
    expect_released(case, domain, hold, r.HOLD_END_UNFIT)
    return False


def _has_waited(case: Case, domain: Domain, op: Op) -> bool:
    options = domain.options
    if case.now_us - op.since_us < options.hold_after_us:
        return False
    pause_us = max(options.hold_after_us, options.hold_max_us)
    return not op.expired_at_us or case.now_us - op.expired_at_us >= pause_us


def _reserve(case: Case, domain: Domain) -> bool:
    """EASY: the head without room gets the worker that is free soonest; the hold moves where another one is sooner."""
    head = domain.head()
    if head is None or not _has_waited(case, domain, head):
        return False
    hold = domain.hold
    if hold is None:
        return _makes(case, domain, head, None)
    if hold.op is not head:
        expect_released(case, domain, hold, r.HOLD_END_SUPERSEDED)
        _makes(case, domain, head, None)
        return True
    own = standing(domain, hold.worker, head.demand)
    held_us = own[0] if isinstance(own, tuple) else None
    soonest = choose(domain, head, head.demand, case.now_us, spare=False)
    if soonest.worker is not None and (held_us is None or soonest.free_at_us < held_us):
        choice = choose(domain, head, head.demand, case.now_us, spare=domain.options.spare_last)
        if choice.worker is not None and (held_us is None or choice.free_at_us < held_us):
            _says_moved(case, domain, hold, r.HOLD_MOVE_SOONER, choice)
            return True
    expected_us = 0 if held_us is None else max(held_us, case.now_us)
    if domain.promised_us == expected_us:
        return False
    domain.promised_us = expected_us
    return True


def _makes(case: Case, domain: Domain, head: Op, overtaken_by: int | None) -> bool:
    """The closest candidate is held for the head, or it is said once that there is none. Whether somebody is held."""
    choice = choose(domain, head, head.demand, case.now_us, spare=domain.options.spare_last)
    if choice.worker is None:
        _says_none(case, domain, head, choice)
        return False
    p = case.due(HOLD_MADE, "hold_made", f"operation_id={head.id} endpoint={choice.worker.endpoint!r}")
    case.check(HOLD_MADE, p.operation_id == head.id, f"a hold for the head, operation {head.id}")
    case.check(HOLD_MADE, p.instance == domain.name, f"instance={domain.name!r}")
    case.check(HOLD_MADE, p.waited_us == case.now_us - head.since_us, f"waited_us={case.now_us - head.since_us}")
    case.check(HOLD_MADE, p.requirement_id == head.number, f"requirement_id={head.number}")
    said = p.overtaken_by if p.HasField("overtaken_by") else None
    case.check(HOLD_MADE, said == overtaken_by, f"overtaken_by={overtaken_by}")
    case.check(HOLD_CHOICE, p.endpoint == choice.worker.endpoint, f"endpoint={choice.worker.endpoint!r}, the closest")
    _counts(case, p, choice)
    case.fold_next()
    return True


def _moves(case: Case, domain: Domain, hold: Hold, cause: int) -> None:
    """To another worker, by what the operation asked for when the hold was made; where nobody qualifies the hold ends."""
    choice = choose(
        domain, hold.op, demand_of(case, domain, hold.requirement), case.now_us, spare=domain.options.spare_last
    )
    if choice.worker is not None:
        _says_moved(case, domain, hold, cause, choice)
        return
    lost = cause == r.HOLD_MOVE_WORKER_LEFT
    expect_released(case, domain, hold, r.HOLD_END_WORKER_LOST if lost else r.HOLD_END_UNFIT)
    _says_none(case, domain, hold.op, choice)


def _says_moved(case: Case, domain: Domain, hold: Hold, cause: int, choice: Choice) -> None:
    assert choice.worker is not None, "a hold moves to somebody"
    p = case.due(HOLD_MOVED, "hold_moved", f"operation_id={hold.op.id} to_endpoint={choice.worker.endpoint!r}")
    wanted = (domain.name, hold.op.id, hold.worker.endpoint, cause)
    case.check(
        HOLD_MOVED,
        (p.instance, p.operation_id, p.from_endpoint, p.cause) == wanted,
        f"(instance, operation_id, from_endpoint, cause) = {wanted}",
    )
    case.check(
        HOLD_CHOICE, p.to_endpoint == choice.worker.endpoint, f"to_endpoint={choice.worker.endpoint!r}, the closest"
    )
    _counts(case, p, choice)
    case.fold_next()


def _says_none(case: Case, domain: Domain, op: Op, choice: Choice) -> None:
    if domain.no_candidate_for == op.id:
        return
    p = case.due(HOLD_NONE, "hold_no_candidate", f"operation_id={op.id}")
    wanted = (domain.name, op.id, case.now_us - op.since_us)
    case.check(
        HOLD_NONE,
        (p.instance, p.operation_id, p.waited_us) == wanted,
        f"(instance, operation_id, waited_us) = {wanted}",
    )
    _exclusions(case, p, choice)
    case.fold_next()


def _counts(case: Case, p: Any, choice: Choice) -> None:
    said = [(c.endpoint, c.shortfall_milli, c.running, c.free_at_us) for c in p.candidates]
    case.check(HOLD_CHOICE, said == choice.candidates, f"candidates={choice.candidates}")
    case.check(HOLD_CHOICE, p.more_candidates == choice.more, f"more_candidates={choice.more}")
    _exclusions(case, p, choice)
    case.check(HOLD_CHOICE, p.free_at_us == choice.free_at_us, f"free_at_us={choice.free_at_us}")
    basis = [(b.source, b.kind, b.samples, b.runs, b.last_end_us) for b in p.basis]
    case.check(HOLD_CHOICE, basis == choice.basis, f"basis={choice.basis}")


def _exclusions(case: Case, p: Any, choice: Choice) -> None:
    said = [(count.exclusion, count.workers) for count in p.excluded]
    case.check(HOLD_CHOICE, said == choice.excluded, f"excluded={choice.excluded}")
