"""The pass, looked at from outside: after each fact, what is dispatched, to whom, and that nothing is left that would fit (section 4).

After a fact nothing waits that fits. So what fits after the next fact fits a worker that the fact touched, or is of a requirement that
nothing waited with before; only these are asked. That is a property of the history, and `FIXPOINT` is the rule that holds it.
"""

from typing import Any

from projections.verify import holding
from projections.verify.case import Case, Off
from projections.verify.catalogue import (
    ACCEPTING,
    CAPACITY,
    FIXPOINT,
    HELD_ROOM,
    ORDER,
    OVERTOOK,
    PREFERRED,
    PROPERTIES,
    READABLE,
    STRATEGY,
    VETO,
)
from projections.verify.catalogue import QUEUED as QUEUED_RULE
from projections.verify.fitting import accepts, below_caps, chosen, has_room
from projections.verify.rows import QUEUED, Domain, Entry, Op, Worker
from proto.gen.headway.v1 import reasons_pb2 as r

OF_EACH_DISPATCH = (QUEUED_RULE, CAPACITY, ACCEPTING, PROPERTIES, STRATEGY, OVERTOOK)
"""Rules that each dispatch is held against, as often as ORDER; they are not counted on their own."""


class Due:
    """A placement that the rows ask for."""

    __slots__ = ("backfilled", "op", "overtook", "worker")

    def __init__(self, op: Op, worker: Worker, overtook: int | None, backfilled: bool) -> None:
        self.op = op
        self.worker = worker
        self.overtook = overtook
        self.backfilled = backfilled


def judge_pass(case: Case) -> None:
    """The passes of every instance, in the order in which they were configured."""
    for domain in case.shard.domains.values():
        if domain.options.hold:
            _around_hold(case, domain)
        elif not domain.paused and (domain.dirty or domain.newest):
            while (due := first_due(case, domain)) is not None:
                _dispatched(case, domain, due)
            settle_pass(case, domain)
    if case.peek() == "operation_dispatched":
        p = case.events[case.at].payload
        _why_not(case, p)
        raise Off(FIXPOINT, f"no dispatch: nothing that waits fits, operation {p.operation_id} neither")


def settle_pass(case: Case, domain: Domain) -> None:
    """Nothing more fits."""
    case.judged[FIXPOINT] += 1
    domain.dirty.clear()
    if domain.newest:
        domain.newest = False
        for line in domain.lines.values():
            line.fresh = False


def _around_hold(case: Case, domain: Domain) -> None:
    """The pass where a hold may stand or be made: it is looked at before, between and after placements (5.1, 5.4)."""
    quiet = not domain.dirty and not domain.newest and domain.options.hold != "backfill"
    if quiet and domain.hold is None:
        return
    holding.keep_valid(case, domain)
    if domain.paused or (quiet and not domain.dirty):
        return  # nothing changed that could be placed, or could make the held worker unfit
    placed: list[Op] = []
    while True:
        due = first_due(case, domain)
        if holding.meet(case, domain, due):
            continue
        if due is not None:
            hold = domain.hold
            _dispatched(case, domain, due)
            if hold is not None and hold.op is due.op:
                holding.expect_released(case, domain, hold, r.HOLD_END_PLACED)
            placed.append(due.op)
            holding.keep_valid(case, domain)
        elif not holding.close_pass(case, domain, placed):
            break
    settle_pass(case, domain)


def first_due(case: Case, domain: Domain) -> Due | None:
    """The first operation in queue order that fits somewhere, and the worker that the strategy gives it."""
    hold = domain.hold
    held = None if hold is None else hold.worker
    if not domain.dirty and not domain.newest and (held is None or domain.options.hold != "backfill"):
        return None
    options, lines = domain.options, domain.lines
    if not lines:
        return None
    roomy = [
        worker
        for worker in domain.dirty.values()
        if worker is not held and domain.workers.get(worker.endpoint) is worker and accepts(worker, options)
    ]
    best: Entry | None = None
    able: list[Worker] = []
    for line in lines.values():
        head = line.ops[0]
        if best is not None and best < head:
            continue
        demand = line.demand
        if line.fresh:
            takers = [
                worker
                for worker in domain.workers.values()
                if worker is not held and accepts(worker, options) and has_room(worker, demand, options)
            ]
        else:
            takers = [worker for worker in roomy if has_room(worker, demand, options)]
        if takers:
            best, able = head, takers
    taken: Op | None = None
    if hold is not None and held is not None and accepts(held, options):
        taken = holding.taken_by_held(case, domain, hold, best)
    if taken is None and best is None:
        return None
    if best is not None and (taken is None or taken is best[3]):
        op = best[3]
        if taken is not None and held is not None:
            able.append(held)
        worker = able[0] if len(able) == 1 else chosen(able, op.demand, options.strategy)
    else:
        assert taken is not None, "somebody takes it"
        assert held is not None, "who else"
        op, worker = taken, held
    head_op = domain.head()
    overtook = None if head_op is None or head_op is op else head_op.id
    backfilled = worker is held and hold is not None and hold.op is not op and hold.op.before(op)
    return Due(op, worker, overtook, backfilled)


