"""Every promise of the lists in tests/fixtures/spec is a test, an option, or stands in tests/not_applicable.toml with one sentence why."""

import ast
import re
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from events.config import DEFAULT_CONFIG, MemoryEscalation, ShortfallHold, SimpleScheduler

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "tests/fixtures/spec"
FAILURES_OF = {
    "B1": "tests/stories/test_field_failures_b1",
    "B2": "tests/projections/test_explain",
    "B3": "tests/stories/test_field_failures_b3",
    "B4": "tests/stories/test_field_failures_b4",
    "B6": "tests/stories/test_field_failures_b6",
}
NESTED = {"memory_escalation": MemoryEscalation, "hold": ShortfallHold}


def listed(name: str) -> dict[str, Any]:
    return tomllib.loads((SPEC / f"{name}.toml").read_text())


NOT_APPLICABLE = tomllib.loads((ROOT / "tests/not_applicable.toml").read_text())
SUITES = [*listed("acceptance")["suite"], *listed("locality")["suite"]]
SECTIONS = listed("defects")["section"]
FAILURES = listed("failures")["failure"]
OPTIONS = listed("options")["option"]


@cache
def found_in(prefix: str) -> dict[str, int]:
    """Test functions in the files whose path begins with `prefix`, and how many there are of each name."""
    folder, _, begin = prefix.rpartition("/")
    found: Counter[str] = Counter()
    for path in sorted((ROOT / folder).glob(f"{begin}*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                found[node.name] += 1
    return dict(found)


def name_of_test(identity: str) -> str:
    """What a test of this name is called here: without a doubled prefix or suffix `test`."""
    return "test_" + identity.removeprefix("test_").removesuffix("_test")


@pytest.mark.parametrize("suite", SUITES, ids=[f"{suite['section']}-{suite['name']}" for suite in SUITES])
def test_every_name_of_a_suite_is_a_test_or_is_said_to_have_nothing_to_test(suite):
    tests, excused = found_in(suite["tests"]), NOT_APPLICABLE["acceptance"]
    missing = [name for name in suite["ids"] if name_of_test(name) not in tests and name not in excused]
    assert missing == [], f"no test in {suite['tests']}*.py, and no reason in tests/not_applicable.toml"
    both = [name for name in suite["ids"] if name_of_test(name) in tests and name in excused]
    assert both == [], "a test, and still said to be not applicable"


@pytest.mark.parametrize("section", SECTIONS, ids=[section["id"] for section in SECTIONS])
def test_every_defect_has_a_test_or_a_reason(section):
    tests = found_in("tests/stories/test_defects_9_")
    untested, doubly = [], []
    for number in section["ids"]:
        begin = f"test_{section['id'].replace('.', '_')}_{number}_"
        has_test = any(name.startswith(begin) for name in tests)
        excused = f"{section['id']}.{number}" in NOT_APPLICABLE["defects"]
        untested += [number] if not has_test and not excused else []
        doubly += [number] if has_test and excused else []
    assert (untested, doubly) == ([], [])


@pytest.mark.parametrize("group", FAILURES_OF)
def test_every_failure_with_a_course_of_events_is_a_story(group):
    tests = found_in(FAILURES_OF[group])
    for failure in (each for each in FAILURES if each["group"] == group):
        number = failure["number"]
        told = any(re.match(rf"test_(failure_)?{number}_", name) for name in tests)
        reason = str(number) in NOT_APPLICABLE["failures"]
        assert told or reason, f"failure {number} is no story in {FAILURES_OF[group]}*.py and has no reason"
        assert told or not failure.get("sequence", True), f"failure {number} has a course of events: tell it"


def test_every_option_exists_with_its_default_or_has_a_reason():
    for option in OPTIONS:
        theirs = option["theirs"]
        if "ours" not in option:
            assert theirs in NOT_APPLICABLE["options"], theirs
            continue
        assert theirs not in NOT_APPLICABLE["options"], theirs
        outer, _, inner = option["ours"].partition(".")
        model = NESTED[outer] if inner else SimpleScheduler
        field = model.model_fields[inner or outer]
        if "default" in option:
            default = field.get_default(call_default_factory=True)
            assert (list(default) if isinstance(default, tuple) else default) == option["default"], theirs
        elif inner:
            assert field.is_required(), theirs
        else:
            assert getattr(DEFAULT_CONFIG, outer) is None, theirs


def test_what_is_not_applicable_is_known_and_says_why_in_one_sentence():
    known = {
        "options": {option["theirs"] for option in OPTIONS},
        "acceptance": {name for suite in SUITES for name in suite["ids"]},
        "defects": {f"{section['id']}.{number}" for section in SECTIONS for number in section["ids"]},
        "failures": {str(failure["number"]) for failure in FAILURES},
    }
    assert NOT_APPLICABLE.keys() == known.keys()
    for kind, reasons in NOT_APPLICABLE.items():
        assert reasons.keys() <= known[kind], f"unknown: {sorted(reasons.keys() - known[kind])}"
        for name, why in reasons.items():
            assert why.endswith("."), f"{name}: {why}"
            assert len(why) > 20, f"{name}: {why}"


def test_the_lists_hold_what_they_are_said_to_hold():
    """A list that lost lines would cover less without anybody noticing."""
    names = Counter()
    for suite in SUITES:
        names[suite["section"]] += len(suite["ids"])
    assert names == {"8.1": 33, "8.2": 24, "8.3": 37, "8.4": 22, "8.5": 38, "6.10": 33}
    assert {section["id"]: len(section["ids"]) for section in SECTIONS} == {
        "9.1": 7,
        "9.2": 9,
        "9.3": 6,
        "9.4": 7,
        "9.5": 11,
        "9.6": 16,
    }
    assert Counter(failure["group"] for failure in FAILURES) == {"B1": 14, "B2": 11, "B3": 11, "B4": 7, "B6": 9}
    assert Counter(option["section"] for option in OPTIONS) == {"1.1": 11, "1.4": 15}


def test_no_name_of_locality_is_excused():
    """Every one of them is a promise that the log can keep."""
    names = {name for suite in listed("locality")["suite"] for name in suite["ids"]}
    assert names & NOT_APPLICABLE["acceptance"].keys() == set()


def test_a_missing_test_would_be_seen():
    assert name_of_test("foo_test") == name_of_test("test_foo") == "test_foo"
    assert name_of_test("worker_receives_keep_alive_request_test") not in found_in("tests/stories/test_acceptance_8_4_")
    assert found_in("tests/stories/test_acceptance_8_1_")["test_find_executing_action"] == 1
