"""Runs of real processes: what they get, how they end, what is kept of their output, and that nothing of them stays."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from events.payloads import Command, EnvironmentVariable
from events.reasons import RunResult
from streams.worker import warden
from streams.worker.process import ProcessRun
from streams.worker.protocol import RunReport
from streams.worker.secret_source import SecretMissing, SecretSource
from streams.worker.tails import TAIL_BYTES, Masking, Tail

PATH = os.environ["PATH"]


def run_of(root: Path, *argv: str, env: tuple[EnvironmentVariable, ...] = (), **options: object) -> ProcessRun:
    settings: dict[str, object] = {"secrets": SecretSource(), "path": PATH, "grace_s": 0.3, **options}
    return ProcessRun(7, Command(argv, env), root=root, **settings)  # type: ignore[arg-type]


def sh(root: Path, script: str, **options: object) -> RunReport:
    return run_of(root, "/bin/sh", "-c", script, **options).run()  # type: ignore[arg-type]


def wait_until(true: Callable[[], bool], deadline_s: float = 10) -> None:
    until = time.monotonic() + deadline_s
    while not true():
        assert time.monotonic() < until, "it did not come about in time"
        threading.Event().wait(0.01)


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and that nobody has reaped does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_exit_code_and_output_are_reported(tmp_path: Path) -> None:
    report = sh(tmp_path, "echo out; echo err >&2; exit 3")
    assert (report.result, report.exit_code) == (RunResult.EXITED, 3)
    assert (report.stdout_tail, report.stderr_tail) == (b"out\n", b"err\n")


def test_an_end_by_a_signal_is_named(tmp_path: Path) -> None:
    report = sh(tmp_path, "kill -SEGV $$")
    assert (report.result, report.exit_code, report.message) == (RunResult.EXITED, -11, "ended by SIGSEGV")


def test_the_environment_is_what_the_action_says_and_path(tmp_path: Path) -> None:
    script = "import os; print(dict(os.environ))"
    report = run_of(tmp_path, sys.executable, "-I", "-c", script, env=(EnvironmentVariable("A", "b c"),)).run()
    seen = eval(report.stdout_tail)
    assert {name: value for name, value in seen.items() if name != "LC_CTYPE"} == {"A": "b c", "PATH": PATH}


def test_the_directory_is_fresh_named_by_the_dispatch_and_removed(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "left-over").touch()
    report = sh(tmp_path, "pwd; ls -A; touch mine; mkdir deep; touch deep/er")
    assert report.stdout_tail.decode().split() == [str(tmp_path / "7")]
    assert list(tmp_path.iterdir()) == []


def test_standard_input_is_empty_and_no_other_file_is_open(tmp_path: Path) -> None:
    report = sh(tmp_path, "cat; ls /proc/self/fd | wc -l")
    assert report.stdout_tail.split() == [b"4"], "0, 1, 2, and the directory that ls itself reads"


def test_only_the_end_of_a_long_output_is_kept(tmp_path: Path) -> None:
    report = sh(tmp_path, "i=0; while [ $i -lt 40000 ]; do echo $i; i=$((i+1)); done; echo end >&2")
    assert len(report.stdout_tail) == TAIL_BYTES
    assert report.stdout_tail.endswith(b"39998\n39999\n")
    assert report.stderr_tail == b"end\n"


def test_a_timeout_ends_the_whole_group(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    begun = time.monotonic()
    report = sh(tmp_path, f"sleep 60 & echo $! >> {pids}; echo $$ >> {pids}; echo begun; wait", timeout_us=300_000)
    assert report.result is RunResult.TIMED_OUT
    assert report.stdout_tail == b"begun\n"
    assert 0.3 <= time.monotonic() - begun < 5
    for pid in pids.read_text().split():
        wait_until(lambda pid=pid: not alive(int(pid)))  # type: ignore[misc]


def test_a_group_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    begun = time.monotonic()
    report = sh(tmp_path, "trap '' TERM; while :; do sleep 0.05; done", timeout_us=100_000)
    assert (report.result, report.exit_code) == (RunResult.TIMED_OUT, -9)
    assert 0.4 <= time.monotonic() - begun < 5


def test_a_run_may_tidy_up_on_sigterm(tmp_path: Path) -> None:
    report = sh(tmp_path, "trap 'echo tidied; exit 5' TERM; sleep 60 & wait", timeout_us=200_000, grace_s=10.0)
    assert (report.result, report.exit_code, report.stdout_tail) == (RunResult.TIMED_OUT, 5, b"tidied\n")


def test_a_stop_ends_the_run_as_killed(tmp_path: Path) -> None:
    started = tmp_path / "started"
    run = run_of(tmp_path, "/bin/sh", "-c", f"touch {started}; sleep 60")
    reports: list[RunReport] = []
    thread = threading.Thread(target=lambda: reports.append(run.run()))
    thread.start()
    wait_until(started.exists)
    run.stop()
    thread.join(10)
    assert reports[0].result is RunResult.KILLED
    run.stop()  # late: nothing happens


def test_a_stop_before_the_start_is_not_lost(tmp_path: Path) -> None:
    run = run_of(tmp_path, "sleep", "60")
    run.stop()
    begun = time.monotonic()
    assert run.run().result is RunResult.KILLED
    assert time.monotonic() - begun < 10


def test_what_a_run_leaves_in_its_group_ends_with_it(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    report = sh(tmp_path, f"sleep 60 & echo $! > {pid}; exit 0")
    assert (report.result, report.exit_code) == (RunResult.EXITED, 0)
    wait_until(lambda: not alive(int(pid.read_text())))


@pytest.mark.skipif(shutil.which("setsid") is None, reason="needs the setsid command")
def test_one_that_left_the_group_and_holds_the_output_does_not_hold_the_report(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    script = f"setsid sh -c 'echo $$ > {pid}; sleep 60' & while [ ! -s {pid} ]; do :; done; echo out"
    begun = time.monotonic()
    try:
        report = sh(tmp_path, script)
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)
    assert report.stdout_tail == b"out\n"
    assert time.monotonic() - begun < 5


def test_use_is_measured(tmp_path: Path) -> None:
    script = (
        "import time; held = bytearray(150 << 20); t = time.process_time()\n"
        "while time.process_time() - t < 0.2: pass\n"
        "time.sleep(1.5)"  # longer than the longest time between two samples
    )
    report = run_of(tmp_path, sys.executable, "-I", "-c", script).run()
    assert report.result is RunResult.EXITED, report.stderr_tail
    assert report.usage.wall_us >= 200_000
    assert 200_000 <= report.usage.cpu_us < 5_000_000
    assert 150 << 10 <= report.usage.peak_memory_kib < 400 << 10


def test_the_memory_of_the_worker_is_not_taken_for_the_runs(tmp_path: Path) -> None:
    held = bytearray(200 << 20)
    report = sh(tmp_path, "sleep 0.1")
    assert report.usage.peak_memory_kib < 50 << 10
    assert len(held) == 200 << 20


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ((), "has no command"),
        (("no-such-program-here",), "program 'no-such-program-here' is not on this worker"),
        (("/no/such/program",), "program '/no/such/program' is not on this worker"),
        (("./relative",), "give an absolute path or a bare name"),
        (("true", "x" * 4_000_000), "Argument list too long"),
    ],
)
def test_what_cannot_be_started_is_a_failed_precondition(tmp_path: Path, argv: tuple[str, ...], said: str) -> None:
    report = run_of(tmp_path, *argv).run()
    assert report.result is RunResult.FAILED_PRECONDITION
    assert said in report.message
    assert list(tmp_path.iterdir()) == []


def test_a_script_without_its_interpreter_is_a_failed_precondition(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    report = run_of(tmp_path / "root", str(script)).run()
    assert report.result is RunResult.FAILED_PRECONDITION
    assert "cannot be started" in report.message


def test_a_worker_that_cannot_make_a_directory_says_an_internal_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    report = run_of(tmp_path / "file", "true").run()
    assert report.result is RunResult.INTERNAL_ERROR


# -- secrets ----------------------------------------------------------------------------------------------------------------


def test_a_secret_reaches_the_command_and_not_the_report(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cr3t-value\n")
    secrets = SecretSource(tmp_path, {"HEADWAY_SECRET_DB_PASSWORD": "hunter2"})
    variables = (EnvironmentVariable("T", secret="token"), EnvironmentVariable("P", secret="db.password"))
    script = '[ "$T" = s3cr3t-value ] && echo "got $T and $P"; echo "err $P" >&2'
    report = run_of(tmp_path / "root", "/bin/sh", "-c", script, env=variables, secrets=secrets).run()
    assert report.stdout_tail == b"got *** and ***\n"
    assert report.stderr_tail == b"err ***\n"


def test_a_missing_secret_is_a_failed_precondition_that_names_it(tmp_path: Path) -> None:
    variables = (EnvironmentVariable("A", secret="there"), EnvironmentVariable("B", secret="absent"))
    (tmp_path / "there").write_text("a-value")
    report = run_of(tmp_path / "root", "true", env=variables, secrets=SecretSource(tmp_path)).run()
    assert report.result is RunResult.FAILED_PRECONDITION
    assert "'absent'" in report.message
    assert "HEADWAY_SECRET_ABSENT" in report.message
    assert "a-value" not in report.message


@pytest.mark.parametrize("name", ["../token", "/etc/passwd", "a/b", "", ".hidden", "x" * 129, "-rf"])
def test_the_name_of_a_secret_is_no_path(tmp_path: Path, name: str) -> None:
    (tmp_path / "token").write_text("x")
    (tmp_path / "dir").mkdir()
    with pytest.raises(SecretMissing, match="is no name of a secret"):
        SecretSource(tmp_path / "dir").value(name)


def test_a_secret_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    with pytest.raises(SecretMissing, match="cannot be read"):
        SecretSource(tmp_path).value("directory")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(SecretMissing, match="not UTF-8"):
        SecretSource(tmp_path).value("binary")


def test_a_secret_across_the_cut_of_a_tail_does_not_show() -> None:
    secret = "0123456789abcdef"
    for before in range(60):
        for pieces in (1, 7, 64):
            tail = Tail(Masking([secret]), limit=20)
            data = b"-" * before + secret.encode() + b"+" * 12
            for start in range(0, len(data), pieces):
                tail.add(data[start : start + pieces])
            value = tail.value()
            assert len(value) <= 20
            assert not any(secret[at : at + 2].encode() in value for at in range(len(secret) - 1)), (
                before,
                pieces,
                value,
            )
            assert value.endswith(b"***" + b"+" * 12)


def test_of_two_secrets_the_longer_is_masked_whole() -> None:
    assert Masking(["abc", "abcdef", ""]).mask(b"abcdef abc") == b"*** ***"


# -- the warden -------------------------------------------------------------------------------------------------------------


def test_a_worker_that_is_killed_leaves_neither_processes_nor_directories(tmp_path: Path) -> None:
    root, pids = tmp_path / "root", tmp_path / "pids"
    program = f"""
