"""What can be said of an event without its fact: counters and budgets follow from the events alone (V-4)."""

from __future__ import annotations

from typing import Any

from projections.verify.catalogue import BUDGETS, CATALOGUE
from tests.verify.forging import History, audit, forged, parsed, rule_of, told, walked


def first_of_walks(kind: str, field: str, value: int) -> tuple[History, int]:
    """The first event of a kind with this value, in the walks."""
    for seed in range(60):
        for at, message in enumerate(parsed(walked(seed))):
            if message.WhichOneof("kind") == kind and getattr(getattr(message, kind), field) == value:
                return walked(seed), at
    raise AssertionError(f"no walk has a {kind} with {field}={value}")


def test_a_counter_is_found_without_the_fact_too():
    history, at = first_of_walks("operation_requeued", "cause", 1)

    def forge(messages: list[Any], at: int) -> None:
        messages[at].operation_requeued.job_failures += 1

    found = audit(forged(history, at, forge), facts=False)
    assert (rule_of(found.findings[0]), found.findings[0].seq) == (CATALOGUE[BUDGETS].name, at + 1), told(found)[:3]


def test_an_end_before_the_budget_is_spent_is_found_without_the_fact_too():
    """A run that completed, said to have spent the budget."""
    history, at = first_of_walks("operation_finished", "outcome", 1)

    def forge(messages: list[Any], at: int) -> None:
        messages[at].operation_finished.outcome = 3
        messages[at].operation_finished.job_failures += 1

    found = audit(forged(history, at, forge), facts=False)
    first = found.findings[0]
    assert (rule_of(first), first.seq, first.found) == ("budgets", at + 1, "it ends"), told(found)[:3]
