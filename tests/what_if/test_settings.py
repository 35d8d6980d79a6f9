"""`--set` and `--sweep`: what they are read as, where they go in a configuration, and how they are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from events.errors import InvalidConfiguration
from projections.whatif.setting import BadSetting, changed, changed_if_valid, parse_setting, sweep_of

PLAIN = '{"kind":"simple"}'
HELD = '{"kind":"simple","hold":{"kind":"shortfall","after_s":5,"max_hold_s":40}}'
NESTED = '{"kind":"cache_lookup","scheduler":{"kind":"property_modifier","modifications":[],"scheduler":' + HELD + "}}"


def after(config: str, *settings: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(changed(config, [parse_setting(text) for text in settings]))
    return found


def test_an_option_gets_its_value() -> None:
    assert after(HELD, "hold.after_s=60")["hold"] == {
        "kind": "shortfall",
        "after_s": 60,
        "max_hold_s": 40,
        "spare_last": False,
    }
    assert after(PLAIN, "allocation_strategy=best_fit")["allocation_strategy"] == "best_fit"
    assert after(PLAIN, 'supported_platform_properties={"os":"exact"}')["supported_platform_properties"] == {
        "os": "exact"
    }


@pytest.mark.parametrize("off", ["off", "none", "null", "OFF"])
def test_an_option_is_taken_away(off: str) -> None:
    assert after(HELD, f"hold={off}")["hold"] is None
    assert after(HELD, f"hold.max_hold_s={off}")["hold"]["max_hold_s"] is None


def test_a_hold_is_switched_on_by_an_option_of_it() -> None:
    held = after(PLAIN, "hold.after_s=30")["hold"]
    assert (held["kind"], held["after_s"]) == ("shortfall", 30)
    by_kind = after(PLAIN, "hold.kind=drain_time")["hold"]
    assert (by_kind["kind"], by_kind["after_s"]) == ("drain_time", 60)


def test_another_kind_of_hold_keeps_what_it_knows_and_drops_what_it_does_not() -> None:
    assert after(HELD, "hold.kind=drain_time")["hold"]["max_hold_s"] == 40
    learnt = changed(HELD, [parse_setting("hold.kind=drain_time"), parse_setting("hold.min_runs=3")])
    back = after(learnt, "hold.kind=shortfall")["hold"]
    assert back["after_s"] == 5
    assert "min_runs" not in back


def test_a_path_reaches_the_innermost_scheduler_or_is_spelled_out() -> None:
    for path in ("hold.after_s", "scheduler.scheduler.hold.after_s"):
        found = after(NESTED, f"{path}=60")
        assert found["scheduler"]["scheduler"]["hold"]["after_s"] == 60
    assert after(NESTED, "modifications=[]")["scheduler"]["modifications"] == []


@pytest.mark.parametrize(
    ("setting", "field", "said"),
    [
        ("hold.afer_s=3", "hold.afer_s", "did you mean 'after_s'"),
        ("hold.after_s=-1", "hold.after_s", "greater than or equal to 0"),
        ("hold.kind=foo", "hold.kind", "one of 'shortfall', 'backfill', 'drain_time'"),
        ("allocation_strategy=bestfit", "allocation_strategy", "'best_fit'"),
        ("worker_timeout_s=off", "worker_timeout_s", "valid integer"),
        ("nonsense=3", "nonsense", "no such option"),
    ],
)
def test_a_setting_that_breaks_a_rule_names_field_value_and_rule(setting: str, field: str, said: str) -> None:
    with pytest.raises(InvalidConfiguration) as refused:
        after(HELD, setting)
    assert refused.value.field == field
    assert said in refused.value.rule


def test_a_fault_within_decorators_has_its_whole_path() -> None:
    with pytest.raises(InvalidConfiguration) as refused:
        after(NESTED, "hold.after_s=x")
    assert refused.value.field == "scheduler.scheduler.hold.after_s"


@pytest.mark.parametrize("text", ["hold", "=3", "hold..after_s=3", ".x=1"])
def test_what_is_no_setting_is_refused(text: str) -> None:
    with pytest.raises(BadSetting, match="write PATH=VALUE"):
        parse_setting(text)


def test_a_path_through_a_plain_value_is_refused() -> None:
    with pytest.raises(BadSetting, match="allocation_strategy is 'least_recently_used' and has no options"):
        after(PLAIN, "allocation_strategy.x=3")


def test_a_recorded_configuration_that_is_refused_anyway_stays_as_it_is() -> None:
    assert changed_if_valid('{"kind":"simpel"}', [parse_setting("hold=off")]) == '{"kind":"simpel"}'


def test_sweeps_are_lists_and_ranges_each_value_once() -> None:
    assert [setting.value for setting in sweep_of("hold.after_s=15,30,60")] == [15, 30, 60]
    assert [setting.value for setting in sweep_of("hold.after_s=15..60/15")] == [15, 30, 45, 60]
    assert [setting.value for setting in sweep_of("x=1..3")] == [1, 2, 3]
    assert [setting.value for setting in sweep_of("x=5,1..10/4")] == [5, 1, 9]
    assert [str(setting) for setting in sweep_of("hold=off,off")] == ["hold=off"]
    assert [setting.value for setting in sweep_of("allocation_strategy=best_fit,least_loaded")] == [
        "best_fit",
        "least_loaded",
    ]


@pytest.mark.parametrize("text", ["x", "x=", "x=9..1", "x=1..9/0", "x=a..b", "x=1..10000"])
def test_what_is_no_sweep_is_refused(text: str) -> None:
    with pytest.raises(BadSetting, match="sweep"):
        sweep_of(text)