def _dispatched(case: Case, domain: Domain, due: Due) -> None:
    """The next event is this placement."""
    if case.peek() != "operation_dispatched":
        waiting = (
            f"operation_dispatched operation_id={due.op.id} endpoint={due.worker.endpoint!r}: it waits and fits there"
        )
        raise Off(FIXPOINT, waiting)
    p = case.events[case.at].payload
    op, worker = due.op, due.worker
    judged = case.judged
    judged[ORDER] += 1
    if domain.hold is not None:
        judged[HELD_ROOM] += 1
    if op.demand.memory >= 0:
        judged[VETO] += 1
    if p.operation_id != op.id:
        _why_not(case, p)
        raise Off(ORDER, f"operation_id={op.id} (to {worker.endpoint!r}), which sorts first of what fits")
    if domain.options.prefer_from is not None and op.commanded:
        worker = _preferred(case, domain, due, p)
    elif p.saved_bytes or p.holders:
        case.find(PREFERRED, "no holders, since nobody was asked", case.shown())
    if p.endpoint != worker.endpoint:
        other = domain.workers.get(p.endpoint)
        if other is None:
            raise Off(READABLE, f"endpoint={worker.endpoint!r}")
        if not _is_refused(case, domain, op, other):
            rule = PREFERRED if domain.options.prefer_from is not None else STRATEGY
            case.find(rule, f"endpoint={worker.endpoint!r} by {domain.options.strategy}", case.shown())
        domain.dirty.setdefault(worker.endpoint, worker)
        worker = other
    if p.connection_id != worker.connection_id:
        case.find(READABLE, f"connection_id={worker.connection_id}, on which {worker.endpoint!r} is", case.shown())
    overtook = p.overtook if p.HasField("overtook") else None
    if overtook != due.overtook:
        case.find(OVERTOOK, f"overtook={due.overtook}", case.shown())
    if p.backfilled != due.backfilled:
        case.find(HELD_ROOM, f"backfilled={due.backfilled}", case.shown())
    case.fold_next()


def _preferred(case: Case, domain: Domain, due: Due, p: Any) -> Worker:
    """Of the holders that the event names, the one that the rule prefers; who holds what is taken from the event."""
    case.judged[PREFERRED] += 1
    limit = domain.options.prefer_from
    own, held = due.worker, None if domain.hold is None else domain.hold.worker
    named = {holding_.endpoint: holding_.bytes for holding_ in p.holders}
    own_bytes = named.get(own.endpoint, p.saved_bytes if p.endpoint == own.endpoint else 0)
    worker = own
    if own is not held and limit is not None:
        for endpoint, count in sorted(named.items(), key=lambda item: -item[1]):
            if count < limit or count <= own_bytes:
                break
            other = domain.workers.get(endpoint)
            if other is None or other is held:
                continue
            if accepts(other, domain.options) and has_room(other, due.op.demand, domain.options):
                worker = other
                break
    saved = own_bytes if worker is own else named[worker.endpoint]
    if p.endpoint == worker.endpoint and p.saved_bytes != saved:
        case.find(PREFERRED, f"saved_bytes={saved}", case.shown())
    return worker


def _is_refused(case: Case, domain: Domain, op: Op, worker: Worker) -> bool:
    """Note why this worker may not have this operation; whether there is such a reason."""
    options, demand = domain.options, op.demand
    hold = domain.hold
    refused = True
    if not worker.suits(demand):
        case.find(PROPERTIES, f"a worker with the properties {demand.asked}", case.shown())
    elif not accepts(worker, options):
        full = worker.inflight and len(worker.runs) >= worker.inflight
        state = (
            f"paused={worker.paused} draining={worker.draining} unaccepted={worker.unaccepted} runs={len(worker.runs)}"
        )
        case.find(
            CAPACITY if full else ACCEPTING, f"a worker that takes work; {worker.endpoint!r} has {state}", case.shown()
        )
    elif not demand.within(worker.left):
        asked = {options.pools[pool]: amount for pool, amount in demand.amounts}
        left = dict(zip(options.pools, worker.left, strict=True))
        case.find(CAPACITY, f"{asked} within what {worker.endpoint!r} has left, {left}", case.shown())
    elif demand.memory >= 0 and not below_caps(worker, demand, options):
        limits = f"reports {worker.reported} KiB free, declined {worker.declined}"
        case.find(VETO, f"no more memory than {worker.endpoint!r} takes: it {limits}", case.shown())
    elif hold is not None and worker is hold.worker and hold.op.before(op):
        case.find(
            HELD_ROOM,
            f"nothing on {worker.endpoint!r} that sorts after operation {hold.op.id} and delays it",
            case.shown(),
        )
    else:
        refused = False
    return refused


def _why_not(case: Case, p: Any) -> None:
    """A dispatch that is not due: raises Off with the rule that forbids it, where one does."""
    op = case.op(p.operation_id)
    domain = op.domain
    if op.stage != QUEUED:
        raise Off(QUEUED_RULE, f"an operation that is queued; {op.id} is {op.stage}")
    worker = domain.workers.get(p.endpoint)
    if worker is None:
        raise Off(READABLE, f"a worker that is connected, not {p.endpoint!r}")
    before = len(case.findings)
    if _is_refused(case, domain, op, worker):
        finding = case.findings.pop(before)
        raise Off(finding.rule, finding.expected)
