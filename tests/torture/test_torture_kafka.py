"""The torture itself, small, on the real broker: sound, summarised with the promised keys, and gone without a trace."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
PROMISED = {
    *("seed", "kills", "actions", "finished", "lost", "doubled", "over_capacity", "seq_gaps", "chain_ok"),
    *("table_equals_replay", "requeued", "leader_epochs", "longest_takeover_s", "wall_s"),
}
STOP_WITHIN_S = 60.0


def start(kafka: str, tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    """A torture on the session's broker (with a topic prefix of its own), its home below `tmp_path`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
    environment |= {"HEADWAY_BROKER": "cluster", "HEADWAY_BOOTSTRAP_SERVERS": kafka, "TMPDIR": str(tmp_path)}
    return subprocess.Popen(
        [sys.executable, "-m", "streams.torture", *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_a_small_torture_is_sound_on_a_real_kafka(kafka, tmp_path):
    torture = start(kafka, tmp_path, "--kills", "6", "--actions", "200", "--seed", "2", "-o", "json")
    output, story = torture.communicate(timeout=300)
    assert torture.returncode == 0, output + story
    found = json.loads(output)
    assert found.keys() >= PROMISED
    assert found["seed"] == 2
    assert sum(found["kills"].values()) == 6
    assert all(found["kills"].values())
    assert (found["actions"], found["finished"]) == (200, 200)
    assert (found["lost"], found["doubled"], found["over_capacity"], found["seq_gaps"]) == (0, 0, 0, 0)
    assert (found["chain_ok"], found["table_equals_replay"]) == (True, True)
    assert found["states_differing"] == 0
    # The deaths were felt: runs were lost and begun again, and another leader took over.
    assert found["requeued"] > 0
    assert found["leader_epochs"] > 1
    assert story.startswith("seed 2;")
    assert story.count("SIGKILL ") == 6
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_an_interrupted_torture_leaves_nothing_behind(kafka, tmp_path):
    torture = start(kafka, tmp_path, "--kills", "6", "--actions", "200")
    children: list[psutil.Process] = []
    try:
        deadline = time.monotonic() + 120
        assert torture.stdout is not None
        for line in torture.stdout:
            if line.startswith("SIGKILL "):
                break
            assert time.monotonic() < deadline, "nothing was killed"
        children = psutil.Process(torture.pid).children(recursive=True)
        assert len(children) >= 6
        torture.send_signal(signal.SIGINT)
        rest, errors = torture.communicate(timeout=STOP_WITHIN_S)
        assert torture.returncode == 130, rest + errors
    finally:
        torture.kill()
        torture.wait()
    _, alive = psutil.wait_procs(children, timeout=10)
    assert alive == []
    assert list(tmp_path.iterdir()) == []
