"""The capability index's suite: who could run an action, whatever it has free. Names and promises: tests/fixtures/spec/acceptance.toml.

Each question is put to the indexed matcher and to a walk over the workers, which must agree.
"""

import pytest

from events.codec import canonical_requirements
from events.evolving.rows import demand_of
from tests.stories.notation import MAIN, configure, connect, queue, remove
from tests.stories.story import Story

KINDS = {"cores": "minimum", "os": "exact", "gpu": "priority", "note": "ignore"}


@pytest.fixture
def kinds(story):
    return story.given(configure(supported_platform_properties=KINDS))


def able(story: Story, **asked: str) -> list[str]:
    """Endpoints of the workers that have what is asked, amounts aside."""
    shard = story.rehearsal.shard
    instance = shard.instances[MAIN]
    requirements = canonical_requirements(asked.items())
    if requirements not in shard.requirement_ids:
        queue(f"asks {asked}", **asked)(story)
    demand = demand_of(shard, instance, shard.requirement_ids[requirements])
    found = [
        worker.endpoint
        for worker in instance.workers.values()
        if demand.need.satisfied_by(dict(worker.properties))
        and all(worker.totals[pool] >= 0 for pool, _ in demand.amounts)
    ]
    enough = [name for name in found if demand.fits(instance.workers[name].totals)]
    assert instance.matcher.could_run_idle(demand) == bool(enough)
    return sorted(found)


def test_empty_index(kinds):
    assert able(kinds, os="mac") == able(kinds) == []


def test_exact_property_match(kinds):
    kinds.given(connect("w1", os="mac"), connect("w2", os="linux"))
    assert able(kinds, os="mac") == ["w1"]


def test_no_exact_property_match(kinds):
    kinds.given(connect("w1", os="mac"))
    assert able(kinds, os="linux") == []


def test_minimum_property_presence_only(kinds):
    kinds.given(connect("w1", cores="2"), connect("w2", os="mac"))
    assert able(kinds, cores="1") == able(kinds, cores="99") == ["w1"]


def test_mixed_properties(kinds):
    kinds.given(
        connect("w1", cores="2", os="mac", gpu="t4"),
        connect("w2", cores="2", os="mac"),
        connect("w3", cores="2", os="linux", gpu="t4"),
        connect("w4", os="mac", gpu="t4"),
    )
    assert able(kinds, cores="1", os="mac", gpu="a100", note="x") == ["w1"]


def test_remove_worker(kinds):
    kinds.given(connect("w1", os="mac"), connect("w2", os="mac"))
    assert able(kinds, os="mac") == ["w1", "w2"]
    kinds.given(remove("w1"))
    assert able(kinds, os="mac") == ["w2"]
    kinds.given(remove("w2"))
    assert able(kinds, os="mac") == []


def test_no_properties_matches_all(kinds):
    kinds.given(connect("w1", os="mac"), connect("w2"))
    assert able(kinds) == ["w1", "w2"]


def test_priority_property(kinds):
    kinds.given(connect("w1", gpu="t4"), connect("w2"))
    assert able(kinds, gpu="a100") == ["w1"]


def test_no_priority_property_match(kinds):
    kinds.given(connect("w1", os="mac"))
    assert able(kinds, gpu="t4") == []


def test_ignore_property(kinds):
    kinds.given(connect("w1", note="x"), connect("w2"))
    assert able(kinds, note="y") == ["w1", "w2"]


def test_unknown_property_matches_declared_value_or_absent_key(kinds):
    kinds.given(connect("w1", pool="red"), connect("w2", pool="blue"), connect("w3"))
    assert able(kinds, pool="red") == ["w1", "w3"]


def test_unknown_property_no_worker_declares_key(kinds):
    kinds.given(connect("w1"), connect("w2", os="mac"))
    assert able(kinds, pool="red") == ["w1", "w2"]
