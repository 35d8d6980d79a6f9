"""What can be said of an event without its fact: counters and budgets follow from the events alone (V-4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from projections.verify.catalogue import BUDGETS, CATALOGUE
from tests.verify.forging import History, audit, first, forged, rule_of, told, walked


def walks() -> Iterator[History]:
    for seed in range(60):
        yield walked(seed)


def test_a_counter_is_found_without_the_fact_too():
    history, at = first("operation_requeued", lambda p: p.cause == 1, walks())

    def forge(messages: list[Any], at: int) -> None:
        messages[at].operation_requeued.job_failures += 1

    found = audit(forged(history, at, forge), facts=False)
    assert (rule_of(found.findings[0]), found.findings[0].seq) == (CATALOGUE[BUDGETS].name, at + 1), told(found)[:3]


def test_an_end_before_the_budget_is_spent_is_found_without_the_fact_too():
    """A run that completed, said to have spent the budget."""
    history, at = first("operation_finished", lambda p: p.outcome == 1, walks())

    def forge(messages: list[Any], at: int) -> None:
        messages[at].operation_finished.outcome = 3
        messages[at].operation_finished.job_failures += 1

    found = audit(forged(history, at, forge), facts=False)
    ends = found.findings[0]
    assert (rule_of(ends), ends.seq, ends.found) == ("budgets", at + 1, "it ends"), told(found)[:3]
