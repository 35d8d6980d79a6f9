"""The rooms and their doors: imports go one way, and the pure rooms import nothing that sees the world."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("proto", "events", "projections", "streams")
"""Each may import itself and what stands before it."""

PURE = ("events", "projections")

WORLD = {
    "asyncio", "builtins.open", "concurrent", "ctypes", "datetime", "getpass", "glob", "http", "importlib", "io", "locale", "logging",
    "multiprocessing", "os", "pathlib", "platform", "psutil", "queue", "random", "secrets", "select", "selectors", "shutil", "signal",
    "socket", "ssl", "subprocess", "sys", "tempfile", "time", "urllib", "uuid", "warnings",
    "aiohttp", "aiokafka", "click", "faust", "mode", "requests", "rich", "rocksdict", "pydantic_settings",
}  # fmt: skip
"""A clock, randomness, I/O, logging, the environment: whatever could make two folds of the same events differ."""

WORLDLY_CALLS = {"open", "print", "input", "breakpoint", "exec", "eval", "__import__", "id", "hash"}
"""`hash` and `id` too: they differ from process to process."""


def sources(room: str) -> list[Path]:
    return [path for path in sorted((ROOT / room).rglob("*.py")) if "gen" not in path.relative_to(ROOT).parts]


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, "." * node.level + (node.module or "")


def wrong_directions(room: str, text: str) -> list[str]:
    allowed = ROOMS[: ROOMS.index(room) + 1]
    found = []
    for line, name in imported(ast.parse(text)):
        top = name.split(".")[0]
        if name.startswith("."):
            found.append(f"{line}: relative import {name}; rooms import by their full names")
        elif (top in ROOMS and top not in allowed) or top in ("tests", "infra"):
            found.append(f"{line}: {room} may not import {name}")
    return found


def worldly(text: str) -> list[str]:
    tree = ast.parse(text)
    found = [f"{line}: imports {name}" for line, name in imported(tree) if name.split(".")[0] in WORLD]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in WORLDLY_CALLS:
            found.append(f"{node.lineno}: calls {node.func.id}()")
    return found


def iterated_sets(text: str) -> list[str]:
    """Loops over an expression that is a set in plain sight; its order differs from process to process."""
    iterables = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.For | ast.AsyncFor):
            iterables.append(node.iter)
        elif isinstance(node, ast.ListComp | ast.DictComp | ast.GeneratorExp):
            iterables += [generator.iter for generator in node.generators]
    return [f"{iterable.lineno}: iterates over a set" for iterable in iterables if is_set(iterable)]


def is_set(node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ("set", "frozenset")
    return isinstance(node, ast.Set | ast.SetComp)


@pytest.mark.parametrize("room", ROOMS)
def test_imports_go_one_way(room):
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sources(room)
        for line in wrong_directions(room, path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize("room", PURE)
def test_the_pure_rooms_see_nothing_of_the_world(room):
    found = [f"{path.relative_to(ROOT)}:{line}" for path in sources(room) for line in worldly(path.read_text())]
    assert found == []


@pytest.mark.parametrize("room", PURE)
def test_the_pure_rooms_iterate_over_no_set(room):
    found = [f"{path.relative_to(ROOT)}:{line}" for path in sources(room) for line in iterated_sets(path.read_text())]
    assert found == []


def test_every_room_has_sources():
    """Else the tests above would pass on nothing."""
    assert [room for room in ROOMS if room != "proto" and len(sources(room)) < 3] == []


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (lambda text: wrong_directions("events", text), "from streams.log import Log"),
        (lambda text: wrong_directions("projections", text), "import streams.log"),
        (lambda text: wrong_directions("streams", text), "from . import log"),
        (lambda text: wrong_directions("streams", text), "from tests.core import x"),
        (worldly, "def f():\n    import time"),
        (worldly, "from os.path import join"),
        (worldly, "x = open('y')"),
        (iterated_sets, "for x in {1, 2}: pass"),
        (iterated_sets, "y = [x for x in set(z)]"),
    ],
)
def test_each_check_finds_what_it_is_for(check, text):
    assert len(check(text)) == 1


@pytest.mark.parametrize("text", ["from events.facts import Fact", "x = sorted({1})", "for x in sorted(set(y)): pass"])
def test_what_is_allowed_passes(text):
    assert wrong_directions("streams", text) + worldly(text) + iterated_sets(text) == []
