"""`headway blobs`: a store as a process, putting into it and getting from it, and what is said when that is not possible."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from streams.blobs.naming import digest_of, name_of
from streams.cli.main import main

LARGE = b"large" * 10_000


def headway(*arguments: str, url: str = "", code: int = 0) -> Result:
    result = CliRunner(env={"HEADWAY_BLOBS_URL": url}).invoke(main, arguments)
    assert result.exit_code == code, (result.output, result.exception)
    return result


class Serving:
    """A running `headway blobs serve`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self.url = process.stdout.readline().strip()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    command = [sys.executable, "-m", "streams.cli.main", "blobs", "serve", "--dir", str(tmp_path / "durable")]
    command += ["--listen", "127.0.0.1:0", "--no-announce"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    yield Serving(process)
    process.kill()
    process.communicate()


def test_blobs_are_put_and_got_and_durable_after_the_stop(serving: Serving, tmp_path: Path) -> None:
    assert serving.url.startswith("http://127.0.0.1:")
    files = {tmp_path / "small": b"small", tmp_path / "large": LARGE}
    for path, data in files.items():
        path.write_bytes(data)
    said = headway("blobs", "put", *map(str, files), url=serving.url).stdout
    assert said == "".join(f"{name_of(digest_of(data))}  {path}\n" for path, data in files.items())
    got = headway("blobs", "get", name_of(digest_of(LARGE)), url=serving.url)
    assert got.stdout_bytes == LARGE
    target = tmp_path / "got"
    headway("blobs", "get", name_of(digest_of(b"small")), "--to", str(target), "--blobs-url", serving.url)
    assert target.read_bytes() == b"small"
    assert os.access(target, os.W_OK)
    assert serving.stop() == 0
    kept = {path.name for path in (tmp_path / "durable" / "blobs").rglob("*") if path.is_file()}
    assert kept == {name_of(digest_of(data)) for data in files.values()}


def test_a_second_store_does_not_take_the_directory_of_the_first(serving: Serving, tmp_path: Path) -> None:
    arguments = ("blobs", "serve", "--dir", str(tmp_path / "durable"), "--no-announce")
    assert "blob-directory-in-use" in headway(*arguments, code=1).stderr


def test_one_directory_for_both_tiers_is_refused_for_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "durable")
    for fast in (tmp_path / "durable", tmp_path / "link", tmp_path / "x" / ".." / "durable"):
        folders = ("--dir", str(tmp_path / "durable"), "--fast-dir", str(fast))
        said = headway("blobs", "serve", *folders, "--no-announce", code=1).stderr
        assert "same-blob-directory" in said
        assert "--dir and --fast-dir are one directory" in said


def test_a_blob_that_is_not_there_is_exit_code_4_and_nothing_is_written(serving: Serving, tmp_path: Path) -> None:
    target = tmp_path / "got"
    name = name_of(digest_of(b"absent"))
    result = headway("blobs", "get", name, "--to", str(target), url=serving.url, code=4)
    assert f"blob {name} is not in the store" in result.stderr
    assert not target.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["durable"]


def test_what_is_no_digest_no_store_or_no_address_is_said(tmp_path: Path) -> None:
    name = name_of(digest_of(b"x"))
    assert "64 hex digits" in headway("blobs", "get", "abc", url="http://127.0.0.1:9", code=1).stderr
    assert "HEADWAY_BLOBS_URL" in headway("blobs", "get", name, code=2).stderr
    assert "blob-store-failed" in headway("blobs", "get", name, url="http://127.0.0.1:9", code=1).stderr
    assert "not http://HOST:PORT" in headway("blobs", "get", name, "--blobs-url", "ftp://x", code=2).stderr
    assert "HEADWAY_BLOBS_URL" in headway("blobs", "get", name, url="nonsense", code=1).stderr
    bad = ("blobs", "serve", "--dir", str(tmp_path / "d"), "--no-announce", "--listen")
    assert "not HOST:PORT" in headway(*bad, "8089", code=2).stderr
    assert "not HOST:PORT" in headway(*bad, "host:70000", code=2).stderr


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--simulate", "--blobs-dir", "d"), "--blobs-dir does not go with --simulate"),
        (("--blobs-url", "http://h:1"), "go with --blobs-dir"),
        (("--blobs-dir", "d", "--blobs-listen", "0.0.0.0:0"), "--blobs-advertise"),
        (("--blobs-dir", "d", "--blobs-listen", "8089"), "not HOST:PORT"),
    ],
)
def test_options_of_a_worker_that_do_not_go_together_are_refused(more: tuple[str, ...], said: str) -> None:
    assert said in headway("worker", "run", "--cores", "1", "--memory-kib", "1024", *more, code=2).stderr
