"""Every history that the core makes verifies clean; where one does not, the audit or the core is wrong.

Rerun one by its seed: `pytest tests/verify/test_sound.py -k '[7]'`.
"""

from __future__ import annotations

import pytest

from events.facts import KeyReleased, WorkerDrained
from projections.verify.auditor import Range
from projections.verify.catalogue import CATALOGUE, ORDER, READABLE
from projections.verify.passing import OF_EACH_DISPATCH
from tests.projections.recorded import Recorded
from tests.verify.forging import audit, holds, of_recorded, parsed, told, walked


@pytest.mark.parametrize("seed", range(200, 230))
def test_a_random_walk_verifies_clean(seed):
    history = walked(seed)
    found = audit(history)
    assert told(found) == [], f"seed {seed}"
    assert found.damage is None
    assert (found.events, found.facts_from_seq) == (len(history.events), 2)


@pytest.mark.parametrize("seed", range(230, 240))
def test_so_it_does_without_its_facts(seed):
    found = audit(walked(seed), facts=False)
    assert told(found) == [], f"seed {seed}"
    assert found.facts_from_seq is None


@pytest.mark.parametrize("seed", range(240, 250))
def test_so_does_a_walk_in_which_placements_ask_who_holds_the_inputs(seed):
    assert told(audit(of_recorded(Recorded().walk(seed, 300)))) == [], f"seed {seed}"


def test_a_fact_that_was_written_off_and_what_comes_to_its_parked_key_verify_clean():
    recorded = Recorded().walk(3, 60)
    now_us = recorded.shard.now_us
    recorded.write_off(WorkerDrained("main", "w1"), now_us + 1, "ValueError: no")
    recorded.take(WorkerDrained("main", "w1"), now_us + 2)
    recorded.take(KeyReleased("w1"), now_us + 3)
    recorded.take(WorkerDrained("main", "w1"), now_us + 4)
    kinds = [type(event).__name__ for _, event in recorded.events]
    assert {"KeyParked", "KeyReleased"} <= set(kinds)
    assert told(audit(of_recorded(recorded))) == []


def test_the_recorded_holds_verify_clean():
    found = audit(holds())
    assert told(found) == []
    judged = dict(zip([rule.name for rule in CATALOGUE], found.judged, strict=True))
    assert (
        min(
            judged[name]
            for name in ("hold_made", "hold_moved", "hold_released", "hold_none", "hold_choice", "idle_cap")
        )
        > 0
    )


def test_every_rule_judges_something_somewhere():
    """Otherwise its silence would say nothing."""
    total = [0] * len(CATALOGUE)
    recorded = Recorded().walk(3, 300)
    recorded.take(KeyReleased("nobody"), recorded.shard.now_us + 1)
    for found in (audit(holds()), *(audit(walked(seed)) for seed in range(12)), audit(of_recorded(recorded))):
        total = [one + other for one, other in zip(total, found.judged, strict=True)]
    for rule in OF_EACH_DISPATCH:
        total[rule] += total[ORDER]
    silent = {CATALOGUE[number].name for number, count in enumerate(total) if not count}
    # What cannot be read is counted by what fails; parked keys need a defect.
    assert silent <= {CATALOGUE[READABLE].name, "parked"}


def test_a_range_is_judged_alone_and_what_is_before_it_only_folded():
    history = walked(5)
    messages = parsed(history)
    found = audit(history, judged=Range(from_seq=100, to_seq=200))
    assert told(found) == []
    within = [m for m in messages if 100 <= m.seq <= 200]
    assert len(within) - 8 <= found.events <= len(within) + 8, "a fact is judged whole"
    by_time = audit(history, judged=Range(from_us=messages[100].at_us, to_us=messages[200].at_us))
    assert 0 < by_time.events < len(messages)
