"""Configurations: what is read, what is refused with which path and words, and that every option of the reference is there."""

import json
import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from events.config import (
    DEFAULT_CONFIG,
    CacheLookupScheduler,
    LocalityConfig,
    MemoryEscalation,
    PropertyModifierScheduler,
    ShortfallHold,
    SimpleScheduler,
    UpstreamScheduler,
    canonical_config,
    parse_config,
    resolve,
)
from events.config.options import TEN_YEARS_S
from events.config.reference import PARTS, SCHEDULERS, reference
from events.errors import InvalidConfiguration

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "infra/examples").glob("*.json"))
NOT_APPLICABLE = tomllib.loads((ROOT / "tests/not_applicable.toml").read_text())["options"]

REFERENCE_OPTIONS = {
    # the base scheduler's
    "supported_platform_properties": {},
    "retain_completed_for_s": 60,
    "client_action_timeout_s": 60,
    "worker_timeout_s": 10,
    "max_action_executing_timeout_s": 0,
    "unacknowledged_kill_timeout_s": 60,
    "max_job_retries": 3,
    "allocation_strategy": "least_recently_used",
    "experimental_backend": None,
    "worker_match_logging_interval_s": 10,
    "fallback_match_interval_s": 5,
    # those added later
    "max_worker_loss_retries": 10,
    "dispatch_ack_timeout_s": 0,
    "unsatisfiable_action_timeout_s": 0,
    "no_worker_action_timeout_s": 0,
    "live_memory_veto": None,
    "memory_escalation": None,
    "head_of_line_reservation": None,
    "enable_active_action_count_metric": False,
}
"""Every option of the reference scheduler with its default."""


def around(inner: object) -> str:
    return json.dumps({"kind": "cache_lookup", "scheduler": inner})


@pytest.mark.parametrize("option", REFERENCE_OPTIONS)
def test_every_option_of_the_reference_is_here_with_its_default_or_is_said_not_to_apply(option):
    if option in NOT_APPLICABLE:
        assert option not in SimpleScheduler.model_fields
        assert NOT_APPLICABLE[option].endswith(".")
        return
    name = "hold" if option == "head_of_line_reservation" else option
    assert DEFAULT_CONFIG.model_dump(mode="json")[name] == REFERENCE_OPTIONS[option]


def test_what_is_said_not_to_apply_is_an_option_of_the_reference():
    assert set(NOT_APPLICABLE) <= set(REFERENCE_OPTIONS)


def test_the_memory_escalation_has_the_defaults_of_the_reference():
    said = MemoryEscalation().model_dump(mode="json")
    assert (said["percent"], said["max_kib"], said["ladder_kib"], said["max_steps"]) == (200, 0, [], 8)


def test_what_is_known_of_endpoints_stands_as_long_as_the_reference_says():
    assert LocalityConfig().model_dump(mode="json") == {
        "prefer_from_bytes": None,
        "never_reconnect_s": 600,
        "max_unacknowledged_chunks": 256,
        "small_blob_mirror": False,
        "flap_threshold": 3,
        "flap_window_s": 300,
        "flap_cooldown_s": 60,
    }
    assert DEFAULT_CONFIG.locality == LocalityConfig()


LOCALITY_LIMITS = {
    "prefer_from_bytes": (1, 2**63 - 1),
    "never_reconnect_s": (0, TEN_YEARS_S),
    "max_unacknowledged_chunks": (1, 100_000),
    "flap_threshold": (1, 100),
    "flap_window_s": (1, TEN_YEARS_S),
    "flap_cooldown_s": (0, TEN_YEARS_S),
}


def test_every_option_of_locality_that_is_a_number_has_limits():
    assert LOCALITY_LIMITS.keys() == LocalityConfig.model_fields.keys() - {"small_blob_mirror"}


@pytest.mark.parametrize("option", LOCALITY_LIMITS)
def test_an_option_of_locality_is_taken_up_to_its_limits_and_refused_beyond_them_with_the_limit(option):
    least, most = LOCALITY_LIMITS[option]
    for value in (least, most):
        config = parse_config(json.dumps(SIMPLE | {"locality": {option: value}}))
        assert getattr(resolve(config).base.locality, option) == value
        assert parse_config(canonical_config(config)) == config
    for value, limit in ((least - 1, f"greater than or equal to {least}"), (most + 1, f"less than or equal to {most}")):
        with pytest.raises(InvalidConfiguration) as refused:
            parse_config(around(SIMPLE | {"locality": {option: value}}))
        assert refused.value.field == f"scheduler.locality.{option}"
        assert limit in refused.value.rule


