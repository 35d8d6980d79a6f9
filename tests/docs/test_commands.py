"""Every `headway ...` command that the documentation or an error message names exists, with its options."""

from __future__ import annotations

import re
import shlex
import subprocess
from functools import cache
from pathlib import Path

import click
import pytest

from streams.cli.main import NOUNS, load, main

ROOT = Path(__file__).parents[2]

_QUOTED = re.compile(r"`(headway [^`\n]+)`")
_FENCED = re.compile(r"^\s*\$?\s*(headway [^#\n]+)", re.MULTILINE)
_FENCE = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def tracked(*suffixes: str) -> list[Path]:
    asked = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=False)
    if asked.returncode == 0:
        names = [name for name in asked.stdout.decode().split("\0") if name]
    else:
        names = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if ".venv" not in path.parts]
    return [ROOT / name for name in names if name.endswith(suffixes) and (ROOT / name).is_file()]


@cache
def mentions() -> list[tuple[str, str]]:
    """(where, command line) for everything in code style and in fenced blocks of documents."""
    found = []
    for path in tracked(".md", ".py"):
        if path.parent == Path(__file__).parent:
            continue
        text = path.read_text()
        commands = _QUOTED.findall(text)
        if path.suffix == ".md":
            commands += [line for block in _FENCE.findall(text) for line in _FENCED.findall(block)]
        found += [(str(path.relative_to(ROOT)), command.strip()) for command in commands]
    return found


def faults(line: str) -> str:
    """What is wrong with a command line; empty when nothing is. Placeholders in capitals stand for any value."""
    text = re.sub(r"\{[^}]*\}", "N", line)  # an f-string's field
    text = re.sub(r"\[[^\]]*\]|\.\.\.|…", " ", text)  # what is optional
    text = re.split(r"\s(?:\||>|<|&&|;)\s?", f"{text} ")[0]
    alternatives = [word.split("|") for word in shlex.split(text.replace(" | ", "|"))[1:]]
    command: click.Command = main
    context = click.Context(main)
    for words in alternatives:
        if all(word.startswith("-") and len(word) > 1 for word in words):
            names = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
            names |= {"-h", "--help"}
            wrong = [word for word in words if word.split("=")[0] not in names]
            if wrong:
                return f"{command.name} has no option {wrong[0]}"
        elif isinstance(command, click.Group):
            if words[0].isupper() or words[0] == "":
                return ""
            below = [
                load(word) if command is main and word in NOUNS else command.get_command(context, word)
                for word in words
            ]
            if None in below:
                return f"{command.name} has no command {words[below.index(None)]!r}"
            command = below[0]
    return ""


@pytest.mark.parametrize("where", sorted({where for where, _ in mentions()}))
def test_every_command_that_is_named_exists(where):
    wrong = {command: faults(command) for place, command in mentions() if place == where}
    assert {command: fault for command, fault in wrong.items() if fault} == {}


def test_commands_are_found_at_all():
    assert len(mentions()) > 20


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("headway topics apply --instance NAME[=SHARD]", ""),
        ("headway broker up | status | down [--reset]", ""),
        ("headway decider run --shard {shard}", ""),
        ("headway quue list", "main has no command 'quue'"),
        ("headway queue lst", "queue has no command 'lst'"),
        ("headway queue list --limt 3", "list has no option --limt"),
    ],
)
def test_the_check_finds_what_it_is_for(line, fault):
    assert faults(line) == fault
