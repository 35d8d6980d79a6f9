"""NativeLink's configuration file, read into ours: what is read, what is left out with which words, what is refused."""

import json
import tomllib
from pathlib import Path

import pytest

from events.config import canonical_config, resolve
from events.errors import InvalidConfiguration
from streams.importing import NOT_APPLICABLE, Note, Upstream, import_nativelink

ROOT = Path(__file__).parents[2]
EXAMPLE = (ROOT / "infra/examples/nativelink-basic.json5").read_text()


def simple(options: str, **arguments):
    return import_nativelink("{schedulers:[{name:'A', simple:{" + options + "}}]}", **arguments)


def said(config) -> dict:
    return json.loads(canonical_config(config))


def test_the_example_is_read_with_all_it_says():
    imported = import_nativelink(EXAMPLE, scheduler="MAIN_SCHEDULER")
    steps, base, _ = resolve(imported.config)
    assert imported.name == "MAIN_SCHEDULER"
    assert [step.kind for step in steps] == ["cache_lookup", "property_modifier"]
    assert said(imported.config)["scheduler"]["modifications"] == [
        {"kind": "add", "name": "cpu_count", "value": "1", "new_name": None, "new_value": None},
        {"kind": "remove", "name": "container-image", "value": None, "new_name": None, "new_value": None},
        {"kind": "replace", "name": "ISA", "value": "x86-64", "new_name": "cpu_arch", "new_value": "x86_64"},
    ]
    assert (base.worker_timeout_s, base.client_action_timeout_s, base.max_job_retries) == (30, 120, 3)
    assert (base.allocation_strategy, base.live_memory_veto) == ("best_fit", "memory_kb")
    assert base.hold is not None
    assert (base.hold.kind, base.hold.after_s) == ("shortfall", 90)
    assert base.memory_escalation is not None
    assert (base.memory_escalation.ladder_kib, base.memory_escalation.cpu_property) == ((2000000, 8000000), "cpu_count")
    left_out = {note.path.rsplit(".", 1)[-1] for note in imported.notes}
    assert left_out == {"ac_store", "experimental_backend", "worker_match_logging_interval_s", "max_job_retries"}


def test_a_file_with_several_schedulers_asks_which():
    with pytest.raises(InvalidConfiguration, match=r"'MAIN_SCHEDULER', 'FARM'.*--scheduler NAME"):
        import_nativelink(EXAMPLE)
    with pytest.raises(InvalidConfiguration, match="there are 'MAIN_SCHEDULER', 'FARM'"):
        import_nativelink(EXAMPLE, scheduler="MAIN")


def test_schedulers_stand_in_a_list_in_a_mapping_or_alone():
    listed = simple("worker_timeout_s: 4")
    mapped = import_nativelink("{schedulers: {A: {simple: {worker_timeout_s: 4}}}}")
    alone = import_nativelink("{simple: {worker_timeout_s: 4}}")
    assert (listed.name, mapped.name, alone.name) == ("A", "A", "")
    assert listed.config == mapped.config == alone.config


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7),
        ("'7'", 7),
        ("'10s'", 10),
        ("'1h 30m'", 5400),
        ("'2min5sec'", 125),
        ("'1 day'", 86400),
        ("'1w'", 604800),
        ("'1500ms 500ms'", 2),
        ("'$T'", 9),
        ("'${T}s'", 9),
        ("'${NONE:-3m}'", 180),
        ("'${T:-3m}'", 9),
    ],
)
def test_durations_are_numbers_or_text_with_variables(value, seconds):
    imported = simple(f"worker_timeout_s: {value}", environment={"T": "9"})
    assert resolve(imported.config).base.worker_timeout_s == seconds


def test_counts_are_numbers_or_text_with_variables():
    imported = simple("max_job_retries: '${RETRIES}', max_worker_loss_retries: 4", environment={"RETRIES": "5"})
    base = resolve(imported.config).base
    assert (base.max_job_retries, base.max_worker_loss_retries) == (5, 4)


def test_a_zero_asks_for_the_default_where_it_does_so_there_and_says_so():
    imported = simple("retain_completed_for_s: 0, max_job_retries: '0', dispatch_ack_timeout_s: 0")
    base = resolve(imported.config).base
    assert (base.retain_completed_for_s, base.max_job_retries, base.dispatch_ack_timeout_s) == (60, 3, 0)
    assert [note.path for note in imported.notes] == [
        "schedulers[0].simple.retain_completed_for_s",
        "schedulers[0].simple.max_job_retries",
    ]


@pytest.mark.parametrize("option", NOT_APPLICABLE)
def test_an_option_without_a_mechanism_here_is_named_with_the_reason_and_left_out(option):
    imported = simple(f"{option}: 1")
    assert imported.notes == (Note(f"schedulers[0].simple.{option}", f"not applicable: {NOT_APPLICABLE[option]}"),)
    assert imported.config == simple("").config


def test_what_is_not_applicable_is_the_same_in_the_list_of_the_tests():
    listed = tomllib.loads((ROOT / "tests/not_applicable.toml").read_text())["options"]
    assert set(listed) <= set(NOT_APPLICABLE)


