"""The house rules that a machine can check: sizes, names, READMEs, and words that do not belong into the repository."""

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_LINES = 500
ROOMS = ("proto", "events", "projections", "streams", "infra", "tests")

EMPTY_WORDS = ("manager", "helper", "util", "utils", "handler", "common", "misc")
"""Names that say nothing about what a thing is."""

NAMED_BY_THE_CONTRACT = ("proto/headway/v1/common.proto",)
"""Part of the import paths of everyone who compiles the contract."""

# Put together here, so that this file does not hold what it looks for.
FOREIGN = {
    "a path of one machine": re.compile("(?<![\\w.$}-])/(?:" + "|".join(("work", "root", "home/[a-z]+")) + ")/"),
    "a folder outside of the repository": re.compile(r"\.\./" + "shared"),
    "a fixed temporary path": re.compile("(?<![\\w.])/" + "tmp/"),
    "unfinished work": re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b"),
}

INSIDE_AN_IMAGE = ("infra/kafka-image/", "tests/apache_kafka_container.py")
"""Their temporary paths are those of a container."""

TEXT = {".py", ".md", ".proto", ".toml", ".yaml", ".yml", ".json", ".xml", ".txt", ".cfg", ".ini", ".sh", ""}


@cache
def tracked() -> tuple[str, ...]:
    """What git tracks; for a source archive without git, every file but the usual products."""
    asked = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=False)
    if asked.returncode == 0:
        return tuple(sorted(name for name in asked.stdout.decode().split("\0") if name and (ROOT / name).is_file()))
    products = (".venv", "__pycache__", "build", ".git")
    files = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    return tuple(sorted(str(path) for path in files if not any(part.startswith(products) for part in path.parts)))


def ours() -> list[str]:
    return [name for name in tracked() if not name.startswith("proto/gen/")]


def empty_names(text: str) -> list[str]:
    """Definitions whose name holds one of the empty words as a word of its own."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found += [f"{node.lineno}: {node.name}" for word in words(node.name) if word in EMPTY_WORDS]
    return found


def words(name: str) -> list[str]:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")


def unlisted(readme: str, names: list[str]) -> list[str]:
    """Files and folders that a README does not name in code style or as a link."""
    listed = set(re.findall(r"[\w.*-]+(?:/[\w.*-]+)*/?", " ".join(re.findall(r"`([^`]+)`", readme))))
    listed |= {part for name in listed for part in (name.rstrip("/"), name.rsplit("/", 1)[-1])}
    return [name for name in names if name not in listed]


def contents(folder: str) -> list[str]:
    """The tracked files and folders directly in a folder, but what every folder has."""
    below = [name.removeprefix(folder + "/") for name in tracked() if name.startswith(folder + "/")]
    direct = {name.split("/", 1)[0] for name in below}
    return sorted(direct - {"README.md", "__init__.py", ".gitignore", "conftest.py"})


def test_no_source_file_is_longer_than_one_can_read():
    sources = [name for name in ours() if name.endswith((".py", ".proto")) or name.startswith("infra/")]
    counted = {name: len((ROOT / name).read_text(errors="replace").splitlines()) for name in sources}
    assert {name: lines for name, lines in counted.items() if lines > MOST_LINES and not name.endswith(".json")} == {}


def test_nothing_tracked_is_a_symbolic_link():
    """One points at a place on somebody's machine, and a checkout elsewhere follows it."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-s"], capture_output=True, text=True, check=False)
    assert [line for line in listed.stdout.splitlines() if line.startswith("120000")] == []


def test_no_file_has_an_empty_name():
    found = [
        name
        for name in ours()
        if name not in NAMED_BY_THE_CONTRACT and set(re.split(r"[_.-]", Path(name).name.lower())) & set(EMPTY_WORDS)
    ]
    assert found == []


def test_nothing_is_defined_under_an_empty_name():
    found = [
        f"{name}:{line}" for name in ours() if name.endswith(".py") for line in empty_names((ROOT / name).read_text())
    ]
    assert found == []


@pytest.mark.parametrize("what", FOREIGN)
def test_tracked_files_hold_nothing_foreign(what):
    found = []
    for name in ours():
        path = ROOT / name
        if path.suffix in TEXT and not (what == "a fixed temporary path" and name.startswith(INSIDE_AN_IMAGE)):
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1):
                if FOREIGN[what].search(line):
                    found.append(f"{name}:{number}: {line.strip()[:100]}")
    assert found == []


@pytest.mark.parametrize("room", ROOMS)
def test_the_readme_of_a_room_names_everything_in_it(room):
    readme = ROOT / room / "README.md"
    assert readme.is_file(), f"{room}/README.md is missing: it says what lives there, one line per file"
    assert unlisted(readme.read_text(), contents(room)) == []


def test_a_folder_with_a_readme_of_its_own_has_everything_named_in_it():
    folders = [name.removesuffix("/README.md") for name in tracked() if name.endswith("/README.md")]
    missing = {folder: unlisted((ROOT / folder / "README.md").read_text(), contents(folder)) for folder in folders}
    assert {folder: names for folder, names in missing.items() if names} == {}


def test_every_python_file_says_what_it_is():
    silent = [
        name
        for name in ours()
        if name.endswith(".py")
        and (text := (ROOT / name).read_text()).strip()
        and not ast.get_docstring(ast.parse(text))
    ]
    assert silent == []


def test_the_checks_find_what_they_are_for():
    assert empty_names("class WorkerManager: ...\ndef util_of(): ...\ndef handle(): ...") == [
        "1: WorkerManager",
        "2: util_of",
    ]
    assert unlisted("| `a.py` | x |\n| `b/` | y |", ["a.py", "b", "c.py"]) == ["c.py"]
    assert FOREIGN["a path of one machine"].search("see " + "/wo" + "rk/x")
    assert not FOREIGN["a path of one machine"].search("https://host" + "/wo" + "rk/x")
    assert FOREIGN["unfinished work"].search("# " + "TO" + "DO")
