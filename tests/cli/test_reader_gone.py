"""What reads the output of a command ends before it, as `head` does: every command ends quietly then."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest


def _with_reader_gone(body: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Runs the command line with one more command, `probe`, made of `body`, into a pipe that nobody reads."""
    script = (
        "import sys, click, signal\n"
        "from streams.cli.main import main\n"
        "@main.command('probe')\n"
        f"def probe():\n{textwrap.indent(body, '    ')}\n"
        f"main({['probe', *arguments]!r}, prog_name='headway')\n"
    )
    # Buffered, as a pipe is unless somebody asked otherwise.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    read, write = os.pipe()
    os.close(read)
    try:
        return subprocess.run(
            [sys.executable, "-c", script], stdout=write, stderr=subprocess.PIPE, env=environment, check=False
        )
    finally:
        os.close(write)


@pytest.mark.parametrize(
    "body",
    ["click.echo('a line')", "sys.stdout.write('a line')", "sys.stdout.write('x' * 100_000)\nclick.echo('more')"],
    ids=["flushed", "left in the buffer", "in the middle"],
)
def test_a_command_whose_reader_has_gone_ends_quietly(body):
    ended = _with_reader_gone(body)
    assert (ended.returncode, ended.stderr) == (141, b"")


def test_a_command_that_ends_with_a_code_of_its_own_keeps_it_when_its_reader_has_gone():
    ended = _with_reader_gone("sys.stdout.write('differs'); sys.exit(3)")
    assert (ended.returncode, ended.stderr) == (3, b"")


def test_help_into_a_closed_pipe_ends_quietly():
    ended = _with_reader_gone("pass", "--help")
    assert (ended.returncode, ended.stderr) == (141, b"")
