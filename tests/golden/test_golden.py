"""Histories that released builds wrote are read, verified and decided again by this one; the forged one fails, where it was forged."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from streams.export import ExportLog
from streams.verifying import Verified, verify
from tests.verify.forging import rule_of

HERE = Path(__file__).parent
EXPECTED = "expected.json"
DIRECTORIES = sorted(path.parent for path in HERE.glob("*/*/manifest.json"))
SOUND = [path for path in DIRECTORIES if not (path / EXPECTED).exists()]
FORGED = [path for path in DIRECTORIES if (path / EXPECTED).exists()]


def verified(directory: Path, *, redecide: bool = True) -> Verified:
    async def read() -> Verified:
        log = ExportLog(directory)
        try:
            return await verify(log, 0, redecide=redecide)
        finally:
            await log.close()

    return asyncio.run(read())


def name_of(directory: Path) -> str:
    return str(directory.relative_to(HERE))


@pytest.mark.parametrize("directory", SOUND, ids=name_of)
def test_a_history_of_a_release_follows_and_is_decided_the_same(directory):
    found = verified(directory)
    assert [(rule_of(f), f.seq, f.expected, f.found) for f in found.findings] == []
    assert found.audit.facts_from_seq is not None, "with its facts"
    assert found.redecided is not None
    assert (found.redecided.divergences, found.redecided.broken) == ([], "")
    assert found.sound


@pytest.mark.parametrize("directory", FORGED, ids=name_of)
def test_the_forged_history_of_a_release_fails_where_it_was_forged(directory):
    found = verified(directory)
    expected = json.loads((directory / EXPECTED).read_text())
    assert (rule_of(found.findings[0]), found.findings[0].seq) == (expected["rule"], expected["seq"])
    assert found.redecided is not None
    assert found.redecided.divergences[0].seq == expected["seq"]
    assert not found.sound


def test_every_release_has_histories_of_both_sorts():
    releases = sorted(path for path in HERE.iterdir() if path.is_dir() and path.name[0].isdigit())
    assert releases
    for release in releases:
        assert len([path for path in SOUND if path.parent == release]) >= 5, release.name
        assert len([path for path in FORGED if path.parent == release]) == 1, release.name
