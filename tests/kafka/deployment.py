"""The operator's commands as processes against a real broker, each test with a log of its own on it."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

from streams.broker.ports import free_ports

DEADLINE_S = 120.0
COMMAND = [sys.executable, "-m", "streams.cli.main"]


class Deployment:
    """A log of its own on the session's broker, with the parts that a test starts."""

    def __init__(self, kafka: str, home: Path) -> None:
        self.home = home
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
        self.environment = {
            **inherited,
            "HEADWAY_HOME": str(home),
            "HEADWAY_BOOTSTRAP_SERVERS": kafka,
            "HEADWAY_TOPIC_PREFIX": f"cli-{secrets.token_hex(4)}.",
            "HEADWAY_WEB_PORT": str(next(free_ports(20_087))),
        }
        self.parts: list[subprocess.Popen[bytes]] = []

    def start(self, *arguments: str) -> None:
        log = (self.home / f"{len(self.parts)}.log").open("wb")
        self.parts.append(subprocess.Popen([*COMMAND, *arguments], env=self.environment, stdout=log, stderr=log))

    def run(self, *arguments: str, code: int = 0, stdin: str = "") -> str:
        done = subprocess.run(
            [*COMMAND, *arguments],
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert done.returncode == code, f"{arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout if code == 0 else done.stderr

    def json(self, *arguments: str, stdin: str = "") -> dict[str, object]:
        return json.loads(self.run(*arguments, "-o", "json", stdin=stdin))

    def until(self, what: str, holds) -> None:
        """Ask again until `holds()`; a command that fails meanwhile (the table is starting) is asked again too."""
        deadline = time.monotonic() + DEADLINE_S
        said: object = None
        while time.monotonic() < deadline:
            try:
                if holds():
                    return
            except AssertionError as error:
                said = error
            time.sleep(0.2)
        raise AssertionError(f"{what} did not happen within {DEADLINE_S} s: {said}")

    def stop(self) -> None:
        for part in reversed(self.parts):
            part.send_signal(signal.SIGTERM)
        for part in self.parts:
            try:
                part.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                part.kill()
                part.wait()