def test_the_name_of_the_reference_is_read_as_a_shortfall_hold():
    config = parse_config(around({"kind": "simple", "head_of_line_reservation": {"after_s": 90}}))
    assert resolve(config).base.hold == ShortfallHold(kind="shortfall", after_s=90)
    assert parse_config('{"kind":"simple","head_of_line_reservation":null}') == DEFAULT_CONFIG


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.name for path in EXAMPLES])
def test_an_example_is_read_and_comes_back_from_its_canonical_form(path):
    config = parse_config(path.read_text())
    text = canonical_config(config)
    assert parse_config(text) == config
    assert canonical_config(parse_config(text)) == text


def test_there_is_an_example_of_every_kind():
    kinds = {json.loads(path.read_text())["kind"] for path in EXAMPLES}
    assert kinds == {str(model.model_fields["kind"].annotation.__args__[0]) for model in SCHEDULERS}


def test_a_nested_configuration_is_flat_for_the_core():
    config = parse_config((ROOT / "infra/examples/everything-around-simple.json").read_text())
    steps, base, upstream = resolve(config)
    assert [step.kind for step in steps] == ["cache_lookup", "property_modifier", "historical_resource"]
    assert base.hold is not None
    assert upstream is None
    assert isinstance(steps[0], CacheLookupScheduler)
    assert isinstance(steps[1], PropertyModifierScheduler)


def test_under_an_upstream_the_options_are_the_defaults_and_its_retention():
    _, base, upstream = resolve(parse_config('{"kind":"upstream","instance":"farm","retain_completed_for_s":7}'))
    assert isinstance(upstream, UpstreamScheduler)
    assert base == SimpleScheduler(kind="simple", retain_completed_for_s=7)


SIMPLE = {"kind": "simple"}
REFUSED = [
    ("[]", "", "a JSON object"),
    ("{", "", "not JSON"),
    ('{"kind":"simple","worker_timeout_s":NaN}', "", "NaN is no JSON number"),
    ('{"kind":"simple","kind":"simple"}', "", "'kind' stands twice"),
    ("{}", "kind", 'write {"kind": "simple"}'),
    ('{"worker_timeout_s":4}', "kind", 'write {"kind": "simple", "worker_timeout_s": 4}'),
    ('{"scheduler":{"kind":"simple"}}', "kind", 'write {"kind": "cache_lookup", '),
    (around({"worker_timeout_s": 4}), "scheduler.kind", 'write {"kind": "simple", "worker_timeout_s": 4}'),
    ('{"kind":"simpel"}', "kind", "did you mean 'simple'?"),
    (around({"kind": 7}), "scheduler.kind", "known kinds: cache_lookup"),
    (around(7), "scheduler", "should be an object"),
    ('{"kind":"cache_lookup"}', "scheduler", "this option is required"),
    ('{"kind":"upstream"}', "instance", "this option is required"),
    (SIMPLE | {"worker_timeout": 3}, "worker_timeout", "did you mean 'worker_timeout_s'?"),
    (SIMPLE | {"simple": 3}, "simple", "known are: aging_s, "),
    (SIMPLE | {"worker_timeout_s": 0}, "worker_timeout_s", "greater than or equal to 1"),
    (SIMPLE | {"worker_timeout_s": "4"}, "worker_timeout_s", "a valid integer"),
    (SIMPLE | {"worker_timeout_s": True}, "worker_timeout_s", "a valid integer"),
    (SIMPLE | {"worker_timeout_s": 1.5}, "worker_timeout_s", "a valid integer"),
    (SIMPLE | {"allocation_strategy": "best"}, "allocation_strategy", "'best_fit'"),
    (SIMPLE | {"compatible_builds": ["a", 1]}, "compatible_builds[1]", "a valid string"),
    (
        around(SIMPLE | {"supported_platform_properties": {"simple": "exakt"}}),
        "scheduler.supported_platform_properties.simple",
        "'minimum', 'exact', 'priority' or 'ignore'",
    ),
    (SIMPLE | {"locality": 600}, "locality", "an object"),
    (SIMPLE | {"locality": None}, "locality", "an object"),
    (SIMPLE | {"locality": {"never_reconnect": 5}}, "locality.never_reconnect", "did you mean 'never_reconnect_s'?"),
    (SIMPLE | {"locality": {"never_reconnect_s": "10m"}}, "locality.never_reconnect_s", "a valid integer"),
    (SIMPLE | {"locality": {"small_blob_mirror": 1}}, "locality.small_blob_mirror", "a valid boolean"),
    (SIMPLE | {"prefer_from_bytes": 9}, "prefer_from_bytes", "known are: aging_s, "),
    (SIMPLE | {"hold": 5}, "hold", "an object"),
    (SIMPLE | {"hold": {"after_s": 5}}, "hold.kind", "'shortfall', 'backfill'"),
    (SIMPLE | {"hold": {"kind": "drain"}}, "hold.kind", "'shortfall', 'backfill'"),
    (SIMPLE | {"hold": {"kind": "shortfall"}}, "hold.after_s", "this option is required"),
    (SIMPLE | {"hold": {"kind": "shortfall", "after": 1}}, "hold.after", "did you mean 'after_s'?"),
    (around(SIMPLE | {"hold": {"kind": "backfill", "after_s": -1}}), "scheduler.hold.after_s", "or equal to 0"),
    (SIMPLE | {"head_of_line_reservation": {}}, "head_of_line_reservation.after_s", "this option is required"),
    (SIMPLE | {"head_of_line_reservation": {"after_s": "1m"}}, "head_of_line_reservation.after_s", "a valid integer"),
    (SIMPLE | {"head_of_line_reservation": 60}, "head_of_line_reservation", '{"after_s": 60}'),
    (
        SIMPLE | {"head_of_line_reservation": {"after_s": 1}, "hold": {"kind": "backfill"}},
        "head_of_line_reservation",
        "say the same",
    ),
    (SIMPLE | {"live_memory_veto": "memory_kb"}, "live_memory_veto", "of kind minimum: cpu_millis, memory_kib"),
    (around(SIMPLE | {"memory_escalation": {"property": "x"}}), "scheduler.memory_escalation.property", "kind minimum"),
    (SIMPLE | {"memory_escalation": {"max_kb": 1}}, "memory_escalation.max_kb", "did you mean 'max_kib'?"),
    (SIMPLE | {"memory_escalation": {"ladder_kib": [1, "b"]}}, "memory_escalation.ladder_kib[1]", "a valid integer"),
    (SIMPLE | {"memory_escalation": {"ladder_kib": [4, 2]}}, "memory_escalation.ladder_kib", "ascending"),
    (SIMPLE | {"fair_share": {"between": "user"}}, "fair_share.between", "'client' or 'invocation'"),
    (SIMPLE | {"fair_share": {"between": "client"}, "aging_s": 9}, "aging_s", "set one of them"),
    (
        {"kind": "property_modifier", "modifications": [{"kind": "add", "name": "a"}], "scheduler": SIMPLE},
        "modifications[0]",
        "add needs a value",
    ),
    (
        {"kind": "property_modifier", "modifications": [{"kind": "remove", "nam": "a"}], "scheduler": SIMPLE},
        "modifications[0].nam",
        "did you mean 'name'?",
    ),
    (
        around({"kind": "historical_resource", "cpu_property": "cores", "scheduler": SIMPLE}),
        "scheduler.cpu_property",
        "of kind minimum",
    ),
]


