"""Configurations, pauses, parked keys, ticks, and the answers of edges, against their events."""

from typing import Any

from projections.verify.case import Case
from projections.verify.catalogue import ANSWERS, CONFIGURED, HOLD_RELEASED, PARKED, SURPLUS
from projections.verify.ending import FAILED_EXIT_CODE, stops
from projections.verify.entering import forgets
from projections.verify.holding import expect_released
from projections.verify.options import same_configuration
from projections.verify.rows import FINISHED, FORWARDED, LOOKED_UP, Op
from projections.verify.turning import ignores, instance_of, is_as_it_came, operation_of
from proto.gen.headway.v1 import reasons_pb2 as r


def configure(case: Case, f: Any) -> None:
    """A configuration comes into force, or is refused. Whether it breaks a rule of its own is for the decider's models to say."""
    if case.peek() == "fact_rejected":
        p = case.due(CONFIGURED, "fact_rejected")
        case.check(CONFIGURED, p.reason == r.REJECT_REASON_INVALID_CONFIGURATION, "reason=INVALID_CONFIGURATION")
        case.fold_next()
        return
    domain = case.shard.domains.get(f.instance)
    try:
        unchanged = domain is not None and same_configuration(domain.options.text, f.config_json)
        p = case.events[case.at].payload if case.peek() == "configured" else None
        as_asked = p is None or same_configuration(p.config_json, f.config_json)
    except (ValueError, KeyError, TypeError, AttributeError):
        case.due(CONFIGURED, "fact_rejected", "reason=INVALID_CONFIGURATION")
        return
    if unchanged:
        ignores(case, r.IGNORE_REASON_NO_CHANGE, f.instance)
        return
    policy = None if domain is None else domain.options.hold_policy()
    case.check(CONFIGURED, as_asked, f"the configuration that was asked for: {f.config_json[:200]}")
    case.expect(CONFIGURED, "configured", instance=f.instance)
    domain = case.shard.domains[f.instance]
    if domain.hold is not None and domain.options.hold_policy() != policy:
        case.judged[HOLD_RELEASED] += 1
        expect_released(case, domain, domain.hold, r.HOLD_END_CONFIGURED)


def pause(case: Case, f: Any) -> None:
    """Stop placing."""
    _pauses(case, f, "instance_paused", True)


def resume(case: Case, f: Any) -> None:
    """Place again."""
    _pauses(case, f, "instance_resumed", False)


def _pauses(case: Case, f: Any, kind: str, paused: bool) -> None:
    domain = instance_of(case, f.instance, "")
    if domain is None:
        return
    if domain.paused == paused:
        ignores(case, r.IGNORE_REASON_NO_CHANGE, f.instance)
    else:
        case.expect(CONFIGURED, kind, instance=f.instance)


def release_key(case: Case, f: Any) -> None:
    """Facts of this key count again."""
    if f.key in case.shard.parked:
        case.expect(PARKED, "key_released", key=f.key)
    else:
        ignores(case, r.IGNORE_REASON_NO_CHANGE, "", f.key)


def tick(case: Case, f: Any) -> None:
    """Time passed."""
    case.expect(SURPLUS, "ticked")
    forgets(case)


def load_hints(case: Case, f: Any) -> None:
    """The resource hints are replaced."""
    domain = instance_of(case, f.instance, "")
    if domain is None:
        return
    if {(h.target_id, h.mnemonic): (h.cpu_millis, h.memory_kib) for h in f.hints} == domain.hints:
        ignores(case, r.IGNORE_REASON_NO_CHANGE, f.instance)
        return
    is_as_it_came(case, ANSWERS, "hints_loaded", f)


def _awaiting(case: Case, f: Any, stage: str) -> Op | None:
    op = operation_of(case, f)
    if op is None or op.stage == stage:
        return op
    reason = r.IGNORE_REASON_OPERATION_FINISHED if op.stage == FINISHED else r.IGNORE_REASON_NOT_ASKED
    ignores(case, reason, f.instance, op.name)
    return None


def answer_cache(case: Case, f: Any) -> None:
    """A hit or a failure ends the operation, a miss queues it at its old place (D1)."""
    op = _awaiting(case, f, LOOKED_UP)
    if op is None:
        return
    is_as_it_came(case, ANSWERS, "cache_answered", f)
    if f.answer == r.CACHE_ANSWER_HIT:
        stops(case, ANSWERS, op, r.OUTCOME_COMPLETED_FROM_CACHE, exit_code=f.exit_code, message=f.message)
    elif f.answer == r.CACHE_ANSWER_FAILED:
        said = f.message or None
        stops(case, ANSWERS, op, r.OUTCOME_CACHE_LOOKUP_FAILED, exit_code=FAILED_EXIT_CODE, message=said)
    elif f.answer == r.CACHE_ANSWER_MISS and op.domain.options.upstream:
        case.expect(ANSWERS, "operation_forwarded", operation_id=op.id, upstream=op.domain.options.upstream)


def report_upstream(case: Case, f: Any) -> None:
    """What became of a forwarded operation."""
    op = _awaiting(case, f, FORWARDED)
    if op is None:
        return
    is_as_it_came(case, ANSWERS, "upstream_reported", f)
    if f.state == r.UPSTREAM_STATE_FINISHED:
        outcome = f.outcome or r.OUTCOME_COMPLETED
        stops(case, ANSWERS, op, outcome, exit_code=f.exit_code, message=f.message)
    elif f.state == r.UPSTREAM_STATE_REFUSED:
        said = f.message or None
        stops(case, ANSWERS, op, r.OUTCOME_UPSTREAM_FAILED, exit_code=FAILED_EXIT_CODE, message=said)
