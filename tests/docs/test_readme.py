"""The examples of README.md, run as they stand."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from streams.decider import Decider, DeciderOptions
from streams.kafka_log import KafkaLog
from streams.provisioning import provision

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"```{language}\n(.*?)```", README, re.S)


def environment(**more: str) -> dict[str, str]:
    """The interpreter's own commands first, as an activated environment has it."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), **more}


def test_the_facts_of_the_decide_example_yield_what_the_text_says() -> None:
    (example,) = [block for block in blocks("sh") if "headway decide" in block]
    done = subprocess.run(
        ["bash", "-c", example], capture_output=True, text=True, env=environment(), timeout=300, check=True
    )
    events = [json.loads(line) for line in done.stdout.splitlines()]
    last = events[-1]["cause_offset"]
    caused = [event for event in events if event["cause_offset"] == last]
    assert [event["kind"] for event in caused] == ["OperationFinished", "OperationDispatched"]
    queued = {
        event["operation_id"]: event["client_operation_id"] for event in events if event["kind"] == "OperationQueued"
    }
    assert queued[caused[1]["operation_id"]] == "b"


def test_the_program_is_a_dozen_statements_long() -> None:
    (program,) = blocks("python")
    assert len([line for line in program.splitlines() if line.strip()]) <= 12


def test_every_command_that_the_text_names_exists() -> None:
    named = set(re.findall(r"^headway ([a-z-]+)(?: ([a-z]+)\b)?", "\n".join(blocks("sh")), re.M))
    assert len(named) >= 8
    for noun, verb in sorted(named):
        words = [noun] if not verb or noun in ("up", "decide", "replay") else [noun, verb]
        done = subprocess.run(
            ["headway", *words, "--help"], capture_output=True, text=True, env=environment(), timeout=300, check=False
        )
        assert done.returncode == 0, f"headway {' '.join(words)}: {done.stderr}"


def test_every_file_that_the_text_names_exists() -> None:
    named = set(re.findall(r"`((?:tests|infra|streams|events|projections|proto)/[\w./-]*)`", README))
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


@pytest.mark.kafka
async def test_the_program_runs_against_a_real_broker_and_a_real_worker(kafka: str, tmp_path: Path) -> None:
    (program,) = blocks("python")
    log = KafkaLog(kafka)  # without a prefix: the program has none
    stop = asyncio.Event()
    try:
        await provision(log, {"main": 0})
        deciding = asyncio.create_task(Decider(log, 0, options=DeciderOptions(claim=True)).run(stop))
        settings = environment(HEADWAY_BOOTSTRAP_SERVERS=kafka, HEADWAY_HOME=str(tmp_path), HEADWAY_TOPIC_PREFIX="")
        arguments = ("worker", "run", "--cores", "1", "--memory-kib", "1048576")
        worker = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "streams.cli.main", *arguments), env=settings, stderr=asyncio.subprocess.DEVNULL
        )
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                program,
                env=settings,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            output, errors = await asyncio.wait_for(process.communicate(), 90)
            assert output.decode().strip() == "COMPLETED 3", errors.decode()
        finally:
            worker.kill()
            await worker.wait()
        stop.set()
        await asyncio.wait_for(deciding, 30)
    finally:
        stop.set()
        await log.close()