@pytest.mark.parametrize(("text", "field", "words"), REFUSED, ids=[str(number) for number in range(len(REFUSED))])
def test_a_wrong_configuration_is_refused_with_its_path_and_rule(text, field, words):
    with pytest.raises(InvalidConfiguration) as refused:
        parse_config(text if isinstance(text, str) else json.dumps(text))
    assert refused.value.field == field
    assert words in refused.value.rule


def test_a_configuration_is_nested_a_bounded_number_of_times():
    text = '{"kind":"cache_lookup","scheduler":' * 40 + '{"kind":"simple"}' + "}" * 40
    with pytest.raises(InvalidConfiguration, match="nested at most 32 deep"):
        parse_config(text)
    with pytest.raises(InvalidConfiguration, match="not JSON"):
        parse_config("[" * 100_000)


def test_the_reference_page_is_what_the_program_says():
    assert (ROOT / "infra/docs/configuration.md").read_text() == reference(), "run headway config reference"


def test_the_reference_page_explains_every_option():
    rows = [line for line in reference().splitlines() if line.startswith("| `")]
    assert len(rows) > 60
    assert [row for row in rows if row.rstrip(" |").count("|") < 2 or row.endswith("|  |")] == []


def test_the_reference_page_has_a_section_for_every_object_in_an_option():
    """An option of type object whose own options stand nowhere would be told and not explained."""
    nested = {
        (name, part)
        for scheduler in SCHEDULERS
        for name, field in scheduler.model_fields.items()
        for part in (field.annotation, *get_args(field.annotation))
        if isinstance(part, type) and issubclass(part, BaseModel) and part not in SCHEDULERS
    }
    assert ("locality", LocalityConfig) in nested
    assert [(name, part.__name__) for name, part in nested if part not in PARTS.get(name, ())] == []
    sections = reference().split("\n##")
    for name, models in PARTS.items():
        own = "".join(section for section in sections if section.startswith(f"# `{name}`"))
        options = {option for part in models for option in part.model_fields}
        assert [option for option in options if f"| `{option}` |" not in own] == ["kind"] * (name == "hold"), name


def test_the_reference_page_cites_no_rule_by_its_number():
    assert re.findall(r"\([A-Z]+-?[0-9]+[^)]*\)", reference()) == []