import asyncio
from pathlib import Path
from events.payloads import Command
from streams.placements import ActionPlaced
from streams.worker.executors import ProcessExecutor
from streams.worker.secret_source import SecretSource

async def main():
    executor = ProcessExecutor(SecretSource(), root=Path({str(root)!r}))
    script = "echo $$ >> {pids}; sh -c 'echo $$ >> {pids}; sleep 600' & "
    script += "setsid sh -c 'echo $$ >> {pids}; sleep 600' & wait"
    for number in (1, 2):
        placed = ActionPlaced("main", number, "c", number, "w", 1, command=Command(("/bin/sh", "-c", script)))
        executor.start(placed, lambda dispatch_id, report: None)
    await asyncio.sleep(600)

asyncio.run(main())
"""
    root.mkdir()
    worker = subprocess.Popen([sys.executable, "-c", program], cwd=Path(__file__).parents[2])
    try:
        wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 6, 30)
    finally:
        worker.kill()
        worker.wait()
    for pid in map(int, pids.read_text().split()):
        wait_until(lambda pid=pid: not alive(pid))  # type: ignore[misc]
    wait_until(lambda: not root.exists())


def test_the_warden_leaves_groups_alone_that_were_taken_back(tmp_path: Path) -> None:
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        warden.watch([f"+{process.pid}\n", f"-{process.pid}\n"], tmp_path / "root")
        assert process.poll() is None
        warden.watch([f"+{process.pid}\n"], tmp_path / "root")
        assert process.wait(10) == -9
    finally:
        process.kill()
        process.wait()
