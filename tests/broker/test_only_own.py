"""Whoever brought a broker up may take down only that one, not another that was started in the home since."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from streams.broker import BrokerSettings, bring_down
from streams.broker.processes import ProcessMark, is_own, start_detached
from streams.broker.record import BrokerRecord, KafkaHome, new_cluster_id
from streams.cli import up
from streams.settings import Settings


@pytest.fixture
def place(tmp_path: Path) -> KafkaHome:
    """A home with the record of a broker that was stopped."""
    made = KafkaHome(tmp_path / "home")
    with made.locked():
        made.write(BrokerRecord("jvm", new_cluster_id(), 9092, 9093))
    return made


def command(place: KafkaHome) -> list[str]:
    """A process that counts as the broker of this home: it has the arguments that only that one has."""
    return [sys.executable, "-c", "import time; time.sleep(600)", "kafka.Kafka", str(place.properties)]


def mark_of(pid: int) -> ProcessMark:
    return ProcessMark(pid, round(psutil.Process(pid).create_time() * 1000))


@pytest.fixture
def foreign(place: KafkaHome) -> Iterator[ProcessMark]:
    """The broker of the home, started by a process that has ended since."""
    script = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid)"
    started = subprocess.run(
        [sys.executable, "-c", script, *command(place)], capture_output=True, text=True, check=True
    )
    mark = mark_of(int(started.stdout))
    yield mark
    if psutil.pid_exists(mark.pid):
        psutil.Process(mark.pid).kill()


SETTINGS = BrokerSettings(environment={})


def recorded(place: KafkaHome, mark: ProcessMark) -> None:
    record = place.read()
    assert record is not None
    place.write(record.with_process(mark))


def test_the_broker_of_another_process_runs_on_and_that_is_said(place: KafkaHome, foreign: ProcessMark) -> None:
    recorded(place, foreign)
    said: list[str] = []
    assert bring_down(place.home, only_own=True, say=said.append, settings=SETTINGS) is False
    assert psutil.Process(foreign.pid).status() != psutil.STATUS_ZOMBIE
    assert (
        [line for line in said if f"pid {foreign.pid}" in line and "started by another process" in line] == said != []
    )
    record = place.read()
    assert record is not None
    assert record.process == foreign
    assert bring_down(place.home, say=said.append, settings=SETTINGS) is True


def test_the_own_broker_is_stopped(place: KafkaHome, tmp_path: Path) -> None:
    mark = start_detached(command(place), log=tmp_path / "out.log", environment=os.environ)
    recorded(place, mark)
    assert is_own(mark)
    assert not is_own(replace(mark, started_at_ms=mark.started_at_ms - 60_000))
    assert bring_down(place.home, only_own=True, settings=SETTINGS) is True
    assert not psutil.pid_exists(mark.pid)
    assert not is_own(mark)


def test_up_leaves_a_broker_that_replaced_its_own(
    place: KafkaHome, foreign: ProcessMark, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def replaced(*_: object, **__: object) -> None:
        # While `up` ran, its broker was stopped by hand and another brought up.
        recorded(place, foreign)
        raise KeyboardInterrupt

    monkeypatch.delenv("HEADWAY_BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.setattr(up, "_runs_already", lambda *_: False)
    monkeypatch.setattr(up, "check_port", lambda *_: None)
    monkeypatch.setattr(up, "bring_up", replaced)
    up._run_on_kafka(Settings(home=place.home), {}, None, keep_broker=False, logs="files")
    assert psutil.pid_exists(foreign.pid)
    said = capsys.readouterr().err
    assert f"pid {foreign.pid}) was started by another process" in said
    assert "stopped; its data stay" not in said
