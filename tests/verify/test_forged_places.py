"""A dispatch that was turned to a worker which may not have it is found by the rule that keeps it from there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest

from projections.verify.auditor import Auditor
from projections.verify.fitting import accepts, below_caps
from projections.verify.rows import Domain, Op, Worker
from streams.verifying import read_fact
from tests.verify.forging import History, audit, forged, holds, parsed, rule_of, turned_to, walked

WALKS = range(40)

Unfit = Callable[[Domain, Op, Worker], bool]


def dispatches(history: History) -> Iterator[tuple[int, Any, Domain]]:
    """Dispatches, each with the rows as they stood before it."""
    auditor = Auditor(read_fact)
    auditor.take_facts(list(history.facts))
    messages = parsed(history)
    for at, (offset, value) in enumerate(history.events):
        if messages[at].WhichOneof("kind") == "operation_dispatched":
            before = deepcopy(auditor)
            before.close()  # the fact's events so far; that they are not all of them is a finding of no interest here
            payload = messages[at].operation_dispatched
            yield at, payload, before.shard.ops[payload.operation_id].domain
        auditor.take(offset, value)


def draining(domain: Domain, op: Op, worker: Worker) -> bool:
    return worker.draining and worker.suits(op.demand) and op.demand.within(worker.left)


def other_properties(domain: Domain, op: Op, worker: Worker) -> bool:
    return not worker.suits(op.demand)


def full(domain: Domain, op: Op, worker: Worker) -> bool:
    accepts = not worker.draining and not worker.paused and not worker.unaccepted and not worker.inflight
    return accepts and worker.suits(op.demand) and not op.demand.within(worker.left)


def beyond_reports(domain: Domain, op: Op, worker: Worker) -> bool:
    fits = accepts(worker, domain.options) and worker.suits(op.demand) and op.demand.within(worker.left)
    return fits and op.demand.memory >= 0 and not below_caps(worker, op.demand, domain.options)


def held(domain: Domain, op: Op, worker: Worker) -> bool:
    hold = domain.hold
    if hold is None or hold.worker is not worker or not hold.op.before(op) or domain.options.hold == "backfill":
        return False
    return worker.suits(op.demand) and op.demand.within(worker.left) and not worker.inflight


def histories() -> Iterator[History]:
    for seed in WALKS:
        yield walked(seed)
    yield holds()


@pytest.mark.parametrize(
    ("rule", "unfit"),
    [
        ("accepting", draining),
        ("properties", other_properties),
        ("capacity", full),
        ("veto", beyond_reports),
        ("held_room", held),
    ],
)
def test_a_dispatch_to_a_worker_that_may_not_have_it_is_found(rule, unfit):
    tried = []
    for history in histories():
        for at, p, domain in dispatches(history):
            op = next(op for op in domain.by_client.values() if op.id == p.operation_id)
            worker = next(
                (w for w in domain.workers.values() if w.endpoint != p.endpoint and unfit(domain, op, w)), None
            )
            if worker is None:
                continue
            found = audit(forged(history, at, turned_to(worker.endpoint, worker.connection_id)))
            assert found.findings[0].seq == at + 1
            tried.append(rule_of(found.findings[0]))
            if tried[-1] == rule:
                return
            if len(tried) > 4:
                break
    raise AssertionError(f"found by {tried}, never by {rule}")
