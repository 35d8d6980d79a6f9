"""The mutations: one-line breakages of the code, each with the test that must turn red. Read from the `.toml` files beside this one.

A record is a `[[mutation]]` table: `file` and `find`, which stands in it exactly once, `replace`, `test` as `path::name`, `what` the
breakage is in a few words, and an `id` where others call it by one.
"""

import ast
import tomllib
from dataclasses import dataclass
from pathlib import Path

FOLDER = "tests/mutations"
FIELDS = frozenset({"id", "what", "file", "find", "replace", "test"})


class InvalidCatalogue(ValueError):
    """A record of the catalogue cannot be read."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One breakage. `source` is the catalogue's file it stands in."""

    source: str
    id: str
    what: str
    file: str
    find: str
    replace: str
    test: str

    @property
    def name(self) -> str:
        """What it is called in a report."""
        return f"{self.id}: {self.what}" if self.id else self.what

    def applied_to(self, text: str) -> str:
        """The file's text with the breakage in it. Raises InvalidCatalogue where `find` does not stand in it exactly once."""
        count = text.count(self.find)
        if count != 1:
            raise InvalidCatalogue(f"{self.source}: {self.name}: `find` stands {count} times in {self.file}, not once")
        return text.replace(self.find, self.replace)


def read_catalogue(root: Path) -> list[Mutation]:
    """Every mutation below `root`, file by file in the order of their names. Raises InvalidCatalogue with the place and the rule."""
    found: list[Mutation] = []
    for path in sorted((root / FOLDER).glob("*.toml")):
        try:
            records = tomllib.loads(path.read_text())["mutation"]
        except (tomllib.TOMLDecodeError, KeyError) as error:
            raise InvalidCatalogue(f"{path.name}: no list of [[mutation]] tables: {error}") from error
        found += [_read(path.name, number, record) for number, record in enumerate(records, start=1)]
    return found


def _read(source: str, number: int, record: dict[str, object]) -> Mutation:
    unknown = sorted(record.keys() - FIELDS)
    missing = sorted(FIELDS - {"id"} - record.keys())
    if unknown or missing or not all(isinstance(value, str) for value in record.values()):
        what = f"unknown {unknown}" if unknown else f"missing {missing}" if missing else "a value is no string"
        raise InvalidCatalogue(f"{source}: mutation {number}: {what}; fields are {sorted(FIELDS)}, id may be left out")
    values = {name: str(record.get(name, "")) for name in FIELDS}
    if values["find"] == values["replace"] or not values["find"]:
        raise InvalidCatalogue(f"{source}: mutation {number}: `find` is empty, or the same as `replace`")
    return Mutation(source, **values)


def defects(root: Path, mutations: list[Mutation]) -> list[str]:
    """What is wrong with the catalogue as it stands beside this tree: files, finds, replaced code that does not parse, tests."""
    found: list[str] = []
    tests: dict[str, set[str]] = {}
    for mutation in mutations:
        where = f"{mutation.source}: {mutation.name}"
        path = root / mutation.file
        if not path.is_file():
            found.append(f"{where}: there is no {mutation.file}")
            continue
        try:
            changed = mutation.applied_to(path.read_text())
            if path.suffix == ".py":
                ast.parse(changed)
        except InvalidCatalogue as error:
            found.append(str(error))
        except SyntaxError as error:
            found.append(f"{where}: {mutation.file} does not parse with it: {error}")
        file, _, name = mutation.test.partition("::")
        if file not in tests:
            tests[file] = _tests_in(root / file)
        if name.partition("[")[0] not in tests[file]:
            found.append(f"{where}: there is no test {mutation.test}")
    return found


def _tests_in(path: Path) -> set[str]:
    if not path.is_file():
        return set()
    functions = (node for node in ast.walk(ast.parse(path.read_text())))
    return {node.name for node in functions if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
