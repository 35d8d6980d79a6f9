"""What each event changes in an audit's rows, and what can be said of an event without its fact: counters, budgets, currency.

Written from the wire contract and the specification. It shares nothing with the decider's fold or with that of the read side, so that a
defect in either is not one here as well. An event that speaks of what is not known raises `Off`.
"""

from collections.abc import Callable
from typing import Any

from projections.verify.case import Case, Off
from projections.verify.catalogue import READABLE, REQUIREMENTS
from projections.verify.digests import FOLDS_OF_DIGESTS
from projections.verify.durations import History
from projections.verify.folds_of_endpoints import FOLDS_OF_ENDPOINTS
from projections.verify.folds_of_holds import FOLDS_OF_HOLDS
from projections.verify.folds_of_operations import FOLDS_OF_OPERATIONS
from projections.verify.folds_of_workers import FOLDS_OF_WORKERS
from projections.verify.ledger import charge, demand_of, touched
from projections.verify.options import Options
from projections.verify.rows import FINISHED, QUEUED, Domain
from projections.verify.times import arm_domain, arm_shortage


def _leader_elected(case: Case, p: Any) -> None:
    shard = case.shard
    shard.elected_seq = case.seq
    shard.recovers_at = p.facts_end if case.seq > 1 else None
    for domain in shard.domains.values():
        if domain.hold is not None:  # what the last leader had worked out since is not recorded
            domain.promised_us = domain.hold.free_at_us


def _nothing(case: Case, p: Any) -> None:
    """Says something of a fact; no row changes."""


def _log_silent(case: Case, p: Any) -> None:
    shard, gap_us = case.shard, p.gap_us
    for domain in shard.domains.values():
        for worker in domain.workers.values():
            worker.seen_us += gap_us
            for run in worker.runs.values():
                run.heard_us += gap_us
                run.silent_us += gap_us
                if run.revoked:
                    run.killed_at_us += gap_us
        domain.shortages = {n: (since_us + gap_us, none) for n, (since_us, none) in domain.shortages.items()}
        for endpoint in domain.endpoints.values():
            if endpoint.gone_at_us:
                endpoint.gone_at_us += gap_us
    if shard.recovered_at_us:
        shard.recovered_at_us += gap_us
    for op in shard.ops.values():
        if op.clients is not None:
            for client in op.clients.values():
                client.heard_us += gap_us


def _key_parked(case: Case, p: Any) -> None:
    case.shard.parked[p.key] = None


def _key_released(case: Case, p: Any) -> None:
    case.shard.parked.pop(p.key, None)


def _configured(case: Case, p: Any) -> None:
    shard = case.shard
    try:
        options = Options(p.config_json)
    except (ValueError, KeyError, TypeError) as error:
        raise Off(READABLE, "a configuration that can be read") from error
    domain = shard.domains.get(p.instance)
    if domain is None:
        domain = shard.domains[p.instance] = Domain(p.instance, options, History(options.last_runs))
    domain.options = options
    domain.history.keep(options.last_runs)
    domain.demands = {}
    domain.ranks = {}
    domain.shortages = {}
    domain.unjudged = {}
    domain.lines = {}
    domain.queued = 0
    domain.dirty = {}
    live = [op for op in dict.fromkeys(domain.by_client.values()) if op.stage != FINISHED]
    for op in live:
        op.demand = demand_of(case, domain, op.number)
    for worker in domain.workers.values():
        try:
            worker.measure(options.pools)
        except ValueError as error:
            raise Off(READABLE, f"a worker whose minimums are numbers, not {error}") from error
        for run in worker.runs.values():
            run.demand = demand_of(case, domain, run.demand.number)
            charge(worker, run.demand)
        touched(domain, worker)
    for op in live:
        if op.stage == QUEUED:
            domain.enqueue(op)
    domain.unjudged = {}
    domain.fleet_changed = True
    arm_domain(shard, domain)
    hold = domain.hold
    if hold is not None and domain.workers.get(hold.worker.endpoint) is hold.worker:
        domain.promised_us = hold.free_at_us


def _instance_paused(case: Case, p: Any) -> None:
    case.domain(p.instance).paused = True


def _instance_resumed(case: Case, p: Any) -> None:
    case.domain(p.instance).paused = False


def _requirement_defined(case: Case, p: Any) -> None:
    shard = case.shard
    items = tuple((item.name, item.value) for item in p.requirements.items)
    if p.requirement_id != len(shard.known) or items in shard.numbers:
        raise Off(REQUIREMENTS, f"requirement_id={len(shard.known)} for requirements that have none yet")
    if list(items) != sorted(dict(items).items()):
        raise Off(REQUIREMENTS, "requirements sorted by name, no name twice")
    case.judged[REQUIREMENTS] += case.fact is None
    shard.numbers[items] = p.requirement_id
    shard.known.append(dict(items))


def _hints_loaded(case: Case, p: Any) -> None:
    case.domain(p.instance).hints = {(h.target_id, h.mnemonic): (h.cpu_millis, h.memory_kib) for h in p.hints}


def _demand_unsatisfiable(case: Case, p: Any) -> None:
    domain = case.domain(p.instance)
    domain.shortages[p.requirement_id] = (case.now_us, p.no_workers)
    line = domain.lines.get(p.requirement_id)
    if line is not None:
        for *_, op in line.ops:
            arm_shortage(case.shard, op)


def _demand_satisfiable(case: Case, p: Any) -> None:
    case.domain(p.instance).shortages.pop(p.requirement_id, None)


FOLDS: dict[str, Callable[[Case, Any], None]] = {
    **FOLDS_OF_OPERATIONS,
    **FOLDS_OF_WORKERS,
    **FOLDS_OF_HOLDS,
    **FOLDS_OF_ENDPOINTS,
    **FOLDS_OF_DIGESTS,
    "leader_elected": _leader_elected,
    "ticked": _nothing,
    "fact_ignored": _nothing,
    "fact_rejected": _nothing,
    "upstream_reported": _nothing,
    "blobs_evicted": _nothing,
    "peer_fetch_failed": _nothing,
    "log_silent": _log_silent,
    "key_parked": _key_parked,
    "key_released": _key_released,
    "configured": _configured,
    "instance_paused": _instance_paused,
    "instance_resumed": _instance_resumed,
    "requirement_defined": _requirement_defined,
    "hints_loaded": _hints_loaded,
    "demand_unsatisfiable": _demand_unsatisfiable,
    "demand_satisfiable": _demand_satisfiable,
}
"""By the name of the payload in the wire contract; a test holds it total."""
