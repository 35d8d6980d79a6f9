"""The audit stands alone: it shares no code with what it audits, knows every event and fact, and reads options as they are meant."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from events.config import DEFAULT_CONFIG, MemoryEscalation, canonical_config, parse_config
from projections.verify.auditor import DECIDED, KINDS, RULES
from projections.verify.catalogue import CATALOGUE
from projections.verify.folding import FOLDS
from projections.verify.options import DEFAULTS, ESCALATION_DEFAULTS, LOCALITY_DEFAULTS, Options, same_configuration
from proto.gen.headway.v1 import events_pb2, facts_pb2
from tests.properties.facts import CONFIGS

ROOT = Path(__file__).parents[2]
OWN = ("projections.verify", "proto.gen")
PLAIN = ("ast", "bisect", "collections", "dataclasses", "google", "hashlib", "heapq", "itertools", "json", "typing")


def foreign(text: str) -> list[str]:
    """What a file of the audit imports that is neither its own, nor the wire contract, nor plain Python."""
    names = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or ".")
    return [name for name in names if not name.startswith(OWN) and name.split(".")[0] not in PLAIN]


def test_the_audit_imports_nothing_of_what_it_audits():
    files = sorted((ROOT / "projections" / "verify").rglob("*.py"))
    assert len(files) > 10
    assert {file.name: names for file in files if (names := foreign(file.read_text()))} == {}


@pytest.mark.parametrize(
    "line", ["from events.fitting import may_take", "import events.evolve", "from projections.fold import fold"]
)
def test_such_an_import_would_be_found(line):
    assert len(foreign(line)) == 1


def test_every_kind_of_event_is_folded():
    kinds = {field.name for field in events_pb2.Event.DESCRIPTOR.oneofs_by_name["kind"].fields}
    assert set(FOLDS) == kinds
    assert kinds >= DECIDED


def test_every_kind_of_fact_is_judged():
    assert set(RULES) == {field.name for field in facts_pb2.Fact.DESCRIPTOR.oneofs_by_name["kind"].fields}
    assert KINDS["action_queued"] == "ActionQueued"


def test_options_that_are_not_given_have_the_models_values():
    whole = DEFAULT_CONFIG.model_dump(mode="json")
    locality = whole.pop("locality")
    assert {name: whole[name] for name in DEFAULTS} == DEFAULTS
    assert {name: locality[name] for name in LOCALITY_DEFAULTS} == LOCALITY_DEFAULTS
    assert MemoryEscalation().model_dump(mode="json") == ESCALATION_DEFAULTS
    assert set(whole) - set(DEFAULTS) == {"kind", "supported_platform_properties"}, "an option the audit does not know"


@pytest.mark.parametrize("text", CONFIGS)
def test_a_configuration_means_the_same_as_its_canonical_text(text):
    canonical = canonical_config(parse_config(text))
    assert same_configuration(text, canonical)
    for slot in Options.__slots__:
        if slot not in ("text", "steps"):
            assert getattr(Options(text), slot) == getattr(Options(canonical), slot), slot


def test_configurations_that_differ_are_told_apart():
    for one in CONFIGS:
        assert [other for other in CONFIGS if same_configuration(one, other)] == [one]


def test_the_document_lists_the_rules_as_they_are():
    text = (ROOT / "infra" / "docs" / "verifying.md").read_text()
    rows = re.findall(r"^\| (V\d\d) \| `(\w+)` \| (.+?) \| (.+?) \|$", text, re.MULTILINE)
    assert rows == [(rule.id, rule.name, rule.says, rule.source) for rule in CATALOGUE]


def test_names_of_rules_are_used_once():
    assert len({rule.name for rule in CATALOGUE}) == len({rule.id for rule in CATALOGUE}) == len(CATALOGUE)
