"""Verifying in a process of its own: how it ends is told apart, and it does not outlive who asked."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import psutil
import pytest

from streams.memory_log import MemoryLog
from streams.snapshots import apart
from streams.snapshots.apart import NICE, VerifyingApart
from streams.snapshots.errors import NotVerified
from tests.streams.deciding import DEADLINE_S, until


def programme(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Let a Python program stand for the `headway` command."""
    monkeypatch.setattr(apart, "HEADWAY", (sys.executable, "-c", code))


async def verify(**environment: str) -> None:
    verifier = VerifyingApart({**os.environ, **environment})
    await asyncio.wait_for(verifier(MemoryLog(), 3, 77, "one/verifier"), DEADLINE_S)


async def test_it_runs_the_command_with_a_lower_priority_and_the_given_environment(monkeypatch, tmp_path) -> None:
    said = tmp_path / "said"
    programme(
        monkeypatch,
        "import json, os, sys; said = [sys.argv[1:], os.nice(0), os.environ['HEADWAY_TOPIC_PREFIX']]; "
        f"open({str(said)!r}, 'w').write(json.dumps(said))",
    )
    await verify(HEADWAY_TOPIC_PREFIX="p-")
    arguments, nice, prefix = json.loads(said.read_text())
    assert arguments == ["snapshot", "verify", "--shard", "3", "--seq", "77", "--report-as", "one/verifier"]
    assert nice == min(19, os.nice(0) + NICE)
    assert prefix == "p-"


@pytest.mark.parametrize(("code", "verdict"), [(0, True), (3, True), (1, False), (4, False)])
async def test_only_a_verdict_is_one(monkeypatch, code: int, verdict: bool) -> None:
    programme(monkeypatch, f"raise SystemExit({code})")
    if verdict:
        await verify()
        return
    with pytest.raises(NotVerified, match=f"exit code {code}, without a verdict"):
        await verify()


async def test_it_ends_with_who_asked(monkeypatch, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    programme(monkeypatch, f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)")
    asked = asyncio.create_task(verify())
    await until(lambda: pid.exists() and pid.read_text() != "", "it runs")
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert not psutil.pid_exists(int(pid.read_text()))
