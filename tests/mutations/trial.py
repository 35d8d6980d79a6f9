"""Trials: a mutation in a copy of the tree, and the one test that must turn red there. The tree itself is never touched."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory

from tests.mutations.catalogue import InvalidCatalogue, Mutation

COPIED = ("proto", "events", "projections", "streams", "infra", "tests", "pyproject.toml", "README.md")
LONGEST_S = 120.0
"""A test that runs longer under a mutation hangs, which is as good as red."""

OUTPUT_LINES = 12
PASSED, FAILED = 0, 1  # pytest's exit codes


class Verdict(StrEnum):
    """What a trial showed."""

    RED = "red"
    HANGS = "hangs"
    GREEN = "green"  # the mutation stayed unnoticed
    UNJUDGED = "unjudged"  # the test fails without the mutation too, or does not run at all


@dataclass(frozen=True, slots=True)
class Trial:
    """One mutation, and what became of its test; `output` is the end of what pytest said where the verdict is not red."""

    mutation: Mutation
    verdict: Verdict
    output: str = ""


class Copy:
    """A copy of the tree in which tests run, one at a time."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder
        for name in COPIED:
            source = root / name
            if source.is_dir():
                # Compiled files too: they make the start quicker, and Python checks each against its source.
                shutil.copytree(source, folder / name, symlinks=True)
            elif source.is_file():
                shutil.copy2(source, folder / name)

    def run(self, tests: Iterable[str]) -> tuple[int | None, str]:
        """pytest's exit code on `tests` (None: it hung) and the end of its output."""
        command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-p", "no:cacheprovider", *tests]
        path = str(self.folder)
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )
        try:
            output, _ = process.communicate(timeout=LONGEST_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            return None, _end_of(output)
        return process.returncode, _end_of(output)

    @contextmanager
    def mutated(self, mutation: Mutation) -> Iterator[None]:
        """The copy with one mutation in it."""
        path = self.folder / mutation.file
        text, stat = path.read_text(), path.stat()
        path.write_text(mutation.applied_to(text))
        # Another time than the compiled file knows, even within the same second and at the same size.
        os.utime(path, (stat.st_atime, stat.st_mtime + 3600))
        try:
            yield
        finally:
            path.write_text(text)
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def _end_of(output: str) -> str:
    return "\n".join(output.strip().splitlines()[-OUTPUT_LINES:])


def _try(copy: Copy, mutation: Mutation, known_green: bool) -> Trial:
    if not known_green:
        code, output = copy.run([mutation.test])
        if code != PASSED:
            return Trial(mutation, Verdict.UNJUDGED, f"without the mutation:\n{output}")
    try:
        with copy.mutated(mutation):
            code, output = copy.run([mutation.test])
    except (InvalidCatalogue, OSError) as error:
        return Trial(mutation, Verdict.UNJUDGED, str(error))
    if code is None:
        return Trial(mutation, Verdict.HANGS)
    if code == FAILED:
        return Trial(mutation, Verdict.RED)
    return Trial(mutation, Verdict.GREEN if code == PASSED else Verdict.UNJUDGED, output)


def try_all(root: Path, mutations: Iterable[Mutation], jobs: int) -> Iterator[Trial]:
    """Try every mutation, `jobs` at a time, each job in a copy of its own; trials come in the order of `mutations`.

    A test is also run without the mutation: all of them at once, and where that is not green each before its own trial.
    """
    mutations = list(mutations)
    with TemporaryDirectory(prefix="headway-mutate-") as temporary:
        copies: SimpleQueue[Copy] = SimpleQueue()
        for number in range(jobs):
            folder = Path(temporary) / str(number)
            folder.mkdir()
            copies.put(Copy(root, folder))
        first = copies.get()
        known_green = first.run(dict.fromkeys(mutation.test for mutation in mutations))[0] == PASSED
        copies.put(first)

        def trial(mutation: Mutation) -> Trial:
            copy = copies.get()
            try:
                return _try(copy, mutation, known_green)
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(jobs) as pool:
            yield from pool.map(trial, mutations)
