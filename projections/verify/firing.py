"""What time brings before a fact is looked at: an outage is noted, a recovery ends, and what is due fires (V-9, PM9, 3.3)."""

from heapq import heappop, heappush

from projections.verify.case import Case
from projections.verify.catalogue import CLIENTS, HOLD_RELEASED, RECOVERED, SILENCE, TIMERS
from projections.verify.ending import FAILED_EXIT_CODE, fails_job, is_revoked, stops
from projections.verify.holding import expect_released
from projections.verify.leaving import client_leaves, worker_leaves
from projections.verify.rows import Domain
from projections.verify.times import (
    ACTION,
    CLIENT,
    ENDPOINT,
    EXECUTING,
    HOLD,
    KILL,
    SHORTAGE,
    WORKER,
    Timer,
    awaited,
    deadline_us,
)
from proto.gen.headway.v1 import reasons_pb2 as r

SILENCE_US = 3_000_000
FEWEST_AT_ONCE = 16


def judge_silence(case: Case) -> None:
    """A gap between two facts means that nobody could write."""
    gap_us = case.now_us - case.was_us
    if gap_us > SILENCE_US and case.was_us:
        case.expect(SILENCE, "log_silent", gap_us=gap_us)
    elif case.peek() == "log_silent":
        case.check(SILENCE, False, f"no outage: the fact came {gap_us} us after the one before")
        case.fold_next()


def judge_recovery(case: Case) -> None:
    """At the first fact that came after the election the leader has recovered."""
    shard = case.shard
    if shard.recovers_at is None or case.offset < shard.recovers_at:
        return
    unconfirmed = sum(
        endpoint.precious and endpoint.confirmed_in < shard.epoch
        for domain in shard.domains.values()
        for endpoint in domain.endpoints.values()
    )
    case.expect(RECOVERED, "recovery_completed", elected_seq=shard.elected_seq, unconfirmed=unconfirmed)


def judge_timers(case: Case) -> None:
    """Everything that is due, in order. Failures of what nobody could run are cut up: a whole queue may be due at once (X4)."""
    shard = case.shard
    left: dict[str, int] = {}
    later: list[Timer] = []
    timers = shard.timers
    while timers and timers[0][0] <= case.now_us:
        timer = heappop(timers)
        due_us = deadline_us(shard, timer)
        if due_us is None:
            continue
        domain = shard.domains[timer[2]]
        if due_us > timer[0]:
            heappush(timers, (due_us, *timer[1:]))
        elif timer[1] == SHORTAGE and left.setdefault(domain.name, max(FEWEST_AT_ONCE, domain.queued // 4)) == 0:
            later.append(timer)
        else:
            if timer[1] == SHORTAGE:
                left[domain.name] -= 1
            _fire(case, domain, timer)
            timers = shard.timers
    for timer in later:
        heappush(timers, timer)


def _fire(case: Case, domain: Domain, timer: Timer) -> None:
    case.judged[TIMERS] += 1
    _, kind, _, name, number = timer
    if kind == SHORTAGE:
        op = case.shard.ops[number]
        nobody = domain.shortages[op.number][1]
        outcome = r.OUTCOME_NO_WORKER if nobody else r.OUTCOME_UNSATISFIABLE
        stops(case, TIMERS, op, outcome, exit_code=FAILED_EXIT_CODE)
    elif kind == CLIENT:
        op = case.shard.ops[number]
        client = (op.clients or {})[name]
        client_leaves(case, CLIENTS, op, client, r.CLIENT_LEAVING_TIMEOUT, case.now_us - client.heard_us)
    elif kind == HOLD:
        assert domain.hold is not None, "a hold that is due stands"
        case.judged[HOLD_RELEASED] += 1
        expect_released(case, domain, domain.hold, r.HOLD_END_EXPIRED)
    elif kind == ENDPOINT:
        endpoint = domain.endpoints[name]
        waited = awaited(case.shard, endpoint)
        since_us = case.shard.recovered_at_us if waited else endpoint.gone_at_us
        case.expect(
            TIMERS,
            "endpoint_swept",
            instance=domain.name,
            endpoint=name,
            boot_epoch=endpoint.boot_epoch,
            cause=r.SWEEP_CAUSE_NEVER_RECONNECTED if waited else r.SWEEP_CAUSE_GONE,
            waited_us=case.now_us - since_us,
        )
    else:
        worker = domain.workers[name]
        if kind == WORKER:
            silent_us = case.now_us - worker.seen_us
            worker_leaves(
                case, TIMERS, domain, worker, r.DISCONNECT_REASON_TIMEOUT, r.REQUEUE_CAUSE_WORKER_TIMEOUT, silent_us
            )
        elif kind == KILL:
            worker_leaves(case, TIMERS, domain, worker, r.DISCONNECT_REASON_KILL_OVERDUE, r.REQUEUE_CAUSE_KILL_OVERDUE)
        else:
            run = worker.runs[number]
            is_revoked(case, run, r.KILL_CAUSE_ACTION_TIMEOUT)
            cause = r.REQUEUE_CAUSE_EXECUTING_TIMEOUT if kind == EXECUTING else r.REQUEUE_CAUSE_ACTION_TIMEOUT
            assert kind in (EXECUTING, ACTION), "the kinds above are all others"
            fails_job(case, run, cause)
