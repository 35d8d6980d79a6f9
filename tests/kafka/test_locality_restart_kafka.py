"""`infra/locality-restart`, small, on the real broker: kept, wiped, swept, made again from the log, and gone without a trace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROMISED = {
    *("first_right_answer_s", "lookups_after_the_restart_before_anyone_returned", "confirmed_before_anyone_returned"),
    *("same_epoch_keeps", "another_epoch_wipes", "unconfirmed_keeps_its_blobs_when_its_worker_times_out"),
    *("unconfirmed_when_recovered", "swept_after_the_recovery_s", "wiped", "swept"),
    *("answers_that_differ_once_made_from_the_log_alone", "table_equals_replay"),
}
PAIRS = 20_000


def perform(kafka: str, tmp_path: Path, *arguments: str) -> tuple[int, str, str]:
    """The scene on the session's broker (with a topic prefix of its own), its home below `tmp_path`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
    environment |= {"HEADWAY_BROKER": "cluster", "HEADWAY_BOOTSTRAP_SERVERS": kafka, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "streams.returning", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_a_scheduler_that_is_killed_knows_who_holds_what_and_who_returns_is_kept_wiped_or_swept(
    kafka: str, tmp_path: Path
) -> None:
    # The limit of the first answer is for a machine that does nothing else; here it only must come.
    code, output, story = perform(
        *(kafka, tmp_path, "--pairs", str(PAIRS), "--never-reconnect-s", "12", "--answer-within-s", "60"),
        *("--sample", "100", "-o", "json"),
    )
    assert code == 0, output + story
    found = json.loads(output)
    checks = {check["check"]: check for check in found["checks"]}
    assert checks.keys() >= PROMISED
    assert found["ok"]
    assert all(check["ok"] for check in checks.values())
    assert checks["swept"]["seen"] == [["stays-away", "NEVER_RECONNECTED"]]
    assert checks["same_epoch_keeps"]["seen"][0] == PAIRS // 3 + 1
    assert story.count("SIGKILL") == 2
    assert list(tmp_path.iterdir()) == []
