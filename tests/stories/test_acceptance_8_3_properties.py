"""The property manager's suite. Names and promises: tests/fixtures/spec/acceptance.toml."""

import pytest

from events import facts as f
from events.config import PropertyKind, SimpleScheduler
from events.fitting import NotANumber, compile_demand, worker_totals
from tests.stories.notation import MAIN, configure, connect, fact, queue

KINDS = {"cores": "minimum", "os": "exact", "gpu": "priority", "note": "ignore"}


def test_known_properties_are_typed_from_config():
    config = SimpleScheduler(kind="simple", supported_platform_properties=KINDS)
    assert {name: config.kind_of(name) for name in KINDS} == {
        "cores": PropertyKind.MINIMUM,
        "os": PropertyKind.EXACT,
        "gpu": PropertyKind.PRIORITY,
        "note": PropertyKind.IGNORE,
    }
    demand = compile_demand(
        1, tuple(sorted({"cores": "4", "os": "mac", "gpu": "t4", "note": "x"}.items())), config, config.pools()
    )
    assert demand.amounts == ((config.pools().index("cores"), 4),)
    assert (demand.need.exact, demand.need.present, demand.need.unknown) == ((("os", "mac"),), ("gpu",), ())


@pytest.mark.parametrize("value", ["many", "-1", "1.5", "", "18446744073709551616"])
def test_minimum_property_requires_u64_value(story, value):
    config = SimpleScheduler(kind="simple", supported_platform_properties=KINDS)
    with pytest.raises(NotANumber):
        worker_totals((("cores", value),), config.pools())
    story.given(configure(supported_platform_properties=KINDS))
    story.when(queue("a", cores=value), fact(f.WorkerConnected(MAIN, "w1", 1, 1, (("cores", value),))))
    story.then(
        "ActionQueued requirements.cores rejected: invalid_requirement",
        "WorkerConnected properties.cores rejected: invalid_property",
    )


def test_undeclared_property_becomes_unknown():
    config = SimpleScheduler(kind="simple", supported_platform_properties=KINDS)
    assert config.kind_of("never-heard-of") is None
    demand = compile_demand(1, (("never-heard-of", "x"),), config, config.pools())
    assert demand.need.unknown == (("never-heard-of", "x"),)


def test_undeclared_property_does_not_fail_platform_properties(story):
    story.given(configure(supported_platform_properties=KINDS), connect("w1", cores="8", os="mac"))
    story.when(queue("a", cores="2", os="mac", colour="blue")).then("a queued", "a to w1")


def test_empty_config_accepts_any_property(story):
    story.given(connect("w1", anything="goes", cpu_millis="8000"))
    story.when(queue("a", anything="goes", more="too")).then("a queued", "a to w1")