def test_a_grpc_scheduler_becomes_an_upstream_that_somebody_names():
    with pytest.raises(InvalidConfiguration, match="--upstream-instance NAME"):
        import_nativelink(EXAMPLE, scheduler="FARM")
    imported = import_nativelink(EXAMPLE, scheduler="FARM", upstream=Upstream("farm", "kafka:9092"))
    upstream = resolve(imported.config).upstream
    assert upstream is not None
    assert (upstream.instance, upstream.bootstrap_servers) == ("farm", "kafka:9092")
    assert [note.path for note in imported.notes] == ["schedulers[1].grpc.endpoint"]


def test_historical_resources_keep_their_property_names_and_name_what_they_lose():
    imported = import_nativelink(
        "{historical_resource: {hints_file: '/etc/hints.json', refresh_interval_s: 30, cold_start: {cpu_count: 1},"
        " memory_property_name: 'ram', scheduler: {simple:"
        " {supported_platform_properties: {cpu_count: 'minimum', ram: 'minimum'}}}}}"
    )
    (step,) = resolve(imported.config).steps
    assert (step.cpu_property, step.memory_property) == ("cpu_count", "ram")
    assert [note.path for note in imported.notes] == [
        "historical_resource.hints_file",
        "historical_resource.refresh_interval_s",
        "historical_resource.cold_start",
    ]


def test_an_escalation_without_a_bound_gets_the_largest_one():
    imported = simple(
        "supported_platform_properties: {cpu_count: 'minimum', memory_kb: 'minimum'}, memory_escalation: {max_steps: 0}"
    )
    escalation = resolve(imported.config).base.memory_escalation
    assert escalation is not None
    assert (escalation.property, escalation.max_steps) == ("memory_kb", 100)
    assert imported.notes[0].path == "schedulers[0].simple.memory_escalation.max_steps"


IN_SIMPLE = "schedulers[0].simple"
REFUSED = [
    ("{", "", "not JSON5"),
    ("[1]", "", "an object"),
    ("{a: 1, a: 2}", "", "Duplicate key"),
    ("{stores: []}", "schedulers", "no such section"),
    ("{schedulers: 5}", "schedulers", "a list of named schedulers"),
    ("{schedulers: []}", "schedulers", "there is no scheduler"),
    ("{schedulers: [5]}", "schedulers[0]", "an object"),
    ("{schedulers: [{simple: {}}]}", "schedulers[0].name", "has a name"),
    ("{schedulers: [{name: 'A'}]}", "schedulers[0]", "one of simple"),
    ("{schedulers: [{name: 'A', simpel: {}}]}", "schedulers[0].simpel", "did you mean 'simple'?"),
    ("{schedulers: {A: {simple: 5}}}", "schedulers.A.simple", "an object"),
    ("{simple: {worker_timeout: 5}}", "simple.worker_timeout", "did you mean 'worker_timeout_s'?"),
    ("{simple: {hold: {}}}", "simple.hold", "there is no such option"),
    ("{simple: {worker_timeout_s: -1}}", "simple.worker_timeout_s", "whole seconds"),
    ("{simple: {worker_timeout_s: 1.5}}", "simple.worker_timeout_s", "whole seconds"),
    ("{simple: {worker_timeout_s: true}}", "simple.worker_timeout_s", "whole seconds"),
    ("{simple: {worker_timeout_s: '5x'}}", "simple.worker_timeout_s", "units: us, ms, s, m, h, d, w"),
    ("{simple: {worker_timeout_s: ''}}", "simple.worker_timeout_s", "whole seconds"),
    ("{simple: {worker_timeout_s: '1500ms'}}", "simple.worker_timeout_s", "whole seconds"),
    ("{simple: {worker_timeout_s: '${T}'}}", "simple.worker_timeout_s", "add --env T=VALUE"),
    ("{simple: {max_job_retries: 'many'}}", "simple.max_job_retries", "a whole number"),
    ("{simple: {head_of_line_reservation: {}}}", "simple.head_of_line_reservation.after_s", "required"),
    ("{simple: {head_of_line_reservation: {after: 1}}}", "simple.head_of_line_reservation.after", "'after_s'"),
    ("{simple: {memory_escalation: {max_kib: 1}}}", "simple.memory_escalation.max_kib", "did you mean 'max_kb'?"),
    (
        "{simple: {supported_platform_properties: {a: 'min'}}}",
        "the scheduler, read as supported_platform_properties.a",
        "'minimum'",
    ),
    ("{cache_lookup: {ac_store: 'A'}}", "cache_lookup.scheduler", "required"),
    ("{property_modifier: {scheduler: {simple: {}}}}", "property_modifier.modifications", "a list"),
    (
        "{property_modifier: {modifications: [{rename: 'a'}], scheduler: {simple: {}}}}",
        "property_modifier.modifications[0]",
        "one of add, replace, remove",
    ),
    (
        "{property_modifier: {modifications: [{replace: {name: 'a', value: 'b'}}], scheduler: {simple: {}}}}",
        "property_modifier.modifications[0].replace.new_name",
        "required",
    ),
]


@pytest.mark.parametrize(("text", "field", "words"), REFUSED, ids=[str(number) for number in range(len(REFUSED))])
def test_what_is_wrong_is_refused_with_its_path_in_the_file(text, field, words):
    with pytest.raises(InvalidConfiguration) as refused:
        import_nativelink(text)
    assert refused.value.field == field
    assert words in refused.value.rule


def test_a_file_too_large_to_be_read_soon_is_refused_at_once():
    with pytest.raises(InvalidConfiguration, match="at most 1048576 characters"):
        import_nativelink(" " * 1_048_577)
