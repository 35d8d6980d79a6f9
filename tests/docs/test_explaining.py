"""The examples of infra/docs/explaining.md, run as they stand, print what the text says they do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "infra" / "docs" / "explaining.md").read_text()


def test_the_example_tells_what_the_page_says(tmp_path):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    settings = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "HEADWAY_HOME": str(tmp_path / "home")}
    commands = re.findall(r"```sh\n(.*?)```", PAGE, re.S)
    said = re.findall(r"```text\n(.*?)```", PAGE, re.S)
    assert len(commands) == len(said) == 2
    for command, wanted in zip(commands, said, strict=True):
        done = subprocess.run(
            ["bash", "-ec", command],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=settings,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        told = done.stdout[done.stdout.index(wanted.split("\n", 1)[0]) :]
        assert told.strip() == wanted.strip()
