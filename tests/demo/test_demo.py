"""The demonstration itself, on the real broker and in a hurry: sound, summarised with the promised keys, and gone without a trace."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from streams.export import ExportLog

ROOT = Path(__file__).parents[2]
DEADLINE_S = 600
KEYS = [
    "placed", "finished", "lost", "doubled", "requeued", "seq_gaps", "table_equals_replay", "wait_s", "broker", "wall_s",
    "hold",
]  # fmt: skip


def start(kafka: str, tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    """The demonstration on the session's broker (with a topic prefix of its own), its home below `tmp_path`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
    environment |= {"HEADWAY_BROKER": "cluster", "HEADWAY_BOOTSTRAP_SERVERS": kafka, "TMPDIR": str(tmp_path)}
    return subprocess.Popen(
        [sys.executable, "-m", "streams.demo", *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.slow
def test_the_demonstration_is_sound_on_a_real_kafka(kafka, tmp_path):
    summary = tmp_path / "summary.json"
    demo = start(kafka, tmp_path, "--span", "12", "--summary", str(summary))
    output, _ = demo.communicate(timeout=DEADLINE_S)
    assert demo.returncode == 0, output
    found = json.loads(summary.read_text())
    assert list(found) == KEYS
    assert list(found["wait_s"]) == ["p50", "p95", "max"]
    assert (found["placed"], found["finished"]) == (724, 724)
    assert (found["lost"], found["doubled"], found["seq_gaps"]) == (0, 0, 0)
    assert found["table_equals_replay"] is True
    assert found["broker"]["kind"] == "cluster"
    assert 12 < found["wall_s"] < DEADLINE_S
    assert "SIGKILL to the decider" in output
    # On a starved machine leadership may move once more than the kill makes it.
    takers = ("the standby took over", "the supervisor started the decider again", "a decider took over")
    assert any(taker in output for taker in takers)
    assert "nobody decided in between" in output
    assert "verified by another fold, 0 contradicted" in output
    assert "24 of 24 ran with exit code 0" in output
    why, _, rest = output.split("Why the longest wait was so long:\n")[1].partition(
        "\nThe same without a hold and with one"
    )
    assert len(why.strip().splitlines()) == 5
    told, _, command = rest.partition("The hold, in five lines:\n")[2].partition("\n\n")
    assert len(told.splitlines()) == 5
    assert "core-seconds kept idle" in told.splitlines()[-1]
    what_if = shlex.split(command.strip().splitlines()[-1])
    assert what_if[:2] == ["headway", "what-if"]
    exported = Path(what_if[what_if.index("--file") + 1])
    assert ExportLog(exported).shards == (0,)
    decided = subprocess.run(
        [sys.executable, "-m", "streams.cli.main", *what_if[1:], "-o", "json"], cwd=ROOT, capture_output=True, text=True
    )
    assert decided.returncode == 0, decided.stderr
    assert json.loads(decided.stdout)
    assert "headway explain operation large-without-hold" in output
    assert found["hold"]["made"] >= 1
    assert found["hold"]["released"].get("placed", 0) >= 1
    assert found["hold"]["large_wait_s"]["with"] < found["hold"]["large_wait_s"]["without"] / 2
    assert list(tmp_path.glob("headway-demo-*")) == []


@pytest.mark.slow
def test_ctrl_c_ends_everything_it_started(kafka, tmp_path):
    demo = start(kafka, tmp_path)
    assert demo.stdout is not None
    deadline = time.monotonic() + DEADLINE_S
    for line in demo.stdout:
        if line.startswith("workers: "):
            break
        assert time.monotonic() < deadline
    children = psutil.Process(demo.pid).children(recursive=True)
    assert len(children) >= 5
    demo.send_signal(signal.SIGINT)
    output, _ = demo.communicate(timeout=DEADLINE_S)
    assert demo.returncode == 130, output
    assert [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE] == []
    assert list(tmp_path.glob("headway-demo-*")) == []
