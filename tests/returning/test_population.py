"""Who holds what in the scene of `infra/locality-restart`: the facts and the expected answers say the same."""

from __future__ import annotations

import pytest

from events.facts import BlobsAvailable
from events.payloads import MAX_DIGESTS, digests_of
from streams.returning.population import NEVER, OTHER, PINS, SAME, blob, holders, residents
from streams.returning.verdict import Findings


@pytest.mark.parametrize("pairs", [30, 100, 3 * MAX_DIGESTS + 2])
def test_what_the_three_report_is_what_they_are_expected_to_hold(pairs: int) -> None:
    population = residents(pairs)
    said: dict[str, set[object]] = {}
    for name, one in population.items():
        facts = [fact for fact in one.report() if isinstance(fact, BlobsAvailable)]
        assert [fact.chunk for fact in facts] == list(range(len(facts)))
        assert [fact.last for fact in facts] == [False] * (len(facts) - 1) + [True]
        assert all(fact.full for fact in facts)
        chunks = [digests_of(fact.added) for fact in facts]
        assert all(0 < len(chunk) <= MAX_DIGESTS for chunk in chunks)
        said[name] = {digest for chunk in chunks for digest in chunk}
        assert sum(len(digests_of(fact.ac_pins)) for fact in facts) == PINS
    assert sum(map(len, said.values())) == pairs
    for index in range(2 * pairs):
        assert set(holders(population, index)) == {name for name in said if blob(index) in said[name]}
    assert {len(holders(population, index)) for index in range(2 * pairs)} >= {0, 1, 2}


def test_who_returns_draws_another_connection_and_a_new_process_another_epoch() -> None:
    population = residents(30)
    again = population[SAME].again()
    assert (again.boot_epoch, again.count) == (population[SAME].boot_epoch, population[SAME].count)
    assert again.connection_id != population[SAME].connection_id
    another = population[OTHER].again(boot_epoch=5, count=2)
    assert (another.boot_epoch, another.count) == (5, 2)
    assert {one.connection_id for one in (again, another, population[NEVER])} == {1_011, 1_012, 13}


def test_a_finding_that_is_not_so_is_wrong_with_what_was_seen_and_wanted() -> None:
    found = Findings()
    found.equal("a", [1], [1])
    found.equal("b", 1, 2)
    found.at_most("c", 2.0, 2.0)
    found.at_most("d", 2.1, 2.0)
    found.at_least("e", 3.0, 3.0)
    found.at_least("f", 2.9, 3.0)
    assert [check.name for check in found.wrong] == ["b", "d", "f"]
    assert found.wrong[1].as_dict() == {"check": "d", "ok": False, "seen": 2.1, "wanted": "at most 2"}
